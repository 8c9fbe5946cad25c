use std::fmt;

use acquirer_http::SendError;
use domain::acquirer::OddObject;
use serde_json::Value;

/// The longest text of a problem that is kept, in characters.
const MAX_TEXT_CHARS: usize = 500;

/// The longest word of a text that is no key or token, in characters. The id of a Checkout Session has 66.
const MAX_WORD_CHARS: usize = 70;

/// Codes of refusals that concern the account or the key. Every request is then refused.
const OF_CONNECTION: [&str; 8] = [
    "account_closed",
    "account_invalid",
    "api_key_expired",
    "livemode_mismatch",
    "platform_api_key_expired",
    "secret_key_required",
    "testmode_charges_only",
    "tls_version_unsupported",
];

/// Why a request failed. The texts contain no document, no key and no secret. They name Stripe and quote it, so they
/// are for operators only.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// The request breaks a rule of the API, so it was not sent.
    #[error("not sent: {0}")]
    InvalidRequest(&'static str),
    #[error(transparent)]
    Send(#[from] SendError),
    /// An error of the API. A 5xx may be a proxy's, without a problem.
    #[error("Stripe answered {status}{problem}")]
    Answered { status: u16, problem: ApiProblem, is_replayed: bool },
    #[error("Stripe's answer can't be read: {0}")]
    Malformed(String),
    /// The answer is whole, and its object is not as documented: a repetition does not help.
    #[error("Stripe's answer can't be used: {0}")]
    Odd(OddObject),
}

/// What a caller may do after an error. Retries have a jitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// The request may have been executed: send it again with the same idempotency key and equal parameters.
    Repeat,
    /// The request was not executed: send it later, with the same idempotency key.
    RetryLater,
    /// The key is spent: for 24 hours, Stripe repeats what it stored for it. Look whether the object exists. If it does
    /// not, send the request with another key.
    FindThenNewKey,
    /// The same request is refused again.
    Final,
    /// Stripe does not know the object.
    NotFound,
    /// Every request fails until an operator acts. This one was not executed.
    Operator,
}

impl ApiError {
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::InvalidRequest(_) => Remedy::Final,
            Self::Send(SendError::TooManyRequests { .. } | SendError::CircuitOpen) => Remedy::RetryLater,
            Self::Send(_) | Self::Malformed(_) | Self::Odd(_) => Remedy::Repeat,
            Self::Answered { status, problem, .. } => match (status, &*problem.kind, &*problem.code) {
                // A proxy's failure, which Stripe did not store.
                (408, ..) | (500.., "", _) => Remedy::Repeat,
                // Another request with the key, or for the object, is being executed.
                (409, ..) | (_, _, "idempotency_key_in_use" | "lock_timeout") => Remedy::RetryLater,
                // The key was used with other parameters, or the stored answer is a failure.
                (_, "idempotency_error", _) | (500.., ..) => Remedy::FindThenNewKey,
                (401 | 403, ..) => Remedy::Operator,
                (_, _, code) if OF_CONNECTION.contains(&code) => Remedy::Operator,
                (404, ..) => Remedy::NotFound,
                _ => Remedy::Final,
            },
        }
    }

    /// Whether Stripe will never execute a request with this idempotency key, because it repeats a stored failure for it.
    /// A first 5xx is no proof: Stripe may not have stored it, and would execute a repetition.
    pub fn is_spent(&self) -> bool {
        let Self::Answered { problem, is_replayed, .. } = self else { return false };
        self.remedy() == Remedy::FindThenNewKey && (*is_replayed || problem.kind == "idempotency_error")
    }

    /// Whether an operator must act: Stripe refuses the key or the account, or TLS fails.
    pub fn needs_operator(&self) -> bool {
        self.remedy() == Remedy::Operator || matches!(self, Self::Send(SendError::Tls(_)))
    }
}

/// The reasons of a refusal. What the answer lacks is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiProblem {
    /// `invalid_request_error`, `card_error`, `idempotency_error` or `api_error`.
    pub kind: String,
    /// Such as `amount_too_small`.
    pub code: String,
    /// The issuer's reason, such as `insufficient_funds`.
    pub decline_code: String,
    /// The parameter of the request that is refused, such as `expires_at`.
    pub param: String,
    /// Stripe's text. Documents, addresses and keys are masked.
    message: String,
}

impl ApiProblem {
    /// `None`: the body is no error of the API.
    pub(crate) fn parse(body: &[u8]) -> Option<Self> {
        let body: Value = serde_json::from_slice(body).ok()?;
        let error = body.get("error")?;
        let text = |name| safe_text(error.get(name).and_then(Value::as_str).unwrap_or_default());
        let kind = text("type");
        (!kind.is_empty()).then(|| Self {
            kind,
            code: text("code"),
            decline_code: text("decline_code"),
            param: text("param"),
            message: text("message"),
        })
    }
}

impl fmt::Display for ApiProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [&self.kind, &self.code, &self.decline_code, &self.param, &self.message];
        parts.into_iter().filter(|part| !part.is_empty()).try_for_each(|part| write!(f, "; {part}"))
    }
}

/// Returns the beginning of a text, with documents, addresses, keys and secrets masked and control characters removed.
fn safe_text(text: &str) -> String {
    domain::masking::one_line(text.chars().take(MAX_TEXT_CHARS), |run| {
        let secrets = ["@", "sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_", "_secret_"];
        run.len() > MAX_WORD_CHARS || secrets.iter().any(|part| run.contains(part))
    })
}
