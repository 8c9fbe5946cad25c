//! Starts the stand-in of Stripe, at which the first account takes cards. `docs/stripe.md` describes it.
//!
//! The rows of a state refer to it by its URL, so its port is stored in the state directory.

use std::path::Path;
use std::sync::Arc;

use shared::clock::Clock;
use stripe_stand_in::{Options, Stripe};

use crate::error::{Error, Result};
use crate::local_bank::{loopback, on_new_port};
use crate::seed::{Seed, write_atomically};

pub(crate) async fn start(directory: Option<&Path>, seed: &Seed, clock: &Clock) -> Result<Stripe> {
    let clock = clock.clone();
    let options = Options {
        file: directory.map(|directory| directory.join("cards.jsonl")),
        ..Options::new(Arc::new(move || clock.now().millis()), &seed.card_key)
    };
    let Some(directory) = directory else {
        return Stripe::start(options).await.map_err(|error| failed(&error));
    };
    let file = directory.join("cards.port");
    if let Ok(text) = std::fs::read_to_string(&file) {
        let port = text.trim().parse().map_err(|error| Error::because("reading cards.port", &error))?;
        return Stripe::start(Options { listen: loopback(port), ..options }).await.map_err(|error| {
            Error::new(format!(
                "the stand-in of Stripe can't start on port {port}: {error}. The state in {}/ refers to it by this port. Without this state, use --in-memory, or delete the directory",
                directory.display(),
            ))
        });
    }
    let start = async |listen| Stripe::start(Options { listen, ..options.clone() }).await;
    let (port, stripe) = on_new_port(start).await.map_err(|error| failed(&error))?;
    write_atomically(&file, port.to_string().as_bytes())?;
    Ok(stripe)
}

fn failed(error: &std::io::Error) -> Error {
    Error::because("starting the stand-in of Stripe", error)
}
