//! How a payer can pay (contract: Payments), and what the payer is given for it.

use artefacts::boleto::Boleto as Slip;
use serde::{Deserialize, Serialize};

use super::TransactionStatus;
use crate::money::Currency;
use crate::time::Timestamp;

/// How a charge can be paid.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PaymentMethod {
    /// Pix, by a dynamic BR Code.
    Pix,
    /// Card, by a page of the acquirer that authenticates the holder (3-D Secure).
    CreditCard,
    /// MB WAY, by the payer's phone.
    Mbway,
    /// Multibanco, by entity and reference.
    Multibanco,
    /// Boleto, by its line or barcode.
    Boleto,
    /// A token, sent to an address.
    Crypto,
}

/// Currencies that crypto charges can be priced in: the tokens themselves, and those that the sandbox has a rate for.
const CRYPTO_CURRENCIES: [Currency; 5] =
    [Currency::USDT, Currency::BTC, Currency::USD, Currency::BRL, Currency::EUR];

impl PaymentMethod {
    /// Every method by its name in the transaction format.
    pub const VOCABULARY: [(&'static str, Self); 6] = [
        ("PIX", Self::Pix),
        ("CREDIT_CARD", Self::CreditCard),
        ("MBWAY", Self::Mbway),
        ("MULTIBANCO", Self::Multibanco),
        ("BOLETO", Self::Boleto),
        ("CRYPTO", Self::Crypto),
    ];

    /// Its name in the transaction format.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pix => "PIX",
            Self::CreditCard => "CREDIT_CARD",
            Self::Mbway => "MBWAY",
            Self::Multibanco => "MULTIBANCO",
            Self::Boleto => "BOLETO",
            Self::Crypto => "CRYPTO",
        }
    }

    /// The method of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::VOCABULARY.iter().find(|(known, _)| *known == name).map(|(_, method)| *method)
    }

    /// The status of a payment by it that is settled (contract: Transaction status).
    pub(crate) fn settled_status(self) -> TransactionStatus {
        match self {
            Self::CreditCard => TransactionStatus::Approved,
            Self::Pix | Self::Mbway | Self::Multibanco | Self::Boleto | Self::Crypto => {
                TransactionStatus::Paid
            }
        }
    }

    /// Whether it can be paid in a currency (design: Money).
    pub fn takes(self, currency: Currency) -> bool {
        match self {
            Self::Pix | Self::Boleto => currency == Currency::BRL,
            Self::Mbway | Self::Multibanco => currency == Currency::EUR,
            Self::CreditCard => currency.is_national(),
            Self::Crypto => CRYPTO_CURRENCIES.contains(&currency),
        }
    }
}

/// What a payer needs to pay by Pix.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Pix {
    /// The BR Code: copy-and-paste text and content of the QR image.
    pub br_code: String,
    /// When it stops being payable.
    #[serde(with = "crate::time::millis")]
    pub expires_at: Timestamp,
    /// Its lifetime in seconds.
    pub ttl_seconds: i64,
}

/// The page on which a card is authenticated; its address follows from the charge's id.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Card {
    /// Where the payer comes back to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub return_url: Option<String>,
    /// When it stops being payable.
    #[serde(with = "crate::time::millis")]
    pub expires_at: Timestamp,
}

/// A request on the payer's phone.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Mbway {
    /// E.164.
    pub phone: String,
    /// When it stops being payable.
    #[serde(with = "crate::time::millis")]
    pub expires_at: Timestamp,
}

/// What a payer enters at a bank.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Multibanco {
    /// Five digits.
    pub entity: String,
    /// Nine digits, the last two of which check the others.
    pub reference: String,
    /// When it stops being payable.
    #[serde(with = "crate::time::millis")]
    pub expires_at: Timestamp,
}

/// A boleto; its line and its page follow from the barcode.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Boleto {
    /// 44 digits.
    pub barcode: String,
    /// Who is paid, as its page says.
    pub beneficiary: String,
    /// When it stops being payable: the end of its due day in São Paulo.
    #[serde(with = "crate::time::millis")]
    pub expires_at: Timestamp,
}

impl Boleto {
    /// The slip that the barcode is of; `None`: the barcode is none.
    pub fn slip(&self) -> Option<Slip> {
        // Its factor names two days, thousands of days apart; it is the one near its end.
        Slip::from_barcode(&self.barcode, self.expires_at.to_chrono().date_naive()).ok()
    }
}

/// Where a payer sends a token.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Crypto {
    /// The address.
    pub address: String,
    /// An exact decimal amount of `currency`.
    pub amount: String,
    /// Such as `TRON`.
    pub network: String,
    /// Such as `USDT`.
    pub currency: Currency,
    /// When it stops being payable.
    #[serde(with = "crate::time::millis")]
    pub expires_at: Timestamp,
}

/// What the payer is given, for each method that was asked for.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Artefacts {
    /// For Pix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pix: Option<Pix>,
    /// For cards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card: Option<Card>,
    /// For MB WAY.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mbway: Option<Mbway>,
    /// For Multibanco.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multibanco: Option<Multibanco>,
    /// For boletos.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boleto: Option<Boleto>,
    /// For tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crypto: Option<Crypto>,
}

impl Artefacts {
    /// When the way to pay by a method is over; `None`: it was not asked for.
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
    use super::*;

    #[test]
    fn a_method_is_read_as_it_is_written() {
        for (name, method) in PaymentMethod::VOCABULARY {
            assert_eq!((method.as_str(), PaymentMethod::named(name)), (name, Some(method)));
            assert_eq!(serde_json::to_value(method).unwrap(), name.to_lowercase());
        }
        assert_eq!(PaymentMethod::named("pix"), None);
    }

    #[test]
    fn each_method_knows_its_currencies() {
        let takers = |code: &str| -> Vec<&str> {
            let currency = Currency::parse(code).unwrap();
            let takers = PaymentMethod::VOCABULARY.iter().filter(|(_, method)| method.takes(currency));
            takers.map(|(name, _)| *name).collect()
        };
        assert_eq!(takers("BRL"), ["PIX", "CREDIT_CARD", "BOLETO", "CRYPTO"]);
        assert_eq!(takers("EUR"), ["CREDIT_CARD", "MBWAY", "MULTIBANCO", "CRYPTO"]);
        assert_eq!(takers("USDT"), ["CRYPTO"]);
        assert_eq!(takers("JPY"), ["CREDIT_CARD"]);
        assert!(takers("XXX").is_empty());
    }
}
