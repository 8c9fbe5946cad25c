//! Reads the parameters and the resources of a template: tables, queues, functions and their event sources.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::intrinsics::{get_att_resource, number, object, scalar, string, unsupported};
use super::{Function, Queue, QueueSource, Route, Schedule, StreamSource, Table, queue_arn};
use crate::error::{Context, Error, Result};
use crate::filter::Pattern;

// Lambda's defaults.
const DEFAULT_TIMEOUT_SECONDS: u64 = 3;
const DEFAULT_STREAM_BATCH: usize = 100;
const DEFAULT_QUEUE_BATCH: u32 = 10;

/// The properties that `CreateTable` takes too.
const OF_TABLE: [&str; 6] = [
    "AttributeDefinitions",
    "BillingMode",
    "GlobalSecondaryIndexes",
    "KeySchema",
    "LocalSecondaryIndexes",
    "StreamSpecification",
];

pub(super) fn parameters(root: &Value) -> BTreeMap<String, Option<String>> {
    let declared = root.get("Parameters").and_then(Value::as_object).into_iter().flatten();
    declared.map(|(name, declaration)| (name.clone(), declaration.get("Default").and_then(scalar))).collect()
}

pub(super) fn table(logical_id: &str, properties: &Value) -> Result<Table> {
    let mut create = object(Some(properties), logical_id)?.clone();
    let ttl = create.remove("TimeToLiveSpecification");
    let ttl = ttl.filter(|ttl| ttl.get("Enabled") == Some(&Value::Bool(true)));
    let ttl_attribute = ttl.map(|ttl| string(ttl.get("AttributeName"), logical_id).map(str::to_owned));
    create.retain(|name, _| OF_TABLE.contains(&name.as_str()));
    if let Some(Value::Object(stream)) = create.get_mut("StreamSpecification") {
        // `CreateTable` requires it, and the template lacks it.
        stream.insert("StreamEnabled".to_owned(), true.into());
    }
    create.insert("TableName".to_owned(), logical_id.into());
    let ttl_attribute = ttl_attribute.transpose()?;
    Ok(Table { logical_id: logical_id.to_owned(), create: create.into(), ttl_attribute })
}

pub(super) fn queue(logical_id: &str, properties: &Value) -> Result<Queue> {
    let mut attributes = BTreeMap::new();
    let supported = [
        "VisibilityTimeout",
        "DelaySeconds",
        "MaximumMessageSize",
        "MessageRetentionPeriod",
        "ReceiveMessageWaitTimeSeconds",
    ];
    for property in supported {
        if let Some(value) = properties.get(property) {
            let value = scalar(value).ok_or_else(|| {
                Error::new(format!("{logical_id}.{property}: expected a number, found {value}"))
            })?;
            attributes.insert(property.to_owned(), value);
        }
    }
    if let Some(policy) = properties.get("RedrivePolicy") {
        let dead_letters = get_att_resource(policy.get("deadLetterTargetArn"), "Arn", logical_id)?;
        let most = number(policy.get("maxReceiveCount"), logical_id)?.ok_or_else(|| {
            Error::new(format!("{logical_id}: a redrive policy must have a maxReceiveCount"))
        })?;
        let policy = json!({"deadLetterTargetArn": queue_arn(dead_letters), "maxReceiveCount": most});
        attributes.insert("RedrivePolicy".to_owned(), policy.to_string());
    }
    Ok(Queue { logical_id: logical_id.to_owned(), attributes })
}

pub(super) fn function(
    logical_id: &str,
    properties: &Value,
    globals: &Value,
    parameter: impl Fn(&str) -> Option<String>,
) -> Result<Function> {
    let mut environment = Map::new();
    for level in [globals, properties] {
        let variables = level.pointer("/Environment/Variables").and_then(Value::as_object);
        environment.extend(variables.cloned().unwrap_or_default());
    }
    let timeout = properties.get("Timeout").or_else(|| globals.get("Timeout"));
    let mut function = Function {
        logical_id: logical_id.to_owned(),
        timeout_s: number(timeout, logical_id)?.unwrap_or(DEFAULT_TIMEOUT_SECONDS),
        environment,
        ..Function::default()
    };
    for (name, event) in properties.get("Events").and_then(Value::as_object).into_iter().flatten() {
        let at = format!("{logical_id}.{name}");
        let properties = event.get("Properties").unwrap_or(&Value::Null);
        match string(event.get("Type"), &at)? {
            "HttpApi" => function.routes.push(route(properties, &at)?),
            "DynamoDB" => function.streams.push(stream_source(properties, &at)?),
            "SQS" => function.queues.push(queue_source(properties, &parameter, &at)?),
            "Schedule" => function.schedules.push(schedule(properties, &at)?),
            other => return Err(unsupported(&format!("the event type {other}"), &at)),
        }
    }
    Ok(function)
}

/// Reads a route. As in SAM, an event with neither path nor method is the default route.
fn route(properties: &Value, at: &str) -> Result<Route> {
    if properties.get("Path").is_none() && properties.get("Method").is_none() {
        return Ok(Route::Default);
    }
    Ok(Route::Path {
        method: string(properties.get("Method"), at)?.to_ascii_uppercase(),
        path: string(properties.get("Path"), at)?.to_owned(),
    })
}

fn schedule(properties: &Value, at: &str) -> Result<Schedule> {
    let expression = string(properties.get("Schedule"), at)?;
    let rate = expression.strip_prefix("rate(").and_then(|rate| rate.strip_suffix(')'));
    let minutes = rate.and_then(|rate| rate.strip_suffix(" minutes").or(rate.strip_suffix(" minute")));
    let minutes = minutes.and_then(|minutes| minutes.parse().ok());
    let is_daily = expression.starts_with("cron(") && expression.ends_with(" * * ? *)");
    let minutes = minutes.or(is_daily.then_some(super::MINUTES_OF_A_DAY));
    let minutes = minutes.ok_or_else(|| unsupported(&format!("the schedule {expression}"), at))?;
    let input = properties.get("Input").and_then(Value::as_str).map(serde_json::from_str).transpose();
    Ok(Schedule { minutes, input: input.context(format_args!("{at}: reading the input"))? })
}

fn stream_source(properties: &Value, at: &str) -> Result<StreamSource> {
    let start = string(properties.get("StartingPosition"), at)?;
    if start != "TRIM_HORIZON" {
        return Err(unsupported(&format!("StartingPosition {start}"), at));
    }
    let batch_size = number(properties.get("BatchSize"), at)?;
    let factor = number(properties.get("ParallelizationFactor"), at)?;
    let filters = properties.pointer("/FilterCriteria/Filters").and_then(Value::as_array);
    let filter = |filter: &Value| Pattern::parse(string(filter.get("Pattern"), at)?);
    let filters = filters.into_iter().flatten().map(filter).collect::<Result<_>>()?;
    Ok(StreamSource {
        table: get_att_resource(properties.get("Stream"), "StreamArn", at)?.to_owned(),
        batch_size: batch_size.and_then(|size| usize::try_from(size).ok()).unwrap_or(DEFAULT_STREAM_BATCH),
        parallelization_factor: factor.and_then(|factor| usize::try_from(factor).ok()).unwrap_or(1),
        filters,
    })
}

fn queue_source(
    properties: &Value,
    parameter: &impl Fn(&str) -> Option<String>,
    at: &str,
) -> Result<QueueSource> {
    let batch_size = number_or_parameter(properties.get("BatchSize"), parameter, at)?;
    let max_concurrency = properties.pointer("/ScalingConfig/MaximumConcurrency");
    let max_concurrency = number_or_parameter(max_concurrency, parameter, at)?;
    Ok(QueueSource {
        queue: get_att_resource(properties.get("Queue"), "Arn", at)?.to_owned(),
        batch_size: batch_size.and_then(|size| u32::try_from(size).ok()).unwrap_or(DEFAULT_QUEUE_BATCH),
        max_concurrency: max_concurrency.and_then(|limit| usize::try_from(limit).ok()),
    })
}

fn number_or_parameter(
    value: Option<&Value>,
    parameter: &impl Fn(&str) -> Option<String>,
    at: &str,
) -> Result<Option<u64>> {
    let name = value.and_then(|value| value.get("!Ref")?.as_str());
    match name.and_then(parameter) {
        Some(value) => number(Some(&Value::String(value)), at),
        None => number(value, at),
    }
}
