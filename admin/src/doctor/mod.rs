//! `admin doctor`: checks a deployed stack, or the service on this machine. It checks what `template.yaml` can't
//! state: settings made by hand, quotas, and rows.
//!
//! A check reads, and never changes anything. Settings of a stack are read by the AWS CLI ([`crate::aws_cli`]), rows
//! by the same code as the functions use ([`rows`]).

mod deployed;
mod functions;
mod rows;
mod settings;

use std::collections::BTreeMap;
use std::fmt;

use domain::time::Timestamp;
use serde::Serialize;
use shared::clock::Clock;

use self::deployed::Deployed;
use crate::aws_cli::{AwsCli, CliError};
use crate::target::{Stack, Target};
use crate::{CommandOutcome, Result, print_json, print_stack};

#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum CheckResult {
    Ok,
    Finding,
    NotChecked,
    /// The check does not apply to this kind of stack, or another command makes it.
    LeftOut,
    /// Can be intended or forgotten. It does not change the exit code.
    Note,
}

#[derive(Debug, Serialize)]
struct Line<'a> {
    check: &'a str,
    result: CheckResult,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

/// The findings of one object, or why it could not be checked.
type Checked = Result<Vec<String>, CliError>;

#[derive(Debug, Default)]
struct Report {
    has_findings: bool,
    is_incomplete: bool,
}

impl Report {
    fn line(&mut self, check: &str, result: CheckResult, detail: Option<String>) -> Result<()> {
        self.has_findings |= result == CheckResult::Finding;
        self.is_incomplete |= result == CheckResult::NotChecked;
        print_json(&Line { check, result, detail })
    }

    fn add<E: fmt::Display>(&mut self, check: &str, outcomes: Vec<Result<Vec<String>, E>>) -> Result<()> {
        let (mut findings, mut failures) = (Vec::new(), Vec::new());
        for outcome in outcomes {
            match outcome {
                Ok(found) => findings.extend(found),
                Err(error) => failures.push(error.to_string()),
            }
        }
        if findings.is_empty() && failures.is_empty() {
            return self.line(check, CheckResult::Ok, None);
        }
        findings.sort();
        failures.sort();
        for finding in findings {
            self.line(check, CheckResult::Finding, Some(finding))?;
        }
        for failure in failures {
            self.line(check, CheckResult::NotChecked, Some(failure))?;
        }
        Ok(())
    }

    fn left_out(&mut self, check: &str, reason: &str) -> Result<()> {
        self.line(check, CheckResult::LeftOut, Some(reason.to_owned()))
    }

    fn note(&mut self, check: &str, detail: String) -> Result<()> {
        self.line(check, CheckResult::Note, Some(detail))
    }

    fn outcome(&self) -> CommandOutcome {
        match (self.has_findings, self.is_incomplete) {
            (true, _) => CommandOutcome::FoundFaults,
            (false, true) => CommandOutcome::Incomplete,
            (false, false) => CommandOutcome::Succeeded,
        }
    }
}

/// The checks of settings. They need CloudFormation's list of the stack's resources.
const SETTINGS: [&str; 8] =
    ["stack", "alarms", "email", "certificates", "schedules", "failed records", "functions", "concurrency"];

pub(crate) async fn run(target: &Target) -> Result<CommandOutcome> {
    let mut report = Report::default();
    let Some(name) = target.stack.clone() else {
        let stack = target.open().await?;
        print_stack(&stack);
        for check in SETTINGS {
            report.left_out(check, "name a deployed stack with --stack")?;
        }
        rows::check(&mut report, &stack).await?;
        return Ok(report.outcome());
    };
    if target.names_tables() {
        return Err("--stack can't be combined with --ready-file and --table".into());
    }
    let deployed = Deployed::read(AwsCli::new(), name).await?;
    check_settings(&mut report, &deployed, Clock::default().now()).await?;
    match open(target, &deployed) {
        Ok(stack) => rows::check(&mut report, &stack).await?,
        Err(error) => rows::not_checked(&mut report, &error.to_string())?,
    }
    Ok(report.outcome())
}

fn open(target: &Target, deployed: &Deployed) -> Result<Stack> {
    let output = |name: &str| deployed.output(name).ok_or_else(|| format!("the stack has no output {name}"));
    let outputs = BTreeMap::from([
        ("TABLE_NAME", output("TableName")?),
        ("API_KEYS_TABLE_NAME", output("ApiKeysTableName")?),
        ("SECRETS_TABLE_NAME", output("SecretsTableName")?),
    ]);
    target.open_deployed(deployed.name.clone(), &|name| outputs.get(name).cloned())
}

async fn check_settings(report: &mut Report, deployed: &Deployed, now: Timestamp) -> Result<()> {
    report.add("stack", vec![Ok::<_, CliError>(deployed.findings())])?;
    for note in deployed.notes() {
        report.note("stack", note.to_owned())?;
    }
    report.add("alarms", settings::alarms(deployed).await)?;
    match deployed.parameter("MailFrom") {
        Some(sender) => report.add("email", vec![settings::email(&deployed.cli, sender).await])?,
        None => report.note("email", "no email is sent: the parameter MailFrom is not set".to_owned())?,
    }
    report.add("certificates", settings::certificates(deployed, now).await)?;
    report.add("schedules", settings::schedules(deployed).await)?;
    report.add("failed records", vec![settings::failed_records(deployed).await])?;
    report.add("functions", functions::check(deployed).await)?;
    report.add("concurrency", vec![functions::check_concurrency(deployed).await])?;
    Ok(())
}
