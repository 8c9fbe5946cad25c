//! Checks the certificates of the stack's hosts in ACM.

use domain::time::Timestamp;
use serde_json::Value;

use super::Checked;
use super::aws_cli::{text, time};
use super::deployed::Deployed;

/// ACM renews its own certificates 60 days before they end, so a certificate with less left was not renewed.
const MIN_DAYS_LEFT: i64 = 30;
const MS_A_DAY: i64 = 24 * 60 * 60 * 1_000;

pub(super) async fn check(deployed: &Deployed, now: Timestamp) -> Vec<Checked> {
    let mut checked = Vec::new();
    for (parameter, arn) in deployed.parameters_ending("CertificateArn") {
        let words = ["acm", "describe-certificate", "--certificate-arn", arn];
        let read = deployed.cli.read(&words).await;
        checked.push(read.map(|described| {
            let finding = finding_about(described.as_ref(), now);
            finding.map(|finding| format!("{parameter}: {finding}")).into_iter().collect()
        }));
    }
    checked
}

fn finding_about(described: Option<&Value>, now: Timestamp) -> Option<String> {
    let Some(described) = described else { return Some("the certificate does not exist".to_owned()) };
    let status = text(described, "/Certificate/Status");
    if status != "ISSUED" {
        return Some(format!("the certificate is not usable: its status is {status}"));
    }
    let ends = time(described, "/Certificate/NotAfter")?;
    let days = ends.millis_since(now).div_euclid(MS_A_DAY);
    (days < MIN_DAYS_LEFT).then(|| format!("the certificate ends at {ends}, and was not renewed"))
}
