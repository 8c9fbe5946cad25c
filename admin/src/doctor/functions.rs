//! Checks the functions: the versions that serve, the formats of rows that they read, their event sources, and
//! the quota of concurrent runs.

use domain::row::WRITTEN_FORMAT;
use serde_json::Value;
use tokio::task::JoinSet;

use super::Checked;
use super::deployed::{Deployed, EVENT_SOURCE, FUNCTION, VERSION};
use crate::aws_cli::{AwsCli, text};

const ALIAS: &str = "live";

/// The environment variable with the newest format of rows that a version reads.
const READ_ROW_FORMAT: &str = "/Environment/Variables/READ_ROW_FORMAT";

/// The format of rows that a version without that variable reads.
const FIRST_FORMAT: u64 = 1;

/// Runs that must remain for the functions of the API and the schedule, besides those of queues and streams.
const RUNS_FOR_REQUESTS: u64 = 100;

pub(super) async fn check(deployed: &Deployed) -> Vec<Checked> {
    let mut reads = JoinSet::new();
    for (logical_id, name) in deployed.of_type(FUNCTION) {
        let published = deployed.of_type(VERSION).find_map(|(_, arn)| version_of(arn, name));
        reads.spawn(check_one(deployed.cli.clone(), logical_id.to_owned(), name.to_owned(), published));
    }
    reads.join_all().await
}

fn version_of(arn: &str, function: &str) -> Option<String> {
    let (function_arn, version) = arn.rsplit_once(':')?;
    let is_of_function = function_arn.rsplit(':').next() == Some(function);
    is_of_function.then(|| version.to_owned())
}

/// `published`: the version that the last deployment published.
async fn check_one(cli: AwsCli, logical_id: String, name: String, published: Option<String>) -> Checked {
    let of_alias = ["lambda", "get-alias", "--function-name", &name, "--name", ALIAS];
    // The version of the alias, and those to which it sends a part of the invocations.
    let mut serving = Vec::new();
    if let Some(alias) = cli.read(&of_alias).await? {
        serving.push(text(&alias, "/FunctionVersion").to_owned());
        let weights = alias.pointer("/RoutingConfig/AdditionalVersionWeights").and_then(Value::as_object);
        serving.extend(weights.into_iter().flatten().map(|(version, _)| version.clone()));
    }
    let mut found = Vec::new();
    match (serving.as_slice(), published) {
        ([], _) => found.push(format!("{logical_id}: it has no alias {ALIAS}")),
        ([serving], Some(published)) if published != *serving => found.push(format!(
            "{logical_id}: version {serving} serves, but the last deployment published version {published}"
        )),
        ([_], _) => {}
        (several, _) => found.push(format!(
            "{logical_id}: the versions {} share the invocations: a deployment has not ended",
            several.join(" and ")
        )),
    }
    for version in &serving {
        let words =
            ["lambda", "get-function-configuration", "--function-name", &name, "--qualifier", version];
        let configuration = cli.read(&words).await?;
        found.extend(version_findings(&logical_id, version, configuration.as_ref()));
    }
    Ok(found)
}

fn version_findings(logical_id: &str, version: &str, configuration: Option<&Value>) -> Option<String> {
    let Some(configuration) = configuration else {
        return Some(format!("{logical_id}: its version {version} does not exist"));
    };
    let format = text(configuration, READ_ROW_FORMAT).parse().unwrap_or(FIRST_FORMAT);
    (format < WRITTEN_FORMAT).then(|| format!(
        "{logical_id}: its version {version} reads rows up to the format {format}, and this release writes the format {WRITTEN_FORMAT}: first deploy a release that reads it"
    ))
}

/// Returns the most runs that an event source starts at once; for a stream, of one shard.
fn runs(source: &Value) -> u64 {
    let of_queue = source.pointer("/ScalingConfig/MaximumConcurrency");
    of_queue.or(source.get("ParallelizationFactor")).and_then(Value::as_u64).unwrap_or(1)
}

pub(super) async fn check_concurrency(deployed: &Deployed) -> Checked {
    let mut found = Vec::new();
    let mut needed = RUNS_FOR_REQUESTS;
    for (logical_id, id) in deployed.of_type(EVENT_SOURCE) {
        let words = ["lambda", "get-event-source-mapping", "--uuid", id];
        let Some(source) = deployed.cli.read(&words).await? else {
            found.push(format!("{logical_id}: the event source does not exist"));
            continue;
        };
        needed = needed.saturating_add(runs(&source));
        let state = text(&source, "/State");
        if state != "Enabled" {
            found.push(format!("{logical_id}: the event source is in the state {state}"));
        }
    }
    let settings = deployed.cli.read_existing(&["lambda", "get-account-settings"]).await?;
    let quota =
        settings.pointer("/AccountLimit/ConcurrentExecutions").and_then(Value::as_u64).unwrap_or_default();
    if quota < needed {
        found.push(format!(
            "the stack needs {needed} concurrent runs, and the quota of the AWS account is {quota}: request a higher one"
        ));
    }
    Ok(found)
}
