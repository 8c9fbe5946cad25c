//! Checks the certificates of the stack's hosts in ACM.

use domain::time::Timestamp;
use serde::Deserialize;

use super::Checked;
use super::aws_cli::Time;
use super::deployed::Deployed;

/// ACM renews its own certificates 60 days before they end, so a certificate with less left was not renewed.
const MIN_DAYS_LEFT: i64 = 30;
const MS_A_DAY: i64 = 24 * 60 * 60 * 1_000;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DescribeCertificate {
    certificate: Certificate,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Certificate {
    status: Option<String>,
    not_after: Option<Time>,
}

pub(super) async fn check(deployed: &Deployed, now: Timestamp) -> Vec<Checked> {
    let mut checked = Vec::new();
    for (parameter, arn) in deployed.parameters_ending("CertificateArn") {
        let words = ["acm", "describe-certificate", "--certificate-arn", arn];
        let read = deployed.cli.read::<DescribeCertificate>(&words).await;
        checked.push(read.map(|described| {
            let finding = finding_about(described.as_ref().map(|described| &described.certificate), now);
            finding.map(|finding| format!("{parameter}: {finding}")).into_iter().collect()
        }));
    }
    checked
}

fn finding_about(certificate: Option<&Certificate>, now: Timestamp) -> Option<String> {
    let Some(certificate) = certificate else { return Some("the certificate does not exist".to_owned()) };
    let status = certificate.status.as_deref().unwrap_or("unknown");
    if status != "ISSUED" {
        return Some(format!("the certificate is not usable: its status is {status}"));
    }
    let ends = certificate.not_after?.0;
    let days = ends.millis_since(now).div_euclid(MS_A_DAY);
    (days < MIN_DAYS_LEFT).then(|| format!("the certificate ends at {ends}, and was not renewed"))
}
