use domain::time::Timestamp;
use schemars::JsonSchema;
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;

use crate::http::field::{BodyFields, Text};
use crate::http::{Fields, JsonObject, Problem};
use crate::language::Language;

crate::fields! {
    /// Any text is accepted, because an address that is not valid is answered like any unknown one (401). The
    /// maximum is that of RFC 5321.
    EMAIL: Text = "email", Text::of(1, 254), Required, "ana@example.com",
        "The user's e-mail address, in upper or lower case.";
    /// The minimum is 1 character, although generated passwords have 24. So a short password is answered like any
    /// wrong password (401), not as an invalid field.
    PASSWORD: Text = "password", Text::of(1, 1_024), Required, "correct horse battery staple",
        "The user's password.";
    TOTP: Text = "totp", Text::of(1, 64), Optional, "287082",
        "The code of the user's authenticator app, or a recovery code. Required if the user has turned on the second factor. Each code is accepted once.";
}

pub const LOG_IN_BODY: BodyFields = BodyFields::open(&[&EMAIL, &PASSWORD, &TOTP]);

#[derive(Clone, Debug)]
pub struct Credentials {
    pub email: String,
    pub password: SecretString,
    /// The code of the second factor.
    pub totp: Option<SecretString>,
    /// The cookie of a browser that has logged a user in before.
    pub browser: Option<SecretString>,
}

impl Credentials {
    pub fn parse(body: &JsonObject) -> Result<Self, Problem> {
        let mut fields = Fields::new();
        let root = fields.body(body, LOG_IN_BODY);
        let both = fields.read(&root, &EMAIL).zip(fields.read(&root, &PASSWORD));
        let totp = fields.read(&root, &TOTP);
        fields.finish(both.map(|(email, password)| Self {
            email,
            password: password.into(),
            totp: totp.map(SecretString::from),
            browser: None,
        }))
    }
}

/// The outcome of a log-in with the right password.
#[derive(Debug)]
pub enum LogIn {
    Done(NewToken),
    /// A code must follow, with this token, within five minutes.
    Pending(SecretString),
}

#[derive(Debug)]
pub struct NewToken {
    pub user: domain::ids::UserId,
    pub token: SecretString,
    pub(super) expires_at: Timestamp,
    /// For the cookie that proves an earlier log-in of the browser at the next one.
    pub(super) browser: Option<SecretString>,
    /// The user's choice of the pages' language.
    pub language: Option<Language>,
}

/// A dashboard token.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "DashboardToken")]
#[serde(rename_all = "camelCase")]
pub struct NewTokenView<'a> {
    /// The token. Send it as `Authorization: Bearer <token>`.
    token: &'a str,
    /// Always `Bearer`.
    #[schemars(extend("const" = "Bearer"))]
    token_type: &'static str,
    /// When the token expires.
    expires_at: Timestamp,
}

impl<'a> NewTokenView<'a> {
    pub fn new(issued: &'a NewToken) -> Self {
        Self { token: issued.token.expose_secret(), token_type: "Bearer", expires_at: issued.expires_at }
    }
}
