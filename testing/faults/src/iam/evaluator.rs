//! Decides like IAM whether a role's statements allow a request. Supports the parts of the policy language
//! that `template.yaml` uses, and panics at any other part.

use std::collections::BTreeMap;

/// A request that IAM decides on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    pub action: String,
    pub resource: String,
    /// The values of the request's condition keys. A key without values is absent.
    pub context: BTreeMap<String, Vec<String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Allow,
    Deny,
}

/// A statement of a policy. Actions, resources and the values of `StringLike` are patterns.
#[derive(Clone, Debug)]
pub struct Statement {
    pub effect: Effect,
    pub actions: Vec<String>,
    pub resources: Vec<String>,
    pub conditions: Vec<Condition>,
}

/// One key of a condition, for example `{"ForAllValues:StringLike": {key: values}}`.
#[derive(Clone, Debug)]
pub struct Condition {
    pub operator: String,
    pub key: String,
    pub values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Allowed,
    /// No statement allows the request.
    NotAllowed,
    /// A statement denies the request, so no other statement can allow it.
    Denied,
}

/// Decides on a request as IAM does: a `Deny` wins over every `Allow`, and without an `Allow` the request is
/// refused.
pub fn decide(statements: &[Statement], request: &Request) -> Decision {
    let has = |effect: Effect| {
        statements.iter().any(|statement| statement.effect == effect && statement.matches(request))
    };
    if has(Effect::Deny) {
        Decision::Denied
    } else if has(Effect::Allow) {
        Decision::Allowed
    } else {
        Decision::NotAllowed
    }
}

impl Statement {
    fn matches(&self, request: &Request) -> bool {
        // Actions are compared without regard to case, resources with regard to it.
        let action = request.action.to_ascii_lowercase();
        self.actions.iter().any(|pattern| is_like(&pattern.to_ascii_lowercase(), &action))
            && self.resources.iter().any(|pattern| is_like(pattern, &request.resource))
            && self.conditions.iter().all(|condition| condition.holds(request))
    }
}

impl Condition {
    fn holds(&self, request: &Request) -> bool {
        let given = request.context.get(&self.key).map(Vec::as_slice).unwrap_or_default();
        if self.operator == "Null" {
            // `"true"`: the key must be absent. `"false"`: it must be present.
            return self.values == [given.is_empty().to_string()];
        }
        let (quantifier, operator) = self.operator.split_once(':').unwrap_or(("", &self.operator));
        let matches = |given: &String| {
            self.values.iter().any(|value| match operator {
                "StringEquals" => value == given,
                "StringLike" => is_like(value, given),
                other => panic!("the evaluator does not know the operator {other}"),
            })
        };
        match quantifier {
            // True for no values at all, which is why a `Null` condition must accompany it.
            "ForAllValues" => given.iter().all(matches),
            "ForAnyValue" => given.iter().any(matches),
            "" => match given {
                [] => false,
                [only] => matches(only),
                several => panic!("{} has {} values, but no quantifier", self.key, several.len()),
            },
            other => panic!("the evaluator does not know the quantifier {other}"),
        }
    }
}

/// Matches a text with a pattern: `*` stands for any characters, `?` for one.
pub fn is_like(pattern: &str, text: &str) -> bool {
    match pattern.chars().next() {
        None => text.is_empty(),
        Some('*') => {
            let rest = &pattern[1..];
            text.char_indices().map(|(at, _)| at).chain([text.len()]).any(|at| is_like(rest, &text[at..]))
        }
        Some(expected) => {
            let mut characters = text.chars();
            let matches = characters.next().is_some_and(|found| expected == '?' || found == expected);
            matches && is_like(&pattern[expected.len_utf8()..], characters.as_str())
        }
    }
}

#[test]
fn patterns_match_any_characters_with_a_star_and_one_with_a_question_mark() {
    for (pattern, text, expected) in [
        ("charge#*", "charge#1", true),
        ("charge#*", "charge#", true),
        ("charge#*", "charges#1", false),
        ("charge#*", "a charge#1", false),
        ("*#test", "deliveries#a#test", true),
        ("a*b*c", "axxbyyc", true),
        ("a*b*c", "axxbyy", false),
        ("due#?", "due#7", true),
        ("due#?", "due#", false),
        ("due#?", "due#10", false),
        ("é?", "éé", true),
        ("*", "", true),
        ("", "a", false),
    ] {
        assert_eq!(is_like(pattern, text), expected, "{pattern} {text}");
    }
}
