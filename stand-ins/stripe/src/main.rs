//! Starts the stand-in on the machine's clock, with its control routes, for `.ci/stripe_stand_in.py` and for trying it
//! by hand. `stripe-stand-in operations` prints the API's operations instead.

use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::SystemTime;

use stripe_stand_in::{Options, Stripe, operations};

#[tokio::main]
async fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (port, api_key) = match arguments.as_slice() {
        [command] if command == "operations" => return writeln!(io::stdout(), "{:#}", operations()),
        [port, api_key] => (port.parse().map_err(io::Error::other)?, api_key),
        _ => {
            return Err(io::Error::other(
                "usage: stripe-stand-in PORT API_KEY, or stripe-stand-in operations",
            ));
        }
    };
    let clock = Arc::new(|| {
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        i64::try_from(now.as_millis()).unwrap_or_default()
    });
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let stripe =
        Stripe::start(Options { listen, serves_control: true, ..Options::new(clock, api_key) }).await?;
    writeln!(io::stdout(), "{}", stripe.url())?;
    std::future::pending().await
}
