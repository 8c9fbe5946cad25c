//! Tests of `admin cost`. It reads no stack, so no service is started.

use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::text;

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_admin")).arg("cost").args(arguments).output().unwrap()
}

/// Returns the total for a million charges and for those of a month, in US dollars.
fn total(arguments: &[&str]) -> [String; 2] {
    let output = run(arguments);
    assert!(output.status.success(), "{output:?}");
    let table = text(&output.stdout);
    let total = table.lines().find_map(|line| line.strip_prefix("total")).unwrap();
    total.split_whitespace().map(str::to_owned).collect::<Vec<_>>().try_into().unwrap()
}

/// Writes a price file in which everything is free except these meters. Returns its path.
fn prices(name: &str, given: &Value) -> String {
    let published = include_str!("../../prices/us-east-1.json");
    let mut prices: Value = serde_json::from_str(published).unwrap();
    for (meter, price) in prices["prices"].as_object_mut().unwrap() {
        price["usd"] = json!(0);
        *price = given.get(meter).unwrap_or(price).clone();
    }
    let path = std::env::temp_dir().join(format!("cost-{}-{name}.json", std::process::id()));
    std::fs::write(&path, prices.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_cost_is_the_count_times_the_price_for_a_million_charges_and_for_those_of_a_month() {
    let usage: Value = serde_json::from_str(include_str!("../../usage.json")).unwrap();
    let counted =
        |of: &str| usage["profiles"]["alone"][of]["measured"]["dynamodb_write_units"].as_f64().unwrap();
    let units = prices("units", &json!({"dynamodb_write_units": {"usd": 2, "per": 1_000_000}}));
    let expected = 2.0 * (counted("charge") + 6.0 * counted("delivery"));
    let arguments = ["--profile", "alone", "--charges", "500000", "--webhooks", "6", "--prices", &units];
    assert_eq!(total(&arguments), [expected, expected / 2.0].map(|sum| format!("{sum:.2}")));

    // 2 invocations of 30 ms and 2 of 75 ms with half a GB.
    let gb_seconds = prices("gb-seconds", &json!({"lambda_gb_seconds": {"usd": 100, "per": 1_000_000}}));
    assert_eq!(total(&["--profile", "alone", "--webhooks", "0", "--prices", &gb_seconds])[0], "10.50");
}

#[test]
fn a_million_charges_stay_within_their_budgets_also_with_payers_who_look_at_the_checkout() {
    let cost = |profile: &str| total(&["--profile", profile])[0].parse::<f64>().unwrap();
    assert!(cost("busy") <= 30.0 && cost("checkout") <= 42.0);
    let parts = cost("live") + cost("checkout") - cost("busy");
    assert!((cost("all") - parts).abs() < 0.02, "{} differs from {parts}", cost("all"));
}

#[test]
fn a_bad_file_or_an_unknown_profile_is_refused_with_the_rule() {
    for (priced, message) in [
        (
            json!({"log_bytes": {"usd": 1, "per": 0}}),
            "the price file is not valid: invalid value: integer `0`",
        ),
        (json!({"log_bytes": {"usd": 1}}), "missing field `per`"),
    ] {
        let output = run(&["--prices", &prices("bad", &priced)]);
        assert!(!output.status.success() && text(&output.stderr).contains(message), "{output:?}");
    }
    let missing = std::env::temp_dir().join(format!("cost-{}-missing.json", std::process::id()));
    std::fs::write(&missing, r#"{"region": "test", "prices": {}}"#).unwrap();
    for (arguments, message) in [
        (
            ["--prices", missing.to_str().unwrap()],
            "the price file must have a price of `dynamodb_write_units`",
        ),
        (["--prices", "/nonexistent"], "the price file can't be read"),
        (["--profile", "idle"], "[possible values: busy, alone, live, checkout, all]"),
        (["--charges", "0"], "0 is not in 1.."),
    ] {
        let output = run(&arguments);
        assert!(!output.status.success() && text(&output.stderr).contains(message), "{output:?}");
    }
}

/// The page that shows the output of the command. `UPDATE_BENCHMARKS=1` writes it.
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/benchmarks.md");

/// The beginning of a block with the output of the command.
const BLOCK: &str = "```\n$ cargo run -q --bin admin -- cost";

#[test]
fn the_page_of_benchmarks_shows_the_output_of_the_command() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (before, blocks) = page.split_once(BLOCK).unwrap();
    let mut expected = before.to_owned();
    for block in blocks.split(BLOCK) {
        let (arguments, rest) = block.split_once('\n').unwrap();
        let (_, after) = rest.split_once("```\n").unwrap();
        let output = run(&arguments.split_whitespace().collect::<Vec<_>>());
        assert!(output.status.success(), "{arguments}: {output:?}");
        expected.extend([BLOCK, arguments, "\n", &text(&output.stdout), "```\n", after]);
    }
    if std::env::var_os("UPDATE_BENCHMARKS").is_some() {
        std::fs::write(PAGE, &expected).unwrap();
    }
    let page = std::fs::read_to_string(PAGE).unwrap();
    assert!(
        page == expected,
        "the output of `admin cost` on the page is old: run the test with UPDATE_BENCHMARKS=1"
    );
}
