//! `cargo run`: starts the whole service on this machine. `cargo run -- listen` and
//! `cargo run -- trigger` use the running service. `cargo run -- verify` checks the signature of a received
//! webhook.

use std::fs::{File, TryLockError};
use std::io::{IsTerminal, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use bank::Profile;
use clap::{Args, Parser, Subcommand};
use domain::money::Amount;
use domain::webhook::event_type::EventType;
use local::commands::listen::Print;
use local::commands::{Running, listen, trigger, verify};
use local::deployed::{self, DeployedStack};
use local::embedded::{ACCESS_KEY, Endpoints, Listen, REGION, SECRET_KEY, State};
use local::files::{create_private, write_atomically};
use local::fronts::{Fronts, Upstream};
use local::guard::AllowedHost;
use local::local_routes::example_request;
use local::stack::{Options, Stack};
use local::{Context, Error, Result};
use mimalloc::MiMalloc;
use secrecy::SecretString;
use serde_json::Value;
use shared::clock::Clock;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};
use url::Url;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const STATE_DIRECTORY: &str = ".local";

/// How far the bank's clock may be ahead of the service's or behind it: a day.
const MAX_SKEW_SECONDS: i64 = 86_400;

/// Run the whole payment service on this machine.
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: Serve,
}

/// The commands for developers.
#[derive(Subcommand)]
enum Command {
    /// Receive webhook events of the running service, and print or forward them
    ///
    /// Registers an endpoint, prints a line for each event, and deletes the endpoint when the command ends.
    Listen {
        /// Forward each event to this http URL, with its signature, and return the response to the service
        #[arg(long, value_name = "URL")]
        forward_to: Option<String>,
        /// Receive only these events [default: all canonical events]
        #[arg(long, value_name = "NAME,…", value_delimiter = ',', value_parser = event)]
        events: Vec<EventType>,
        /// Also print the whole event as JSON
        #[arg(long)]
        print_json: bool,
        /// Ready file of the running service [default: .local/ready.json]
        #[arg(long, value_name = "PATH")]
        ready_file: Option<PathBuf>,
    },
    /// Cause an event in the running service by sending the requests that lead to it
    ///
    /// For example, charge.paid creates a charge and simulates its payment.
    Trigger {
        /// Name of the event, such as charge.paid
        #[arg(value_parser = event)]
        event: EventType,
        /// Amount of the charge or payout in centavos
        #[arg(long, default_value = "1990", value_parser = amount)]
        amount: Amount,
        /// Ready file of the running service [default: .local/ready.json]
        #[arg(long, value_name = "PATH")]
        ready_file: Option<PathBuf>,
    },
    /// Check the signature of a received webhook, and say which part is wrong
    ///
    /// The exit code is 0 only if the signature is right and at most 5 minutes old. Needs no running service.
    Verify(Verify),
    /// Run the AWS services and the event sources, for functions that `sam local` or another program runs
    ///
    /// The API is not served. The environment variables of the functions are written to a file.
    Emulators(Emulators),
    /// Serve the API of a stack that `sam deploy` created in an AWS emulator
    ///
    /// Calls the deployed functions by the Lambda Invoke API. Creates two accounts in the stack's tables.
    Gateway(DeployedGateway),
}

fn event(text: &str) -> std::result::Result<EventType, String> {
    let found = EventType::ALL.iter().find(|(name, _)| *name == text).map(|(_, event)| *event);
    let names = || EventType::ALL.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    found.ok_or_else(|| format!("must be one of these events: {}", names()))
}

fn bank_profile(text: &str) -> std::result::Result<Profile, String> {
    let names = || Profile::ALL.iter().map(|profile| profile.name()).collect::<Vec<_>>().join(", ");
    Profile::parse(text).ok_or_else(|| format!("must be one of these profiles: {}", names()))
}

fn base_url(text: &str) -> std::result::Result<String, String> {
    let url =
        Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.path() == "/");
    url.map(|url| url.as_str().trim_end_matches('/').to_owned()).ok_or_else(|| {
        "must be an http or https URL without a path, such as http://localhost:8080".to_owned()
    })
}

/// Refuses https, because requests are not signed: AWS itself would refuse them.
fn plain_url(text: &str) -> std::result::Result<String, String> {
    let url = text.trim_end_matches('/');
    let is_plain = url.starts_with("http://");
    is_plain.then(|| url.to_owned()).ok_or_else(|| "must begin with http://".to_owned())
}

fn amount(text: &str) -> std::result::Result<Amount, String> {
    let minor: i64 = text.parse().map_err(|_| "must be an integer, in centavos".to_owned())?;
    Amount::parse(minor).map_err(|error| error.to_string())
}

/// The options of the command `verify`.
#[derive(Args)]
struct Verify {
    /// Secret of the endpoint, as the service showed it (also `standardWebhooksSecret`)
    #[arg(long, env = "WEBHOOK_SECRET", hide_env_values = true)]
    secret: SecretString,
    /// Value of the header X-Service-Signature, or of webhook-signature with --id and --timestamp
    #[arg(long, value_name = "HEADER")]
    signature: String,
    /// File with the body as it arrived; `-`: the standard input
    #[arg(long, value_name = "FILE")]
    body: PathBuf,
    /// Value of the header webhook-id
    #[arg(long, requires = "timestamp")]
    id: Option<String>,
    /// Value of the header webhook-timestamp
    #[arg(long, requires = "id")]
    timestamp: Option<String>,
    /// Accept the legacy form `sha256=<hex>`, which has no time
    #[arg(long)]
    legacy: bool,
}

/// The options of the service and of the command `emulators`.
#[derive(Args)]
struct Run {
    /// Write the URLs and API keys to this file, as JSON, when the service is ready
    #[arg(long, value_name = "PATH")]
    ready_file: Option<PathBuf>,
    /// Start with empty state and delete it at the end, instead of using .local/
    #[arg(long)]
    in_memory: bool,
    /// Send webhooks also to these hosts, as to loopback, by plain http and to any port, such as
    /// `host.docker.internal`
    #[arg(long, env = "WEBHOOK_LOCAL_NAMES", value_name = "NAME,…", default_value = "")]
    webhook_local_names: String,
}

/// The options of the service.
#[derive(Args)]
struct Serve {
    /// Port to listen on; 0: any free port
    #[arg(long, default_value_t = 3000)]
    port: u16,
    /// Address to listen on, such as 0.0.0.0 in a container. Who reaches it can use the API with a key, and also the
    /// routes under /_local/ without one
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    address: IpAddr,
    /// Base URL of the API in links, if clients reach it by another than the address and port [default:
    /// http://IP:PORT, with 127.0.0.1 for 0.0.0.0]
    #[arg(long, value_name = "URL", value_parser = base_url)]
    base_url: Option<String>,
    #[command(flatten)]
    run: Run,
    /// Also accept requests to /_local/* and to the embedded services with this host name, besides loopback; can be
    /// repeated
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<AllowedHost>,
    /// How the local bank differs from other banks: `complete`, `app_key`, `account_header`, `minimal`
    /// or `local_time`; it can't change for an existing .local/ [default: complete]
    #[arg(long, value_name = "PROFILE", value_parser = bank_profile)]
    bank_profile: Option<Profile>,
    /// Set the local bank's clock ahead of the service's by this many seconds; negative: behind it
    #[arg(long, value_name = "SECONDS", default_value_t = 0, allow_negative_numbers = true,
        value_parser = clap::value_parser!(i64).range(-MAX_SKEW_SECONDS..=MAX_SKEW_SECONDS))]
    bank_skew: i64,
    /// Serve the embedded DynamoDB at this address and port, and SQS and S3 at the next two ports [default: free
    /// ports of the loopback interface]
    #[arg(long, value_name = "ADDR")]
    aws_listen: Option<SocketAddr>,
    /// Let the functions reach DynamoDB at this URL, such as a proxy's
    #[arg(long, value_name = "URL", value_parser = plain_url)]
    dynamodb_url: Option<String>,
    /// Let the functions reach S3 at this URL, so that evidence can be uploaded from outside a container
    #[arg(long, value_name = "URL", value_parser = plain_url)]
    s3_url: Option<String>,
}

/// The options of the command `emulators`.
#[derive(Args)]
struct Emulators {
    /// Address and port of DynamoDB; SQS and S3 use the next two ports. Who reaches it can read and change
    /// everything
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:4566")]
    listen: SocketAddr,
    /// Write the variables of each function to this file, for `sam local start-api --env-vars`; it contains the
    /// token secret
    #[arg(long, value_name = "PATH", default_value = "env.json")]
    env_file: PathBuf,
    /// The name or address by which the functions reach this machine
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    host: String,
    /// The base URL of the API that the other program serves
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:3000")]
    base_url: String,
    #[command(flatten)]
    run: Run,
}

/// The options of the command `gateway`.
#[derive(Args)]
struct DeployedGateway {
    /// URL of the emulator, by plain http; it serves Lambda, DynamoDB, SQS and S3
    #[arg(long, value_name = "URL", value_parser = plain_url)]
    invoke_url: String,
    /// The stack's resources: the output of `sam list resources --stack-name NAME --output json`
    #[arg(long, value_name = "PATH")]
    resources: PathBuf,
    /// Port to listen on, on the loopback interface; 0: any free port
    #[arg(long, default_value_t = 3000)]
    port: u16,
    /// Write the URLs and API keys to this file, as JSON, when the API is served
    #[arg(long, value_name = "PATH")]
    ready_file: PathBuf,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // By default, logs what needs attention, and e-mails, which have no other trace with --in-memory. RUST_LOG
    // overrides this filter.
    let filter = shared::log::filter("warn,dynoxide=error,mailer=info");
    let lines = fmt::layer().compact().with_target(false).with_ansi(std::io::stderr().is_terminal());
    tracing_subscriber::registry().with(lines.with_writer(std::io::stderr).with_filter(filter)).init();
    match Box::pin(run(arguments)).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<()> {
    let print: Print = Arc::new(|line: &str| {
        // Ignores the error of a closed terminal.
        let _ = writeln!(std::io::stdout(), "{line}");
    });
    match arguments.command {
        None => serve(arguments.serve).await,
        Some(Command::Emulators(arguments)) => emulate(arguments).await,
        Some(Command::Gateway(arguments)) => serve_deployed(arguments).await,
        Some(Command::Listen { forward_to, events, print_json, ready_file }) => {
            let events = events.into_iter().map(|event| event.as_str().to_owned()).collect();
            let options = listen::Options { events, forward_to, print_json };
            listen::listen(&Running::find(ready_file).await?, options, print, stopped_or_closed()).await
        }
        Some(Command::Trigger { event, amount, ready_file }) => {
            trigger::trigger(&Running::find(ready_file).await?, event, amount, &print).await
        }
        Some(Command::Verify(arguments)) => verify_webhook(arguments, &print).await,
    }
}

async fn verify_webhook(arguments: Verify, print: &Print) -> Result<()> {
    let Verify { secret, signature, body, id, timestamp, legacy } = arguments;
    let received = verify::Received {
        secret,
        signature,
        standard_webhooks: id.zip(timestamp),
        accept_legacy: legacy,
        body: verify::read_body(&body)?,
    };
    let verified = verify::verify(&received, Clock::machine_now().seconds(), print);
    // A service need not run. If one does, times in the body are those of its clock.
    let clock = async { Running::find(None).await?.clock().await };
    if let Some(ahead) = clock.await.ok().and_then(|(_, offset)| ahead_of_machine(offset)) {
        print(&format!("The service's clock is {ahead}. The signature has this machine's time."));
    }
    verified
}

/// `None`: it has none.
fn ahead_of_machine(offset_seconds: i64) -> Option<String> {
    (offset_seconds != 0).then(|| format!("{} this machine's", verify::Age(offset_seconds.saturating_neg())))
}

async fn serve(arguments: Serve) -> Result<()> {
    let Serve { dynamodb_url, s3_url, .. } = arguments;
    let s3_host = s3_url.as_deref().and_then(|url| Url::parse(url).ok()?.host_str()?.parse().ok());
    let fronts = Fronts::new(move |upstream, own| {
        let url = match upstream {
            Upstream::DynamoDb => &dynamodb_url,
            Upstream::S3 => &s3_url,
            Upstream::Sqs | Upstream::Bank | Upstream::Cards => &None,
        };
        url.as_deref().unwrap_or(own).to_owned()
    });
    let options = Options {
        address: SocketAddr::new(arguments.address, arguments.port),
        base_url: arguments.base_url,
        allowed_hosts: arguments.allow_host.into_iter().chain(s3_host).collect(),
        bank_profile: arguments.bank_profile,
        bank_skew_seconds: arguments.bank_skew,
        listen: arguments.aws_listen.map_or(Listen::AnyPort, Listen::Fixed),
        fronts,
        ..Options::in_memory()
    };
    run_stack(options, arguments.run, |stack, location| Ok(startup_message(stack, location))).await
}

async fn emulate(arguments: Emulators) -> Result<()> {
    let Emulators { listen, env_file, host, base_url, run } = arguments;
    let webhook_local_names = run.webhook_local_names.clone();
    let allowed = host.parse::<AllowedHost>().context("--host")?;
    let options = Options {
        allowed_hosts: vec![allowed],
        listen: Listen::Fixed(listen),
        api_elsewhere: Some(base_url.trim_end_matches('/').to_owned()),
        ..Options::in_memory()
    };
    run_stack(options, run, |stack, location| {
        let variables = stack.environment_file(&host, &webhook_local_names)?;
        let text =
            serde_json::to_vec_pretty(&variables).context("encoding the variables of the functions")?;
        write_atomically(&env_file, &text)?;
        Ok(emulators_message(stack, location, &env_file))
    })
    .await
}

async fn serve_deployed(arguments: DeployedGateway) -> Result<()> {
    let DeployedGateway { invoke_url, resources, port, ready_file } = arguments;
    remove_ready_file(&ready_file);
    let stack = DeployedStack::start(deployed::Options { port, invoke_url, resources }).await?;
    write_atomically(&ready_file, &ready_text(&stack.ready)?)?;
    // Ignores the error of a closed terminal: the gateway continues.
    let _ = writeln!(std::io::stdout(), "{}", deployed_message(&stack));
    stopped().await;
    stack.stop().await;
    Ok(())
}

/// A program that waits for the new file must not read the old one.
fn remove_ready_file(path: &Path) {
    let _ = std::fs::remove_file(path);
}

fn ready_text(ready: &Value) -> Result<Vec<u8>> {
    serde_json::to_vec_pretty(ready).context("encoding the ready file")
}

/// Runs the service until it is stopped.
async fn run_stack(
    options: Options,
    Run { ready_file, in_memory, webhook_local_names }: Run,
    message: impl FnOnce(&Stack, &str) -> Result<String>,
) -> Result<()> {
    let directory = Path::new(STATE_DIRECTORY);
    let (state, _lock) = if in_memory {
        (State::InMemory, None)
    } else {
        // Without the lock, two services could use the same state, and both would process its due rows.
        let lock = lock(directory, "lock")?.ok_or_else(|| {
            Error::new(format!(
                "a service already runs on {STATE_DIRECTORY}/; stop it, or use --in-memory --port 0"
            ))
        })?;
        (State::Directory(directory.to_owned()), Some(lock))
    };
    let location = if in_memory { "in memory".to_owned() } else { format!("in {STATE_DIRECTORY}/") };
    // `admin`, `listen` and `trigger` find the service by the ready file in the state directory. The first
    // service that runs in the directory has this file, so a second one does not redirect the commands.
    let ready_lock = lock(directory, "ready.lock");
    let default_ready_file =
        matches!(ready_lock, Ok(Some(_))).then(|| directory.join("ready.json")).into_iter();
    let note = commands_note(&ready_lock, ready_file.as_deref());
    let ready_files: Vec<PathBuf> = ready_file.into_iter().chain(default_ready_file.clone()).collect();
    for path in &ready_files {
        remove_ready_file(path);
    }
    let mail_directory = (!in_memory).then(|| directory.join("mail"));
    let stack = Stack::start(Options {
        state,
        mail_directory,
        webhook_local_names,
        other_acquirers: true,
        ..options
    })
    .await?;
    let message = message(&stack, &location)?;
    let text = ready_text(&stack.ready().await?)?;
    for path in ready_files.iter().rev() {
        write_atomically(path, &text)?;
    }
    // Ignores the error of a closed terminal: the service continues.
    let _ = writeln!(std::io::stdout(), "{message}{note}");
    stopped().await;
    stack.stop().await;
    for path in default_ready_file {
        remove_ready_file(&path);
    }
    Ok(())
}

/// Returns what to print if the service has not the ready file in the state directory; else nothing.
fn commands_note(ready_lock: &Result<Option<File>>, ready_file: Option<&Path>) -> String {
    let why = match ready_lock {
        Ok(Some(_)) => return String::new(),
        Ok(None) => format!(
            "Another service runs in this directory: `admin`, `listen` and `trigger` use that one, by {STATE_DIRECTORY}/ready.json."
        ),
        Err(error) => format!("{STATE_DIRECTORY}/ready.json can't be written ({error})."),
    };
    let way_out = match ready_file {
        Some(path) => format!("Call them with --ready-file {} to use this one.", path.display()),
        None => {
            "To use this one, start it with --ready-file PATH, and call them with the same option.".to_owned()
        }
    };
    format!("\n{why} {way_out}\n")
}

/// `None`: another process has the lock.
fn lock(directory: &Path, name: &str) -> Result<Option<File>> {
    let doing = format!("locking {}", directory.display());
    // It contains API keys, passwords and webhook secrets.
    create_private(directory).context(&doing)?;
    let file = File::create(directory.join(name)).context(&doing)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error).context(&doing),
    }
}

fn startup_message(stack: &Stack, location: &str) -> String {
    let seed = &stack.seed.first;
    let base_url = &stack.base_url;
    let key = &seed.test_api_key;
    format!(
        "The payment service is on {base_url} (state {location}; Ctrl-C stops it).
{clock}
  dashboard   {base_url}/dashboard
  guide       {base_url}/docs
  test key    {key}
  live key    {live}
  bank        {bank}
  cards       {cards}  (a stand-in of Stripe: cards, boleto)
{others}  user        {email}  {password}  (dashboard, POST /v1/auth/login)

Create a Pix charge of R$ 19,90, then open its `checkout_url` in a browser:

  {example}
",
        clock = ahead_of_machine(stack.clock.offset_ms() / 1_000)
            .map(|ahead| format!(
                "Its clock is {ahead}. POST /_local/reset empties it and sets its clock back.\n"
            ))
            .unwrap_or_default(),
        example = example_request(base_url, key),
        live = seed.live_api_key,
        bank = stack.bank_url,
        cards = stack.cards.url(),
        others = stack
            .others
            .as_ref()
            .map(|others| {
                let (europe, btcpay) = (others.europe.url(), others.btcpay.url());
                format!(
                    "  europe      {europe}  (another: Multibanco, MB WAY)
  btcpay      {btcpay}  (crypto)
"
                )
            })
            .unwrap_or_default(),
        email = seed.owner_email,
        password = seed.password,
    )
}

fn emulators_message(stack: &Stack, location: &str, env_file: &Path) -> String {
    let Endpoints { dynamodb_url, sqs_url, s3_url } = &stack.endpoints;
    format!(
        "DynamoDB is on {dynamodb_url}, SQS on {sqs_url} and S3 on {s3_url} (state {location}; Ctrl-C stops them).
The API is expected on {base_url}.

  test key    {key}
  variables   {env_file}

Serve the API by SAM, from the built template (see docs/testing.md):

  AWS_ACCESS_KEY_ID={ACCESS_KEY} AWS_SECRET_ACCESS_KEY={SECRET_KEY} AWS_REGION={REGION} sam local start-api --env-vars {env_file}
",
        base_url = stack.base_url,
        key = stack.seed.first.test_api_key,
        env_file = env_file.display(),
    )
}

fn deployed_message(stack: &DeployedStack) -> String {
    format!(
        "The API of the deployed stack is on {base_url} (Ctrl-C stops it; the stack continues).

  test key    {key}
",
        base_url = stack.base_url,
        key = stack.seed.first.test_api_key,
    )
}

async fn stopped() {
    let terminal = tokio::signal::ctrl_c();
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminated) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = terminal => {}
                _ = terminated.recv() => {}
            }
            return;
        }
    }
    let _ = terminal.await;
}

/// A closed terminal sends SIGHUP, and `listen` must then delete its endpoint. The service itself does not
/// handle SIGHUP, so that `nohup` can keep it running.
async fn stopped_or_closed() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut closed) = signal(SignalKind::hangup()) {
            tokio::select! {
                () = stopped() => {}
                _ = closed.recv() => {}
            }
            return;
        }
    }
    stopped().await;
}
