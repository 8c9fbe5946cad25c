//! Tests that the operators' policies in `template.yaml` allow what the page of the command says. A proxy records the
//! calls to DynamoDB of each command that a test runs: its policy must allow them, and after the whole suite each right
//! on rows must have been used.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{LazyLock, Mutex};

use faults::iam::evaluator::{Effect, Statement};
use faults::iam::{Grant, Role, functions, roles, statement, template, text};
use faults::proxy::Call;

const PAGE: &str = include_str!("../../../docs/operations/admin.md");

/// Each operator has its rights.
const READS: &str = "SupportPolicy";

/// Its other commands are those of the proposals that it runs.
const APPROVE: &str = "proposals approve";

/// The commands of each policy, as the page lists them.
pub(crate) static COMMANDS: LazyLock<BTreeMap<&str, BTreeSet<&str>>> = LazyLock::new(|| {
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let rows = rows.filter(|(name, _)| name.ends_with("Policy"));
    rows.map(|(name, cell)| (name, cell.split('`').skip(1).step_by(2).collect())).collect()
});

/// The policies by name, without the rights that [`READS`] gives.
static POLICIES: LazyLock<BTreeMap<String, Role>> = LazyLock::new(|| {
    let template = template();
    let resources = template["Resources"].as_mapping().unwrap().iter();
    let policies = resources.filter(|(_, resource)| resource["Type"] == "AWS::IAM::ManagedPolicy");
    policies
        .map(|(name, policy)| {
            let statements = policy["Properties"]["PolicyDocument"]["Statement"].as_sequence().unwrap();
            (text(name), Role { statements: statements.iter().map(statement).collect() })
        })
        .collect()
});

/// The rights of the event dispatcher on rows, which `events replay` needs for records of all kinds.
static OF_DISPATCHER: LazyLock<BTreeSet<Grant>> = LazyLock::new(|| {
    let grants = roles(&template())["EventDispatcherFunction"].grants();
    grants.into_iter().filter(is_on_rows).collect()
});

fn is_on_rows(grant: &Grant) -> bool {
    grant.action.starts_with("dynamodb:") && !grant.resource.contains("/stream/")
}

/// What no test of this process has used yet. Tests of the service use the rights of the dispatcher.
struct Unused {
    rights: BTreeSet<(&'static str, Grant)>,
    commands: BTreeSet<&'static str>,
}

static UNUSED: LazyLock<Mutex<Unused>> = LazyLock::new(|| {
    let of_policy = |(name, policy): (&'static String, &Role)| {
        let own =
            policy.grants().into_iter().filter(|grant| is_on_rows(grant) && !OF_DISPATCHER.contains(grant));
        own.map(|grant| (name.as_str(), grant)).collect::<Vec<_>>()
    };
    let rights = POLICIES.iter().flat_map(of_policy).collect();
    Mutex::new(Unused { rights, commands: COMMANDS.values().flatten().copied().collect() })
});

/// Returns the command of the page that a command line runs; empty if the page has none.
pub(crate) fn command_of<'a>(words: impl IntoIterator<Item = &'a str>) -> &'static str {
    let line = format!(" {} ", words.into_iter().collect::<Vec<_>>().join(" "));
    let named = COMMANDS.values().flatten().filter(|command| line.contains(&format!(" {command} ")));
    named.max_by_key(|command| command.len()).copied().unwrap_or_default()
}

/// Fails if a policy refuses a call of one of its commands. Writes what is still unused to `tmp/unused-operators-rights`
/// in the target directory, where `.ci/run` expects nothing after the suite.
pub(crate) fn check(calls: &BTreeSet<Call>) {
    let is_of_stack = |call: &&Call| {
        let tables = ["StateTable", "ApiKeysTable", "SecretsTable"];
        tables.contains(&call.resource.split('/').next().unwrap_or_default())
    };
    let calls: Vec<&Call> = calls.iter().filter(is_of_stack).collect();
    let mut unused = UNUSED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut refused = Vec::new();
    for (name, commands) in COMMANDS.iter() {
        let statements = [READS, *name].map(|policy| POLICIES[policy].statements.clone()).concat();
        let policy = Role { statements };
        for call in calls.iter().filter(|call| commands.contains(call.caller.as_str())) {
            let is_of_proposal = call.leading_keys.iter().all(|key| key.starts_with("proposal"));
            if (call.caller != APPROVE || is_of_proposal) && !policy.allows(call) {
                refused.push((name, call));
            }
            let is_used =
                |(of, grant): &(&str, Grant)| [READS, *name].contains(of) && grant.is_needed_by(call);
            unused.rights.retain(|right| !is_used(right));
            unused.commands.remove(call.caller.as_str());
        }
    }
    let rights = unused.rights.iter().map(|(policy, grant)| format!("{policy}: {grant}\n"));
    let commands = unused.commands.iter().map(|command| format!("no test runs {command}\n"));
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("unused-operators-rights");
    std::fs::write(file, rights.chain(commands).collect::<String>()).unwrap();
    assert!(refused.is_empty(), "on AWS, the operators' policies refuse these calls: {refused:#?}");
}

#[test]
fn support_only_reads_and_no_operator_changes_audit_rows() {
    assert!(COMMANDS.keys().copied().eq(POLICIES.keys().map(String::as_str)), "{:?}", COMMANDS.keys());
    let reads = ["dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:Query"];
    let granted = POLICIES[READS].grants();
    assert!(granted.iter().all(|grant| reads.contains(&grant.action.as_str())), "{granted:?}");
    let is_deny = |statement: &&Statement| statement.effect == Effect::Deny;
    let denied = POLICIES[READS].statements.iter().find(is_deny).unwrap();
    assert_eq!(denied.actions, ["dynamodb:DeleteItem", "dynamodb:UpdateItem"]);
    assert_eq!(denied.resources, ["StateTable"]);
    assert_eq!(denied.conditions[0].operator, "ForAnyValue:StringLike");
    assert_eq!(denied.conditions[0].values, ["audit#*"]);
    for (name, policy) in POLICIES.iter() {
        let statements = policy.statements.iter().filter(|statement| statement.effect == Effect::Allow);
        for statement in statements.filter(|statement| statement.actions[0].starts_with("dynamodb:")) {
            let has_keys = statement.leading_keys().is_some() && statement.conditions[0].operator == "Null";
            assert!(has_keys || statement.resources == ["ApiKeysTable"], "{name}: {statement:?}");
        }
    }
}

/// The rights that the proxy does not see. `.ci/aws_commands.py` compares those of the AWS CLI.
#[test]
fn operators_decrypt_secrets_replay_records_and_add_evidence_with_the_rights_of_the_functions() {
    for (name, policy) in POLICIES.iter() {
        let grants = policy.grants();
        let decrypts = grants.iter().any(|grant| grant.action == "kms:Decrypt");
        assert_eq!(decrypts, grants.iter().any(|grant| grant.resource == "SecretsTable"), "{name}");
    }
    let service_grants = |grants: BTreeSet<Grant>, prefix: &str| -> BTreeSet<(String, String)> {
        let of_service = grants.into_iter().filter(|grant| grant.action.starts_with(prefix));
        of_service.map(|grant| (grant.action, grant.resource)).collect()
    };
    let of = |prefix: &str| service_grants(POLICIES["OnCallPolicy"].grants(), prefix);
    let template = template();
    let dispatcher = &functions(&template)["EventDispatcherFunction"];
    let variables = dispatcher["Environment"]["Variables"].as_mapping().unwrap().iter();
    let queues = variables.filter(|(name, _)| text(name).ends_with("_QUEUE_URL"));
    let sends = queues.map(|(_, queue)| ("sqs:SendMessage".to_owned(), text(queue))).collect();
    assert_eq!(of("sqs:SendMessage"), sends);
    let rights = [READS, "OnCallPolicy"].map(|policy| POLICIES[policy].grants()).into_iter().flatten();
    let rights: BTreeSet<Grant> = rights.collect();
    let missing: Vec<&Grant> = OF_DISPATCHER.difference(&rights).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let files = [
        ("s3:DeleteObject", "FailedRecordsBucket/*"),
        ("s3:GetObject", "FailedRecordsBucket/*"),
        ("s3:ListBucket", "FailedRecordsBucket"),
        ("s3:GetObject", "TrailBucket/*"),
        ("s3:ListBucket", "TrailBucket"),
    ];
    // Operators add evidence like merchants, and remove none.
    let mut evidence = service_grants(roles(&template)["MedFunction"].grants(), "s3:");
    evidence.retain(|(action, _)| !["s3:DeleteObject", "s3:ListBucket"].contains(&action.as_str()));
    assert_eq!(service_grants(POLICIES["FinancePolicy"].grants(), "s3:"), evidence);
    assert_eq!(of("s3:"), files.map(|(action, resource)| (action.to_owned(), resource.to_owned())).into());
}
