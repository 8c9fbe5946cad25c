//! `admin cost`: what a million charges cost at AWS, from the quantities that a charge uses and a file of
//! published prices. It reads no stack.

mod decimal;
mod files;
mod meter;

use std::error::Error;
use std::path::PathBuf;

use serde::Serialize;

use self::decimal::Decimal;
use self::files::{ChargeUsage, Price, Prices};
use self::meter::{Meter, Part};
use crate::{CommandOutcome, print, print_json};

#[derive(clap::Args, Debug)]
pub(crate) struct Arguments {
    /// Charges a month
    #[arg(long, default_value_t = MILLION, value_parser = clap::value_parser!(u64).range(1..))]
    charges: u64,
    /// Webhooks that each endpoint receives for a charge
    #[arg(long, default_value_t = 2)]
    webhooks: u64,
    /// Endpoints of an account that receive them
    #[arg(long, default_value_t = 1)]
    endpoints: u64,
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

/// The last line of the table without `--prices`.
const OTHER_REGION: &str = "These are not the prices of sa-east-1, where samconfig.toml deploys; those that are known are 40 to 80 % higher. Name a file with your region's prices: --prices FILE";

/// The number of charges of the first column.
const MILLION: u64 = 1_000_000;

/// The cost is larger than a [`Decimal`].
#[derive(Debug, thiserror::Error)]
#[error(
    "the cost is too large to compute: lower --charges, --webhooks or --endpoints, or correct the numbers in the \
     files"
)]
struct TooLarge;

/// A sum of money in US dollars, for a million charges and for the charges of a month.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Cost {
    usd_per_million: Decimal,
    usd_per_month: Decimal,
}

impl Cost {
    /// The cost of a quantity for each charge. `None`: it is too large.
    fn of(count: Decimal, usd: Decimal, per: u64, charges: u64) -> Option<Self> {
        let for_charges = |charges| count.times(charges)?.checked_mul(usd)?.divided_by(per);
        Some(Self { usd_per_million: for_charges(MILLION)?, usd_per_month: for_charges(charges)? })
    }

    fn checked_add(self, other: Self) -> Option<Self> {
        Some(Self {
            usd_per_million: self.usd_per_million.checked_add(other.usd_per_million)?,
            usd_per_month: self.usd_per_month.checked_add(other.usd_per_month)?,
        })
    }
}

/// The cost of a meter, as printed.
#[derive(Debug, Serialize)]
struct MeterCost {
    meter: Meter,
    count_per_charge: Decimal,
    /// Whether no test compares the count with the service.
    is_estimate: bool,
    #[serde(flatten)]
    price: Price,
    #[serde(flatten)]
    cost: Cost,
}

/// The cost of a part of the stack, as printed.
#[derive(Debug, Serialize)]
struct PartCost {
    part: Part,
    #[serde(flatten)]
    cost: Cost,
    meters: Vec<MeterCost>,
}

/// The result of the command.
#[derive(Debug, Serialize)]
struct Report {
    region: String,
    profile: String,
    load: String,
    charges_per_month: u64,
    webhooks_per_charge: u64,
    parts: Vec<PartCost>,
    /// Meters that a charge uses and that the price file lacks. Their cost is not in the sum.
    without_price: Vec<Meter>,
    #[serde(flatten)]
    cost: Cost,
}

pub(crate) fn run(arguments: &Arguments, json: bool) -> Result<CommandOutcome, Box<dyn Error>> {
    let prices = Prices::read(arguments.prices.as_deref())?;
    let webhooks = arguments.webhooks.checked_mul(arguments.endpoints).ok_or(TooLarge)?;
    let usage = ChargeUsage::read(arguments.usage.as_deref(), &arguments.profile, webhooks)?;
    let report = usage.and_then(|usage| report(arguments, webhooks, &prices, usage)).ok_or(TooLarge)?;
    if json {
        print_json(&report)?;
    } else {
        for line in table(&report) {
            print(&line)?;
        }
        if arguments.prices.is_none() {
            print(OTHER_REGION)?;
        }
    }
    Ok(if report.without_price.is_empty() { CommandOutcome::Succeeded } else { CommandOutcome::Incomplete })
}

/// Computes the cost. `None`: it is too large.
fn report(arguments: &Arguments, webhooks: u64, prices: &Prices, usage: ChargeUsage) -> Option<Report> {
    let mut parts = Vec::new();
    let mut without_price = Vec::new();
    let mut sum = Cost::default();
    for part in Part::ALL {
        let mut part_cost = PartCost { part, cost: Cost::default(), meters: Vec::new() };
        for meter in Meter::ALL.into_iter().filter(|meter| meter.part() == part) {
            let quantity = usage.quantities.get(&meter).copied().unwrap_or_default();
            let Some(price) = prices.prices.get(&meter) else {
                if quantity.count > Decimal::default() {
                    without_price.push(meter);
                }
                continue;
            };
            let cost = Cost::of(quantity.count, price.usd, price.per, arguments.charges)?;
            part_cost.cost = part_cost.cost.checked_add(cost)?;
            part_cost.meters.push(MeterCost {
                meter,
                count_per_charge: quantity.count,
                is_estimate: quantity.is_estimate,
                price: price.clone(),
                cost,
            });
        }
        sum = sum.checked_add(part_cost.cost)?;
        parts.push(part_cost);
    }
    Some(Report {
        region: prices.region.clone(),
        profile: arguments.profile.clone(),
        load: usage.load,
        charges_per_month: arguments.charges,
        webhooks_per_charge: webhooks,
        parts,
        without_price,
        cost: sum,
    })
}

/// Returns the lines of the table. `~` marks an estimate.
fn table(report: &Report) -> Vec<String> {
    let line = |name: &str, count: &str, price: &str, cost: Cost| {
        format!(
            "{name:<28} {count:>12} {price:>24} {:>14} {:>14}",
            cost.usd_per_million.rounded(2),
            cost.usd_per_month.rounded(2)
        )
    };
    let mut lines = vec![
        format!(
            "on-demand prices of {}, {} charges a month with {} webhooks each",
            report.region, report.charges_per_month, report.webhooks_per_charge
        ),
        format!("profile {}: {}", report.profile, report.load),
        String::new(),
        format!(
            "{:<28} {:>12} {:>24} {:>14} {:>14}",
            "", "a charge", "price (USD)", "USD a million", "USD a month"
        ),
    ];
    for part in &report.parts {
        lines.push(line(&part.part.to_string(), "", "", part.cost));
        for meter in &part.meters {
            let mark = if meter.is_estimate { "~" } else { "" };
            lines.push(line(
                &format!("  {}", meter.meter.text()),
                &format!(
                    "{mark}{}",
                    meter.count_per_charge.rounded(3).trim_end_matches('0').trim_end_matches('.')
                ),
                &format!("{} per {}", meter.price.usd, meter.price.per),
                meter.cost,
            ));
        }
    }
    lines.push(line("total", "", "", report.cost));
    lines.push(String::new());
    lines.push(
        "~ an estimate. Without storage, data transfer, free tiers and fixed costs of a stack.".to_owned(),
    );
    for meter in &report.without_price {
        lines.push(format!(
            "without a price in the file, so not in the total: {}, {}",
            meter.part(),
            meter.text()
        ));
    }
    lines
}
