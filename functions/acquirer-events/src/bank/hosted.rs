//! Notifications of acquirers with a page of their own, signed by the acquirer. A notification only names a charge, which
//! `acquirer-worker` then reads. One that is lost is found by the sweep.

use acquirer_core::configuration::{AccountAcquirer, KindSettings};
use acquirer_core::{AcquirerMessage, NotificationView};
use axum::Json;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use domain::charge::Charge;
use domain::ids::{AcquirerPaymentId, ChargeId, Mode, Scope};
use shared::http::{Problem, RawBody, Result};
use shared::metrics;
use shared::store::StoreError;
use stripe_client::{Event, verify};

use super::authentication::{NotificationSender, refused};
use super::{BankNotifications, MAX_BODY_BYTES};

const SIGNATURE: &str = "stripe-signature";

/// An event about an object of another system, or about a charge that the connection does not have, is answered 200
/// and ignored.
pub(super) async fn receive(
    sender: NotificationSender,
    headers: HeaderMap,
    RawBody(body): RawBody<MAX_BODY_BYTES>,
) -> Result<Response> {
    let NotificationSender { bank, acquirer, now } = sender;
    let KindSettings::Stripe(settings) = &acquirer.settings.kind else {
        return Err(Problem::UnknownSender);
    };
    let secrets = bank.acquirers.signing_secrets(&acquirer.account, acquirer.connection).await?;
    let header = headers.get(SIGNATURE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let event = verify(header, &body, &secrets, now).map_err(|error| refused(&acquirer, error))?;
    let is_own_account =
        event.account.as_ref().is_none_or(|account| account == settings.stripe_account.as_str());
    // A test key is accepted at a stand-in alone.
    let is_own_mode = event.livemode || acquirer.settings.base_url.is_loopback();
    if !is_own_account || !is_own_mode {
        tracing::error!(connection = %acquirer.connection, event = event.id, "an event is of another account or mode");
        return Ok(Json(NotificationView {}).into_response());
    }
    if let Some(charge) = charge_of(&bank, &acquirer, &event).await? {
        let read = if event.object.is_contested { AcquirerMessage::ReadWhole } else { AcquirerMessage::Read };
        bank.queue
            .send_later(&read(charge), std::time::Duration::ZERO)
            .await
            .map_err(|error| Problem::Unavailable(format!("a notification can't be queued: {error}")))?;
    }
    Ok(Json(NotificationView {}).into_response())
}

/// The charge in the metadata of the event's object, or the one that the payment it names has paid, if it was created
/// at this connection.
async fn charge_of(
    bank: &BankNotifications,
    acquirer: &AccountAcquirer,
    event: &Event,
) -> Result<Option<ChargeId>, StoreError> {
    let scope = Scope { account: acquirer.account, mode: Mode::Live };
    let mut named = event.object.metadata.0.get("charge").and_then(|charge| charge.parse().ok());
    let payment: Option<AcquirerPaymentId> =
        event.object.payment_intent.as_deref().and_then(|payment| payment.parse().ok());
    if let (None, Some(payment)) = (named, payment) {
        let incoming = bank.charges.find_payment(&scope, &payment).await?;
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
