//! `admin users`: manages the users of an account's dashboard. Passwords are generated, and printed once.

use std::error::Error;

use clap::Subcommand;
use domain::ids::AccountId;
use email_address::EmailAddress;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use shared::account::password::{PasswordHash, generate};
use shared::account::{Role, TokenGeneration, User, UserChange};
use shared::random;

use crate::enum_parser::enum_parser;
use crate::output::print_list;
use crate::target::Stack;
use crate::{OperatorArguments, print_json, print_once};

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// List the users of an account's dashboard
    List {
        /// The account (acc_…)
        account: AccountId,
    },
    /// Add a user and print the generated password, which is shown only once
    Add {
        /// The account (acc_…)
        account: AccountId,
        /// The user's email address, which must not belong to any other user of any account
        #[arg(long, value_parser = email)]
        email: String,
        /// The user's role: owner and admin manage API keys, member can only list them
        #[arg(long, value_parser = enum_parser::<Role>())]
        role: Role,
        #[command(flatten)]
        operator: OperatorArguments,
    },
    /// Change a user's role, from the user's next request on
    SetRole {
        /// The account (acc_…)
        account: AccountId,
        /// The user's email address
        #[arg(long, value_parser = email)]
        email: String,
        /// The new role
        #[arg(long, value_parser = enum_parser::<Role>())]
        role: Role,
        #[command(flatten)]
        operator: OperatorArguments,
    },
    /// Replace a user's password and end all sessions of the user; the new password is printed only once
    ResetPassword {
        /// The account (acc_…)
        account: AccountId,
        /// The user's email address
        #[arg(long, value_parser = email)]
        email: String,
        #[command(flatten)]
        operator: OperatorArguments,
    },
    /// Remove a user and end all sessions of the user; the account's API keys remain valid
    Remove {
        /// The account (acc_…)
        account: AccountId,
        /// The user's email address
        #[arg(long, value_parser = email)]
        email: String,
        #[command(flatten)]
        operator: OperatorArguments,
    },
}

fn email(text: &str) -> Result<String, String> {
    let is_plain = !text.contains(['<', '>', '"']) && EmailAddress::is_valid(text);
    if is_plain { Ok(text.to_lowercase()) } else { Err("must be an e-mail address".to_owned()) }
}

pub(crate) async fn run(stack: &Stack, command: Command) -> Result<(), Box<dyn Error>> {
    let now = stack.clock.now();
    let change = |account: AccountId, email: String, change: UserChange, operator: OperatorArguments| async move {
        let user = (&account, email.as_str());
        stack.users.change(user, &change, &operator.operator(), now).await
    };
    match command {
        Command::List { account } => {
            let users = stack.users.list(&stack.existing_account(&account).await?.id).await?;
            print_list(stack, "users", users.iter().map(view))
        }
        Command::Add { account, email, role, operator } => {
            let account = stack.existing_account(&account).await?.id;
            let (password, hash) = new_password()?;
            let tokens = TokenGeneration::new(random::bytes()?);
            let user = User::new(&email, hash, account, role, tokens, now);
            stack.users.add(&user, &operator.operator(), now).await?;
            print_once(&with_password(&user, &password))
        }
        Command::SetRole { account, email, role, operator } => {
            print_json(&view(&change(account, email, UserChange::Role(role), operator).await?))
        }
        Command::ResetPassword { account, email, operator } => {
            let (password, hash) = new_password()?;
            let new_password = UserChange::Password(hash, TokenGeneration::new(random::bytes()?));
            let user = change(account, email, new_password, operator).await?;
            print_once(&with_password(&user, &password))
        }
        Command::Remove { account, email, operator } => {
            let mut removed = view(&change(account, email, UserChange::Remove, operator).await?);
            if let Some(fields) = removed.as_object_mut() {
                fields.insert("removed".to_owned(), true.into());
            }
            print_json(&removed)
        }
    }
}

fn new_password() -> Result<(SecretString, PasswordHash), Box<dyn Error>> {
    let password = generate(random::bytes()?);
    let hash = PasswordHash::of(&password)?;
    Ok((password, hash))
}

fn view(user: &User) -> Value {
    json!({"id": user.id, "email": user.email, "role": user.role, "created_at": user.created_at})
}

fn with_password(user: &User, password: &SecretString) -> Value {
    let mut shown = view(user);
    if let Some(fields) = shown.as_object_mut() {
        fields.insert("password".to_owned(), password.expose_secret().into());
    }
    shown
}
