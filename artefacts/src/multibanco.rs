//! Multibanco: the entity, reference and amount that a payer in Portugal enters at a cash machine.
//!
//! The last two digits of a reference are check digits over the entity, the other digits of the reference,
//! and the amount: 98 − (the weighted sum of these digits, modulo 97). So a reference is valid for one amount
//! only.
//!
//! Source: SIBS's rule, from a published implementation and its example.

use crate::digits::Digits;

/// The list of entities is not published, but no entity in use is known to begin with a zero. So a payment to
/// the entity 00000 should not reach a real company.
pub const SANDBOX_ENTITY: Digits<5> = Digits::ZERO;

const WEIGHTS: [u32; 20] = [51, 73, 17, 89, 38, 62, 45, 53, 15, 50, 5, 49, 34, 81, 76, 27, 90, 9, 30, 3];

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AmountError {
    #[error("the amount of a Multibanco reference must be at least 1 cent")]
    Zero,
    /// Above 99,999,999 cents: the amount has eight digits.
    #[error("the amount of a Multibanco reference must be at most 99999999 cents")]
    TooLarge,
}

/// Returns the reference for an amount of 1 to 99,999,999 cents of a euro.
pub fn reference(
    entity: &Digits<5>,
    number: &Digits<7>,
    amount_cents: u64,
) -> Result<Digits<9>, AmountError> {
    if amount_cents == 0 {
        return Err(AmountError::Zero);
    }
    let cents = Digits::<8>::from_number(amount_cents.into()).map_err(|_| AmountError::TooLarge)?;
    let digits = entity.values().chain(number.values()).chain(cents.values());
    // The sum is below 20 · 9 · 100, far from saturation.
    let sum = digits
        .zip(WEIGHTS)
        .fold(0_u32, |sum, (digit, weight)| sum.saturating_add(u32::from(digit).saturating_mul(weight)));
    let check = 98_u32.saturating_sub(sum % 97);
    // The number is from 2 to 98, so it always has at most two digits.
    let check = Digits::<2>::from_number(check.into()).unwrap_or(Digits::ZERO);
    Ok(Digits::collect(number.values().chain(check.values())))
}

/// Returns a reference for tests: its entity is [`SANDBOX_ENTITY`], and its number is derived from an id. It
/// is not unique, because there are only ten million numbers.
pub fn sandbox_reference(id: [u8; 16], amount_cents: u64) -> Result<Digits<9>, AmountError> {
    reference(&SANDBOX_ENTITY, &Digits::from_id(id), amount_cents)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn the_published_reference_is_encoded_and_valid() {
        let all: Value = serde_json::from_str(include_str!("../tests/vectors/pix-and-boleto.json")).unwrap();
        let vectors = all["multibanco"].as_array().unwrap();
        assert_eq!(vectors.len(), 1);
        for vector in vectors {
            let text = |key: &str| vector[key].as_str().unwrap();
            let entity = Digits::parse(text("entity")).unwrap();
            let amount_cents = vector["amount_cents"].as_u64().unwrap();
            let written = reference(&entity, &Digits::parse(text("ref7")).unwrap(), amount_cents).unwrap();
            assert_eq!(written.as_str(), text("reference"));
        }
    }

    #[test]
    fn an_amount_of_zero_or_of_more_than_eight_digits_is_rejected() {
        assert!(sandbox_reference([0; 16], 99_999_999).is_ok());
        for rejected in [100_000_000, 999_999_999_999, u64::MAX] {
            assert_eq!(sandbox_reference([0; 16], rejected), Err(AmountError::TooLarge), "{rejected}");
        }
        assert_eq!(sandbox_reference([0; 16], 0), Err(AmountError::Zero));
    }

    #[test]
    fn a_sandbox_reference_is_derived_from_its_id() {
        insta::assert_snapshot!(sandbox_reference([7; 16], 1000).unwrap(), @"991168740");
        assert_ne!(sandbox_reference([7; 16], 1000), sandbox_reference([8; 16], 1000));
    }

    proptest! {
        #[test]
        fn another_digit_of_the_amount_changes_the_reference(
            id: [u8; 16],
            cents in 1_u64..=99_999_999,
            more in 1_u64..=9,
        ) {
            // The weight of the last digit is 3, so the weighted sum changes by 3 to 27, which is never a multiple of
            // 97.
            let changed = cents - cents % 10 + (cents + more) % 10;
            prop_assume!(changed != 0);
            prop_assert_ne!(sandbox_reference(id, cents).unwrap(), sandbox_reference(id, changed).unwrap());
        }
    }
}
