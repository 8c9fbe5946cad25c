//! Starts the stand-in on the machine's clock, with its control routes, for `.ci/btcpay_stand_in.py` and for trying it
//! by hand.

use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::SystemTime;

use btcpay_stand_in::{BtcPay, Options};

#[tokio::main]
async fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [port, api_key, store_id] = arguments.as_slice() else {
        return Err(io::Error::other("usage: btcpay-stand-in PORT API_KEY STORE_ID"));
    };
    // Milliseconds that the clock is ahead of the machine's. Each line of the input adds seconds to it.
    let ahead_ms = Arc::new(AtomicI64::new(0));
    let clock_ahead_ms = Arc::clone(&ahead_ms);
    let clock = Arc::new(move || {
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let now_ms = i64::try_from(now.as_millis()).unwrap_or_default();
        now_ms.saturating_add(clock_ahead_ms.load(Ordering::SeqCst))
    });
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, port.parse().map_err(io::Error::other)?));
    let options = Options { listen, serves_control: true, ..Options::new(clock, api_key, store_id) };
    let btcpay = BtcPay::start(options).await?;
    writeln!(io::stdout(), "{}", btcpay.url())?;
    std::thread::spawn(move || {
        for line in io::stdin().lines().map_while(Result::ok) {
            let seconds: i64 = line.trim().parse().unwrap_or_default();
            ahead_ms.fetch_add(seconds.saturating_mul(1_000), Ordering::SeqCst);
        }
    });
    std::future::pending().await
}
