//! `requests.http`: a request to each route, in the format of the HTTP clients of editors.

use std::fmt::Write as _;

use std::collections::BTreeMap;

use serde_json::Value;

use super::description::{Credential, Description, Operation, text};

const VARIABLES: [(&str, &str); 4] = [
    ("baseUrl", "http://127.0.0.1:3000"),
    ("apiKey", "ak_test_replace"),
    ("dashboardToken", "replace_by_the_token_of_POST_/v1/auth/login"),
    ("idempotencyKey", "order-0001"),
];

pub(super) fn requests(description: Description<'_>) -> String {
    let mut ids = BTreeMap::new();
    let mut requests = String::new();
    for (tag, _, operations) in description.tags() {
        let _ = writeln!(requests, "\n# {tag}");
        for operation in &operations {
            requests.push_str(&request(description, operation, &mut ids));
        }
    }
    let mut file = format!(
        "# {}: a request to each route.\n\
         # For the HTTP clients of JetBrains and of VS Code (REST Client). Set the variables first.\n\
         # Generated from the description of the API; see CONTRIBUTING.md.\n\n",
        description.title(),
    );
    let ids = ids.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    for (name, value) in VARIABLES.into_iter().chain(ids) {
        let _ = writeln!(file, "@{name} = {value}");
    }
    file + &requests
}

fn request(
    description: Description<'_>,
    operation: &Operation<'_>,
    ids: &mut BTreeMap<String, String>,
) -> String {
    let path = path(operation, ids);
    let id = operation.id();
    let mut request =
        format!("\n### {}\n# @name {id}\n{} {{{{baseUrl}}}}{path}\n", operation.summary(), operation.method);
    match description.credentials(operation).first() {
        Some(Credential::Header(name)) => {
            let _ = writeln!(request, "{name}: {{{{apiKey}}}}");
        }
        Some(Credential::Bearer) => request.push_str("Authorization: Bearer {{dashboardToken}}\n"),
        None => {}
    }
    for header in
        operation.parameters("header").filter(|header| header.get("required") == Some(&Value::Bool(true)))
    {
        let name = text(header, "name");
        let value = if name.eq_ignore_ascii_case("idempotency-key") {
            "{{idempotencyKey}}".to_owned()
        } else {
            example(header).unwrap_or_default()
        };
        let _ = writeln!(request, "{name}: {value}");
    }
    if let Some(body) = description.body(operation) {
        let _ = writeln!(request, "Content-Type: {}", body.media_type);
        let examples = description.examples(body);
        let example = examples.first().map(|(_, example)| match example.as_str() {
            Some(text) => text.to_owned(),
            None => serde_json::to_string_pretty(example).unwrap_or_default(),
        });
        let _ = writeln!(request, "\n{}", example.unwrap_or_else(|| "{}".to_owned()));
    }
    request
}

/// `{id}` gets the name of the segment before it: `/v1/charges/{id}` has `chargeId`.
fn path(operation: &Operation<'_>, ids: &mut BTreeMap<String, String>) -> String {
    let mut previous = "";
    let mut path = String::new();
    for segment in operation.path.split('/').skip(1) {
        path.push('/');
        if let Some((before, rest)) = segment.split_once('{')
            && let Some((name, after)) = rest.split_once('}')
        {
            let variable =
                if name == "id" { format!("{}Id", camel(&singular(previous))) } else { camel(name) };
            let parameter = operation.parameters("path").find(|parameter| text(parameter, "name") == name);
            let value = parameter.and_then(example).unwrap_or_else(|| "replace".to_owned());
            let _ = write!(path, "{before}{{{{{variable}}}}}{after}");
            ids.entry(variable).or_insert(value);
        } else {
            path.push_str(segment);
        }
        previous = segment;
    }
    path
}

fn example(parameter: &Value) -> Option<String> {
    let schema = parameter.get("schema");
    let example = parameter.get("example").or_else(|| schema?.get("example"));
    let example = example.or_else(|| schema?.pointer("/examples/0"));
    example.map(|example| example.as_str().map_or_else(|| example.to_string(), str::to_owned))
}

fn singular(plural: &str) -> String {
    match plural.strip_suffix("ies") {
        Some(stem) => format!("{stem}y"),
        None => plural.strip_suffix('s').unwrap_or(plural).to_owned(),
    }
}

fn camel(name: &str) -> String {
    let mut words = name.split(['_', '-']);
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |camel, word| {
        let mut letters = word.chars();
        let head = letters.next().map(|letter| letter.to_ascii_uppercase());
        camel + &head.into_iter().chain(letters).collect::<String>()
    })
}
