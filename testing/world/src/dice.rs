//! Random numbers that follow from a seed: a hash of the seed, an index and a purpose. No number depends on how
//! many were drawn before it, so a change of one decision leaves all others as they are.

use sha2::{Digest, Sha256};

/// The random numbers of one index, such as that of a charge.
#[derive(Clone, Copy, Debug)]
pub struct Dice {
    seed: u64,
    index: usize,
}

impl Dice {
    pub fn new(seed: u64, index: usize) -> Self {
        Self { seed, index }
    }

    pub fn roll(&self, purpose: &str) -> u64 {
        let Self { seed, index } = self;
        let hash = Sha256::digest(format!("{seed}/{index}/{purpose}"));
        hash.iter().take(8).fold(0, |number: u64, byte| number.wrapping_shl(8) | u64::from(*byte))
    }

    /// Returns a number below `end`; 0 if `end` is 0.
    pub fn below(&self, purpose: &str, end: u64) -> u64 {
        self.roll(purpose).checked_rem(end).unwrap_or_default()
    }

    /// Returns a number from `first` to `last`.
    pub fn between(&self, purpose: &str, first: i64, last: i64) -> i64 {
        let count = u64::try_from(last.saturating_sub(first)).unwrap_or_default().saturating_add(1);
        first.saturating_add(i64::try_from(self.below(purpose, count)).unwrap_or_default())
    }

    /// Returns true in `per_mille` of 1,000 cases.
    pub fn chance(&self, purpose: &str, per_mille: u64) -> bool {
        self.below(purpose, 1_000) < per_mille
    }

    /// Returns one of the items. `None` if there are none.
    pub fn pick<'a, T>(&self, purpose: &str, items: &'a [T]) -> Option<&'a T> {
        let place = self.below(purpose, u64::try_from(items.len()).unwrap_or_default());
        items.get(usize::try_from(place).unwrap_or_default())
    }

    pub fn cpf(&self, purpose: &str) -> String {
        // The first digit differs from the second, so the digits are never all equal.
        let base = format!("10{:07}", self.below(purpose, 10_000_000));
        let mut digits: Vec<u32> = base.chars().filter_map(|digit| digit.to_digit(10)).collect();
        for _check_digit in 0..2 {
            let weights = (2_u32..).take(digits.len());
            let sum: u32 =
                digits.iter().rev().zip(weights).map(|(digit, weight)| digit.saturating_mul(weight)).sum();
            let rest = sum % 11;
            digits.push(if rest < 2 { 0 } else { 11_u32.saturating_sub(rest) });
        }
        digits.into_iter().filter_map(|digit| char::from_digit(digit, 10)).collect()
    }

    /// Returns a random Pix key, which has the form of a UUID of version 4.
    pub fn random_key(&self, purpose: &str) -> String {
        let (high, low) = (self.roll(purpose), self.roll(&format!("{purpose}, low")));
        let (a, b, c) = (high >> 32, (high >> 16) & 0xffff, high & 0xfff);
        format!("{a:08x}-{b:04x}-4{c:03x}-8{:03x}-{:012x}", (low >> 48) & 0xfff, low & 0xffff_ffff_ffff)
    }
}
