//! Opens the stack that the commands work on: a deployed stack, identified by its tables, or the service that
//! runs on this machine.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use domain::account::Account;
use domain::charge::StoredCharge;
use domain::ids::{AccountId, ChargeId, Mode, Scope};
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
use shared::acquirer::configuration::AccountAcquirers;
use shared::api_key::ApiKeys;
use shared::charge::Charges;
use shared::clock::Clock;
use shared::med::MedCases;
use shared::med::evidence::{CaseEvidence, EvidenceFiles};
use shared::payout::Payouts;
use shared::store::{Aws, Store};
use shared::wallet::Wallets;

use crate::output::ListFormat;

const READY_FILE: &str = ".local/ready.json";

/// The name of the table of API keys on this machine. It equals the table's logical id in the template; the
/// ready file does not contain it.
const LOCAL_API_KEYS_TABLE: &str = "ApiKeysTable";

/// The error of a command that needs the table of secrets, if it was not specified.
const NO_SECRETS_TABLE: &str = "name the stack's table of secrets with --secrets-table or SECRETS_TABLE_NAME";

const LOCAL_DELIVERY_QUEUE: &str = "DeliveryQueue";
const LOCAL_TEST_DELIVERY_QUEUE: &str = "TestDeliveryQueue";
const LOCAL_ACQUIRER_QUEUE: &str = "AcquirerQueue";
const LOCAL_MAIL_QUEUE: &str = "MailQueue";
const LOCAL_CHECKOUT: &str = "checkout";

/// The ready file does not contain it.
const LOCAL_FAILED_RECORDS_BUCKET: &str = "failed-records-bucket";

const LOCAL_QUEUE_ACCOUNT: &str = "123456789012";

/// The region and credentials for the embedded AWS services; only the embedded S3 checks them.
const LOCAL_REGION: &str = "sa-east-1";
const LOCAL_ACCESS_KEY: &str = "local";
const LOCAL_SECRET_KEY: &str = "local-secret";

/// The stack to work on
#[derive(Args, Debug)]
pub(crate) struct Target {
    /// State table of a deployed stack (stack output `TableName`); AWS_* variables supply credentials and
    /// region [env: `TABLE_NAME`]
    #[arg(long, global = true, requires = "api_keys_table", help_heading = "Stack")]
    table: Option<String>,
    /// Table of API keys of a deployed stack (stack output `ApiKeysTableName`) [env: `API_KEYS_TABLE_NAME`]
    #[arg(long, global = true, requires = "table", help_heading = "Stack")]
    api_keys_table: Option<String>,
    /// Table of secrets of a deployed stack (stack output `SecretsTableName`), for commands about acquirers
    /// [env: `SECRETS_TABLE_NAME`]
    #[arg(long, global = true, conflicts_with = "ready_file", help_heading = "Stack")]
    secrets_table: Option<String>,
    /// Bucket of a deployed stack (stack output `DocumentsBucketName`), for evidence
    /// [env: `DOCUMENTS_BUCKET`]
    #[arg(long, global = true, conflicts_with = "ready_file", help_heading = "Stack")]
    bucket: Option<String>,
    /// Ready file of a service on this machine [default, unless tables are named: .local/ready.json]
    #[arg(long, global = true, value_name = "PATH", conflicts_with = "table", help_heading = "Stack")]
    ready_file: Option<PathBuf>,
}

#[derive(Clone, Debug, Deserialize)]
struct Ready {
    base_url: String,
    dynamodb_url: String,
    sqs_url: String,
    s3_url: String,
    table: String,
    secrets_table: String,
    bucket: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Stack {
    pub(crate) name: String,
    pub(crate) list_format: ListFormat,
    pub(crate) store: Store,
    pub(crate) accounts: Accounts,
    pub(crate) users: Users,
    pub(crate) api_keys: ApiKeys,
    pub(crate) charges: Charges,
    pub(crate) wallets: Wallets,
    pub(crate) payouts: Payouts,
    pub(crate) cases: MedCases,
    /// `None` when no bucket was specified.
    evidence: Option<CaseEvidence>,
    /// `None` when no table of secrets was specified.
    pub(crate) secrets: Option<Store>,
    acquirers: Option<AccountAcquirers>,
    /// A service on this machine may have advanced its clock.
    pub(crate) clock: Clock,
    aws: Aws,
    /// The service on this machine; `None` for a deployed stack.
    local: Option<Ready>,
}

impl Target {
    /// `None` selects the service on this machine. `--ready-file` takes precedence over variables.
    fn tables(&self) -> Result<Option<(String, String)>, String> {
        if self.ready_file.is_some() {
            return Ok(None);
        }
        let named = |argument: &Option<String>, name: &str| argument.clone().or_else(|| env::var(name).ok());
        match (named(&self.table, "TABLE_NAME"), named(&self.api_keys_table, "API_KEYS_TABLE_NAME")) {
            (Some(table), Some(keys)) => Ok(Some((table, keys))),
            (None, None) => Ok(None),
            // Falling back to this machine would change the wrong stack, because the operator named a
            // deployed one.
            (Some(_), None) => Err("TABLE_NAME is set and API_KEYS_TABLE_NAME is not".to_owned()),
            (None, Some(_)) => Err("API_KEYS_TABLE_NAME is set and TABLE_NAME is not".to_owned()),
        }
    }

    pub(crate) async fn open(&self) -> Result<Stack, Box<dyn Error>> {
        if let Some((table, keys)) = self.tables()? {
            return self.open_tables(&format!("the stack with the table {table}"), table, keys, None);
        }
        let path = self.ready_file.clone().unwrap_or_else(|| PathBuf::from(READY_FILE));
        let ready = read_ready_file(&path)?;
        let clock = read_service_clock(&ready).await.map_err(|error| not_running(&path, &*error))?;
        let aws = Aws::from_vars(&|name| local_var(name, &ready))?;
        let name = format!("the service on {}", ready.base_url);
        let resources = Resources {
            table: ready.table.clone(),
            api_keys_table: LOCAL_API_KEYS_TABLE.to_owned(),
            secrets_table: Some(ready.secrets_table.clone()),
            bucket: Some(ready.bucket.clone()),
        };
        Ok(stack(aws, name, resources, clock, Some(ready)))
    }

    pub(crate) fn names_a_stack(&self) -> bool {
        self.ready_file.is_some() || self.table.is_some()
    }

    pub(crate) fn open_tables(
        &self,
        name: &str,
        table: String,
        api_keys_table: String,
        secrets_table: Option<String>,
    ) -> Result<Stack, Box<dyn Error>> {
        let aws = Aws::from_vars(&|name| env::var(name).ok())?;
        let named = |argument: &Option<String>, name| argument.clone().or_else(|| env::var(name).ok());
        let resources = Resources {
            table,
            api_keys_table,
            secrets_table: secrets_table.or_else(|| named(&self.secrets_table, "SECRETS_TABLE_NAME")),
            bucket: named(&self.bucket, "DOCUMENTS_BUCKET"),
        };
        Ok(stack(aws, name.to_owned(), resources, Clock::default(), None))
    }
}

struct Resources {
    table: String,
    api_keys_table: String,
    secrets_table: Option<String>,
    bucket: Option<String>,
}

fn stack(aws: Aws, name: String, resources: Resources, clock: Clock, local: Option<Ready>) -> Stack {
    let store = Store::new(aws.dynamodb(), resources.table);
    let api_keys = ApiKeys::new(store.clone(), resources.api_keys_table);
    let secrets = resources.secrets_table.map(|table| Store::new(store.client().clone(), table));
    let files = resources.bucket.map(|bucket| EvidenceFiles::new(aws.s3(), bucket));
    Stack {
        name,
        list_format: ListFormat::JsonLines,
        accounts: Accounts::new(store.clone()),
        users: Users::new(store.clone()),
        api_keys,
        charges: Charges::new(store.clone()),
        wallets: Wallets::new(store.clone()),
        payouts: Payouts::new(store.clone()),
        cases: MedCases::new(store.clone()),
        evidence: files.map(|files| CaseEvidence::new(store.clone(), files)),
        acquirers: secrets.clone().map(|secrets| AccountAcquirers::new(store.clone(), secrets)),
        secrets,
        store,
        clock,
        aws,
        local,
    }
}

impl Stack {
    /// For a deployed stack the command needs the same environment variables as the dispatcher's function.
    pub(crate) fn dispatcher(&self) -> Result<Dispatcher, Box<dyn Error>> {
        let var = |name: &str| match (name, &self.local) {
            ("TABLE_NAME", _) => Some(self.store.table().to_owned()),
            (name, Some(ready)) => dispatcher_var(name, ready),
            (name, None) => env::var(name).ok(),
        };
        Ok(Dispatcher::from_vars(&self.aws, self.clock.clone(), &var)?)
    }

    /// Returns an account, or an error when it does not exist.
    pub(crate) async fn existing_account(&self, id: &AccountId) -> Result<Account, Box<dyn Error>> {
        self.accounts.find(id).await?.ok_or_else(|| format!("there is no account {id}").into())
    }

    /// Returns a charge, or an error when it does not exist.
    pub(crate) async fn existing_charge(&self, id: ChargeId) -> Result<StoredCharge, Box<dyn Error>> {
        self.charges.find(Some(id)).await?.ok_or_else(|| format!("there is no charge {id}").into())
    }

    pub(crate) async fn scopes(
        &self,
        account: Option<AccountId>,
        mode: Option<Mode>,
    ) -> Result<Vec<Scope>, Box<dyn Error>> {
        let accounts = match account {
            Some(account) => vec![self.existing_account(&account).await?.id],
            None => self.accounts.all().await?.into_iter().map(|account| account.id).collect(),
        };
        let modes = mode.map_or_else(|| vec![Mode::Test, Mode::Live], |mode| vec![mode]);
        let of_account = |account| modes.iter().map(move |mode| Scope { account, mode: *mode });
        Ok(accounts.into_iter().flat_map(of_account).collect())
    }

    /// Returns the store of another state table with the same credentials, such as the one before a restore.
    pub(crate) fn other_table(&self, table: &str) -> Store {
        Store::new(self.store.client().clone(), table)
    }

    /// Returns which URLs the stack may call: a service on this machine may also call local addresses.
    pub(crate) fn address_policy(&self) -> AddressPolicy {
        match self.local {
            Some(_) => AddressPolicy::PublicOrLocal(LocalNames::default()),
            None => AddressPolicy::PublicOnly,
        }
    }

    /// Returns the acquirers, or an error when no table of secrets was specified.
    pub(crate) fn acquirers(&self) -> Result<&AccountAcquirers, Box<dyn Error>> {
        self.acquirers.as_ref().ok_or_else(|| NO_SECRETS_TABLE.into())
    }

    /// `None`: the stack is a deployed one.
    pub(crate) fn local_base_url(&self) -> Option<&str> {
        self.local.as_ref().map(|ready| ready.base_url.as_str())
    }

    /// Returns the evidence files, or an error when no bucket was specified.
    pub(crate) fn evidence(&self) -> Result<&CaseEvidence, Box<dyn Error>> {
        self.evidence
            .as_ref()
            .ok_or_else(|| "name the stack's bucket with --bucket or DOCUMENTS_BUCKET".into())
    }
}

fn not_running(path: &Path, error: &dyn Error) -> String {
    format!(
        "no service runs on this machine ({}: {error}); start it with `cargo run`, or name a deployed stack with --table and --api-keys-table",
        path.display()
    )
}

fn read_ready_file(path: &Path) -> Result<Ready, Box<dyn Error>> {
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

fn queue_url(ready: &Ready, queue: &str) -> String {
    format!("{}/{LOCAL_QUEUE_ACCOUNT}/{queue}", ready.sqs_url)
}

fn dispatcher_var(name: &str, ready: &Ready) -> Option<String> {
    let queue = |queue: &str| queue_url(ready, queue);
    match name {
        "DELIVERY_QUEUE_URL" => Some(queue(LOCAL_DELIVERY_QUEUE)),
        "TEST_DELIVERY_QUEUE_URL" => Some(queue(LOCAL_TEST_DELIVERY_QUEUE)),
        "ACQUIRER_QUEUE_URL" => Some(queue(LOCAL_ACQUIRER_QUEUE)),
        "MAIL_QUEUE_URL" => Some(queue(LOCAL_MAIL_QUEUE)),
        "FAILED_RECORDS_BUCKET" => Some(LOCAL_FAILED_RECORDS_BUCKET.to_owned()),
        "CHECKOUT_BASE_URL" => Some(format!("{}/{LOCAL_CHECKOUT}", ready.base_url)),
        "MED_OUTCOME_NOTICES" => Some("on".to_owned()),
        _ => None,
    }
}

/// Reads the clock of the service on this machine: advancing it by 0 seconds returns its time.
async fn read_service_clock(ready: &Ready) -> Result<Clock, Box<dyn Error>> {
    #[derive(Deserialize)]
    struct Moved {
        now: Timestamp,
    }
    let request = Request::post(format!("{}/_local/clock/advance", ready.base_url))
        .header("content-type", "application/json");
    let request = request.body(Full::new(Bytes::from_static(br#"{"seconds": 0}"#)))?;
    let answer = Client::builder(TokioExecutor::new()).build_http().request(request).await?;
    let status = answer.status();
    let body = answer.into_body().collect().await?.to_bytes();
    if !status.is_success() {
        return Err(format!("its clock answered {status}: {}", String::from_utf8_lossy(&body)).into());
    }
    let moved: Moved = serde_json::from_slice(&body)?;
    let clock = Clock::default();
    clock.advance(moved.now.millis_since(clock.now()));
    Ok(clock)
}
