//! The ports of the bank and of the stand-in of Stripe. The rows of a state refer to these servers by their URLs, so
//! their ports are stored in the state directory, and never change.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use shared::random;

use crate::error::{Context, Error, Result};
use crate::files::{read_if_exists, write_atomically};

// Operating systems give none of these ports to programs that request any free port, so the port of a state
// directory is most likely free at the next start too.
const FIRST_PORT: u16 = 20_000;
const PORTS: u16 = 12_000;

const PORT_ATTEMPTS: usize = 20;

/// Starts a server on the port in a file of the state directory, or on a free port, which the file then contains. In
/// memory, the port is any free one.
pub(crate) async fn start<T>(
    name: &str,
    directory: Option<&Path>,
    file: &str,
    start: impl AsyncFn(SocketAddr) -> io::Result<T>,
) -> Result<T> {
    let doing = format!("starting {name}");
    let Some(directory) = directory else {
        return start(loopback(0)).await.context(doing);
    };
    let file = directory.join(file);
    if let Some(text) = read_if_exists(&file)? {
        let port = text.trim().parse().context(format_args!("reading {}", file.display()))?;
        return match start(loopback(port)).await {
            Err(error) if error.kind() == ErrorKind::AddrInUse => Err(Error::new(format!(
                "port {port} of {name} is in use; stop the program that uses it. The state in {}/ refers to {name} by this port. Without this state, use --in-memory, or delete the directory",
                directory.display(),
            ))),
            started => started.context(doing),
        };
    }
    let mut attempts: usize = 0;
    loop {
        let offset = u16::try_from(random::below(u64::from(PORTS))).unwrap_or_default();
        let port = FIRST_PORT.saturating_add(offset);
        attempts = attempts.saturating_add(1);
        match start(loopback(port)).await {
            Err(error) if error.kind() == ErrorKind::AddrInUse && attempts < PORT_ATTEMPTS => {}
            started => {
                let server = started.context(doing)?;
                write_atomically(&file, port.to_string().as_bytes())?;
                return Ok(server);
            }
        }
    }
}

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}
