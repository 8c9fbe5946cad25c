//! How a payer can pay (contract: Payments).

use serde::{Deserialize, Serialize};

use crate::money::Currency;

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
