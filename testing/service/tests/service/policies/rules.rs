//! The permissions that follow from a function's declaration, because no run on this machine shows them: logs,
//! event sources, queues, files, emails, and the key of the table of secrets.

use std::collections::BTreeSet;

use faults::iam::evaluator::Statement;
use faults::iam::{Role, text};
use serde_yaml_ng::Value;

/// A permission on something else than rows: action, resource and conditions.
pub(super) type Permission = (String, String, Vec<String>);

/// The files of each function that uses a bucket: actions and key prefixes.
const FILES: [(&str, &str, &str); 20] = [
    ("ApiKeysFunction", "s3:DeleteObject", "DocumentsBucket/logos/*"),
    ("ApiKeysFunction", "s3:PutObject", "DocumentsBucket/logos/*"),
    ("CheckoutFunction", "s3:GetObject", "DocumentsBucket/logos/*"),
    ("DashboardFunction", "s3:GetObject", "DocumentsBucket/evidence/*"),
    ("DashboardFunction", "s3:GetObject", "DocumentsBucket/reports/*"),
    ("EventDispatcherFunction", "s3:PutObject", "FailedRecordsBucket/failed-stream-records/*"),
    ("EventDispatcherFunction", "s3:GetObject", "FailedRecordsBucket/failed-stream-records/postponed/*"),
    ("EventDispatcherFunction", "s3:DeleteObject", "FailedRecordsBucket/failed-stream-records/postponed/*"),
    ("MedFunction", "s3:GetObject", "DocumentsBucket/evidence-pending/*"),
    ("MedFunction", "s3:GetObjectVersion", "DocumentsBucket/evidence-pending/*"),
    ("MedFunction", "s3:PutObject", "DocumentsBucket/evidence-pending/*"),
    ("MedFunction", "s3:GetObject", "DocumentsBucket/evidence/*"),
    ("MedFunction", "s3:DeleteObject", "DocumentsBucket/evidence/*"),
    ("MedFunction", "s3:PutObject", "DocumentsBucket/evidence/*"),
    // Without this permission, S3 reports a missing file as AccessDenied.
    ("MedFunction", "s3:ListBucket", "DocumentsBucket"),
    ("ReportsFunction", "s3:DeleteObject", "DocumentsBucket/reports/*"),
    ("ReportsFunction", "s3:GetObject", "DocumentsBucket/reports/*"),
    ("ReportsWorkerFunction", "s3:AbortMultipartUpload", "DocumentsBucket/reports/*"),
    ("ReportsWorkerFunction", "s3:DeleteObject", "DocumentsBucket/reports/*"),
    ("ReportsWorkerFunction", "s3:PutObject", "DocumentsBucket/reports/*"),
];

/// Returns the permissions that a function must have besides those on rows.
pub(super) fn required(function: &str, properties: &Value, role: &Role) -> BTreeSet<Permission> {
    let mut required = BTreeSet::new();
    let mut add = |action: &str, resource: &str, conditions: &[&str]| {
        let conditions = conditions.iter().map(|condition| (*condition).to_owned()).collect();
        required.insert((action.to_owned(), resource.to_owned(), conditions));
    };
    for action in ["logs:CreateLogStream", "logs:PutLogEvents"] {
        add(action, "Logs", &[]);
    }
    for event in properties["Events"].as_mapping().into_iter().flatten().map(|(_, event)| event) {
        let source = &event["Properties"];
        if event["Type"] == "SQS" {
            for action in ["sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"] {
                add(action, &text(&source["Queue"]), &[]);
            }
            // It hides messages until the lease of another worker ends.
            if function == "WebhookWorkerFunction" {
                add("sqs:ChangeMessageVisibility", &text(&source["Queue"]), &[]);
            }
        }
        if event["Type"] == "DynamoDB" {
            let stream = text(&source["Stream"]).replace(".StreamArn", "/stream/*");
            for action in ["DescribeStream", "GetRecords", "GetShardIterator", "ListStreams"] {
                add(&format!("dynamodb:{action}"), &stream, &[]);
            }
            // Lambda writes the records that it stopped retrying, with the function's role.
            let bucket = text(&source["DestinationConfig"]["OnFailure"]["Destination"]);
            add("s3:PutObject", &format!("{bucket}/aws/lambda/*"), &[]);
            add("s3:ListBucket", &bucket, &[]);
        }
    }
    for (name, value) in properties["Environment"]["Variables"].as_mapping().into_iter().flatten() {
        if text(name).ends_with("_QUEUE_URL") {
            add("sqs:SendMessage", &text(value), &[]);
        }
        if name == "MAIL_FROM" {
            let identities = "arn:AWS::Partition:ses:AWS::Region:AWS::AccountId:identity/*";
            add("ses:SendRawEmail", identities, &["StringEquals ses:FromAddress MailFrom"]);
        }
    }
    for (_, action, prefix) in FILES.iter().filter(|(user, _, _)| *user == function) {
        add(action, prefix, &[]);
    }
    // DynamoDB decrypts and encrypts the table's key with the permissions of the caller.
    if role.grants().iter().any(|grant| grant.resource == "SecretsTable") {
        add("kms:Decrypt", "SecretsKey", &["StringEquals kms:ViaService dynamodb.AWS::Region.amazonaws.com"]);
    }
    required
}

/// Returns the permissions of a role besides those on rows.
pub(super) fn granted(role: &Role) -> BTreeSet<Permission> {
    let others = role.statements.iter().filter(|statement| !is_on_rows(statement));
    others.flat_map(permissions).collect()
}

/// Whether a statement is about rows: it allows DynamoDB's actions, but not those of streams.
pub(super) fn is_on_rows(statement: &Statement) -> bool {
    statement.actions.iter().any(|action| action.starts_with("dynamodb:"))
        && !statement.resources.iter().all(|resource| resource.contains("/stream/"))
}

fn permissions(statement: &Statement) -> Vec<Permission> {
    let conditions: Vec<String> = statement
        .conditions
        .iter()
        .map(|condition| format!("{} {} {}", condition.operator, condition.key, condition.values.join(" ")))
        .collect();
    let on_each = |action: &String| -> Vec<Permission> {
        let with = |resource: &String| (action.clone(), resource.clone(), conditions.clone());
        statement.resources.iter().map(with).collect()
    };
    statement.actions.iter().flat_map(on_each).collect()
}
