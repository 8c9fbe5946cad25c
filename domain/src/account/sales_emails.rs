//! The emails about live sales to which a user of the dashboard is subscribed.

use serde::{Deserialize, Serialize};

use crate::calendar::Day;
use crate::ids::{AccountId, UserId};
use crate::row::{Indexes, Key, Row};
use crate::time::Timestamp;

/// The hour of the day in São Paulo at which the summary of the day before is due.
const SUMMARY_HOUR: i64 = 8;

const PARTITION: &str = "sales-emails#";

/// The row of a user who is subscribed to at least one of them. The rows of an account are one partition, which the event
/// dispatcher reads after a live sale.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct SalesEmails {
    pub account: AccountId,
    pub user: UserId,
    /// An email after each minute with a sale.
    pub each_sale: bool,
    /// The day of the next summary, which is about the day before it. `None`: no subscription.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary_on: Option<Day>,
    pub version: u64,
}

impl SalesEmails {
    /// Without subscriptions.
    pub fn none(account: AccountId, user: UserId) -> Self {
        Self { account, user, each_sale: false, summary_on: None, version: 0 }
    }

    pub fn is_none(&self) -> bool {
        !self.each_sale && self.summary_on.is_none()
    }

    /// The next version with another choice. A summary that is due stays due.
    #[must_use]
    pub fn chosen(&self, each_sale: bool, summary: bool, now: Timestamp) -> Self {
        let today = Day::of(now);
        let first = if now < summary_at(today) { today } else { today.plus_days(1) };
        Self {
            each_sale,
            summary_on: summary.then(|| self.summary_on.unwrap_or(first)),
            ..self.next_version()
        }
    }

    /// The next version after the summary that is due. Those that an outage left out are skipped, except the last.
    /// `None`: none is due.
    pub fn summarised(&self, now: Timestamp) -> Option<Self> {
        let today = Day::of(now);
        let last = if now < summary_at(today) { today.minus_days(1) } else { today };
        let next = last.plus_days(1);
        self.summary_on
            .filter(|on| *on < next)
            .map(|_| Self { summary_on: Some(next), ..self.next_version() })
    }

    /// When the summary was due that the change from `old` sends. `None`: the change is another.
    pub fn summary_since(&self, old: Option<&Self>) -> Option<Timestamp> {
        let before = old?.summary_on?;
        let next = self.summary_on.filter(|next| *next > before)?;
        Some(summary_at(next.minus_days(1)))
    }

    fn next_version(&self) -> Self {
        Self { version: self.version.saturating_add(1), ..self.clone() }
    }

    pub fn partition(account: &AccountId) -> String {
        format!("{PARTITION}{account}")
    }

    pub fn key_of(account: &AccountId, user: UserId) -> Key {
        Key { pk: Self::partition(account), sk: user.to_string() }
    }

    pub fn is_at(key: &Key) -> bool {
        key.pk.starts_with(PARTITION)
    }
}

fn summary_at(day: Day) -> Timestamp {
    day.starts_at().saturating_plus_seconds(SUMMARY_HOUR.saturating_mul(60 * 60))
}

impl Row for SalesEmails {
    fn key(&self) -> Key {
        Self::key_of(&self.account, self.user)
    }

    fn indexes(&self) -> Indexes {
        Indexes { due: self.summary_on.map(summary_at), ..Indexes::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn day(text: &str) -> Day {
        text.parse().unwrap()
    }

    fn subscribed(now: &str) -> SalesEmails {
        let user = UserId::from_email("ana@loja.example");
        SalesEmails::none("acc_0123456789abcdef".parse().unwrap(), user).chosen(false, true, at(now))
    }

    #[test]
    fn the_first_summary_is_that_of_the_next_eight_in_the_morning() {
        // 08:00 in São Paulo is 11:00 UTC.
        for (now, on) in [("2026-11-21T10:59:59Z", "2026-11-21"), ("2026-11-21T11:00:00Z", "2026-11-22")] {
            assert_eq!(subscribed(now).summary_on, Some(day(on)), "{now}");
        }
        let subscribed = subscribed("2026-11-21T10:00:00Z");
        assert_eq!(subscribed.indexes().due, Some(at("2026-11-21T11:00:00Z")));
        let again = subscribed.chosen(true, true, at("2026-11-21T12:00:00Z"));
        assert_eq!(
            (again.summary_on, again.version),
            (subscribed.summary_on, 2),
            "the one that is due is sent"
        );
        assert_eq!(again.summary_since(Some(&subscribed)), None);
        assert!(again.chosen(false, false, at("2026-11-21T12:00:00Z")).is_none());
    }

    #[test]
    fn a_summary_is_sent_once_and_after_an_outage_only_the_last_one() {
        let subscribed = subscribed("2026-11-21T10:00:00Z");
        assert_eq!(subscribed.summarised(at("2026-11-21T10:59:00Z")), None);
        let sent = subscribed.summarised(at("2026-11-21T11:00:20Z")).unwrap();
        assert_eq!(sent.summary_on, Some(day("2026-11-22")));
        assert_eq!(sent.summary_since(Some(&subscribed)), Some(at("2026-11-21T11:00:00Z")));
        assert_eq!(sent.summarised(at("2026-11-21T11:00:20Z")), None);
        let late = subscribed.summarised(at("2026-11-25T05:00:00Z")).unwrap();
        assert_eq!(late.summary_since(Some(&subscribed)), Some(at("2026-11-24T11:00:00Z")));
        assert_eq!(late.summarised(at("2026-11-25T10:59:59Z")), None);
    }
}
