//! Payment methods and their limits.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize, Serializer};
use strum::{IntoStaticStr, VariantArray};

use crate::money::{Amount, Currency};
use crate::vocabulary::Vocabulary;

/// A payment method of a charge.
#[derive(
    Clone,
    Copy,
    Debug,
    Deserialize,
    Eq,
    Hash,
    IntoStaticStr,
    JsonSchema,
    Ord,
    PartialEq,
    PartialOrd,
    Serialize,
    VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
#[schemars(rename = "PaymentMethod", description = "A payment method of a charge.")]
pub enum PaymentMethod {
    /// Pix, by a dynamic BR Code.
    Pix,
    /// Card. The card holder authenticates on a 3-D Secure page.
    CreditCard,
    /// MB WAY, confirmed on the payer's phone.
    Mbway,
    /// Multibanco, by entity and reference number.
    Multibanco,
    /// Boleto, by its digit line or barcode.
    Boleto,
    /// A crypto token, sent to an address.
    Crypto,
}

/// Static properties of a payment method.
#[derive(Clone, Copy, Debug)]
pub struct MethodFacts {
    /// The method's name in Portuguese.
    pub name: &'static str,
    /// In rollup rows. Two letters keep a day's row small. It must never change, because rows contain it.
    pub code: &'static str,
    currencies: Currencies,
    /// Largest amount in minor units.
    pub amounts: (i64, i64),
    /// Whether an issuer approves payments, so that their settled status is `APPROVED`, not `PAID`.
    pub is_approved: bool,
}

#[derive(Clone, Copy, Debug)]
enum Currencies {
    Listed(&'static [Currency]),
    National,
}

/// The tokens themselves, and currencies for which the sandbox has an exchange rate.
const CRYPTO_CURRENCIES: [Currency; 5] =
    [Currency::USDT, Currency::BTC, Currency::USD, Currency::BRL, Currency::EUR];

crate::named!(PaymentMethod);

impl PaymentMethod {
    pub const fn facts(self) -> MethodFacts {
        let pix = MethodFacts {
            name: "Pix",
            code: "px",
            currencies: Currencies::Listed(&[Currency::BRL]),
            amounts: (Amount::MIN.minor(), Amount::MAX.minor()),
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
            Self::Mbway => MethodFacts {
                name: "MB WAY",
                code: "mw",
                currencies: Currencies::Listed(&[Currency::EUR]),
                amounts: (50, 500_000),
                ..pix
            },
            Self::Multibanco => MethodFacts {
                name: "Multibanco",
                code: "mb",
                currencies: Currencies::Listed(&[Currency::EUR]),
                amounts: (50, 9_999_900),
                ..pix
            },
            Self::Boleto => MethodFacts { name: "Boleto", code: "bo", amounts: (500, 4_999_999), ..pix },
            Self::Crypto => MethodFacts {
                name: "Cripto",
                code: "cr",
                currencies: Currencies::Listed(&CRYPTO_CURRENCIES),
                ..pix
            },
        }
    }

    /// Whether payers pay to the merchant's own wallet, so that the service never has the money: it can neither return
    /// it, nor pay it out, nor deduct a fee from it.
    pub fn is_self_custody(self) -> bool {
        self == Self::Crypto
    }

    /// Whether a bank accepts the payment at once and confirms it up to some days later.
    pub fn is_voucher(self) -> bool {
        matches!(self, Self::Boleto | Self::Multibanco)
    }

    /// Whether an acquirer can return a payment that was not credited. Others wait for an operator.
    pub fn is_returnable(self) -> bool {
        !matches!(self, Self::Boleto | Self::Crypto)
    }

    pub fn supports_currency(self, currency: Currency) -> bool {
        match self.facts().currencies {
            Currencies::Listed(listed) => listed.contains(&currency),
            Currencies::National => currency.is_national(),
        }
    }
}

/// A payment method as payments, statistics and legacy events name it: in upper case.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct UpperCaseMethod(pub PaymentMethod);

impl Serialize for UpperCaseMethod {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.as_str())
    }
}

impl JsonSchema for UpperCaseMethod {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "UpperCaseMethod".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<&str> = PaymentMethod::all().map(PaymentMethod::as_str).collect();
        json_schema!({ "type": "string", "description": "A payment method.", "enum": names })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payer_reads_the_name_of_each_method() {
        let names = PaymentMethod::vocabulary().into_iter().map(|(_, method)| method.facts().name);
        let expected = ["Pix", "Cartão de crédito", "MB WAY", "Multibanco", "Boleto", "Cripto"];
        assert_eq!(names.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn parsing_reverses_the_name_of_a_method() {
        for (name, method) in PaymentMethod::vocabulary() {
            assert_eq!((method.as_str(), PaymentMethod::named(name)), (name, Some(method)));
            assert_eq!(serde_json::to_value(method).unwrap(), name.to_lowercase());
        }
        assert_eq!(PaymentMethod::named("pix"), None);
    }

    #[test]
    fn each_currency_has_its_payment_methods() {
        let methods_for = |code: &str| -> Vec<&str> {
            let currency = Currency::parse(code).unwrap();
            let methods = PaymentMethod::all().filter(|method| method.supports_currency(currency));
            methods.map(PaymentMethod::as_str).collect()
        };
        assert_eq!(methods_for("BRL"), ["PIX", "CREDIT_CARD", "BOLETO", "CRYPTO"]);
        assert_eq!(methods_for("EUR"), ["CREDIT_CARD", "MBWAY", "MULTIBANCO", "CRYPTO"]);
        assert_eq!(methods_for("USDT"), ["CRYPTO"]);
        assert_eq!(methods_for("JPY"), ["CREDIT_CARD"]);
        assert!(methods_for("XXX").is_empty());
    }

    #[test]
    fn each_method_has_a_distinct_rollup_code() {
        let codes: std::collections::BTreeSet<&str> =
            PaymentMethod::all().map(|method| method.facts().code).collect();
        assert_eq!(codes.len(), PaymentMethod::all().len());
    }
}
