use domain::ids::Mode;

use crate::http::field::{BodyFields, Boolean, Field, Presence, Text};
use crate::http::{Fields, JsonObject, Problem};

crate::fields! {
    LABEL: Text = "label", Text::one_line(0, 64), DefaultsTo(""), "Online shop",
        "Your name for the key, one line.";
    TEST: Boolean = "test", Boolean, DefaultsTo(false), true,
        "Whether the key is for test data, in the sandbox. Otherwise it is for real money.";
}

const NEW_LABEL: Field<Text> = Field {
    presence: Presence::Optional,
    text: "Your name for the new key, one line. The default is the label of the old key.",
    ..LABEL
};

pub const API_KEY_BODY: BodyFields = BodyFields::strict(&[&LABEL, &TEST]);
pub const ROTATE_API_KEY_BODY: BodyFields = BodyFields::strict(&[&NEW_LABEL]);

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NewApiKey {
    /// One line of visible text, because people use it to choose the key to revoke. Empty if none was sent.
    pub label: String,
    /// `live` unless the field `test` is true.
    pub mode: Mode,
}

impl NewApiKey {
    pub fn parse(body: &JsonObject) -> Result<Self, Problem> {
        let mut fields = Fields::new();
        let root = fields.body(body, API_KEY_BODY);
        let label = fields.read(&root, &LABEL);
        let mode = fields.read(&root, &TEST).map(|is_test| if is_test { Mode::Test } else { Mode::Live });
        fields.finish(label.zip(mode).map(|(label, mode)| Self { label, mode }))
    }
}

/// `None`: absent or `null`, so the new key has the old key's label.
pub fn new_label(body: &JsonObject) -> Result<Option<String>, Problem> {
    let mut fields = Fields::new();
    let root = fields.body(body, ROTATE_API_KEY_BODY);
    let label = fields.read(&root, &NEW_LABEL);
    fields.finish(Some(label))
}
