//! What one operator may do alone, and who the operator is. `docs/operations/two-persons.md` has the rules.
//!
//! The rules prevent mistakes, and abuse by one person through these commands. Who may write the tables by other programs
//! can pass by all of them; the trail of AWS shows that.

use std::fmt;

use clap::Args;
use serde_json::Value;

use crate::Result;
use crate::aws_cli::{AwsCli, CliError, Described, text};
use crate::target::Stack;

/// The most that operators move of a live account in a day on a laptop, in minor units: the parameter's default.
const DEFAULT_DAY_LIMIT: u64 = 10_000_000;

/// Why a command needs a second person.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Need {
    Correction,
    OverLimit,
    Credentials,
    Access,
    Restore,
}

impl fmt::Display for Need {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Correction => "a correction of live money",
            Self::OverLimit => "a payout above the limit of a day",
            Self::Credentials => "a change of an acquirer's settings",
            Self::Access => "access to an account's dashboard",
            Self::Restore => "a restore",
        })
    }
}

/// Who decides
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Deciders {
    /// Propose the command to a second person instead of running it; see `proposals`
    #[arg(long, global = true, help_heading = "Two persons", conflicts_with_all = ["alone", "break_glass", "dry_run"])]
    pub(crate) propose: bool,
    /// Run a command that needs two persons alone, where the stack's parameter `OperatorsMayActAlone` permits it
    #[arg(long, global = true, help_heading = "Two persons", conflicts_with = "break_glass")]
    alone: bool,
    /// Change an acquirer's settings alone in an emergency, after a trial and a message to the topic of the alarms
    #[arg(long, global = true, help_heading = "Two persons")]
    break_glass: bool,
}

/// What one operator may do alone: parameters of the stack.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    /// The most that operators move of a live account in a day, in minor units of the currency.
    pub(crate) day_limit: u64,
    may_be_alone: bool,
    alarm_topic: Option<String>,
}

impl Rules {
    /// On a laptop everybody may act alone. A deployed stack must be named, because its parameters are the rules.
    pub(crate) fn of(described: Option<&Described>, stack: &Stack) -> Result<Self> {
        if stack.local_base_url().is_some() {
            return Ok(Self { day_limit: DEFAULT_DAY_LIMIT, may_be_alone: true, alarm_topic: None });
        }
        let described =
            described.ok_or("add --stack and its name: its parameters say what one person may do")?;
        // A stack of an earlier version has no such parameters.
        let day_limit = described.parameter("OperatorDayLimit").and_then(|limit| limit.parse().ok());
        Ok(Self {
            day_limit: day_limit.unwrap_or_default(),
            may_be_alone: described.parameter("OperatorsMayActAlone") == Some("true"),
            alarm_topic: described.parameter("AlarmTopicArn").map(str::to_owned),
        })
    }

    /// Checks that the operator may run a command that needs two persons. Returns the message of an emergency, which the
    /// command sends right before its change.
    pub(crate) fn permit(&self, need: Need, deciders: Deciders, stack: &Stack) -> Result<Option<Page>> {
        if self.may_be_alone && (deciders.alone || stack.local_base_url().is_some()) {
            return Ok(None);
        }
        if deciders.alone {
            return Err("the stack's parameter OperatorsMayActAlone does not permit --alone".into());
        }
        if !deciders.break_glass {
            return Err(format!(
                "{need} needs two persons: add --propose, and have another operator approve it"
            )
            .into());
        }
        if need != Need::Credentials {
            return Err(format!("--break-glass is not for {need}").into());
        }
        let topic =
            self.alarm_topic.clone().ok_or("--break-glass needs the stack's parameter AlarmTopicArn")?;
        let who = stack.identity.as_deref().unwrap_or("an operator");
        let message = format!(
            "{who} changes the settings of an acquirer without a second person. `admin audit` shows what."
        );
        Ok(Some(Page { topic, message }))
    }
}

/// The message about an emergency, to everybody whom the alarms page.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    topic: String,
    message: String,
}

impl Page {
    pub(crate) async fn send(&self) -> Result<()> {
        let Self { topic, message } = self;
        let subject = "admin --break-glass";
        let publish = ["sns", "publish", "--topic-arn", topic, "--subject", subject, "--message", message];
        let sent = AwsCli::new().read_existing(&publish).await;
        sent.map_err(|error| format!("nothing was changed, because the message was not sent: {error}"))?;
        Ok(())
    }
}

/// Who calls, as an ARN. Sessions of one role are one identity, because who assumes a role may choose the session's name;
/// unless the role's trust policy pins it to who assumes the role (`sts:RoleSessionName` must be a variable, such as
/// `${aws:username}`), or IAM Identity Center names the session.
pub(crate) async fn identity(cli: &AwsCli) -> Result<String, CliError> {
    let caller = cli.read_existing(&["sts", "get-caller-identity"]).await?;
    let arn = text(&caller, "/Arn").to_owned();
    let Some((role, _session)) = arn.split_once(":assumed-role/").and_then(|(_, rest)| rest.split_once('/'))
    else {
        return Ok(arn);
    };
    if role.starts_with("AWSReservedSSO_") || pins_session_names(cli, role).await {
        return Ok(arn);
    }
    Ok(arn.rsplit_once('/').map_or_else(|| arn.clone(), |(of_role, _)| of_role.to_owned()))
}

/// Whether each permission to assume the role has a condition on the session's name. A role that can't be read has none.
async fn pins_session_names(cli: &AwsCli, role: &str) -> bool {
    let Ok(Some(read)) = cli.read(&["iam", "get-role", "--role-name", role]).await else { return false };
    let statements = match read.pointer("/Role/AssumeRolePolicyDocument/Statement") {
        Some(Value::Array(statements)) => statements.clone(),
        Some(statement) => vec![statement.clone()],
        None => return false,
    };
    let mut allows = statements.iter().filter(|statement| text(statement, "/Effect") == "Allow").peekable();
    let is_pinned = |statement: &Value| {
        let operators = statement.get("Condition").and_then(Value::as_object);
        operators.into_iter().flatten().any(|(operator, conditions)| {
            let mut conditions = conditions.as_object().into_iter().flatten();
            ["StringEquals", "StringLike"].contains(&operator.as_str())
                && conditions.any(|(name, values)| {
                    name.eq_ignore_ascii_case("sts:RoleSessionName") && names_the_caller(values)
                })
        })
    };
    allows.peek().is_some() && allows.all(is_pinned)
}

/// Whether each value is a variable of who calls. With a pattern or a list of names, the caller chooses.
fn names_the_caller(values: &Value) -> bool {
    let is_variable = |value: &Value| {
        value
            .as_str()
            .is_some_and(|text| text.starts_with("${") && text.ends_with('}') && !text.contains('*'))
    };
    match values {
        Value::Array(all) => !all.is_empty() && all.iter().all(is_variable),
        one => is_variable(one),
    }
}
