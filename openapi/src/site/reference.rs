//! The reference: all operations by tag, the events that the service posts, and the schemas.

use std::fmt::Write as _;

use serde_json::Value;

use super::block::{Block, slug};
use super::description::{Content, Credential, Description, Operation, members, text};

/// How deeply the fields of inline objects are listed. Deeper objects are shown by their type alone.
const MAX_DEPTH: usize = 4;

/// The id of the reference's heading.
pub(super) const REFERENCE: &str = "reference";

/// Returns the id of a tag's section.
pub(super) fn tag_id(tag: &str) -> String {
    format!("tag-{}", slug(tag))
}

/// Returns the id of an operation's section.
pub(super) fn operation_id(operation: &Operation<'_>) -> String {
    format!("operation-{}", operation.id())
}

/// Returns the blocks of the reference.
pub(super) fn blocks(description: Description<'_>) -> Vec<Block> {
    let mut blocks = vec![heading(2, REFERENCE.to_owned(), "Reference")];
    for (tag, about, operations) in description.tags() {
        blocks.push(heading(3, tag_id(tag), tag));
        blocks.extend(paragraph(about));
        blocks.extend(operations.iter().flat_map(|operation| operation_blocks(description, operation)));
    }
    blocks.push(heading(3, "events".to_owned(), "Events"));
    for event in description.events() {
        blocks.extend(event_blocks(description, &event));
    }
    blocks.push(heading(3, "schemas".to_owned(), "Schemas"));
    for (name, schema) in description.schemas() {
        blocks.push(heading(4, format!("schema-{name}"), name));
        blocks.extend(paragraph(text(schema, "description")));
        blocks.push(Block::Text(schema_text(description, schema)));
    }
    blocks
}

fn heading(level: u8, id: String, text: &str) -> Block {
    Block::Heading { level, id, text: text.to_owned() }
}

fn paragraph(text: &str) -> Option<Block> {
    (!text.is_empty()).then(|| Block::Text(format!("{}\n", text.trim())))
}

fn operation_blocks(description: Description<'_>, operation: &Operation<'_>) -> Vec<Block> {
    let mut blocks = vec![
        heading(4, operation_id(operation), operation.summary()),
        Block::Route { method: operation.method.clone(), path: operation.path.to_owned() },
    ];
    blocks.extend(paragraph(text(operation.value, "description")));
    blocks.push(Block::Text(authentication(&description.credentials(operation))));
    let parameters = parameters(operation);
    if !parameters.is_empty() {
        blocks.push(Block::Text(table("parameter", &parameters)));
    }
    if let Some(body) = description.body(operation) {
        blocks.push(Block::Text(body_text(description, body)));
        blocks.extend(examples(description, "Example of a request", body));
    }
    blocks.extend(response_blocks(description, operation));
    blocks
}

fn event_blocks(description: Description<'_>, event: &Operation<'_>) -> Vec<Block> {
    let mut blocks =
        vec![heading(4, format!("event-{}", event.path.replace('.', "-")), &format!("`{}`", event.path))];
    let about = Some(text(event.value, "description")).filter(|about| !about.is_empty());
    blocks.extend(paragraph(about.unwrap_or(text(event.value, "summary"))));
    if let Some(body) = description.body(event) {
        blocks.push(Block::Text(format!("Body: {}\n", type_of(body.schema))));
        blocks.extend(examples(description, "Example", body));
    }
    blocks
}

fn authentication(credentials: &[Credential<'_>]) -> String {
    let names: Vec<String> = credentials
        .iter()
        .map(|credential| match credential {
            Credential::Header(name) => format!("an API key in the header `{name}`"),
            Credential::Bearer => "a dashboard token in the header `Authorization: Bearer`".to_owned(),
        })
        .collect();
    if names.is_empty() {
        "Authentication: none, the route is public.\n".to_owned()
    } else {
        format!("Authentication: {}.\n", names.join(", or "))
    }
}

/// A line of a table of fields or parameters.
#[derive(Debug)]
struct Row {
    name: String,
    kind: String,
    about: String,
}

fn parameters(operation: &Operation<'_>) -> Vec<Row> {
    let locations = ["path", "header", "query"];
    let listed = locations.into_iter().flat_map(|location| {
        operation.parameters(location).map(move |parameter| {
            let schema = parameter.get("schema").unwrap_or(&Value::Null);
            let is_required = parameter.get("required").and_then(Value::as_bool).unwrap_or_default();
            let about = Some(text(parameter, "description")).filter(|about| !about.is_empty());
            Row {
                name: format!("`{}`", text(parameter, "name")),
                kind: format!("{location}; {}", kind(schema, is_required)),
                about: about.unwrap_or(text(schema, "description")).to_owned(),
            }
        })
    });
    listed.collect()
}

fn body_text(description: Description<'_>, body: Content<'_>) -> String {
    format!("The request has a body, `{}`:\n\n{}", body.media_type, schema_text(description, body.schema))
}

fn response_blocks(description: Description<'_>, operation: &Operation<'_>) -> Vec<Block> {
    let responses = description.responses(operation);
    let mut lines = String::from("| status | body | meaning |\n| --- | --- | --- |\n");
    for (status, response, contents) in &responses {
        let bodies: Vec<String> = contents
            .iter()
            .map(|content| match (content.is_json(), content.schema.is_null()) {
                (true, false) => type_of(content.schema),
                _ => format!("`{}`", content.media_type),
            })
            .collect();
        let body = if bodies.is_empty() { "none".to_owned() } else { bodies.join(", ") };
        let _ = writeln!(lines, "| {status} | {} | {} |", cell(&body), cell(text(response, "description")));
    }
    let mut blocks = vec![Block::Text(lines)];
    for (status, _, contents) in responses.iter().filter(|(status, ..)| status.starts_with('2')) {
        let summary = format!("Example of a response with {status}");
        blocks.extend(contents.iter().flat_map(|content| examples(description, &summary, *content)));
    }
    blocks
}

fn examples(description: Description<'_>, summary: &str, content: Content<'_>) -> Vec<Block> {
    let fold = |(name, example): (&str, &Value)| {
        let (language, code) = match example.as_str().filter(|_| !content.is_json()) {
            Some(text) => ("text", text.to_owned()),
            None => ("json", serde_json::to_string_pretty(example).unwrap_or_default()),
        };
        let name = if name.is_empty() { String::new() } else { format!(": {name}") };
        Block::Fold {
            summary: format!("{summary}{name}"),
            group: None,
            is_open: false,
            blocks: vec![Block::Code { language, text: format!("{}\n", code.trim_end()) }],
        }
    };
    description.examples(content).into_iter().map(fold).collect()
}

/// Returns the fields of a schema as a table; if it has none, its type.
fn schema_text(description: Description<'_>, schema: &Value) -> String {
    let mut rows = Vec::new();
    collect(description, description.resolve(schema), "", 0, &mut rows);
    if rows.is_empty() {
        // The type of the schema itself, not a link to it.
        return format!("Type: {}\n", type_of(description.resolve(schema)));
    }
    table("field", &rows)
}

/// Adds the fields of a schema, with those of inline objects and arrays below it. The required fields of each
/// object come first.
fn collect(description: Description<'_>, schema: &Value, prefix: &str, depth: usize, rows: &mut Vec<Row>) {
    for part in schema.get("allOf").and_then(Value::as_array).into_iter().flatten() {
        collect(description, description.resolve(part), prefix, depth, rows);
    }
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let fields = || members(schema.get("properties"));
    let is_required = |name: &str| required.contains(&name);
    let ordered =
        fields().filter(|(name, _)| is_required(name)).chain(fields().filter(|(name, _)| !is_required(name)));
    for (name, field) in ordered {
        let path = format!("{prefix}{name}");
        rows.push(Row {
            name: format!("`{path}`"),
            kind: kind(field, is_required(name)),
            about: text(field, "description").to_owned(),
        });
        if depth < MAX_DEPTH {
            let deeper = depth.saturating_add(1);
            collect(description, field, &format!("{path}."), deeper, rows);
            if let Some(items) = field.get("items") {
                collect(description, items, &format!("{path}[]."), deeper, rows);
            }
        }
    }
}

fn kind(schema: &Value, is_required: bool) -> String {
    let kind = type_of(schema);
    if is_required { format!("{kind}; required") } else { kind }
}

fn table(head: &str, rows: &[Row]) -> String {
    let mut lines = format!("| {head} | type | description |\n| --- | --- | --- |\n");
    for Row { name, kind, about } in rows {
        let _ = writeln!(lines, "| {name} | {} | {} |", cell(kind), cell(about));
    }
    lines
}

/// Returns a text as a cell of a Markdown table: on one line, and without the character that ends a cell.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// Describes a type in Markdown, with a link to a named schema.
fn type_of(schema: &Value) -> String {
    if let Some(name) = text(schema, "$ref").strip_prefix("#/components/schemas/") {
        return format!("[{name}](#schema-{name})");
    }
    for union in ["oneOf", "anyOf", "allOf"] {
        if let Some(parts) = schema.get(union).and_then(Value::as_array) {
            let separator = if union == "allOf" { " and " } else { " or " };
            let parts: Vec<String> = parts.iter().map(type_of).collect();
            return parts.join(separator);
        }
    }
    if let Some(value) = schema.get("const") {
        return format!("always `{}`", bare(value));
    }
    let names = type_names(schema);
    let name = if names.is_empty() { "any value".to_owned() } else { names.join(" or ") };
    let mut words = match schema.get("items") {
        Some(items) => format!("{name} of {}", type_of(items)),
        None => name,
    };
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        let values: Vec<String> = values.iter().map(|value| format!("`{}`", bare(value))).collect();
        words = format!("{words}: {}", values.join(", "));
    }
    for rule in rules(schema) {
        let _ = write!(words, ", {rule}");
    }
    words
}

fn type_names(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Describes the limits of a schema.
fn rules(schema: &Value) -> Vec<String> {
    let format = schema.get("format").and_then(Value::as_str).map(str::to_owned);
    let limits = [
        ("minimum", "at least ", ""),
        ("maximum", "at most ", ""),
        ("minLength", "at least ", " characters"),
        ("maxLength", "at most ", " characters"),
        ("minItems", "at least ", " items"),
        ("maxItems", "at most ", " items"),
        ("default", "default `", "`"),
    ];
    let limits = limits
        .into_iter()
        .filter_map(|(rule, before, after)| Some(format!("{before}{}{after}", bare(schema.get(rule)?))));
    format.into_iter().chain(limits).collect()
}

/// Returns a value as it is written, a text without its quotes.
fn bare(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
