//! A bank that serves the Central Bank's API Pix, for laptops and tests. `docs/laptop.md` describes it.
//!
//! It uses no crate of the service. The service and the bank therefore can't share a mistake: the bank has
//! its own BR Code, CRC, amounts and ids.
//!
//! The books are in memory, and optionally also in a file, which a restart reads. The clock is an argument, and
//! all delays of the bank follow it, so that moving the clock moves the bank too. Ids and
//! tokens follow from the seed, the clock and the order of requests.

mod brcode;
mod cob;
mod fault;
mod pix;
mod problem;
mod profile;
mod query;
mod server;
mod state;
mod tls;
mod values;

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use stand_in_kit::{Host, Running};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

pub use fault::{FaultKind, UnknownFault};
pub use pix::MedNature;
pub use profile::{Behaviour, Profile, TokenAuthentication};
pub use stand_in_kit::Clock;
pub use state::{MedError, Paid, PayError, PayRequest, Payer, ReportedTxid};
pub use tls::ServerTls;
pub use values::Cents;

use fault::Faults;
use server::Server;
use state::State;

/// A receiver with an account at the bank.
#[derive(Clone)]
pub struct Client {
    pub client_id: String,
    pub client_secret: String,
    pub keys: Vec<String>,
    /// The name in BR Codes. Only the first 25 characters appear there.
    pub name: String,
    /// The city in BR Codes. Only the first 15 characters appear there.
    pub city: String,
    pub cnpj: String,
}

#[derive(Clone)]
pub struct Options {
    /// The address to listen on. Port 0 is any free port.
    pub listen: SocketAddr,
    pub profile: Profile,
    /// The receivers. With `books`, later starts must have the same clients in the same order. They may add
    /// clients at the end, and change all but the client ids.
    pub clients: Vec<Client>,
    pub clock: Clock,
    /// How far the bank's clock is ahead of `clock`, in seconds. Negative if it is behind.
    pub skew_s: i64,
    /// Determines tokens and locations.
    pub seed: u64,
    pub tls: Option<ServerTls>,
    /// The file of the books, which one bank uses at a time. The bank restores it at the start, and writes
    /// every change to it before an answer or callback shows the change. `None`: the books are lost with the
    /// process.
    pub books: Option<PathBuf>,
}

impl Options {
    /// Returns options with the profile `complete`, plain HTTP on any loopback port, no skew and no client.
    pub fn new(clock: Clock) -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            profile: Profile::default(),
            clients: Vec::new(),
            clock,
            skew_s: 0,
            seed: 0,
            tls: None,
            books: None,
        }
    }
}

/// A running bank. It stops when it is dropped.
///
/// If the bank can't write its books, it answers every further request with 500 and sends no callback.
pub struct Bank {
    server: Running<Server>,
    origin: String,
}

impl Bank {
    /// Starts a bank. Fails if the address is in use, if a certificate or key is not valid, or if the books
    /// can't be read or written.
    pub async fn start(options: Options) -> io::Result<Self> {
        let behaviour = options.profile.behaviour();
        let scheme = if options.tls.is_some() { "https" } else { "http" };
        let acceptor = match &options.tls {
            None => None,
            Some(tls) => Some(TlsAcceptor::from(tls::server_config(tls)?)),
        };
        let listener = TcpListener::bind(options.listen).await?;
        let origin = format!("{scheme}://{}", listener.local_addr()?);
        let state = State::new(options.seed, behaviour, options.clients);
        let (clock, skew_ms) = (options.clock, options.skew_s.saturating_mul(1_000));
        let clock: Clock = Arc::new(move || clock().saturating_add(skew_ms));
        let host = Host::open(state, options.books, clock)?;
        Ok(Self { server: Running::start(Server { behaviour, host }, listener, acceptor), origin })
    }

    pub fn url(&self) -> String {
        format!("{}{}", self.origin, self.server.behaviour.base_path)
    }

    pub fn token_url(&self) -> String {
        format!("{}{}", self.origin, self.server.behaviour.token_path)
    }

    pub fn behaviour(&self) -> &'static Behaviour {
        self.server.behaviour
    }

    pub fn pay(&self, request: &PayRequest) -> Result<Paid, PayError> {
        let paid = self.server.change(|state, now_ms| state.pay(now_ms, request));
        paid.unwrap_or(Err(PayError::NotStored))
    }

    /// Makes a fault occur `count` times, in addition to earlier injections.
    pub fn inject_fault(&self, kind: FaultKind, count: u32) {
        self.server.faults(|faults| faults.inject(kind, count));
    }

    pub fn pending_faults(&self, kind: FaultKind) -> u32 {
        self.server.faults(|faults| faults.pending(kind))
    }

    pub fn clear_faults(&self) {
        self.server.faults(Faults::clear);
    }

    /// Returns a Pix to its payer by MED, as a decision of the banks. Without an amount, returns the
    /// remaining amount of the Pix. Returns the id of the devolução.
    pub fn open_med_devolucao(
        &self,
        end_to_end_id: &str,
        amount: Option<Cents>,
        nature: MedNature,
    ) -> Result<String, MedError> {
        let returned =
            self.server.change(|state, now_ms| state.return_by_med(now_ms, end_to_end_id, amount, nature));
        returned.unwrap_or(Err(MedError::NotStored))
    }

    /// Loses a cob with its Pix, by its txid, or a Pix, by its end-to-end id: as if the bank's database was
    /// restored from an earlier time.
    pub fn lose(&self, id: &str) {
        // If the books can't be written, every further request fails.
        let _ = self.server.change(|state, _| state.lose(id));
    }

    /// Returns the bank's books: `{cobs, pix, pixOut}`. They show the payer and cob of a Pix in every
    /// profile, and also contain Pix that the API does not show yet.
    pub fn snapshot(&self) -> Value {
        // If the books can't be saved, shows them with the last change, which was not saved.
        let _ = self.server.change(|_, _| ());
        self.server.host.books().state.snapshot()
    }

    /// Empties the books and removes all faults, as for a bank that starts for the first time. Its clients need new
    /// tokens and must register their URLs for callbacks again.
    /// Errors: When the file of the books can't be written. Then no further change is possible.
    pub fn reset(&self) -> io::Result<()> {
        self.server.host.books().reset(|state| *state = state.emptied())
    }

    /// Makes the bank look at its clock at once. Otherwise it does so every 20 ms, and only while something waits
    /// for a time.
    pub fn wake(&self) {
        self.server.host.wake();
    }

    /// Stops the bank. It drops requests and callbacks in progress, as by a kill. When this function returns,
    /// the address is free.
    pub async fn stop(&self) {
        self.server.stop().await;
    }
}

impl fmt::Debug for Bank {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Bank").field("url", &self.url()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_stand_ins_use_no_crate_of_the_service() {
        let name = |line: &'static str| line.split(['.', ' ', '=']).next().unwrap_or_default();
        let workspace = include_str!("../../../Cargo.toml").lines();
        let ours = workspace.filter(|line| line.contains("{ path = ")).map(name);
        let ours: Vec<&str> = ours.filter(|name| *name != "stand-in-kit").collect();
        assert!(ours.contains(&"domain"), "{ours:?}");
        for manifest in [
            include_str!("../Cargo.toml"),
            include_str!("../../kit/Cargo.toml"),
            include_str!("../../stripe/Cargo.toml"),
        ] {
            assert!(manifest.lines().any(|line| name(line) == "hyper"), "{manifest}");
            let foreign = manifest.lines().find(|line| ours.contains(&name(line)) || line.contains("../"));
            assert_eq!(foreign, None);
        }
    }
}
