//! Parses the requests that issue and rotate API keys.

use domain::ids::Mode;

use crate::http::{Fields, JsonObject, Object, Problem};

/// The longest label, in characters (contract: Limits).
const MAX_LABEL_CHARS: usize = 64;

/// The body of `POST /v1/api-keys`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NewApiKey {
    /// The merchant's name for the key; empty if none was sent. It is one line of visible text, because
    /// people use it to choose the key to revoke.
    pub label: String,
    /// The key's mode: `live` unless the field `test` is true.
    pub mode: Mode,
}

impl NewApiKey {
    /// Parses a request's body. All failing fields are reported.
    pub fn parse(body: &JsonObject) -> Result<Self, Problem> {
        let mut fields = Fields::new();
        let root = Object::root(body);
        let label = fields.single_line(&root, "label", 0, MAX_LABEL_CHARS).unwrap_or_default().to_owned();
        let mode = match fields.boolean(&root, "test") {
            Some(true) => Mode::Test,
            Some(false) | None => Mode::Live,
        };
        fields.finish(Some(Self { label, mode }))
    }
}

/// Parses the body of `POST /v1/api-keys/{id}/rotate`: a new label. `None`: the label is absent or `null`,
/// and the new key has the old key's label.
pub fn new_label(body: &JsonObject) -> Result<Option<String>, Problem> {
    let mut fields = Fields::new();
    let label = fields.single_line(&Object::root(body), "label", 0, MAX_LABEL_CHARS).map(str::to_owned);
    fields.finish(Some(label))
}
