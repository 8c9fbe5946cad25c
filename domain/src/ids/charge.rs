//! Ids of charges, and the ids derived from a charge's id: refunds and MED cases.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use uuid::Uuid;

use super::define::{decode_80_bits, digest, digest_128, encode_80_bits, first_80_bits, id_traits};
use super::{IdError, IdText, Mode};
use crate::base32;
use crate::text::text_schema;

/// The id of a charge: a UUID. `/v1/charges` writes it as `ch_<uuid>`, `/v1/payments` as the bare UUID.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChargeId(Uuid);

impl ChargeId {
    const PREFIX: &str = "ch_";
    const TRANSACTION_PREFIX: &str = "tx_";
    const EXPECTED: IdError = IdError { expected: "ch_ and a lower-case UUID" };
    const EXPECTED_ANY: IdError = IdError { expected: "a lower-case UUID, bare or after ch_ or tx_" };
    const EXPECTED_TXID: IdError = IdError { expected: "26 lower-case letters and digits" };

    /// A `UUIDv8` (RFC 9562) made of a SHA-256. The account's secret salt prevents others from guessing ids;
    /// `surface` separates idempotency namespaces.
    pub fn derive(salt: &[u8], mode: Mode, surface: &str, idempotency_key: &str) -> Self {
        let fields = [salt, mode.as_str().as_bytes(), surface.as_bytes(), idempotency_key.as_bytes()];
        Self(uuid::Builder::from_custom_bytes(digest_128("charge", &fields).to_be_bytes()).into_uuid())
    }

    /// Parses `ch_<uuid>`, `tx_<uuid>` or the bare UUID, lower-case and hyphenated.
    pub fn parse_any(text: &str) -> Result<Self, IdError> {
        let bare = text.strip_prefix(Self::PREFIX).or_else(|| text.strip_prefix(Self::TRANSACTION_PREFIX));
        Self::parse_bare(bare.unwrap_or(text)).ok_or(Self::EXPECTED_ANY)
    }

    /// Returns the UUID's 128 bits.
    pub fn bytes(&self) -> [u8; 16] {
        *self.0.as_bytes()
    }

    /// Returns the bare UUID, lower-case and hyphenated. This is the id that `/v1/payments` shows.
    pub fn raw(&self) -> String {
        self.0.hyphenated().to_string()
    }

    /// The Pix `txid`: 26 characters of [`base32`]. API Pix requires `[a-zA-Z0-9]{26,35}` and forbids to use a
    /// txid twice. The charge's id can be computed from it, so no lookup row is needed.
    pub fn txid(&self) -> String {
        base32::encode(self.0.as_u128())
    }

    /// Decodes a txid; the inverse of [`Self::txid`].
    pub fn from_txid(txid: &str) -> Result<Self, IdError> {
        base32::decode(txid).map(|bits| Self(Uuid::from_u128(bits))).ok_or(Self::EXPECTED_TXID)
    }

    fn parse_bare(text: &str) -> Option<Self> {
        let id = Uuid::try_parse(text).ok()?;
        // `Uuid::try_parse` also accepts upper case, braces and URNs. An id has one spelling.
        let is_canonical = *id.hyphenated().encode_lower(&mut Uuid::encode_buffer()) == *text;
        is_canonical.then_some(Self(id))
    }
}

impl fmt::Display for ChargeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::PREFIX)?;
        f.write_str(self.0.hyphenated().encode_lower(&mut Uuid::encode_buffer()))
    }
}

impl FromStr for ChargeId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        text.strip_prefix(Self::PREFIX).and_then(Self::parse_bare).ok_or(Self::EXPECTED)
    }
}

id_traits!(ChargeId);
impl IdText for ChargeId {
    const CHARS: usize = 39;
    const PATTERN: &'static str = "^ch_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$";
}

text_schema!(ChargeId, "A charge's id: `ch_` and a UUID.", { "pattern": ChargeId::PATTERN });

/// A charge's id as [`ChargeId::raw`] spells it, for responses and events.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RawChargeId(ChargeId);

impl From<ChargeId> for RawChargeId {
    fn from(id: ChargeId) -> Self {
        Self(id)
    }
}

impl From<RawChargeId> for ChargeId {
    fn from(id: RawChargeId) -> Self {
        id.0
    }
}

impl FromStr for RawChargeId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        ChargeId::parse_bare(text).map(Self).ok_or(IdError { expected: "a lower-case UUID" })
    }
}

impl Serialize for RawChargeId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self.0.0.as_hyphenated())
    }
}

impl IdText for RawChargeId {
    const CHARS: usize = 36;
    const PATTERN: &'static str = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$";
}

text_schema!(RawChargeId, "A payment's id: the UUID of its charge's id, without `ch_`.", {
    "format": "uuid",
    "pattern": RawChargeId::PATTERN,
});

/// The id of an object that belongs to a charge: a prefix, the charge's txid, and 80 bits of hash as 16
/// characters. The key of the object's row can be computed from it.
macro_rules! part_of_charge_id {
    ($(#[$doc:meta])* $type:ident, $prefix:literal, $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type {
            charge: ChargeId,
            /// The 80 hash bits, which are unique within the charge.
            key: u128,
        }

        impl $type {
            const EXPECTED: IdError = IdError { expected: concat!($prefix, " and 42 lower-case letters and digits") };

            /// `name` is unique within the charge: a refund's idempotency key; for a MED case the id of the
            /// notification that opened it, or random.
            pub fn derive(charge: ChargeId, name: &str) -> Self {
                let hash = digest($kind, &[charge.0.as_bytes(), name.as_bytes()]);
                Self { charge, key: first_80_bits(&hash) }
            }

            /// Returns the charge that the object belongs to.
            pub fn charge(&self) -> ChargeId {
                self.charge
            }

            /// Returns the last 16 characters of the id, which are unique within the charge.
            pub fn key(&self) -> String {
                encode_80_bits(self.key)
            }

            fn parse(text: &str) -> Option<Self> {
                let (charge, key) = text.strip_prefix($prefix)?.split_at_checked(26)?;
                Some(Self { charge: ChargeId::from_txid(charge).ok()?, key: decode_80_bits(key)? })
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}{}{}", $prefix, self.charge.txid(), self.key())
            }
        }

        impl FromStr for $type {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::parse(text).ok_or(Self::EXPECTED)
            }
        }

        id_traits!($type);

        impl IdText for $type {
            const CHARS: usize = $prefix.len() + 42;
            const PATTERN: &'static str = concat!("^", $prefix, "[0-7][0-9a-hjkmnp-tv-z]{41}$");
        }

        text_schema!($type, concat!("An id: `", $prefix, "` and 42 characters."), { "pattern": $type::PATTERN });
    };
}

part_of_charge_id! {
    /// The id of a refund: `re_` and 42 characters, derived from the charge and the refund's idempotency key.
    RefundId, "re_", "refund"
}

part_of_charge_id! {
    /// The id of a MED case: `med_` and 42 characters, derived from the charge and the notification that
    /// opened the case.
    MedCaseId, "med_", "med_case"
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const UUID: &str = "01234567-89ab-8def-8123-456789abcdef";

    #[test]
    fn a_charge_id_is_accepted_in_three_spellings_only() {
        for text in [format!("ch_{UUID}"), format!("tx_{UUID}"), UUID.to_owned()] {
            assert_eq!(ChargeId::parse_any(&text).map(|id| id.raw()), Ok(UUID.to_owned()), "{text}");
        }
        let upper = UUID.to_uppercase();
        let simple = UUID.replace('-', "");
        for text in [
            "",
            "ch_",
            upper.as_str(),
            simple.as_str(),
            &format!("{{{UUID}}}"),
            &format!("urn:uuid:{UUID}"),
            &format!("CH_{UUID}"),
            &format!("ch_ch_{UUID}"),
            &format!("ch_tx_{UUID}"),
            &format!("{UUID} "),
            &format!("{UUID}0"),
        ] {
            assert_eq!(ChargeId::parse_any(text), Err(ChargeId::EXPECTED_ANY), "{text}");
        }
        assert_eq!(UUID.parse::<ChargeId>(), Err(ChargeId::EXPECTED));
        assert_eq!(format!("tx_{UUID}").parse::<ChargeId>(), Err(ChargeId::EXPECTED));
    }

    #[test]
    fn a_derived_charge_id_is_stable_and_a_uuid_of_version_8() {
        let id = ChargeId::derive(b"salt", Mode::Test, "charges", "order-1");
        insta::assert_snapshot!(id, @"ch_fe5392dd-e865-8656-a544-24ef3d590c1b");
        assert_eq!((id.0.get_version_num(), id.0.get_variant()), (8, uuid::Variant::RFC4122));
    }

    #[test]
    fn a_derived_charge_id_depends_on_each_field_and_on_the_field_boundaries() {
        let derive = ChargeId::derive;
        let ids = [
            derive(b"salt", Mode::Test, "charges", "key"),
            derive(b"salT", Mode::Test, "charges", "key"),
            derive(b"salt", Mode::Live, "charges", "key"),
            derive(b"salt", Mode::Test, "payments", "key"),
            derive(b"salt", Mode::Test, "charges", "kez"),
            derive(b"salt", Mode::Test, "chargesk", "ey"),
            derive(b"salt", Mode::Test, "charge", "skey"),
        ];
        let distinct: std::collections::HashSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len());
    }

    #[test]
    fn a_refund_id_contains_its_charge_and_its_key() {
        let charge = ChargeId::derive(b"salt", Mode::Test, "charges", "order-1");
        let id = RefundId::derive(charge, "refund-01");
        insta::assert_snapshot!(id, @"re_7yae9dvt35gsbaah14xwynj30v141xek78gn2xq9dp");
        assert_eq!((id.to_string().parse(), id.charge()), (Ok(id), charge));
        assert_ne!(id, RefundId::derive(charge, "refund-02"));
        assert_ne!(id.key(), RefundId::derive(ChargeId(Uuid::nil()), "refund-01").key());
        for text in
            ["", "re_", UUID, &format!("re_{UUID}"), &format!("{id}0"), &id.to_string().to_uppercase()]
        {
            assert_eq!(text.parse::<RefundId>(), Err(RefundId::EXPECTED), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_txid_decodes_to_its_charge_id(bits: u128) {
            let id = ChargeId(Uuid::from_u128(bits));
            let txid = id.txid();
            prop_assert_eq!(txid.len(), 26);
            prop_assert!(txid.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()));
            prop_assert_eq!(ChargeId::from_txid(&txid), Ok(id));
        }
    }
}
