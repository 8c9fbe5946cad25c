//! Tests of `admin cost`. It reads no stack, so no service is started.

use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::text;

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_admin")).arg("cost").args(arguments).output().unwrap()
}

fn report(arguments: &[&str]) -> Value {
    let output = run(&[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Writes a file of a test, and returns its path.
fn write(name: &str, content: &Value) -> String {
    let path = std::env::temp_dir().join(format!("cost-{}-{name}.json", std::process::id()));
    std::fs::write(&path, content.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_cost_is_the_count_times_the_price_for_a_million_charges_and_for_those_of_a_month() {
    let functions = json!({"api": {"invocations": 2, "estimated_ms": 30}});
    let counts = |units, functions| json!({"measured": {"dynamodb_write_units": units}, "estimated": {}, "functions": functions});
    let profile =
        json!({"load": "a test", "charge": counts(27.5, functions), "delivery": counts(5.0, json!({}))});
    let usage = write("usage", &json!({"memory_mb": 512, "profiles": {"busy": profile}}));
    let price =
        |usd, per| json!({"usd": usd, "per": per, "page": "https://example.com", "date": "2026-11-23"});
    let prices = json!({"dynamodb_write_units": price(0.625, 1_000_000), "lambda_invocations": price(0.2, 1_000_000), "lambda_gb_seconds": price(0.000_013, 1)});
    let prices = write("prices", &json!({"region": "test", "prices": prices}));
    let arguments = ["--prices", &prices, "--usage", &usage, "--charges", "3000"];
    let one_endpoint = report(&arguments);
    let counts = one_endpoint["meters"].as_array().unwrap().iter().map(|meter| &meter["count_per_charge"]);
    // 0.03 GB-seconds: 2 invocations of 30 ms with half a GB.
    assert_eq!(counts.collect::<Vec<_>>(), [&json!(37.5), &json!(2.0), &json!(0.03)]);
    // (27.5 + 2 · 5) · 0.625 + 2 · 0.2 + 0.03 · 13
    assert_eq!(one_endpoint["usd_per_million"], 24.2275);
    assert_eq!(one_endpoint["usd_per_month"], 0.072_683);
    let more = report(&[&arguments[..], &["--webhooks", "3", "--endpoints", "2"]].concat());
    // (27.5 + 6 · 5) · 0.625 + 0.79
    assert_eq!((&more["webhooks_per_charge"], &more["usd_per_million"]), (&json!(6), &json!(36.7275)));
    let table = text(&run(&arguments).stdout);
    let total = table.lines().find(|line| line.starts_with("total")).unwrap();
    assert_eq!(total.split_whitespace().collect::<Vec<_>>(), ["total", "24.23", "0.07"]);
}

#[test]
fn both_profiles_have_a_price_for_each_quantity_in_us_east_1_and_stay_within_their_budget() {
    // The budget of the profile `busy` is 30 dollars for a million charges. `alone` has none.
    for (profile, most) in [("busy", 30.0), ("alone", f64::INFINITY)] {
        let report = report(&["--profile", profile]);
        assert_eq!((&report["region"], &report["without_price"]), (&json!("us-east-1"), &json!([])));
        assert!(report["usd_per_million"].as_f64().unwrap() <= most, "{report}");
    }
}

#[test]
fn a_quantity_without_a_price_is_named_and_the_exit_code_is_2() {
    let output = run(&["--prices", concat!(env!("CARGO_MANIFEST_DIR"), "/prices/sa-east-1.json")]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let missing = "without a price in the file, so not in the total: dynamodb_write_units";
    assert!(text(&output.stdout).contains(missing), "{output:?}");
}

#[test]
fn a_bad_file_or_an_unknown_profile_is_refused_with_the_rule() {
    let price = |usd, per| json!({"usd": usd, "per": per, "page": "", "date": ""});
    for (prices, message) in [
        (json!({"log_bytes": price(-1, 1)}), "the count and the price of `log_bytes` must be at least 0"),
        (json!({"log_bytes": price(1, 0)}), "the price file is not valid: invalid value: integer `0`"),
        (json!({"log_bytes": {"usd": 1}}), "missing field `per`"),
        (json!({"write_units": price(1, 1)}), "`write_units` in the price file or usage file is not a meter"),
    ] {
        let output = run(&["--prices", &write("bad", &json!({"region": "test", "prices": prices}))]);
        assert!(!output.status.success() && text(&output.stderr).contains(message), "{output:?}");
    }
    for (arguments, message) in [
        (["--prices", "/nonexistent"], "the price file can't be read"),
        (["--profile", "idle"], "the usage file has no profile `idle`; it has: alone, busy"),
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
