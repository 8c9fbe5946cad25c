//! Reads an `OpenAPI` 3.1 document.

use serde_json::{Map, Value};

/// The methods of operations, in the order in which the reference lists them.
const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

const JSON: &str = "application/json";

#[derive(Clone, Copy, Debug)]
pub(super) struct Description<'a> {
    document: &'a Value,
}

#[derive(Clone, Debug)]
pub(super) struct Operation<'a> {
    pub(super) method: String,
    pub(super) path: &'a str,
    pub(super) value: &'a Value,
    parameters: Vec<&'a Value>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Content<'a> {
    pub(super) media_type: &'a str,
    pub(super) schema: &'a Value,
    media: &'a Value,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Credential<'a> {
    Header(&'a str),
    Bearer,
}

impl<'a> Description<'a> {
    pub(super) fn new(document: &'a Value) -> Self {
        Self { document }
    }

    pub(super) fn title(self) -> &'a str {
        self.document.pointer("/info/title").and_then(Value::as_str).unwrap_or_default()
    }

    pub(super) fn summary(self) -> &'a str {
        self.document.pointer("/info/summary").and_then(Value::as_str).unwrap_or_default()
    }

    pub(super) fn text(self) -> &'a str {
        self.document.pointer("/info/description").and_then(Value::as_str).unwrap_or_default()
    }

    pub(super) fn resolve(self, value: &'a Value) -> &'a Value {
        let target = value.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix('#'));
        target.and_then(|pointer| self.document.pointer(pointer)).unwrap_or(value)
    }

    /// Returns the tags with their descriptions and operations, in the order of the document.
    pub(super) fn tags(self) -> Vec<(&'a str, &'a str, Vec<Operation<'a>>)> {
        let operations = self.operations();
        let tags = self.document.get("tags").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let tags = tags.iter().map(|tag| {
            let name = text(tag, "name");
            let tagged = operations.iter().filter(|operation| operation.tag() == name).cloned().collect();
            (name, text(tag, "description"), tagged)
        });
        tags.filter(|(.., operations): &(_, _, Vec<_>)| !operations.is_empty()).collect()
    }

    pub(super) fn operations(self) -> Vec<Operation<'a>> {
        members(self.document.get("paths")).flat_map(|(path, item)| self.operations_of(path, item)).collect()
    }

    pub(super) fn events(self) -> Vec<Operation<'a>> {
        members(self.document.get("webhooks"))
            .flat_map(|(name, item)| self.operations_of(name, item))
            .collect()
    }

    pub(super) fn schemas(self) -> impl Iterator<Item = (&'a str, &'a Value)> {
        members(self.document.pointer("/components/schemas"))
    }

    fn operations_of(self, path: &'a str, item: &'a Value) -> impl Iterator<Item = Operation<'a>> {
        METHODS.into_iter().filter_map(move |method| {
            let value = item.get(method)?;
            let parameters =
                [item, value].into_iter().filter_map(|holder| holder.get("parameters")?.as_array());
            let parameters = parameters.flatten().map(|parameter| self.resolve(parameter)).collect();
            Some(Operation { method: method.to_uppercase(), path, value, parameters })
        })
    }

    /// Empty: it is public.
    pub(super) fn credentials(self, operation: &Operation<'a>) -> Vec<Credential<'a>> {
        let own = operation.value.get("security").or_else(|| self.document.get("security"));
        let requirements = own.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let names = requirements.iter().filter_map(Value::as_object).flat_map(Map::keys);
        names
            .filter_map(|name| {
                let scheme = self.document.pointer("/components/securitySchemes")?.get(name)?;
                Some(match text(scheme, "type") {
                    "apiKey" => Credential::Header(text(scheme, "name")),
                    _ => Credential::Bearer,
                })
            })
            .collect()
    }

    pub(super) fn body(self, operation: &Operation<'a>) -> Option<Content<'a>> {
        contents(self.resolve(operation.value.get("requestBody")?)).next()
    }

    pub(super) fn responses(self, operation: &Operation<'a>) -> Vec<(&'a str, &'a Value, Vec<Content<'a>>)> {
        let responses = members(operation.value.get("responses"));
        responses
            .map(|(status, response)| {
                let response = self.resolve(response);
                (status, response, contents(response).collect())
            })
            .collect()
    }

    /// Without examples of its own, a body has those of its schema.
    pub(super) fn examples(self, content: Content<'a>) -> Vec<(&'a str, &'a Value)> {
        let named = members(content.media.get("examples")).filter_map(|(name, example)| {
            let example = self.resolve(example);
            let summary = Some(text(example, "summary")).filter(|summary| !summary.is_empty());
            Some((summary.unwrap_or(name), example.get("value")?))
        });
        let named: Vec<_> = named.collect();
        if !named.is_empty() {
            return named;
        }
        let schema = self.resolve(content.schema);
        let only = content.media.get("example").or_else(|| schema.get("example"));
        let only = only.or_else(|| schema.get("examples")?.as_array()?.first());
        only.map(|example| ("", example)).into_iter().collect()
    }
}

impl<'a> Operation<'a> {
    pub(super) fn id(&self) -> &'a str {
        text(self.value, "operationId")
    }

    /// Returns the summary; without one, the path.
    pub(super) fn summary(&self) -> &'a str {
        Some(text(self.value, "summary")).filter(|summary| !summary.is_empty()).unwrap_or(self.path)
    }

    fn tag(&self) -> &'a str {
        self.value.pointer("/tags/0").and_then(Value::as_str).unwrap_or_default()
    }

    pub(super) fn parameters(&self, location: &str) -> impl Iterator<Item = &'a Value> {
        self.parameters.iter().copied().filter(move |parameter| text(parameter, "in") == location)
    }
}

impl Content<'_> {
    pub(super) fn is_json(&self) -> bool {
        self.media_type == JSON
    }
}

/// Returns a text member of an object; empty if there is none.
pub(super) fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value.get(member).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn members(value: Option<&Value>) -> impl Iterator<Item = (&str, &Value)> {
    value.and_then(Value::as_object).into_iter().flatten().map(|(name, value)| (name.as_str(), value))
}

fn contents(holder: &Value) -> impl Iterator<Item = Content<'_>> {
    let all = || {
        members(holder.get("content")).map(|(media_type, media)| Content {
            media_type,
            schema: media.get("schema").unwrap_or(&Value::Null),
            media,
        })
    };
    all().filter(Content::is_json).chain(all().filter(|content| !content.is_json()))
}
