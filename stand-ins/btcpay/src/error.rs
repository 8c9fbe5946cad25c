use serde_json::{Value, json};

/// Why a request is refused: the status and the body of the answer.
#[derive(Debug)]
pub(crate) struct ApiError(pub(crate) u16, pub(crate) Value);

impl ApiError {
    pub(crate) fn new(status: u16, code: &str, message: impl Into<String>) -> Self {
        Self(status, json!({"code": code, "message": message.into()}))
    }

    /// A field is not valid. The document says 400, but the server's code answers 422.
    pub(crate) fn invalid(path: &str, message: &str) -> Self {
        Self(422, json!([{"path": path, "message": message}]))
    }

    pub(crate) fn missing_permission(right: &str) -> Self {
        let message = format!(
            "Insufficient API Permissions. Please use an API key with permission \"{right}\". You can create an API key in your account's settings / Api Keys."
        );
        Self(403, json!({"code": "missing-permission", "message": message, "missingPermission": right}))
    }

    pub(crate) fn not_found(noun: &str) -> Self {
        Self::new(404, &format!("{noun}-not-found"), format!("The {noun} was not found"))
    }
}
