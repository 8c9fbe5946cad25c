//! Ids of a prefix and a ULID: 48 bits of milliseconds and 80 bits of hash or randomness, as 26 characters of
//! [`base32`]. Such ids sort by time.

use super::define::{digest, first_80_bits};
use crate::base32;
use crate::time::Timestamp;

const TAIL_BITS: u32 = 80;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Ulid(pub(super) u128);

impl Ulid {
    pub(super) fn new(at: Timestamp, tail: &[u8]) -> Self {
        // The conversion cannot fail: a `Timestamp` is not negative, and its maximum is below 2^48.
        let millis = u128::try_from(at.millis()).unwrap_or_default();
        Self((millis << TAIL_BITS) | first_80_bits(tail))
    }

    pub(super) fn with_time_of(other: Self, tail: &[u8]) -> Self {
        Self(((other.0 >> TAIL_BITS) << TAIL_BITS) | first_80_bits(tail))
    }

    pub(super) fn timestamp(self) -> Option<Timestamp> {
        i64::try_from(self.0 >> TAIL_BITS).ok().and_then(|millis| Timestamp::from_millis(millis).ok())
    }

    pub(super) fn first_at(at: Timestamp) -> Self {
        Self::new(at, &[0; 10])
    }

    pub(super) fn last_at(at: Timestamp) -> Self {
        Self::new(at, &[255; 10])
    }

    pub(super) fn encode(self) -> String {
        base32::encode(self.0)
    }

    pub(super) fn decode(text: &str) -> Option<Self> {
        base32::decode(text).map(Self)
    }
}

macro_rules! ulid_id {
    ($(#[$doc:meta])* $type:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type($crate::ids::ulid::Ulid);

        impl $type {
            /// `None` only for a forged id, whose 48 bits may exceed the range of times.
            pub fn timestamp(&self) -> Option<$crate::time::Timestamp> {
                self.0.timestamp()
            }

            /// Returns the lowest id of that millisecond.
            pub fn first_at(at: $crate::time::Timestamp) -> Self {
                Self($crate::ids::ulid::Ulid::first_at(at))
            }

            /// Returns the highest id of that millisecond.
            pub fn last_at(at: $crate::time::Timestamp) -> Self {
                Self($crate::ids::ulid::Ulid::last_at(at))
            }

            /// Returns the first sort key after that of this id; `None`: the first of all.
            pub fn sort_key_after(id: Option<Self>) -> String {
                // All ids have the same length, and '!' sorts before each of their characters.
                id.map_or_else(
                    || Self::first_at($crate::time::Timestamp::MIN).to_string(),
                    |id| format!("{id}!"),
                )
            }
        }

        $crate::ids::define::prefixed_id!(
            $type,
            $prefix,
            concat!($prefix, " and 26 lower-case letters and digits"),
            $crate::ids::ulid::Ulid::encode,
            $crate::ids::ulid::Ulid::decode
        );
        impl $crate::ids::IdText for $type {
            const CHARS: usize = $prefix.len() + 26;
            const PATTERN: &'static str = concat!("^", $prefix, "[0-7][0-9a-hjkmnp-tv-z]{25}$");
        }

        $crate::text::text_schema!($type, concat!("An id: `", $prefix, "` and 26 characters."), {
            "pattern": <$type as $crate::ids::IdText>::PATTERN,
        });
    };
}
pub(super) use ulid_id;

/// Implements the creation of ids that are not derived from a row.
macro_rules! random_ids {
    ($($type:ident),+) => {$(
        impl $type {
            /// Creates an id from the time of its object and 80 random bits.
            pub fn new(at: $crate::time::Timestamp, random: [u8; 10]) -> Self {
                Self($crate::ids::ulid::Ulid::new(at, &random))
            }
        }
    )+};
}
pub(super) use random_ids;

ulid_id! {
    /// The id of a ledger posting, which the wallet shows as a movement: `mv_` and 26 characters.
    PostingId, "mv_"
}

ulid_id! {
    /// The id of a payout: `po_` and 26 characters.
    PayoutId, "po_"
}

ulid_id! {
    /// The id of a MED case's evidence item: `mev_` and 26 characters.
    EvidenceId, "mev_"
}

ulid_id! {
    /// The id of an audit row: `aud_` and 26 characters.
    AuditId, "aud_"
}

ulid_id! {
    /// The id of an email to an account's contact: `ntc_` and 26 characters.
    EmailId, "ntc_"
}

ulid_id! {
    /// The id of an operator's proposal: `pr_` and 26 characters.
    ProposalId, "pr_"
}

random_ids!(PostingId, PayoutId, EvidenceId, AuditId, ProposalId);

impl PostingId {
    /// The posting of a row's change to `version` at `at`.
    pub fn derive(at: Timestamp, row: &str, version: u64) -> Self {
        Self(Ulid::new(at, &digest("posting", &[row.as_bytes(), &version.to_be_bytes()])))
    }

    /// The last 8 bits. They select one of the rows that share the counters of a ledger.
    pub fn shard_byte(&self) -> u8 {
        self.0.0.to_be_bytes().last().copied().unwrap_or_default()
    }
}

impl AuditId {
    /// The audit row of a row's change to `version` at `at`.
    pub fn derive(at: Timestamp, row: &str, version: u64) -> Self {
        Self(Ulid::new(at, &digest("audit", &[row.as_bytes(), &version.to_be_bytes()])))
    }
}

impl EmailId {
    /// An email of this kind about a row's change to `version` at `at`. The same change gives the same id, so
    /// the email is sent once.
    pub fn derive(at: Timestamp, row: &str, version: u64, kind: &str) -> Self {
        let hash = digest("notice", &[row.as_bytes(), &version.to_be_bytes(), kind.as_bytes()]);
        Self(Ulid::new(at, &hash))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn an_email_id_is_stable_and_differs_by_kind_and_version() {
        let at = at("2026-11-21T01:02:03.004Z");
        let id = EmailId::derive(at, "charge#1#case#1", 1, "med_opened");
        insta::assert_snapshot!(id, @"ntc_01m7xszsqw61tfnpevgszaqx2n");
        assert_eq!(id.timestamp(), Some(at));
        assert_ne!(id, EmailId::derive(at, "charge#1#case#1", 1, "med_resolved"));
        assert_ne!(id, EmailId::derive(at, "charge#1#case#1", 2, "med_opened"));
        assert_ne!(id, EmailId::derive(at, "charge#1#case#2", 1, "med_opened"));
    }

    #[test]
    fn the_shard_byte_of_a_posting_is_the_last_of_its_randomness() {
        let id = PostingId::new(at("2026-11-21T01:02:03.004Z"), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(id.shard_byte(), 9);
    }

    #[test]
    fn a_posting_id_is_between_the_first_and_last_id_of_its_millisecond() {
        let now = at("2026-11-21T01:02:03.004Z");
        for id in [
            PostingId::derive(now, "charge#1", 2),
            PostingId::new(now, [0; 10]),
            PostingId::new(now, [255; 10]),
        ] {
            assert!(PostingId::first_at(now) <= id && id <= PostingId::last_at(now));
            assert_eq!(id.timestamp(), Some(now));
        }
        assert!(PostingId::last_at(now) < PostingId::first_at(now.plus_millis(1).unwrap()));
        assert_ne!(PostingId::derive(now, "charge#1", 2), PostingId::derive(now, "charge#1", 3));
    }
}
