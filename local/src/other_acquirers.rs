//! The stand-ins that play further acquirers of the first account: an account in Europe at Stripe, and a store at a BTCPay
//! Server. `docs/laptop.md` describes them.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use btcpay_stand_in::{BtcPay, Options};
use shared::clock::Clock;
use stripe_stand_in::Stripe;

use crate::error::Result;
use crate::local_cards::{self, EUROPE};
use crate::seed::Seed;
use crate::stored_port;

/// The store at the stand-in.
pub(crate) const STORE: &str = "LocalStore1111111111111111111111111111111111";

/// The key at the stand-in, of letters and digits.
pub(crate) fn crypto_key(seed: &Seed) -> String {
    seed.card_key.chars().filter(char::is_ascii_alphanumeric).collect()
}

pub struct OtherAcquirers {
    /// Takes Multibanco and MB WAY.
    pub europe: Stripe,
    /// Takes crypto.
    pub btcpay: BtcPay,
}

impl OtherAcquirers {
    pub(crate) async fn start(directory: Option<&Path>, seed: &Seed, clock: &Clock) -> Result<Self> {
        let europe = local_cards::start(&EUROPE, directory, seed, clock).await?;
        let clock = clock.clone();
        let options = Options {
            file: directory.map(|directory| directory.join("btcpay.jsonl")),
            ..Options::new(Arc::new(move || clock.now().millis()), &crypto_key(seed), STORE)
        };
        let start = async |listen| BtcPay::start(Options { listen, ..options.clone() }).await;
        let btcpay =
            stored_port::start("a stand-in of BTCPay Server", directory, "btcpay.port", start).await?;
        Ok(Self { europe, btcpay })
    }

    pub(crate) fn wake(&self) {
        self.europe.wake();
        self.btcpay.wake();
    }

    pub(crate) fn reset(&self) -> io::Result<()> {
        self.europe.reset()?;
        self.btcpay.reset()
    }

    pub(crate) async fn stop(&self) {
        self.europe.stop().await;
        self.btcpay.stop().await;
    }
}

impl fmt::Debug for OtherAcquirers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OtherAcquirers").field("btcpay", &self.btcpay.url()).finish_non_exhaustive()
    }
}
