//! `admin users`: manages the users of an account's dashboard. Passwords are generated, and printed once.

use std::io::Write;

use clap::{Args, Subcommand};
use domain::ids::{AccountId, UserId};
use email_address::EmailAddress;
use secrecy::{ExposeSecret, SecretString};
use shared::account::password::{PasswordHash, generate};
use shared::account::{Invite, Role, TokenGeneration, User, UserChange, UserError};
use shared::auth::dashboard::forget_second_factor;
use shared::random;

use crate::enum_parser::enum_parser;
use crate::output::{Record, print_list, record};
use crate::target::Stack;
use crate::{OperatorArguments, Result, print_json, print_once};

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// List the users of an account's dashboard, and those who were invited
    List {
        /// The account (acc_…)
        account: AccountId,
    },
    /// Add a user and print the generated password, which is shown only once
    ///
    /// The email address must not belong to any other user of any account.
    Add {
        #[command(flatten)]
        user: UserArguments,
        /// The user's role: owner and admin manage API keys, member can only list them
        #[arg(long, value_parser = enum_parser::<Role>())]
        role: Role,
    },
    /// Change a user's role, from the user's next request on
    SetRole {
        #[command(flatten)]
        user: UserArguments,
        /// The new role
        #[arg(long, value_parser = enum_parser::<Role>())]
        role: Role,
    },
    /// Replace a user's password and end all sessions of the user; the new password is printed only once
    ResetPassword(UserArguments),
    /// Remove the second factor of a user who has lost the phone and the recovery codes
    RemoveSecondFactor(UserArguments),
    /// Remove a user and end all sessions of the user; the account's API keys remain valid
    Remove(UserArguments),
}

impl Command {
    /// Whether the operator who runs it could log in as an owner afterwards, or as the user.
    pub(crate) fn gives_access(&self) -> bool {
        match self {
            Self::ResetPassword(_) | Self::RemoveSecondFactor(_) => true,
            Self::Add { role, .. } | Self::SetRole { role, .. } => *role == Role::Owner,
            Self::List { .. } | Self::Remove(_) => false,
        }
    }
}

/// A user of an account
#[derive(Args, Clone, Debug)]
pub(crate) struct UserArguments {
    /// The account (acc_…)
    account: AccountId,
    /// The user's email address
    #[arg(long, value_parser = email)]
    email: String,
    #[command(flatten)]
    operator: OperatorArguments,
}

impl UserArguments {
    async fn change(self, stack: &Stack, change: UserChange) -> Result<User, UserError> {
        let user = (&self.account, UserId::from_email(&self.email));
        stack.users.change(user, &change, &stack.operator(&self.operator).into(), stack.clock.now()).await
    }
}

fn email(text: &str) -> Result<String, String> {
    let is_plain = !text.contains(['<', '>', '"']) && EmailAddress::is_valid(text);
    if is_plain { Ok(text.to_lowercase()) } else { Err("must be an e-mail address".to_owned()) }
}

pub(crate) async fn run(stack: &Stack, command: Command) -> Result<()> {
    match command {
        Command::List { account } => {
            let account = stack.existing_account(&account).await?.id;
            let team = stack.users.team(&account, stack.clock.now()).await?;
            let sender = |id| team.users.iter().find(|user| user.id == id).map(|user| &user.email);
            let invited = team.invites.iter().map(|invite| invited(invite, sender(invite.by)));
            print_list(stack, "users", team.users.iter().map(view).chain(invited))
        }
        Command::Add { user: UserArguments { account, email, operator }, role } => {
            let now = stack.clock.now();
            let account = stack.existing_account(&account).await?.id;
            let (password, hash) = new_password()?;
            let tokens = TokenGeneration::new(random::bytes()?);
            let user = User::new(&email, hash, account, role, tokens, now);
            stack.users.add(&user, &stack.operator(&operator), now).await?;
            print_once(&with_password(&user, &password))
        }
        Command::SetRole { user, role } => {
            let account = user.account;
            let changed = user.change(stack, UserChange::Role(role)).await?;
            warn_without_owner(stack, &account, None).await?;
            print_json(&view(&changed))
        }
        Command::ResetPassword(user) => {
            let (password, hash) = new_password()?;
            let new_password = UserChange::Password(hash, TokenGeneration::new(random::bytes()?));
            let user = user.change(stack, new_password).await?;
            print_once(&with_password(&user, &password))
        }
        Command::RemoveSecondFactor(user) => {
            let off = UserChange::SecondFactorOff(TokenGeneration::new(random::bytes()?));
            let user = user.change(stack, off).await?;
            forget_seed(stack, &user).await;
            print_json(&view(&user))
        }
        Command::Remove(user) => {
            let account = user.account;
            let user = user.change(stack, UserChange::Remove).await?;
            forget_seed(stack, &user).await;
            warn_without_owner(stack, &account, Some(user.id)).await?;
            print_json(&view(&user).and(record! { removed: true }))
        }
    }
}

/// Says if an account has no owner any more. `removed`: a user who is still listed.
async fn warn_without_owner(stack: &Stack, account: &AccountId, removed: Option<UserId>) -> Result<()> {
    let left = stack.users.team(account, stack.clock.now()).await?.users;
    if left.iter().all(|left| left.role != Role::Owner || Some(left.id) == removed) {
        let hint = "the account has no owner any more: add one with `users add --role owner`";
        writeln!(std::io::stderr(), "{hint}")?;
    }
    Ok(())
}

/// Without the table of secrets, the seed stays. It has no effect.
async fn forget_seed(stack: &Stack, user: &User) {
    if let Some(secrets) = &stack.secrets {
        forget_second_factor(secrets, &user.id).await;
    }
}

fn new_password() -> Result<(SecretString, PasswordHash)> {
    let password = generate(random::bytes()?);
    let hash = PasswordHash::of(&password)?;
    Ok((password, hash))
}

fn view(user: &User) -> Record {
    record! { id: user.id, email: user.email, role: user.role, created_at: user.created_at }
}

fn invited(invite: &Invite, sender: Option<&String>) -> Record {
    let Invite { email, role, created_at, expires_at, .. } = invite;
    record! {
        email: email, role: role, created_at: created_at, invited_until: expires_at, invited_by: sender
    }
}

fn with_password(user: &User, password: &SecretString) -> Record {
    view(user).and(record! { password: password.expose_secret() })
}
