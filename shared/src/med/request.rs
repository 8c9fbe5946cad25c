//! Validates the notification that opens a case, the notice of an infraction, and the merchant's appeal.

use domain::med::{AppealReason, CaseKind, CaseNotification, InfractionStatus, NoticeContent, Situation};
use domain::text;
use domain::time::Timestamp;
use domain::vocabulary::Vocabulary;

use crate::http::{Fields, JsonObject, JsonValue, Object, Problem};

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
        reported_at: None,
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

/// The longest id of a notice or an infraction, in characters. The Central Bank's ids are UUIDs.
const MAX_INFRACTION_ID_CHARS: usize = 64;

/// How far `reported_at` may be ahead of the service's clock, in milliseconds: 5 minutes. A time far ahead would
/// make all later notices of the infraction count as older.
const MAX_AHEAD_MS: i64 = 300_000;

/// The states of an infraction, and the results of a closed one (DICT).
const STATUSES: [(&str, Option<InfractionStatus>); 4] = [
    ("OPEN", Some(InfractionStatus::Open)),
    ("ACKNOWLEDGED", Some(InfractionStatus::Acknowledged)),
    ("CLOSED", None),
    ("CANCELLED", Some(InfractionStatus::Cancelled)),
];
const RESULTS: [(&str, InfractionStatus); 2] =
    [("AGREED", InfractionStatus::ClosedAgreed), ("DISAGREED", InfractionStatus::ClosedDisagreed)];

/// Reads a notice of a MED infraction: `{notice_id, infraction_id, end_to_end_id, status, analysis_result?,
/// situation?, amount?, reason?, response_deadline?, reported_at}`. `analysis_result` is required with the
/// status `CLOSED`, and ignored with any other.
pub fn notice_content(body: &JsonObject, now: Timestamp) -> Result<NoticeContent, Problem> {
    let mut fields = Fields::new();
    let root = Object::root(body);
    let notice_id = required_line(&mut fields, &root, "notice_id");
    let infraction_id = required_line(&mut fields, &root, "infraction_id");
    let end_to_end_id = root.get("end_to_end_id").and_then(JsonValue::as_str);
    let end_to_end_id = end_to_end_id.and_then(|text| text.parse().ok());
    if end_to_end_id.is_none() {
        fields.reject("end_to_end_id", "must be 1 to 64 letters and digits");
    }
    let status = fields.required_one_of(&root, "status", &STATUSES);
    let infraction_status = match status {
        Some(None) => fields.required_one_of(&root, "analysis_result", &RESULTS),
        Some(status) => status,
        None => None,
    };
    let situation = fields.one_of(&root, "situation", &Situation::vocabulary());
    let amount = fields.optional_amount(&root, "amount");
    let reason = reason(&mut fields, &root);
    let response_deadline = deadline(&mut fields, &root);
    let reported_at = root.get("reported_at").and_then(JsonValue::as_str);
    let reported_at = reported_at.and_then(|text| Timestamp::parse_floor(text).ok());
    match reported_at {
        None => {
            fields.reject("reported_at", "must be an ISO 8601 date-time, such as 2026-11-21T10:00:00.000Z");
        }
        Some(reported_at) if reported_at.millis_since(now) > MAX_AHEAD_MS => {
            fields.reject("reported_at", "must be at most five minutes in the future");
        }
        Some(_) => {}
    }
    let content = notice_id.zip(infraction_id).zip(end_to_end_id).zip(infraction_status).zip(reported_at);
    let content =
        content.map(|((((notice_id, infraction_id), end_to_end_id), infraction_status), reported_at)| {
            NoticeContent {
                notice_id: notice_id.to_owned(),
                infraction_id: infraction_id.to_owned(),
                end_to_end_id,
                infraction_status,
                situation,
                amount,
                reason,
                response_deadline,
                reported_at,
            }
        });
    fields.finish(content)
}

fn required_line<'a>(fields: &mut Fields, root: &Object<'a>, name: &str) -> Option<&'a str> {
    if root.get(name).is_none() {
        fields.reject(name, format!("is required: a string of 1 to {MAX_INFRACTION_ID_CHARS} characters"));
    }
    fields.single_line(root, name, 1, MAX_INFRACTION_ID_CHARS)
}
