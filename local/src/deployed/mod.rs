//! Serves the API of a stack that `sam deploy` created in an AWS emulator. The gateway runs here, and calls the
//! deployed functions by the Lambda Invoke API. `docs/testing.md` describes the command.

mod invoke;
mod resources;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use acquirer_core::configuration::AccountAcquirers;
use bank::Bank;
use http_body_util::Full;
use hyper::Request;
use hyper::body::Bytes;
use serde_json::{Value, json};
use shared::api_key::ApiKeys;
use shared::clock::Clock;
use shared::store::Store;

pub(crate) use self::invoke::deployed_functions;
pub use self::resources::Resources;
use crate::acquirer_seed::AcquirerSeed;
use crate::embedded::Endpoints;
use crate::error::{Context, Error, Result};
use crate::gateway;
use crate::http::Server;
use crate::local_bank;
use crate::sdk;
use crate::seed::Seed;
use crate::stack::{DOCUMENTS_BUCKET, SECRETS_TABLE_NAME, listen_on, ready};
use crate::template::{API_KEYS_TABLE, BUCKET, SECRETS_TABLE, STATE_TABLE, Template};
use crate::wire::{http_client, send};

#[derive(Debug)]
pub struct Options {
    /// The port of the API on the loopback interface. 0: any free port.
    pub port: u16,
    pub invoke_url: String,
    pub resources: PathBuf,
}

/// Dropping this stops them.
#[derive(Debug)]
pub struct DeployedStack {
    pub base_url: String,
    pub seed: Seed,
    /// The content of the ready file.
    pub ready: Value,
    bank: Bank,
    gateway: Server,
}

impl DeployedStack {
    pub async fn start(options: Options) -> Result<Self> {
        let Options { port, invoke_url, resources } = options;
        let (listener, base_url) = listen_on(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
        let resources = Resources::read(&resources)?;
        let mut template = Template::deployed()?;
        template.functions.retain(|function| resources.find(&function.logical_id).is_some());

        let (seed, clock) = (Seed::load_or_create(None)?, Clock::default());
        let bank = local_bank::start(None, &seed, &clock, None, 0).await?;
        let table = |logical_id: &str| -> Result<Store> {
            Ok(Store::new(sdk::dynamodb(&invoke_url), resources.get(logical_id)?))
        };
        let store = table(STATE_TABLE)?;
        let api_keys = ApiKeys::new(store.clone(), resources.get(API_KEYS_TABLE)?);
        seed.insert_rows(&store, &api_keys, clock.now()).await?;

        let functions = deployed_functions(&template, &resources, &invoke_url);
        let gateway = gateway::start(listener, &base_url, &template, &functions, None)?;
        let acquirers = AcquirerSeed {
            directory: None,
            seed: &seed,
            acquirers: AccountAcquirers::new(store, table(SECRETS_TABLE)?),
            base_url: &base_url,
            clock: &clock,
        };
        acquirers.configure_pix(&bank, &bank.url()).await?;
        // The stack issues the tokens, because only it has the secret that signs them.
        let tokens = [
            log_in(&base_url, &seed.first.owner_email, &seed.first.password).await?,
            log_in(&base_url, &seed.member_email, &seed.first.password).await?,
            log_in(&base_url, &seed.other.owner_email, &seed.other.password).await?,
        ];
        let tokens = tokens.each_ref().map(String::as_str);
        let url = || invoke_url.clone();
        let endpoints = Endpoints { dynamodb_url: url(), sqs_url: url(), s3_url: url() };
        let mut variables = BTreeMap::new();
        for (name, resource) in
            [("TABLE_NAME", STATE_TABLE), (SECRETS_TABLE_NAME, SECRETS_TABLE), (DOCUMENTS_BUCKET, BUCKET)]
        {
            variables.insert(name.to_owned(), resources.get(resource)?.to_owned());
        }
        let ready = ready(&seed, [&base_url, &bank.url()], tokens, &endpoints, &variables);
        Ok(Self { base_url, seed, ready, bank, gateway })
    }

    pub async fn stop(self) {
        self.gateway.stop().await;
        self.bank.stop().await;
    }
}

async fn log_in(base_url: &str, email: &str, password: &str) -> Result<String> {
    let doing = "logging in at the deployed stack";
    let body = json!({"email": email, "password": password}).to_string();
    let request = Request::post(format!("{base_url}/v1/auth/login"))
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body)))
        .context(doing)?;
    let answer = send(&http_client(), request, doing).await?;
    let status = answer.status();
    let body: Value = serde_json::from_slice(answer.body()).context(doing)?;
    let token = body.get("token").and_then(Value::as_str).ok_or_else(|| {
        let hint = "if it has the users of an earlier start, deploy it again";
        Error::new(format!("{doing}: status {status}; {hint}"))
    })?;
    Ok(token.to_owned())
}
