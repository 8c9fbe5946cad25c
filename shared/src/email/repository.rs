//! Reads and writes of emails.

use domain::calendar::Day;
use domain::ids::Scope;
use domain::row::Key;
use domain::time::Timestamp;

use super::{Claim, Email, Sending, lease_from};
use crate::store::{Bound, Committed, Inserted, Store, StoreError, Write, ttl};

/// Mails of an account's test cases and endpoints in a day in São Paulo, at most: what a test suite opens must not use up the
/// quota that live emails need.
const TEST_MAILS_A_DAY: i64 = 100;

const COUNTER: &str = "mails";

/// The emails of all accounts.
#[derive(Clone, Debug)]
pub struct Emails {
    store: Store,
}

impl Emails {
    /// Emails in a store.
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// Claims an email for one attempt. `claim` names it: 64 random bits.
    pub async fn claim(&self, email: &Email, claim: u64, now: Timestamp) -> Result<Claim, StoreError> {
        let first = Sending::first(email, claim, now);
        let known = match self.store.insert(&first).await? {
            Inserted::New => return Ok(Claim::Claimed(Box::new(first))),
            Inserted::Existing(known) => known,
        };
        let next = match known.again(claim, now) {
            Claim::Claimed(next) => next,
            done_or_busy @ (Claim::Busy { .. } | Claim::Sent) => return Ok(done_or_busy),
        };
        if self.replace(&next, &known).await? {
            return Ok(Claim::Claimed(next));
        }
        // Somebody else claimed it just now.
        Ok(Claim::Busy { until: lease_from(now) })
    }

    /// Takes one of a test scope's mails of the day; `false`: there are none left.
    pub async fn take_test_mail(&self, scope: &Scope, now: Timestamp) -> Result<bool, StoreError> {
        let day = Day::of(now);
        let key = Key { pk: format!("mails#{scope}"), sk: day.to_string() };
        let bound = Bound::AtMost { counter: COUNTER.to_owned(), most: TEST_MAILS_A_DAY.saturating_sub(1) };
        let kept_until = ttl(day.on(2).ends_at().seconds());
        self.store.count_within(&key, (COUNTER, 1), kept_until, Some(bound)).await
    }

    /// Notes that a claimed email was sent. `false`: the lease was lost meanwhile, and another may have sent it too.
    pub async fn sent(&self, claimed: &Sending, now: Timestamp) -> Result<bool, StoreError> {
        self.replace(&claimed.sent(now), claimed).await
    }

    /// Gives a claimed email back, for another attempt. `false`: the lease was lost meanwhile.
    pub async fn release(&self, claimed: &Sending) -> Result<bool, StoreError> {
        self.replace(&claimed.released(), claimed).await
    }

    async fn replace(&self, next: &Sending, before: &Sending) -> Result<bool, StoreError> {
        let committed = self.store.commit(vec![Write::replace(next, before.version)?]).await?;
        Ok(committed == Committed::Done)
    }
}
