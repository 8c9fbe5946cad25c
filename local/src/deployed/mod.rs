//! Serves the API of a stack that `sam deploy` created in an AWS emulator. The gateway runs here, and calls the
//! deployed functions by the Lambda Invoke API. `docs/deployed-tests.md` describes the command.

mod invoke;
mod resources;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use bank::Bank;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use serde_json::{Value, json};
use shared::acquirer::configuration::AccountAcquirers;
use shared::api_key::ApiKeys;
use shared::clock::Clock;
use shared::store::Store;

pub use self::invoke::deployed_functions;
pub use self::resources::Resources;
use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::local_bank::{self, BankSettings};
use crate::seed::Seed;
use crate::stack::{
    API_KEYS_TABLE, BUCKET, Dashboard, OtherAccount, Ready, SECRETS_TABLE, STATE_TABLE, listen_on,
};
use crate::template::Template;
use crate::wire::http_client;
use crate::{acquirer_seed, sdk};

/// The options of the gateway.
#[derive(Debug)]
pub struct Options {
    /// The port of the API on the loopback interface. 0: any free port.
    pub port: u16,
    /// The URL of the emulator, for all its services.
    pub invoke_url: String,
    /// The file with the stack's resources.
    pub resources: PathBuf,
}

/// The gateway of a deployed stack, and the bank of its first account. Dropping this stops them.
#[derive(Debug)]
pub struct DeployedStack {
    /// The base URL of the API.
    pub base_url: String,
    /// The seeded accounts and users.
    pub seed: Seed,
    invoke_url: String,
    resources: Resources,
    tokens: DashboardTokens,
    bank_url: String,
    bank: Bank,
    gateway: Gateway,
}

/// Dashboard tokens of the seeded users. The stack issued them, because only it has the secret that signs
/// them.
#[derive(Debug)]
struct DashboardTokens {
    owner: String,
    member: String,
    other_owner: String,
}

impl DeployedStack {
    /// Starts the gateway and the bank, creates two accounts in the stack's tables, and logs their users in.
    ///
    /// # Errors
    ///
    /// When the port is in use, the stack lacks a resource, the emulator does not answer, or the stack has the
    /// users of an earlier start. Their passwords are lost, so the stack must be deployed again.
    pub async fn start(options: Options) -> Result<Self> {
        let Options { port, invoke_url, resources } = options;
        let (listener, base_url) = listen_on(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
        let resources = Resources::read(&resources)?;
        let mut template = Template::deployed()?;
        template.functions.retain(|function| resources.find(&function.logical_id).is_some());

        let (seed, clock) = (Seed::load_or_create(None)?, Clock::default());
        let settings = BankSettings { profile: None, skew_seconds: 0 };
        let bank = local_bank::start(None, &seed, &clock, &settings).await?;
        let table = |logical_id: &str| -> Result<Store> {
            Ok(Store::new(sdk::dynamodb(&invoke_url), resources.get(logical_id)?))
        };
        let store = table(STATE_TABLE)?;
        let api_keys = ApiKeys::new(store.clone(), resources.get(API_KEYS_TABLE)?);
        seed.insert_rows(&store, &api_keys, clock.now()).await?;

        let functions = deployed_functions(&template, &resources, &invoke_url);
        let gateway = Gateway::start(listener, &template, &functions, None)?;
        let acquirers = AccountAcquirers::new(store, table(SECRETS_TABLE)?);
        acquirer_seed::configure(None, (&seed, &bank, &bank.url()), acquirers, &base_url, &clock).await?;
        let tokens = DashboardTokens {
            owner: log_in(&base_url, &seed.first.owner_email, &seed.first.password).await?,
            member: log_in(&base_url, &seed.member_email, &seed.first.password).await?,
            other_owner: log_in(&base_url, &seed.other.owner_email, &seed.other.password).await?,
        };
        Ok(Self { base_url, invoke_url, resources, seed, tokens, bank_url: bank.url(), bank, gateway })
    }

    /// Returns the content of the ready file.
    pub fn ready(&self) -> Result<Ready<'_>> {
        let (first, other) = (&self.seed.first, &self.seed.other);
        Ok(Ready {
            base_url: &self.base_url,
            account_id: first.id,
            bank_url: &self.bank_url,
            test_api_key: &first.test_api_key,
            live_api_key: &first.live_api_key,
            dashboard: Dashboard {
                email: &first.owner_email,
                password: &first.password,
                token: self.tokens.owner.clone(),
            },
            member_token: self.tokens.member.clone(),
            other_account: OtherAccount {
                account_id: other.id,
                test_api_key: &other.test_api_key,
                live_api_key: &other.live_api_key,
                token: self.tokens.other_owner.clone(),
            },
            dynamodb_url: &self.invoke_url,
            sqs_url: &self.invoke_url,
            s3_url: &self.invoke_url,
            table: self.resources.get(STATE_TABLE)?,
            secrets_table: self.resources.get(SECRETS_TABLE)?,
            bucket: self.resources.get(BUCKET)?.to_owned(),
        })
    }

    /// Stops the gateway, then the bank. The stack continues.
    pub async fn stop(self) {
        self.gateway.stop().await;
        self.bank.stop().await;
    }
}

/// Logs a user in. Returns the token.
async fn log_in(base_url: &str, email: &str, password: &str) -> Result<String> {
    let doing = "logging in at the deployed stack";
    let failed = |e: &(dyn std::error::Error + 'static)| Error::because(doing, e);
    let body = json!({"email": email, "password": password}).to_string();
    let request = Request::post(format!("{base_url}/v1/auth/login"))
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body)))
        .map_err(|e| failed(&e))?;
    let answer = http_client().request(request).await.map_err(|e| failed(&e))?;
    let status = answer.status();
    let body = answer.into_body().collect().await.map_err(|e| failed(&e))?.to_bytes();
    let body: Value = serde_json::from_slice(&body).map_err(|e| failed(&e))?;
    let token = body.get("token").and_then(Value::as_str).ok_or_else(|| {
        let hint = "if it has the users of an earlier start, deploy it again";
        Error::new(format!("{doing}: status {status}; {hint}"))
    })?;
    Ok(token.to_owned())
}
