//! `admin accounts set-acquirer`, `show-acquirer` and `remove-acquirer`: configure the acquirer of an
//! account's live payments. Secrets are read from a file, a terminal or standard input, and are never
//! printed.

use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal, Read};
use std::path::{Path, PathBuf};

use clap::Subcommand;
use domain::ids::AccountId;
use domain::pix_key::PixKey;
use secrecy::SecretString;
use serde_json::{Value, json};
use shared::acquirer::configuration::{
    AccountAcquirer, AccountAcquirers, AcquirerKind, AcquirerSettings, AcquirerUrl, AcquirerView, ClientId,
    ClientIdentity, ClientSecret, MAX_PEM_BYTES,
};

use crate::enum_parser::enum_parser;
use crate::target::Stack;
use crate::{OperatorArguments, print_json, print_stack};

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Set the acquirer of an account's live payments
    ///
    /// On a terminal, the command prompts for the client secret. Otherwise it reads the secret from standard
    /// input.
    #[command(name = "set-acquirer")]
    Set(Box<SetAcquirer>),
    /// Show an account's acquirer, with fingerprints instead of its secrets
    #[command(name = "show-acquirer")]
    Show {
        /// The account (acc_…)
        id: AccountId,
    },
    /// Remove an account's acquirer
    #[command(name = "remove-acquirer")]
    Remove {
        /// The account (acc_…)
        id: AccountId,
        #[command(flatten)]
        operator: OperatorArguments,
    },
}

#[derive(clap::Args, Debug)]
pub(crate) struct SetAcquirer {
    /// The account (acc_…)
    id: AccountId,
    /// The kind of acquirer; pix: any bank that implements the Central Bank's API Pix
    #[arg(value_parser = enum_parser::<AcquirerKind>())]
    kind: AcquirerKind,
    /// The base URL of the acquirer's API, to which paths such as /cob/{txid} are appended
    #[arg(long, value_name = "URL")]
    base_url: String,
    /// The OAuth 2 token endpoint for the client credentials grant
    #[arg(long, value_name = "URL")]
    token_url: String,
    /// The OAuth 2 client id that the acquirer issued
    #[arg(long)]
    client_id: ClientId,
    /// The merchant's Pix key, which receives the payments
    #[arg(long)]
    pix_key: PixKey,
    /// PEM file with the client certificate for mutual TLS, followed by its chain of issuers
    #[arg(long, value_name = "FILE", requires = "private_key")]
    certificate: Option<PathBuf>,
    /// PEM file with the private key of the client certificate
    #[arg(long, value_name = "FILE", requires = "certificate")]
    private_key: Option<PathBuf>,
    /// Set this if the acquirer can also send Pix payments; refunds by cash-out need that
    #[arg(long)]
    send_pix: bool,
    #[command(flatten)]
    operator: OperatorArguments,
}

pub(crate) async fn run(stack: &Stack, command: Command) -> Result<(), Box<dyn Error>> {
    let acquirers = AccountAcquirers::new(stack.store.clone());
    let now = stack.clock.now();
    let no_acquirer = |id: &AccountId| format!("the account {id} has no acquirer");
    match command {
        Command::Set(arguments) => {
            let account = stack.existing_account(&arguments.id).await?.id;
            let operator = arguments.operator.clone().operator();
            let settings = arguments.settings(stack)?;
            print_stack(stack);
            print_json(&view(&acquirers.set(account, &settings, &operator, now).await?)?)
        }
        Command::Show { id } => {
            let account = stack.existing_account(&id).await?.id;
            print_json(&view(&acquirers.find(&account).await?.ok_or_else(|| no_acquirer(&account))?)?)
        }
        Command::Remove { id, operator } => {
            let account = stack.existing_account(&id).await?.id;
            print_stack(stack);
            let removed = acquirers.remove(account, &operator.operator(), now).await?;
            let mut removed = view(&removed.ok_or_else(|| no_acquirer(&account))?)?;
            if let Some(fields) = removed.as_object_mut() {
                fields.insert("removed".to_owned(), true.into());
            }
            print_json(&removed)
        }
    }
}

impl SetAcquirer {
    /// Checks the arguments, and reads the client secret last, so that invalid arguments fail before the
    /// prompt.
    fn settings(&self, stack: &Stack) -> Result<AcquirerSettings, Box<dyn Error>> {
        let policy = stack.address_policy();
        let named = |argument: &'static str| move |error| format!("--{argument}: {error}");
        let identity = match self.certificate.as_deref().zip(self.private_key.as_deref()) {
            Some((certificate, key)) => {
                Some(ClientIdentity::new(&read_text_file(certificate)?, read_text_file(key)?.into())?)
            }
            None => None,
        };
        Ok(AcquirerSettings {
            kind: self.kind,
            base_url: AcquirerUrl::base(&self.base_url, &policy).map_err(named("base-url"))?,
            token_url: AcquirerUrl::token(&self.token_url, &policy).map_err(named("token-url"))?,
            client_id: self.client_id.clone(),
            identity,
            pix_key: self.pix_key.clone(),
            send_pix: self.send_pix,
            client_secret: ClientSecret::new(read_secret("client secret")?)
                .map_err(|error| format!("the client secret {error}"))?,
        })
    }
}

fn read_text_file(path: &Path) -> Result<String, Box<dyn Error>> {
    let with_path = |error: &dyn Error| format!("{}: {error}", path.display());
    let mut text = String::new();
    // Reads at most one byte more than the limit. If the file is too long, `ClientIdentity::new` then rejects
    // the text, because it is longer than the limit.
    let bound = u64::try_from(MAX_PEM_BYTES)?.saturating_add(1);
    let file = File::open(path).map_err(|error| with_path(&error))?;
    file.take(bound).read_to_string(&mut text).map_err(|error| with_path(&error))?;
    Ok(text)
}

/// The maximum length of a line that is read from standard input, in bytes.
const MAX_LINE_BYTES: u64 = 4_096;

/// Reads a secret: prompts for it on a terminal, without echo, or reads one line of standard input.
///
/// A secret is never an argument, because every process of the machine can read the arguments of the others.
fn read_secret(name: &str) -> Result<SecretString, Box<dyn Error>> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        return Ok(rpassword::prompt_password(format!("{name}: "))?.into());
    }
    let mut line = String::new();
    let mut input = BufReader::new(stdin.lock().take(MAX_LINE_BYTES));
    input.read_line(&mut line)?;
    // Rejects several lines and a line that is too long, because a part of the secret would be lost silently.
    // The check looks only at bytes that were already read, so it does not wait for more input.
    if !input.buffer().is_empty() || (!line.ends_with('\n') && input.get_ref().limit() == 0) {
        return Err(format!(
            "{name}: standard input has more than one line, or a line of {MAX_LINE_BYTES} bytes or more"
        )
        .into());
    }
    Ok(line.trim_end_matches(['\r', '\n']).into())
}

fn view(acquirer: &AccountAcquirer) -> Result<Value, serde_json::Error> {
    let mut shown = serde_json::to_value(AcquirerView::new(&acquirer.settings))?;
    if let Some(fields) = shown.as_object_mut() {
        fields.insert("account".to_owned(), json!(acquirer.account));
        fields.insert("updated_at".to_owned(), json!(acquirer.updated_at));
    }
    Ok(shown)
}
