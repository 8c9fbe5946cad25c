//! Tests that the roles in `template.yaml` allow exactly what the functions do. Each test of a service records
//! the functions' calls, and an evaluator of the roles decides on them: each call must be allowed, and after the
//! whole suite each right on rows must have been used by a call.

mod page;
mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{LazyLock, Mutex};

use domain::account::{Account, AccountSettings, Brand, Contact};
use domain::ids::{AccountId, Mode};
use domain::time::Timestamp;
use faults::iam::evaluator::{Decision, Effect, decide};
use faults::iam::{ATTRIBUTES, Grant, LEADING_KEYS, Role, functions, request, roles, template, text, texts};
use faults::proxy::Call;
use serde_yaml_ng::Value;
use shared::api_key::ApiKey;

use self::rules::is_on_rows;

static ROLES: LazyLock<BTreeMap<String, Role>> = LazyLock::new(|| roles(&template()));

/// The rights on rows that no test of this process has used yet.
static UNUSED: LazyLock<Mutex<BTreeSet<(String, Grant)>>> = LazyLock::new(|| {
    let of_role = |(function, role): (&String, &Role)| {
        let on_rows = role.statements.iter().filter(|statement| is_on_rows(statement)).cloned().collect();
        let grants = Role { statements: on_rows }.grants();
        grants.into_iter().map(|grant| (function.clone(), grant)).collect::<Vec<_>>()
    };
    Mutex::new(ROLES.iter().flat_map(of_role).collect())
});

/// Fails if the role of a function refuses a call that the function made. Writes the rights that are still unused
/// to `tmp/unused-rights` in the target directory, where `.ci/run` expects none after the suite.
pub(crate) fn check(calls: &BTreeSet<Call>) {
    let of_functions = calls.iter().filter(|call| !call.caller.is_empty());
    let refused: Vec<&Call> = of_functions.filter(|call| !ROLES[&call.caller].allows(call)).collect();
    assert!(refused.is_empty(), "on AWS, the functions' roles refuse these calls: {refused:#?}");
    let mut unused = UNUSED.lock().unwrap();
    let is_unused = |(function, grant): &(String, Grant)| {
        !calls.iter().any(|call| call.caller == *function && grant.is_needed_by(call))
    };
    unused.retain(is_unused);
    let lines = unused.iter().map(|(function, grant)| format!("{function}: {grant}\n"));
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("unused-rights");
    std::fs::write(file, lines.collect::<String>()).unwrap();
}

#[test]
fn each_role_allows_what_follows_from_its_functions_declaration_and_nothing_else() {
    for (function, properties) in functions(&template()) {
        let role = &ROLES[&function];
        assert_eq!(rules::granted(role), rules::required(&function, &properties, role), "{function}");
        let uses_secrets = role.grants().iter().any(|grant| grant.resource == "SecretsTable");
        let variable = &properties["Environment"]["Variables"]["SECRETS_TABLE_NAME"];
        assert_eq!(uses_secrets, !variable.is_null(), "{function}");
    }
}

/// Whether a pattern of partition keys is a prefix such as `charge#*` or a whole key such as `accounts`.
fn names_one_kind_of_row(pattern: &str) -> bool {
    let name = pattern.strip_suffix("#*").or_else(|| pattern.strip_suffix("_*")).unwrap_or(pattern);
    !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '-')
}

/// Each statement names its actions, its resources and the rows by their prefixes. Rows of the table of API
/// keys have no prefix.
#[test]
fn each_statement_on_rows_is_limited_by_partition_key() {
    for (function, role) in ROLES.iter() {
        for statement in &role.statements {
            assert_eq!(statement.effect, Effect::Allow, "{function}: a right that is not allowed is refused");
            assert!(statement.actions.iter().all(|action| !action.contains(['*', '?'])), "{function}");
            if !is_on_rows(statement) {
                continue;
            }
            let at = format!("{function}: {statement:?}");
            assert!(statement.resources.iter().all(|resource| !resource.contains(['*', '?'])), "{at}");
            if statement.resources == ["ApiKeysTable"] {
                let updates = statement.actions == ["dynamodb:UpdateItem"];
                assert!(updates || statement.conditions.is_empty(), "{at}");
                continue;
            }
            let null = statement.conditions.iter().find(|condition| condition.operator == "Null").unwrap();
            assert_eq!((null.key.as_str(), null.values.concat().as_str()), (LEADING_KEYS, "false"), "{at}");
            assert_eq!(statement.conditions.len(), 2, "{at}");
            let keys = statement.leading_keys().unwrap();
            assert!(keys.iter().all(|keys| names_one_kind_of_row(keys)), "{at}");
        }
    }
}

/// The counter of requests shares its row with the key's account and mode, and with the account's settings.
#[test]
fn a_function_that_counts_requests_can_change_no_other_attribute_of_a_key() {
    let account = Account {
        id: AccountId::new([1; 10]),
        settings: AccountSettings::new("Loja", "Recife"),
        contact: Contact::default(),
        document: None,
        brand: Brand::default(),
        requires_second_factor: false,
        salt: String::new(),
        created_at: Timestamp::MIN,
        version: 1,
    };
    let key = ApiKey::new(&"ak_live_".into(), &account, Mode::Live, "", Timestamp::MIN);
    let Value::Mapping(row) = serde_yaml_ng::to_value(&key).unwrap() else { panic!("a row") };
    let attributes: Vec<&str> = row.keys().filter_map(Value::as_str).filter(|name| *name != "pk").collect();
    assert!(attributes.contains(&"account") && attributes.contains(&"mode"));
    for (function, role) in ROLES.iter() {
        let may_update = |attributes: &[&str]| {
            let mut request = request("dynamodb:UpdateItem", "ApiKeysTable", ["a"]);
            let attributes = attributes.iter().map(|name| (*name).to_owned()).collect();
            request.context.insert(ATTRIBUTES.to_owned(), attributes);
            decide(&role.statements, &request) == Decision::Allowed
        };
        let counts = role.grants().iter().any(|grant| {
            (grant.action.as_str(), grant.resource.as_str()) == ("dynamodb:UpdateItem", "ApiKeysTable")
        });
        assert_eq!(may_update(&["pk", "n29930000", "n29929999"]), counts, "{function}");
        assert!(!may_update(&[]), "{function}");
        for attribute in &attributes {
            assert!(!may_update(&["pk", "n29930000", attribute]), "{function}: {attribute}");
        }
    }
}

#[test]
fn no_function_scans_tables_or_changes_audit_rows() {
    let all = ["charge#1", "audit#acc_1", "acquirer#acc_1"];
    for (function, role) in ROLES.iter() {
        let is_refused = |action: &str, resource: &str, keys: &[&str]| {
            let request = request(&format!("dynamodb:{action}"), resource, keys.iter().copied());
            assert_ne!(
                decide(&role.statements, &request),
                Decision::Allowed,
                "{function}: {action} {keys:?}"
            );
        };
        for resource in ["StateTable", "SecretsTable", "ApiKeysTable", "StateTable/index/list"] {
            for action in ["Scan", "PartiQLSelect", "PartiQLInsert", "PartiQLUpdate", "PartiQLDelete"] {
                is_refused(action, resource, &[]);
                for key in all {
                    is_refused(action, resource, &[key]);
                }
            }
            // A request without keys.
            if resource != "ApiKeysTable" {
                for action in ["GetItem", "BatchGetItem", "Query"] {
                    is_refused(action, resource, &[]);
                }
            }
        }
        for action in ["UpdateItem", "DeleteItem", "GetItem", "BatchGetItem", "BatchWriteItem"] {
            is_refused(action, "StateTable", &["audit#acc_1"]);
        }
        // A function that appends an audit row reads the newest one. The dashboard shows the rows.
        let on_audit = |action: &str| {
            decide(&role.statements, &request(action, "StateTable", ["audit#acc_1"])) == Decision::Allowed
        };
        let appends_or_shows = on_audit("dynamodb:PutItem") || function == "DashboardFunction";
        assert_eq!(on_audit("dynamodb:Query"), appends_or_shows, "{function}");
        // One foreign row in a batch refuses the whole batch.
        is_refused("BatchGetItem", "StateTable", &["charge#1", "audit#acc_1"]);
    }
}

/// The webhook worker reads hostile answers.
#[test]
fn the_webhook_worker_has_no_access_to_banks_users_accounts_money_and_the_audit() {
    let worker = &ROLES["WebhookWorkerFunction"];
    let is_allowed = |action: &str, resource: &str, key: &str| {
        decide(&worker.statements, &request(&format!("dynamodb:{action}"), resource, [key]))
            == Decision::Allowed
    };
    let actions = ["GetItem", "BatchGetItem", "Query", "PutItem", "UpdateItem", "DeleteItem"];
    for action in actions {
        for key in ["acquirer#a", "med-secret#a"] {
            assert!(!is_allowed(action, "SecretsTable", key), "{action} {key}");
        }
        for key in [
            "user#a",
            "account#a",
            "acquirer#a",
            "ledger#a:test",
            "wallet#a:test",
            "charge#a",
            "payout#a",
            "audit#a",
        ] {
            assert!(!is_allowed(action, "StateTable", key), "{action} {key}");
        }
        assert!(!is_allowed(action, "ApiKeysTable", "a"), "{action}");
    }
}

#[test]
fn the_table_of_secrets_has_no_stream_and_a_key_of_its_own() {
    let template = template();
    let table = &template["Resources"]["SecretsTable"]["Properties"];
    assert!(table["StreamSpecification"].is_null());
    assert_eq!(table["SSESpecification"]["SSEType"], "KMS");
    assert_eq!(table["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"], true);
    let parameter: Value = serde_yaml_ng::from_str("!Ref DeletionProtection").unwrap();
    assert_eq!(table["DeletionProtectionEnabled"], parameter);
    assert_eq!(template["Parameters"]["DeletionProtection"]["Default"], "true");
    assert_eq!(template["Resources"]["SecretsKey"]["Properties"]["EnableKeyRotation"], true);
}

#[test]
fn the_trail_records_writes_to_all_tables_without_those_of_the_functions() {
    let template = template();
    let trail = &template["Resources"]["WritesTrail"]["Properties"];
    assert_eq!(trail["EnableLogFileValidation"], true);
    let selectors = trail["AdvancedEventSelectors"][0]["FieldSelectors"].as_sequence().unwrap();
    let selector = |field: &str| selectors.iter().find(|selector| selector["Field"] == field).unwrap();
    assert_eq!(texts(&selector("readOnly")["Equals"]), ["false"]);
    let mut tables = texts(&selector("resources.ARN")["Equals"]);
    tables.sort();
    assert_eq!(tables, ["ApiKeysTable", "SecretsTable", "StateTable"]);
    let excluded = serde_yaml_ng::to_string(&selector("userIdentity.arn")["NotStartsWith"]).unwrap();
    for (function, properties) in functions(&template) {
        let role = text(&properties["Role"]);
        assert!(excluded.contains(&format!(":assumed-role/${{{role}}}/")), "{function}");
    }
    assert_eq!(excluded.matches(":assumed-role/").count(), functions(&template).len());
}

#[test]
fn each_bucket_refuses_requests_without_tls_1_2() {
    let template = template();
    let resources = template["Resources"].as_mapping().unwrap();
    let of_type = |kind: &'static str| resources.iter().filter(move |(_, resource)| resource["Type"] == kind);
    for (bucket, _) in of_type("AWS::S3::Bucket") {
        let bucket = text(bucket);
        let is_its_policy = |policy: &Value| text(&policy["Properties"]["Bucket"]) == bucket;
        let policy = of_type("AWS::S3::BucketPolicy").find(|(_, policy)| is_its_policy(policy));
        let (_, policy) = policy.unwrap_or_else(|| panic!("{bucket} has no policy"));
        let statements = policy["Properties"]["PolicyDocument"]["Statement"].as_sequence().unwrap();
        for (operator, key, value) in
            [("Bool", "aws:SecureTransport", "false"), ("NumericLessThan", "s3:TlsVersion", "1.2")]
        {
            let denies = |statement: &&Value| statement["Condition"][operator][key] == value;
            let denying = statements.iter().find(denies).unwrap_or_else(|| panic!("{bucket}: {key}"));
            assert_eq!((&denying["Effect"], &denying["Principal"]), (&"Deny".into(), &"*".into()));
            assert_eq!(texts(&denying["Action"]), ["s3:*"]);
            assert_eq!(texts(&denying["Resource"]), [bucket.clone(), format!("{bucket}/*")]);
        }
    }
}
