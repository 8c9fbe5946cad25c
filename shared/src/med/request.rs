//! Validates the notification that opens a case, and the merchant's appeal.

use domain::med::{AppealReason, CaseKind, CaseNotification};
use domain::text;
use domain::time::Timestamp;
use domain::vocabulary::Vocabulary;

use crate::http::{Fields, JsonObject, Object, Problem};

/// The longest reason that the payer alleges, in characters.
const MAX_REASON_CHARS: usize = 2_000;

/// The shortest and the longest `notice_id`, in characters.
const NOTIFICATION_ID_CHARS: (usize, usize) = (1, 64);

/// The alleged fraud methods (contract: `metadata.med`).
const METHODS: [&str; 5] = ["scam", "unauthorized", "coercion", "invasion", "other"];

/// Reads the body of the sandbox request that opens a case: `{notice_id?, type?, reason?, method?,
/// response_deadline?, amount?}`.
pub fn case_notification(body: &JsonObject) -> Result<CaseNotification, Problem> {
    let mut fields = Fields::new();
    let root = Object::root(body);
    let kind = fields.one_of(&root, "type", &CaseKind::vocabulary());
    let methods = METHODS.map(|method| (method, method));
    let (min, max) = NOTIFICATION_ID_CHARS;
    let notification = CaseNotification {
        id: fields.single_line(&root, "notice_id", min, max).map(str::to_owned),
        kind: kind.unwrap_or(CaseKind::Med),
        reason: reason(&mut fields, &root),
        method: fields.one_of(&root, "method", &methods),
        response_deadline: deadline(&mut fields, &root),
        amount: fields.optional_amount(&root, "amount"),
    };
    fields.finish(Some(notification))
}

fn reason(fields: &mut Fields, root: &Object<'_>) -> Option<String> {
    let reason = fields.text(root, "reason", 0, MAX_REASON_CHARS)?;
    if reason.chars().any(text::is_control_but_whitespace) {
        fields.reject("reason", "must not contain control characters");
    }
    Some(reason.to_owned()).filter(|reason| !text::is_blank(reason))
}

fn deadline(fields: &mut Fields, root: &Object<'_>) -> Option<Timestamp> {
    let value = root.get("response_deadline")?;
    let parsed = value.as_str().and_then(|text| Timestamp::parse_floor(text).ok());
    if parsed.is_none() {
        fields.reject(
            "response_deadline",
            "must be an ISO 8601 date or date-time, such as 2026-11-21 or 2026-11-21T10:00:00.000Z",
        );
    }
    parsed
}

/// Reads the body of a merchant's appeal: `{reason}`, 5 to 2,000 characters.
pub fn appeal_reason(body: &JsonObject) -> Result<AppealReason, Problem> {
    let mut fields = Fields::new();
    let root = Object::root(body);
    let (min, max) = AppealReason::CHARS;
    let text = fields.required_text(&root, "reason", min, max);
    let reason = text.and_then(AppealReason::parse);
    if text.is_some() && reason.is_none() {
        fields.reject("reason", "must contain a visible character and no control characters");
    }
    fields.finish(reason)
}
