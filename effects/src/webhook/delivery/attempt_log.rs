//! The log of a delivery's attempts, which is a list in the delivery's row. The claim appends the beginning of an attempt,
//! and the update that ends the attempt writes the rest. So the log costs no further request. An entry without an end
//! belongs to an attempt whose worker died, unless it is the last one and the attempt still runs.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use domain::time::Timestamp;
use domain::webhook::failure::{AttemptFailure, FailureCode};

use super::{Delivery, DeliveryStatus};

/// How many failed attempts have the text of their answer. That of the last one is the row's `last_response_body`.
const TEXTS: usize = 3;

/// How much of the text of an answer an entry has, in bytes.
const MAX_TEXT_BYTES: usize = 256;

/// An attempt in the log. The names are short, because they are in each of up to 15 entries of a row.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct LoggedAttempt {
    #[serde(rename = "t", with = "domain::time::millis")]
    pub started_at: Timestamp,
    /// `None`: the attempt has not ended.
    #[serde(rename = "d")]
    duration_ms: Option<u32>,
    #[serde(rename = "s")]
    status_code: Option<u16>,
    /// `None`: the status code says it.
    #[serde(rename = "f")]
    failure: Option<AttemptFailure>,
    /// The beginning of the answer.
    #[serde(rename = "b")]
    text: Option<String>,
}

impl LoggedAttempt {
    pub(super) fn begun(started_at: Timestamp) -> Self {
        let (duration_ms, status_code, failure, text) = Default::default();
        Self { started_at, duration_ms, status_code, failure, text }
    }

    fn failure(&self) -> Option<AttemptFailure> {
        self.failure.clone().or(match self.status_code {
            None | Some(200..=299) => None,
            Some(code @ 300..=399) => Some(AttemptFailure::Redirected(code)),
            Some(code) => Some(AttemptFailure::Answered(code)),
        })
    }
}

impl Delivery {
    /// Returns the log after the claimed attempt has ended. `ended`: its status code and failure; `None`: no request was
    /// sent, so it was no attempt.
    pub(super) fn log_after(
        &self,
        ended: Option<(Option<u16>, Option<AttemptFailure>)>,
        took: Duration,
    ) -> Vec<LoggedAttempt> {
        let mut log = self.attempt_log.clone();
        let Some(claimed) = log.pop() else { return log };
        // After the last attempt, a claim only ends the delivery.
        let Some((status_code, failure)) = ended.filter(|_| self.attempts <= self.max_attempts) else {
            return log;
        };
        // The row forgets the text of the attempt before.
        if let Some(before) = log.iter_mut().rfind(|attempt| attempt.duration_ms.is_some()) {
            before.text = self.last_response_body.as_deref().map(beginning).map(str::to_owned);
        }
        let is_said_by_status = |failure: &AttemptFailure| {
            matches!(failure, AttemptFailure::Answered(_) | AttemptFailure::Redirected(_))
        };
        let duration_ms = Some(u32::try_from(took.as_millis()).unwrap_or(u32::MAX));
        let failure = failure.filter(|failure| !is_said_by_status(failure));
        log.push(LoggedAttempt { duration_ms, status_code, failure, ..claimed });
        let failed = log.iter_mut().rev().filter(|attempt| attempt.failure().is_some());
        failed.skip(TEXTS).for_each(|attempt| attempt.text = None);
        log
    }

    /// Returns the attempts, oldest first.
    pub fn attempts_made(&self) -> Vec<AttemptView<'_>> {
        let log = &self.attempt_log;
        let last_ended = log.iter().rposition(|attempt| attempt.duration_ms.is_some());
        let running = log.len().checked_sub(1).filter(|_| self.status == DeliveryStatus::Processing);
        let most = usize::try_from(self.max_attempts).unwrap_or(usize::MAX);
        let views = log.iter().enumerate().take(most).map(|(index, attempt)| {
            let has_ended = attempt.duration_ms.is_some();
            let died = || (Some(index) != running).then_some(AttemptFailure::CutShort);
            let failure = if has_ended { attempt.failure() } else { died() };
            let of_row = self.last_response_body.as_deref().filter(|_| Some(index) == last_ended);
            let text = attempt.text.as_deref().or(of_row.map(beginning));
            AttemptView {
                number: u32::try_from(index).unwrap_or(u32::MAX).saturating_add(1),
                status: match failure {
                    Some(_) => AttemptStatus::Failed,
                    None if has_ended => AttemptStatus::Succeeded,
                    None => AttemptStatus::Running,
                },
                started_at: attempt.started_at,
                duration_ms: attempt.duration_ms,
                status_code: attempt.status_code,
                error_code: failure.as_ref().map(AttemptFailure::code),
                error: failure.as_ref().map(ToString::to_string),
                response_body: text.filter(|text| !text.is_empty()),
                failure,
            }
        });
        views.collect()
    }
}

/// Ends at the end of a character.
fn beginning(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_TEXT_BYTES)).unwrap_or_default()
}

#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
#[schemars(rename = "WebhookAttemptStatus", description = "The status of an attempt.")]
pub enum AttemptStatus {
    /// The receiver has not answered yet.
    Running,
    /// The receiver answered 2xx.
    Succeeded,
    /// See `errorCode`.
    Failed,
}

/// An attempt of a delivery.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
#[schemars(rename = "WebhookDeliveryAttempt")]
#[serde(rename_all = "camelCase")]
pub struct AttemptView<'a> {
    /// Counts from 1.
    pub number: u32,
    /// Whether it succeeded.
    pub status: AttemptStatus,
    /// When it began.
    pub started_at: Timestamp,
    /// How long the receiver took, in milliseconds. `null` while the attempt runs, and if it was interrupted.
    pub duration_ms: Option<u32>,
    /// The HTTP status of the response. `null` if there was none.
    pub status_code: Option<u16>,
    /// The kind of the failure. `null` if there was none.
    pub error_code: Option<FailureCode>,
    /// Why it failed. `null` if it did not.
    pub error: Option<String>,
    /// The first 256 bytes of the response's body, of the last three failures. `null` for others, and if there was none.
    pub response_body: Option<&'a str>,
    #[serde(skip)]
    pub failure: Option<AttemptFailure>,
}

/// The attempts of a delivery, oldest first.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "WebhookDeliveryAttemptList")]
pub struct AttemptListView<'a> {
    /// All attempts: 15 at most.
    pub data: Vec<AttemptView<'a>>,
}

#[cfg(test)]
mod tests {
    use super::super::testing::delivery;
    use super::*;
    use crate::charge_testing::at;
    use crate::webhook::endpoint::testing::endpoint;

    type Ended = (Option<u16>, Option<AttemptFailure>);

    /// The delivery after claims and their ends; the second part is the body of the answer. `None`: the worker died.
    fn after(attempts: &[Option<(Option<Ended>, &str)>]) -> Delivery {
        let mut row = delivery(&[endpoint()], at(0));
        for (second, attempt) in (0..).zip(attempts) {
            row.attempts += 1;
            row.status = DeliveryStatus::Processing;
            row.attempt_log.push(LoggedAttempt::begun(at(second)));
            let Some((ended, body)) = attempt else { continue };
            row.attempt_log = row.log_after(ended.clone(), Duration::from_millis(7));
            match ended {
                Some(_) => row.last_response_body = Some((*body).to_owned()),
                None => row.attempts -= 1,
            }
            row.status = DeliveryStatus::Pending;
        }
        row
    }

    fn answered(code: u16) -> Ended {
        (Some(code), (code != 200).then_some(AttemptFailure::Answered(code)))
    }

    #[test]
    fn the_last_three_failures_have_the_beginning_of_their_answers() {
        let long = "é".repeat(300);
        let timeout = Some((None, Some(AttemptFailure::Timeout(Duration::from_secs(30)))));
        let row = after(&[
            Some((Some(answered(500)), "one")),
            Some((Some(answered(503)), &long)),
            Some((None, "")),
            Some((timeout, "")),
            None,
            Some((Some(answered(404)), "four")),
            None,
        ]);
        let views = row.attempts_made();
        let shown: Vec<_> =
            views.iter().map(|view| (view.number, view.error_code, view.status_code)).collect();
        assert_eq!(
            shown,
            [
                (1, Some(FailureCode::Http5xx), Some(500)),
                (2, Some(FailureCode::Http5xx), Some(503)),
                (3, Some(FailureCode::Timeout), None),
                (4, Some(FailureCode::Interrupted), None),
                (5, Some(FailureCode::Http4xx), Some(404)),
                (6, None, None),
            ],
            "the postponed one is no attempt"
        );
        let texts: Vec<_> = views.iter().map(|view| view.response_body.map(str::len)).collect();
        assert_eq!(texts, [None, Some(256), None, None, Some(4), None]);
        assert_eq!((views[5].status, views[3].duration_ms), (AttemptStatus::Running, None));
        assert_eq!((views[0].started_at, views[4].started_at), (at(0), at(5)));
    }

    #[test]
    fn a_claim_after_the_last_attempt_is_no_attempt() {
        let failed = [const { None }; 15];
        let mut row = after(&failed);
        assert_eq!(row.attempts_made().len(), 15);
        row.attempts += 1;
        row.attempt_log.push(LoggedAttempt::begun(at(99)));
        row.attempt_log = row.log_after(Some((None, Some(AttemptFailure::CutShort))), Duration::ZERO);
        row.status = DeliveryStatus::Failed;
        let views = row.attempts_made();
        assert_eq!(views.len(), 15);
        assert!(views.iter().all(|view| view.error_code == Some(FailureCode::Interrupted)));
    }

    #[test]
    fn a_delivery_taken_at_once_has_a_short_log() {
        let row = after(&[Some((Some(answered(200)), ""))]);
        let views = row.attempts_made();
        assert_eq!((views[0].status, views[0].duration_ms), (AttemptStatus::Succeeded, Some(7)));
        let log = serde_json::to_string(&row.attempt_log).unwrap();
        assert_eq!(log, r#"[{"t":1795262400000,"d":7,"s":200}]"#);
    }
}
