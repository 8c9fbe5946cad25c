//! Claims emails, and records that they were sent.

use domain::calendar::Day;
use domain::ids::{AccountId, EmailId, Scope};
use domain::row::Key;
use domain::time::Timestamp;

use super::{Claim, Email, EmailRecord, lease_end};
use shared::store::{CommitOutcome, Inserted, PageRange, StoreError, Write, ttl};

/// The maximum number of emails that an account's test data may cause in a day (`America/Sao_Paulo`). Without
/// it, a test suite could use up the sending quota that live emails need.
const TEST_EMAILS_PER_DAY: i64 = 100;

const COUNTER: &str = "mails";

shared::store::repository!(Emails);

impl Emails {
    /// Claims an email for one attempt. `claim` is the claim's random id.
    pub async fn claim(&self, email: &Email, claim: u64, now: Timestamp) -> Result<Claim, StoreError> {
        let first = EmailRecord::first_claim(email, claim, now);
        let stored = match self.store.insert(&first).await? {
            Inserted::New => return Ok(Claim::Claimed(Box::new(first))),
            Inserted::Existing(stored) => stored,
        };
        let next = match stored.claim_again(claim, now) {
            Claim::Claimed(next) => next,
            sent_or_busy @ (Claim::Busy { .. } | Claim::Sent) => return Ok(sent_or_busy),
        };
        if self.replace(&next, &stored).await? {
            return Ok(Claim::Claimed(next));
        }
        // Another worker has claimed the email since its row was read.
        Ok(Claim::Busy { until: lease_end(now) })
    }

    /// Newest first, at most `limit` before an id, and whether there are older ones.
    pub async fn list(
        &self,
        account: &AccountId,
        before: Option<EmailId>,
        limit: usize,
    ) -> Result<(Vec<EmailRecord>, bool), StoreError> {
        let before = before.map(|id| id.to_string());
        let page = PageRange::newest_first(("ntc_", "ntc_~"), before.as_deref(), limit);
        self.store.table_page(&[EmailRecord::partition(account)], page).await
    }

    /// Counts one email against a test scope's daily limit. `false` means that the limit is reached.
    pub async fn count_test_email(&self, scope: &Scope, now: Timestamp) -> Result<bool, StoreError> {
        let day = Day::of(now);
        let key = Key { pk: format!("mails#{scope}"), sk: day.to_string() };
        let ttl = ttl(day.plus_days(2).ends_at().seconds());
        let counted = self.store.add_up_to(&key, (COUNTER, 1), ttl, Some(TEST_EMAILS_PER_DAY)).await?;
        Ok(counted.is_some())
    }

    /// Marks a claimed email as sent. `false` means that another worker claimed the email meanwhile and may
    /// send it again.
    pub async fn mark_sent(&self, claimed: &EmailRecord, now: Timestamp) -> Result<bool, StoreError> {
        self.replace(&claimed.sent(now), claimed).await
    }

    /// Releases the claim of an email, so that a retry can claim it at once. `false` means that another
    /// worker claimed the email meanwhile.
    pub async fn release(&self, claimed: &EmailRecord) -> Result<bool, StoreError> {
        self.replace(&claimed.released(), claimed).await
    }

    async fn replace(&self, next: &EmailRecord, before: &EmailRecord) -> Result<bool, StoreError> {
        let committed = self.store.commit(vec![Write::replace(next, before.version)?]).await?;
        Ok(committed == CommitOutcome::Done)
    }
}
