//! Tests of `admin cost`. It reads no stack, so no service is started.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::text;

/// A directory for the files of a test.
struct Files(PathBuf);

impl Files {
    fn new(test: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("cost-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        Self(directory)
    }

    fn write(&self, name: &str, content: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Writes a price file with one price of write units.
    fn write_price(&self, usd: &str, per: u64) -> String {
        let price = json!({"usd": usd, "per": per, "page": "https://example.com", "date": "2026-11-23"});
        let prices = json!({"region": "test", "prices": {"dynamodb_write_units": price}});
        self.write("prices.json", &prices.to_string())
    }

    /// Writes a usage file with one profile, which uses write units alone.
    fn write_usage(&self, charge: &str, delivery: &str) -> String {
        let counts = |units: &str| json!({"measured": {"dynamodb_write_units": units}, "estimated": {}, "functions": {}});
        let profile = json!({"load": "a test", "charge": counts(charge), "delivery": counts(delivery)});
        self.write("usage.json", &json!({"memory_mb": 512, "profiles": {"busy": profile}}).to_string())
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_admin")).arg("cost").args(arguments).output().unwrap()
}

fn report(arguments: &[&str]) -> Value {
    let output = run(&[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[track_caller]
fn assert_fails(arguments: &[&str], message: &str) {
    let output = run(arguments);
    let error = text(&output.stderr);
    assert!(!output.status.success() && error.contains(message), "{error}");
}

#[test]
fn a_cost_is_the_count_times_the_price_for_a_million_charges_and_for_those_of_a_month() {
    let files = Files::new("arithmetic");
    let (prices, usage) = (files.write_price("0.625", 1_000_000), files.write_usage("27.5", "5"));
    let arguments = ["--prices", &prices, "--usage", &usage, "--charges", "3000"];
    let one_endpoint = report(&arguments);
    // (27.5 + 2 · 5) · 0.625
    assert_eq!(one_endpoint["usd_per_million"], "23.4375");
    assert_eq!(one_endpoint["usd_per_month"], "0.0703125");
    assert_eq!(one_endpoint["parts"][0]["meters"][0]["count_per_charge"], "37.5");
    let more = report(&[&arguments[..], &["--webhooks", "3", "--endpoints", "2"]].concat());
    // (27.5 + 6 · 5) · 0.625
    assert_eq!((&more["webhooks_per_charge"], &more["usd_per_million"]), (&json!(6), &json!("35.9375")));
    let table = text(&run(&arguments).stdout);
    assert!(!table.contains("sa-east-1"), "{table}");
    let without_file = text(&run(&[]).stdout);
    assert!(without_file.contains("not the prices of sa-east-1") && without_file.contains("--prices FILE"));
    let total = table.lines().find(|line| line.starts_with("total")).unwrap();
    assert_eq!(total.split_whitespace().collect::<Vec<_>>(), ["total", "23.44", "0.07"]);
}

#[test]
fn durations_of_functions_become_gb_seconds() {
    let files = Files::new("lambda");
    let function = json!({"api": {"invocations": "2", "estimated_ms": 30}});
    let charge = json!({"measured": {}, "estimated": {}, "functions": function});
    let delivery = json!({"measured": {}, "estimated": {}, "functions": {}});
    let profile = json!({"load": "a test", "charge": charge, "delivery": delivery});
    let usage = json!({"memory_mb": 512, "profiles": {"busy": profile}});
    let usage = files.write("usage.json", &usage.to_string());
    let report = report(&["--usage", &usage]);
    let lambda = &report["parts"][1];
    let counts: Vec<&Value> =
        lambda["meters"].as_array().unwrap().iter().map(|meter| &meter["count_per_charge"]).collect();
    assert_eq!(counts, ["2", "0.03"]);
    // 2 · 0.20 + 0.03 · 0.0000133334 · 1,000,000
    assert_eq!(report["usd_per_million"], "0.800002");
}

#[test]
fn both_profiles_have_a_price_for_each_quantity_in_us_east_1() {
    for profile in ["busy", "alone"] {
        let report = report(&["--profile", profile]);
        assert_eq!((&report["region"], &report["without_price"]), (&json!("us-east-1"), &json!([])));
        for meter in
            report["parts"].as_array().unwrap().iter().flat_map(|part| part["meters"].as_array().unwrap())
        {
            assert!(meter["page"].as_str().unwrap().starts_with("https://"), "{meter}");
            assert_eq!(meter["date"].as_str().unwrap().len(), "2026-10-04".len(), "{meter}");
        }
    }
}

#[test]
fn a_quantity_without_a_price_is_named_and_the_exit_code_is_2() {
    let prices = Path::new(env!("CARGO_MANIFEST_DIR")).join("prices/sa-east-1.json");
    let output = run(&["--prices", prices.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let table = text(&output.stdout);
    let missing = "without a price in the file, so not in the total: DynamoDB, write units";
    assert!(table.contains(missing), "{table}");
}

#[test]
fn a_bad_price_file_is_refused_with_the_rule() {
    let files = Files::new("bad-prices");
    assert_fails(
        &["--prices", "/nonexistent/prices.json"],
        "the price file `/nonexistent/prices.json` can't be",
    );
    for usd in ["-1", "0,5", "1e3", "", "0.0000000000001", "1000000000000000"] {
        let rule = format!("`{usd}` must be a decimal number such as 0.625, with at most 12 decimals");
        assert_fails(&["--prices", &files.write_price(usd, 1)], &rule);
    }
    assert_fails(&["--prices", &files.write_price("1", 0)], "`per` of `write units` must be at least 1");
    for (content, message) in [
        ("", "the price file is not valid"),
        (r#"{"region": "test"}"#, "missing field `prices`"),
        (r#"{"region": "test", "prices": {"write_units": {}}}"#, "unknown variant `write_units`"),
        (r#"{"region": "test", "prices": {"log_bytes": {"usd": "1"}}}"#, "missing field `per`"),
    ] {
        assert_fails(&["--prices", &files.write("bad.json", content)], message);
    }
}

#[test]
fn an_unknown_profile_is_refused_with_those_that_exist() {
    assert_fails(&["--profile", "idle"], "the usage file has no profile `idle`; it has: alone, busy");
}

#[test]
fn a_cost_that_is_too_large_is_refused() {
    let files = Files::new("overflow");
    let largest = u64::MAX.to_string();
    let usage = files.write_usage("999999999999999", "999999999999999");
    for arguments in [
        &["--webhooks", &largest, "--endpoints", "2"][..],
        &["--charges", &largest],
        &["--usage", &usage, "--webhooks", &largest],
        &["--usage", &usage, "--prices", &files.write_price("999999999999999", 1)],
    ] {
        assert_fails(arguments, "the cost is too large to compute: lower --charges");
    }
    assert_fails(&["--charges", "0"], "0 is not in 1..");
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
