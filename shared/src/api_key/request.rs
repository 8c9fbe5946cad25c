//! What a request may say of a key.

use domain::ids::Mode;

use crate::http::{Fields, JsonObject, Object, Problem};

/// Characters of a label (contract: Limits).
const MAX_LABEL_CHARS: usize = 64;

/// The body of `POST /v1/api-keys`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NewApiKey {
    /// The merchant's name for it; empty when none was sent.
    pub label: String,
    /// What it may touch: `live` unless `test` is true.
    pub mode: Mode,
}

impl NewApiKey {
    /// Reads a request's body; every failing field is reported.
    pub fn parse(body: &JsonObject) -> Result<Self, Problem> {
        let mut fields = Fields::new();
        let root = Object::root(body);
        let label = fields.line(&root, "label", 0, MAX_LABEL_CHARS).unwrap_or_default().to_owned();
        let mode = match fields.boolean(&root, "test") {
            Some(true) => Mode::Test,
            Some(false) | None => Mode::Live,
        };
        fields.finish(Some(Self { label, mode }))
    }
}

/// The body of `POST /v1/api-keys/{id}/rotate`: a new label, if any.
pub fn new_label(body: &JsonObject) -> Result<Option<String>, Problem> {
    let mut fields = Fields::new();
    let label = fields.line(&Object::root(body), "label", 0, MAX_LABEL_CHARS).map(str::to_owned);
    fields.finish(Some(label))
}
