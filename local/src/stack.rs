//! Starts and stops the whole service: the embedded AWS services, the functions, the gateway and the event
//! sources.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bank::{Bank, Profile};
use secrecy::ExposeSecret;
use serde_json::{Map, Value, json};
use shared::auth::dashboard::token::TokenKind;
use shared::clock::Clock;
use shared::store::Store;
use stripe_stand_in::Stripe;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::contents::{CLOCK_FILE, Contents};
use crate::embedded::dynamodb::Database;
use crate::embedded::{ACCESS_KEY, Embedded, Endpoints, Listen, REGION, SECRET_KEY, State};
use crate::error::{Context, Error, Result};
use crate::files::read_if_exists;
use crate::fronts::{Fronts, Upstream};
use crate::functions::{MAIL_DIRECTORY, create_functions};
use crate::gateway::{self, LocalRoutes};
use crate::guard::AllowedHost;
use crate::http::{self, Server};
use crate::lambda::Functions;
use crate::local_bank;
use crate::local_cards::{self, CARDS};
use crate::local_routes::{LOG_IN, local_routes};
use crate::other_acquirers::OtherAcquirers;
use crate::sdk;
use crate::seed::{Seed, SeededAccount};
use crate::template::{BUCKET, SECRETS_TABLE, STATE_TABLE, Template, TemplateValues, bucket_name};

// Variables for `admin`, which the event dispatcher has not.
pub(crate) const SECRETS_TABLE_NAME: &str = "SECRETS_TABLE_NAME";
pub(crate) const DOCUMENTS_BUCKET: &str = "DOCUMENTS_BUCKET";

/// A daily verification may take minutes.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// On this machine, emails are written to files or logged, but never sent.
const MAIL_FROM: &str = "avisos@pagamentos.example";

#[derive(Debug)]
pub struct Options {
    pub state: State,
    /// The clock of a state in memory. A state directory has its own.
    pub clock: Clock,
    /// Port 0: any free port.
    pub address: SocketAddr,
    /// `None`: that of the address.
    pub base_url: Option<String>,
    /// The base URL of the API, if another program serves it, such as `sam local`. Then this service only runs
    /// the embedded AWS services and the event sources, and `address` is not used.
    pub api_elsewhere: Option<String>,
    pub listen: Listen,
    pub fronts: Fronts,
    /// Without them, only HTTP requests invoke functions.
    pub event_sources: bool,
    /// `None`: emails are only logged.
    pub mail_directory: Option<PathBuf>,
    /// A webhook URL with one of these hosts may use plain http and any port, as a loopback URL may.
    pub webhook_local_names: String,
    /// Hosts that requests to `/_local/*` and to the embedded services may name, besides loopback.
    pub allowed_hosts: Vec<AllowedHost>,
    /// The bank's profile. It can't change for a state directory. `None`: that of the state directory, or
    /// `complete` for a new state.
    pub bank_profile: Option<Profile>,
    /// How far the bank's clock is ahead of the service's, in seconds. Negative if it is behind.
    pub bank_skew_seconds: i64,
    /// Whether the first account also has those of [`OtherAcquirers`].
    pub other_acquirers: bool,
    pub parameters: BTreeMap<String, String>,
}

impl Options {
    pub fn in_memory() -> Self {
        Self {
            state: State::InMemory,
            clock: Clock::default(),
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            base_url: None,
            api_elsewhere: None,
            listen: Listen::AnyPort,
            fronts: Fronts::default(),
            event_sources: true,
            mail_directory: None,
            webhook_local_names: String::new(),
            allowed_hosts: Vec::new(),
            bank_profile: None,
            bank_skew_seconds: 0,
            other_acquirers: false,
            parameters: BTreeMap::new(),
        }
    }
}

/// Dropping this stops it.
#[derive(Debug)]
pub struct Stack {
    pub base_url: String,
    /// The base URL of the bank's API. It stays the same for a state directory.
    pub bank_url: String,
    pub bank_token_url: String,
    /// The URLs of DynamoDB, SQS and S3.
    pub endpoints: Endpoints,
    /// The seeded accounts, users and secrets.
    pub seed: Seed,
    pub clock: Clock,
    pub bank: Arc<Bank>,
    /// The stand-in of Stripe.
    pub cards: Arc<Stripe>,
    pub others: Option<Arc<OtherAcquirers>>,
    pub functions: Functions,
    /// `None`: another program serves the API.
    gateway: Option<Server>,
    variables: BTreeMap<String, String>,
    contents: Arc<Contents>,
    embedded: Embedded,
}

/// Returns the content of the ready file: everything that a program needs to use the service. `urls` are those of the
/// API and the bank, `tokens` those of the first owner, the member and the other owner, and `variables` those by which
/// `admin` finds the tables, queues and buckets.
pub(crate) fn ready(
    seed: &Seed,
    urls: [&str; 2],
    tokens: [&str; 3],
    endpoints: &Endpoints,
    variables: &BTreeMap<String, String>,
) -> Value {
    let (Seed { first, other, .. }, Endpoints { dynamodb_url, sqs_url, s3_url }) = (seed, endpoints);
    let ([base_url, bank_url], [token, member_token, other_token]) = (urls, tokens);
    json!({
        "base_url": base_url,
        "account_id": first.id,
        "bank_url": bank_url,
        "test_api_key": first.test_api_key,
        "live_api_key": first.live_api_key,
        "dashboard": {"email": first.owner_email, "password": first.password, "token": token},
        "member_token": member_token,
        "other_account": {
            "account_id": other.id,
            "test_api_key": other.test_api_key,
            "live_api_key": other.live_api_key,
            "token": other_token,
        },
        "dynamodb_url": dynamodb_url,
        "sqs_url": sqs_url,
        "s3_url": s3_url,
        "table": variables.get("TABLE_NAME"),
        "secrets_table": variables.get(SECRETS_TABLE_NAME),
        "bucket": variables.get(DOCUMENTS_BUCKET),
        "variables": variables,
    })
}

impl Stack {
    pub async fn start(options: Options) -> Result<Self> {
        // Binds the port first, because a service that already runs is the most likely error.
        let (listener, own_url) = if let Some(base_url) = options.api_elsewhere {
            (None, base_url)
        } else {
            let (listener, own_url) = listen_on(options.address).await?;
            (Some(listener), own_url)
        };
        let base_url = options.base_url.unwrap_or_else(|| own_url.clone());
        let template = Template::deployed_with(&options.parameters)?;
        let directory = options.state.directory().cloned();
        let clock = directory.as_deref().map_or(Ok(options.clock), restored_clock)?;
        if listener.is_none() && clock.offset_ms() != 0 {
            let text = "the clock of this state was advanced, which functions in other programs can't follow; start with --in-memory, or remove .local/";
            return Err(Error::new(text));
        }
        // On the heap, as the last future, so that the future of a start stays small.
        let embedded =
            Box::pin(Embedded::start(&options.state, options.listen, &options.allowed_hosts, &clock)).await?;
        let endpoints = embedded.endpoints();
        let seed = Seed::load_or_create(directory.as_deref())?;
        let (profile, skew_s) = (options.bank_profile, options.bank_skew_seconds);
        let bank = local_bank::start(directory.as_deref(), &seed, &clock, profile, skew_s).await?;
        let bank = Arc::new(bank);
        let cards = Arc::new(local_cards::start(&CARDS, directory.as_deref(), &seed, &clock).await?);
        let others = if options.other_acquirers {
            Some(Arc::new(OtherAcquirers::start(directory.as_deref(), &seed, &clock).await?))
        } else {
            None
        };
        let reached = Endpoints {
            dynamodb_url: options.fronts.url(Upstream::DynamoDb, &endpoints.dynamodb_url),
            sqs_url: options.fronts.url(Upstream::Sqs, &endpoints.sqs_url),
            s3_url: options.fronts.url(Upstream::S3, &endpoints.s3_url),
        };
        let values = template_values(&base_url, &seed, reached.sqs_url.clone(), options.parameters)?;
        let mut environment = lambda_environment(&reached);
        environment.insert("WEBHOOK_LOCAL_NAMES".to_owned(), options.webhook_local_names);
        environment.insert("LOCAL_LOG_IN".to_owned(), LOG_IN.to_owned());
        if let Some(mails) = &options.mail_directory {
            environment.insert(MAIL_DIRECTORY.to_owned(), mails.to_string_lossy().into_owned());
        }
        let functions = create_functions(&template, &values, &environment, &clock)?;
        let values = TemplateValues { sqs_url: endpoints.sqs_url.clone(), ..values };
        let mut variables = template.environment("EventDispatcherFunction", &values)?;
        variables.extend(lambda_environment(&endpoints));
        variables.insert(SECRETS_TABLE_NAME.to_owned(), SECRETS_TABLE.to_owned());
        variables.insert(DOCUMENTS_BUCKET.to_owned(), bucket_name(BUCKET));
        let contents = Arc::new(Contents {
            template,
            endpoints: endpoints.clone(),
            directory,
            mail_directory: options.mail_directory,
            seed: seed.clone(),
            clock: clock.clone(),
            bank: Arc::clone(&bank),
            bank_url: options.fronts.url(Upstream::Bank, &bank.url()),
            cards: Arc::clone(&cards),
            others: others.clone(),
            cards_url: options.fronts.url(Upstream::Cards, cards.url()),
            own_url: own_url.clone(),
            functions: functions.clone(),
            database: embedded.database(),
            store: Store::new(sdk::dynamodb(&endpoints.dynamodb_url), STATE_TABLE),
            run_schedules_now: watch::Sender::default(),
            event_sources: Mutex::default(),
            sessions: Mutex::default(),
            gate: Arc::default(),
            streaming: Arc::default(),
            changing: Arc::default(),
        });
        Box::pin(contents.create()).await?;
        let router = local_routes(Arc::clone(&contents), options.allowed_hosts);
        let local = LocalRoutes { router, gate: Arc::clone(&contents.gate) };
        let template = &contents.template;
        let gateway =
            listener.map(|listener| gateway::start(listener, &base_url, template, &functions, Some(local)));
        let gateway = gateway.transpose()?;
        if options.event_sources {
            contents.start_event_sources()?;
        }
        Box::pin(contents.configure_acquirers()).await?;
        Ok(Self {
            base_url,
            bank_url: bank.url(),
            bank_token_url: bank.token_url(),
            endpoints,
            seed,
            clock,
            bank,
            cards,
            others,
            functions,
            gateway,
            variables,
            contents,
            embedded,
        })
    }

    /// `None`: another program serves it.
    pub fn port(&self) -> Option<u16> {
        self.gateway.as_ref().map(|gateway| gateway.address().port())
    }

    pub fn database(&self) -> Database {
        self.embedded.database()
    }

    /// The tokens in it remain valid after a reset.
    pub async fn ready(&self) -> Result<Value> {
        let Seed { first, other, member_email, .. } = &self.seed;
        let users = [(first, &first.owner_email), (first, member_email), (other, &other.owner_email)];
        let mut tokens = [const { String::new() }; 3];
        for (token, user) in tokens.iter_mut().zip(users) {
            let (issued, session) = self.contents.begin_session(TokenKind::Api, (user.0, user.1)).await?;
            issued.token.expose_secret().clone_into(token);
            self.contents.sessions.lock().unwrap_or_else(PoisonError::into_inner).push(session);
        }
        let tokens = tokens.each_ref().map(String::as_str);
        Ok(ready(&self.seed, [&self.base_url, &self.bank_url], tokens, &self.endpoints, &self.variables))
    }

    /// A new token of an account's owner, for `/v1/api-keys`.
    pub async fn owner_token(&self, account: &SeededAccount) -> Result<String> {
        self.token((account, &account.owner_email)).await
    }

    /// A new token of the first account's member.
    pub async fn member_token(&self) -> Result<String> {
        self.token((&self.seed.first, &self.seed.member_email)).await
    }

    async fn token(&self, user: (&SeededAccount, &str)) -> Result<String> {
        let (issued, _session) = self.contents.begin_session(TokenKind::Api, user).await?;
        Ok(issued.token.expose_secret().to_owned())
    }

    /// The variables contain the token secret.
    pub fn environment_file(&self, host: &str, webhook_local_names: &str) -> Result<Value> {
        let template = Template::deployed()?;
        let endpoints = self.endpoints.at_host(host)?;
        let values = template_values(&self.base_url, &self.seed, endpoints.sqs_url.clone(), BTreeMap::new())?;
        let mut common = lambda_environment(&endpoints);
        common.insert("WEBHOOK_LOCAL_NAMES".to_owned(), webhook_local_names.to_owned());
        let mut functions = Map::new();
        for function in &template.functions {
            let mut variables = template.environment(&function.logical_id, &values)?;
            variables.extend(common.clone());
            functions.insert(function.logical_id.clone(), json!(variables));
        }
        Ok(Value::Object(functions))
    }

    /// Running requests and events have a few seconds to finish.
    pub async fn stop(self) {
        let gateway = async {
            if let Some(gateway) = self.gateway {
                gateway.stop().await;
            }
        };
        tokio::join!(gateway, self.contents.stop_event_sources(STOP_GRACE));
        self.bank.stop().await;
        self.cards.stop().await;
        if let Some(others) = &self.others {
            others.stop().await;
        }
        self.embedded.stop().await;
    }
}

pub(crate) async fn listen_on(address: SocketAddr) -> Result<(TcpListener, String)> {
    let listener = TcpListener::bind(address).await.map_err(|e| port_taken(address.port(), &e))?;
    let reached = listener.local_addr().context("listening")?;
    Ok((listener, http::url_of(reached)))
}

fn port_taken(port: u16, error: &std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::AddrInUse => Error::new(format!(
            "port {port} is in use; stop the program that uses it, or choose another port with --port (0: any free port)"
        )),
        _ => Error::because(&format!("listening on port {port}"), error),
    }
}

fn template_values(
    base_url: &str,
    seed: &Seed,
    sqs_url: String,
    more: BTreeMap<String, String>,
) -> Result<TemplateValues> {
    let mut parameters = BTreeMap::from([
        ("CheckoutBaseUrl".to_owned(), format!("{base_url}/checkout")),
        ("DashboardTokenPublicKeys".to_owned(), seed.token_key()?),
        ("MailFrom".to_owned(), MAIL_FROM.to_owned()),
    ]);
    parameters.extend(more);
    let secret = seed.token_secret().expose_secret().to_owned();
    let secrets = BTreeMap::from([("DashboardTokenSecret".to_owned(), secret)]);
    Ok(TemplateValues { parameters, secrets, sqs_url })
}

/// Returns the environment variables that Lambda sets, and those that exist only on this machine.
fn lambda_environment(endpoints: &Endpoints) -> BTreeMap<String, String> {
    [
        ("AWS_REGION", REGION.to_owned()),
        ("AWS_ACCESS_KEY_ID", ACCESS_KEY.to_owned()),
        ("AWS_SECRET_ACCESS_KEY", SECRET_KEY.to_owned()),
        ("AWS_ENDPOINT_URL_DYNAMODB", endpoints.dynamodb_url.clone()),
        ("AWS_ENDPOINT_URL_SQS", endpoints.sqs_url.clone()),
        ("AWS_ENDPOINT_URL_S3", endpoints.s3_url.clone()),
        ("WEBHOOK_ADDRESSES", "loopback".to_owned()),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

/// Without the offset, rows of an earlier run could have times in the future.
fn restored_clock(directory: &Path) -> Result<Clock> {
    let Some(text) = read_if_exists(&directory.join(CLOCK_FILE))? else { return Ok(Clock::default()) };
    let offset_ms = serde_json::from_str(&text).context("reading clock.json")?;
    Ok(Clock::with_offset_ms(offset_ms))
}
