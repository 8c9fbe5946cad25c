//! Starts the bank, at which the first account has a Pix key. `docs/laptop.md` describes the bank.
//!
//! The profile of a state is stored in the state directory, and never changes.

use std::path::Path;
use std::sync::Arc;

use bank::{Bank, Client, Options, Profile};
use shared::clock::Clock;

use crate::error::{Error, Result};
use crate::files::{read_if_exists, write_atomically};
use crate::seed::Seed;
use crate::stored_port;

const CNPJ: &str = "12ABC34501DE35";

/// `requested`: the profile; `None`: that of the state directory, or `complete` for a new state. `skew_s`: how far the
/// bank's clock is ahead of the service's.
pub(crate) async fn start(
    directory: Option<&Path>,
    seed: &Seed,
    clock: &Clock,
    requested: Option<Profile>,
    skew_s: i64,
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
        profile: profile(directory, requested)?,
        skew_s,
        books: directory.map(|directory| directory.join("bank.jsonl")),
        ..Options::new(Arc::new(move || clock.now().millis()))
    };
    let start = async |listen| Bank::start(Options { listen, ..options.clone() }).await;
    stored_port::start("the bank", directory, "bank.port", start).await
}

/// Returns the stored profile, which must be the requested one, or stores the requested one.
fn profile(directory: Option<&Path>, requested: Option<Profile>) -> Result<Profile> {
    let Some(directory) = directory else { return Ok(requested.unwrap_or_default()) };
    let file = directory.join("bank.profile");
    let Some(stored) = read_if_exists(&file)? else {
        let profile = requested.unwrap_or_default();
        write_atomically(&file, profile.name().as_bytes())?;
        return Ok(profile);
    };
    let profile = Profile::parse(&stored)
        .ok_or_else(|| Error::new(format!("{}: unknown profile {stored:?}", file.display())))?;
    if let Some(requested) = requested.filter(|requested| *requested != profile) {
        return Err(Error::new(format!(
            "the bank of {}/ has the profile {}, not {}; use --in-memory, or delete the directory to start with an empty state",
            directory.display(),
            profile.name(),
            requested.name(),
        )));
    }
    Ok(profile)
}
