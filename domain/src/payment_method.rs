//! How a payer can pay (contract: Payments).

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::money::Currency;

/// How a charge can be paid.
#[derive(
    Clone,
    Copy,
    Debug,
    Deserialize,
    Eq,
    Hash,
    IntoStaticStr,
    Ord,
    PartialEq,
    PartialOrd,
    Serialize,
    VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
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
    /// Its name in the transaction format.
    pub fn as_str(self) -> &'static str {
        self.into()
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
    use crate::vocabulary::Vocabulary;

    #[test]
    fn a_method_is_read_as_it_is_written() {
        for (name, method) in PaymentMethod::vocabulary() {
            assert_eq!((method.as_str(), PaymentMethod::named(name)), (name, Some(method)));
            assert_eq!(serde_json::to_value(method).unwrap(), name.to_lowercase());
        }
        assert_eq!(PaymentMethod::named("pix"), None);
    }

    #[test]
    fn each_method_knows_its_currencies() {
        let takers = |code: &str| -> Vec<&str> {
            let currency = Currency::parse(code).unwrap();
            let takers = PaymentMethod::all().filter(|method| method.takes(currency));
            takers.map(PaymentMethod::as_str).collect()
        };
        assert_eq!(takers("BRL"), ["PIX", "CREDIT_CARD", "BOLETO", "CRYPTO"]);
        assert_eq!(takers("EUR"), ["CREDIT_CARD", "MBWAY", "MULTIBANCO", "CRYPTO"]);
        assert_eq!(takers("USDT"), ["CRYPTO"]);
        assert_eq!(takers("JPY"), ["CREDIT_CARD"]);
        assert!(takers("XXX").is_empty());
    }
}
