//! What opens a case, and what a merchant answers.

use domain::money::Amount;
use domain::text;
use domain::time::Timestamp;
use domain::vocabulary::Vocabulary;

use super::CaseKind;
use crate::http::{Fields, JsonObject, Object, Problem};

/// Characters of an appeal (contract: Limits).
const APPEAL_CHARS: (usize, usize) = (5, 2_000);

/// The longest alleged reason, in characters.
const MAX_REASON_CHARS: usize = 2_000;

/// Characters of a notice's own name.
const NOTICE_ID_CHARS: (usize, usize) = (1, 64);

/// What is said to have happened (contract: `metadata.med`).
const METHODS: [&str; 5] = ["scam", "unauthorized", "coercion", "invasion", "other"];

/// A payer's bank contests a payment.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CaseNotice {
    /// Its own name: told again under it, it is one case.
    pub id: Option<String>,
    /// What the case is.
    pub kind: CaseKind,
    /// What the payer alleges.
    pub reason: Option<String>,
    /// What is said to have happened.
    pub method: Option<&'static str>,
    /// Until when to answer.
    pub response_deadline: Option<Timestamp>,
    /// Claimed; `None`: the charge's whole amount.
    pub amount: Option<Amount>,
}

impl CaseNotice {
    /// Reads what the sandbox is told: `{notice_id?, type?, reason?, method?, response_deadline?, amount?}`.
    pub fn parse(body: &JsonObject) -> Result<Self, Problem> {
        let mut fields = Fields::new();
        let root = Object::root(body);
        let kind = fields.word(&root, "type", &CaseKind::vocabulary());
        let methods = METHODS.map(|method| (method, method));
        let (min, max) = NOTICE_ID_CHARS;
        let notice = Self {
            id: fields.line(&root, "notice_id", min, max).map(str::to_owned),
            kind: kind.unwrap_or(CaseKind::Med),
            reason: reason(&mut fields, &root),
            method: fields.word(&root, "method", &methods),
            response_deadline: deadline(&mut fields, &root),
            amount: fields.optional_amount(&root, "amount"),
        };
        fields.finish(Some(notice))
    }
}

fn reason(fields: &mut Fields, root: &Object<'_>) -> Option<String> {
    let reason = fields.text(root, "reason", 0, MAX_REASON_CHARS)?;
    if reason.chars().any(is_unprintable) {
        fields.reject("reason", "must not have control characters");
    }
    Some(reason.to_owned()).filter(|reason| !text::is_blank(reason))
}

fn deadline(fields: &mut Fields, root: &Object<'_>) -> Option<Timestamp> {
    let value = root.get("response_deadline")?;
    let parsed = value.as_str().and_then(|text| Timestamp::parse_floor(text).ok());
    if parsed.is_none() {
        fields.reject("response_deadline", "must be an ISO 8601 date or date-time");
    }
    parsed
}

fn is_unprintable(character: char) -> bool {
    character.is_control() && !matches!(character, '\n' | '\r' | '\t')
}

/// A merchant's appeal: 5 to 2,000 characters.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AppealReason(String);

impl AppealReason {
    /// Reads `{reason}`.
    pub fn parse(body: &JsonObject) -> Result<Self, Problem> {
        let mut fields = Fields::new();
        let root = Object::root(body);
        let (min, max) = APPEAL_CHARS;
        if root.get("reason").is_none() {
            fields.reject("reason", "is required");
        }
        let reason = fields.text(&root, "reason", min, max);
        // There is one appeal: what says nothing must not use it up.
        if reason.is_some_and(|reason| text::is_blank(reason) || reason.chars().any(is_unprintable)) {
            fields.reject("reason", "must not be blank, nor have control characters");
        }
        fields.finish(reason.map(|text| Self(text.to_owned())))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
