//! Limits refunds to third parties. A Pix key counts as a third party's unless it is the document that the
//! payer's bank reported. Each such key is recorded, so that an email can report the first refund to it.

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

use shared::day_sum::DaySum;
use shared::store::{Inserted, Store, StoreError, Write};

const RESERVED: &str = "reserved";

/// Without a payer document from the bank, every key counts as a third party's.
pub(super) fn is_third_party(charge: &Charge, destination: &PixKey) -> bool {
    let payer = charge.applied_payment.as_ref().and_then(|applied| applied.payer_document);
    payer.is_none_or(|payer| payer.as_str() != destination.as_str())
}

fn sum(scope: &Scope, day: Day) -> DaySum {
    let key = Key { pk: format!("third-party-refunds#{scope}"), sk: day.to_string() };
    DaySum { key, attribute: RESERVED, day }
}

/// The write fails if the limit would be exceeded. `None`: the refund alone exceeds the limit. Refunds made
/// while the account had no limit do not count, because they wrote no reservation.
pub(super) fn reserve(refund: &Refund, day: Day, limit: i64) -> Option<Write> {
    sum(&refund.scope, day).add_up_to(refund.share.gross.minor(), limit)
}

/// `None` when the refund has no reservation.
pub(super) fn release(refund: &Refund) -> Option<Write> {
    let day = refund.limited_on?;
    Some(sum(&refund.scope, day).add(refund.share.gross.minor().saturating_neg()))
}

pub(super) async fn reserved(store: &Store, scope: &Scope, day: Day) -> Result<i64, StoreError> {
    sum(scope, day).read(store).await
}

/// Never expires, and contains only a hash of the key.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Destination {
    scope: Scope,
    key_hash: String,
    refund: RefundId,
    #[serde(with = "domain::time::millis")]
    created_at: Timestamp,
}

impl Row for Destination {
    fn key(&self) -> Key {
        Key { pk: format!("destinations#{}", self.scope), sk: self.key_hash.clone() }
    }
}

/// Returns whether the refund is the first to that third party's key in its scope. Repeated calls for the same
/// refund return the same result.
pub async fn record_destination(store: &Store, refund: &Refund) -> Result<bool, StoreError> {
    let Some(destination) = refund.destination.as_ref().filter(|_| refund.third_party) else {
        return Ok(false);
    };
    let row = Destination {
        scope: refund.scope,
        key_hash: hex::encode(Sha256::digest(destination.as_str())),
        refund: refund.id,
        created_at: refund.created_at,
    };
    match store.insert(&row).await? {
        Inserted::New => Ok(true),
        Inserted::Existing(earlier) => Ok(earlier.refund == refund.id),
    }
}
