//! Checks the functions: the versions that serve, the formats of rows that they read, their event sources, and
//! the concurrency that Lambda allows.

use std::collections::BTreeMap;

use domain::row::WRITTEN_FORMAT;
use serde::Deserialize;
use tokio::task::JoinSet;

use super::Checked;
use super::aws_cli::{AwsCli, CliError};
use super::deployed::{Deployed, EVENT_SOURCE, FUNCTION, VERSION};

/// The alias that routes and event sources invoke.
const ALIAS: &str = "live";

/// The environment variable with the newest format of rows that a version reads.
const READ_ROW_FORMAT: &str = "READ_ROW_FORMAT";

/// The format of rows that a version without that variable reads.
const FIRST_FORMAT: u64 = 1;

/// Runs that must remain for the functions of the API and the schedule, besides those of queues and streams.
const RUNS_FOR_REQUESTS: u64 = 100;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Alias {
    function_version: String,
    routing_config: Option<Routing>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Routing {
    #[serde(default)]
    additional_version_weights: BTreeMap<String, f64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Configuration {
    state: Option<String>,
    environment: Option<Environment>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Environment {
    #[serde(default)]
    variables: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Concurrency {
    reserved_concurrent_executions: Option<u64>,
}

/// A function's alias, the versions that it points to, and the runs that are reserved for the function.
#[derive(Debug)]
pub(super) struct Function {
    logical_id: String,
    name: String,
    /// The version that the last deployment published.
    published: Option<String>,
    /// The version of the alias, and those to which it sends a part of the invocations.
    serving: Vec<String>,
    configurations: BTreeMap<String, Option<Configuration>>,
    reserved_runs: Option<u64>,
}

/// Reads all functions of the stack.
pub(super) async fn read_all(deployed: &Deployed) -> Vec<Result<Function, CliError>> {
    let mut reads = JoinSet::new();
    for (logical_id, name) in deployed.of_type(FUNCTION) {
        let published = deployed.of_type(VERSION).find_map(|(_, arn)| version_of(arn, name));
        reads.spawn(read(deployed.cli.clone(), logical_id.to_owned(), name.to_owned(), published));
    }
    reads.join_all().await
}

/// Returns the version in the ARN of a version of this function.
fn version_of(arn: &str, function: &str) -> Option<String> {
    let (function_arn, version) = arn.rsplit_once(':')?;
    let is_of_function = function_arn.rsplit(':').next() == Some(function);
    is_of_function.then(|| version.to_owned())
}

async fn read(
    cli: AwsCli,
    logical_id: String,
    name: String,
    published: Option<String>,
) -> Result<Function, CliError> {
    let of_alias = ["lambda", "get-alias", "--function-name", &name, "--name", ALIAS];
    let of_concurrency = ["lambda", "get-function-concurrency", "--function-name", &name];
    let (alias, concurrency) =
        tokio::join!(cli.read::<Alias>(&of_alias), cli.read::<Concurrency>(&of_concurrency));
    let mut serving = Vec::new();
    if let Some(alias) = alias? {
        serving.push(alias.function_version);
        serving.extend(alias.routing_config.unwrap_or_default().additional_version_weights.into_keys());
    }
    let mut configurations = BTreeMap::new();
    for version in &serving {
        let words =
            ["lambda", "get-function-configuration", "--function-name", &name, "--qualifier", version];
        configurations.insert(version.clone(), cli.read(&words).await?);
    }
    let reserved_runs = concurrency?.and_then(|concurrency| concurrency.reserved_concurrent_executions);
    Ok(Function { logical_id, name, published, serving, configurations, reserved_runs })
}

/// Checks the versions that serve.
pub(super) fn check(functions: &[Result<Function, CliError>]) -> Vec<Checked> {
    let checked = functions.iter().map(|function| match function {
        Ok(function) => Ok(findings(function)),
        Err(error) => Err(error.clone()),
    });
    checked.collect()
}

fn findings(function: &Function) -> Vec<String> {
    let Function { logical_id, published, serving, .. } = function;
    let mut found = Vec::new();
    match serving.as_slice() {
        [] => found.push(format!("{logical_id}: it has no alias {ALIAS}")),
        [serving] if published.as_ref().is_some_and(|published| published != serving) => {
            let published = published.as_deref().unwrap_or_default();
            found.push(format!(
                "{logical_id}: version {serving} serves, but the last deployment published version {published}"
            ));
        }
        [_] => {}
        several => found.push(format!(
            "{logical_id}: the versions {} share the invocations: a deployment has not ended",
            several.join(" and ")
        )),
    }
    for (version, configuration) in &function.configurations {
        found.extend(version_findings(logical_id, version, configuration.as_ref()));
    }
    found
}

fn version_findings(logical_id: &str, version: &str, configuration: Option<&Configuration>) -> Vec<String> {
    let Some(configuration) = configuration else {
        return vec![format!("{logical_id}: its version {version} does not exist")];
    };
    let mut found = Vec::new();
    // A version that was not invoked for weeks is `Inactive`, and starts at its next invocation.
    if let Some(state) =
        configuration.state.as_deref().filter(|state| !["Active", "Inactive"].contains(state))
    {
        found.push(format!("{logical_id}: its version {version} is in the state {state}"));
    }
    let variables = configuration.environment.as_ref().map(|environment| &environment.variables);
    let format = variables.and_then(|variables| variables.get(READ_ROW_FORMAT));
    let format = format.and_then(|format| format.parse().ok()).unwrap_or(FIRST_FORMAT);
    if format < WRITTEN_FORMAT {
        found.push(format!(
            "{logical_id}: its version {version} reads rows up to the format {format}, and this release writes the format {WRITTEN_FORMAT}: first deploy a release that reads it"
        ));
    }
    found
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct EventSource {
    function_arn: String,
    state: String,
    last_processing_result: Option<String>,
    scaling_config: Option<Scaling>,
    parallelization_factor: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Scaling {
    maximum_concurrency: Option<u64>,
}

impl EventSource {
    /// Returns the most runs that it starts at once; for a stream, of one shard.
    fn runs(&self) -> u64 {
        let of_queue = self.scaling_config.as_ref().and_then(|scaling| scaling.maximum_concurrency);
        of_queue.or(self.parallelization_factor).unwrap_or(1)
    }

    /// Returns whether it invokes this function. The ARN may end with the alias.
    fn invokes(&self, function: &Function) -> bool {
        self.function_arn.split(':').any(|part| part == function.name)
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct AccountSettings {
    account_limit: AccountLimit,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct AccountLimit {
    concurrent_executions: u64,
    unreserved_concurrent_executions: u64,
}

/// Checks the event sources, and that Lambda can run as many invocations as they start.
pub(super) async fn check_concurrency(
    deployed: &Deployed,
    functions: &[Result<Function, CliError>],
) -> Checked {
    let mut found = Vec::new();
    let mut sources = Vec::new();
    for (logical_id, id) in deployed.of_type(EVENT_SOURCE) {
        let words = ["lambda", "get-event-source-mapping", "--uuid", id];
        match deployed.cli.read::<EventSource>(&words).await? {
            Some(source) => sources.push((logical_id, source)),
            None => found.push(format!("{logical_id}: the event source does not exist")),
        }
    }
    for (logical_id, source) in &sources {
        found.extend(source_findings(logical_id, source));
    }
    let settings = deployed.cli.read_existing::<AccountSettings>(&["lambda", "get-account-settings"]).await?;
    let functions: Vec<&Function> = functions.iter().filter_map(|function| function.as_ref().ok()).collect();
    let sources: Vec<&EventSource> = sources.iter().map(|(_, source)| source).collect();
    found.extend(quota_findings(&settings.account_limit, &functions, &sources));
    Ok(found)
}

fn source_findings(logical_id: &str, source: &EventSource) -> Vec<String> {
    let mut found = Vec::new();
    if source.state != "Enabled" {
        found.push(format!("{logical_id}: the event source is in the state {}", source.state));
    }
    if let Some(result) = source.last_processing_result.as_deref().filter(|text| text.starts_with("PROBLEM"))
    {
        found.push(format!("{logical_id}: {result}"));
    }
    found
}

fn quota_findings(limit: &AccountLimit, functions: &[&Function], sources: &[&EventSource]) -> Vec<String> {
    let mut found = Vec::new();
    let mut needed = RUNS_FOR_REQUESTS;
    let reserving = || functions.iter().filter_map(|function| Some((function, function.reserved_runs?)));
    for source in sources {
        if !reserving().any(|(function, _)| source.invokes(function)) {
            needed = needed.saturating_add(source.runs());
        }
    }
    for (function, reserved) in reserving() {
        let of_function = sources.iter().filter(|source| source.invokes(function));
        let runs = of_function.fold(0_u64, |sum, source| sum.saturating_add(source.runs()));
        if reserved < runs {
            found.push(format!(
                "{}: its event sources start up to {runs} runs, but {reserved} are reserved: the others are throttled",
                function.logical_id
            ));
        }
    }
    let AccountLimit { concurrent_executions, unreserved_concurrent_executions: unreserved } = limit;
    if *unreserved < needed {
        found.push(format!(
            "the stack needs {needed} concurrent runs, and {unreserved} of the AWS account's {concurrent_executions} are not reserved: request a higher quota"
        ));
    }
    found
}
