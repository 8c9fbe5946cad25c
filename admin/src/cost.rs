//! `admin cost`: what a million charges cost at AWS, from the quantities that a charge uses and a file of
//! published prices. It reads no stack. Its figures are estimates for display, so they are floating-point.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroU32;
use std::path::PathBuf;

use serde::Deserialize;

use crate::{Result, print};

#[derive(clap::Args, Debug)]
pub(crate) struct Arguments {
    /// Charges a month
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..))]
    charges: u32,
    /// Webhooks for a charge, to all endpoints together
    #[arg(long, default_value_t = 2)]
    webhooks: u16,
    /// What is counted: `busy` and `alone` are test charges under two loads; `live` adds a bank to `busy`,
    /// `checkout` a payer who looks at the hosted checkout for a minute, `all` both
    #[arg(long, default_value = "busy", value_parser = PROFILES.map(|(name, ..)| name))]
    profile: String,
    /// Price file of another region, in the format of admin/prices/us-east-1.json; without it, the prices are
    /// those of us-east-1
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
}

/// The profiles, each with that of the load and what is added to it.
const PROFILES: [(&str, &str, &[&str]); 5] = [
    ("busy", "busy", &[]),
    ("alone", "alone", &[]),
    ("live", "busy", &["live"]),
    ("checkout", "busy", &["checkout"]),
    ("all", "busy", &["live", "checkout"]),
];

/// The files and the last line of the output without `--prices`.
const PRICES: &str = include_str!("../prices/us-east-1.json");
const USAGE: &str = include_str!("../usage.json");
const OTHER_REGION: &str = "These are not the prices of sa-east-1, where samconfig.toml deploys; those that are known are 40 to 80 % higher. Name a file with your region's prices: --prices FILE";

/// What AWS bills for a charge: the name in the files, and the name in the table.
const METERS: [(&str, &str); 8] = [
    ("dynamodb_write_units", "DynamoDB write units"),
    ("dynamodb_read_units", "DynamoDB read units"),
    ("lambda_invocations", "Lambda invocations"),
    ("lambda_gb_seconds", "Lambda GB-seconds, arm64"),
    ("sqs_requests", "SQS requests"),
    ("sqs_fair_queue_requests", "SQS surcharge, fair queues"),
    ("http_api_requests", "requests to the HTTP API"),
    ("log_bytes", "bytes of logs"),
];

#[derive(Deserialize)]
struct Prices {
    region: String,
    prices: BTreeMap<String, Price>,
}

#[derive(Deserialize)]
struct Price {
    /// US dollars for `per` units of the meter.
    usd: f64,
    per: NonZeroU32,
}

#[derive(Deserialize)]
struct Usage {
    /// Memory of each function, in MB.
    memory_mb: u32,
    profiles: BTreeMap<String, Profile>,
    /// What else a charge uses.
    additions: BTreeMap<String, Counts>,
}

#[derive(Deserialize)]
struct Profile {
    load: String,
    /// A charge that is created and paid, without a delivery.
    charge: Counts,
    delivery: Counts,
}

#[derive(Deserialize)]
struct Counts {
    /// In words, for an addition.
    #[serde(default)]
    load: String,
    measured: BTreeMap<String, f64>,
    estimated: BTreeMap<String, f64>,
    functions: BTreeMap<String, Function>,
}

#[derive(Deserialize)]
struct Function {
    invocations: f64,
    estimated_ms: u32,
}

impl Counts {
    fn of(&self, meter: &str, memory_mb: u32) -> f64 {
        let gb = f64::from(memory_mb) / 1_024.0;
        let seconds = |used: &Function| used.invocations * f64::from(used.estimated_ms) / 1_000.0;
        let of_functions: f64 = match meter {
            "lambda_invocations" => self.functions.values().map(|used| used.invocations).sum(),
            "lambda_gb_seconds" => self.functions.values().map(|used| seconds(used) * gb).sum(),
            _ => 0.0,
        };
        let stated = self.measured.get(meter).or(self.estimated.get(meter)).copied().unwrap_or_default();
        of_functions + stated
    }

    fn is_estimate(&self, meter: &str) -> bool {
        meter == "lambda_gb_seconds" || self.estimated.contains_key(meter)
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let Arguments { charges, webhooks, profile, prices: file } = arguments;
    let text = file.as_ref().map_or_else(|| Ok(PRICES.to_owned()), fs::read_to_string);
    let text = text.map_err(|error| format!("the price file can't be read: {error}"))?;
    let Prices { region, prices } =
        serde_json::from_str(&text).map_err(|error| format!("the price file is not valid: {error}"))?;
    let Usage { memory_mb, profiles, additions } = serde_json::from_str(USAGE)?;
    let (_, load, added) =
        PROFILES.iter().find(|(name, ..)| name == profile).ok_or("the profile has no quantities")?;
    let Profile { load, charge, delivery } = profiles.get(*load).ok_or("the profile has no quantities")?;
    let mut of_charge = vec![charge];
    for name in *added {
        of_charge.push(additions.get(*name).ok_or("the profile has no quantities")?);
    }
    let loads = [load.as_str()].into_iter().chain(of_charge.iter().map(|counts| counts.load.as_str()));
    let load = loads.filter(|load| !load.is_empty()).collect::<Vec<_>>().join("; ");
    let line = |name: &str, count: &str, price: &str, million: f64| {
        let month = million * f64::from(*charges) / 1e6;
        format!("{name:<28} {count:>12} {price:>24} {million:>14.2} {month:>14.2}\n")
    };
    let mut table = format!(
        "on-demand prices of {region}, {charges} charges a month with {webhooks} webhooks each\nprofile {profile}: {load}\n\n{:<28} {:>12} {:>24} {:>14} {:>14}\n",
        "", "a charge", "price (USD)", "USD a million", "USD a month"
    );
    let mut total = 0.0;
    for (meter, name) in METERS {
        let Price { usd, per } =
            prices.get(meter).ok_or_else(|| format!("the price file must have a price of `{meter}`"))?;
        let of_one: f64 = of_charge.iter().map(|counts| counts.of(meter, memory_mb)).sum();
        let count = of_one + delivery.of(meter, memory_mb) * f64::from(*webhooks);
        let million = count * 1e6 * usd / f64::from(per.get());
        total += million;
        let is_estimate = of_charge.iter().chain([&delivery]).any(|counts| counts.is_estimate(meter));
        let mark = if is_estimate { "~" } else { "" };
        let count = format!("{mark}{}", (count * 1e3).round() / 1e3);
        table += &line(name, &count, &format!("{usd} per {per}"), million);
    }
    table += &line("total", "", "", total);
    table += "\n~ an estimate. Without storage, data transfer, free tiers and fixed costs of a stack.";
    print(&table)?;
    if file.is_none() {
        print(OTHER_REGION)?;
    }
    Ok(())
}
