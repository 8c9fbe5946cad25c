//! What the checkout page shows to a payer who came back from the acquirer's page, before the charge changes.
//!
//! The function that the payer returns to claims a look and queues it. `acquirer-worker` reads the charge at its
//! acquirer and notes what it saw, because a charge that was not paid does not change. The row is beside the charge's,
//! and lapses.

use std::str::FromStr as _;

use aws_sdk_dynamodb::types::AttributeValue;
use domain::charge::Charge;
use domain::ids::ChargeId;
use domain::row::Key;
use domain::snapshot::RemoteState;
use domain::time::Timestamp;
use strum::{EnumString, IntoStaticStr};

use crate::charge::Charges;
use shared::store::{Result, RowUpdate, UpdateOutcome, integer, number, text, ttl};

/// The least time between two looks at a charge, in milliseconds. Everyone who has the page's URL can ask for one.
const LOOK_MS: i64 = 3_000;

/// How long the row is needed, in seconds: a day, which is as long as a page can be paid.
const KEPT_SECONDS: i64 = 24 * 60 * 60;

const LOOKED_AT: &str = "looked_at";
const SEEN_AT: &str = "seen_at";
const SEEN: &str = "seen";

/// What the acquirer said about a charge that is still open here.
#[derive(Clone, Copy, Debug, EnumString, Eq, IntoStaticStr, PartialEq)]
#[strum(serialize_all = "snake_case")]
pub enum Seen {
    /// Its payer has not paid, and may try again.
    Open,
    InProgress,
    /// Its fee is not known yet.
    Paid,
}

impl Seen {
    pub fn of(state: &RemoteState) -> Self {
        match state {
            RemoteState::Paid => Self::Paid,
            RemoteState::InProgress => Self::InProgress,
            RemoteState::Open
            | RemoteState::Expired
            | RemoteState::ClosedByUs
            | RemoteState::ClosedByAcquirer(_) => Self::Open,
        }
    }
}

fn key(id: ChargeId) -> Key {
    Key { sk: "card-return".to_owned(), ..Charge::key_of(id) }
}

fn update(id: ChargeId, now: Timestamp) -> RowUpdate {
    RowUpdate::of(key(id)).set_all(ttl(now.seconds().saturating_add(KEPT_SECONDS)))
}

impl Charges {
    /// Claims a look at the acquirer. False: another request did within three seconds.
    pub async fn claim_look(&self, id: ChargeId, now: Timestamp) -> Result<bool> {
        let claim = update(id, now).set(LOOKED_AT, number(now.millis())).when_absent_or(
            LOOKED_AT,
            "<=",
            number(now.millis().saturating_sub(LOOK_MS)),
        );
        Ok(matches!(claim.run(&self.store).await?, UpdateOutcome::Done(_)))
    }

    /// Notes what the acquirer said in an answer to a request of this time.
    pub async fn note_look(&self, id: ChargeId, seen: Seen, at: Timestamp) -> Result<()> {
        let name: &'static str = seen.into();
        let note = update(id, at)
            .set(SEEN, AttributeValue::S(name.to_owned()))
            .set(SEEN_AT, number(at.millis()))
            .when_absent_or(SEEN_AT, "<", number(at.millis()));
        note.run(&self.store).await.map(|_noted_or_older| ())
    }

    /// Returns what the acquirer said last, and when. `None`: nothing yet.
    pub async fn last_look(&self, id: ChargeId) -> Result<Option<(Seen, Timestamp)>> {
        let Some(row) = self.store.get_item(&key(id)).await? else { return Ok(None) };
        let seen = text(&row, SEEN).and_then(|seen| Seen::from_str(&seen).ok());
        Ok(seen.zip(integer(&row, SEEN_AT).and_then(|at| Timestamp::from_millis(at).ok())))
    }
}
