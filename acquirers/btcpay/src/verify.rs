//! Notifications: the check of their signature, and the parts of an event that name an invoice.

use domain::ids::ChargeId;
use domain::webhook::signature::is_legacy;
use secrecy::SecretString;
use serde::Deserialize;

use crate::objects::Metadata;

/// The types of events that can change a charge. A payment that is not confirmed changes it only with the invoice.
pub const EVENT_TYPES: [&str; 5] =
    ["InvoiceProcessing", "InvoicePaymentSettled", "InvoiceSettled", "InvoiceExpired", "InvoiceInvalid"];

/// Returns the event of a notification whose `BTCPay-Sig` is right: `sha256=` and the HMAC-SHA256 of the body in hex.
///
/// An event only names an invoice. Read the charge, because notifications arrive late, repeated and in any order. The
/// signature contains no time. The caller checks the store.
pub fn verify(header: &str, body: &[u8], secrets: &[SecretString]) -> Result<Event, VerifyError> {
    if !is_legacy(header, body, secrets) {
        return Err(VerifyError::Signature);
    }
    let event: RawEvent = serde_json::from_slice(body).map_err(|_| VerifyError::Body)?;
    Ok(Event {
        id: event.delivery_id,
        kind: event.kind,
        store: event.store_id,
        invoice: event.invoice_id,
        charge: event.metadata.charge(),
    })
}

/// Why a notification is refused. The texts do not repeat its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    #[error("the header is not a signature of the body by a known secret")]
    Signature,
    #[error("the body is not an event")]
    Body,
}

/// An event of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The id of the delivery. A repeated delivery has another one.
    pub id: String,
    /// Such as `InvoiceSettled`.
    pub kind: String,
    /// Empty: the event is of no store.
    pub store: String,
    /// `None`: the event is about something else.
    pub invoice: Option<String>,
    /// The charge in the invoice's metadata. `None`: another system made the invoice.
    pub charge: Option<ChargeId>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawEvent {
    delivery_id: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    store_id: String,
    invoice_id: Option<String>,
    #[serde(default)]
    metadata: Metadata,
}

#[cfg(test)]
mod tests {
    use domain::ids::Mode;
    use domain::webhook::signature::legacy;
    use serde_json::{Value, json};

    use super::*;

    fn secret(text: &str) -> SecretString {
        text.to_owned().into()
    }

    fn body(order: &Value) -> Vec<u8> {
        json!({
            "deliveryId": "d1", "webhookId": "w1", "originalDeliveryId": "d0", "isRedelivery": true,
            "type": "InvoiceSettled", "timestamp": 1_795_348_800, "storeId": "s1", "invoiceId": "i1",
            "metadata": {"orderId": order}, "manuallyMarked": false, "overPaid": false,
        })
        .to_string()
        .into_bytes()
    }

    #[test]
    fn a_signed_event_names_its_invoice_and_charge() {
        let charge = ChargeId::derive(b"salt", Mode::Live, "charges", "order-1");
        let body = body(&charge.to_string().into());
        let header = legacy(&secret("new"), &body);
        let event = verify(&header, &body, &[secret("old"), secret("new")]).unwrap();
        let expected = Event {
            id: "d1".to_owned(),
            kind: "InvoiceSettled".to_owned(),
            store: "s1".to_owned(),
            invoice: Some("i1".to_owned()),
            charge: Some(charge),
        };
        assert_eq!(event, expected);
        assert_eq!(
            verify(&header.to_uppercase().replace("SHA", "sha"), &body, &[secret("new")]),
            Ok(expected)
        );
    }

    #[test]
    fn a_wrong_signature_is_refused() {
        let body = body(&Value::Null);
        let right = legacy(&secret("right"), &body);
        for (header, secrets) in [
            (&*right, vec![]),
            (&right, vec![secret("wrong")]),
            (&legacy(&secret("right"), b"{}"), vec![secret("right")]),
            ("", vec![secret("right")]),
        ] {
            assert_eq!(verify(header, &body, &secrets), Err(VerifyError::Signature), "{header}");
        }
        let sign = |body: &[u8]| verify(&legacy(&secret("s"), body), body, &[secret("s")]);
        assert_eq!(sign(b"[]"), Err(VerifyError::Body));
        assert_eq!(sign(&body).unwrap().charge, None);
        let other = json!({"deliveryId": "d", "type": "PayoutCreated", "metadata": null}).to_string();
        assert_eq!(sign(other.as_bytes()).unwrap().invoice, None);
    }
}
