//! Which stack the commands work on: a deployed one, named by its tables, or the one that runs on this machine.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use domain::account::Account;
use domain::ids::AccountId;
use domain::time::Timestamp;
use domain::url_policy::{AddressPolicy, LocalNames};
use event_dispatcher::Dispatcher;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde::Deserialize;
use shared::account::{Accounts, Users};
use shared::api_key::ApiKeys;
use shared::charge::Charges;
use shared::clock::Clock;
use shared::med::MedCases;
use shared::med::evidence::{CaseEvidence, EvidenceFiles};
use shared::payout::Payouts;
use shared::store::{Aws, Store};
use shared::wallet::Wallets;

/// What `cargo run` writes beside its state.
const READY_FILE: &str = ".local/ready.json";

/// The table of keys on this machine, where tables have the names of the template; the ready file does not say it.
const LOCAL_API_KEYS_TABLE: &str = "ApiKeysTable";

/// What the event dispatcher's queues are called on this machine, and where its checkout is.
const LOCAL_DELIVERY_QUEUE: &str = "DeliveryQueue";
const LOCAL_ACQUIRER_QUEUE: &str = "AcquirerQueue";
const LOCAL_MAIL_QUEUE: &str = "MailQueue";
const LOCAL_CHECKOUT: &str = "checkout";

/// The account of the queues on this machine.
const LOCAL_QUEUE_ACCOUNT: &str = "123456789012";

/// Region and credentials that the embedded parts take; S3 alone checks them.
const LOCAL_REGION: &str = "sa-east-1";
const LOCAL_ACCESS_KEY: &str = "local";
const LOCAL_SECRET_KEY: &str = "local-secret";

/// Which stack to work on
#[derive(Args, Debug)]
pub(crate) struct Target {
    /// The state table of a deployed stack (its output `TableName`) [env: `TABLE_NAME`]; credentials and region come from
    /// AWS_* variables
    #[arg(long, global = true, requires = "api_keys_table", help_heading = "Stack")]
    table: Option<String>,
    /// The table of API keys of a deployed stack (its output `ApiKeysTableName`) [env: `API_KEYS_TABLE_NAME`]
    #[arg(long, global = true, requires = "table", help_heading = "Stack")]
    api_keys_table: Option<String>,
    /// The bucket of a deployed stack (its output `DocumentsBucketName`) [env: `DOCUMENTS_BUCKET`], for evidence
    #[arg(long, global = true, conflicts_with = "ready_file", help_heading = "Stack")]
    bucket: Option<String>,
    /// The ready file of a service on this machine [default, where no table is named: .local/ready.json]
    #[arg(long, global = true, value_name = "PATH", conflicts_with = "table", help_heading = "Stack")]
    ready_file: Option<PathBuf>,
}

/// The part of a ready file that matters here.
#[derive(Clone, Debug, Deserialize)]
struct Ready {
    base_url: String,
    dynamodb_url: String,
    sqs_url: String,
    s3_url: String,
    table: String,
    bucket: String,
}

/// A stack, opened.
#[derive(Clone, Debug)]
pub(crate) struct Stack {
    /// What it is, for whoever reads the command's output.
    pub(crate) name: String,
    /// Its state table.
    pub(crate) store: Store,
    /// Its accounts.
    pub(crate) accounts: Accounts,
    /// Who may log in.
    pub(crate) users: Users,
    /// Their keys.
    pub(crate) api_keys: ApiKeys,
    /// Its charges.
    pub(crate) charges: Charges,
    /// Its wallets.
    pub(crate) wallets: Wallets,
    /// Its payouts.
    pub(crate) payouts: Payouts,
    /// Its MED cases.
    pub(crate) cases: MedCases,
    /// Their evidence, where its bucket is named.
    evidence: Option<CaseEvidence>,
    /// Its time: on this machine it may have been moved.
    pub(crate) clock: Clock,
    aws: Aws,
    /// The service on this machine; `None`: a deployed stack.
    local: Option<Ready>,
}

impl Target {
    /// The tables of a deployed stack. An explicit ready file wins over variables.
    fn tables(&self) -> Result<Option<(String, String)>, String> {
        if self.ready_file.is_some() {
            return Ok(None);
        }
        let named = |argument: &Option<String>, name: &str| argument.clone().or_else(|| env::var(name).ok());
        match (named(&self.table, "TABLE_NAME"), named(&self.api_keys_table, "API_KEYS_TABLE_NAME")) {
            (Some(table), Some(keys)) => Ok(Some((table, keys))),
            (None, None) => Ok(None),
            // Half a stack must not become another one.
            (Some(_), None) => Err("TABLE_NAME is set and API_KEYS_TABLE_NAME is not".to_owned()),
            (None, Some(_)) => Err("API_KEYS_TABLE_NAME is set and TABLE_NAME is not".to_owned()),
        }
    }

    /// Opens the stack.
    ///
    /// # Errors
    ///
    /// When the service on this machine does not run, or the environment has no credentials.
    pub(crate) async fn open(&self) -> Result<Stack, Box<dyn Error>> {
        if let Some((table, keys)) = self.tables()? {
            let aws = Aws::from_vars(&|name| env::var(name).ok())?;
            let name = format!("the stack with the table {table}");
            let bucket = self.bucket.clone().or_else(|| env::var("DOCUMENTS_BUCKET").ok());
            return Ok(stack(aws, name, (table, keys, bucket), Clock::default(), None));
        }
        let path = self.ready_file.clone().unwrap_or_else(|| PathBuf::from(READY_FILE));
        let ready = read(&path)?;
        let clock = clock_of(&ready).await.map_err(|error| not_running(&path, &*error))?;
        let aws = Aws::from_vars(&|name| local_var(name, &ready))?;
        let name = format!("the service on {}", ready.base_url);
        let places = (ready.table.clone(), LOCAL_API_KEYS_TABLE.to_owned(), Some(ready.bucket.clone()));
        Ok(stack(aws, name, places, clock, Some(ready)))
    }
}

/// By the names of its state table, its table of keys and its bucket.
fn stack(
    aws: Aws,
    name: String,
    (table, api_keys_table, bucket): (String, String, Option<String>),
    clock: Clock,
    local: Option<Ready>,
) -> Stack {
    let store = Store::new(aws.dynamodb(), table);
    let api_keys = ApiKeys::new(store.clone(), api_keys_table);
    let files = bucket.map(|bucket| EvidenceFiles::new(aws.s3(), bucket));
    Stack {
        name,
        accounts: Accounts::new(store.clone()),
        users: Users::new(store.clone()),
        api_keys,
        charges: Charges::new(store.clone()),
        wallets: Wallets::new(store.clone()),
        payouts: Payouts::new(store.clone()),
        cases: MedCases::new(store.clone()),
        evidence: files.map(|files| CaseEvidence::new(store.clone(), files)),
        store,
        clock,
        aws,
        local,
    }
}

impl Stack {
    /// The event dispatcher of this stack, with the operator's own credentials. Of a deployed stack it reads the variables
    /// that its function has.
    pub(crate) fn dispatcher(&self) -> Result<Dispatcher, Box<dyn Error>> {
        let var = |name: &str| match (name, &self.local) {
            ("TABLE_NAME", _) => Some(self.store.table().to_owned()),
            (name, Some(ready)) => dispatcher_var(name, ready),
            (name, None) => env::var(name).ok(),
        };
        Ok(Dispatcher::from_vars(&self.aws, self.clock.clone(), &var)?)
    }

    /// An account that exists.
    pub(crate) async fn account(&self, id: &AccountId) -> Result<Account, Box<dyn Error>> {
        self.accounts.find(id).await?.ok_or_else(|| format!("there is no account {id}").into())
    }

    /// Where what it calls may be: this machine may call itself.
    pub(crate) fn addresses(&self) -> AddressPolicy {
        match self.local {
            Some(_) => AddressPolicy::PublicOrLocal(LocalNames::default()),
            None => AddressPolicy::PublicOnly,
        }
    }

    /// Evidence, whose bucket must be named.
    pub(crate) fn evidence(&self) -> Result<&CaseEvidence, Box<dyn Error>> {
        self.evidence.as_ref().ok_or_else(|| "name the stack's bucket by --bucket or DOCUMENTS_BUCKET".into())
    }
}

fn not_running(path: &Path, error: &dyn Error) -> String {
    format!(
        "no service runs on this machine ({}: {error}); start it with `cargo run`, or name a deployed stack by --table and --api-keys-table",
        path.display()
    )
}

fn read(path: &Path) -> Result<Ready, Box<dyn Error>> {
    let text = fs::read(path).map_err(|error| not_running(path, &error))?;
    Ok(serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", path.display()))?)
}

fn local_var(name: &str, ready: &Ready) -> Option<String> {
    match name {
        "AWS_REGION" => Some(LOCAL_REGION.to_owned()),
        "AWS_ACCESS_KEY_ID" => Some(LOCAL_ACCESS_KEY.to_owned()),
        "AWS_SECRET_ACCESS_KEY" => Some(LOCAL_SECRET_KEY.to_owned()),
        "AWS_ENDPOINT_URL_DYNAMODB" => Some(ready.dynamodb_url.clone()),
        "AWS_ENDPOINT_URL_SQS" => Some(ready.sqs_url.clone()),
        "AWS_ENDPOINT_URL_S3" => Some(ready.s3_url.clone()),
        _ => None,
    }
}

fn dispatcher_var(name: &str, ready: &Ready) -> Option<String> {
    let queue = |queue: &str| format!("{}/{LOCAL_QUEUE_ACCOUNT}/{queue}", ready.sqs_url);
    match name {
        "DELIVERY_QUEUE_URL" => Some(queue(LOCAL_DELIVERY_QUEUE)),
        "ACQUIRER_QUEUE_URL" => Some(queue(LOCAL_ACQUIRER_QUEUE)),
        "MAIL_QUEUE_URL" => Some(queue(LOCAL_MAIL_QUEUE)),
        "DOCUMENTS_BUCKET" => Some(ready.bucket.clone()),
        "CHECKOUT_BASE_URL" => Some(format!("{}/{LOCAL_CHECKOUT}", ready.base_url)),
        "MED_OUTCOME_NOTICES" => Some("on".to_owned()),
        _ => None,
    }
}

/// The service's own time: its clock moved by nothing answers with where it stands.
async fn clock_of(ready: &Ready) -> Result<Clock, Box<dyn Error>> {
    #[derive(Deserialize)]
    struct Moved {
        now: Timestamp,
    }
    let request = Request::post(format!("{}/_local/clock/advance", ready.base_url))
        .header("content-type", "application/json");
    let request = request.body(Full::new(Bytes::from_static(br#"{"seconds": 0}"#)))?;
    let answer = Client::builder(TokioExecutor::new()).build_http().request(request).await?;
    let body = answer.into_body().collect().await?.to_bytes();
    let moved: Moved = serde_json::from_slice(&body)?;
    let clock = Clock::default();
    clock.advance(moved.now.millis_since(clock.now()));
    Ok(clock)
}
