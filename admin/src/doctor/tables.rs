//! Checks the settings of the tables.

use serde::Deserialize;

use super::Checked;
use super::aws_cli::AwsCli;

/// The table whose rows expire, and whose changes the event dispatcher reads.
const STATE_TABLE: &str = "StateTable";

/// The table that a key of KMS encrypts.
const SECRETS_TABLE: &str = "SecretsTable";

const STREAM_VIEW: &str = "NEW_AND_OLD_IMAGES";
const TTL_ATTRIBUTE: &str = "ttl";
const ENABLED: &str = "ENABLED";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DescribeTable {
    table: Table,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Table {
    #[serde(default)]
    deletion_protection_enabled: bool,
    stream_specification: Option<StreamSpecification>,
    #[serde(rename = "SSEDescription")]
    encryption: Option<Encryption>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StreamSpecification {
    #[serde(default)]
    stream_enabled: bool,
    stream_view_type: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Encryption {
    #[serde(rename = "SSEType")]
    kind: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DescribeTimeToLive {
    time_to_live_description: TimeToLive,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct TimeToLive {
    time_to_live_status: Option<String>,
    attribute_name: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DescribeContinuousBackups {
    continuous_backups_description: ContinuousBackups,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ContinuousBackups {
    point_in_time_recovery_description: Option<PointInTimeRecovery>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct PointInTimeRecovery {
    point_in_time_recovery_status: String,
}

pub(super) async fn check(cli: AwsCli, logical_id: String, name: String) -> Checked {
    let table = ["--table-name", name.as_str()];
    let words = |operation: &'static str| [&["dynamodb", operation], &table[..]].concat();
    let (table, ttl, backups) =
        (words("describe-table"), words("describe-time-to-live"), words("describe-continuous-backups"));
    let (table, ttl, backups) = tokio::join!(
        cli.read::<DescribeTable>(&table),
        cli.read::<DescribeTimeToLive>(&ttl),
        cli.read::<DescribeContinuousBackups>(&backups),
    );
    let (Some(table), Some(ttl), Some(backups)) = (table?, ttl?, backups?) else {
        return Ok(vec![format!("{logical_id}: the table {name} does not exist")]);
    };
    let found = findings(&logical_id, &table.table, &ttl.time_to_live_description, &backups);
    Ok(found.into_iter().map(|finding| format!("{logical_id}: {finding}")).collect())
}

fn findings(
    logical_id: &str,
    table: &Table,
    ttl: &TimeToLive,
    backups: &DescribeContinuousBackups,
) -> Vec<String> {
    let mut found = Vec::new();
    if !table.deletion_protection_enabled {
        found.push("it is not protected against deletion".to_owned());
    }
    let recovery = backups.continuous_backups_description.point_in_time_recovery_description.as_ref();
    if recovery.is_none_or(|recovery| recovery.point_in_time_recovery_status != ENABLED) {
        found.push("point-in-time recovery is off, so it can't be restored".to_owned());
    }
    let stream = table.stream_specification.as_ref().filter(|stream| stream.stream_enabled);
    let view = stream.and_then(|stream| stream.stream_view_type.as_deref());
    if logical_id == STATE_TABLE {
        if view != Some(STREAM_VIEW) {
            found.push(format!("its stream must show {STREAM_VIEW}: events are not published"));
        }
        let is_enabled = ttl.time_to_live_status.as_deref() == Some(ENABLED);
        if !is_enabled || ttl.attribute_name.as_deref() != Some(TTL_ATTRIBUTE) {
            found.push(format!("expiry by the attribute {TTL_ATTRIBUTE} is off: rows are kept forever"));
        }
    } else if view.is_some() {
        found.push("it has a stream, and must have none".to_owned());
    }
    let is_encrypted_by_kms = table.encryption.as_ref().and_then(|sse| sse.kind.as_deref()) == Some("KMS");
    if logical_id == SECRETS_TABLE && !is_encrypted_by_kms {
        found.push("it is not encrypted by a key of KMS".to_owned());
    }
    found
}
