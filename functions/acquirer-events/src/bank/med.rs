//! Receives notices of MED infractions from an adapter at the bank. API Pix has no route for infractions, so
//! the format is the service's own.

use acquirer_core::{NoticeView, NotificationView};
use axum::Json;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use domain::med::MedNotice;
use domain::webhook::signature::check_canonical;
use money::med::NoticeOutcome;
use money::med::request::notice_content;
use shared::http::json::parse_object;
use shared::http::{Problem, RawBody, Result};

use super::MAX_BODY_BYTES;
use super::authentication::NotificationSender;

const SIGNATURE: &str = "x-signature";

/// Handles a notice. The response is `{"case": "med_…"}`, or 202 `{}` if the Pix is not credited yet, or if an
/// operator dismissed the notice.
pub(super) async fn receive(
    sender: NotificationSender,
    headers: HeaderMap,
    RawBody(body): RawBody<MAX_BODY_BYTES>,
) -> Result<Response> {
    let NotificationSender { bank, acquirer, now } = sender;
    let source = (acquirer.connection, acquirer.account);
    let secrets = bank.acquirers.signing_secrets(&acquirer.account, acquirer.connection).await?;
    let header = headers.get(SIGNATURE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    check_canonical(header, &body, &secrets, now).map_err(|_| Problem::UnknownSender)?;
    let content = notice_content(&parse_object(&body)?, now)?;
    let notice = MedNotice::received(source, content, now);
    Ok(match bank.cases.receive_notice(notice, now).await? {
        NoticeOutcome::Processed(case) => Json(NoticeView { case }).into_response(),
        NoticeOutcome::Waiting | NoticeOutcome::Dismissed => {
            (StatusCode::ACCEPTED, Json(NotificationView {})).into_response()
        }
    })
}
