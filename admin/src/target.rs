//! Opens the stack that the commands work on: a deployed stack, identified by its tables, or the service that
//! runs on this machine.

use std::collections::{BTreeMap, HashMap};
use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use acquirer_core::Connections;
use acquirer_core::configuration::{AccountAcquirers, AcquirerChange, AcquirerChoice};
use clap::Args;
use domain::account::Account;
use domain::audit::Operator;
use domain::charge::StoredCharge;
use domain::ids::{AccountId, ChargeId, Mode, Scope};
use domain::proposal::Person;
use domain::time::Timestamp;
use domain::url_policy::{AddressPolicy, LocalNames};
use event_dispatcher::Dispatcher;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use money::charge::Charges;
use money::med::MedCases;
use money::med::evidence::{CaseEvidence, EvidenceFiles};
use money::payout::{PayoutKeys, Payouts};
use money::wallet::Wallets;
use serde::Deserialize;
use services::BankPayments;
use services::reconciliation::Reconciler;
use shared::account::{Accounts, Users};
use shared::api_key::ApiKeys;
use shared::clock::Clock;
use shared::config::{Vars, required};
use shared::store::{Aws, Store};

use crate::aws_cli::{AwsCli, Described};
use crate::persons::{Page, Rules};
use crate::{OperatorArguments, Result, ScopeArguments};

const READY_FILE: &str = ".local/ready.json";

/// The error of a command that needs the table of secrets, if it was not specified.
pub(crate) const NO_SECRETS_TABLE: &str =
    "name the stack's table of secrets with --secrets-table or SECRETS_TABLE_NAME";

/// The stack to work on
#[derive(Args, Clone, Debug)]
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
    /// Name of a deployed stack in CloudFormation, whose table must be the named one. If variables name the tables,
    /// commands that change something ask for it or need it. `doctor` also checks the stack's settings
    #[arg(long, global = true, value_name = "NAME", help_heading = "Stack")]
    pub(crate) stack: Option<String>,
    /// Ready file of a service on this machine [default, unless tables are named: .local/ready.json]
    #[arg(long, global = true, value_name = "PATH", conflicts_with = "table", help_heading = "Stack")]
    ready_file: Option<PathBuf>,
    /// Check everything and print the result, but change nothing. For commands that move money, resend or can't be undone
    #[arg(long, global = true)]
    pub(crate) dry_run: bool,
}

#[derive(Clone, Debug, Deserialize)]
struct Ready {
    base_url: String,
    /// Those of the event dispatcher's function, and the names of what else the commands use.
    variables: BTreeMap<String, String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Stack {
    pub(crate) name: String,
    /// Lists are printed as tables, not as JSON lines.
    pub(crate) prints_tables: bool,
    /// The stores write nothing.
    pub(crate) is_dry_run: bool,
    pub(crate) store: Store,
    pub(crate) accounts: Accounts,
    pub(crate) users: Users,
    pub(crate) api_keys: ApiKeys,
    pub(crate) charges: Charges,
    pub(crate) wallets: Wallets,
    pub(crate) payouts: Payouts,
    pub(crate) payout_keys: PayoutKeys,
    pub(crate) cases: MedCases,
    /// `None` when no bucket was specified.
    evidence: Option<CaseEvidence>,
    /// `None` when no table of secrets was specified.
    pub(crate) secrets: Option<Store>,
    acquirers: Option<AccountAcquirers>,
    /// A service on this machine may have advanced its clock.
    pub(crate) clock: Clock,
    /// What one operator may do alone. `None`: the command has no need of it.
    pub(crate) rules: Option<Rules>,
    /// What [`Self::set_acquirer`] sends before its change, if one person makes it in an emergency.
    pub(crate) page: Option<Page>,
    /// Who the operator is at AWS; `None` on a laptop.
    pub(crate) identity: Option<String>,
    /// The proposal whose command runs, in words.
    pub(crate) approved: Option<String>,
    /// The contents of files that its command reads, by path.
    pub(crate) brought: HashMap<PathBuf, String>,
    aws: Aws,
    /// The service on this machine; `None` for a deployed stack.
    local: Option<Ready>,
}

impl Target {
    /// Returns an argument, or else the environment variable that it replaces.
    fn var(&self, name: &str) -> Option<String> {
        let argument = match name {
            "TABLE_NAME" => &self.table,
            "API_KEYS_TABLE_NAME" => &self.api_keys_table,
            "SECRETS_TABLE_NAME" => &self.secrets_table,
            "DOCUMENTS_BUCKET" => &self.bucket,
            _ => &None,
        };
        argument.clone().or_else(|| env::var(name).ok())
    }

    /// `None` selects the service on this machine. `--ready-file` takes precedence over variables.
    fn deployed_table(&self) -> Result<Option<String>, String> {
        if self.ready_file.is_some() {
            return Ok(None);
        }
        match (self.var("TABLE_NAME"), self.var("API_KEYS_TABLE_NAME")) {
            (Some(table), Some(_)) => Ok(Some(table)),
            (None, None) => Ok(None),
            // Falling back to this machine would change the wrong stack, because the operator named a
            // deployed one.
            (Some(_), None) => Err("TABLE_NAME is set and API_KEYS_TABLE_NAME is not".to_owned()),
            (None, Some(_)) => Err("API_KEYS_TABLE_NAME is set and TABLE_NAME is not".to_owned()),
        }
    }

    pub(crate) async fn open(&self) -> Result<Stack> {
        if let Some(table) = self.deployed_table()? {
            let is_of = |stack: &str| table.strip_prefix(stack).is_some_and(is_end_of_name);
            if let Some(stack) = self.stack.as_deref().filter(|stack| !is_of(stack)) {
                // A restored table has a name of its own.
                let described = Described::read(&AwsCli::new(), stack).await;
                require_tables(stack, described.ok().as_ref(), &[("TableName", &table)])?;
            }
            return self.open_deployed(format!("the stack with the table {table}"), &|_| None);
        }
        if let Some(stack) = &self.stack {
            return Err(format!(
                "the tables of the stack {stack} are not named: set TABLE_NAME and API_KEYS_TABLE_NAME"
            )
            .into());
        }
        let path = self.ready_file.clone().unwrap_or_else(|| PathBuf::from(READY_FILE));
        let text = fs::read(&path).map_err(|error| not_running(&path, &error))?;
        let ready: Ready =
            serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        let clock = read_service_clock(&ready).await.map_err(|error| not_running(&path, &*error))?;
        let name = format!("the service on {}", ready.base_url);
        let var = |name: &str| ready.variables.get(name).cloned();
        stack(name, &var, (clock, self.dry_run), Some(ready.clone()))
    }

    /// Whether options name the tables or the service.
    pub(crate) fn names_tables(&self) -> bool {
        self.ready_file.is_some() || self.table.is_some()
    }

    /// `outputs`: the values of variables that the outputs of the stack determine.
    pub(crate) fn open_deployed(&self, name: String, outputs: Vars<'_>) -> Result<Stack> {
        let var = |name: &str| outputs(name).or_else(|| self.var(name));
        stack(name, &var, (Clock::default(), self.dry_run), None)
    }
}

/// Errors: If an output of the stack names another table than the one that is used.
fn require_tables(stack: &str, described: Option<&Described>, used: &[(&str, &str)]) -> Result<()> {
    for (output, table) in used {
        if described.and_then(|described| described.outputs.get(*output)).is_none_or(|own| own != table) {
            return Err(format!("the table {table} is not of the stack {stack}, which --stack names").into());
        }
    }
    Ok(())
}

/// Whether a table's name ends after that of its stack.
fn is_end_of_name(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with('-')
}

fn stack(
    name: String,
    var: Vars<'_>,
    (clock, is_dry_run): (Clock, bool),
    local: Option<Ready>,
) -> Result<Stack> {
    let aws = Aws::from_vars(var)?;
    let client = aws.dynamodb();
    let open = |table: String| Store::new(client.clone(), table).with_dry_run(is_dry_run);
    let store = open(required(var, "TABLE_NAME")?);
    let secrets = var("SECRETS_TABLE_NAME").map(open);
    let files = var("DOCUMENTS_BUCKET").map(|bucket| EvidenceFiles::new(aws.s3(), bucket));
    Ok(Stack {
        name,
        prints_tables: false,
        is_dry_run,
        accounts: Accounts::new(store.clone()),
        users: Users::new(store.clone()),
        api_keys: ApiKeys::new(store.clone(), required(var, "API_KEYS_TABLE_NAME")?),
        charges: Charges::new(store.clone()),
        wallets: Wallets::new(store.clone()),
        payouts: Payouts::new(store.clone()),
        payout_keys: PayoutKeys::new(store.clone()),
        cases: MedCases::new(store.clone()),
        evidence: files.map(|files| CaseEvidence::new(store.clone(), files)),
        acquirers: secrets.clone().map(|secrets| AccountAcquirers::new(store.clone(), secrets)),
        secrets,
        store,
        clock,
        rules: None,
        page: None,
        identity: None,
        approved: None,
        brought: HashMap::new(),
        aws,
        local,
    })
}

impl Stack {
    /// For a deployed stack the command needs the same environment variables as the dispatcher's function.
    pub(crate) fn dispatcher(&self) -> Result<Dispatcher> {
        let var = |name: &str| match (name, &self.local) {
            ("TABLE_NAME", _) => Some(self.store.table().to_owned()),
            (name, Some(ready)) => ready.variables.get(name).cloned(),
            (name, None) => env::var(name).ok(),
        };
        Ok(Dispatcher::from_vars(&self.aws, self.clock.clone(), &var)?)
    }

    /// Who acts in an audit row. A second person, who carries out what another proposed, says so in the reason.
    pub(crate) fn operator(&self, arguments: &OperatorArguments) -> Operator {
        let reason = match &self.approved {
            Some(proposal) => format!("{} ({proposal})", arguments.reason),
            None => arguments.reason.clone(),
        };
        let most_a_day = self.rules.as_ref().map(|rules| rules.day_limit);
        let (actor, identity) = (arguments.actor.clone(), self.identity.clone());
        Operator { actor, reason, identity, most_a_day, ..Operator::default() }
    }

    /// The operator, for whom the limit of a day does not hold if `is_over_limit`.
    pub(crate) fn operator_over(&self, is_over_limit: bool, arguments: &OperatorArguments) -> Operator {
        let operator = self.operator(arguments);
        let most_a_day = if is_over_limit { Some(u64::MAX) } else { operator.most_a_day };
        Operator { most_a_day, ..operator }
    }

    /// Checks that all tables of the command are those of the stack that `--stack` names.
    pub(crate) fn require_own_tables(&self, stack: &str, described: &Described) -> Result<()> {
        let secrets = self.secrets.as_ref().map(|secrets| ("SecretsTableName", secrets.table()));
        let others = [("TableName", self.store.table()), ("ApiKeysTableName", self.api_keys.table())];
        require_tables(stack, Some(described), &others.into_iter().chain(secrets).collect::<Vec<_>>())
    }

    pub(crate) fn person(&self, arguments: &OperatorArguments) -> Person {
        Person { name: arguments.actor.clone(), identity: self.identity.clone() }
    }

    pub(crate) async fn existing_account(&self, id: &AccountId) -> Result<Account> {
        self.accounts.find(id).await?.ok_or_else(|| format!("there is no account {id}").into())
    }

    /// Returns the scope that arguments name, or an error when its account does not exist.
    pub(crate) async fn existing_scope(&self, scope: ScopeArguments) -> Result<Scope> {
        let ScopeArguments { account, mode } = scope;
        Ok(Scope { account: self.existing_account(&account).await?.id, mode })
    }

    pub(crate) async fn existing_charge(&self, id: ChargeId) -> Result<StoredCharge> {
        self.charges.find(Some(id)).await?.ok_or_else(|| format!("there is no charge {id}").into())
    }

    pub(crate) async fn scopes(&self, account: Option<AccountId>, mode: Option<Mode>) -> Result<Vec<Scope>> {
        let accounts = match account {
            Some(account) => vec![self.existing_account(&account).await?.id],
            None => self.accounts.all().await?.into_iter().map(|account| account.id).collect(),
        };
        let modes = mode.map_or_else(|| vec![Mode::Test, Mode::Live], |mode| vec![mode]);
        let of_account = |account| modes.iter().map(move |mode| Scope { account, mode: *mode });
        Ok(accounts.into_iter().flat_map(of_account).collect())
    }

    /// Returns which URLs the stack may call: a service on this machine may also call local addresses.
    pub(crate) fn address_policy(&self) -> AddressPolicy {
        match self.local {
            Some(_) => AddressPolicy::PublicOrLocal(LocalNames::default()),
            None => AddressPolicy::PublicOnly,
        }
    }

    pub(crate) fn acquirers(&self) -> Result<&AccountAcquirers> {
        self.acquirers.as_ref().ok_or_else(|| NO_SECRETS_TABLE.into())
    }

    /// Sets an acquirer whose credentials were tried. In an emergency, the same change must succeed as a dry run before
    /// the other operators are paged, so that a mistyped command sends no page.
    pub(crate) async fn set_acquirer(
        &self,
        account: AccountId,
        choice: &AcquirerChoice,
        operator: &Operator,
    ) -> Result<AcquirerChange> {
        let (acquirers, now) = (self.acquirers()?, self.clock.now());
        if let Some(page) = &self.page {
            let dry = |store: &Store| store.clone().with_dry_run(true);
            let secrets = self.secrets.as_ref().ok_or(NO_SECRETS_TABLE)?;
            let checked = AccountAcquirers::new(dry(&self.store), dry(secrets));
            Box::pin(checked.set(account, choice, Some(operator), now)).await?;
            page.send().await?;
        }
        Ok(Box::pin(acquirers.set(account, choice, Some(operator), now)).await?)
    }

    pub(crate) fn connections(&self) -> Result<Connections> {
        Ok(Connections::new(self.acquirers()?.clone(), self.clock.clone()))
    }

    pub(crate) fn reconciler(&self) -> Result<Reconciler> {
        Ok(Reconciler::new(self.store.clone(), self.acquirers()?.clone(), self.clock.clone()))
    }

    pub(crate) fn bank_payments(&self) -> Result<BankPayments> {
        Ok(BankPayments::new(self.store.clone(), self.acquirers()?.clone()))
    }

    /// `None`: the stack is a deployed one.
    pub(crate) fn local_base_url(&self) -> Option<&str> {
        self.local.as_ref().map(|ready| ready.base_url.as_str())
    }

    pub(crate) fn evidence(&self) -> Result<&CaseEvidence> {
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

/// Reads the clock of the service on this machine: advancing it by 0 seconds returns its time.
async fn read_service_clock(ready: &Ready) -> Result<Clock> {
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
