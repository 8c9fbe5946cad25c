use serde_json::{Value, json};

/// The longest text of an error, in characters.
const TEXT_MAX: usize = 5_000;

/// An error of the API. Empty texts are left out of its body.
#[derive(Debug)]
pub(crate) struct ApiError {
    pub(crate) status: u16,
    kind: &'static str,
    code: &'static str,
    param: String,
    message: String,
    /// True if the request began to execute. Only then is the error stored under the `Idempotency-Key`.
    pub(crate) is_executed: bool,
}

impl ApiError {
    pub(crate) fn new(status: u16, code: &'static str, message: impl Into<String>) -> Self {
        let kind = match status {
            402 => "card_error",
            409 => "idempotency_error",
            500.. => "api_error",
            _ => "invalid_request_error",
        };
        Self { status, kind, code, param: String::new(), message: message.into(), is_executed: false }
    }

    /// A parameter that fails validation.
    pub(crate) fn invalid(param: &str, code: &'static str, message: impl Into<String>) -> Self {
        Self { param: param.to_owned(), ..Self::new(400, code, message) }
    }

    /// A request that the state of the objects does not allow.
    pub(crate) fn refused(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(400, code, message).executed()
    }

    pub(crate) fn executed(self) -> Self {
        Self { is_executed: true, ..self }
    }

    pub(crate) fn not_found(param: &str, noun: &str, id: &str) -> Self {
        let error = Self::invalid(param, "resource_missing", format!("No such {noun}: '{id}'"));
        Self { status: 404, ..error }
    }

    pub(crate) fn other_parameters(key: &str) -> Self {
        let message = format!(
            "Keys for idempotent requests can only be used with the same parameters they were first used with. Try using a key other than '{key}' if you meant to execute a different request."
        );
        Self { kind: "idempotency_error", ..Self::new(400, "", message) }
    }

    pub(crate) fn body(&self, request_id: &str) -> Value {
        // Both may quote the request.
        let [message, param] =
            [&self.message, &self.param].map(|text| text.chars().take(TEXT_MAX).collect::<String>());
        let mut error = json!({
            "code": self.code, "message": message, "param": param, "type": self.kind,
            "request_log_url": format!("https://dashboard.stripe.com/logs/{request_id}"),
        });
        if let Some(fields) = error.as_object_mut() {
            fields.retain(|_, text| text != "");
        }
        json!({"error": error})
    }
}
