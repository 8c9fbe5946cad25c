//! Reads `template.yaml`, which declares the infrastructure, and extracts the parts that the local service
//! needs: tables, queues, buckets, and each function's environment, routes and event sources.
//!
//! Supports CloudFormation's intrinsic functions `Ref`, `GetAtt` of event sources, and `Sub` with references. If a
//! value that the local service needs contains another intrinsic function, the start fails. Roles, policies, alarms,
//! logs and outputs are ignored.
//!
//! Conditions count as true, so conditional resources exist on this machine. The routes of all HTTP APIs are
//! served on one port. Custom domains and client certificates are ignored.

mod intrinsics;
mod resources;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use self::intrinsics::{Resolver, object, string};
use crate::embedded::{ACCOUNT, REGION};
use crate::error::{Error, Result};
use crate::filter::Pattern;

pub const TEMPLATE: &str = include_str!("../../../template.yaml");

// The logical ids of resources that this crate itself uses.
pub(crate) const STATE_TABLE: &str = "StateTable";
pub(crate) const API_KEYS_TABLE: &str = "ApiKeysTable";
pub(crate) const SECRETS_TABLE: &str = "SecretsTable";
pub(crate) const BUCKET: &str = "DocumentsBucket";

/// The supported parts of a template. Each list is sorted by logical id.
#[derive(Debug, Clone, Default)]
pub struct Template {
    /// Each with its value when the stack does not set one.
    pub parameters: BTreeMap<String, Option<String>>,
    pub tables: Vec<Table>,
    pub queues: Vec<Queue>,
    /// Logical ids of the buckets. [`bucket_name`] returns a bucket's name.
    pub buckets: Vec<String>,
    /// Logical ids of the secrets in Secrets Manager.
    pub secrets: Vec<String>,
    pub functions: Vec<Function>,
}

#[derive(Debug, Clone)]
pub struct Table {
    pub logical_id: String,
    pub create: Value,
    pub ttl_attribute: Option<String>,
}

#[derive(Debug, Clone)]
pub struct Queue {
    pub logical_id: String,
    /// The attributes of the `CreateQueue` request.
    pub attributes: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default)]
pub struct Function {
    pub logical_id: String,
    /// The timeout of an invocation in seconds.
    pub timeout_s: u64,
    pub routes: Vec<Route>,
    pub streams: Vec<StreamSource>,
    pub queues: Vec<QueueSource>,
    pub schedules: Vec<Schedule>,
    environment: Map<String, Value>,
}

/// The period of a schedule at a time of the day.
pub(crate) const MINUTES_OF_A_DAY: u32 = 1_440;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// The period in minutes. That of a time of the day is a day.
    pub minutes: u32,
    /// `None`: EventBridge's own event.
    pub input: Option<Value>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Route {
    Path {
        method: String,
        /// The path with its variables in braces, such as `/v1/things/{id}` or `/v1/things/{proxy+}`.
        path: String,
    },
    Default,
}

#[derive(Debug, Clone)]
pub struct StreamSource {
    pub table: String,
    /// The maximum number of records in an event.
    pub batch_size: usize,
    pub parallelization_factor: usize,
    /// Empty: all records.
    pub filters: Vec<Pattern>,
}

#[derive(Debug, Clone)]
pub struct QueueSource {
    pub queue: String,
    /// The maximum number of messages in an event.
    pub batch_size: u32,
    /// The maximum number of concurrent invocations. `None`: the template sets no limit.
    pub max_concurrency: Option<usize>,
}

#[derive(Debug, Clone, Default)]
pub struct TemplateValues {
    /// Other parameters have their defaults.
    pub parameters: BTreeMap<String, String>,
    pub secrets: BTreeMap<String, String>,
    /// The base URL of the queues, without a trailing slash.
    pub sqs_url: String,
}

pub fn queue_url(sqs_url: &str, logical_id: &str) -> String {
    format!("{sqs_url}/{ACCOUNT}/{logical_id}")
}

pub fn queue_arn(logical_id: &str) -> String {
    format!("arn:aws:sqs:{REGION}:{ACCOUNT}:{logical_id}")
}

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
    pub fn deployed() -> Result<Self> {
        // Parsing takes 35 ms in a development build, and tests start many services.
        static DEPLOYED: LazyLock<Result<Template>> = LazyLock::new(|| Template::parse(TEMPLATE));
        DEPLOYED.clone()
    }

    pub(crate) fn deployed_with(values: &BTreeMap<String, String>) -> Result<Self> {
        if values.is_empty() { Self::deployed() } else { Self::parse_with(TEMPLATE, values) }
    }

    pub fn parse(text: &str) -> Result<Self> {
        Self::parse_with(text, &BTreeMap::new())
    }

    fn parse_with(text: &str, values: &BTreeMap<String, String>) -> Result<Self> {
        let root = intrinsics::json(text)?;
        let globals = root.pointer("/Globals/Function").cloned().unwrap_or_else(|| json!({}));
        let mut template = Self { parameters: resources::parameters(&root), ..Self::default() };
        for (logical_id, resource) in object(root.get("Resources"), "Resources")? {
            let properties = resource.get("Properties").unwrap_or(&Value::Null);
            match string(resource.get("Type"), logical_id)? {
                "AWS::DynamoDB::Table" => template.tables.push(resources::table(logical_id, properties)?),
                "AWS::SQS::Queue" => template.queues.push(resources::queue(logical_id, properties)?),
                "AWS::S3::Bucket" => template.buckets.push(logical_id.clone()),
                "AWS::SecretsManager::Secret" => template.secrets.push(logical_id.clone()),
                "AWS::Serverless::Function" => {
                    template.functions.push(resources::function(logical_id, properties, &globals, |name| {
                        values.get(name).or(template.parameters.get(name)?.as_ref()).cloned()
                    })?);
                }
                _ => {}
            }
        }
        Ok(template)
    }

    pub fn function(&self, logical_id: &str) -> Option<&Function> {
        self.functions.iter().find(|function| function.logical_id == logical_id)
    }

    pub fn environment(&self, function: &str, values: &TemplateValues) -> Result<BTreeMap<String, String>> {
        let unknown = || Error::new(format!("the template has no function {function}"));
        let found = self.function(function).ok_or_else(unknown)?;
        let mut environment = BTreeMap::new();
        for (name, value) in &found.environment {
            let at = format!("{function}.Environment.{name}");
            let resolver = Resolver { template: self, values, at: &at };
            environment.insert(name.clone(), resolver.environment_value(value)?);
        }
        Ok(environment)
    }
}
