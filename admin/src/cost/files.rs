//! The price file and the usage file of `admin cost`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::decimal::Decimal;
use super::meter::Meter;

/// The price file without `--prices`.
const PRICES: &str = include_str!("../../prices/us-east-1.json");

/// The usage file without `--usage`.
const USAGE: &str = include_str!("../../usage.json");

#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    #[error("the {kind} `{}` can't be read: {error}", path.display())]
    Unreadable { kind: &'static str, path: PathBuf, error: std::io::Error },
    #[error("the {kind} is not valid: {error}")]
    Invalid { kind: &'static str, error: serde_json::Error },
    #[error("the price file is not valid: `per` of `{meter}` must be at least 1")]
    PerZero { meter: &'static str },
    #[error("the usage file has no profile `{profile}`; it has: {profiles}")]
    UnknownProfile { profile: String, profiles: String },
}

/// Published prices of a region. A meter without a price is not part of the sum.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Prices {
    pub(super) region: String,
    pub(super) prices: BTreeMap<Meter, Price>,
}

/// The published on-demand price of a quantity.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Price {
    /// US dollars for `per` units of the meter.
    pub(super) usd: Decimal,
    pub(super) per: u64,
    /// The page or price list on which AWS publishes the price.
    pub(super) page: String,
    /// The day of the page, such as 2026-10-04.
    pub(super) date: String,
}

impl Prices {
    /// Reads a price file. `None`: the file that is part of this program.
    pub(super) fn read(path: Option<&Path>) -> Result<Self, FileError> {
        let prices: Self = read("price file", path, PRICES)?;
        match prices.prices.iter().find(|(_, price)| price.per == 0) {
            Some((meter, _)) => Err(FileError::PerZero { meter: meter.text() }),
            None => Ok(prices),
        }
    }
}

/// What a charge uses, by profile of load.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Usage {
    /// Memory of each function, in MB.
    memory_mb: u64,
    profiles: BTreeMap<String, Profile>,
}

/// What a charge uses under one kind of load.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Profile {
    /// The load, in words.
    load: String,
    /// A charge that is created and paid, without a delivery.
    charge: Counts,
    /// A webhook that is delivered at the first attempt.
    delivery: Counts,
}

/// Quantities that AWS bills.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Counts {
    /// Quantities that a test compares with the service.
    measured: BTreeMap<Meter, Decimal>,
    /// Quantities that no test measures.
    estimated: BTreeMap<Meter, Decimal>,
    /// By name. A name can stand for several functions with a similar duration.
    functions: BTreeMap<String, Function>,
}

/// The invocations of a function.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Function {
    invocations: Decimal,
    /// The billed duration of an invocation, in ms; an estimate.
    estimated_ms: u64,
}

/// A quantity for each charge.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Quantity {
    pub(super) count: Decimal,
    pub(super) is_estimate: bool,
}

/// The quantities for each charge, with its deliveries.
#[derive(Debug)]
pub(super) struct ChargeUsage {
    /// The load, in words.
    pub(super) load: String,
    pub(super) quantities: BTreeMap<Meter, Quantity>,
}

impl ChargeUsage {
    /// Reads the usage of a charge with a number of deliveries. Path `None`: the file that is part of this
    /// program. Result `Ok(None)`: a quantity is too large.
    pub(super) fn read(
        path: Option<&Path>,
        profile: &str,
        deliveries: u64,
    ) -> Result<Option<Self>, FileError> {
        let Usage { memory_mb, mut profiles } = read("usage file", path, USAGE)?;
        let Some(Profile { load, charge, delivery }) = profiles.remove(profile) else {
            let profiles: Vec<String> = profiles.into_keys().collect();
            return Err(FileError::UnknownProfile {
                profile: profile.to_owned(),
                profiles: profiles.join(", "),
            });
        };
        let mut usage = Self { load, quantities: BTreeMap::new() };
        let added =
            usage.add(&charge, 1, memory_mb).and_then(|()| usage.add(&delivery, deliveries, memory_mb));
        Ok(added.map(|()| usage))
    }

    /// Adds counts a number of times. `None`: a quantity is too large.
    fn add(&mut self, counts: &Counts, times: u64, memory_mb: u64) -> Option<()> {
        for (meter, count) in &counts.measured {
            self.add_quantity(*meter, count.times(times)?, false)?;
        }
        for (meter, count) in &counts.estimated {
            self.add_quantity(*meter, count.times(times)?, true)?;
        }
        for function in counts.functions.values() {
            let invocations = function.invocations.times(times)?;
            self.add_quantity(Meter::LambdaInvocations, invocations, false)?;
            let mb_ms = invocations.times(function.estimated_ms)?.times(memory_mb)?;
            self.add_quantity(Meter::LambdaGbSeconds, mb_ms.divided_by(1_024)?.divided_by(1_000)?, true)?;
        }
        Some(())
    }

    fn add_quantity(&mut self, meter: Meter, count: Decimal, is_estimate: bool) -> Option<()> {
        let quantity = self.quantities.entry(meter).or_default();
        quantity.count = quantity.count.checked_add(count)?;
        quantity.is_estimate |= is_estimate;
        Some(())
    }
}

fn read<T: DeserializeOwned>(
    kind: &'static str,
    path: Option<&Path>,
    embedded: &str,
) -> Result<T, FileError> {
    let text = match path {
        Some(path) => fs::read_to_string(path).map_err(|error| FileError::Unreadable {
            kind,
            path: path.to_owned(),
            error,
        })?,
        None => embedded.to_owned(),
    };
    serde_json::from_str(&text).map_err(|error| FileError::Invalid { kind, error })
}
