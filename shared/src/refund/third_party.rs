//! Limits refunds to third parties. A Pix key counts as a third party's unless it is the payer's document as the
//! payer's bank reported it. The account's settings limit the amount that such refunds may send in a day. Each new key
//! is recorded, so that an email can warn of its first use.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use domain::calendar::Day;
use domain::charge::Charge;
use domain::hex;
use domain::ids::{RefundId, Scope};
use domain::pix_key::PixKey;
use domain::refund::Refund;
use domain::row::{Key, Row};
use domain::time::Timestamp;

use crate::store::{Bound, Inserted, Store, StoreError, Write, ttl};

/// The attribute that sums a day's refunds to third parties, in minor units.
const RESERVED: &str = "reserved";

/// How long a day's row is kept after the day, in days. Later changes do not extend this time.
const KEPT_DAYS: u64 = 2;

/// Returns whether a refund of a charge to this key may go to someone else than the payer. Without a payer document
/// from the bank, every key counts as a third party's.
pub(super) fn is_third_party(charge: &Charge, destination: &PixKey) -> bool {
    let payer = charge.applied_payment.as_ref().and_then(|applied| applied.payer_document);
    payer.is_none_or(|payer| payer.as_str() != destination.as_str())
}

/// The key of a day's row, which sums the refunds to third parties of that day without those that failed.
fn key_of(scope: &Scope, day: Day) -> Key {
    Key { pk: format!("third-party-refunds#{scope}"), sk: day.to_string() }
}

fn add(refund: &Refund, day: Day, minor: i64, bound: Option<Bound>) -> Write {
    let ttl = ttl(day.plus_days(KEPT_DAYS).ends_at().seconds());
    Write::add(key_of(&refund.scope, day), vec![(RESERVED.to_owned(), minor)], ttl, bound)
}

/// Returns the write that reserves a refund's amount in the day's limit. The write is conditional on the limit. `None`
/// means that the refund alone exceeds the limit.
pub(super) fn reserve(refund: &Refund, day: Day, limit: i64) -> Option<Write> {
    let minor = refund.share.gross.minor();
    let most = limit.checked_sub(minor).filter(|most| *most >= 0)?;
    Some(add(refund, day, minor, Some(Bound::AtMost { counter: RESERVED.to_owned(), most })))
}

/// Returns the write that returns a failed refund's amount to the limit of its day. `None` when the refund was not
/// limited.
pub(super) fn release(refund: &Refund) -> Option<Write> {
    let day = refund.limited_on?;
    Some(add(refund, day, refund.share.gross.minor().saturating_neg(), None))
}

/// Reads the amount that refunds of a day have reserved so far, in minor units.
pub(super) async fn reserved(store: &Store, scope: &Scope, day: Day) -> Result<i64, StoreError> {
    let item = store.get_item(&key_of(scope, day)).await?.unwrap_or_default();
    let reserved = item.get(RESERVED).and_then(|value| value.as_n().ok()?.parse().ok());
    Ok(reserved.unwrap_or_default())
}

/// The row of a third party's Pix key that a scope has refunded to. It is kept permanently and holds only a hash of the
/// key.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Destination {
    scope: Scope,
    key_hash: String,
    /// The first refund to the key.
    refund: RefundId,
    #[serde(with = "domain::time::millis")]
    created_at: Timestamp,
}

impl Row for Destination {
    fn key(&self) -> Key {
        Key { pk: format!("destinations#{}", self.scope), sk: self.key_hash.clone() }
    }
}

/// Records the third party's key of a refund. Returns whether the refund is the first to that key in its scope.
/// Repeated calls for one refund return the same. The result is false for a refund to the payer.
pub async fn record_destination(store: &Store, refund: &Refund) -> Result<bool, StoreError> {
    let Some(destination) = refund.destination.as_ref().filter(|_| refund.third_party) else {
        return Ok(false);
    };
    let row = Destination {
        scope: refund.scope,
        key_hash: hex::encode(&Sha256::digest(destination.as_str())),
        refund: refund.id,
        created_at: refund.created_at,
    };
    match store.insert(&row).await? {
        Inserted::New => Ok(true),
        Inserted::Existing(earlier) => Ok(earlier.refund == refund.id),
    }
}
