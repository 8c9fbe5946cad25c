//! The wire format of a payment (contract: Payment). A response contains only the fields named in this
//! module.

use artefacts::qr;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::{Map, Value};

use domain::charge::{Boleto, Charge, TransactionStatus};
use domain::money::{Amount, Currency};
use domain::payment_method::PaymentMethod;
use domain::tax_id::Document;
use domain::time::Timestamp;

use crate::charge::view::metadata;
use crate::config::PublicUrls;

/// The response of `POST /v1/payments`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CreatedPaymentView<'a> {
    id: String,
    status: TransactionStatus,
    amount: Amount,
    currency: Currency,
    payment_methods: Vec<&'static str>,
    customer_name: Option<&'a str>,
    customer_document: Option<&'a Document>,
    customer_email: Option<&'a str>,
    metadata: Map<String, Value>,
    created_at: Timestamp,
}

fn methods(charge: &Charge) -> Vec<&'static str> {
    charge.methods.iter().map(|method| method.as_str()).collect()
}

impl<'a> CreatedPaymentView<'a> {
    /// Serialises a charge that was just created, or that an idempotent replay returns.
    pub fn new(charge: &'a Charge) -> Self {
        Self {
            id: charge.id.raw(),
            status: charge.status,
            amount: charge.amount,
            currency: charge.currency,
            payment_methods: methods(charge),
            customer_name: charge.customer.name.as_deref(),
            customer_document: charge.customer.document.as_ref(),
            customer_email: charge.customer.email.as_deref(),
            metadata: metadata(charge),
            created_at: charge.created_at,
        }
    }
}

/// A payment on the wire, in the responses to reads, lists and cancellations. Fields that do not apply to the
/// payment's methods are `null`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PaymentView<'a> {
    id: String,
    status: TransactionStatus,
    amount: Amount,
    currency: Currency,
    payment_methods: Vec<&'static str>,
    paid_with: Option<&'static str>,
    pix_qr_code: Option<String>,
    pix_copy_paste: Option<&'a str>,
    pix_expires_at: Option<Timestamp>,
    card_redirect_url: Option<String>,
    mb_entity: Option<&'a str>,
    mb_reference: Option<&'a str>,
    mb_expires_at: Option<Timestamp>,
    boleto_barcode: Option<&'a str>,
    boleto_line: Option<String>,
    boleto_pdf_url: Option<String>,
    boleto_expires_at: Option<Timestamp>,
    crypto_address: Option<&'a str>,
    crypto_amount: Option<&'a str>,
    crypto_network: Option<&'a str>,
    crypto_currency: Option<Currency>,
    provider_fee: i64,
    platform_fee: i64,
    net_amount: i64,
    metadata: Map<String, Value>,
    created_at: Timestamp,
    paid_at: Option<Timestamp>,
}

impl<'a> PaymentView<'a> {
    /// The names of a payment's fields on the wire. A list of payments can be sorted by any of them.
    pub const FIELDS: [&'static str; 27] = [
        "id",
        "status",
        "amount",
        "currency",
        "paymentMethods",
        "paidWith",
        "pixQrCode",
        "pixCopyPaste",
        "pixExpiresAt",
        "cardRedirectUrl",
        "mbEntity",
        "mbReference",
        "mbExpiresAt",
        "boletoBarcode",
        "boletoLine",
        "boletoPdfUrl",
        "boletoExpiresAt",
        "cryptoAddress",
        "cryptoAmount",
        "cryptoNetwork",
        "cryptoCurrency",
        "providerFee",
        "platformFee",
        "netAmount",
        "metadata",
        "createdAt",
        "paidAt",
    ];

    /// Serialises a charge as a payment. The charge must come from [`domain::charge::StoredCharge::read_at`],
    /// so that its expiry is applied. The fees are 0 until settlement fixes them.
    pub fn new(charge: &'a Charge, public_urls: &PublicUrls) -> Self {
        let pix = charge.artefacts.pix.as_ref();
        let png = pix.and_then(|pix| qr::png_base64(&pix.br_code).ok());
        let data_uri = png.map(|png| format!("data:image/png;base64,{png}"));
        Self { pix_qr_code: data_uri, ..Self::without_qr_image(charge, public_urls) }
    }

    /// As [`PaymentView::new`], but without the QR image, which takes longer to make than all other fields
    /// together.
    pub(crate) fn without_qr_image(charge: &'a Charge, public_urls: &PublicUrls) -> Self {
        let artefacts = &charge.artefacts;
        let (pix, boleto) = (artefacts.pix.as_ref(), artefacts.boleto.as_ref());
        let (multibanco, crypto) = (artefacts.multibanco.as_ref(), artefacts.crypto.as_ref());
        let fees = charge.settlement.map(|settlement| settlement.fees).unwrap_or_default();
        Self {
            id: charge.id.raw(),
            status: charge.status,
            amount: charge.amount,
            currency: charge.currency,
            payment_methods: methods(charge),
            paid_with: charge.settlement.and(charge.paid_with()).map(PaymentMethod::as_str),
            pix_qr_code: None,
            pix_copy_paste: pix.map(|pix| pix.br_code.as_str()),
            pix_expires_at: pix.map(|pix| pix.expires_at),
            card_redirect_url: artefacts.card.as_ref().map(|_| public_urls.card_url(charge.id)),
            mb_entity: multibanco.map(|multibanco| multibanco.entity.as_str()),
            mb_reference: multibanco.map(|multibanco| multibanco.reference.as_str()),
            mb_expires_at: multibanco.map(|multibanco| multibanco.expires_at),
            boleto_barcode: boleto.map(|boleto| boleto.barcode.as_str()),
            boleto_line: boleto.and_then(Boleto::slip).map(|slip| slip.line().to_string()),
            boleto_pdf_url: boleto.map(|_| public_urls.boleto_url(charge.id)),
            boleto_expires_at: boleto.map(|boleto| boleto.expires_at),
            crypto_address: crypto.map(|crypto| crypto.address.as_str()),
            crypto_amount: crypto.map(|crypto| crypto.amount.as_str()),
            crypto_network: crypto.map(|crypto| crypto.network.as_str()),
            crypto_currency: crypto.map(|crypto| crypto.currency),
            provider_fee: fees.acquirer().get(),
            platform_fee: fees.platform().get(),
            net_amount: fees.net_of(charge.amount).get(),
            metadata: metadata(charge),
            created_at: charge.created_at,
            paid_at: charge.settlement.and(charge.applied_payment.as_ref()).map(|applied| applied.paid_at),
        }
    }
}

/// The response of `GET /v1/payments/{id}/receipt`: a document in base64.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DocumentView {
    content_type: &'static str,
    base64: String,
}

impl DocumentView {
    /// Wraps the bytes of a PDF.
    pub fn pdf(bytes: &[u8]) -> Self {
        Self { content_type: "application/pdf", base64: STANDARD.encode(bytes) }
    }
}

#[cfg(test)]
mod tests {
    use crate::charge::payment::view::*;
    use crate::charge::testing::waiting;

    #[test]
    fn the_list_of_fields_matches_the_serialised_payment() {
        let public_urls = PublicUrls::new("https://pay.example.com/checkout").unwrap();
        let view = serde_json::to_value(PaymentView::new(&waiting(), &public_urls)).unwrap();
        let fields: Vec<&String> = view.as_object().unwrap().keys().collect();
        let mut named = PaymentView::FIELDS;
        named.sort_unstable();
        assert_eq!(fields, named);
    }
}
