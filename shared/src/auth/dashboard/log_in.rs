//! What a log-in asks and what it is answered.

use domain::time::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;

use crate::http::{Fields, JsonObject, Object, Problem};

/// The longest e-mail address (RFC 5321), in characters.
const MAX_EMAIL_CHARS: usize = 254;

/// The longest password that is looked at, in characters. Shorter ones than may be set are looked at too: they are wrong.
const MAX_PASSWORD_CHARS: usize = 1_024;

/// The body of `POST /v1/auth/login`.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// As it was sent; case does not matter.
    pub email: String,
    /// As it was sent.
    pub password: SecretString,
}

impl Credentials {
    /// Reads a request's body; every failing field is reported.
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

/// A token that was just issued.
#[derive(Debug)]
pub struct NewToken {
    pub(super) token: SecretString,
    pub(super) expires_at: Timestamp,
}

/// The answer to a log-in.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewTokenView<'a> {
    token: &'a str,
    token_type: &'static str,
    expires_at: Timestamp,
}

impl<'a> NewTokenView<'a> {
    /// Of a new token.
    pub fn new(issued: &'a NewToken) -> Self {
        Self { token: issued.token.expose_secret(), token_type: "Bearer", expires_at: issued.expires_at }
    }
}
