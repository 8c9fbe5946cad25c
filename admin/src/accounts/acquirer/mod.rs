//! `admin accounts set-acquirer` and the other commands about the acquirer of an account's live payments.
//! Secrets are read from a file, a terminal or standard input, and are never printed. Only the URL for the
//! bank's notifications and the MED secret, which the service creates, are printed once.

mod arguments;
mod bank;
mod btcpay;
mod check;
mod needed;
mod secret_files;
mod signed;
mod stripe;

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;

use acquirer_core::configuration::{
    AcquirerChange, AcquirerChoice, ConfiguredAcquirer, ConnectionName, Credentials, KindSettings,
    SettingsError,
};
use clap::Subcommand;
use domain::account::terms::MethodTerms;
use domain::audit::{Action, Operator};
use domain::ids::{AccountId, ConnectionId};
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use self::arguments::{Kind, SetAcquirer, SetPix, SetStripe, known, read_identity, read_named_secret};
use self::bank::{Registered, connect};
use self::check::CheckAcquirer;
use super::AccountArguments;
use crate::output::print_changes;
use crate::target::Stack;
use crate::{CommandOutcome, OperatorArguments, Result, print_json, print_once};

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Set the acquirer of an account's live payments, and register the URL for notifications at the bank
    ///
    /// With the name of a connection that the account has, only the named options change. The credentials and the
    /// Pix key are tried before they replace earlier ones, the key by a cob of one centavo that is removed again. A
    /// URL with a new token is printed once.
    #[command(name = "set-acquirer")]
    Set(Box<SetAcquirer>),
    /// Renew the client certificate of a bank after a trial; all else stays
    SetCertificate(SetCertificate),
    /// Renew the secret of a connection after a trial; all else stays
    ///
    /// It is the client secret of a bank, and the API key of another acquirer.
    RotateSecret(RotateSecret),
    /// Show an account's acquirer, with fingerprints instead of its secrets
    #[command(name = "show-acquirer")]
    Show {
        /// The account (acc_…)
        id: AccountId,
    },
    /// Check what works at an account's bank; exit code 1 if something fails
    #[command(name = "check-acquirer")]
    Check(Box<CheckAcquirer>),
    /// Remove an account's acquirer, so that the account can create no live charges by its methods
    ///
    /// The credentials and the URL there remain, so that open charges, refunds and returns end.
    /// `forget-acquirer` removes them.
    #[command(name = "remove-acquirer")]
    Remove {
        /// The account (acc_…)
        id: AccountId,
        /// The name of the connection [default: the bank of Pix]
        #[arg(long)]
        name: Option<ConnectionName>,
        #[command(flatten)]
        operator: OperatorArguments,
    },
    /// Remove the credentials of an acquirer that the account replaced or removed, and its URL there
    ///
    /// Afterwards the account's charges, refunds and returns at this acquirer can't end. So it is refused while any is open.
    #[command(name = "forget-acquirer")]
    Forget(Forget),
    /// Create another token for the URL of notifications, and register that URL at the acquirer
    ///
    /// At a bank, the URL is printed once, and the earlier token remains valid until --drop-old. At an acquirer that signs
    /// its notifications, the secret is renewed too.
    RotateCallbackToken(Rotate),
    /// Replace the secret that signs MED notifications; it is printed once
    RotateMedSecret(Changed),
}

#[derive(clap::Args, Debug)]
pub(crate) struct Changed {
    /// The account (acc_…)
    id: AccountId,
    /// The name of the connection [default: the only one, or the bank of Pix]
    #[arg(long)]
    name: Option<ConnectionName>,
    #[command(flatten)]
    operator: OperatorArguments,
}

#[derive(clap::Args, Debug)]
pub(crate) struct SetCertificate {
    #[command(flatten)]
    changed: Changed,
    /// PEM file with the client certificate for mutual TLS, followed by its chain of issuers
    #[arg(long, value_name = "FILE")]
    certificate: PathBuf,
    /// PEM file with the private key of the client certificate
    #[arg(long, value_name = "FILE")]
    private_key: PathBuf,
    /// Do not try the certificate at the bank before it replaces the earlier one
    #[arg(long)]
    no_check: bool,
}

#[derive(clap::Args, Debug)]
pub(crate) struct RotateSecret {
    #[command(flatten)]
    changed: Changed,
    /// File with the new secret, one line; `-` is a prompt, or standard input
    #[arg(long, value_name = "FILE", default_value = "-")]
    secret_file: PathBuf,
    /// Do not try the secret before it replaces the earlier one; for banks of Pix only
    #[arg(long)]
    no_check: bool,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Rotate {
    #[command(flatten)]
    changed: Changed,
    /// Create no token; remove all tokens but the newest, if the bank uses that one
    #[arg(long)]
    drop_old: bool,
    /// Do not call the bank: neither read which URL is registered there, nor register one
    #[arg(long)]
    no_register_webhook: bool,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Forget {
    /// The account (acc_…)
    id: AccountId,
    /// The bank connection, as `show-acquirer` lists it in `retired`
    connection: ConnectionId,
    /// Do not call the bank: the URL for notifications remains registered there
    #[arg(long)]
    no_remove_webhook: bool,
    /// Forget it although charges, refunds, returns or disputes there are open and then can't end
    #[arg(long)]
    although_needed: bool,
    #[command(flatten)]
    operator: OperatorArguments,
}

pub(crate) async fn run(stack: &Stack, command: Command) -> Result<CommandOutcome> {
    let acquirers = stack.acquirers()?;
    let now = stack.clock.now();
    match command {
        Command::Set(arguments) => {
            let account = stack.existing_account(&arguments.id).await?.id;
            let all = acquirers.all(&account).await?;
            match &arguments.kind {
                Kind::Pix(pix) => Box::pin(set(stack, account, &all, pix)).await?,
                Kind::Stripe(stripe) => {
                    let (choice, operator) = (stripe.choice(stack, &all)?, stack.operator(&stripe.operator));
                    Box::pin(stripe::set(stack, account, choice, &operator)).await?;
                    Box::pin(keep_fees(stack, account, stripe)).await?;
                }
                Kind::Btcpay(btcpay) => {
                    let (choice, operator) = (btcpay.choice(stack, &all)?, stack.operator(&btcpay.operator));
                    Box::pin(btcpay::set(stack, account, &choice, &operator)).await?;
                }
            }
        }
        Command::SetCertificate(SetCertificate { changed, certificate, private_key, no_check }) => {
            let renew = |credentials: &mut Credentials| {
                let pix = credentials.pix_mut().ok_or("the connection is to no bank of Pix")?;
                pix.identity = Some(read_identity(stack, &certificate, &private_key)?);
                Ok(())
            };
            Box::pin(renew_credentials(stack, changed, no_check, renew)).await?;
        }
        Command::RotateSecret(RotateSecret { changed, secret_file, no_check }) => {
            let renew = |credentials: &mut Credentials| {
                let (secret, name) = match credentials {
                    Credentials::Pix(pix) => (&mut pix.client_secret, "client secret"),
                    Credentials::Stripe(stripe) => (&mut stripe.api_key, "key"),
                    Credentials::Btcpay(btcpay) => (&mut btcpay.api_key, "key"),
                };
                *secret = read_named_secret(stack, Some(&secret_file), name)?;
                Ok(())
            };
            Box::pin(renew_credentials(stack, changed, no_check, renew)).await?;
        }
        Command::Show { id } => {
            let account = stack.existing_account(&id).await?.id;
            let (current, retired): (Vec<_>, Vec<_>) =
                acquirers.all(&account).await?.into_iter().partition(|each| !each.acquirer.is_retired);
            if current.is_empty() && retired.is_empty() {
                return Err(SettingsError::NoAcquirer(account).into());
            }
            let mut shown =
                current.first().map_or_else(|| json!({"account": account}), ConfiguredAcquirer::view);
            let others = current.get(1..).unwrap_or_default();
            for (field, acquirers) in [("others", others), ("retired", &retired)] {
                if let Some(fields) = shown.as_object_mut().filter(|_| !acquirers.is_empty()) {
                    let views: Vec<Value> = acquirers.iter().map(ConfiguredAcquirer::view).collect();
                    fields.insert(field.to_owned(), views.into());
                }
            }
            print_json(&shown)?;
        }
        Command::Check(arguments) => return Box::pin(check::run(stack, &arguments)).await,
        Command::Remove { id, name, operator } => {
            let account = stack.existing_account(&id).await?.id;
            let removed =
                Box::pin(acquirers.remove(account, name.as_ref(), &stack.operator(&operator), now)).await?;
            print_json(&marked(&removed, "removed"))?;
        }
        Command::Forget(arguments) => Box::pin(forget(stack, arguments)).await?,
        Command::RotateCallbackToken(rotate) => Box::pin(rotate_callback_token(stack, rotate)).await?,
        Command::RotateMedSecret(Changed { id, name, operator }) => {
            let account = stack.existing_account(&id).await?.id;
            let operator = stack.operator(&operator);
            let rotated = acquirers.rotate_med_secret(account, name.as_ref(), &operator, now);
            let secret = Box::pin(rotated).await?;
            print_once(&json!({"account": account, "med_secret": secret.expose_secret()}))?;
        }
    }
    Ok(CommandOutcome::Succeeded)
}

async fn set(
    stack: &Stack,
    account: AccountId,
    all: &[ConfiguredAcquirer],
    arguments: &SetPix,
) -> Result<()> {
    let choice = arguments.choice(stack, all)?;
    let (name, operator) = (choice.settings.name.clone(), stack.operator(&arguments.operator));
    let before = known(all, &name);
    let (client, set) =
        Box::pin(set_bank(stack, account, (before, &choice, &operator), arguments.no_check)).await?;
    if let Some(url) = &set.new_callback_url {
        print_once(&json!({"callback_url": url.expose_secret()}))?;
    }
    if arguments.no_register_webhook {
        writeln!(std::io::stderr(), "the URL was not registered at the bank")?;
        return Ok(());
    }
    let registered = match &set.new_callback_url {
        Some(url) => bank::register(&client, &set.current.acquirer, url).await,
        // The earlier token can't be registered again, because only its hash is stored.
        None => match bank::registered(&client, &set.current.acquirer).await {
            Ok(Registered::Ours(_)) => Ok(()),
            Ok(Registered::Nothing | Registered::Other) => Err(bank::not_ours(account).into()),
            Err(error) => {
                Err(format!("the acquirer is set, but the registered URL can't be read: {error}").into())
            }
        },
    };
    registered.map_err(at_bank(account, &name))
}

/// Tries the credentials of a bank, sets them, and prints what changed.
async fn set_bank(
    stack: &Stack,
    account: AccountId,
    (before, choice, operator): (Option<&ConfiguredAcquirer>, &AcquirerChoice, &Operator),
    no_check: bool,
) -> Result<(api_pix::Client, AcquirerChange)> {
    let now = stack.clock.now();
    let settings = &choice.settings;
    let pix = settings.pix_connection(&choice.credentials).ok_or("the connection is to no bank of Pix")?;
    let client = connect(stack, &pix)?;
    if no_check {
        writeln!(std::io::stderr(), "the credentials were not tried")?;
    } else {
        let key = &settings.pix().ok_or("the connection is to no bank of Pix")?.pix_key;
        let tried = Box::pin(bank::try_credentials(&client, key, now)).await;
        tried.map_err(at_bank(account, &settings.name))?;
    }
    let set = Box::pin(stack.set_acquirer(account, choice, operator)).await?;
    print_set(before, &set.current, &set.replaced)?;
    print_json(&set.current.view())?;
    Ok((client, set))
}

/// Renews a part of a connection's credentials. The settings and the registered URL stay.
async fn renew_credentials(
    stack: &Stack,
    Changed { id, name, operator }: Changed,
    no_check: bool,
    renew: impl FnOnce(&mut Credentials) -> Result<()>,
) -> Result<()> {
    let account = stack.existing_account(&id).await?.id;
    let found = stack.acquirers()?.named(account, name.as_ref()).await?;
    if no_check && found.acquirer.settings.pix().is_none() {
        return Err("--no-check is for banks of Pix only".into());
    }
    let (mut choice, operator) = (found.choice(), stack.operator(&operator));
    renew(&mut choice.credentials)?;
    choice.check()?;
    match &choice.settings.kind {
        KindSettings::Pix(_) => {
            Box::pin(set_bank(stack, account, (Some(&found), &choice, &operator), no_check)).await?;
            Ok(())
        }
        KindSettings::Stripe(_) => Box::pin(stripe::set(stack, account, choice, &operator)).await,
        KindSettings::Btcpay(_) => Box::pin(btcpay::set(stack, account, &choice, &operator)).await,
    }
}

/// Sets whether a refund returns the fees, which an operator must say, because Stripe keeps its own.
async fn keep_fees(stack: &Stack, account: AccountId, arguments: &SetStripe) -> Result<()> {
    let Some(fees) = arguments.fees_on_refund else { return Ok(()) };
    let found = stack.acquirers()?.named(account, Some(&arguments.name)).await?;
    for method in found.acquirer.settings.methods() {
        let of = AccountArguments { id: account, operator: arguments.operator.clone() };
        let set = |terms: &mut MethodTerms| terms.fees_on_refund = fees;
        Box::pin(of.terms(stack, Action::SetFeesOnRefund, *method, set)).await?;
    }
    Ok(())
}

/// Prints what a change of a connection changed, and which connections it has retired.
fn print_set(
    before: Option<&ConfiguredAcquirer>,
    after: &ConfiguredAcquirer,
    replaced: &[ConfiguredAcquirer],
) -> Result<()> {
    if let Some(before) = before {
        print_changes(&before.view(), &after.view())?;
    }
    for left in replaced {
        let settings = &left.acquirer.settings;
        let methods: Vec<&str> = settings.methods().iter().map(|method| method.as_str()).collect();
        writeln!(
            std::io::stderr(),
            "the connection {} gets no new charges by {} any more; it is retired",
            settings.name,
            methods.join(", ")
        )?;
    }
    Ok(())
}

/// Adds the account and the name of the connection to an error of a bank.
fn at_bank(account: AccountId, name: &ConnectionName) -> impl Fn(Box<dyn Error>) -> Box<dyn Error> {
    move |error| format!("account {account}, connection {name}: {error}").into()
}

async fn rotate_callback_token(stack: &Stack, rotate: Rotate) -> Result<()> {
    let Changed { id, name, operator } = rotate.changed;
    let (acquirers, operator, now) = (stack.acquirers()?, stack.operator(&operator), stack.clock.now());
    let account = stack.existing_account(&id).await?.id;
    let found = acquirers.named(account, name.as_ref()).await?;
    if found.acquirer.settings.pix().is_none() {
        if rotate.drop_old || rotate.no_register_webhook {
            return Err("--drop-old and --no-register-webhook are for banks of Pix only".into());
        }
        Box::pin(signed::rotate(stack, account, &found, &operator)).await?;
        return print_json(&acquirers.named(account, name.as_ref()).await?.view());
    }
    let client = connect(stack, &found.pix_connection()?)?;
    let acquirer = found.acquirer;
    let name = &acquirer.settings.name;
    let in_use = match Box::pin(bank::token_in_use(&client, &acquirer)).await {
        // The token that the bank uses must not be dropped.
        Err(_) if rotate.no_register_webhook && !rotate.drop_old && acquirer.callback.tokens.len() > 1 => {
            let why = "two tokens are valid, and the bank does not say which one it uses: register the newest \
                       URL there, then run the command with --drop-old";
            return Err(why.into());
        }
        Err(_) if rotate.no_register_webhook => None,
        in_use => in_use.map_err(at_bank(account, name))?,
    };
    if rotate.drop_old {
        let newest = acquirer.callback.tokens.last().map(|token| &token.sha256);
        if !rotate.no_register_webhook && in_use.as_ref() != newest {
            return Err("nothing was changed, because the bank does not use the newest token".into());
        }
        let changed =
            Box::pin(acquirers.drop_old_callback_tokens(account, Some(name), &operator, now)).await?;
        return print_json(&json!({"account": account, "callback": changed.callback.view()}));
    }
    let rotated = acquirers.rotate_callback_token(account, Some(name), in_use.as_deref(), &operator, now);
    let (changed, url) = Box::pin(rotated).await?;
    print_json(&json!({"account": account, "callback": changed.callback.view()}))?;
    print_once(&json!({"callback_url": url.expose_secret()}))?;
    if rotate.no_register_webhook {
        writeln!(std::io::stderr(), "the URL was not registered at the bank")?;
        return Ok(());
    }
    bank::register(&client, &acquirer, &url).await.map_err(at_bank(account, name))
}

/// Forgets a retired acquirer. The URL is removed at the bank first, because that needs the credentials.
async fn forget(stack: &Stack, arguments: Forget) -> Result<()> {
    let acquirers = stack.acquirers()?;
    let now = stack.clock.now();
    let account = stack.existing_account(&arguments.id).await?.id;
    let connection = arguments.connection;
    let found = acquirers.retired(account, connection).await?;
    if let Some(counts) = needed::count(stack, account, connection).await? {
        let needed = format!("the connection is still needed, and these can't end without it: {counts}");
        if !arguments.although_needed {
            return Err(format!("{needed}. Nothing was changed: wait, or add --although-needed").into());
        }
        writeln!(std::io::stderr(), "warning: {needed}")?;
    }
    if arguments.no_remove_webhook {
        writeln!(std::io::stderr(), "the URL was not removed at the bank")?;
    } else if stack.is_dry_run {
        writeln!(std::io::stderr(), "the URL is not removed in a dry run")?;
    } else if found.acquirer.settings.pix().is_none() {
        Box::pin(signed::unregister(stack, &found)).await?;
    } else {
        let client = connect(stack, &found.pix_connection()?)?;
        let removed = Box::pin(bank::unregister(&client, &found.acquirer)).await;
        removed.map_err(at_bank(account, &found.acquirer.settings.name))?;
    }
    let forgotten =
        Box::pin(acquirers.forget(account, connection, &stack.operator(&arguments.operator), now)).await?;
    print_json(&marked(&forgotten, "forgotten"))
}

/// Returns the view of an acquirer with a field that is true.
fn marked(acquirer: &ConfiguredAcquirer, field: &str) -> Value {
    let mut shown = acquirer.view();
    if let Some(fields) = shown.as_object_mut() {
        fields.insert(field.to_owned(), true.into());
    }
    shown
}
