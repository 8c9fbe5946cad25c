//! Reads an `OpenAPI` 3.1 document.

use serde_json::{Map, Value};

/// The methods of operations, in the order in which the reference lists them.
const METHODS: [&str; 4] = ["get", "post", "patch", "delete"];

#[derive(Clone, Copy, Debug)]
pub(super) struct Description<'a> {
    document: &'a Value,
}

#[derive(Clone, Debug)]
pub(super) struct Operation<'a> {
    pub(super) method: String,
    pub(super) path: &'a str,
    pub(super) value: &'a Value,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Content<'a> {
    pub(super) media_type: &'a str,
    /// Null unless the content is JSON or a form.
    pub(super) schema: &'a Value,
    media: &'a Value,
}

impl<'a> Description<'a> {
    pub(super) fn new(document: &'a Value) -> Self {
        Self { document }
    }

    pub(super) fn info(self, member: &str) -> &'a str {
        self.document.get("info").map_or("", |info| text(info, member))
    }

    pub(super) fn resolve(self, value: &'a Value) -> &'a Value {
        let target = value.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix('#'));
        target.and_then(|pointer| self.document.pointer(pointer)).unwrap_or(value)
    }

    /// Returns the tags with their descriptions and operations, in the order of the document.
    pub(super) fn tags(self) -> Vec<(&'a str, &'a str, Vec<Operation<'a>>)> {
        let operations: Vec<Operation<'a>> = operations(self.document.get("paths")).collect();
        let tags = elements(self.document.get("tags")).iter().map(|tag| {
            let name = text(tag, "name");
            let is_tagged =
                |operation: &&Operation<'a>| operation.value.pointer("/tags/0") == tag.get("name");
            (name, text(tag, "description"), operations.iter().filter(is_tagged).cloned().collect())
        });
        tags.collect()
    }

    pub(super) fn events(self) -> impl Iterator<Item = Operation<'a>> {
        operations(self.document.get("webhooks"))
    }

    pub(super) fn schemas(self) -> impl Iterator<Item = (&'a str, &'a Value)> {
        members(self.document.pointer("/components/schemas"))
    }

    /// Returns the security schemes of an operation, any of which suffices. Empty: it is public.
    pub(super) fn security(self, operation: &Operation<'a>) -> impl Iterator<Item = &'a Value> {
        let requirements = elements(operation.value.get("security")).iter().filter_map(Value::as_object);
        let schemes = self.document.pointer("/components/securitySchemes");
        requirements.flat_map(Map::keys).filter_map(move |name| schemes?.get(name))
    }

    pub(super) fn parameters(self, operation: &Operation<'a>) -> impl Iterator<Item = &'a Value> {
        let parameters = elements(operation.value.get("parameters")).iter();
        parameters.map(move |parameter| self.resolve(parameter))
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

    /// Without an example of its own, a body has that of its schema.
    pub(super) fn example(self, content: Content<'a>) -> Option<&'a Value> {
        let own = content.media.pointer("/examples/default/value");
        own.or_else(|| self.resolve(content.schema).pointer("/examples/0"))
    }
}

impl<'a> Operation<'a> {
    pub(super) fn id(&self) -> &'a str {
        text(self.value, "operationId")
    }

    pub(super) fn summary(&self) -> &'a str {
        text(self.value, "summary")
    }

    pub(super) fn body(&self) -> Option<Content<'a>> {
        contents(self.value.get("requestBody")?).next()
    }
}

/// Returns a text member of an object; empty if there is none.
pub(super) fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value.get(member).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn members(value: Option<&Value>) -> impl Iterator<Item = (&str, &Value)> {
    value.and_then(Value::as_object).into_iter().flatten().map(|(name, value)| (name.as_str(), value))
}

/// Returns the elements of an array, or none.
pub(super) fn elements(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn operations(items: Option<&Value>) -> impl Iterator<Item = Operation<'_>> {
    members(items).flat_map(|(path, item)| {
        METHODS.into_iter().filter_map(move |method| {
            Some(Operation { method: method.to_uppercase(), path, value: item.get(method)? })
        })
    })
}

fn contents(holder: &Value) -> impl Iterator<Item = Content<'_>> {
    members(holder.get("content")).map(|(media_type, media)| Content {
        media_type,
        schema: media.get("schema").unwrap_or(&Value::Null),
        media,
    })
}
