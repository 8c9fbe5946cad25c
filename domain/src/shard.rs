//! Shards: the rows of a large account are spread over several partitions, because DynamoDB accepts at most
//! 1,000 write units a second for one partition key.
//!
//! An account's number of shards only grows. A charge stores the number with which it was created, and its
//! shard is a hash of its id modulo that number. So it never changes, and the events, postings and index
//! entries of the charge are in its shard. Rows that belong to no charge are in the first shard.
//!
//! The number never decides the key of a row whose insert proves that something happened once: the shard of an
//! incoming payment depends on the payment's id alone ([`Shard::of_payment`]).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::{AcquirerPaymentId, ChargeId, Scope};

/// The most shards of an account.
const MAX_SHARDS: u8 = 16;

/// A shard of a scope's rows.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct Shard(u8);

impl Shard {
    /// The shard of rows that belong to no charge, and of all rows of an account with one shard.
    pub const FIRST: Self = Self(0);

    /// Returns the shard of an incoming payment. It depends on the payment's id alone.
    pub fn of_payment(payment: &AcquirerPaymentId) -> Self {
        let [hash, ..] = payment.hash();
        Self(hash.checked_rem(MAX_SHARDS).unwrap_or_default())
    }

    /// Returns the partition key of this shard. `whole` is the partition key without shards.
    #[must_use]
    pub fn partition(self, whole: String) -> String {
        if self.is_first() { whole } else { format!("{whole}#{self}") }
    }

    /// Splits a partition key, which must end in a scope without its shard.
    pub fn split(partition: &str) -> (&str, Self) {
        let split =
            partition.rsplit_once('#').and_then(|(whole, number)| Some((whole, Self::parse(number)?)));
        split.unwrap_or((partition, Self::FIRST))
    }

    /// Parses the number of a shard other than the first one.
    pub fn parse(number: &str) -> Option<Self> {
        let number: u8 = number.parse().ok()?;
        (1..MAX_SHARDS).contains(&number).then_some(Self(number))
    }

    /// Checks whether this is the first shard, which rows omit.
    pub fn is_first(&self) -> bool {
        *self == Self::FIRST
    }

    /// Returns the next shard of an account with this number of shards. `None`: this is the last one.
    pub fn next(self, count: ShardCount) -> Option<Self> {
        let next = self.0.saturating_add(1);
        (next < count.0).then_some(Self(next))
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The number of shards of an account: 1 to 16.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct ShardCount(u8);

impl ShardCount {
    /// The number of an account whose operator has not set one.
    pub const ONE: Self = Self(1);

    pub const MAX: Self = Self(MAX_SHARDS);

    pub fn get(self) -> u8 {
        self.0
    }

    pub fn shards(self) -> impl Iterator<Item = Shard> {
        (0..self.0).map(Shard)
    }

    /// Returns the shard of a charge that was created with this number.
    pub fn shard_of(self, charge: ChargeId) -> Shard {
        let [.., high, low] = charge.bytes();
        let shard = u16::from_be_bytes([high, low]).checked_rem(u16::from(self.0)).unwrap_or_default();
        Shard(u8::try_from(shard).unwrap_or_default())
    }

    /// Checks whether the number is one, which rows omit.
    pub fn is_one(&self) -> bool {
        *self == Self::ONE
    }
}

impl Default for ShardCount {
    fn default() -> Self {
        Self::ONE
    }
}

impl TryFrom<u8> for ShardCount {
    type Error = ShardCountError;

    fn try_from(number: u8) -> Result<Self, ShardCountError> {
        if (1..=MAX_SHARDS).contains(&number) { Ok(Self(number)) } else { Err(ShardCountError) }
    }
}

impl From<ShardCount> for u8 {
    fn from(count: ShardCount) -> Self {
        count.0
    }
}

/// The number of shards is out of range.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the number of shards must be from 1 to {MAX_SHARDS}")]
pub struct ShardCountError;

/// The number of shards in an account's settings. The rows of API keys have copies of the settings, which
/// change one after another. So readers get a greater number first, then new charges: no charge is in a shard
/// that a reader leaves out.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct ShardSettings {
    /// How many shards readers read.
    pub read: ShardCount,
    /// The number that new charges store.
    pub new_charges: ShardCount,
}

/// A scope, and how many shards its rows may be in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ShardedScope {
    pub scope: Scope,
    /// The number of shards that a reader reads: the greatest number that was ever set.
    pub shards: ShardCount,
}

impl ShardedScope {
    /// Returns the partition keys of all shards. `partition` returns that of one shard.
    pub fn partitions(&self, partition: impl Fn(&Scope, Shard) -> String) -> Vec<String> {
        self.shards.shards().map(|shard| partition(&self.scope, shard)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::ids::Mode;

    fn charge(number: u32) -> ChargeId {
        ChargeId::derive(b"salt", Mode::Test, "charges", &number.to_string())
    }

    #[test]
    fn the_charges_of_an_account_are_spread_evenly() {
        for count in 1..=MAX_SHARDS {
            let count = ShardCount::try_from(count).unwrap();
            let mut charges: BTreeMap<Shard, u32> = BTreeMap::new();
            for number in 0..8_000 {
                *charges.entry(count.shard_of(charge(number))).or_default() += 1;
            }
            assert_eq!(charges.keys().copied().collect::<Vec<_>>(), count.shards().collect::<Vec<_>>());
            let most = charges.values().max().unwrap() * u32::from(count.get());
            assert!(most < 9_600, "{most} of 8,000 in the fullest of {} shards", count.get());
        }
    }

    #[test]
    fn the_first_shard_has_the_partition_key_without_shards() {
        let scope = "events#acc_0123456789abcdef:test";
        assert_eq!(Shard::FIRST.partition(scope.to_owned()), scope);
        assert_eq!(ShardCount::ONE.shard_of(charge(1)), Shard::FIRST);
        for shard in ShardCount::MAX.shards() {
            let partition = shard.partition(scope.to_owned());
            assert_eq!(Shard::split(&partition), (scope, shard));
        }
        for whole in ["events#acc_0123456789abcdef:live", "events#0", "events#16", "events#x", "x"] {
            assert_eq!(Shard::split(whole), (whole, Shard::FIRST));
        }
    }

    #[test]
    fn a_number_out_of_range_is_refused() {
        for number in [0, 17] {
            assert_eq!(ShardCount::try_from(number), Err(ShardCountError));
            assert!(serde_json::from_str::<ShardCount>(&number.to_string()).is_err());
        }
        assert_eq!(serde_json::to_string(&ShardCount::MAX).unwrap(), "16");
    }

    #[test]
    fn the_shards_of_an_account_follow_one_another() {
        let count = ShardCount::try_from(3).unwrap();
        let all: Vec<Shard> = std::iter::successors(Some(Shard::FIRST), |shard| shard.next(count)).collect();
        assert_eq!(all, count.shards().collect::<Vec<_>>());
    }
}
