//! Starts the stand-in of Stripe, at which the first account takes cards. `docs/laptop.md` describes it.

use std::path::Path;
use std::sync::Arc;

use shared::clock::Clock;
use stripe_stand_in::{Options, Stripe};

use crate::error::Result;
use crate::seed::Seed;
use crate::stored_port;

pub(crate) async fn start(directory: Option<&Path>, seed: &Seed, clock: &Clock) -> Result<Stripe> {
    let clock = clock.clone();
    let options = Options {
        file: directory.map(|directory| directory.join("cards.jsonl")),
        ..Options::new(Arc::new(move || clock.now().millis()), &seed.card_key)
    };
    let start = async |listen| Stripe::start(Options { listen, ..options.clone() }).await;
    stored_port::start("the stand-in of Stripe", directory, "cards.port", start).await
}
