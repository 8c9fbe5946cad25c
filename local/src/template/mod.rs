//! Reads what this machine needs from `template.yaml`, the one place where the infrastructure is declared: tables,
//! queues, buckets, and each function's environment, routes and event sources.
//!
//! It understands the intrinsics that those parts use (`Ref`, `GetAtt`, `Sub`, `Join`). Any other where a value is
//! needed is an error that names it, never a guess. Policies, alarms, logs and outputs are left to CloudFormation.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use serde_yaml_ng::Value as Yaml;

use crate::embedded::{ACCOUNT, REGION};
use crate::error::{Error, Result};
use crate::filter::Pattern;

/// The template that is deployed.
pub const TEMPLATE: &str = include_str!("../../template.yaml");

/// The template, as far as this machine needs it. Every list is in the template's order of logical ids.
#[derive(Debug, Clone)]
pub struct Template {
    /// What has to be given, or has a default.
    pub parameters: BTreeMap<String, Parameter>,
    /// DynamoDB tables.
    pub tables: Vec<Table>,
    /// SQS queues.
    pub queues: Vec<Queue>,
    /// S3 buckets.
    pub buckets: Vec<Bucket>,
    /// Secrets Manager's secrets, by their logical ids.
    pub secrets: Vec<String>,
    /// Lambda functions.
    pub functions: Vec<Function>,
}

/// A parameter of the stack.
#[derive(Debug, Clone)]
pub struct Parameter {
    /// Its value unless another is given.
    pub default: Option<String>,
    /// The only values that it takes; none listed: any.
    pub allowed: Vec<String>,
}

/// A table. Its local name is its logical id.
#[derive(Debug, Clone)]
pub struct Table {
    /// Its logical id.
    pub logical_id: String,
    /// The body of its `CreateTable` request.
    pub create: Value,
    /// The attribute that holds each row's time to live.
    pub ttl_attribute: Option<String>,
}

/// A queue. Its local name is its logical id.
#[derive(Debug, Clone)]
pub struct Queue {
    /// Its logical id.
    pub logical_id: String,
    /// Its attributes as `CreateQueue` takes them, but for the redrive policy.
    pub attributes: BTreeMap<String, String>,
    /// Where messages go that were received too often.
    pub redrive: Option<Redrive>,
}

/// A queue's redrive policy.
#[derive(Debug, Clone)]
pub struct Redrive {
    /// The logical id of the dead-letter queue.
    pub dead_letter_queue: String,
    /// How often a message may be received before it goes there.
    pub max_receive_count: u64,
}

/// A bucket. Its local name is its logical id in the form that buckets take: `documents-bucket`.
#[derive(Debug, Clone)]
pub struct Bucket {
    /// Its logical id.
    pub logical_id: String,
}

/// A function and what invokes it.
#[derive(Debug, Clone)]
pub struct Function {
    /// Its logical id.
    pub logical_id: String,
    /// Seconds that an invocation may take.
    pub timeout_s: u64,
    /// Its routes of the HTTP API.
    pub routes: Vec<Route>,
    /// The table streams that it reads.
    pub streams: Vec<StreamSource>,
    /// The queues that it reads.
    pub queues: Vec<QueueSource>,
    /// Its schedules, as expressions: `rate(1 minute)`.
    pub schedules: Vec<String>,
    environment: Map<String, Value>,
}

/// A route of the HTTP API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// Requests of that method (`ANY`: all) to that path (`/v1/things/{id}`, `/v1/things/{proxy+}`).
    Path {
        /// The method in capitals.
        method: String,
        /// The path with its variables in braces.
        path: String,
    },
    /// Every request that no other route takes.
    Default,
}

/// How a function reads a table's stream.
#[derive(Debug, Clone)]
pub struct StreamSource {
    /// The table's logical id.
    pub table: String,
    /// Records in an event, at most.
    pub batch_size: usize,
    /// How often the same records are tried again; `None`: until they expire.
    pub max_retries: Option<u32>,
    /// Whether a failed batch is halved before it is tried again.
    pub bisect: bool,
    /// Whether the function names the records that it could not handle.
    pub reports_failures: bool,
    /// The logical id of the bucket for records that were given up.
    pub failures_bucket: Option<String>,
    /// The records that it is invoked for: those that one of these takes. None: all.
    pub filters: Vec<Pattern>,
}

/// How a function reads a queue.
#[derive(Debug, Clone)]
pub struct QueueSource {
    /// The queue's logical id.
    pub queue: String,
    /// Messages in an event, at most.
    pub batch_size: u32,
    /// Whether the function names the messages that it could not handle.
    pub reports_failures: bool,
    /// Invocations at the same time, at most.
    pub max_concurrency: Option<usize>,
}

/// What a stack's references stand for on this machine.
#[derive(Debug, Clone, Default)]
pub struct Names {
    /// Values of parameters, where they are not the default.
    pub parameters: BTreeMap<String, String>,
    /// Values of secrets by their logical ids.
    pub secrets: BTreeMap<String, String>,
    /// The base URL of the queues, without a trailing slash.
    pub sqs_url: String,
}

impl Bucket {
    /// Its name on this machine.
    pub fn name(&self) -> String {
        bucket_name(&self.logical_id)
    }
}

impl Queue {
    /// Its URL at the queues' base URL.
    pub fn url(&self, sqs_url: &str) -> String {
        queue_url(sqs_url, &self.logical_id)
    }
}

/// The URL of a queue at the queues' base URL.
pub fn queue_url(sqs_url: &str, logical_id: &str) -> String {
    format!("{sqs_url}/{ACCOUNT}/{logical_id}")
}

/// The ARN of a queue.
pub fn queue_arn(logical_id: &str) -> String {
    format!("arn:aws:sqs:{REGION}:{ACCOUNT}:{logical_id}")
}

/// The name of a bucket: its logical id in lower case, with hyphens between words.
pub fn bucket_name(logical_id: &str) -> String {
    let mut name = String::new();
    for letter in logical_id.chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

impl Template {
    /// The template that is deployed.
    pub fn deployed() -> Result<Self> {
        Self::parse(TEMPLATE)
    }

    /// Reads a template.
    pub fn parse(text: &str) -> Result<Self> {
        let yaml: Yaml =
            serde_yaml_ng::from_str(text).map_err(|e| Error::because("the template is not YAML", &e))?;
        let root = plain(&yaml, "the template")?;
        let globals = root.pointer("/Globals/Function").cloned().unwrap_or_else(|| json!({}));
        let mut template = Self {
            parameters: parameters(&root)?,
            tables: Vec::new(),
            queues: Vec::new(),
            buckets: Vec::new(),
            secrets: Vec::new(),
            functions: Vec::new(),
        };
        for (logical_id, resource) in object(root.get("Resources"), "Resources")? {
            let empty = json!({});
            let properties = resource.get("Properties").unwrap_or(&empty);
            match text_of(resource.get("Type"), logical_id)? {
                "AWS::DynamoDB::Table" => template.tables.push(table(logical_id, properties)?),
                "AWS::SQS::Queue" => template.queues.push(queue(logical_id, properties)?),
                "AWS::S3::Bucket" => template.buckets.push(Bucket { logical_id: logical_id.clone() }),
                "AWS::SecretsManager::Secret" => template.secrets.push(logical_id.clone()),
                "AWS::Serverless::Function" => {
                    template.functions.push(function(logical_id, properties, &globals)?);
                }
                _ => {}
            }
        }
        template.check_references()?;
        Ok(template)
    }

    /// The function of that logical id.
    pub fn function(&self, logical_id: &str) -> Option<&Function> {
        self.functions.iter().find(|function| function.logical_id == logical_id)
    }

    /// A function's environment, with what its references stand for on this machine.
    pub fn environment(&self, function: &str, names: &Names) -> Result<BTreeMap<String, String>> {
        let found = self.function(function).ok_or_else(|| Error::new(format!("no function {function}")))?;
        let mut environment = BTreeMap::new();
        for (name, value) in &found.environment {
            let at = format!("{function}.Environment.{name}");
            let value = self.resolve(value, names, &at)?;
            environment.insert(name.clone(), secret_or_text(value, names, &at)?);
        }
        Ok(environment)
    }

    fn resolve(&self, value: &Value, names: &Names, at: &str) -> Result<String> {
        if let Some(text) = scalar(value) {
            return Ok(text);
        }
        match intrinsic(value) {
            Some(("Ref", Value::String(target))) => self.reference(target, names, at),
            Some(("Fn::GetAtt", target)) => {
                let (resource, attribute) = get_att(target, at)?;
                self.attribute(resource, attribute, at)
            }
            Some(("Fn::Sub", argument)) => self.substitute(argument, names, at),
            Some(("Fn::Join", Value::Array(arguments))) => match arguments.as_slice() {
                [Value::String(separator), Value::Array(parts)] => {
                    let parts: Result<Vec<String>> =
                        parts.iter().map(|part| self.resolve(part, names, at)).collect();
                    Ok(parts?.join(separator))
                }
                _ => Err(Error::new(format!("{at}: Fn::Join takes a separator and a list"))),
            },
            Some((name, _)) => Err(Error::new(format!("{at}: {name} is not understood on this machine"))),
            None => Err(Error::new(format!("{at}: not a text"))),
        }
    }

    fn reference(&self, target: &str, names: &Names, at: &str) -> Result<String> {
        match target {
            "AWS::Region" => return Ok(REGION.to_owned()),
            "AWS::AccountId" => return Ok(ACCOUNT.to_owned()),
            "AWS::Partition" => return Ok("aws".to_owned()),
            _ => {}
        }
        if let Some(parameter) = self.parameters.get(target) {
            let value = names.parameters.get(target).or(parameter.default.as_ref());
            let value =
                value.ok_or_else(|| Error::new(format!("{at}: the parameter {target} has no value")))?;
            if !parameter.allowed.is_empty() && !parameter.allowed.contains(value) {
                return Err(Error::new(format!("{at}: the parameter {target} can't be {value}")));
            }
            return Ok(value.clone());
        }
        if self.tables.iter().any(|table| table.logical_id == target) {
            return Ok(target.to_owned());
        }
        if self.secrets.iter().any(|secret| secret == target) {
            return Ok(target.to_owned());
        }
        if self.queues.iter().any(|queue| queue.logical_id == target) {
            return Ok(queue_url(&names.sqs_url, target));
        }
        if self.buckets.iter().any(|bucket| bucket.logical_id == target) {
            return Ok(bucket_name(target));
        }
        Err(Error::new(format!("{at}: a reference to {target}, which this machine does not have")))
    }

    fn attribute(&self, resource: &str, attribute: &str, at: &str) -> Result<String> {
        let is_queue = self.queues.iter().any(|queue| queue.logical_id == resource);
        let is_table = self.tables.iter().any(|table| table.logical_id == resource);
        let is_bucket = self.buckets.iter().any(|bucket| bucket.logical_id == resource);
        match attribute {
            "Arn" if is_queue => Ok(queue_arn(resource)),
            "QueueName" if is_queue => Ok(resource.to_owned()),
            "Arn" if is_table => Ok(format!("arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{resource}")),
            "Arn" if is_bucket => Ok(format!("arn:aws:s3:::{}", bucket_name(resource))),
            _ => Err(Error::new(format!("{at}: {resource}.{attribute}, which this machine does not have"))),
        }
    }

    fn substitute(&self, argument: &Value, names: &Names, at: &str) -> Result<String> {
        let none = json!({});
        let (pattern, variables) = match argument {
            Value::String(pattern) => (pattern.as_str(), &none),
            Value::Array(parts) => match parts.as_slice() {
                [Value::String(pattern), variables] => (pattern.as_str(), variables),
                _ => {
                    return Err(Error::new(format!("{at}: Fn::Sub takes a text and its variables")));
                }
            },
            _ => return Err(Error::new(format!("{at}: Fn::Sub takes a text"))),
        };
        let mut text = String::new();
        let mut rest = pattern;
        while let Some((before, after)) = rest.split_once("${") {
            text.push_str(before);
            let (name, after) =
                after.split_once('}').ok_or_else(|| Error::new(format!("{at}: ${{ without its }}")))?;
            rest = after;
            if let Some(literal) = name.strip_prefix('!') {
                text.push_str("${");
                text.push_str(literal);
                text.push('}');
            } else if let Some(value) = variables.get(name) {
                text.push_str(&self.resolve(value, names, at)?);
            } else if let Some((resource, attribute)) = name.split_once('.') {
                text.push_str(&self.attribute(resource, attribute, at)?);
            } else {
                text.push_str(&self.reference(name, names, at)?);
            }
        }
        text.push_str(rest);
        Ok(text)
    }

    /// Event sources and dead-letter queues must be resources of the same template.
    fn check_references(&self) -> Result<()> {
        let tables: BTreeSet<&str> = self.tables.iter().map(|table| table.logical_id.as_str()).collect();
        let queues: BTreeSet<&str> = self.queues.iter().map(|queue| queue.logical_id.as_str()).collect();
        let buckets: BTreeSet<&str> = self.buckets.iter().map(|bucket| bucket.logical_id.as_str()).collect();
        let check = |known: &BTreeSet<&str>, target: &str, from: &str| {
            if known.contains(target) {
                Ok(())
            } else {
                Err(Error::new(format!("{from} refers to {target}, which the template does not have")))
            }
        };
        for queue in &self.queues {
            if let Some(redrive) = &queue.redrive {
                check(&queues, &redrive.dead_letter_queue, &queue.logical_id)?;
            }
        }
        for function in &self.functions {
            for stream in &function.streams {
                check(&tables, &stream.table, &function.logical_id)?;
                if let Some(bucket) = &stream.failures_bucket {
                    check(&buckets, bucket, &function.logical_id)?;
                }
            }
            for source in &function.queues {
                check(&queues, &source.queue, &function.logical_id)?;
            }
        }
        Ok(())
    }
}

/// YAML as JSON, with each short tag in its long form: `!Ref X` is `{"Ref": "X"}`.
fn plain(yaml: &Yaml, at: &str) -> Result<Value> {
    Ok(match yaml {
        Yaml::Null => Value::Null,
        Yaml::Bool(value) => Value::Bool(*value),
        Yaml::Number(number) => {
            serde_json::to_value(number).map_err(|e| Error::because(&format!("{at}: a number"), &e))?
        }
        Yaml::String(text) => Value::String(text.clone()),
        Yaml::Sequence(items) => {
            Value::Array(items.iter().map(|item| plain(item, at)).collect::<Result<Vec<Value>>>()?)
        }
        Yaml::Mapping(entries) => {
            let mut map = Map::new();
            for (key, value) in entries {
                let key = scalar(&plain(key, at)?)
                    .ok_or_else(|| Error::new(format!("{at}: a key that is no text")))?;
                let value = plain(value, &key)?;
                map.insert(key, value);
            }
            Value::Object(map)
        }
        Yaml::Tagged(tagged) => {
            let tag = tagged.tag.to_string();
            let value = plain(&tagged.value, at)?;
            match tag.trim_start_matches('!') {
                name @ ("Ref" | "Condition") => json!({ name: value }),
                "GetAtt" => match value.as_str().and_then(|text| text.split_once('.')) {
                    Some((resource, attribute)) => json!({"Fn::GetAtt": [resource, attribute]}),
                    None => json!({"Fn::GetAtt": value}),
                },
                name => json!({ format!("Fn::{name}"): value }),
            }
        }
    })
}

fn intrinsic(value: &Value) -> Option<(&str, &Value)> {
    let map = value.as_object()?;
    let (name, argument) = map.iter().next()?;
    let is_one = map.len() == 1 && (name == "Ref" || name == "Condition" || name.starts_with("Fn::"));
    is_one.then_some((name.as_str(), argument))
}

fn get_att<'a>(argument: &'a Value, at: &str) -> Result<(&'a str, &'a str)> {
    match argument.as_array().map(Vec::as_slice) {
        Some([Value::String(resource), Value::String(attribute)]) => Ok((resource, attribute)),
        _ => Err(Error::new(format!("{at}: Fn::GetAtt takes a resource and an attribute"))),
    }
}

/// The resource whose attribute this value is.
fn target<'a>(value: Option<&'a Value>, wanted: &str, at: &str) -> Result<&'a str> {
    match value.and_then(intrinsic) {
        Some(("Fn::GetAtt", argument)) => match get_att(argument, at)? {
            (resource, attribute) if attribute == wanted => Ok(resource),
            (_, other) => {
                Err(Error::new(format!("{at}: expected the {wanted} of a resource, not its {other}")))
            }
        },
        Some((name, _)) => {
            Err(Error::new(format!("{at}: {name} is not understood on this machine, use !GetAtt")))
        }
        None => Err(Error::new(format!("{at}: expected the {wanted} of a resource"))),
    }
}

/// CloudFormation's dynamic reference to a secret stands for its value; everything else for itself.
fn secret_or_text(text: String, names: &Names, at: &str) -> Result<String> {
    let reference = text.strip_prefix("{{resolve:secretsmanager:").and_then(|rest| rest.strip_suffix("}}"));
    let Some(name) = reference else { return Ok(text) };
    let value = names.secrets.get(name);
    value.cloned().ok_or_else(|| Error::new(format!("{at}: the secret {name} has no value")))
}

fn object<'a>(value: Option<&'a Value>, at: &str) -> Result<&'a Map<String, Value>> {
    value.and_then(Value::as_object).ok_or_else(|| Error::new(format!("{at}: expected a mapping")))
}

fn text_of<'a>(value: Option<&'a Value>, at: &str) -> Result<&'a str> {
    match value {
        Some(Value::String(text)) => Ok(text),
        Some(other) => match intrinsic(other) {
            Some((name, _)) => Err(Error::new(format!("{at}: {name} is not understood on this machine"))),
            None => Err(Error::new(format!("{at}: expected a text"))),
        },
        None => Err(Error::new(format!("{at}: expected a text"))),
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn parameters(root: &Value) -> Result<BTreeMap<String, Parameter>> {
    let mut parameters = BTreeMap::new();
    let Some(declared) = root.get("Parameters") else {
        return Ok(parameters);
    };
    for (name, declaration) in object(Some(declared), "Parameters")? {
        let allowed = declaration.get("AllowedValues").and_then(Value::as_array);
        let parameter = Parameter {
            default: declaration.get("Default").and_then(scalar),
            allowed: allowed.into_iter().flatten().filter_map(scalar).collect(),
        };
        parameters.insert(name.clone(), parameter);
    }
    Ok(parameters)
}

/// CloudFormation's properties are `CreateTable`'s, but for those below. Backups, encryption and deletion protection
/// have no meaning here.
fn table(logical_id: &str, properties: &Value) -> Result<Table> {
    let mut create = json!({ "TableName": logical_id });
    for name in [
        "AttributeDefinitions",
        "KeySchema",
        "BillingMode",
        "GlobalSecondaryIndexes",
        "LocalSecondaryIndexes",
    ] {
        if let Some(value) = properties.get(name) {
            create.as_object_mut().map(|map| map.insert(name.to_owned(), value.clone()));
        }
    }
    if let Some(stream) = properties.get("StreamSpecification") {
        let view = text_of(stream.get("StreamViewType"), logical_id)?;
        let stream = json!({"StreamEnabled": true, "StreamViewType": view});
        create.as_object_mut().map(|map| map.insert("StreamSpecification".to_owned(), stream));
    }
    if let Some((name, at)) = find_intrinsic(&create, logical_id) {
        return Err(Error::new(format!("{at}: {name} is not understood on this machine")));
    }
    let ttl = properties
        .get("TimeToLiveSpecification")
        .filter(|ttl| ttl.get("Enabled") == Some(&Value::Bool(true)));
    let ttl_attribute = match ttl {
        Some(ttl) => Some(text_of(ttl.get("AttributeName"), logical_id)?.to_owned()),
        None => None,
    };
    Ok(Table { logical_id: logical_id.to_owned(), create, ttl_attribute })
}

fn find_intrinsic(value: &Value, at: &str) -> Option<(String, String)> {
    if let Some((name, _)) = intrinsic(value) {
        return Some((name.to_owned(), at.to_owned()));
    }
    match value {
        Value::Array(items) => items.iter().find_map(|item| find_intrinsic(item, at)),
        Value::Object(map) => map.iter().find_map(|(key, item)| find_intrinsic(item, &format!("{at}.{key}"))),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

fn queue(logical_id: &str, properties: &Value) -> Result<Queue> {
    let mut attributes = BTreeMap::new();
    let taken = [
        "VisibilityTimeout",
        "DelaySeconds",
        "MaximumMessageSize",
        "MessageRetentionPeriod",
        "ReceiveMessageWaitTimeSeconds",
    ];
    for property in taken {
        if let Some(value) = properties.get(property) {
            let value = scalar(value).ok_or_else(|| {
                Error::new(format!("{logical_id}.{property}: expected a number, found {value}"))
            })?;
            attributes.insert(property.to_owned(), value);
        }
    }
    let redrive = match properties.get("RedrivePolicy") {
        None => None,
        Some(policy) => Some(Redrive {
            dead_letter_queue: target(policy.get("deadLetterTargetArn"), "Arn", logical_id)?.to_owned(),
            max_receive_count: number(policy.get("maxReceiveCount"), logical_id)?.ok_or_else(|| {
                Error::new(format!("{logical_id}: a redrive policy without maxReceiveCount"))
            })?,
        }),
    };
    Ok(Queue { logical_id: logical_id.to_owned(), attributes, redrive })
}

fn number(value: Option<&Value>, at: &str) -> Result<Option<u64>> {
    match value {
        None => Ok(None),
        Some(value) => {
            let number = scalar(value).and_then(|text| text.parse().ok());
            Ok(Some(number.ok_or_else(|| Error::new(format!("{at}: expected a number, found {value}")))?))
        }
    }
}

fn function(logical_id: &str, properties: &Value, globals: &Value) -> Result<Function> {
    let mut environment = Map::new();
    for level in [globals, properties] {
        if let Some(variables) = level.pointer("/Environment/Variables") {
            environment.extend(object(Some(variables), logical_id)?.clone());
        }
    }
    let timeout = properties.get("Timeout").or_else(|| globals.get("Timeout"));
    let mut function = Function {
        logical_id: logical_id.to_owned(),
        // Lambda's own default.
        timeout_s: number(timeout, logical_id)?.unwrap_or(3),
        routes: Vec::new(),
        streams: Vec::new(),
        queues: Vec::new(),
        schedules: Vec::new(),
        environment,
    };
    let Some(events) = properties.get("Events") else {
        return Ok(function);
    };
    for (name, event) in object(Some(events), logical_id)? {
        let at = format!("{logical_id}.{name}");
        let none = json!({});
        let properties = event.get("Properties").unwrap_or(&none);
        match text_of(event.get("Type"), &at)? {
            "HttpApi" => function.routes.push(route(properties, &at)?),
            "DynamoDB" => function.streams.push(stream_source(properties, &at)?),
            "SQS" => function.queues.push(queue_source(properties, &at)?),
            "Schedule" => function.schedules.push(text_of(properties.get("Schedule"), &at)?.to_owned()),
            other => {
                return Err(Error::new(format!(
                    "{at}: events of type {other} are not understood on this machine"
                )));
            }
        }
    }
    Ok(function)
}

fn route(properties: &Value, at: &str) -> Result<Route> {
    // SAM's rule: an event with neither is the API's default route.
    if properties.get("Path").is_none() && properties.get("Method").is_none() {
        return Ok(Route::Default);
    }
    Ok(Route::Path {
        method: text_of(properties.get("Method"), at)?.to_ascii_uppercase(),
        path: text_of(properties.get("Path"), at)?.to_owned(),
    })
}

fn reports_failures(properties: &Value) -> bool {
    let types = properties.get("FunctionResponseTypes").and_then(Value::as_array);
    types.is_some_and(|types| types.iter().any(|kind| kind == "ReportBatchItemFailures"))
}

fn stream_source(properties: &Value, at: &str) -> Result<StreamSource> {
    match text_of(properties.get("StartingPosition"), at)? {
        "TRIM_HORIZON" => {}
        other => {
            return Err(Error::new(format!(
                "{at}: StartingPosition {other} is not understood on this machine"
            )));
        }
    }
    let failures_bucket = match properties.pointer("/DestinationConfig/OnFailure/Destination") {
        None => None,
        Some(bucket) => Some(target(Some(bucket), "Arn", at)?.to_owned()),
    };
    // -1 and nothing mean the same: for ever.
    let max_retries = match properties.get("MaximumRetryAttempts").and_then(Value::as_i64) {
        Some(retries) => u32::try_from(retries).ok(),
        None => None,
    };
    let batch_size = number(properties.get("BatchSize"), at)?.unwrap_or(100);
    let filters = properties.pointer("/FilterCriteria/Filters").and_then(Value::as_array);
    let filter = |filter: &Value| Pattern::parse(text_of(filter.get("Pattern"), at)?);
    let filters = filters.into_iter().flatten().map(filter).collect::<Result<_>>()?;
    Ok(StreamSource {
        table: target(properties.get("Stream"), "StreamArn", at)?.to_owned(),
        batch_size: usize::try_from(batch_size).unwrap_or(100),
        max_retries,
        bisect: properties.get("BisectBatchOnFunctionError") == Some(&Value::Bool(true)),
        reports_failures: reports_failures(properties),
        failures_bucket,
        filters,
    })
}

fn queue_source(properties: &Value, at: &str) -> Result<QueueSource> {
    let batch_size = number(properties.get("BatchSize"), at)?.unwrap_or(10);
    let max_concurrency = number(properties.pointer("/ScalingConfig/MaximumConcurrency"), at)?;
    Ok(QueueSource {
        queue: target(properties.get("Queue"), "Arn", at)?.to_owned(),
        batch_size: u32::try_from(batch_size).unwrap_or(10),
        reports_failures: reports_failures(properties),
        max_concurrency: max_concurrency.and_then(|limit| usize::try_from(limit).ok()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        Names {
            parameters: BTreeMap::from([(
                "CheckoutBaseUrl".to_owned(),
                "http://127.0.0.1:3000/checkout".to_owned(),
            )]),
            secrets: BTreeMap::from([("DashboardTokenSecret".to_owned(), "a secret".to_owned())]),
            sqs_url: "http://127.0.0.1:9324".to_owned(),
        }
    }

    #[test]
    fn the_deployed_template_declares_what_the_service_is_made_of() {
        let template = Template::deployed().unwrap();
        let tables: Vec<&str> = template.tables.iter().map(|table| table.logical_id.as_str()).collect();
        assert_eq!(tables, ["ApiKeysTable", "StateTable"]);
        let state = template.tables.iter().find(|table| table.logical_id == "StateTable").unwrap();
        assert_eq!(state.ttl_attribute.as_deref(), Some("ttl"));
        assert_eq!(state.create["StreamSpecification"]["StreamEnabled"], true);
        assert_eq!(state.create["GlobalSecondaryIndexes"].as_array().unwrap().len(), 4);
        let buckets: Vec<String> = template.buckets.iter().map(Bucket::name).collect();
        assert_eq!(buckets, ["documents-bucket"]);

        let queue = template.queues.iter().find(|queue| queue.logical_id == "DeliveryQueue").unwrap();
        assert_eq!(queue.redrive.as_ref().unwrap().dead_letter_queue, "DeliveryDeadLetterQueue");
        let worker = template.function("WebhookWorkerFunction").unwrap();
        let visibility: u64 = queue.attributes["VisibilityTimeout"].parse().unwrap();
        assert!(
            visibility >= 6 * worker.timeout_s,
            "messages would come back while the worker still has them"
        );
        assert_eq!(worker.queues[0].queue, "DeliveryQueue");
        assert!(worker.queues[0].reports_failures);

        let stream = &template.function("EventDispatcherFunction").unwrap().streams[0];
        assert_eq!((stream.table.as_str(), stream.batch_size, stream.max_retries), ("StateTable", 100, None));
        assert!(stream.bisect && stream.reports_failures);
        assert_eq!(stream.failures_bucket.as_deref(), Some("DocumentsBucket"));
        assert_eq!(template.function("ClockFunction").unwrap().schedules, ["rate(1 minute)"]);
        assert!(template.function("CheckoutFunction").unwrap().routes.contains(&Route::Default));
    }

    #[test]
    fn an_environment_names_what_is_on_this_machine() {
        let template = Template::deployed().unwrap();
        let worker = template.environment("WebhookWorkerFunction", &names()).unwrap();
        let expected = [
            ("API_KEYS_TABLE_NAME", "ApiKeysTable"),
            ("CHECKOUT_BASE_URL", "http://127.0.0.1:3000/checkout"),
            ("DELIVERY_DEAD_LETTER_QUEUE_URL", "http://127.0.0.1:9324/123456789012/DeliveryDeadLetterQueue"),
            ("DELIVERY_QUEUE_URL", "http://127.0.0.1:9324/123456789012/DeliveryQueue"),
            ("RUST_LOG", "info"),
            ("TABLE_NAME", "StateTable"),
        ];
        assert_eq!(worker, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
        for function in &template.functions {
            template.environment(&function.logical_id, &names()).unwrap();
        }
    }

    #[test]
    fn a_secret_stands_for_its_value_and_only_where_it_is_used() {
        let template = Template::deployed().unwrap();
        let desk = template.environment("ApiKeysFunction", &names()).unwrap();
        assert_eq!(desk["DASHBOARD_TOKEN_SECRET"], "a secret");
        for function in template.functions.iter().filter(|function| function.logical_id != "ApiKeysFunction")
        {
            let environment = template.environment(&function.logical_id, &names()).unwrap();
            assert!(!environment.values().any(|value| value == "a secret"), "{}", function.logical_id);
        }
        let unknown = Names { secrets: BTreeMap::new(), ..names() };
        let missing = template.environment("ApiKeysFunction", &unknown).unwrap_err();
        assert!(missing.to_string().contains("DashboardTokenSecret has no value"), "{missing}");
    }

    #[test]
    fn a_parameter_must_have_a_value_and_one_that_it_takes() {
        let template = Template::deployed().unwrap();
        let missing = template.environment("ChargesFunction", &Names::default()).unwrap_err();
        assert!(missing.to_string().contains("CheckoutBaseUrl has no value"), "{missing}");
        let mut wrong = names();
        wrong.parameters.insert("ChargeList".to_owned(), "maybe".to_owned());
        let wrong = template.environment("ChargesFunction", &wrong).unwrap_err();
        assert!(wrong.to_string().contains("ChargeList can't be maybe"), "{wrong}");
    }

    fn one_variable(value: &str) -> Result<String> {
        let text = format!(
            "Parameters: {{ Stage: {{ Type: String, Default: prod }} }}\n\
             Resources:\n  Docs: {{ Type: 'AWS::S3::Bucket' }}\n  Jobs: {{ Type: 'AWS::SQS::Queue' }}\n  \
             F:\n    Type: AWS::Serverless::Function\n    Properties:\n      Environment:\n        Variables:\n          \
             V: {value}\n"
        );
        let environment = Template::parse(&text)?.environment("F", &names())?;
        Ok(environment["V"].clone())
    }

    #[test]
    fn intrinsics_are_resolved_in_their_short_and_long_forms() {
        assert_eq!(
            one_variable("!Sub '${Stage}-${Docs}-${Jobs.Arn}-${!x}'").unwrap(),
            "prod-docs-arn:aws:sqs:sa-east-1:123456789012:Jobs-${x}"
        );
        assert_eq!(one_variable("{ 'Fn::Sub': ['${A}!', { A: !Ref Stage }] }").unwrap(), "prod!");
        assert_eq!(
            one_variable("!Join ['/', [!Ref Stage, !GetAtt Jobs.QueueName, 'AWS::Region']]").unwrap(),
            "prod/Jobs/AWS::Region"
        );
        assert_eq!(one_variable("{ Ref: 'AWS::Region' }").unwrap(), "sa-east-1");
        assert_eq!(one_variable("12").unwrap(), "12");
        assert_eq!(one_variable("true").unwrap(), "true");
    }

    #[test]
    fn what_is_not_understood_is_named() {
        let text = one_variable("!ImportValue other").unwrap_err().to_string();
        assert_eq!(text, "F.Environment.V: Fn::ImportValue is not understood on this machine");
        let text = one_variable("!If [A, b, c]").unwrap_err().to_string();
        assert!(text.contains("Fn::If"), "{text}");
        let text = one_variable("!GetAtt Docs.DomainName").unwrap_err().to_string();
        assert!(text.contains("Docs.DomainName"), "{text}");
        let text = one_variable("!Ref Nothing").unwrap_err().to_string();
        assert!(text.contains("Nothing"), "{text}");
    }
}
