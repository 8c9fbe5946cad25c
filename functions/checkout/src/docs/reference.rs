//! The reference: all operations by tag, the events that the service posts, and the schemas.

use std::fmt::Write as _;

use serde_json::Value;

use super::description::{Content, Description, Operation, elements, members, text};
use super::section::{Section, slug};

/// Deeper objects are shown by their type alone.
const MAX_DEPTH: usize = 4;

/// The guide describes it once.
const REQUEST_ID: &str = "X-Request-Id";

/// The type of a schema that does not restrict the type.
const ANY: &str = "any value";

pub(super) const REFERENCE: &str = "reference";

pub(super) fn tag_id(tag: &str) -> String {
    format!("tag-{}", slug(tag))
}

pub(super) fn operation_id(operation: &Operation<'_>) -> String {
    format!("operation-{}", operation.id())
}

pub(super) fn sections(description: Description<'_>) -> Vec<Section> {
    let mut overview = Section::new(2, REFERENCE.to_owned(), "Reference");
    for (tag, about, _) in description.tags() {
        let _ = writeln!(overview.body, "- [{tag}](#{}): {about}", tag_id(tag));
    }
    let mut sections = vec![overview];
    for (tag, about, operations) in description.tags() {
        let mut group = Section::new(3, tag_id(tag), tag);
        group.paragraph(about);
        sections.push(group);
        sections.extend(operations.iter().map(|operation| operation_section(description, operation)));
    }
    sections.push(Section::new(3, "events".to_owned(), "Events"));
    sections.extend(description.events().map(|event| event_section(description, &event)));
    sections.push(Section::new(3, "schemas".to_owned(), "Schemas"));
    for (name, schema) in description.schemas() {
        let mut section = Section::new(4, format!("schema-{name}"), name);
        section.paragraph(text(schema, "description"));
        add_schema(&mut section, description, schema);
        sections.push(section);
    }
    sections
}

fn operation_section(description: Description<'_>, operation: &Operation<'_>) -> Section {
    let mut section = Section::new(4, operation_id(operation), operation.summary());
    section.paragraph(&format!("`{} {}`", operation.method, operation.path));
    section.paragraph(text(operation.value, "description"));
    section.paragraph(&authentication(description, operation));
    let parameters = parameters(description, operation);
    if !parameters.is_empty() {
        section.table(["parameter", "type", "description"], &parameters);
    }
    if let Some(body) = operation.body() {
        section.paragraph(&format!("The request has a body, `{}`:", body.media_type));
        add_schema(&mut section, description, body.schema);
        add_example(&mut section, description, "Example of a request", body);
    }
    add_responses(&mut section, description, operation);
    section
}

fn event_section(description: Description<'_>, event: &Operation<'_>) -> Section {
    let id = format!("event-{}", event.path.replace('.', "-"));
    let mut section = Section::new(4, id, &format!("`{}`", event.path));
    section.paragraph(text(event.value, "description"));
    if let Some(body) = event.body() {
        section.paragraph(&format!("Body: {}", type_of(body.schema)));
        add_example(&mut section, description, "Example", body);
    }
    section
}

fn authentication(description: Description<'_>, operation: &Operation<'_>) -> String {
    let names: Vec<String> = description
        .security(operation)
        .map(|scheme| match text(scheme, "type") {
            "apiKey" => format!("an API key in the header `{}`", text(scheme, "name")),
            _ => "a dashboard token in the header `Authorization: Bearer`".to_owned(),
        })
        .collect();
    if names.is_empty() {
        "Authentication: none, the route is public.".to_owned()
    } else {
        format!("Authentication: {}.", names.join(", or "))
    }
}

fn parameters(description: Description<'_>, operation: &Operation<'_>) -> Vec<[String; 3]> {
    let all: Vec<&Value> = description.parameters(operation).collect();
    let listed = ["path", "header", "query"].into_iter().flat_map(|location| {
        let listed = all.iter().filter(move |parameter| text(parameter, "in") == location);
        listed.filter(|parameter| text(parameter, "name") != REQUEST_ID).map(move |parameter| {
            let schema = parameter.get("schema").unwrap_or(&Value::Null);
            let is_required = parameter.get("required").and_then(Value::as_bool).unwrap_or_default();
            [
                format!("`{}`", text(parameter, "name")),
                format!("{location}; {}", kind(schema, is_required)),
                text(parameter, "description").to_owned(),
            ]
        })
    });
    listed.collect()
}

fn add_responses(section: &mut Section, description: Description<'_>, operation: &Operation<'_>) {
    let responses = description.responses(operation);
    let rows = responses.iter().map(|(status, response, contents)| {
        let bodies: Vec<String> = contents
            .iter()
            .map(|content| match error_codes(content.schema).as_slice() {
                _ if content.schema.is_null() => format!("`{}`", content.media_type),
                [] => type_of(content.schema),
                codes => format!("{} with {}", type_of(content.schema), codes.join(", ")),
            })
            .collect();
        let body = if bodies.is_empty() { "none".to_owned() } else { bodies.join(", ") };
        [status.to_string(), body, text(response, "description").to_owned()]
    });
    section.table(["status", "body", "meaning"], &rows.collect::<Vec<_>>());
    for (status, _, contents) in responses.iter().filter(|(status, ..)| status.starts_with('2')) {
        for content in contents {
            add_example(section, description, &format!("Example of a response with {status}"), *content);
        }
    }
}

fn error_codes(schema: &Value) -> Vec<String> {
    let parts = elements(schema.get("allOf")).iter();
    let codes = parts.flat_map(|part| elements(part.pointer("/properties/error/properties/code/enum")));
    codes.map(|code| format!("`{}`", bare(code))).collect()
}

fn add_example(section: &mut Section, description: Description<'_>, summary: &str, content: Content<'_>) {
    if let Some(example) = description.example(content) {
        section.fold("", summary, "json", &format!("{example:#}\n"));
    }
}

fn add_schema(section: &mut Section, description: Description<'_>, schema: &Value) {
    let schema = description.resolve(schema);
    let mut rows = Vec::new();
    collect(description, schema, "", 0, &mut rows);
    if rows.is_empty() {
        // The type of the schema itself, not a link to it.
        section.paragraph(&format!("Type: {}", type_of(schema)));
    } else {
        section.table(["field", "type", "description"], &rows);
    }
}

fn collect(
    description: Description<'_>,
    schema: &Value,
    prefix: &str,
    depth: usize,
    rows: &mut Vec<[String; 3]>,
) {
    for part in elements(schema.get("allOf")) {
        collect(description, description.resolve(part), prefix, depth, rows);
    }
    let required = elements(schema.get("required"));
    let fields = || members(schema.get("properties"));
    let is_required = |name: &str| required.iter().any(|required| required == name);
    let ordered =
        fields().filter(|(name, _)| is_required(name)).chain(fields().filter(|(name, _)| !is_required(name)));
    for (name, field) in ordered {
        let path = format!("{prefix}{name}");
        rows.push([
            format!("`{path}`"),
            kind(field, is_required(name)),
            text(field, "description").to_owned(),
        ]);
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

fn type_of(schema: &Value) -> String {
    if let Some(name) = text(schema, "$ref").strip_prefix("#/components/schemas/") {
        return format!("[{name}](#schema-{name})");
    }
    for union in ["oneOf", "anyOf", "allOf"] {
        if let Some(parts) = schema.get(union).and_then(Value::as_array) {
            let separator = if union == "allOf" { " and " } else { " or " };
            // A part without a type only restricts another part.
            let parts: Vec<String> = parts.iter().map(type_of).filter(|part| part != ANY).collect();
            return parts.join(separator);
        }
    }
    if let Some(value) = schema.get("const") {
        return format!("always `{}`", bare(value));
    }
    let names = type_names(schema);
    let name = if names.is_empty() { ANY.to_owned() } else { names.join(" or ") };
    let mut words = match schema.get("items") {
        Some(items) => format!("{name} of {}", type_of(items)),
        None => name,
    };
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        // The type says whether the value can be null.
        let values = values.iter().filter(|value| !value.is_null());
        let values: Vec<String> = values.map(|value| format!("`{}`", bare(value))).collect();
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

fn rules(schema: &Value) -> Vec<String> {
    let format = schema.get("format").and_then(Value::as_str).map(str::to_owned);
    let ranges = [
        ("minimum", "maximum", ""),
        ("minLength", "maxLength", " characters"),
        ("minItems", "maxItems", " items"),
    ];
    let ranges = ranges.into_iter().filter_map(|(least, most, unit)| {
        let (least, most) = (schema.get(least).map(bare), schema.get(most).map(bare));
        Some(match (least.filter(|least| least != "0"), most) {
            (Some(least), Some(most)) if least == most => format!("{least}{unit}"),
            (Some(least), Some(most)) => format!("{least} to {most}{unit}"),
            (Some(least), None) => format!("at least {least}{unit}"),
            (None, Some(most)) => format!("at most {most}{unit}"),
            (None, None) => return None,
        })
    });
    let default = schema.get("default").map(|default| format!("default `{}`", bare(default)));
    format.into_iter().chain(ranges).chain(default).collect()
}

/// Returns a value as it is written, a text without its quotes.
fn bare(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
