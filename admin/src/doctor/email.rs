//! Checks that SES sends the emails of the stack.

use serde::Deserialize;

use super::Checked;
use super::aws_cli::{AwsCli, CliError};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SesAccount {
    #[serde(default)]
    production_access_enabled: bool,
    #[serde(default)]
    sending_enabled: bool,
    enforcement_status: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Identity {
    #[serde(default)]
    verified_for_sending_status: bool,
    dkim_attributes: Option<Dkim>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Dkim {
    status: Option<String>,
}

pub(super) async fn check(cli: &AwsCli, sender: &str) -> Checked {
    let domain = sender.rsplit('@').next().unwrap_or(sender);
    let account_words = ["sesv2", "get-account"];
    let (account, by_address, by_domain) = tokio::join!(
        cli.read_existing::<SesAccount>(&account_words),
        identity(cli, sender),
        identity(cli, domain),
    );
    Ok(findings(sender, &account?, by_address?.or(by_domain?).as_ref()))
}

async fn identity(cli: &AwsCli, name: &str) -> Result<Option<Identity>, CliError> {
    cli.read(&["sesv2", "get-email-identity", "--email-identity", name]).await
}

fn findings(sender: &str, account: &SesAccount, identity: Option<&Identity>) -> Vec<String> {
    let mut found = Vec::new();
    if !account.production_access_enabled {
        found.push("SES is in its sandbox: request production access".to_owned());
    }
    let health = account.enforcement_status.as_deref().unwrap_or("HEALTHY");
    if !account.sending_enabled || health != "HEALTHY" {
        found.push(format!("SES has restricted this AWS account: its status is {health}"));
    }
    match identity {
        None => found.push(format!("SES knows neither {sender} nor its domain")),
        Some(identity) if !identity.verified_for_sending_status => {
            found.push(format!("SES has not verified {sender} or its domain"));
        }
        Some(identity) => {
            let dkim = identity.dkim_attributes.as_ref().and_then(|dkim| dkim.status.as_deref());
            if let Some(status) = dkim.filter(|status| *status != "SUCCESS") {
                found.push(format!("emails of {sender} have no DKIM signature: its status is {status}"));
            }
        }
    }
    found
}
