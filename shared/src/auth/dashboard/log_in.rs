//! The request and the response of a log-in.

use domain::time::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;

use crate::http::{Fields, JsonObject, Object, Problem};

/// The longest e-mail address (RFC 5321), in characters.
const MAX_EMAIL_CHARS: usize = 254;

/// The longest password that a request may contain, in characters. The minimum is 1 character, although
/// generated passwords have 24. So a short password is answered like any wrong password (401), not as an
/// invalid field.
const MAX_PASSWORD_CHARS: usize = 1_024;

/// The body of `POST /v1/auth/login`.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The e-mail address as it was sent. The search for its user ignores case.
    pub email: String,
    /// The password as it was sent.
    pub password: SecretString,
}

impl Credentials {
    /// Parses a request's body. All failing fields are reported.
    pub fn parse(body: &JsonObject) -> Result<Self, Problem> {
        let mut fields = Fields::new();
        let root = Object::root(body);
        let mut text = |name: &str, max| {
            if root.get(name).is_none() {
                fields.reject(name, format!("is required: 1 to {max} characters"));
            }
            fields.text(&root, name, 1, max)
        };
        let (email, password) = (text("email", MAX_EMAIL_CHARS), text("password", MAX_PASSWORD_CHARS));
        let both = email.zip(password);
        fields
            .finish(both.map(|(email, password)| Self { email: email.to_owned(), password: password.into() }))
    }
}

/// A newly issued token.
#[derive(Debug)]
pub struct NewToken {
    pub(super) token: SecretString,
    pub(super) expires_at: Timestamp,
}

/// The response to a log-in.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewTokenView<'a> {
    token: &'a str,
    token_type: &'static str,
    expires_at: Timestamp,
}

impl<'a> NewTokenView<'a> {
    /// Builds the view of a newly issued token.
    pub fn new(issued: &'a NewToken) -> Self {
        Self { token: issued.token.expose_secret(), token_type: "Bearer", expires_at: issued.expires_at }
    }
}
