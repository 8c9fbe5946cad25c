use domain::ids::EndToEndId;
use domain::med::{AppealReason, CaseKind, CaseNotification, InfractionStatus, NoticeContent, Situation};
use domain::text;
use domain::time::Timestamp;

use shared::http::field::{
    BodyFields, Field, MinorAmount, Parsed, Presence, Refined, Text, Word, bank_id, instant,
};
use shared::http::{Fields, JsonObject, Object, Problem};

shared::fields! {
    NOTICE_ID: Text = "notice_id", Text::one_line(1, 64), Optional, "notice-1",
        "The id of the notification. A repeated id reports the same case again. The default is a new id.";
    TYPE: Word<CaseKind> = "type", Word::ALL, DefaultsTo("med"), "med",
        "The type of the case.";
    REASON: Refined<String> = "reason",
        Text::of(0, 2_000).refined(
            |text| (!text.chars().any(text::is_control_but_whitespace)).then(|| text.to_owned()),
            "must not contain control characters",
        ),
        Optional, "The goods did not arrive.",
        "The reason that the payer alleges. It may contain line breaks. A blank reason counts as absent.";
}

const METHODS: [&str; 5] = ["scam", "unauthorized", "coercion", "invasion", "other"];

shared::fields! {
    METHOD: Word<&str> = "method",
        Word { words: || METHODS.map(|method| (method, method)).to_vec() }, Optional, "scam",
        "The alleged method of the fraud.";
    RESPONSE_DEADLINE: Parsed<Timestamp> = "response_deadline",
        Parsed {
            parse: |text| Timestamp::parse_last(text).ok(),
            ..instant("must be an ISO 8601 date or date-time, such as 2026-11-21 or 2026-11-21T10:00:00.000Z")
        },
        Optional, "2026-12-01T12:00:00.000Z",
        "The time until which the merchant can respond. A date without a time means the last millisecond of that day in São Paulo.";
    AMOUNT: MinorAmount = "amount", MinorAmount, Whole, 1000,
        "The claimed amount, in centavos. The default is the amount of the payment.";
}

pub const SANDBOX_CASE_BODY: BodyFields =
    BodyFields::strict(&[&NOTICE_ID, &TYPE, &REASON, &METHOD, &RESPONSE_DEADLINE, &AMOUNT]);

shared::fields! {
    APPEAL_REASON: Refined<AppealReason> = "reason",
        Text::of(AppealReason::CHARS.0, AppealReason::CHARS.1)
            .refined(AppealReason::parse, "must contain a visible character and no control characters"),
        Required, "The goods were delivered on 3 November.",
        "Why the merchant contests the case. It may contain line breaks.";
}

pub const APPEAL_BODY: BodyFields = BodyFields::open(&[&APPEAL_REASON]);

pub fn case_notification(body: &JsonObject) -> Result<CaseNotification, Problem> {
    let mut fields = Fields::new();
    let root = fields.body(body, SANDBOX_CASE_BODY);
    let notification = CaseNotification {
        kind: fields.read(&root, &TYPE).unwrap_or(CaseKind::Med),
        id: fields.read(&root, &NOTICE_ID),
        reason: reason(&mut fields, &root),
        method: fields.read(&root, &METHOD),
        response_deadline: fields.read(&root, &RESPONSE_DEADLINE),
        amount: fields.read(&root, &AMOUNT),
        reported_at: None,
    };
    fields.finish(Some(notification))
}

fn reason(fields: &mut Fields, root: &Object<'_>) -> Option<String> {
    fields.read(root, &REASON).filter(|reason| !text::is_blank(reason))
}

pub fn appeal_reason(body: &JsonObject) -> Result<AppealReason, Problem> {
    let mut fields = Fields::new();
    let root = fields.body(body, APPEAL_BODY);
    let reason = fields.read(&root, &APPEAL_REASON);
    fields.finish(reason)
}

/// 5 minutes. A time far ahead would make all later notices of the infraction count as older.
const MAX_AHEAD_MS: i64 = 300_000;

/// The states of an infraction (DICT). `None`: closed, with a result.
const STATUSES: [(&str, Option<InfractionStatus>); 4] = [
    ("OPEN", Some(InfractionStatus::Open)),
    ("ACKNOWLEDGED", Some(InfractionStatus::Acknowledged)),
    ("CLOSED", None),
    ("CANCELLED", Some(InfractionStatus::Cancelled)),
];
const RESULTS: [(&str, InfractionStatus); 2] =
    [("AGREED", InfractionStatus::ClosedAgreed), ("DISAGREED", InfractionStatus::ClosedDisagreed)];

shared::fields! {
    /// The Central Bank's ids are UUIDs.
    INFRACTION_ID: Text = "infraction_id",
        Text::one_line(1, 64), Required, "91d65e98-97c0-4b0f-b577-73625da1f9fc",
        "The id of the infraction.";
    END_TO_END_ID: Parsed<EndToEndId> = "end_to_end_id",
        bank_id(), Required, "E1234567820261121100000000000001",
        "The end-to-end id of the contested Pix.";
    STATUS: Word<Option<InfractionStatus>> = "status", Word { words: || STATUSES.to_vec() }, Required, "OPEN",
        "The state of the infraction.";
    ANALYSIS_RESULT: Word<InfractionStatus> = "analysis_result",
        Word { words: || RESULTS.to_vec() }, Optional, "AGREED",
        "The result of a closed infraction. It is required with the status `CLOSED`, and has no effect with any other.";
    SITUATION: Word<Situation> = "situation", Word::ALL, Optional, "SCAM",
        "The situation that the payer's bank reports.";
    REPORTED_AT: Parsed<Timestamp> = "reported_at",
        instant("must be an ISO 8601 date-time, such as 2026-11-21T10:00:00.000Z"),
        Required, "2026-11-21T10:00:00.000Z",
        "The time of the notice, at most five minutes in the future.";
}

const BANK_NOTICE_ID: Field<Text> = Field {
    presence: Presence::Required,
    text: "The id of the notice. A repeated id reports the same notice again.",
    ..NOTICE_ID
};

pub const NOTICE_BODY: BodyFields = BodyFields::open(&[
    &BANK_NOTICE_ID,
    &INFRACTION_ID,
    &END_TO_END_ID,
    &STATUS,
    &ANALYSIS_RESULT,
    &SITUATION,
    &AMOUNT,
    &REASON,
    &RESPONSE_DEADLINE,
    &REPORTED_AT,
]);

pub fn notice_content(body: &JsonObject, now: Timestamp) -> Result<NoticeContent, Problem> {
    let mut fields = Fields::new();
    let root = fields.body(body, NOTICE_BODY);
    let notice_id = fields.read(&root, &BANK_NOTICE_ID);
    let infraction_id = fields.read(&root, &INFRACTION_ID);
    let end_to_end_id = fields.read(&root, &END_TO_END_ID);
    let status = fields.read(&root, &STATUS);
    let is_closed = status == Some(None);
    let result = if is_closed {
        fields.require(&root, &ANALYSIS_RESULT)
    } else {
        fields.read(&root, &ANALYSIS_RESULT)
    };
    let infraction_status = if is_closed { result } else { status.flatten() };
    let situation = fields.read(&root, &SITUATION);
    let amount = fields.read(&root, &AMOUNT);
    let reason = reason(&mut fields, &root);
    let response_deadline = fields.read(&root, &RESPONSE_DEADLINE);
    let reported_at = fields.read(&root, &REPORTED_AT);
    if reported_at.is_some_and(|reported_at| reported_at.millis_since(now) > MAX_AHEAD_MS) {
        fields.reject(REPORTED_AT.name, "must be at most five minutes in the future");
    }
    let content = notice_id.zip(infraction_id).zip(end_to_end_id).zip(infraction_status).zip(reported_at);
    let content =
        content.map(|((((notice_id, infraction_id), end_to_end_id), infraction_status), reported_at)| {
            NoticeContent {
                notice_id,
                infraction_id,
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::object;

    #[test]
    fn a_notice_may_be_dated_five_minutes_ahead() {
        let now: Timestamp = "2026-11-21T10:00:00.000Z".parse().unwrap();
        let read = |reported_at: &str| {
            let body = json!({
                "notice_id": "n-1", "infraction_id": "i-1", "end_to_end_id": "E1", "status": "OPEN",
                "reported_at": reported_at,
            });
            notice_content(&object(&body), now)
        };
        assert_eq!(read("2026-11-21T10:05:00.000Z").unwrap().reported_at, now.plus_seconds(300).unwrap());
        assert!(read("2026-11-21T10:05:00.001Z").is_err());
    }
}
