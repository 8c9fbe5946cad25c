//! How a payer can pay (contract: Payments).

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::money::{Amount, Currency};

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

/// What holds for a method wherever it is used. What the payer is given by it is in [`crate::charge::Artefacts`].
#[derive(Clone, Copy, Debug)]
pub struct MethodFacts {
    /// Its name in Portuguese.
    pub name: &'static str,
    /// Names its sums in rollups: two letters, so that a day's row stays small. Never changed.
    pub code: &'static str,
    currencies: Currencies,
    /// The largest amount, in minor units.
    pub max_amount: i64,
    /// Whether an issuer approves its payments, so that a settled one reads `APPROVED` (contract: Transaction status).
    pub is_approved: bool,
}

/// The currencies that a method can be paid in (design: Money).
#[derive(Clone, Copy, Debug)]
enum Currencies {
    Listed(&'static [Currency]),
    National,
}

/// Currencies that crypto charges can be priced in: the tokens themselves, and those that the sandbox has a rate for.
const CRYPTO_CURRENCIES: [Currency; 5] =
    [Currency::USDT, Currency::BTC, Currency::USD, Currency::BRL, Currency::EUR];

impl PaymentMethod {
    /// Its name in the transaction format.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// What holds for it.
    pub const fn facts(self) -> MethodFacts {
        let pix = MethodFacts {
            name: "Pix",
            code: "px",
            currencies: Currencies::Listed(&[Currency::BRL]),
            max_amount: Amount::MAX.minor(),
            is_approved: false,
        };
        match self {
            Self::Pix => pix,
            Self::CreditCard => MethodFacts {
                name: "Cartão de crédito",
                code: "cc",
                currencies: Currencies::National,
                is_approved: true,
                ..pix
            },
            // MB WAY takes at most 5,000 EUR.
            Self::Mbway => MethodFacts {
                name: "MB WAY",
                code: "mw",
                currencies: Currencies::Listed(&[Currency::EUR]),
                max_amount: 500_000,
                ..pix
            },
            // A reference is checked against eight digits of cents.
            Self::Multibanco => MethodFacts {
                name: "Multibanco",
                code: "mb",
                currencies: Currencies::Listed(&[Currency::EUR]),
                max_amount: 99_999_999,
                ..pix
            },
            // A barcode has ten digits of centavos.
            Self::Boleto => MethodFacts { name: "Boleto", code: "bo", max_amount: 9_999_999_999, ..pix },
            Self::Crypto => MethodFacts {
                name: "Cripto",
                code: "cr",
                currencies: Currencies::Listed(&CRYPTO_CURRENCIES),
                ..pix
            },
        }
    }

    /// Whether it can be paid in a currency (design: Money).
    pub fn takes(self, currency: Currency) -> bool {
        match self.facts().currencies {
            Currencies::Listed(listed) => listed.contains(&currency),
            Currencies::National => currency.is_national(),
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

    #[test]
    fn the_sums_of_each_method_have_a_name_of_their_own() {
        let codes: std::collections::BTreeSet<&str> =
            PaymentMethod::all().map(|method| method.facts().code).collect();
        assert_eq!(codes.len(), PaymentMethod::all().len());
    }
}
