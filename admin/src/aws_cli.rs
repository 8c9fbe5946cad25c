//! Reads a stack's settings, and who calls, by the AWS CLI: one command for each read, with an answer in JSON. The SDK would
//! be seven more crates for `admin` alone.

use std::collections::HashMap;
use std::process::{Command, Output};
use std::sync::Arc;

use domain::time::Timestamp;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

const PROGRAM: &str = "aws";

/// The number of commands that run at once. Each takes about a second, most of it for its start.
const AT_ONCE: usize = 8;

#[derive(Clone, Debug, thiserror::Error)]
#[error("`aws {command}` failed: {reason}")]
pub(crate) struct CliError {
    command: String,
    reason: String,
}

#[derive(Clone, Debug)]
pub(crate) struct AwsCli {
    permits: Arc<Semaphore>,
}

impl AwsCli {
    pub(crate) fn new() -> Self {
        Self { permits: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// `None`: the object that it names does not exist.
    pub(crate) async fn read(&self, words: &[&str]) -> Result<Option<Value>, CliError> {
        let error = |reason: String| CliError { command: words.join(" "), reason };
        let mut command = Command::new(PROGRAM);
        command.args(words).args(["--output", "json"]).env("AWS_PAGER", "");
        let _permit = self.permits.acquire().await.map_err(|closed| error(closed.to_string()))?;
        let output = tokio::task::spawn_blocking(move || command.output()).await;
        let output = output.map_err(|stopped| error(stopped.to_string()))?;
        let Output { status, stdout, stderr } = output.map_err(|missing| error(missing.to_string()))?;
        let message = String::from_utf8_lossy(&stderr);
        if !status.success() {
            return if is_missing(&message) { Ok(None) } else { Err(error(message.trim().to_owned())) };
        }
        // The CLI prints nothing for an answer without members.
        if stdout.trim_ascii().is_empty() {
            return Ok(Some(json!({})));
        }
        serde_json::from_slice(&stdout)
            .map(Some)
            .map_err(|wrong| error(format!("an unexpected answer: {wrong}")))
    }

    /// Runs a read of an object that must exist.
    pub(crate) async fn read_existing(&self, words: &[&str]) -> Result<Value, CliError> {
        let missing =
            || CliError { command: words.join(" "), reason: "the object does not exist".to_owned() };
        self.read(words).await?.ok_or_else(missing)
    }
}

/// A deployed stack, as CloudFormation describes it.
#[derive(Debug)]
pub(crate) struct Described {
    pub(crate) status: String,
    /// No one can delete the stack.
    pub(crate) is_protected: bool,
    pub(crate) parameters: HashMap<String, String>,
    pub(crate) outputs: HashMap<String, String>,
}

impl Described {
    pub(crate) async fn read(cli: &AwsCli, name: &str) -> Result<Self, CliError> {
        let stacks = cli.read_existing(&["cloudformation", "describe-stacks", "--stack-name", name]).await?;
        let stack = stacks.pointer("/Stacks/0").unwrap_or(&Value::Null);
        let pairs = |members: &str, key: &str, value: &str| {
            let pair = |member: &Value| (text(member, key).to_owned(), text(member, value).to_owned());
            list(stack, members).iter().map(pair).collect()
        };
        Ok(Self {
            status: text(stack, "/StackStatus").to_owned(),
            is_protected: stack.get("EnableTerminationProtection") == Some(&Value::Bool(true)),
            parameters: pairs("/Parameters", "/ParameterKey", "/ParameterValue"),
            outputs: pairs("/Outputs", "/OutputKey", "/OutputValue"),
        })
    }

    /// Returns the value of a parameter, unless it is empty.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }
}

/// Whether the code of an error means that an object does not exist.
fn is_missing(message: &str) -> bool {
    let rest = message.split_once("An error occurred (").map(|(_, rest)| rest);
    let code = rest.and_then(|rest| rest.split_once(')')).map_or("", |(code, _)| code);
    ["NotFound", "NoSuch", "NonExistent", "DoesNotExist"].iter().any(|part| code.contains(part))
}

/// Returns a text of an answer; empty if there is none.
pub(crate) fn text<'a>(answer: &'a Value, pointer: &str) -> &'a str {
    answer.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns a list of an answer; empty if there is none.
pub(crate) fn list<'a>(answer: &'a Value, pointer: &str) -> &'a [Value] {
    answer.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Version 2 of the CLI prints ISO 8601, version 1 also seconds since 1970.
pub(crate) fn time(answer: &Value, pointer: &str) -> Option<Timestamp> {
    match answer.pointer(pointer)? {
        Value::String(text) => text.parse().ok(),
        seconds => {
            let seconds: i64 = seconds.to_string().split('.').next()?.parse().ok()?;
            Timestamp::from_millis(seconds.saturating_mul(1_000)).ok()
        }
    }
}
