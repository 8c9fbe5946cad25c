//! `admin cost`: what a million charges cost at AWS, from the quantities that a charge uses and a file of
//! published prices. It reads no stack. Its figures are estimates for display, so they are floating-point.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{CommandOutcome, print, print_json};

#[derive(clap::Args, Debug)]
pub(crate) struct Arguments {
    /// Charges a month
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..))]
    charges: u32,
    /// Webhooks that each endpoint receives for a charge
    #[arg(long, default_value_t = 2)]
    webhooks: u16,
    /// Endpoints of an account that receive them
    #[arg(long, default_value_t = 1)]
    endpoints: u16,
    /// Load under which the quantities were counted: a profile of the usage file (`busy`, `alone`)
    #[arg(long, default_value = "busy")]
    profile: String,
    /// Price file of another region, in the format of admin/prices/us-east-1.json; without it, the prices are
    /// those of us-east-1
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// Usage file instead of admin/usage.json, for example with durations that were measured in a stack
    #[arg(long, value_name = "FILE")]
    usage: Option<PathBuf>,
}

/// The files and the last line of the output without `--prices` and `--usage`.
const PRICES: &str = include_str!("../prices/us-east-1.json");
const USAGE: &str = include_str!("../usage.json");
const OTHER_REGION: &str = "These are not the prices of sa-east-1, where samconfig.toml deploys; those that are known are 40 to 80 % higher. Name a file with your region's prices: --prices FILE";

/// What AWS bills, in the order of the output: the name in price files and usage files, the part of the stack,
/// and the name in the table.
const METERS: [(&str, &str, &str); 10] = [
    ("dynamodb_write_units", "DynamoDB", "write units"),
    ("dynamodb_read_units", "DynamoDB", "read units"),
    ("lambda_invocations", "Lambda", "invocations"),
    ("lambda_gb_seconds", "Lambda", "GB-seconds, arm64"),
    ("sqs_requests", "SQS", "requests"),
    ("sqs_fair_queue_requests", "SQS", "surcharge of fair queues"),
    ("http_api_requests", "API Gateway", "requests to the HTTP API"),
    ("s3_write_requests", "S3", "PUT requests"),
    ("s3_read_requests", "S3", "GET requests"),
    ("log_bytes", "logs", "bytes ingested"),
];

/// A meter without a price is not part of the sum.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Prices {
    region: String,
    prices: BTreeMap<String, Price>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Price {
    /// US dollars for `per` units of the meter.
    usd: f64,
    per: NonZeroU32,
    page: String,
    /// The day of the page, such as 2026-10-04.
    date: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Usage {
    /// Memory of each function, in MB.
    memory_mb: u32,
    profiles: BTreeMap<String, Profile>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Profile {
    load: String,
    /// A charge that is created and paid, without a delivery.
    charge: Counts,
    delivery: Counts,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Counts {
    measured: BTreeMap<String, f64>,
    estimated: BTreeMap<String, f64>,
    functions: BTreeMap<String, Function>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Function {
    invocations: f64,
    estimated_ms: u32,
}

#[derive(Debug, Serialize)]
struct MeterCost {
    part: &'static str,
    meter: &'static str,
    text: &'static str,
    count_per_charge: f64,
    is_estimate: bool,
    #[serde(flatten)]
    price: Price,
    usd_per_million: f64,
}

#[derive(Debug, Serialize)]
struct Report {
    region: String,
    profile: String,
    load: String,
    charges_per_month: u32,
    webhooks_per_charge: u32,
    meters: Vec<MeterCost>,
    /// Meters that a charge uses and that the price file lacks. Their cost is not in the sum.
    without_price: Vec<&'static str>,
    usd_per_million: f64,
    usd_per_month: f64,
}

pub(crate) fn run(arguments: &Arguments, json: bool) -> Result<CommandOutcome, Box<dyn Error>> {
    let Prices { region, mut prices } = read("price file", arguments.prices.as_deref(), PRICES)?;
    let Usage { memory_mb, mut profiles } = read("usage file", arguments.usage.as_deref(), USAGE)?;
    let (profile, known) = (arguments.profile.clone(), profiles.keys().cloned().collect::<Vec<_>>());
    let unknown = || format!("the usage file has no profile `{profile}`; it has: {}", known.join(", "));
    let used = profiles.remove(&profile).ok_or_else(unknown)?;
    let webhooks = u32::from(arguments.webhooks).saturating_mul(arguments.endpoints.into());
    let mut quantities = quantities(&used, webhooks, memory_mb);
    let (mut meters, mut without_price) = (Vec::new(), Vec::new());
    for (meter, part, text) in METERS {
        let (count_per_charge, is_estimate) = quantities.remove(meter).unwrap_or_default();
        let Some(price) = prices.remove(meter) else {
            without_price.extend((count_per_charge != 0.0).then_some(meter));
            continue;
        };
        if count_per_charge < 0.0 || price.usd < 0.0 {
            return Err(format!("the count and the price of `{meter}` must be at least 0").into());
        }
        let usd_per_million = rounded(count_per_charge * 1e6 * price.usd / f64::from(price.per.get()));
        meters.push(MeterCost { part, meter, text, count_per_charge, is_estimate, price, usd_per_million });
    }
    if let Some(unknown) = prices.keys().chain(quantities.keys()).next() {
        return Err(format!("`{unknown}` in the price file or usage file is not a meter").into());
    }
    let report = Report {
        region,
        profile,
        load: used.load,
        charges_per_month: arguments.charges,
        webhooks_per_charge: webhooks,
        usd_per_million: sum(&meters),
        usd_per_month: rounded(sum(&meters) * f64::from(arguments.charges) / 1e6),
        meters,
        without_price,
    };
    if json {
        print_json(&report)?;
    } else {
        print(&table(&report))?;
        if arguments.prices.is_none() {
            print(OTHER_REGION)?;
        }
    }
    Ok(if report.without_price.is_empty() { CommandOutcome::Succeeded } else { CommandOutcome::Incomplete })
}

fn read<T: DeserializeOwned>(kind: &str, path: Option<&Path>, embedded: &str) -> Result<T, String> {
    let text = path.map_or_else(|| Ok(embedded.to_owned()), fs::read_to_string);
    let text = text.map_err(|error| format!("the {kind} can't be read: {error}"))?;
    serde_json::from_str(&text).map_err(|error| format!("the {kind} is not valid: {error}"))
}

fn rounded(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}

fn sum(meters: &[MeterCost]) -> f64 {
    rounded(meters.iter().map(|meter| meter.usd_per_million).sum())
}

fn quantities(profile: &Profile, webhooks: u32, memory_mb: u32) -> BTreeMap<String, (f64, bool)> {
    let mut quantities = BTreeMap::<String, (f64, bool)>::new();
    for (counts, times) in [(&profile.charge, 1), (&profile.delivery, webhooks)] {
        let mut add = |meter: &str, count, is_estimate| {
            let quantity = quantities.entry(meter.to_owned()).or_default();
            quantity.0 = rounded(quantity.0 + count * f64::from(times));
            quantity.1 |= is_estimate;
        };
        counts.measured.iter().for_each(|(meter, count)| add(meter, *count, false));
        counts.estimated.iter().for_each(|(meter, count)| add(meter, *count, true));
        for Function { invocations, estimated_ms } in counts.functions.values() {
            add("lambda_invocations", *invocations, false);
            let gb_seconds = f64::from(memory_mb) / 1_024.0 * f64::from(*estimated_ms) / 1_000.0;
            add("lambda_gb_seconds", invocations * gb_seconds, true);
        }
    }
    quantities
}

fn table(report: &Report) -> String {
    let line = |name: &str, count: &str, price: &str, million: f64| {
        let month = million * f64::from(report.charges_per_month) / 1e6;
        format!("{name:<28} {count:>12} {price:>24} {million:>14.2} {month:>14.2}\n")
    };
    let Report { region, profile, load, charges_per_month, webhooks_per_charge, .. } = report;
    let mut lines = format!(
        "on-demand prices of {region}, {charges_per_month} charges a month with {webhooks_per_charge} webhooks each\nprofile {profile}: {load}\n\n{:<28} {:>12} {:>24} {:>14} {:>14}\n",
        "", "a charge", "price (USD)", "USD a million", "USD a month"
    );
    for part in report.meters.chunk_by(|meter, next| meter.part == next.part) {
        lines += &line(part.first().map_or("", |meter| meter.part), "", "", sum(part));
        for MeterCost { text, count_per_charge, is_estimate, price, usd_per_million, .. } in part {
            let count = (count_per_charge * 1e3).round() / 1e3;
            let count = format!("{}{count}", if *is_estimate { "~" } else { "" });
            let price = format!("{} per {}", price.usd, price.per);
            lines += &line(&format!("  {text}"), &count, &price, *usd_per_million);
        }
    }
    lines += &line("total", "", "", report.usd_per_million);
    lines += "\n~ an estimate. Without storage, data transfer, free tiers and fixed costs of a stack.";
    for meter in &report.without_price {
        lines.push_str("\nwithout a price in the file, so not in the total: ");
        lines.push_str(meter);
    }
    lines
}
