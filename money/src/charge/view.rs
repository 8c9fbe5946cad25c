//! The wire format of a charge. A response contains only the fields named in this module.

use artefacts::qr;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use domain::charge::{Charge, Failure, PublicStatus};
use domain::ids::{AcquirerPaymentId, ChargeId};
use domain::money::{Amount, Currency, MinorUnits};
use domain::payment_method::PaymentMethod;
use domain::tax_id::{Document, TaxId};
use domain::time::Timestamp;

use shared::config::PublicUrls;
use shared::http::{ListView, NonNegative};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum QrImage {
    /// As a URL, and inline as a PNG in base64.
    Inline,
    /// For lists and events: an inline image would be four fifths of an event.
    ByUrl,
}

/// A request for money that a payer can pay once. Payments are the same objects in another format.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "Charge")]
pub struct ChargeView<'a> {
    /// The charge's id. The routes of payments take it too.
    id: ChargeId,
    /// Always `charge`.
    #[schemars(extend("const" = "charge"))]
    object: &'static str,
    /// The amount in the currency's smallest unit, such as centavos.
    amount: Amount,
    /// The currency of the amount.
    currency: Currency,
    /// The status of the charge.
    status: PublicStatus,
    /// The method that the charge was paid with, or else the first of its methods. Always `pix` for a charge
    /// that `POST /v1/charges` created.
    payment_method: PaymentMethod,
    /// The customer, as sent on create.
    customer: CustomerView<'a>,
    /// The Pix code. `null` if the charge cannot be paid by Pix, or if the acquirer has not issued the code.
    pix: Option<PixView<'a>>,
    /// The URL of the hosted checkout page.
    #[schemars(extend("format" = "uri"))]
    checkout_url: String,
    /// The settlement of the charge: an empty object until the charge is paid.
    settlement: SettlementView<'a>,
    /// The only tax id that may pay the charge. Absent if none was sent on create. The document of the real
    /// payer is never shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "TaxId")]
    expected_payer_tax_id: Option<&'a TaxId>,
    /// The map that was sent on create, with `description` in it. The service adds the block `failure` to a
    /// failed, expired or cancelled charge, and the block `med` to a contested one. The blocks are for
    /// information only.
    metadata: Map<String, Value>,
    /// When the charge was created.
    created_at: Timestamp,
    /// When the charge was paid. `null` until it settles.
    paid_at: Option<Timestamp>,
    /// The sum of the completed refunds, in the currency's smallest unit. A payment that was returned without
    /// being credited is not refunded.
    amount_refunded: NonNegative,
}

/// The customer of a charge. The e-mail address and the phone number are stored, but not shown.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "ChargeCustomer")]
struct CustomerView<'a> {
    /// The customer's name. `null` if it was not sent.
    name: Option<&'a str>,
    /// The customer's tax id. `null` if it was not sent.
    document: Option<&'a Document>,
}

/// The Pix code of a charge.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "ChargePix")]
struct PixView<'a> {
    /// The payment code for copy and paste (BR Code).
    br_code: &'a str,
    /// The URL of the code's QR image, a PNG.
    #[schemars(extend("format" = "uri"))]
    qr_code_url: String,
    /// The QR image: a PNG in base64, without a `data:` prefix. Absent in lists and events.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("contentEncoding" = "base64"))]
    qr_code_base64: Option<String>,
    /// When the charge expires.
    expires_at: Timestamp,
    /// The transaction id of the Pix. It differs from the charge's id.
    txid: String,
}

/// The settlement of a charge.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "ChargeSettlement")]
struct SettlementView<'a> {
    /// The end-to-end id of the Pix that paid the charge. Absent until the charge is paid and settled, and for
    /// other methods.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "AcquirerPaymentId")]
    end_to_end_id: Option<&'a AcquirerPaymentId>,
}

impl<'a> ChargeView<'a> {
    /// The charge must come from [`domain::charge::StoredCharge::read_at`], so that its expiry is applied.
    pub fn new(charge: &'a Charge, public_urls: &PublicUrls, image: QrImage) -> Self {
        let settled = charge.settlement.and(charge.applied_payment.as_ref());
        let paid_at = settled.map(|applied| applied.paid_at);
        // Only a Pix has an end-to-end id.
        let settled = settled.filter(|applied| applied.method == PaymentMethod::Pix);
        Self {
            id: charge.id,
            object: "charge",
            amount: charge.amount,
            currency: charge.currency,
            status: charge.status.public(),
            payment_method: charge.method(),
            customer: CustomerView {
                name: charge.customer.name.as_deref(),
                document: charge.customer.document.as_ref(),
            },
            pix: charge.artefacts.pix.as_ref().map(|pix| PixView {
                br_code: &pix.br_code,
                qr_code_url: public_urls.qr_code_url(charge.id),
                qr_code_base64: (image == QrImage::Inline)
                    .then(|| qr::png_base64(&pix.br_code))
                    .and_then(Result::ok),
                expires_at: pix.expires_at,
                txid: charge.id.txid(),
            }),
            checkout_url: public_urls.checkout_url(charge.id),
            settlement: SettlementView { end_to_end_id: settled.map(|applied| &applied.payment_id) },
            expected_payer_tax_id: charge.expected_payer.as_ref(),
            metadata: metadata(charge),
            created_at: charge.created_at,
            paid_at,
            amount_refunded: refunded(charge),
        }
    }
}

/// At most the charge's amount, so it fits.
pub(super) fn refunded(charge: &Charge) -> NonNegative {
    NonNegative(charge.funds.refunded().map_or(i64::MAX, MinorUnits::get))
}

pub(super) fn metadata(charge: &Charge) -> Map<String, Value> {
    let mut map = charge.metadata.to_map();
    if let Some(failure) = &charge.failure {
        map.insert("failure".to_owned(), failure_block(failure));
    }
    let med = charge.disputes.as_ref().and_then(|disputes| serde_json::to_value(&disputes.latest).ok());
    if let Some(med) = med {
        map.insert("med".to_owned(), med);
    }
    map
}

fn failure_block(failure: &Failure) -> Value {
    let mut block = json!({
        "reason": failure.reason.to_string(),
        "providerErrorCode": failure.reason.code(),
        "at": failure.at,
    });
    if let (Some(seconds), Some(map)) = (failure.ttl_seconds, block.as_object_mut()) {
        map.insert("ttlSeconds".to_owned(), seconds.into());
    }
    block
}

/// A page of charges.
pub type ChargeListView<'a> = ListView<ChargeView<'a>, ChargeId>;

pub fn charge_list<'a>(page: &'a super::ChargePage, public_urls: &PublicUrls) -> ChargeListView<'a> {
    let charges = page.items.iter().map(|charge| ChargeView::new(charge, public_urls, QrImage::ByUrl));
    ListView::new(charges.collect(), page.next_cursor)
}
