//! Starts the bank, at which the first account has a Pix key. `docs/bank.md` describes the bank.
//!
//! The rows of a state refer to the bank by its URL. So the bank's port and profile are stored in the state
//! directory, and never change.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use bank::{Bank, Client, Options, Profile};
use serde::{Deserialize, Serialize};
use shared::clock::Clock;
use shared::random;

use crate::error::{Error, Result};
use crate::seed::{Seed, write_atomically};

// Operating systems give none of these ports to programs that request any free port, so the port of a state
// directory is most likely free at the next start too.
const FIRST_PORT: u16 = 20_000;
const PORTS: u16 = 12_000;

const PORT_ATTEMPTS: usize = 20;

const CNPJ: &str = "12ABC34501DE35";

#[derive(Deserialize, Serialize)]
struct Stored {
    port: u16,
    profile: String,
}

/// How the bank differs from the default.
#[derive(Debug)]
pub(crate) struct BankSettings {
    /// `None`: that of the state directory, or `complete` for a new state.
    pub(crate) profile: Option<Profile>,
    /// How far the bank's clock is ahead of the service's, in seconds.
    pub(crate) skew_seconds: i64,
}

pub(crate) async fn start(
    directory: Option<&Path>,
    seed: &Seed,
    clock: &Clock,
    settings: &BankSettings,
) -> Result<Bank> {
    let clock = clock.clone();
    let options = Options {
        clients: vec![Client {
            client_id: seed.bank.client_id.clone(),
            client_secret: seed.bank.client_secret.clone(),
            keys: vec![seed.bank.pix_key.clone()],
            name: seed.first.merchant_name.clone(),
            city: "Sao Paulo".to_owned(),
            cnpj: CNPJ.to_owned(),
        }],
        profile: settings.profile.unwrap_or_default(),
        skew_s: settings.skew_seconds,
        books: directory.map(|directory| directory.join("bank.jsonl")),
        ..Options::new(Arc::new(move || clock.now().millis()))
    };
    match directory {
        None => Bank::start(options).await.map_err(|error| failed(&error)),
        Some(directory) => start_in(directory, options, settings.profile).await,
    }
}

async fn start_in(directory: &Path, options: Options, requested: Option<Profile>) -> Result<Bank> {
    let file = directory.join("bank.json");
    let Some(stored) = read(&file)? else {
        return start_on_new_port(&file, options).await;
    };
    let profile = Profile::parse(&stored.profile)
        .ok_or_else(|| Error::new(format!("{}: unknown profile {:?}", file.display(), stored.profile)))?;
    if let Some(requested) = requested.filter(|requested| *requested != profile) {
        return Err(Error::new(format!(
            "the bank of {}/ has the profile {}, not {}; use --in-memory, or delete the directory to start with an empty state",
            directory.display(),
            profile.name(),
            requested.name(),
        )));
    }
    let options = Options { listen: loopback(stored.port), profile, ..options };
    Bank::start(options).await.map_err(|error| match error.kind() {
        ErrorKind::AddrInUse => Error::new(format!(
            "port {} of the bank is in use; stop the program that uses it. The state in {}/ refers to the bank by this port. Without this state, use --in-memory, or delete the directory",
            stored.port,
            directory.display(),
        )),
        _ => failed(&error),
    })
}

async fn start_on_new_port(file: &Path, options: Options) -> Result<Bank> {
    let start = async |listen| Bank::start(Options { listen, ..options.clone() }).await;
    let (port, bank) = on_new_port(start).await.map_err(|error| failed(&error))?;
    let stored = Stored { port, profile: options.profile.name().to_owned() };
    let text = serde_json::to_vec(&stored).map_err(|e| Error::because("writing bank.json", &e))?;
    write_atomically(file, &text)?;
    Ok(bank)
}

/// Starts a server on a port that is free. Returns the port too.
pub(crate) async fn on_new_port<T>(
    start: impl AsyncFn(SocketAddr) -> std::io::Result<T>,
) -> std::io::Result<(u16, T)> {
    let mut attempts: usize = 0;
    loop {
        let offset = u16::try_from(random::below(u64::from(PORTS))).unwrap_or_default();
        let port = FIRST_PORT.saturating_add(offset);
        attempts = attempts.saturating_add(1);
        match start(loopback(port)).await {
            Ok(server) => return Ok((port, server)),
            Err(error) if error.kind() == ErrorKind::AddrInUse && attempts < PORT_ATTEMPTS => {}
            Err(error) => return Err(error),
        }
    }
}

fn read(file: &Path) -> Result<Option<Stored>> {
    match std::fs::read(file) {
        Ok(text) => {
            serde_json::from_slice(&text).map(Some).map_err(|e| Error::because("reading bank.json", &e))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::because("reading bank.json", &error)),
    }
}

pub(crate) fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

fn failed(error: &std::io::Error) -> Error {
    Error::because("starting the bank", error)
}
