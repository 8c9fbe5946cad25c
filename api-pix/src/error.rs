//! Why a request failed.

use std::time::Duration;

use serde_json::Value;

use crate::fields::Fields;

/// The longest text of a problem that is kept, in characters.
const MAX_TEXT_CHARS: usize = 500;

/// The most violations of a problem that are kept.
const MAX_VIOLATIONS: usize = 50;

/// Why a request failed. The texts contain no document, no token and no secret.
///
/// Only some errors say that a write had no effect. After [`Timeout`](Self::Timeout),
/// [`Connection`](Self::Connection), [`Server`](Self::Server), [`RequestTimeout`](Self::RequestTimeout),
/// [`Malformed`](Self::Malformed) and [`Refused`](Self::Refused), the bank may have executed it. Then only a
/// `get_` of the same id shows whether it did.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// The request breaks a rule that every bank has, so it was not sent.
    #[error("not sent: {0}")]
    InvalidRequest(&'static str),
    /// The bank refused the request: a 400, 422 or another 4xx that has no variant of its own.
    #[error("the bank refused the request with {status}{}", .problem.summary())]
    Refused {
        /// The status of the answer.
        status: u16,
        /// The bank's reasons.
        problem: ApiProblem,
    },
    /// The bank does not accept the credentials, or not the new token that it issued for them (401).
    #[error("the bank does not accept the credentials")]
    Unauthorized,
    /// The credentials do not allow the request (403).
    #[error("the bank does not permit the request")]
    Forbidden,
    /// The bank does not know the object that the request is about (404).
    #[error("the bank answered 404")]
    NotFound,
    /// The bank answered 408.
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
    #[error("the bank answered {status}")]
    Server {
        /// The status of the answer.
        status: u16,
    },
    /// The deadline passed before the answer was complete.
    #[error("the bank did not answer in time")]
    Timeout,
    /// The connection failed, for this reason: DNS, TCP, TLS or HTTP.
    #[error("connection failed: {0}")]
    Connection(String),
    /// The bank failed several times in a row, so the request was not sent.
    #[error("not sent: the bank failed several times in a row")]
    CircuitOpen,
    /// The answer can't be read, for this reason.
    #[error("the bank's answer can't be read: {0}")]
    Malformed(String),
}

impl ApiError {
    /// Whether an operator must act: the bank refuses the credentials or the permission (401, 403).
    pub fn needs_operator(&self) -> bool {
        matches!(self, Self::Unauthorized | Self::Forbidden)
    }
}

/// The reasons of a refusal, from `application/problem+json`. Documents in its texts are masked.
///
/// All fields are empty if the answer is not a problem.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiProblem {
    /// The last segment of `type`, such as `CobOperacaoInvalida`.
    pub kind: String,
    /// A short text.
    pub title: String,
    /// A longer text.
    pub detail: String,
    /// The fields that the bank refuses.
    pub violations: Vec<Violation>,
}

/// A field that the bank refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The field, such as `cob.valor.original`.
    pub property: String,
    /// The reason.
    pub reason: String,
}

impl ApiProblem {
    /// Reads a problem tolerantly: what is missing or has another type is empty.
    pub(crate) fn parse(body: &[u8]) -> Self {
        let Ok(Value::Object(fields)) = serde_json::from_slice(body) else {
            return Self::default();
        };
        let fields = Fields::new(&fields);
        let violations = fields.list("violacoes").iter().take(MAX_VIOLATIONS).filter_map(|violation| {
            let violation = Fields::new(violation.as_object()?);
            Some(Violation {
                property: violation.text("propriedade").map(safe_text).unwrap_or_default(),
                reason: violation.text("razao").map(safe_text).unwrap_or_default(),
            })
        });
        Self {
            kind: fields
                .text("type")
                .and_then(|url| url.rsplit('/').next())
                .map(safe_text)
                .unwrap_or_default(),
            title: fields.text("title").map(safe_text).unwrap_or_default(),
            detail: fields.text("detail").map(safe_text).unwrap_or_default(),
            violations: violations.collect(),
        }
    }

    /// Returns the kind and the fields, for the text of an error.
    fn summary(&self) -> String {
        let mut text = String::new();
        for part in
            std::iter::once(&self.kind).chain(self.violations.iter().map(|violation| &violation.property))
        {
            if !part.is_empty() {
                text.push_str(if text.is_empty() { ": " } else { ", " });
                text.push_str(part);
            }
        }
        text
    }
}

/// Returns the beginning of a bank's text, with documents masked and control characters removed.
pub(crate) fn safe_text(text: &str) -> String {
    let text: String = text
        .chars()
        .take(MAX_TEXT_CHARS)
        .map(|c| if domain::text::is_forbidden_in_line(c) { ' ' } else { c })
        .collect();
    mask_documents(&text)
}

/// Replaces what may be a CPF, a CNPJ or a phone number by `***`, also with punctuation.
///
/// A run of digits, capitals and punctuation may be one of them if it has 11 to 14 digits and nothing else,
/// or 14 characters of which the last two are digits. So ids of a Pix, which are longer, remain.
fn mask_documents(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut run = String::new();
    for c in text.chars() {
        if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '/') {
            run.push(c);
        } else {
            push_run(&mut masked, &mut run);
            masked.push(c);
        }
    }
    push_run(&mut masked, &mut run);
    masked
}

fn push_run(masked: &mut String, run: &mut String) {
    masked.push_str(if may_contain_document(run) { "***" } else { run });
    run.clear();
}

fn may_contain_document(run: &str) -> bool {
    // No document has lower-case letters, so they end one.
    run.split(|c: char| c.is_ascii_lowercase()).any(|piece| {
        let characters: Vec<char> = piece.chars().filter(char::is_ascii_alphanumeric).collect();
        let has_only_digits = characters.iter().all(char::is_ascii_digit);
        let ends_as_cnpj = characters.iter().rev().take(2).all(char::is_ascii_digit);
        match characters.len() {
            14 => ends_as_cnpj,
            11..=13 => has_only_digits,
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_in_a_banks_text_are_masked() {
        for (text, expected) in [
            ("CPF 29537995593 inválido", "CPF *** inválido"),
            ("CPF 295.379.955-93.", "CPF ***"),
            ("cpf=29537995593/nome", "cpf=***"),
            ("CNPJ 12ABC34501DE35", "CNPJ ***"),
            ("CNPJ 12.ABC.345/01DE-35", "CNPJ ***"),
            ("chave +5511999990000", "chave +***"),
            ("\"29537995593\"", "\"***\""),
            ("E9999900420261122120000000000001", "E9999900420261122120000000000001"),
            ("O campo cob.valor.original é 10.00", "O campo cob.valor.original é 10.00"),
            ("charge00000000000000000000000001", "charge00000000000000000000000001"),
            ("2026-11-22T12:00:00Z", "2026-11-22T12:00:00Z"),
            ("7d9f0335-8dcc-4054-9bf9-0dbd61d36906", "7d9f0335-8dcc-4054-9bf9-0dbd61d36906"),
        ] {
            assert_eq!(mask_documents(text), expected, "{text}");
        }
    }

    #[test]
    fn a_problem_is_read_tolerantly() {
        let body = br#"{"type": "https://pix.bcb.gov.br/api/v2/error/CobOperacaoInvalida", "title": 5,
            "detail": "CPF 29537995593\n", "violacoes": [7, {"razao": "zero", "propriedade": "cob.valor.original",
            "valor": "29537995593"}], "other": {}}"#;
        let problem = ApiProblem::parse(body);
        assert_eq!(problem.kind, "CobOperacaoInvalida");
        assert_eq!((problem.title.as_str(), problem.detail.as_str()), ("", "CPF *** "));
        assert_eq!(
            problem.violations,
            [Violation { property: "cob.valor.original".to_owned(), reason: "zero".to_owned() }]
        );
        assert_eq!(
            ApiError::Refused { status: 400, problem }.to_string(),
            "the bank refused the request with 400: CobOperacaoInvalida, cob.valor.original"
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
            (ApiError::Server { status: 503 }, "the bank answered 503"),
        ] {
            assert_eq!(error.to_string(), text);
        }
        assert!(ApiError::Unauthorized.needs_operator() && ApiError::Forbidden.needs_operator());
        assert!(!ApiError::NotFound.needs_operator());
    }
}
