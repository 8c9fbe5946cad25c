//! A server that plays BTCPay Server 2.x (Greenfield API), for laptops and tests. `docs/laptop.md` describes it.
//!
//! It uses no crate of the service, so the two can't share a mistake. Invoices and webhooks are in memory, and optionally
//! also in a file, which a restart reads. The queues of webhooks are in memory only, as those of BTCPay Server: a restart
//! loses them. The clock is an argument, and all delays follow it. Ids follow from the store's id and the order of
//! requests.

mod api;
mod behaviour;
mod decimal;
mod error;
mod requests;
mod routes;
mod server;
mod state;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use serde_json::Value;
use stand_in_kit::{Host, Running};
use tokio::net::TcpListener;

pub use behaviour::Behaviour;
pub use stand_in_kit::Clock;

use server::Server;
use state::State;

#[derive(Clone)]
pub struct Options {
    /// The address to listen on. Port 0 is any free port.
    pub listen: SocketAddr,
    pub api_key: String,
    /// The only store. The ids of two stand-ins differ by it.
    pub store_id: String,
    pub behaviour: Behaviour,
    pub clock: Clock,
    /// The file of the rows, which one stand-in uses at a time. `None`: the rows are lost with the process.
    pub file: Option<PathBuf>,
    /// True: the routes of [`BtcPay::control`] are served too, under `/_local/btcpay`.
    pub serves_control: bool,
}

impl Options {
    /// Returns options for any loopback port.
    pub fn new(clock: Clock, api_key: &str, store_id: &str) -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            api_key: api_key.to_owned(),
            store_id: store_id.to_owned(),
            behaviour: Behaviour::default(),
            clock,
            file: None,
            serves_control: false,
        }
    }
}

/// A running stand-in. It stops when it is dropped.
///
/// If it can't write its file, it answers no further request and sends no webhook.
pub struct BtcPay {
    server: Running<Server>,
    url: String,
}

impl BtcPay {
    /// Starts a stand-in. Fails if the address is in use, or if the file can't be read or written.
    pub async fn start(options: Options) -> io::Result<Self> {
        let listener = TcpListener::bind(options.listen).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let Options { api_key, store_id, behaviour, clock, file, serves_control, .. } = options;
        let state = State::new(behaviour, url.clone(), api_key, store_id);
        let server = Server { host: Host::open(state, file, clock)?, serves_control };
        Ok(Self { server: Running::start(server, listener, None), url })
    }

    /// Returns the base URL of the API.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Executes a control route, such as `POST` `/pay`. Returns the status and the body.
    pub fn control(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        self.server.control(method, path, body)
    }

    /// Removes all invoices, webhooks and faults. The behaviour stays.
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
