//! A deployed stack, as CloudFormation describes it.

use serde_json::Value;

use crate::Result;
use crate::aws_cli::{AwsCli, Described, list, text};

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
    described: Described,
    resources: Vec<Value>,
}

impl Deployed {
    pub(super) async fn read(cli: AwsCli, name: String) -> Result<Self> {
        let of_resources = ["cloudformation", "list-stack-resources", "--stack-name", name.as_str()];
        let (described, resources) =
            tokio::join!(Described::read(&cli, &name), cli.read_existing(&of_resources));
        let (described, resources) = (described?, resources?);
        Ok(Self { cli, name, described, resources: list(&resources, "/StackResourceSummaries").to_vec() })
    }

    /// Returns the value of a parameter, unless it is empty.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.described.parameter(name)
    }

    /// Returns the parameters whose name ends like this and whose value is not empty.
    pub(super) fn parameters_ending(&self, end: &str) -> impl Iterator<Item = (&str, &str)> {
        let given = self
            .described
            .parameters
            .iter()
            .filter(move |(name, value)| name.ends_with(end) && !value.is_empty());
        given.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub(super) fn output(&self, name: &str) -> Option<String> {
        self.described.outputs.get(name).cloned()
    }

    pub(super) fn of_type(&self, kind: &str) -> impl Iterator<Item = (&str, &str)> {
        let of_type = self.resources.iter().filter(move |resource| text(resource, "/ResourceType") == kind);
        // A resource that is being created has no physical id yet.
        of_type.filter_map(|resource| {
            Some((text(resource, "/LogicalResourceId"), resource.get("PhysicalResourceId")?.as_str()?))
        })
    }

    /// What is intended for a stack for tests.
    pub(super) fn notes(&self) -> Vec<&'static str> {
        let tables = "the tables can be deleted: the parameter DeletionProtection is false";
        let stack = "the stack can be deleted: run `aws cloudformation update-termination-protection`";
        let are_unprotected = self.parameter("DeletionProtection") == Some("false");
        let notes = [are_unprotected.then_some(tables), (!self.described.is_protected).then_some(stack)];
        notes.into_iter().flatten().collect()
    }

    pub(super) fn findings(&self) -> Vec<String> {
        let mut found = Vec::new();
        if !GOOD_STATES.contains(&self.described.status.as_str()) {
            found.push(format!(
                "the stack is in the state {}: its last deployment failed or has not ended",
                self.described.status
            ));
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
