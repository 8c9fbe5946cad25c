//! A payment as clients see it (contract: Payment). An allowlist: what is not named here never leaves.

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

/// What `POST /v1/payments` answers.
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
    /// As its row stands.
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

/// A payment that is read. What does not apply to its methods is `null`.
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
    /// Its fields on the wire: what a list can be sorted by.
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

    /// The payment as it stands in its row; callers pass it through [`Charge::as_of`] first. Fees are those of its
    /// settlement, and 0 before.
    pub fn new(charge: &'a Charge, public_urls: &PublicUrls) -> Self {
        let pix = charge.artefacts.pix.as_ref();
        let png = pix.and_then(|pix| qr::png_base64(&pix.br_code).ok());
        let picture = png.map(|png| format!("data:image/png;base64,{png}"));
        Self { pix_qr_code: picture, ..Self::without_picture(charge, public_urls) }
    }

    /// As [`PaymentView::new`], but without the QR image, which takes longer than all the rest.
    pub(crate) fn without_picture(charge: &'a Charge, public_urls: &PublicUrls) -> Self {
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

/// A document on the wire: `GET /v1/payments/{id}/receipt`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DocumentView {
    content_type: &'static str,
    base64: String,
}

impl DocumentView {
    /// A PDF.
    pub fn pdf(bytes: &[u8]) -> Self {
        Self { content_type: "application/pdf", base64: STANDARD.encode(bytes) }
    }
}

#[cfg(test)]
mod tests {
    use crate::charge::payment::view::*;
    use crate::charge::testing::waiting;

    #[test]
    fn the_fields_are_those_on_the_wire() {
        let public_urls = PublicUrls::new("https://pay.example.com/checkout").unwrap();
        let view = serde_json::to_value(PaymentView::new(&waiting(), &public_urls)).unwrap();
        let fields: Vec<&String> = view.as_object().unwrap().keys().collect();
        let mut named = PaymentView::FIELDS;
        named.sort_unstable();
        assert_eq!(fields, named);
    }
}
