use std::fmt;

use acquirer_http::SendError;
use acquirer_kit::KitError;
use domain::acquirer::OddObject;
use serde_json::Value;

/// The longest text of a problem that is kept, in characters.
const MAX_TEXT_CHARS: usize = 500;

/// The longest word of a text that is no key, in characters. A key has 40, the name of a right 43.
const MAX_WORD_CHARS: usize = 70;

/// The digits of a key.
const KEY_CHARS: usize = 40;

/// Why a request failed. The texts contain no document, no key and no secret. They name the acquirer and quote it, so
/// they are for operators only.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// The request breaks a rule of the API, so it was not sent.
    #[error("not sent: {0}")]
    InvalidRequest(&'static str),
    #[error(transparent)]
    Send(#[from] SendError),
    /// An error of the API. A 5xx may be a proxy's, without a problem.
    #[error("the BTCPay Server answered {status}{problem}")]
    Answered { status: u16, problem: ApiProblem },
    #[error("the BTCPay Server's answer can't be read: {0}")]
    Malformed(String),
    /// The answer is whole, and its object is not as documented: a repetition does not help.
    #[error("the BTCPay Server's answer can't be used: {0}")]
    Odd(OddObject),
}

/// What a caller may do after an error. Retries have a jitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// The request may have been executed. There are no idempotency keys, so a caller looks for what it made first.
    FindThenRepeat,
    /// The request was not executed: send it later.
    RetryLater,
    /// The same request is refused again.
    Final,
    /// The server does not know the object.
    NotFound,
    /// Every request fails until an operator acts. This one was not executed.
    Operator,
}

impl ApiError {
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::InvalidRequest(_) => Remedy::Final,
            Self::Send(SendError::TooManyRequests { .. } | SendError::CircuitOpen) => Remedy::RetryLater,
            Self::Send(_) | Self::Malformed(_) | Self::Odd(_) => Remedy::FindThenRepeat,
            Self::Answered { status, .. } => match status {
                408 | 500.. => Remedy::FindThenRepeat,
                401 | 403 => Remedy::Operator,
                404 => Remedy::NotFound,
                _ => Remedy::Final,
            },
        }
    }

    /// Whether an operator must act: the server refuses the key, or TLS fails.
    pub fn needs_operator(&self) -> bool {
        self.remedy() == Remedy::Operator || matches!(self, Self::Send(SendError::Tls(_)))
    }
}

impl From<ApiError> for KitError {
    fn from(error: ApiError) -> Self {
        if error.needs_operator() {
            tracing::error!(
                %error,
                "the acquirer does not accept the connection; run `admin accounts check-acquirer`"
            );
        }
        match (&error, error.remedy()) {
            (ApiError::Send(SendError::TooManyRequests { retry_after }), _) => Self::Limited(*retry_after),
            (ApiError::Odd(odd), _) => Self::Odd(odd.clone()),
            (_, Remedy::Final) => Self::Invalid(error.to_string()),
            _ => Self::Unavailable(error.to_string()),
        }
    }
}

/// The reasons of a refusal. What the answer lacks is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiProblem {
    /// Such as `missing-permission`. A refusal of fields has none.
    pub code: String,
    /// The first field of the request that is refused, such as `checkout.paymentMethods[0]`.
    pub path: String,
    /// The server's text. Documents, addresses and keys are masked.
    message: String,
}

impl ApiProblem {
    /// Whether the amount is so small that the network would not pass its payment on.
    pub(crate) fn is_about_dust(&self) -> bool {
        self.message.contains("dust")
    }

    /// `None`: the body is no error of the API.
    pub(crate) fn parse(body: &[u8]) -> Option<Self> {
        let body: Value = serde_json::from_slice(body).ok()?;
        let error = body.as_array().map_or(Some(&body), |errors| errors.first())?;
        let text = |name| safe_text(error.get(name).and_then(Value::as_str).unwrap_or_default());
        let (code, path, message) = (text("code"), text("path"), text("message"));
        let is_problem = !code.is_empty() || !path.is_empty() || !message.is_empty();
        is_problem.then_some(Self { code, path, message })
    }
}

impl fmt::Display for ApiProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [&self.code, &self.path, &self.message];
        parts.into_iter().filter(|part| !part.is_empty()).try_for_each(|part| write!(f, "; {part}"))
    }
}

/// Returns the beginning of a text, with documents, addresses and keys masked and control characters removed.
fn safe_text(text: &str) -> String {
    domain::masking::one_line(text.chars().take(MAX_TEXT_CHARS), |run| {
        let is_key = run.len() >= KEY_CHARS && run.bytes().all(|byte| byte.is_ascii_alphanumeric());
        is_key || run.len() > MAX_WORD_CHARS || run.contains('@')
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn answered(status: u16, body: &str) -> ApiError {
        ApiError::Answered { status, problem: ApiProblem::parse(body.as_bytes()).unwrap_or_default() }
    }

    #[test]
    fn each_error_has_a_remedy() {
        for (error, remedy) in [
            (
                answered(401, r#"{"code":"unauthenticated","message":"Authentication is required"}"#),
                Remedy::Operator,
            ),
            (
                answered(403, r#"{"code":"missing-permission","message":"Insufficient API Permissions"}"#),
                Remedy::Operator,
            ),
            (
                answered(404, r#"{"code":"invoice-not-found","message":"The invoice was not found"}"#),
                Remedy::NotFound,
            ),
            (
                answered(422, r#"[{"path":"amount","message":"The amount should be 0 or more."}]"#),
                Remedy::Final,
            ),
            (answered(400, r#"{"code":"generic-error","message":"No wallet"}"#), Remedy::Final),
            (answered(502, "<html>"), Remedy::FindThenRepeat),
            (ApiError::Send(SendError::Timeout), Remedy::FindThenRepeat),
            (ApiError::Send(SendError::CircuitOpen), Remedy::RetryLater),
            (ApiError::Malformed(String::new()), Remedy::FindThenRepeat),
        ] {
            assert_eq!(error.remedy(), remedy, "{error}");
        }
        let limited = SendError::TooManyRequests { retry_after: Duration::from_secs(7) };
        assert_eq!(KitError::from(ApiError::Send(limited)), KitError::Limited(Duration::from_secs(7)));
        assert!(matches!(KitError::from(answered(403, "")), KitError::Unavailable(_)));
        assert!(matches!(KitError::from(answered(422, "")), KitError::Invalid(_)));
    }

    #[test]
    fn an_amount_below_the_dust_threshold_concerns_the_charge() {
        let said = |text: &str| {
            ApiProblem::parse(format!(r#"{{"code":"generic-error","message":"{text}"}}"#).as_bytes())
        };
        assert!(said("BTC-CHAIN: Amount below the dust threshold").unwrap().is_about_dust());
        assert!(!said("BTC-CHAIN: No wallet").unwrap().is_about_dust());
    }

    #[test]
    fn a_problem_is_quoted_without_personal_data() {
        let body = format!(
            r#"[{{"path":"metadata.buyerEmail","message":"maria@example.com\n529.982.247-25 {}"}}]"#,
            "a1".repeat(20)
        );
        let error = answered(422, &body);
        let expected = "the BTCPay Server answered 422; metadata.buyerEmail; *** ***.982.247-** ***";
        assert_eq!(error.to_string(), expected);
        assert_eq!(ApiProblem::parse(b"[]"), None);
        assert_eq!(ApiProblem::parse(b"{}"), None);
    }
}
