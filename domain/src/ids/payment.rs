//! Ids of payments and returns, in the form that banks use. Banks assign most of them; the service makes those
//! of sandbox payments and of returns.

use std::fmt;

use super::define::digest;
use super::{ChargeId, IdError};
use crate::text::{checked_text, text_schema};
use crate::time::Timestamp;

/// An id in the form that banks use, stored unchanged. Only alphabet and maximum length are checked, because
/// some banks assign ids of irregular length.
macro_rules! bank_id {
    ($(#[$doc:meta])* $type:ident, $extra:literal, $longest:expr, $pattern:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(Box<str>);

        impl $type {
            /// Returns the id as received. Ids are case-sensitive.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        checked_text!($type, IdError, |text| {
            let is_of_bank = (1..=$longest).contains(&text.len())
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || $extra.contains(&byte));
            is_of_bank.then_some(()).ok_or(IdError { expected: concat!("an id of the form ", $pattern) })
        });
        text_schema!($type, "An id that a bank or acquirer assigned.", { "pattern": $pattern });
    };
}

/// Twice the 32 characters that the Central Bank prescribes.
const BANK_ID_MAX_LEN: usize = 64;

/// The id of an output of a Bitcoin transaction has 66 characters or a few more: the transaction's 64, and the number of
/// the output.
const PAYMENT_ID_MAX_LEN: usize = 80;

bank_id! {
    /// The end-to-end id of a Pix, assigned by the payer's bank: `E`, ISPB (8 digits), `yyyyMMddHHmm` in UTC,
    /// 11 letters and digits.
    EndToEndId, b"", BANK_ID_MAX_LEN, "^[0-9A-Za-z]{1,64}$"
}

bank_id! {
    /// The acquirer's id of a payment. For a Pix it is the [`EndToEndId`].
    AcquirerPaymentId, b"_-", PAYMENT_ID_MAX_LEN, "^[0-9A-Za-z_-]{1,80}$"
}

bank_id! {
    /// The id of a full or partial return of a Pix. It has the form of an [`EndToEndId`], with `D` in place
    /// of `E`.
    ReturnId, b"", BANK_ID_MAX_LEN, "^[0-9A-Za-z]{1,64}$"
}

const SANDBOX_ISPB: &str = "00000000";

impl EndToEndId {
    /// Creates a well-formed id of a sandbox payment at that minute.
    pub fn sandbox(at: Timestamp, random: [u8; 8]) -> Self {
        let minute = at.to_chrono().format("%Y%m%d%H%M");
        Self(format!("E{SANDBOX_ISPB}{minute}{}", tail(random)).into())
    }

    /// Returns the id of a charge's Pix that is simulated on the checkout page. A charge has at most one.
    pub fn simulated(charge: ChargeId, created_at: Timestamp) -> Self {
        Self::sandbox(created_at, last_64_bits(charge))
    }
}

impl From<EndToEndId> for AcquirerPaymentId {
    fn from(id: EndToEndId) -> Self {
        Self(id.0)
    }
}

impl AcquirerPaymentId {
    pub fn hash(&self) -> [u8; 32] {
        digest("payment-shard", &[self.0.as_bytes()])
    }

    /// Returns the id of a charge's card authorisation at the sandbox. A charge has at most one.
    pub fn for_card_authorisation(charge: ChargeId) -> Self {
        Self(format!("C{}", charge.txid()).into())
    }

    /// Creates the id of a sandbox payment that is not a Pix.
    pub fn sandbox(at: Timestamp, random: [u8; 8]) -> Self {
        let minute = at.to_chrono().format("%Y%m%d%H%M");
        Self(format!("S{SANDBOX_ISPB}{minute}{}", tail(random)).into())
    }

    /// The id of a charge's payment, neither Pix nor card, that is simulated on the checkout page. A charge has
    /// at most one.
    pub fn simulated(charge: ChargeId, created_at: Timestamp) -> Self {
        Self::sandbox(created_at, last_64_bits(charge))
    }
}

/// These bits distinguish charges: two of them are fixed, the others are a hash.
fn last_64_bits(charge: ChargeId) -> [u8; 8] {
    let [_, _, _, _, _, _, _, _, last @ ..] = charge.bytes();
    last
}

impl ReturnId {
    /// `part` distinguishes the partial returns of a payment, such as a refund's id. ISPB and minute are the
    /// payment's, if its id contains them.
    pub fn derive(payment: &AcquirerPaymentId, part: &str) -> Self {
        let hash = digest("return", &[payment.0.as_bytes(), part.as_bytes()]);
        let (random, _) = hash.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
        let issued = payment.0.get(1..21).filter(|issued| issued.bytes().all(|byte| byte.is_ascii_digit()));
        Self(format!("D{}{}", issued.unwrap_or("00000000197001010000"), tail(*random)).into())
    }
}

/// 62^11 is above 2^64, so different bits give different texts.
fn tail(random: [u8; 8]) -> String {
    const ALPHABET: [u8; 62] = *b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    const LEN: usize = 11;
    let mut rest = u64::from_be_bytes(random);
    let mut text = String::with_capacity(LEN);
    for _ in 0..LEN {
        let index = usize::try_from(rest % 62).unwrap_or_default();
        text.push(ALPHABET.get(index).copied().map_or('0', char::from));
        rest /= 62;
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn vectors(section: &str) -> Vec<String> {
        let file: Value =
            serde_json::from_str(include_str!("../../../artefacts/tests/vectors/pix-and-boleto.json"))
                .unwrap();
        let ids = file["pix_ids"][section].as_array().unwrap();
        ids.iter().map(|id| id.as_str().unwrap().split(' ').next().unwrap().to_owned()).collect()
    }

    #[test]
    fn published_bank_ids_of_any_length_are_accepted() {
        for id in vectors("endToEndId_ok").iter().chain(&vectors("endToEndId_published_but_wrong_length")) {
            assert_eq!(id.parse::<EndToEndId>().unwrap().as_str(), id);
        }
        for id in vectors("rtrId_ok") {
            assert_eq!(id.parse::<ReturnId>().unwrap().as_str(), id);
        }
    }

    #[test]
    fn a_bank_id_that_is_too_long_or_has_other_characters_is_refused() {
        let longest = "E".repeat(64);
        assert!(longest.parse::<EndToEndId>().is_ok());
        for text in ["", "E1234-5678", "E1234567É", " E12345678", &"E".repeat(65)] {
            assert!(text.parse::<EndToEndId>().is_err(), "{text}");
            assert!(text.parse::<ReturnId>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_payment_has_the_id_of_an_output_of_a_transaction() {
        let output = format!("{}-4294967295", "f".repeat(64));
        assert_eq!(output.parse::<AcquirerPaymentId>().unwrap().as_str(), output);
        assert!("f".repeat(80).parse::<AcquirerPaymentId>().is_ok());
        assert!("f".repeat(81).parse::<AcquirerPaymentId>().is_err());
    }

    #[test]
    fn a_charge_has_one_simulated_payment() {
        let charge = ChargeId::derive(b"salt", crate::ids::Mode::Test, "charges", "key-1");
        let created_at = at("2026-11-21T10:00:59Z");
        let id = EndToEndId::simulated(charge, created_at);
        insta::assert_snapshot!(id, @"E00000000202611211000373HtlGOWLD");
        assert_eq!((id.as_str().len(), &id), (32, &EndToEndId::simulated(charge, created_at)));
        let other = ChargeId::derive(b"salt", crate::ids::Mode::Test, "charges", "key-2");
        assert_ne!(id, EndToEndId::simulated(other, created_at));
    }

    #[test]
    fn a_return_id_contains_the_bank_and_minute_of_its_payment() {
        let payment: AcquirerPaymentId = "E12345678202009091221abcdef12345".parse().unwrap();
        let id = ReturnId::derive(&payment, "refund-1");
        insta::assert_snapshot!(id, @"D12345678202009091221SZm9W2XWZxA");
        assert_eq!(id.as_str().len(), 32);
        assert_eq!(id, ReturnId::derive(&payment, "refund-1"));
        assert_ne!(id, ReturnId::derive(&payment, "refund-2"));
        let odd: AcquirerPaymentId = "E1803615022211340s08793XPJ".parse().unwrap();
        assert_eq!(ReturnId::derive(&odd, "refund-1").as_str().len(), 32);
    }

    proptest! {
        #[test]
        fn different_random_bits_give_different_sandbox_ids(a: [u8; 8], b: [u8; 8]) {
            let at = Timestamp::MIN;
            prop_assert_eq!(EndToEndId::sandbox(at, a) == EndToEndId::sandbox(at, b), a == b);
        }

        #[test]
        fn parsing_never_panics(text in ".{0,90}") {
            let _ = text.parse::<AcquirerPaymentId>().map(|id| ReturnId::derive(&id, &text));
        }
    }
}
