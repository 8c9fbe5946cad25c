use std::fmt;
use std::time::Duration;

use acquirer_http::{Health, SendError};
use acquirer_kit::KitError;
use domain::acquirer::OddObject;
use serde_json::Value;

use crate::fields::Fields;

/// The longest text of a problem that is kept, in characters.
const MAX_TEXT_CHARS: usize = 500;

/// The most violations of a problem that are kept.
const MAX_VIOLATIONS: usize = 50;

/// The most parts of a problem in the text of an error.
const MAX_SUMMARY_PARTS: usize = 6;

/// The longest word of a bank's text that is no token, in characters. Ids have at most 35.
const MAX_WORD_CHARS: usize = 40;

/// Why a request failed. The texts contain no document, no token and no secret.
///
/// Only some errors say that a write had no effect. After [`Timeout`](Self::Timeout),
/// [`Connection`](Self::Connection), [`Tls`](Self::Tls), [`Server`](Self::Server),
/// [`RequestTimeout`](Self::RequestTimeout), [`Malformed`](Self::Malformed), [`Odd`](Self::Odd) and
/// [`Refused`](Self::Refused), the bank may have executed it. Then only a `get_` of the same id shows whether it did.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// The request breaks a rule that every bank has, so it was not sent.
    #[error("not sent: {0}")]
    InvalidRequest(&'static str),
    /// The bank refused the request: a 400, 422 or another 4xx that has no variant of its own.
    #[error("the bank refused the request with {status}{}", .problem.summary())]
    Refused { status: u16, problem: ApiProblem },
    /// The bank does not accept the credentials, or not the new token that it issued for them (401). The token
    /// endpoint may also answer another 4xx.
    #[error("the bank does not accept the credentials: it answered {status}{}", .problem.summary())]
    Unauthorized { status: u16, problem: ApiProblem },
    /// The credentials do not allow the request (403).
    #[error("the bank does not permit the request: it answered 403{}", .0.summary())]
    Forbidden(ApiProblem),
    /// The bank does not know the object that the request is about (404).
    #[error("the bank answered 404{}", .0.summary())]
    NotFound(ApiProblem),
    #[error("the bank answered 408")]
    RequestTimeout,
    /// The bank limits requests (429), or the connection's own limit leaves no room before the deadline. The
    /// request was not executed.
    #[error("too many requests; retry after {} s", .retry_after.as_secs_f32().ceil())]
    TooManyRequests {
        /// How long to wait, at most 60 s.
        retry_after: Duration,
    },
    /// The bank failed (5xx).
    #[error("the bank answered {status}{}", .problem.summary())]
    Server { status: u16, problem: ApiProblem },
    #[error("the bank did not answer in time")]
    Timeout,
    /// The connection failed, for this reason: DNS, TCP or HTTP.
    #[error("{0}")]
    Connection(String),
    /// TLS failed, for this reason: the certificate of the bank or of the client is not accepted.
    #[error("{0}")]
    Tls(String),
    /// The bank failed several times in a row, so the request was not sent.
    #[error("not sent: the bank failed several times in a row")]
    CircuitOpen,
    /// The answer can't be read, for this reason.
    #[error("the bank's answer can't be read: {0}")]
    Malformed(String),
    /// The answer is whole, and its object is not as documented: a repetition does not help.
    #[error("the bank's answer can't be used: {0}")]
    Odd(OddObject),
}

impl ApiError {
    /// Whether the error concerns the connection, so that every request fails until an operator acts: the bank
    /// refuses the credentials or the permission (401, 403), or TLS refuses a certificate.
    pub fn needs_operator(&self) -> bool {
        matches!(self, Self::Unauthorized { .. } | Self::Forbidden(_) | Self::Tls(_))
    }
}

/// What an operator does about an error of the connection.
pub const CHECK_CONNECTION: &str = "run `admin accounts check-acquirer`, and correct it with `set-acquirer`";

/// Logs an error that only an operator can mend.
pub fn note_operator_error(error: &ApiError) {
    if error.needs_operator() {
        tracing::error!(%error, "the bank does not accept the connection; {CHECK_CONNECTION}");
    }
}

impl From<ApiError> for KitError {
    fn from(error: ApiError) -> Self {
        note_operator_error(&error);
        match error {
            ApiError::TooManyRequests { retry_after } => Self::Limited(retry_after),
            ApiError::Odd(odd) => Self::Odd(odd),
            error => Self::Unavailable(error.to_string()),
        }
    }
}

impl From<SendError> for ApiError {
    fn from(error: SendError) -> Self {
        match error {
            SendError::TooManyRequests { retry_after } => Self::TooManyRequests { retry_after },
            SendError::CircuitOpen => Self::CircuitOpen,
            SendError::Timeout => Self::Timeout,
            SendError::Connection(reason) => Self::Connection(reason),
            SendError::Tls(reason) => Self::Tls(reason),
            SendError::TooLarge => Self::Malformed("larger than 8 MiB".to_owned()),
        }
    }
}

pub(crate) fn health(error: Option<&ApiError>) -> Health {
    match error {
        Some(ApiError::Timeout | ApiError::Connection(_) | ApiError::Tls(_) | ApiError::Server { .. }) => {
            Health::Fails
        }
        Some(ApiError::TooManyRequests { .. } | ApiError::CircuitOpen | ApiError::InvalidRequest(_)) => {
            Health::Unknown
        }
        None
        | Some(
            ApiError::Refused { .. }
            | ApiError::Unauthorized { .. }
            | ApiError::Forbidden(_)
            | ApiError::NotFound(_)
            | ApiError::RequestTimeout
            | ApiError::Malformed(_)
            | ApiError::Odd(_),
        ) => Health::Works,
    }
}

/// The reasons of a refusal, from `application/problem+json`, from an `OAuth2` error, or from a bank's own format.
/// Documents, Pix keys and tokens in its texts are masked.
///
/// All fields are empty if the answer has none of these forms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiProblem {
    /// The last segment of `type`, such as `CobOperacaoInvalida`, or the code of the error.
    pub kind: String,
    pub title: String,
    pub detail: String,
    pub violations: Vec<Violation>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The field, such as `cob.valor.original`.
    pub property: String,
    pub reason: String,
}

/// The names of the code, the text, the list of refused fields, and in the list of the field and its reason. The
/// first name is that of the Central Bank's document, if it has one. The others are those of `OAuth2` (RFC 6749,
/// section 5.2) and of banks that answer in a format of their own.
const CODE: [&str; 3] = ["error", "codigo", "code"];
const TEXT: [&str; 4] = ["detail", "error_description", "mensagem", "message"];
const VIOLATIONS: [&str; 3] = ["violacoes", "erros", "errors"];
const PROPERTY: [&str; 4] = ["propriedade", "campo", "caminho", "field"];
const REASON: [&str; 3] = ["razao", "mensagem", "message"];

/// What a text about the Pix key or the credentials contains, in lower case.
const ABOUT_CONNECTION: [&str; 5] = ["chave", "certificado", "token", "escopo", "scope"];

/// What a text about a cob itself contains, in lower case.
const ABOUT_COB: [&str; 9] =
    ["valor", "devedor", "cpf", "cnpj", "nome", "expira", "solicita", "txid", "documento"];

impl ApiProblem {
    /// Reads a problem tolerantly: what is missing or has another type is empty.
    pub(crate) fn parse(body: &[u8]) -> Self {
        let Ok(Value::Object(fields)) = serde_json::from_slice(body) else {
            return Self::default();
        };
        let fields = Fields::new(&fields);
        let first = |fields: &Fields<'_>, names: &[&str]| {
            names.iter().find_map(|name| fields.text(name)).map(safe_text).unwrap_or_default()
        };
        let violations = VIOLATIONS.iter().flat_map(|name| fields.list(name)).take(MAX_VIOLATIONS);
        let violations = violations.filter_map(|violation| {
            let violation = Fields::new(violation.as_object()?);
            Some(Violation { property: first(&violation, &PROPERTY), reason: first(&violation, &REASON) })
        });
        let kind = fields.text("type").and_then(|url| url.rsplit('/').next()).map(safe_text);
        Self {
            kind: kind.unwrap_or_else(|| first(&fields, &CODE)),
            title: first(&fields, &["title"]),
            detail: first(&fields, &TEXT),
            violations: violations.collect(),
        }
    }

    /// Whether the refusal of a cob concerns the connection and not the cob: it names the Pix key or the
    /// credentials, or nothing of the cob. Every cob is then refused until an operator acts.
    pub fn concerns_connection(&self) -> bool {
        let names_field = self.violations.iter().any(|violation| !violation.property.is_empty());
        self.names_key() || !(names_field || self.says(&ABOUT_COB))
    }

    /// Whether a field or, if no field is named, a text is about the Pix key or the credentials.
    pub fn names_key(&self) -> bool {
        let is_key = |violation: &Violation| {
            violation.property.split(|c: char| !c.is_ascii_alphanumeric()).any(|part| part == "chave")
        };
        if self.violations.iter().any(|violation| !violation.property.is_empty()) {
            return self.violations.iter().any(is_key);
        }
        self.says(&ABOUT_CONNECTION)
    }

    fn says(&self, words: &[&str]) -> bool {
        let reasons = self.violations.iter().map(|violation| &violation.reason);
        [&self.kind, &self.title, &self.detail].into_iter().chain(reasons).any(|text| {
            let text = text.to_lowercase();
            words.iter().any(|word| text.contains(word))
        })
    }

    /// Returns the bank's reasons as a merchant reads them. `None`: it gave none.
    pub fn reason(&self) -> Option<String> {
        let reasons = self.violations.iter().map(|violation| violation.reason.as_str());
        let reasons: Vec<&str> = reasons.filter(|reason| !reason.is_empty()).collect();
        let text = [reasons.join(" "), self.detail.clone(), self.title.clone()];
        text.into_iter().find(|text| !text.trim().is_empty())
    }

    /// Returns what the bank said, for the end of the text of an error.
    fn summary(&self) -> String {
        let text = self.to_string();
        if text.is_empty() { text } else { format!(": {text}") }
    }
}

impl fmt::Display for ApiProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = if self.detail.is_empty() { self.title.as_str() } else { "" };
        let violations = self.violations.iter().map(|Violation { property, reason }| {
            let separator = if property.is_empty() || reason.is_empty() { "" } else { " " };
            format!("{property}{separator}{reason}")
        });
        let parts = [&self.kind, title, &self.detail].map(str::to_owned).into_iter().chain(violations);
        let parts: Vec<String> = parts.filter(|part| !part.is_empty()).take(MAX_SUMMARY_PARTS).collect();
        f.write_str(&parts.join("; "))
    }
}

/// Returns the beginning of a bank's text, with documents, Pix keys and tokens masked and control characters
/// removed.
pub(crate) fn safe_text(text: &str) -> String {
    domain::masking::one_line(text.chars().take(MAX_TEXT_CHARS), is_key_or_token)
}

/// Whether a run of letters, digits and punctuation may be a Pix key, other than a document, or a token.
fn is_key_or_token(run: &str) -> bool {
    let is_phone = (12..=13).contains(&run.len()) && run.starts_with("55") && run.parse::<u64>().is_ok();
    let is_long = run.split('/').any(|part| part.len() > MAX_WORD_CHARS);
    is_long || is_phone || run.contains('@') || is_random_key(run)
}

/// Whether a run is a random Pix key: a UUID, perhaps at the end of a sentence.
fn is_random_key(run: &str) -> bool {
    let parts = run
        .trim_end_matches('.')
        .split('-')
        .map(|part| part.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(part.len()));
    parts.eq([8, 4, 4, 4, 12].map(Some))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_keys_and_tokens_in_a_banks_text_are_masked() {
        for (text, expected) in [
            ("CPF 29537995593 inválido", "CPF ***.379.955-** inválido"),
            ("chave +5511999990000", "chave +***"),
            ("A chave 7d9f0335-8dcc-4054-9bf9-0dbd61d36906.", "A chave ***"),
            ("chave:pix@loja.example", "chave:***"),
            ("Bearer eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.e30.c2ln", "Bearer ***"),
            ("invalid_client", "invalid_client"),
        ] {
            assert_eq!(safe_text(text), expected, "{text}");
        }
    }

    #[test]
    fn a_problem_is_read_tolerantly() {
        let body = br#"{"type": "https://pix.bcb.gov.br/api/v2/error/CobOperacaoInvalida", "title": 5,
            "detail": "CPF 29537995593\n", "violacoes": [7, {"razao": "zero", "propriedade": "cob.valor.original",
            "valor": "29537995593"}], "other": {}}"#;
        let problem = ApiProblem::parse(body);
        assert_eq!(problem.kind, "CobOperacaoInvalida");
        assert_eq!((problem.title.as_str(), problem.detail.as_str()), ("", "CPF ***.379.955-** "));
        assert_eq!(
            problem.violations,
            [Violation { property: "cob.valor.original".to_owned(), reason: "zero".to_owned() }]
        );
        assert_eq!(
            ApiError::Refused { status: 400, problem }.to_string(),
            "the bank refused the request with 400: CobOperacaoInvalida; CPF ***.379.955-** ; cob.valor.original zero"
        );
        for body in [&b""[..], b"[]", b"<html>", b"{\"violacoes\": 7}", b"\xff"] {
            assert_eq!(ApiProblem::parse(body), ApiProblem::default());
        }
    }

    #[test]
    fn the_texts_of_errors_are_plain() {
        for (error, text) in [
            (
                ApiError::Refused { status: 422, problem: ApiProblem::default() },
                "the bank refused the request with 422",
            ),
            (
                ApiError::TooManyRequests { retry_after: Duration::from_millis(1_500) },
                "too many requests; retry after 2 s",
            ),
            (ApiError::Server { status: 503, problem: ApiProblem::default() }, "the bank answered 503"),
            (
                ApiError::Unauthorized {
                    status: 400,
                    problem: problem(
                        r#"{"error": "invalid_client", "error_description": "Client authentication failed"}"#,
                    ),
                },
                "the bank does not accept the credentials: it answered 400: invalid_client; Client authentication failed",
            ),
            (
                ApiError::Forbidden(problem(r#"{"codigo": "E7", "erros": [{"mensagem": "sem escopo"}]}"#)),
                "the bank does not permit the request: it answered 403: E7; sem escopo",
            ),
        ] {
            assert_eq!(error.to_string(), text);
        }
        assert!(ApiError::Tls("the bank's certificate is expired".to_owned()).needs_operator());
        assert!(!ApiError::NotFound(ApiProblem::default()).needs_operator());
    }

    #[test]
    fn a_refusal_of_the_key_or_of_the_credentials_concerns_the_connection() {
        for (body, expected) in [
            (r#"{"violacoes": [{"propriedade": "cob.chave", "razao": "conta de outro"}]}"#, true),
            (r#"{"violacoes": [{"propriedade": "valor"}, {"propriedade": "chave"}]}"#, true),
            (r#"{"violacoes": [{"propriedade": "cob.devedor.cpf", "razao": "chave inválida"}]}"#, false),
            (r#"{"codigo": "4001", "mensagem": "Chave Pix não encontrada"}"#, true),
            (r#"{"erros": [{"mensagem": "Certificado revogado"}]}"#, true),
            (r#"{"erros": [{"campo": "valor.original", "mensagem": "inválido"}]}"#, false),
            (r#"{"mensagem": "CPF inválido"}"#, false),
            (r#"{"codigo": "E4", "mensagem": "Valor acima do limite"}"#, false),
            (r#"{"codigo": "4001", "mensagem": "Recebedor inválido"}"#, true),
            ("", true),
        ] {
            assert_eq!(problem(body).concerns_connection(), expected, "{body}");
        }
    }

    #[test]
    fn the_reason_of_a_refusal_is_what_the_bank_said() {
        for (body, expected) in [
            (r#"{"title": "t", "detail": "d", "violacoes": [{"razao": "a"}, {"razao": "b"}]}"#, Some("a b")),
            (r#"{"title": "t", "detail": "d", "violacoes": [{"propriedade": "cob"}]}"#, Some("d")),
            (r#"{"title": "t"}"#, Some("t")),
            ("{}", None),
        ] {
            assert_eq!(problem(body).reason().as_deref(), expected, "{body}");
        }
    }

    fn problem(body: &str) -> ApiProblem {
        ApiProblem::parse(body.as_bytes())
    }
}
