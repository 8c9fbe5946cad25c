//! Checks that SES sends the emails of the stack.

use serde_json::Value;

use super::Checked;
use super::aws_cli::{AwsCli, CliError, text};

pub(super) async fn check(cli: &AwsCli, sender: &str) -> Checked {
    let domain = sender.rsplit('@').next().unwrap_or(sender);
    let account_words = ["sesv2", "get-account"];
    let (account, by_address, by_domain) =
        tokio::join!(cli.read_existing(&account_words), identity(cli, sender), identity(cli, domain));
    Ok(findings(sender, &account?, by_address?.or(by_domain?).as_ref()))
}

async fn identity(cli: &AwsCli, name: &str) -> Result<Option<Value>, CliError> {
    cli.read(&["sesv2", "get-email-identity", "--email-identity", name]).await
}

fn findings(sender: &str, account: &Value, identity: Option<&Value>) -> Vec<String> {
    let mut found = Vec::new();
    let is_true = |answer: &Value, member: &str| answer.get(member) == Some(&Value::Bool(true));
    if !is_true(account, "ProductionAccessEnabled") {
        found.push("SES is in its sandbox: request production access".to_owned());
    }
    let health = Some(text(account, "/EnforcementStatus")).filter(|health| !health.is_empty());
    let health = health.unwrap_or("HEALTHY");
    if !is_true(account, "SendingEnabled") || health != "HEALTHY" {
        found.push(format!("SES has restricted this AWS account: its status is {health}"));
    }
    match identity {
        None => found.push(format!("SES knows neither {sender} nor its domain")),
        Some(identity) if !is_true(identity, "VerifiedForSendingStatus") => {
            found.push(format!("SES has not verified {sender} or its domain"));
        }
        Some(identity) => {
            let status = text(identity, "/DkimAttributes/Status");
            if !["", "SUCCESS"].contains(&status) {
                found.push(format!("emails of {sender} have no DKIM signature: its status is {status}"));
            }
        }
    }
    found
}
