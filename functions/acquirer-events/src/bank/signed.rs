//! Notifications that acquirers sign, as their kind says. A notification only names a charge, which `acquirer-worker` then
//! reads. One that is lost is found by the sweep.

use acquirer_core::configuration::AccountAcquirer;
use acquirer_core::{AcquirerMessage, NotVerified, NotificationView, Notified, Signed};
use axum::Json;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use domain::charge::Charge;
use domain::ids::{ChargeId, Mode, Scope};
use domain::time::Timestamp;
use secrecy::SecretString;
use shared::http::{Problem, RawBody, Result};
use shared::metrics;
use shared::store::StoreError;

use super::authentication::{NotificationSender, refused};
use super::{BankNotifications, MAX_BODY_BYTES};

/// An event about an object of another system, or about a charge that the connection does not have, is answered 200
/// and ignored.
pub(super) async fn receive(
    sender: NotificationSender,
    headers: HeaderMap,
    RawBody(body): RawBody<MAX_BODY_BYTES>,
) -> Result<Response> {
    let NotificationSender { bank, acquirer, now } = sender;
    let secrets = bank.acquirers.signing_secrets(&acquirer.account, acquirer.connection).await?;
    let event = verified(&acquirer, (&headers, &body), &secrets, now)?;
    if event.is_foreign {
        tracing::error!(connection = %acquirer.connection, event = event.id, "an event is of another account or mode");
        return Ok(Json(NotificationView {}).into_response());
    }
    if let Some(charge) = charge_of(&bank, &acquirer, &event).await? {
        let read = if event.is_contested { AcquirerMessage::ReadWhole } else { AcquirerMessage::Read };
        bank.queue
            .send_later(&read(charge), std::time::Duration::ZERO)
            .await
            .map_err(|error| Problem::Unavailable(format!("a notification can't be queued: {error}")))?;
    }
    Ok(Json(NotificationView {}).into_response())
}

fn verified(
    acquirer: &AccountAcquirer,
    (headers, body): (&HeaderMap, &[u8]),
    secrets: &[SecretString],
    now: Timestamp,
) -> Result<Notified> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let signed = Signed { header: &header, body, secrets, base_url: &acquirer.settings.base_url, now };
    acquirer.settings.verify(&signed).map_err(|error| match error {
        NotVerified::Unsigned => Problem::UnknownSender,
        NotVerified::Refused(_) => refused(acquirer, error),
    })
}

/// The charge that the event names, or the one that the payment it names has paid, if it was created at this connection.
async fn charge_of(
    bank: &BankNotifications,
    acquirer: &AccountAcquirer,
    event: &Notified,
) -> Result<Option<ChargeId>, StoreError> {
    let scope = Scope { account: acquirer.account, mode: Mode::Live };
    let mut named = event.charge;
    if let (None, Some(payment)) = (named, &event.payment) {
        let incoming = bank.charges.find_payment(&scope, payment).await?;
        named = incoming.and_then(|incoming| incoming.charge_id());
    }
    let stored = bank.charges.find(named).await?;
    let is_its = |charge: &Charge| charge.scope == scope && charge.uses(acquirer.connection);
    let is_known = stored.is_some_and(|stored| is_its(stored.as_stored()));
    if named.is_some() && !is_known {
        tracing::info!(connection = %acquirer.connection, event = event.id, "an event names a charge that the connection does not have");
        metrics::increment(metrics::EVENTS_IGNORED);
    }
    Ok(named.filter(|_| is_known))
}
