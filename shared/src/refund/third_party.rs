//! Refunds to a Pix key that is not the payer's own document as its bank reported it: money that leaves to someone else.
//! What a day may send so is limited by the account's settings, and each new key is remembered, for a notice.

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

/// The counter of what refunds of a day took.
const RESERVED: &str = "reserved";

/// How long a day's row is kept after it, in days. Whatever is added to it then keeps it no longer.
const KEPT_DAYS: u64 = 2;

/// Whether money that a charge gives back to this key leaves to someone else than its payer. Where the bank did not report
/// the payer, any key may be someone else's.
pub(super) fn is_third_party(charge: &Charge, destination: &PixKey) -> bool {
    let payer = charge.applied_payment.as_ref().and_then(|applied| applied.payer_document);
    payer.is_none_or(|payer| payer.as_str() != destination.as_str())
}

/// The row of a day: what its refunds to third parties took, less what those that failed gave back.
fn key_of(scope: &Scope, day: Day) -> Key {
    Key { pk: format!("third-party-refunds#{scope}"), sk: day.to_string() }
}

fn add(refund: &Refund, day: Day, minor: i64, bound: Option<Bound>) -> Write {
    let kept_until = ttl(day.on(KEPT_DAYS).ends_at().seconds());
    Write::add(key_of(&refund.scope, day), vec![(RESERVED.to_owned(), minor)], kept_until, bound)
}

/// Takes a refund out of its day's limit; `None`: it is more than the limit.
pub(super) fn reserve(refund: &Refund, day: Day, limit: i64) -> Option<Write> {
    let minor = refund.share.gross.minor();
    let most = limit.checked_sub(minor).filter(|most| *most >= 0)?;
    Some(add(refund, day, minor, Some(Bound::AtMost { counter: RESERVED.to_owned(), most })))
}

/// Gives a failed refund back to the limit of the day that it was taken out of, if there was one.
pub(super) fn release(refund: &Refund) -> Option<Write> {
    let day = refund.limited_on?;
    Some(add(refund, day, refund.share.gross.minor().saturating_neg(), None))
}

/// What refunds of a day took so far, in centavos.
pub(super) async fn reserved(store: &Store, scope: &Scope, day: Day) -> Result<i64, StoreError> {
    let item = store.get_item(&key_of(scope, day)).await?.unwrap_or_default();
    let reserved = item.get(RESERVED).and_then(|value| value.as_n().ok()?.parse().ok());
    Ok(reserved.unwrap_or_default())
}

/// A third party's key that a scope refunded to: kept for good, by a hash of the key.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Destination {
    scope: Scope,
    key_hash: String,
    /// The refund that was its first.
    refund: RefundId,
    #[serde(with = "domain::time::millis")]
    created_at: Timestamp,
}

impl Row for Destination {
    fn key(&self) -> Key {
        Key { pk: format!("destinations#{}", self.scope), sk: self.key_hash.clone() }
    }
}

/// Remembers the third party's key that a refund goes to; says whether the refund is its first in the scope, however often
/// it asks.
pub async fn is_first_to(store: &Store, refund: &Refund) -> Result<bool, StoreError> {
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
