//! Reads roles and policies from `template.yaml`, and decides whether they allow the calls that the proxy recorded.
//! Names of resources are logical ids: the ARN of `X` is `X`, and that of its index `y` is `X/index/y`.
#![allow(
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "tests call it, and a test that fails may panic"
)]

pub mod evaluator;

use std::collections::{BTreeMap, BTreeSet};

use serde_yaml_ng::Value;

use self::evaluator::{Condition, Decision, Effect, Request, Statement, decide, is_like};
use crate::proxy::Call;

pub const LEADING_KEYS: &str = "dynamodb:LeadingKeys";
pub const ATTRIBUTES: &str = "dynamodb:Attributes";

/// The permissions of a function or of operators.
#[derive(Clone, Debug)]
pub struct Role {
    pub statements: Vec<Statement>,
}

/// A permission: an action on a resource. On rows it is restricted to partition keys that match a pattern.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Grant {
    pub action: String,
    pub resource: String,
    pub keys: Option<String>,
}

impl std::fmt::Display for Grant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} on {}", self.action, self.resource)?;
        self.keys.iter().try_for_each(|keys| write!(f, ", rows {keys}"))
    }
}

pub fn template() -> Value {
    serde_yaml_ng::from_str(local::template::TEMPLATE).unwrap()
}

/// Returns the functions' declarations by logical id.
pub fn functions(template: &Value) -> BTreeMap<String, Value> {
    let resources = template["Resources"].as_mapping().unwrap().iter();
    let functions = resources.filter(|(_, resource)| resource["Type"] == "AWS::Serverless::Function");
    functions
        .map(|(name, resource)| (name.as_str().unwrap().to_owned(), resource["Properties"].clone()))
        .collect()
}

/// Returns each function's role by the function's logical id. Fails unless each function has a role of its own
/// that only Lambda can assume and that has no managed policy.
pub fn roles(template: &Value) -> BTreeMap<String, Role> {
    let mut known = BTreeSet::new();
    let role_of = |(function, properties): (String, Value)| {
        let role_name = text(&properties["Role"]).trim_end_matches(".Arn").to_owned();
        assert!(known.insert(role_name.clone()), "{function} shares {role_name} with another function");
        assert!(properties["Policies"].is_null(), "{function}: SAM ignores Policies next to a Role");
        let resource = &template["Resources"][role_name.as_str()];
        assert_eq!(resource["Type"], "AWS::IAM::Role", "{function}: {role_name}");
        assert_eq!(resource["Condition"], template["Resources"][function.as_str()]["Condition"]);
        let properties = &resource["Properties"];
        let trust = &properties["AssumeRolePolicyDocument"]["Statement"];
        assert_eq!(trust.as_sequence().unwrap().len(), 1, "{role_name}");
        assert_eq!(trust[0]["Principal"]["Service"], "lambda.amazonaws.com", "{role_name}");
        assert!(properties["ManagedPolicyArns"].is_null(), "{role_name}");
        let policies = properties["Policies"].as_sequence().unwrap().iter();
        let statements =
            policies.flat_map(|policy| policy["PolicyDocument"]["Statement"].as_sequence().unwrap());
        (function, Role { statements: statements.map(statement).collect() })
    };
    functions(template).into_iter().map(role_of).collect()
}

impl Role {
    /// Whether the role allows a recorded call.
    pub fn allows(&self, call: &Call) -> bool {
        let keys = call.leading_keys.iter().map(String::as_str);
        let mut request = request(&call.action, &call.resource, keys);
        request.context.insert(ATTRIBUTES.to_owned(), call.attributes.iter().cloned().collect());
        decide(&self.statements, &request) == Decision::Allowed
    }

    /// Returns the permissions of the `Allow` statements.
    pub fn grants(&self) -> BTreeSet<Grant> {
        let allowed = self.statements.iter().filter(|statement| statement.effect == Effect::Allow);
        let mut grants = BTreeSet::new();
        for statement in allowed {
            let keys: Vec<Option<String>> = match statement.leading_keys() {
                Some(keys) => keys.iter().cloned().map(Some).collect(),
                None => vec![None],
            };
            for action in &statement.actions {
                for resource in &statement.resources {
                    grants.extend(keys.iter().map(|keys| Grant {
                        action: action.clone(),
                        resource: resource.clone(),
                        keys: keys.clone(),
                    }));
                }
            }
        }
        grants
    }
}

impl Grant {
    pub fn is_needed_by(&self, call: &Call) -> bool {
        let fits = |pattern: &String| call.leading_keys.iter().any(|key| is_like(pattern, key));
        self.action == call.action && self.resource == call.resource && self.keys.as_ref().is_none_or(fits)
    }
}

impl Statement {
    /// Returns the patterns of the partition keys that the statement is restricted to.
    pub fn leading_keys(&self) -> Option<&[String]> {
        let condition = self.conditions.iter().find(|condition| {
            condition.key == LEADING_KEYS && condition.operator == "ForAllValues:StringLike"
        });
        condition.map(|condition| condition.values.as_slice())
    }
}

/// Creates the request of an action on rows.
pub fn request<'a>(action: &str, resource: &str, leading_keys: impl IntoIterator<Item = &'a str>) -> Request {
    let keys = leading_keys.into_iter().map(str::to_owned).collect();
    Request {
        action: action.to_owned(),
        resource: resource.to_owned(),
        context: BTreeMap::from([(LEADING_KEYS.to_owned(), keys)]),
    }
}

/// Reads a statement of a policy.
pub fn statement(yaml: &Value) -> Statement {
    let conditions = yaml["Condition"].as_mapping().into_iter().flatten().flat_map(|(operator, keys)| {
        keys.as_mapping().unwrap().iter().map(move |(key, values)| Condition {
            operator: text(operator),
            key: text(key),
            values: texts(values),
        })
    });
    Statement {
        effect: match text(&yaml["Effect"]).as_str() {
            "Allow" => Effect::Allow,
            "Deny" => Effect::Deny,
            other => panic!("{other} is no effect"),
        },
        actions: texts(&yaml["Action"]),
        resources: texts(&yaml["Resource"]),
        conditions: conditions.collect(),
    }
}

/// Returns the texts of a value or of a sequence.
pub fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::Sequence(values) => values.iter().map(text).collect(),
        value => vec![text(value)],
    }
}

/// Returns a text with the ARN of each resource replaced by the resource's logical id. `!GetAtt X.Arn` becomes
/// `X`, and `!Sub ${X.Arn}/index/y` becomes `X/index/y`.
pub fn text(value: &Value) -> String {
    match value {
        Value::Tagged(tagged) if tagged.tag == "Sub" => {
            tagged.value.as_str().unwrap().replace(".Arn}", "}").replace("${", "").replace('}', "")
        }
        Value::Tagged(tagged) => text(&tagged.value).trim_end_matches(".Arn").to_owned(),
        value => value.as_str().unwrap().to_owned(),
    }
}
