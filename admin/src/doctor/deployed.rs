//! A deployed stack, as CloudFormation describes it.

use std::collections::HashMap;

use serde_json::Value;

use super::aws_cli::{AwsCli, list, text};
use crate::Result;

pub(super) const ALARM: &str = "AWS::CloudWatch::Alarm";
pub(super) const RULE: &str = "AWS::Events::Rule";
pub(super) const FUNCTION: &str = "AWS::Lambda::Function";
pub(super) const VERSION: &str = "AWS::Lambda::Version";
pub(super) const EVENT_SOURCE: &str = "AWS::Lambda::EventSourceMapping";

const GOOD_STATES: [&str; 4] =
    ["CREATE_COMPLETE", "UPDATE_COMPLETE", "IMPORT_COMPLETE", "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS"];

#[derive(Debug)]
pub(super) struct Deployed {
    pub(super) cli: AwsCli,
    pub(super) name: String,
    status: String,
    parameters: HashMap<String, String>,
    outputs: HashMap<String, String>,
    resources: Vec<Value>,
}

impl Deployed {
    pub(super) async fn read(cli: AwsCli, name: String) -> Result<Self> {
        let words = |operation: &'static str| ["cloudformation", operation, "--stack-name", name.as_str()];
        let (of_stack, of_resources) = (words("describe-stacks"), words("list-stack-resources"));
        let (stacks, resources) =
            tokio::join!(cli.read_existing(&of_stack), cli.read_existing(&of_resources));
        let (stacks, resources) = (stacks?, resources?);
        let stack = stacks.pointer("/Stacks/0").ok_or_else(|| format!("there is no stack {name}"))?;
        let pairs = |members: &str, key: &str, value: &str| {
            let pair = |member: &Value| (text(member, key).to_owned(), text(member, value).to_owned());
            list(stack, members).iter().map(pair).collect()
        };
        Ok(Self {
            cli,
            name,
            status: text(stack, "/StackStatus").to_owned(),
            parameters: pairs("/Parameters", "/ParameterKey", "/ParameterValue"),
            outputs: pairs("/Outputs", "/OutputKey", "/OutputValue"),
            resources: list(&resources, "/StackResourceSummaries").to_vec(),
        })
    }

    /// Returns the value of a parameter, unless it is empty.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns the parameters whose name ends like this and whose value is not empty.
    pub(super) fn parameters_ending(&self, end: &str) -> impl Iterator<Item = (&str, &str)> {
        let given =
            self.parameters.iter().filter(move |(name, value)| name.ends_with(end) && !value.is_empty());
        given.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub(super) fn output(&self, name: &str) -> Option<String> {
        self.outputs.get(name).cloned()
    }

    pub(super) fn of_type(&self, kind: &str) -> impl Iterator<Item = (&str, &str)> {
        let of_type = self.resources.iter().filter(move |resource| text(resource, "/ResourceType") == kind);
        // A resource that is being created has no physical id yet.
        of_type.filter_map(|resource| {
            Some((text(resource, "/LogicalResourceId"), resource.get("PhysicalResourceId")?.as_str()?))
        })
    }

    pub(super) fn findings(&self) -> Vec<String> {
        let mut found = Vec::new();
        if !GOOD_STATES.contains(&self.status.as_str()) {
            found.push(format!(
                "the stack is in the state {}: its last deployment failed or has not ended",
                self.status
            ));
        }
        if self.parameter("DeletionProtection") == Some("false") {
            found.push("the tables can be deleted: the parameter DeletionProtection is false".to_owned());
        }
        if self.parameter("DashboardTokenPublicKeys").is_none() {
            found.push("the dashboard is closed: the parameter DashboardTokenPublicKeys is empty".to_owned());
        }
        let number = |name: &str| self.parameter(name).and_then(|value| value.parse::<u64>().ok());
        // The template can't add them up.
        let started: u64 =
            ["DeliveryConcurrency", "TestDeliveryConcurrency"].into_iter().filter_map(number).sum();
        if let Some(reserved) =
            number("WebhookWorkerReservedConcurrency").filter(|reserved| *reserved < started)
        {
            found.push(format!(
                "the parameter WebhookWorkerReservedConcurrency is {reserved}, but the queues start up to {started} runs: the others are throttled"
            ));
        }
        found
    }
}
