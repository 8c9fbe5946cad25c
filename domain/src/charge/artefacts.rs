//! Payment artefacts: the data that a payer needs to pay by each method. Only data that cannot be derived is
//! stored, so that the charge's row stays small.

use std::fmt;

use artefacts::boleto::Boleto as Slip;
use serde::{Deserialize, Serialize};

use crate::calendar::Day;
use crate::money::Currency;
use crate::payment_method::PaymentMethod;
use crate::time::Timestamp;

/// How long after its expiry a voucher is closed at its acquirer. A boleto that is paid on its last day is confirmed a
/// business day later, a Multibanco some days later.
const COLLECTION_BUSINESS_DAYS: u32 = 5;

/// Data for paying by Pix.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Pix {
    /// The BR Code: the copy-and-paste text, which is also the content of the QR image.
    pub br_code: String,
    /// When the Pix code stops being payable.
    #[serde(with = "domain::time::millis")]
    pub expires_at: Timestamp,
    /// Lifetime of the code in seconds.
    pub ttl_seconds: i64,
}

/// The acquirer's page on which a payer pays. Merchants and payers see the service's own address, which leads there.
#[derive(Clone, Deserialize, Eq, PartialEq, Serialize)]
pub struct HostedPage {
    /// The acquirer's id of the page.
    pub id: String,
    pub url: String,
}

impl fmt::Debug for HostedPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostedPage").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Data for paying by card. The address of the authentication page is derived from the charge's id.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Card {
    /// The acquirer's page. `None`: the payer authenticates on the service's own page.
    pub page: Option<HostedPage>,
    /// URL to which the payer returns.
    pub return_url: Option<String>,
    /// When the charge stops being payable by card.
    #[serde(with = "domain::time::millis")]
    pub expires_at: Timestamp,
}

/// Data for paying by MB WAY: a payment request on the payer's phone.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Mbway {
    /// The payer's phone number in E.164.
    pub phone: String,
    /// The acquirer's id of the payment. `None`: it has none.
    pub intent: Option<String>,
    /// When the request stops being payable.
    #[serde(with = "domain::time::millis")]
    pub expires_at: Timestamp,
}

/// Data for paying by Multibanco, which the payer enters at a bank.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Multibanco {
    /// Entity: five digits.
    pub entity: String,
    /// Reference: nine digits, of which the last two are check digits.
    pub reference: String,
    /// The acquirer's id of the payment. `None`: it has none.
    pub intent: Option<String>,
    /// When the reference stops being payable.
    #[serde(with = "domain::time::millis")]
    pub expires_at: Timestamp,
}

/// Data for paying by boleto. The digit line and the page are derived from the barcode.
#[serde_with::skip_serializing_none]
#[derive(Clone, Deserialize, Eq, PartialEq, Serialize)]
pub struct Boleto {
    /// Barcode: 44 digits.
    pub barcode: String,
    /// Name of the beneficiary, as the boleto's page shows it.
    pub beneficiary: String,
    /// The acquirer's id of the payment. `None`: it has none.
    pub intent: Option<String>,
    /// The acquirer's PDF, which shows the payer's document and address. `None`: the service makes the PDF.
    pub pdf_url: Option<String>,
    /// When the boleto stops being payable: the end of its due day in São Paulo.
    #[serde(with = "domain::time::millis")]
    pub expires_at: Timestamp,
}

impl fmt::Debug for Boleto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { barcode, beneficiary, intent, pdf_url: _, expires_at } = self;
        f.debug_struct("Boleto")
            .field("barcode", barcode)
            .field("beneficiary", beneficiary)
            .field("intent", intent)
            .field("expires_at", expires_at)
            .finish_non_exhaustive()
    }
}

impl Boleto {
    /// Decodes the barcode. `None`: the barcode is invalid.
    pub fn slip(&self) -> Option<Slip> {
        // A due factor stands for two days, 9,000 days apart. The day nearer to the expiry is the due day.
        Slip::from_barcode(&self.barcode, self.expires_at.to_chrono().date_naive()).ok()
    }
}

/// Data for paying with a crypto token.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Crypto {
    /// The address that receives the token.
    pub address: String,
    /// Exact decimal amount of `currency`.
    pub amount: String,
    /// Network, for example `TRON`.
    pub network: String,
    /// Token, for example `USDT`.
    pub currency: Currency,
    /// The acquirer's id of the invoice. `None`: it has none.
    pub invoice: Option<String>,
    /// When the address stops being valid for payment.
    #[serde(with = "domain::time::millis")]
    pub expires_at: Timestamp,
}

impl Crypto {
    /// What wallets scan: for Bitcoin a URI with the amount (BIP-21), else the address, which has no common form of URI.
    pub fn payment_uri(&self) -> String {
        let Self { address, amount, .. } = self;
        match self.currency {
            Currency::BTC => format!("bitcoin:{address}?amount={amount}"),
            _ => address.clone(),
        }
    }
}

/// The artefacts of a charge, for each requested method.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Artefacts {
    /// Set when the charge can be paid by Pix.
    pub pix: Option<Pix>,
    /// Set when the charge can be paid by card.
    pub card: Option<Card>,
    /// Set when the charge can be paid by MB WAY.
    pub mbway: Option<Mbway>,
    /// Set when the charge can be paid by Multibanco.
    pub multibanco: Option<Multibanco>,
    /// Set when the charge can be paid by boleto.
    pub boleto: Option<Boleto>,
    /// Set when the charge can be paid with a token.
    pub crypto: Option<Crypto>,
}

impl Artefacts {
    /// Adds those of another acquirer.
    #[must_use]
    pub fn joined(self, other: Self) -> Self {
        Self {
            pix: self.pix.or(other.pix),
            card: self.card.or(other.card),
            mbway: self.mbway.or(other.mbway),
            multibanco: self.multibanco.or(other.multibanco),
            boleto: self.boleto.or(other.boleto),
            crypto: self.crypto.or(other.crypto),
        }
    }

    /// Returns until when an acquirer may confirm a payment that was made before the expiry: some days after a boleto or
    /// Multibanco, which it collects from banks. Then it is closed there.
    pub fn ends_at(&self, method: PaymentMethod) -> Option<Timestamp> {
        let expires_at = self.expires_at(method)?;
        let is_collected = match method {
            PaymentMethod::Boleto => self.boleto.as_ref().is_some_and(|boleto| boleto.intent.is_some()),
            PaymentMethod::Multibanco => self.multibanco.as_ref().is_some_and(|of| of.intent.is_some()),
            PaymentMethod::Pix | PaymentMethod::CreditCard | PaymentMethod::Mbway | PaymentMethod::Crypto => {
                false
            }
        };
        let collected_at = || Day::of(expires_at).plus_business_days(COLLECTION_BUSINESS_DAYS).ends_at();
        Some(if is_collected { collected_at() } else { expires_at })
    }

    /// Without the payer's phone, and the page of the acquirer that shows the payer's document and address.
    pub(super) fn erased(mut self) -> Self {
        if let Some(mbway) = &mut self.mbway {
            mbway.phone.clear();
        }
        if let Some(boleto) = &mut self.boleto {
            boleto.pdf_url = None;
        }
        self
    }

    /// Returns when the charge stops being payable by a method. `None`: it cannot be paid by that method.
    pub fn expires_at(&self, method: PaymentMethod) -> Option<Timestamp> {
        match method {
            PaymentMethod::Pix => self.pix.as_ref().map(|pix| pix.expires_at),
            PaymentMethod::CreditCard => self.card.as_ref().map(|card| card.expires_at),
            PaymentMethod::Mbway => self.mbway.as_ref().map(|mbway| mbway.expires_at),
            PaymentMethod::Multibanco => self.multibanco.as_ref().map(|multibanco| multibanco.expires_at),
            PaymentMethod::Boleto => self.boleto.as_ref().map(|boleto| boleto.expires_at),
            PaymentMethod::Crypto => self.crypto.as_ref().map(|crypto| crypto.expires_at),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_row_without_an_invoice_is_unchanged() {
        let row = json!({"address": "T", "amount": "1.000000", "network": "TRON", "currency": "USDT", "expires_at": 60_000});
        let crypto: Crypto = serde_json::from_value(row.clone()).unwrap();
        assert_eq!(crypto.invoice, None);
        assert_eq!(serde_json::to_value(&crypto).unwrap(), row);
        let with_invoice = Crypto { invoice: Some("inv1".to_owned()), ..crypto };
        assert_eq!(serde_json::to_value(&with_invoice).unwrap()["invoice"], "inv1");
    }
}
