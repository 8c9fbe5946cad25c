//! `admin accounts … acquirer`: who takes an account's live payments. Secrets come in by a file, or as they are typed, and
//! none goes out.

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

use crate::target::Stack;
use crate::word::word;
use crate::{OperatorArguments, announce, print_json};

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Set who takes an account's live payments. The client secret is asked for, or read from standard input
    #[command(name = "set-acquirer")]
    Set(Box<SetAcquirer>),
    /// An account's acquirer; of its secrets the fingerprints
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
    /// pix: any bank that speaks the Central Bank's API Pix
    #[arg(value_parser = word::<AcquirerKind>())]
    kind: AcquirerKind,
    /// Where its API is: what /cob/{txid} is appended to
    #[arg(long, value_name = "URL")]
    base_url: String,
    /// Where it gives OAuth 2 tokens for client credentials
    #[arg(long, value_name = "URL")]
    token_url: String,
    /// Who we are there
    #[arg(long)]
    client_id: ClientId,
    /// The merchant's Pix key, to which payers pay
    #[arg(long)]
    pix_key: PixKey,
    /// For mutual TLS: the client's certificate in PEM, and after it those that issued it
    #[arg(long, value_name = "FILE", requires = "private_key")]
    certificate: Option<PathBuf>,
    /// For mutual TLS: the certificate's key in PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    private_key: Option<PathBuf>,
    /// It can send a Pix of its own, for refunds by cash-out
    #[arg(long)]
    send_pix: bool,
    #[command(flatten)]
    operator: OperatorArguments,
}

pub(crate) async fn run(stack: &Stack, command: Command) -> Result<(), Box<dyn Error>> {
    let acquirers = AccountAcquirers::new(stack.store.clone());
    let now = stack.clock.now();
    let none = |id: &AccountId| format!("the account {id} has no acquirer");
    match command {
        Command::Set(asked) => {
            let account = stack.account(&asked.id).await?.id;
            let operator = asked.operator.clone().operator();
            let settings = asked.settings(stack)?;
            announce(stack);
            print_json(&view(&acquirers.set(account, &settings, &operator, now).await?)?)
        }
        Command::Show { id } => {
            let account = stack.account(&id).await?.id;
            print_json(&view(&acquirers.find(&account).await?.ok_or_else(|| none(&account))?)?)
        }
        Command::Remove { id, operator } => {
            let account = stack.account(&id).await?.id;
            announce(stack);
            let removed = acquirers.remove(account, &operator.operator(), now).await?;
            let mut gone = view(&removed.ok_or_else(|| none(&account))?)?;
            if let Some(fields) = gone.as_object_mut() {
                fields.insert("removed".to_owned(), true.into());
            }
            print_json(&gone)
        }
    }
}

impl SetAcquirer {
    /// The secret comes last: nobody types it for a command that is refused anyhow.
    fn settings(&self, stack: &Stack) -> Result<AcquirerSettings, Box<dyn Error>> {
        let policy = stack.addresses();
        let of = |argument: &'static str| move |refused| format!("--{argument}: {refused}");
        let identity = match self.certificate.as_deref().zip(self.private_key.as_deref()) {
            Some((certificate, key)) => {
                Some(ClientIdentity::new(&text_of(certificate)?, text_of(key)?.into())?)
            }
            None => None,
        };
        Ok(AcquirerSettings {
            kind: self.kind,
            base_url: AcquirerUrl::base(&self.base_url, &policy).map_err(of("base-url"))?,
            token_url: AcquirerUrl::token(&self.token_url, &policy).map_err(of("token-url"))?,
            client_id: self.client_id.clone(),
            identity,
            pix_key: self.pix_key.clone(),
            send_pix: self.send_pix,
            client_secret: ClientSecret::new(typed("client secret")?)
                .map_err(|refused| format!("the client secret {refused}"))?,
        })
    }
}

fn text_of(path: &Path) -> Result<String, Box<dyn Error>> {
    let because = |error: &dyn Error| format!("{}: {error}", path.display());
    let mut text = String::new();
    // One byte more than may be, so that a longer file is seen to be longer.
    let bound = u64::try_from(MAX_PEM_BYTES)?.saturating_add(1);
    let file = File::open(path).map_err(|error| because(&error))?;
    file.take(bound).read_to_string(&mut text).map_err(|error| because(&error))?;
    Ok(text)
}

/// The longest line that is read from standard input, in bytes.
const MAX_LINE_BYTES: u64 = 4_096;

/// A secret: asked for on a terminal, without showing it; else a line of standard input. Never an argument, which every
/// process of the machine can read.
fn typed(what: &str) -> Result<SecretString, Box<dyn Error>> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        return Ok(rpassword::prompt_password(format!("{what}: "))?.into());
    }
    let mut line = String::new();
    let mut input = BufReader::new(stdin.lock().take(MAX_LINE_BYTES));
    input.read_line(&mut line)?;
    // A file of several lines, or a longer one, would be cut without a word. Whoever types has not gone on yet.
    if !input.buffer().is_empty() || (!line.ends_with('\n') && input.get_ref().limit() == 0) {
        return Err(format!("{what}: standard input has more than a line").into());
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
