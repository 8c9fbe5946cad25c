//! The ids of the domain: a type for each, with its prefix, its one spelling and the rule it is made by.
//!
//! Nothing here is random by itself: an id is derived from what it names, so that whoever repeats a step makes
//! the same id and writes nothing twice; where chance is needed, it is passed in. Ids of events, deliveries and
//! endpoints begin with 48 bits of milliseconds and are written in [`base32`], so they sort by time.
//!
//! Every type is a string in serde, spelt as by `Display`.

mod api_key;

use std::fmt;
use std::str::FromStr;

pub use api_key::{ApiKeyId, Fingerprint};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::base32;
use crate::text::serde_as_text;
use crate::time::Timestamp;

/// A text that is not an id of the type that was asked for. Holds none of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be {expected}")]
pub struct IdError {
    /// What was expected, for a message: `ch_ and a UUID`.
    pub expected: &'static str,
}

/// Whether money is played with or real. A key of one mode sees nothing of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// The sandbox.
    Test,
    /// Real money.
    Live,
}

impl Mode {
    /// `test` or `live`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Test => "test",
            Self::Live => "live",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Mode {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        match text {
            "test" => Ok(Self::Test),
            "live" => Ok(Self::Live),
            _ => Err(IdError { expected: "test or live" }),
        }
    }
}

serde_as_text!(Mode);

/// A merchant's account: `acc_` and 16 characters of the [`base32`] alphabet, which has all of lower-case hex.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountId([u8; Self::LEN]);

impl AccountId {
    const PREFIX: &str = "acc_";
    const LEN: usize = 16;
    const EXPECTED: IdError = IdError { expected: "acc_ and 16 lower-case letters and digits" };

    /// A new account's id from 80 random bits.
    pub fn new(random: [u8; 10]) -> Self {
        let bits = bits_from(&random);
        let mut characters = [0; Self::LEN];
        let mut rest = bits;
        for character in characters.iter_mut().rev() {
            *character = base32::character_of(rest);
            rest >>= 5;
        }
        Self(characters)
    }

    fn bare(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for AccountId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::PREFIX)?;
        f.write_str(self.bare())
    }
}

impl FromStr for AccountId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let bare = text.strip_prefix(Self::PREFIX).ok_or(Self::EXPECTED)?;
        let characters: [u8; Self::LEN] = bare.as_bytes().try_into().map_err(|_| Self::EXPECTED)?;
        if characters.iter().all(|character| base32::is_character(*character)) {
            Ok(Self(characters))
        } else {
            Err(Self::EXPECTED)
        }
    }
}

/// Whose data: an account's in one mode. As a key: `acc_0123456789abcdef:test`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    /// The account.
    pub account: AccountId,
    /// The mode.
    pub mode: Mode,
}

/// Has a scope: only callers of that scope see it.
pub trait Scoped {
    /// Its scope.
    fn scope(&self) -> Scope;
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.account, self.mode)
    }
}

impl FromStr for Scope {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let expected = IdError { expected: "an account id, a colon, and test or live" };
        let (account, mode) = text.split_once(':').ok_or(expected)?;
        Ok(Self { account: account.parse()?, mode: mode.parse()? })
    }
}

/// A charge, and the transaction that it is on `/v1/payments`: one UUID, spelt `ch_<uuid>` or bare.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChargeId(Uuid);

impl ChargeId {
    const PREFIX: &str = "ch_";
    const TRANSACTION_PREFIX: &str = "tx_";
    const EXPECTED: IdError = IdError { expected: "ch_ and a lower-case UUID" };
    const EXPECTED_ANY: IdError = IdError { expected: "a lower-case UUID, bare or after ch_ or tx_" };
    const EXPECTED_TXID: IdError = IdError { expected: "26 lower-case letters and digits" };

    /// The id that an idempotency key stands for: a `UUIDv8` (RFC 9562) of a SHA-256. Each field goes in with its
    /// length, so no two inputs run together into one; the salt is the account's and keeps ids unguessable.
    pub fn derive(salt: &[u8], mode: Mode, surface: &str, idempotency_key: &str) -> Self {
        let hash = digest(
            "charge",
            &[salt, mode.as_str().as_bytes(), surface.as_bytes(), idempotency_key.as_bytes()],
        );
        let (bytes, _) = hash.split_first_chunk::<16>().unwrap_or((&[0; 16], &[]));
        Self(uuid::Builder::from_custom_bytes(*bytes).into_uuid())
    }

    /// Takes what clients send: `ch_<uuid>`, `tx_<uuid>` or the bare UUID, lower-case and hyphenated.
    pub fn parse_any(text: &str) -> Result<Self, IdError> {
        let bare = text.strip_prefix(Self::PREFIX).or_else(|| text.strip_prefix(Self::TRANSACTION_PREFIX));
        Self::parse_bare(bare.unwrap_or(text)).ok_or(Self::EXPECTED_ANY)
    }

    /// Its 128 bits.
    pub fn bytes(&self) -> [u8; 16] {
        *self.0.as_bytes()
    }

    /// The bare UUID, lower-case and hyphenated: the id on `/v1/payments`.
    pub fn raw(&self) -> String {
        self.0.hyphenated().to_string()
    }

    /// The Pix `txid`: the id's 128 bits in [`base32`], 26 characters. API Pix wants `[a-zA-Z0-9]{26,35}`, unique
    /// per receiver for ever.
    pub fn txid(&self) -> String {
        base32::encode(self.0.as_u128()).as_str().to_owned()
    }

    /// The charge that a `txid` of ours stands for.
    pub fn from_txid(txid: &str) -> Result<Self, IdError> {
        base32::decode(txid).map(|bits| Self(Uuid::from_u128(bits))).map_err(|_| Self::EXPECTED_TXID)
    }

    fn parse_bare(text: &str) -> Option<Self> {
        let id = Uuid::try_parse(text).ok()?;
        // The parser takes upper case, braces and URNs too; an id has one spelling.
        let spelt = *id.hyphenated().encode_lower(&mut Uuid::encode_buffer()) == *text;
        spelt.then_some(Self(id))
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

/// Debug as Display, and serde as text.
macro_rules! id_traits {
    ($($type:ty),+) => {$(
        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        serde_as_text!($type);
    )+};
}

/// A prefix and 26 characters of [`base32`]: 48 bits of milliseconds, then 80 bits.
macro_rules! timed_id {
    ($(#[$doc:meta])* $type:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(u128);

        impl $type {
            /// The instant that the id begins with. An id that was made here has one; one that was made up may not.
            pub fn timestamp(&self) -> Option<Timestamp> {
                i64::try_from(self.0 >> TAIL_BITS).ok().and_then(|millis| Timestamp::from_millis(millis).ok())
            }

            /// Whether it was made within the day before `now`. One that was made up would put what it names anywhere in time.
            pub fn is_of_late(&self, now: Timestamp) -> bool {
                let age_ms = self.timestamp().map(|made| now.millis_since(made));
                age_ms.is_some_and(|age_ms| (-CLOCK_DIFFERENCE_MS..=DAY_MS).contains(&age_ms))
            }

            /// Not after any id of that instant.
            pub fn first_at(at: Timestamp) -> Self {
                Self(timed(head(at), &[0; TAIL_BYTES]))
            }

            /// Not before any id of that instant.
            pub fn last_at(at: Timestamp) -> Self {
                Self(timed(head(at), &[255; TAIL_BYTES]))
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str($prefix)?;
                f.write_str(base32::encode(self.0).as_str())
            }
        }

        impl FromStr for $type {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                text.strip_prefix($prefix)
                    .and_then(|bare| base32::decode(bare).ok())
                    .map(Self)
                    .ok_or(IdError { expected: concat!($prefix, " and 26 lower-case letters and digits") })
            }
        }
    };
}

timed_id! {
    /// An event: `evt_` and 26 characters. Stable per business event, identical across retries.
    EventId, "evt_"
}

timed_id! {
    /// One delivery of an event to an endpoint: `wd_` and 26 characters.
    DeliveryId, "wd_"
}

timed_id! {
    /// A webhook endpoint: `wh_` and 26 characters.
    EndpointId, "wh_"
}

timed_id! {
    /// A request to tell something again: `rs_` and 26 characters.
    ResendId, "rs_"
}

timed_id! {
    /// A posting of the ledger, and the wallet's movement that it is: `mv_` and 26 characters.
    PostingId, "mv_"
}

timed_id! {
    /// A payout: `po_` and 26 characters.
    PayoutId, "po_"
}

timed_id! {
    /// A piece of evidence of a MED case: `mev_` and 26 characters.
    EvidenceId, "mev_"
}

timed_id! {
    /// An audit row: `aud_` and 26 characters.
    AuditId, "aud_"
}

timed_id! {
    /// A notice by e-mail: `ntc_` and 26 characters. Stable per change that it tells of.
    NoticeId, "ntc_"
}

impl PostingId {
    /// The posting that a row's change to this version makes. `at` is when the row changed.
    pub fn derive(at: Timestamp, row: &str, version: u64) -> Self {
        let hash = digest("posting", &[row.as_bytes(), &version.to_be_bytes()]);
        Self(timed(head(at), &hash))
    }

    /// A posting that no row's version names: from its time and 80 random bits.
    pub fn new(at: Timestamp, random: [u8; 10]) -> Self {
        Self(timed(head(at), &random))
    }

    /// A number that spreads postings evenly: the last bits of what is random or hashed in the id.
    pub fn spread(&self) -> u8 {
        self.0.to_be_bytes().last().copied().unwrap_or_default()
    }
}

impl PayoutId {
    /// A new payout's id from the time of its creation and 80 random bits.
    pub fn new(at: Timestamp, random: [u8; 10]) -> Self {
        Self(timed(head(at), &random))
    }
}

impl EvidenceId {
    /// A new piece of evidence's id from the time at which its upload was asked for and 80 random bits.
    pub fn new(at: Timestamp, random: [u8; 10]) -> Self {
        Self(timed(head(at), &random))
    }
}

impl AuditId {
    /// A new audit row's id from its time and 80 random bits.
    pub fn new(at: Timestamp, random: [u8; 10]) -> Self {
        Self(timed(head(at), &random))
    }

    /// The audit row of a row's change to this version. `at` is when the row changed.
    pub fn derive(at: Timestamp, row: &str, version: u64) -> Self {
        let hash = digest("audit", &[row.as_bytes(), &version.to_be_bytes()]);
        Self(timed(head(at), &hash))
    }
}

impl NoticeId {
    /// The notice of this kind that a row's change to this version means. `at` is when the row changed.
    pub fn derive(at: Timestamp, row: &str, version: u64, kind: &str) -> Self {
        let hash = digest("notice", &[row.as_bytes(), &version.to_be_bytes(), kind.as_bytes()]);
        Self(timed(head(at), &hash))
    }
}

/// The bits of an event's id that its last character spells.
const NAME_BITS: u128 = 31;

impl EventId {
    /// The event of this type that a row's change to this version means. `at` is when the row changed.
    pub fn derive(at: Timestamp, row: &str, version: u64, event_type: &str) -> Self {
        let hash = digest("event", &[row.as_bytes(), &version.to_be_bytes(), event_type.as_bytes()]);
        Self(timed(head(at), &hash))
    }

    /// The row of an event that is one of several names of a row: its last character is free for them. So a name leads to
    /// its row, and stands in the order of ids where its row does.
    #[must_use]
    pub fn row_of_names(self) -> Self {
        Self(self.0 & !NAME_BITS)
    }

    /// The name of such a row that has this code, 1 to 31.
    #[must_use]
    pub fn named(self, code: u8) -> Self {
        Self((self.0 & !NAME_BITS) | (u128::from(code) & NAME_BITS))
    }
}

impl DeliveryId {
    /// The first delivery of an event to an endpoint, or to its transaction's own address (`None`). It begins with the
    /// event's time.
    pub fn derive(event: &EventId, endpoint: Option<EndpointId>) -> Self {
        Self(timed(event.0 >> TAIL_BITS, &Self::hash(event, endpoint, &[0; 4])))
    }

    /// Another delivery of it, because somebody asked. It begins with the time of the request.
    pub fn of_resend(event: &EventId, endpoint: Option<EndpointId>, resend: &ResendId) -> Self {
        Self(timed(resend.0 >> TAIL_BITS, &Self::hash(event, endpoint, &resend.0.to_be_bytes())))
    }

    /// Whether it is one of those whose making has their scope's deliveries counted: one in 64, by its hash.
    pub fn is_sampled(&self) -> bool {
        self.0.trailing_zeros() >= 6
    }

    /// The id right before it, in the order of ids.
    #[must_use]
    pub fn previous(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    fn hash(event: &EventId, endpoint: Option<EndpointId>, resend: &[u8]) -> [u8; 32] {
        let endpoint = endpoint.map(|endpoint| endpoint.0.to_be_bytes());
        let endpoint: &[u8] = endpoint.as_ref().map_or(&[], |bytes| bytes);
        digest("delivery", &[&event.0.to_be_bytes(), endpoint, resend])
    }
}

impl ResendId {
    /// A new request's id from its time and 80 random bits.
    pub fn new(at: Timestamp, random: [u8; 10]) -> Self {
        Self(timed(head(at), &random))
    }
}

impl EndpointId {
    /// A new endpoint's id from the time of its creation and 80 random bits.
    pub fn new(at: Timestamp, random: [u8; 10]) -> Self {
        Self(timed(head(at), &random))
    }
}

/// A prefix, 26 characters that are a charge's, and 16 that tell what belongs to it apart. So the id says where the row
/// lives, and what it is derived from names the same row again.
macro_rules! part_of_charge_id {
    ($(#[$doc:meta])* $type:ident, $prefix:literal, $domain:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type {
            charge: ChargeId,
            /// 80 bits.
            key: u128,
        }

        impl $type {
            const EXPECTED: IdError = IdError { expected: concat!($prefix, " and 42 lower-case letters and digits") };

            /// The one of a charge that this text names: an idempotency key, or a notice's own id.
            pub fn derive(charge: ChargeId, name: &str) -> Self {
                let hash = digest($domain, &[charge.0.as_bytes(), name.as_bytes()]);
                Self { charge, key: timed(0, &hash) }
            }

            /// The charge that it belongs to.
            pub fn charge(&self) -> ChargeId {
                self.charge
            }

            /// What tells it from the charge's others.
            pub fn key(&self) -> String {
                let padded = base32::encode(self.key);
                padded.as_str().get(base32::LEN.saturating_sub(PART_KEY_LEN)..).unwrap_or_default().to_owned()
            }

            fn parse(text: &str) -> Option<Self> {
                let (charge, key) = text.strip_prefix($prefix)?.split_at_checked(base32::LEN)?;
                if key.len() != PART_KEY_LEN {
                    return None;
                }
                let padded = format!("{key:0>width$}", width = base32::LEN);
                Some(Self { charge: ChargeId::from_txid(charge).ok()?, key: base32::decode(&padded).ok()? })
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
    };
}

/// Characters of 80 bits, at the end of those of 128.
const PART_KEY_LEN: usize = 16;

part_of_charge_id! {
    /// A refund of a charge: `re_` and 42 characters, from its idempotency key.
    RefundId, "re_", "refund"
}

part_of_charge_id! {
    /// A MED case of a charge: `med_` and 42 characters, from its notice's own id.
    MedCaseId, "med_", "med_case"
}

/// A person who may log in: `usr_` and 26 characters that are a hash of the e-mail address. So an address names one
/// person, and their row is found by either.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserId(u128);

impl UserId {
    const PREFIX: &str = "usr_";
    const EXPECTED: IdError = IdError { expected: "usr_ and 26 lower-case letters and digits" };

    /// Of an e-mail address, in any case.
    pub fn of_email(email: &str) -> Self {
        let hash = digest("user", &[email.to_lowercase().as_bytes()]);
        let (bits, _) = hash.split_first_chunk().unwrap_or((&[0; 16], &[]));
        Self(u128::from_be_bytes(*bits))
    }
}

impl fmt::Display for UserId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::PREFIX)?;
        f.write_str(base32::encode(self.0).as_str())
    }
}

impl FromStr for UserId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let bits = text.strip_prefix(Self::PREFIX).and_then(|bare| base32::decode(bare).ok());
        bits.map(Self).ok_or(Self::EXPECTED)
    }
}

/// An id that banks give, kept as it came: they publish ids of the wrong length, so only the alphabet and a
/// bound on the length are checked.
macro_rules! bank_id {
    ($(#[$doc:meta])* $type:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(Box<str>);

        impl $type {
            /// The id as it came. Case matters.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $type {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                let bounded = (1..=BANK_ID_MAX_LEN).contains(&text.len());
                if bounded && text.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
                    Ok(Self(text.into()))
                } else {
                    Err(IdError { expected: "1 to 64 letters and digits" })
                }
            }
        }
    };
}

/// Twice what the Central Bank's ids have, so that a bank's odd one passes and a row stays small.
const BANK_ID_MAX_LEN: usize = 64;

bank_id! {
    /// A Pix payment, by the payer's bank: `E`, ISPB (8 digits), `yyyyMMddHHmm` in UTC, 11 letters and digits.
    EndToEndId
}

bank_id! {
    /// A payment, by its acquirer: of a Pix its [`EndToEndId`].
    AcquirerPaymentId
}

bank_id! {
    /// The return of a Pix, or of a part of it: as an [`EndToEndId`], with `D` for `E`.
    ReturnId
}

/// The participant number of no bank: marks what the sandbox makes.
const SANDBOX_ISPB: &str = "00000000";

impl EndToEndId {
    /// A well-formed id of the sandbox's bank, at that minute.
    pub fn sandbox(at: Timestamp, random: [u8; 8]) -> Self {
        let minute = at.to_chrono().format("%Y%m%d%H%M");
        Self(format!("E{SANDBOX_ISPB}{minute}{}", tail(random)).into())
    }
}

impl From<EndToEndId> for AcquirerPaymentId {
    fn from(id: EndToEndId) -> Self {
        Self(id.0)
    }
}

impl AcquirerPaymentId {
    /// The sandbox's one authorisation of a charge by card.
    pub fn of_card(charge: ChargeId) -> Self {
        Self(format!("C{}", charge.txid()).into())
    }

    /// A payment at the sandbox that is no Pix.
    pub fn sandbox(at: Timestamp, random: [u8; 8]) -> Self {
        let minute = at.to_chrono().format("%Y%m%d%H%M");
        Self(format!("S{SANDBOX_ISPB}{minute}{}", tail(random)).into())
    }
}

impl ReturnId {
    /// The id of a payment's return. A payment may be returned in parts: `part` tells them apart (a refund's id,
    /// say), and the same part has the same id. Bank and minute are the payment's where it has them.
    pub fn derive(payment: &AcquirerPaymentId, part: &str) -> Self {
        let hash = digest("return", &[payment.0.as_bytes(), part.as_bytes()]);
        let (random, _) = hash.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
        let issued = payment.0.get(1..21).filter(|issued| issued.bytes().all(|byte| byte.is_ascii_digit()));
        Self(format!("D{}{}", issued.unwrap_or("00000000197001010000"), tail(*random)).into())
    }
}

/// 64 bits as exactly 11 letters and digits. 62^11 is above 2^64, so no two inputs share a text.
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

id_traits!(
    AccountId,
    Scope,
    ChargeId,
    EventId,
    DeliveryId,
    ResendId,
    EndpointId,
    PostingId,
    PayoutId,
    RefundId,
    MedCaseId,
    EvidenceId,
    AuditId,
    NoticeId,
    UserId,
    EndToEndId,
    AcquirerPaymentId,
    ReturnId
);

/// Bits after the time in a timed id.
const TAIL_BITS: u32 = 80;

/// How old an id may be under which something is still done for the first time.
const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// How far two machines' clocks may differ.
const CLOCK_DIFFERENCE_MS: i64 = 60_000;
const TAIL_BYTES: usize = 10;

/// The first 48 bits of a timed id. The last instant of a [`Timestamp`] is below 2^48.
fn head(at: Timestamp) -> u128 {
    u128::try_from(at.millis()).unwrap_or_default()
}

/// Puts the first 80 bits of `hash` behind the head.
fn timed(head: u128, hash: &[u8]) -> u128 {
    (head << TAIL_BITS) | bits_from(hash.get(..TAIL_BYTES).unwrap_or_default())
}

fn bits_from(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |bits, byte| (bits << 8) | u128::from(*byte))
}

/// SHA-256 of a domain's name and fields, each after its length in 8 bytes.
fn digest(domain: &str, fields: &[&[u8]]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for field in std::iter::once(domain.as_bytes()).chain(fields.iter().copied()) {
        hasher.update(u64::try_from(field.len()).unwrap_or(u64::MAX).to_be_bytes());
        hasher.update(field);
    }
    hasher.finalize().into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    const UUID: &str = "01234567-89ab-8def-8123-456789abcdef";

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
    fn a_charge_id_is_read_in_its_three_spellings() {
        let id: ChargeId = format!("ch_{UUID}").parse().unwrap();
        for text in [format!("ch_{UUID}"), format!("tx_{UUID}"), UUID.to_owned()] {
            assert_eq!(ChargeId::parse_any(&text), Ok(id), "{text}");
        }
        assert_eq!((id.to_string(), id.raw()), (format!("ch_{UUID}"), UUID.to_owned()));
    }

    #[test]
    fn a_charge_id_in_any_other_spelling_is_refused() {
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
    fn a_refund_id_names_its_charge_and_its_key() {
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

    #[test]
    fn a_charge_id_changes_with_each_field_and_not_with_where_fields_meet() {
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
    fn a_txid_that_is_not_ours_is_refused() {
        for text in [
            "",
            "7d9f0335-8dcc-4054-9bf9-0dbd61d36906",
            "zzzzzzzzzzzzzzzzzzzzzzzzzz",
            "0000000000000000000000000A",
        ] {
            assert_eq!(ChargeId::from_txid(text), Err(ChargeId::EXPECTED_TXID), "{text}");
        }
    }

    #[test]
    fn an_event_id_is_stable_and_begins_with_its_time() {
        let at = at("2026-11-21T01:02:03.004Z");
        let id = EventId::derive(at, "CH#1", 2, "charge.paid");
        insta::assert_snapshot!(id, @"evt_01m7xszsqwk549s9y2zxghq9p9");
        assert_eq!(id.timestamp(), Some(at));
        assert_eq!(id, EventId::derive(at, "CH#1", 2, "charge.paid"));
        assert_ne!(id, EventId::derive(at, "CH#1", 3, "charge.paid"));
        assert_ne!(id, EventId::derive(at, "CH#1", 2, "charge.created"));
        assert_ne!(id, EventId::derive(at, "CH#2", 2, "charge.paid"));
    }

    #[test]
    fn a_notices_id_is_stable_and_another_for_each_kind_and_version() {
        let at = at("2026-11-21T01:02:03.004Z");
        let id = NoticeId::derive(at, "charge#1#case#1", 1, "med_opened");
        insta::assert_snapshot!(id, @"ntc_01m7xszsqw61tfnpevgszaqx2n");
        assert_eq!(id.timestamp(), Some(at));
        assert_ne!(id, NoticeId::derive(at, "charge#1#case#1", 1, "med_resolved"));
        assert_ne!(id, NoticeId::derive(at, "charge#1#case#1", 2, "med_opened"));
        assert_ne!(id, NoticeId::derive(at, "charge#1#case#2", 1, "med_opened"));
    }

    #[test]
    fn a_delivery_id_carries_the_time_of_its_event() {
        let created = at("2026-11-21T00:00:00Z");
        let event = EventId::derive(created, "CH#1", 2, "charge.paid");
        let endpoint = EndpointId::new(at("2026-01-01T00:00:00Z"), [7; 10]);
        let id = DeliveryId::derive(&event, Some(endpoint));
        insta::assert_snapshot!(id, @"wd_01m7xpe60063pqsxx1gmvkjbw5");
        assert_eq!(id.timestamp(), Some(created));
        assert_ne!(id, DeliveryId::derive(&event, None));
        let asked = at("2026-11-22T00:00:00Z");
        let resent = |random| DeliveryId::of_resend(&event, Some(endpoint), &ResendId::new(asked, random));
        assert_eq!(resent([7; 10]).timestamp(), Some(asked));
        assert_eq!(resent([7; 10]), resent([7; 10]));
        assert_ne!(resent([7; 10]), resent([8; 10]));
        assert_ne!(id, DeliveryId::derive(&event, Some(EndpointId::new(created, [7; 10]))));
    }

    #[test]
    fn a_postings_id_is_within_the_bounds_of_its_instant() {
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

    #[test]
    fn ids_of_later_events_sort_later() {
        let first = EventId::derive(at("2026-11-21T01:02:03.004Z"), "z", 9, "z");
        let second = EventId::derive(at("2026-11-21T01:02:03.005Z"), "a", 1, "a");
        assert!(first < second && first.to_string() < second.to_string());
    }

    #[test]
    fn an_id_of_another_type_is_refused() {
        let endpoint = EndpointId::new(at("2026-01-01T00:00:00Z"), [255; 10]).to_string();
        assert!(endpoint.parse::<EndpointId>().is_ok());
        assert!(endpoint.parse::<EventId>().is_err());
        assert_eq!(
            endpoint.parse::<DeliveryId>().unwrap_err().to_string(),
            "must be wd_ and 26 lower-case letters and digits"
        );
    }

    #[test]
    fn an_account_id_has_sixteen_characters_of_its_alphabet() {
        for text in ["acc_0123456789abcdef", "acc_zzzzzzzzzzzzzzzz"] {
            assert_eq!(text.parse::<AccountId>().unwrap().to_string(), text);
        }
        assert_eq!(AccountId::new([0; 10]).to_string(), "acc_0000000000000000");
        assert_eq!(AccountId::new([255; 10]).to_string(), "acc_zzzzzzzzzzzzzzzz");
        for text in [
            "",
            "acc_",
            "acc_0123456789abcde",
            "acc_0123456789abcdef0",
            "acc_0123456789ABCDEF",
            "acc_0123456789abcdei",
            "0123456789abcdef",
        ] {
            assert!(text.parse::<AccountId>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_scope_is_an_account_and_a_mode() {
        let scope: Scope = "acc_0123456789abcdef:live".parse().unwrap();
        assert_eq!(scope.mode, Mode::Live);
        assert_eq!(scope.to_string(), "acc_0123456789abcdef:live");
        for text in [
            "acc_0123456789abcdef",
            "acc_0123456789abcdef:",
            "acc_0123456789abcdef:LIVE",
            ":live",
            "live:acc_0123456789abcdef",
            "acc_0123456789abcdef:live:",
        ] {
            assert!(text.parse::<Scope>().is_err(), "{text}");
        }
    }

    #[test]
    fn published_bank_ids_are_taken_whatever_their_length() {
        for id in vectors("endToEndId_ok").iter().chain(&vectors("endToEndId_published_but_wrong_length")) {
            assert_eq!(id.parse::<EndToEndId>().unwrap().as_str(), id);
        }
        for id in vectors("rtrId_ok") {
            assert_eq!(id.parse::<ReturnId>().unwrap().as_str(), id);
        }
    }

    #[test]
    fn a_bank_id_of_other_characters_or_without_bound_is_refused() {
        let longest = "E".repeat(64);
        assert!(longest.parse::<EndToEndId>().is_ok());
        for text in ["", "E1234-5678", "E1234567É", " E12345678", &"E".repeat(65)] {
            assert!(text.parse::<EndToEndId>().is_err(), "{text}");
            assert!(text.parse::<ReturnId>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_sandbox_payment_has_a_well_formed_id() {
        let id = EndToEndId::sandbox(at("2026-11-21T23:59:59.999Z"), [0; 8]);
        assert_eq!(id.as_str(), "E0000000020261121235900000000000");
        assert_eq!(EndToEndId::sandbox(at("2026-11-21T00:00:00Z"), [255; 8]).as_str().len(), 32);
    }

    #[test]
    fn a_return_id_keeps_the_bank_and_minute_of_its_payment() {
        let payment: AcquirerPaymentId = "E12345678202009091221abcdef12345".parse().unwrap();
        let id = ReturnId::derive(&payment, "refund-1");
        insta::assert_snapshot!(id, @"D12345678202009091221SZm9W2XWZxA");
        assert_eq!(id.as_str().len(), 32);
        assert_eq!(id, ReturnId::derive(&payment, "refund-1"));
        assert_ne!(id, ReturnId::derive(&payment, "refund-2"));
        let odd: AcquirerPaymentId = "E1803615022211340s08793XPJ".parse().unwrap();
        assert_eq!(ReturnId::derive(&odd, "refund-1").as_str().len(), 32);
    }

    #[test]
    fn an_id_is_a_string_on_the_wire() {
        let text = format!("\"ch_{UUID}\"");
        let id: ChargeId = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&id).unwrap(), text);
        assert!(serde_json::from_str::<ChargeId>("7").is_err());
        assert_eq!(serde_json::from_str::<Mode>("\"test\"").unwrap(), Mode::Test);
        assert!(serde_json::from_str::<Mode>("\"Test\"").is_err());
    }

    proptest! {
        #[test]
        fn a_txid_leads_back_to_its_charge(bits: u128) {
            let id = ChargeId(Uuid::from_u128(bits));
            let txid = id.txid();
            prop_assert_eq!(txid.len(), 26);
            prop_assert!(txid.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()));
            prop_assert_eq!(ChargeId::from_txid(&txid), Ok(id));
        }

        #[test]
        fn what_is_displayed_is_read_back(bits: u128, random: [u8; 10], millis in 0..=Timestamp::MAX.millis(), live: bool) {
            let charge = ChargeId(Uuid::from_u128(bits));
            prop_assert_eq!(charge.to_string().parse(), Ok(charge));
            prop_assert_eq!(ChargeId::parse_any(&charge.raw()), Ok(charge));
            let at = Timestamp::from_millis(millis).unwrap();
            let endpoint = EndpointId::new(at, random);
            prop_assert_eq!(endpoint.to_string().parse(), Ok(endpoint));
            prop_assert_eq!(endpoint.timestamp(), Some(at));
            let scope = Scope { account: AccountId::new(random), mode: if live { Mode::Live } else { Mode::Test } };
            prop_assert_eq!(scope.to_string().parse(), Ok(scope));
        }

        #[test]
        fn sandbox_payments_of_other_chance_have_other_ids(a: [u8; 8], b: [u8; 8]) {
            let at = Timestamp::MIN;
            prop_assert_eq!(EndToEndId::sandbox(at, a) == EndToEndId::sandbox(at, b), a == b);
        }

        #[test]
        fn no_text_panics(text in ".{0,70}") {
            let _ = (ChargeId::parse_any(&text), text.parse::<EventId>(), text.parse::<Scope>());
            let _ = text.parse::<AcquirerPaymentId>().map(|id| ReturnId::derive(&id, &text));
        }
    }
}
