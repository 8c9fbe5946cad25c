//! A server that plays Stripe, for laptops and tests. `docs/laptop.md` describes it.
//!
//! It uses no crate of the service. The service and the stand-in therefore can't share a mistake.
//!
//! The rows are in memory, and optionally also in a file, which a restart reads. The clock is an argument, and all
//! delays follow it, so that moving the clock moves the stand-in too. Ids follow from the order of requests.

mod api;
mod behaviour;
mod error;
mod fault;
mod form;
mod page;
mod routes;
mod server;
mod state;
mod values;

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use serde_json::{Value, json};
use stand_in_kit::{Host, Running};
use tokio::net::TcpListener;

pub use behaviour::{Behaviour, ExpiredPaymentIntent, VoucherProcessing};
pub use stand_in_kit::Clock;

use server::Server;
use state::State;

#[derive(Clone)]
pub struct Options {
    /// The address to listen on. Port 0 is any free port.
    pub listen: SocketAddr,
    /// `sk_live_…` or `rk_live_…`.
    pub api_key: String,
    pub behaviour: Behaviour,
    /// That of the account, such as `PT`, from which follow its methods and currency.
    pub country: String,
    pub clock: Clock,
    /// The file of the rows, which one stand-in uses at a time. `None`: the rows are lost with the process.
    pub file: Option<PathBuf>,
    /// True: the routes of [`Stripe::control`] are served too, under `/_local/stripe`.
    pub serves_control: bool,
}

impl Options {
    /// Returns options for any loopback port.
    pub fn new(clock: Clock, api_key: &str) -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            api_key: api_key.to_owned(),
            behaviour: Behaviour::default(),
            country: "BR".to_owned(),
            clock,
            file: None,
            serves_control: false,
        }
    }
}

/// A running stand-in. It stops when it is dropped.
///
/// If it can't write its file, it answers no further request and sends no notification.
pub struct Stripe {
    server: Running<Server>,
    url: String,
}

impl Stripe {
    /// Starts a stand-in. Fails if the address is in use, or if the file can't be read or written.
    pub async fn start(options: Options) -> io::Result<Self> {
        let listener = TcpListener::bind(options.listen).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let state = State::new(options.behaviour, url.clone(), &options.country);
        let host = Host::open(state, options.file, options.clock)?;
        let Options { api_key, serves_control, .. } = options;
        let server = Running::start(Server { host, api_key, serves_control }, listener, None);
        Ok(Self { server, url })
    }

    /// Returns the base URL of the API, of file uploads and of the payer's pages.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Executes a control route, such as `POST` `/pay`. Returns the status and the body.
    pub fn control(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        self.server.control(method, path, body)
    }

    /// Removes all objects and faults. The account and the behaviour stay.
    /// Errors: When the file can't be written. Then no further change is possible.
    pub fn reset(&self) -> io::Result<()> {
        self.server.host.books().reset(State::empty)
    }

    /// Reads the clock at once. Otherwise it is read every 20 ms, while something waits for a time.
    pub fn wake(&self) {
        self.server.host.wake();
    }

    /// Stops at once, as by a kill. When this function returns, the address is free.
    pub async fn stop(&self) {
        self.server.stop().await;
    }
}

impl fmt::Debug for Stripe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stripe").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Returns the API's operations with the fields that each accepts.
pub fn operations() -> Value {
    let of_api = routes::ROUTES.iter().filter(|route| route.path.starts_with("/v1/"));
    of_api.map(|route| json!({"method": route.method, "path": route.path, "fields": route.lines})).collect()
}
