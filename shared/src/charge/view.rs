//! The wire format of a charge (contract: Charge). A response contains only the fields named in this module.

use artefacts::qr;
use serde::Serialize;
use serde_json::{Map, Value, json};

use domain::charge::{Charge, Failure, PublicStatus};
use domain::ids::AcquirerPaymentId;
use domain::money::{Amount, Currency};
use domain::payment_method::PaymentMethod;
use domain::tax_id::{Document, TaxId};
use domain::time::Timestamp;

use crate::config::PublicUrls;

/// How a response contains the QR image.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum QrImage {
    /// As a URL, and inline as a PNG in base64. Used for a single charge that is created or read.
    Inline,
    /// Only as a URL. Used for lists and events, which inline images would make too large: the image would be
    /// four fifths of an event.
    ByUrl,
}

/// A charge on the wire (contract: Charge).
#[derive(Debug, Serialize)]
pub struct ChargeView<'a> {
    id: String,
    object: &'static str,
    amount: Amount,
    currency: Currency,
    status: PublicStatus,
    payment_method: PaymentMethod,
    customer: CustomerView<'a>,
    pix: Option<PixView<'a>>,
    checkout_url: String,
    settlement: SettlementView<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected_payer_tax_id: Option<&'a TaxId>,
    metadata: Map<String, Value>,
    created_at: Timestamp,
}

/// The customer of a charge: `name` and `document`, `null` if they were not sent. The e-mail address and the
/// phone number are stored, but not shown (contract: Charge).
#[derive(Debug, Serialize)]
struct CustomerView<'a> {
    name: Option<&'a str>,
    document: Option<&'a Document>,
}

#[derive(Debug, Serialize)]
struct PixView<'a> {
    br_code: &'a str,
    qr_code_url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    qr_code_base64: Option<String>,
    expires_at: Timestamp,
    txid: String,
}

#[derive(Debug, Serialize)]
struct SettlementView<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    end_to_end_id: Option<&'a AcquirerPaymentId>,
}

impl<'a> ChargeView<'a> {
    /// Serialises a charge. The charge must come from [`domain::charge::StoredCharge::read_at`], so that its
    /// expiry is applied.
    pub fn new(charge: &'a Charge, public_urls: &PublicUrls, image: QrImage) -> Self {
        let settled = charge.settlement.and(charge.applied_payment.as_ref());
        // Only a Pix has an end-to-end id.
        let settled = settled.filter(|applied| applied.method == PaymentMethod::Pix);
        Self {
            id: charge.id.to_string(),
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
        }
    }
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
        "reason": failure.reason,
        "providerErrorCode": failure.provider_error_code,
        "at": failure.at,
    });
    if let (Some(seconds), Some(map)) = (failure.ttl_seconds, block.as_object_mut()) {
        map.insert("ttlSeconds".to_owned(), seconds.into());
    }
    block
}

/// A page of charges on the wire (contract: Charge list response).
#[derive(Debug, Serialize)]
pub struct ChargeListView<'a> {
    object: &'static str,
    data: Vec<ChargeView<'a>>,
    has_more: bool,
    next_cursor: Option<String>,
}

impl<'a> ChargeListView<'a> {
    /// Serialises a page, with each QR image only as a URL.
    pub fn new(page: &'a super::ChargePage, public_urls: &PublicUrls) -> Self {
        Self {
            object: "list",
            data: page
                .charges
                .iter()
                .map(|charge| ChargeView::new(charge, public_urls, QrImage::ByUrl))
                .collect(),
            has_more: page.next_cursor.is_some(),
            next_cursor: page.next_cursor.map(|id| id.to_string()),
        }
    }
}
