//! `cargo run`: the whole service on this machine; and the developer's commands for it.

use std::fs::{File, TryLockError};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Parser, Subcommand};
use domain::money::Amount;
use domain::webhook::event_type::EventType;
use local::commands::listen::Print;
use local::commands::{Running, listen, trigger};
use local::embedded::State;
use local::guard::AllowedHost;
use local::seed::write_whole;
use local::stack::{Options, Stack};
use local::{Error, Result};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

/// Where state lives, below the directory that the service is started in.
const STATE_DIRECTORY: &str = ".local";

/// The payment service, whole, on this machine.
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: Serve,
}

/// What to do with a service that runs already.
#[derive(Subcommand)]
enum Command {
    /// Print each event as it arrives, and forward it, still signed
    Listen {
        /// Forward to this http address, whose answer the service gets
        #[arg(long, value_name = "URL")]
        forward_to: Option<String>,
        /// Listen to these alone [default: all but the legacy ones]
        #[arg(long, value_name = "NAME,…", value_delimiter = ',', value_parser = event)]
        events: Vec<EventType>,
        /// Print whole events
        #[arg(long)]
        print_json: bool,
        /// The service's ready file [default: .local/ready.json]
        #[arg(long, value_name = "PATH")]
        ready_file: Option<PathBuf>,
    },
    /// Make an event happen: create, pay, decline, expire, refund, pay out
    Trigger {
        /// Its name, such as charge.paid
        #[arg(value_parser = event)]
        event: EventType,
        /// In centavos
        #[arg(long, default_value = "1990", value_parser = amount)]
        amount: Amount,
        /// The service's ready file [default: .local/ready.json]
        #[arg(long, value_name = "PATH")]
        ready_file: Option<PathBuf>,
    },
}

fn event(text: &str) -> std::result::Result<EventType, String> {
    let found = EventType::ALL.iter().find(|(name, _)| *name == text).map(|(_, event)| *event);
    let names = || EventType::ALL.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    found.ok_or_else(|| format!("no such event; there are {}", names()))
}

fn amount(text: &str) -> std::result::Result<Amount, String> {
    let minor: i64 = text.parse().map_err(|_| "must be an integer".to_owned())?;
    Amount::parse(minor).map_err(|error| error.to_string())
}

/// How to serve.
#[derive(Args)]
struct Serve {
    /// The port to serve on; 0 takes a free one
    #[arg(long, default_value_t = 3000)]
    port: u16,
    /// Once it serves, write addresses and keys to this file, as JSON
    #[arg(long, value_name = "PATH")]
    ready_file: Option<PathBuf>,
    /// Keep no state: start empty, and leave nothing behind
    #[arg(long)]
    in_memory: bool,
    /// Let /_local/* be called by this host, beside loopback; may be given several times
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<AllowedHost>,
    /// Let webhooks go to these hosts too, by plain http and at any port, as to loopback: `host.docker.internal`
    #[arg(long, env = "WEBHOOK_LOCAL_NAMES", value_name = "NAME,…", default_value = "")]
    webhook_local_names: String,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // Requests and attempts, one line each; RUST_LOG says otherwise.
    let filter = shared::log::filter("warn,dynoxide=error,shared::http=info,webhook_worker=info,mailer=info");
    let lines = fmt::layer().compact().with_target(false).with_ansi(std::io::stderr().is_terminal());
    tracing_subscriber::registry().with(lines.with_writer(std::io::stderr).with_filter(filter)).init();
    match run(arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<()> {
    let print: Print = Arc::new(|line: &str| {
        // Nobody reads a closed terminal.
        let _ = writeln!(std::io::stdout(), "{line}");
    });
    match arguments.command {
        None => serve(arguments.serve).await,
        Some(Command::Listen { forward_to, events, print_json, ready_file }) => {
            let events = events.into_iter().map(|event| event.as_str().to_owned()).collect();
            let options = listen::Options { events, forward_to, print_json };
            listen::listen(&Running::find(ready_file).await?, options, print, stopped_or_closed()).await
        }
        Some(Command::Trigger { event, amount, ready_file }) => {
            trigger::trigger(&Running::find(ready_file).await?, event, amount, &print).await
        }
    }
}

async fn serve(arguments: Serve) -> Result<()> {
    let directory = Path::new(STATE_DIRECTORY);
    let (state, _lock) = if arguments.in_memory {
        (State::InMemory, None)
    } else {
        (State::Directory(directory.to_owned()), Some(lock(directory)?))
    };
    let kept = if arguments.in_memory { "in memory".to_owned() } else { format!("in {STATE_DIRECTORY}/") };
    // The operator's commands find the service by the one beside its state.
    let beside_state = (!arguments.in_memory).then(|| directory.join("ready.json"));
    let ready_files: Vec<PathBuf> = arguments.ready_file.into_iter().chain(beside_state).collect();
    for path in &ready_files {
        // An earlier run's would be taken for this one's.
        let _ = std::fs::remove_file(path);
    }
    let mails = (!arguments.in_memory).then(|| directory.join("mail"));
    let options = Options {
        state,
        port: arguments.port,
        mails,
        webhook_local_names: arguments.webhook_local_names,
        allowed_hosts: arguments.allow_host,
        ..Options::in_memory()
    };
    let stack = Stack::start(options).await?;
    let text =
        serde_json::to_vec_pretty(&stack.ready()?).map_err(|e| Error::because("the ready file", &e))?;
    for path in ready_files.iter().rev() {
        write_whole(path, &text)?;
    }
    // Nobody reads a closed terminal; the service goes on.
    let _ = writeln!(std::io::stdout(), "{}", greeting(&stack, &kept));
    stopped().await;
    stack.stop().await;
    if !arguments.in_memory {
        let _ = std::fs::remove_file(directory.join("ready.json"));
    }
    Ok(())
}

/// Two services on one state would each do the other's work.
fn lock(directory: &Path) -> Result<File> {
    let failed = |e: &(dyn std::error::Error + 'static)| {
        Error::because(&format!("locking {}", directory.display()), e)
    };
    let mut private = std::fs::DirBuilder::new();
    // Keys, passwords and webhook secrets are in there.
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut private, 0o700);
    private.recursive(true).create(directory).map_err(|e| failed(&e))?;
    let file = File::create(directory.join("lock")).map_err(|e| failed(&e))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let text = format!(
                "a service already runs on {}/; stop it, or use --in-memory --port 0",
                directory.display()
            );
            return Err(Error::new(text));
        }
        Err(TryLockError::Error(error)) => return Err(failed(&error)),
    }
    Ok(file)
}

fn greeting(stack: &Stack, kept: &str) -> String {
    let seed = &stack.seed.first;
    let base_url = &stack.base_url;
    let key = &seed.test_api_key;
    format!(
        "The payment service is on {base_url} (state {kept}; Ctrl-C stops it).

  test key    {key}
  live key    {live}
  dashboard   {email}  {password}

Create a Pix charge of R$ 19,90:

  curl -s {base_url}/v1/pix/charges -H 'apikey: {key}' -H 'Idempotency-Key: order-0001' -H 'Content-Type: application/json' -d '{{\"amount\": 1990}}'
",
        live = seed.live_api_key,
        email = seed.owner_email,
        password = seed.password,
    )
}

/// Returns when the terminal or the system asks for the end.
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

/// As [`stopped`], also when the terminal is closed: a listener must not leave its endpoint behind. The service itself is
/// left to whoever started it, who may have asked it to stay.
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
