//! The wire format of a payment. A response contains only the fields named in this module.

use artefacts::qr;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use domain::charge::{Boleto, Charge, ReturnedPayment, TransactionStatus, UnappliedReason};
use domain::ids::{AcquirerPaymentId, RawChargeId};
use domain::money::{Amount, Currency};
use domain::payment_method::{PaymentMethod, UpperCaseMethod};
use domain::tax_id::Document;
use domain::time::Timestamp;
use domain::wallet::ReturnStatus;

use crate::charge::view::{metadata, refunded};
use shared::config::PublicUrls;
use shared::http::NonNegative;

/// A payment as its creation returns it. The data for the payer follows on `GET /v1/payments/{id}`.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "CreatedPayment")]
#[serde(rename_all = "camelCase")]
pub struct CreatedPaymentView<'a> {
    /// The payment's id. The charge's id is `ch_` and this id.
    id: RawChargeId,
    /// The status of the payment.
    status: TransactionStatus,
    /// The amount in the currency's smallest unit, such as centavos.
    amount: Amount,
    /// The currency of the amount.
    currency: Currency,
    /// The methods by which the customer can pay.
    payment_methods: Vec<UpperCaseMethod>,
    /// The customer's name. `null` if it was not sent.
    customer_name: Option<&'a str>,
    /// The customer's tax id. `null` if it was not sent.
    customer_document: Option<&'a Document>,
    /// The customer's e-mail address. `null` if it was not sent.
    customer_email: Option<&'a str>,
    /// The map that was sent on create. The service adds the block `failure` if the acquirer refused the
    /// payment.
    metadata: Map<String, Value>,
    /// When the payment was created.
    created_at: Timestamp,
}

fn methods(charge: &Charge) -> Vec<UpperCaseMethod> {
    charge.methods.iter().copied().map(UpperCaseMethod).collect()
}

impl<'a> CreatedPaymentView<'a> {
    pub fn new(charge: &'a Charge) -> Self {
        Self {
            id: charge.id.into(),
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

/// A payment. Fields that do not apply to the payment's methods are `null`.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "Payment")]
#[serde(rename_all = "camelCase")]
pub struct PaymentView<'a> {
    /// The payment's id. The charge's id is `ch_` and this id.
    id: RawChargeId,
    /// The status of the payment.
    status: TransactionStatus,
    /// The amount in the currency's smallest unit, such as centavos.
    amount: Amount,
    /// The currency of the amount.
    currency: Currency,
    /// The methods by which the customer can pay.
    payment_methods: Vec<UpperCaseMethod>,
    /// The method that was used. `null` until the payment settles.
    paid_with: Option<UpperCaseMethod>,
    /// The Pix QR image: a PNG as a `data:` URI.
    pix_qr_code: Option<String>,
    /// The Pix payment code for copy and paste (BR Code).
    pix_copy_paste: Option<&'a str>,
    /// When the Pix code expires.
    pix_expires_at: Option<Timestamp>,
    /// The URL to which the card holder is sent for 3-D Secure.
    #[schemars(extend("format" = "uri"))]
    card_redirect_url: Option<String>,
    /// The Multibanco entity.
    mb_entity: Option<&'a str>,
    /// The Multibanco reference.
    mb_reference: Option<&'a str>,
    /// When the Multibanco reference expires.
    mb_expires_at: Option<Timestamp>,
    /// The boleto's barcode: 44 digits.
    boleto_barcode: Option<&'a str>,
    /// The boleto's digit line, as the payer types it.
    boleto_line: Option<String>,
    /// The URL of the boleto as a PDF.
    #[schemars(extend("format" = "uri"))]
    boleto_pdf_url: Option<String>,
    /// When the boleto expires.
    boleto_expires_at: Option<Timestamp>,
    /// The address to which the crypto token is sent.
    crypto_address: Option<&'a str>,
    /// The amount in the token's main unit, as a decimal number.
    crypto_amount: Option<&'a str>,
    /// The network of the address.
    crypto_network: Option<&'a str>,
    /// The token.
    crypto_currency: Option<Currency>,
    /// The acquirer's fee in the currency's smallest unit. 0 until the payment settles.
    provider_fee: NonNegative,
    /// The platform's fee in the currency's smallest unit. 0 until the payment settles.
    platform_fee: NonNegative,
    /// `amount` less both fees.
    net_amount: NonNegative,
    /// The map that was sent on create. The service adds the block `failure` to a failed, expired or cancelled
    /// payment, and the block `med` to a contested one. The blocks are for information only.
    metadata: Map<String, Value>,
    /// When the payment was created.
    created_at: Timestamp,
    /// When the payment was paid. `null` until it settles.
    paid_at: Option<Timestamp>,
    /// The sum of the completed refunds, in the currency's smallest unit.
    refunded_amount: NonNegative,
    /// The payers' money that was not credited and goes back to them, oldest first: the newest 10.
    returned_payments: Vec<ReturnedPaymentView<'a>>,
}

/// A payment by a payer that was not credited and goes back to the payer.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "ReturnedPayment")]
#[serde(rename_all = "camelCase")]
struct ReturnedPaymentView<'a> {
    /// The paid amount in the currency's smallest unit.
    amount: Amount,
    /// The end-to-end id of the Pix. `null` for other methods.
    end_to_end_id: Option<&'a AcquirerPaymentId>,
    /// Why the payment was not credited. `late` also means that it can't be paid by this method or not yet.
    reason: UnappliedReason,
    /// `requested`: the bank is asked to return the money. `returned`: the money went back. `stopped`: the bank
    /// did not return the money, and the operator must act.
    status: ReturnStatus,
    /// When the payer paid.
    paid_at: Timestamp,
    /// When the money went back. `null` before.
    returned_at: Option<Timestamp>,
}

impl<'a> From<&'a ReturnedPayment> for ReturnedPaymentView<'a> {
    fn from(returned: &'a ReturnedPayment) -> Self {
        Self {
            amount: returned.amount,
            end_to_end_id: Some(&returned.payment_id).filter(|_| returned.method == PaymentMethod::Pix),
            reason: returned.reason,
            status: returned.status,
            paid_at: returned.paid_at,
            returned_at: Some(returned.updated_at).filter(|_| returned.status == ReturnStatus::Returned),
        }
    }
}

impl<'a> PaymentView<'a> {
    /// A list of payments can be sorted by any of them.
    pub const FIELDS: [&'static str; 29] = [
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
        "refundedAmount",
        "returnedPayments",
    ];

    /// The charge must come from [`domain::charge::StoredCharge::read_at`], so that its expiry is applied. The
    /// fees are 0 until settlement fixes them.
    pub fn new(charge: &'a Charge, public_urls: &PublicUrls) -> Self {
        let pix = charge.artefacts.pix.as_ref();
        let png = pix.and_then(|pix| qr::png_base64(&pix.br_code).ok());
        let data_uri = png.map(|png| format!("data:image/png;base64,{png}"));
        Self { pix_qr_code: data_uri, ..Self::without_qr_image(charge, public_urls) }
    }

    /// The QR image takes longer to make than all other fields together.
    pub fn without_qr_image(charge: &'a Charge, public_urls: &PublicUrls) -> Self {
        let artefacts = &charge.artefacts;
        let (pix, boleto) = (artefacts.pix.as_ref(), artefacts.boleto.as_ref());
        let (multibanco, crypto) = (artefacts.multibanco.as_ref(), artefacts.crypto.as_ref());
        // What was paid before its data were read has none.
        let is_known = |text: &&str| !text.is_empty();
        let fees = charge.settlement.map(|settlement| settlement.fees).unwrap_or_default();
        Self {
            id: charge.id.into(),
            status: charge.status,
            amount: charge.amount,
            currency: charge.currency,
            payment_methods: methods(charge),
            paid_with: charge.settlement.and(charge.paid_with()).map(UpperCaseMethod),
            pix_qr_code: None,
            pix_copy_paste: pix.map(|pix| pix.br_code.as_str()),
            pix_expires_at: pix.map(|pix| pix.expires_at),
            card_redirect_url: artefacts.card.as_ref().map(|_| public_urls.card_url(charge.id)),
            mb_entity: multibanco.map(|multibanco| multibanco.entity.as_str()).filter(is_known),
            mb_reference: multibanco.map(|multibanco| multibanco.reference.as_str()).filter(is_known),
            mb_expires_at: multibanco.map(|multibanco| multibanco.expires_at),
            boleto_barcode: boleto.map(|boleto| boleto.barcode.as_str()).filter(is_known),
            boleto_line: boleto.and_then(Boleto::slip).map(|slip| slip.line().to_string()),
            boleto_pdf_url: boleto.map(|_| public_urls.boleto_url(charge.id)),
            boleto_expires_at: boleto.map(|boleto| boleto.expires_at),
            crypto_address: crypto.map(|crypto| crypto.address.as_str()),
            crypto_amount: crypto.map(|crypto| crypto.amount.as_str()),
            crypto_network: crypto.map(|crypto| crypto.network.as_str()),
            crypto_currency: crypto.map(|crypto| crypto.currency),
            provider_fee: NonNegative(fees.acquirer().get()),
            platform_fee: NonNegative(fees.platform().get()),
            net_amount: NonNegative(fees.net_of(charge.amount).get()),
            metadata: metadata(charge),
            created_at: charge.created_at,
            paid_at: charge.settlement.and(charge.applied_payment.as_ref()).map(|applied| applied.paid_at),
            refunded_amount: refunded(charge),
            returned_payments: charge.returned.iter().map(ReturnedPaymentView::from).collect(),
        }
    }
}

/// A receipt: a document in base64.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "Receipt")]
#[serde(rename_all = "camelCase")]
pub struct DocumentView {
    /// The MIME type of the document.
    #[schemars(extend("const" = "application/pdf"))]
    content_type: &'static str,
    /// The document in base64.
    #[schemars(extend("contentEncoding" = "base64"))]
    base64: String,
}

impl DocumentView {
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
