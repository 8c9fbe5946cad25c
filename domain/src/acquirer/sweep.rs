//! The sweep of a bank connection: the list of all Pix is read regularly, so that a lost notification loses no
//! payment.

use serde::{Deserialize, Serialize};

use crate::calendar::Day;
use crate::ids::{AccountId, ConnectionId};
use crate::row::{Indexes, Key, Row};
use crate::time::Timestamp;

/// The row of a connection's sweep. It contains no credentials: those are in the table of secrets.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ConnectionSweep {
    pub connection: ConnectionId,
    /// In the order in which they were configured. The sweep uses the credentials of the first one that has
    /// any.
    pub accounts: Vec<AccountId>,
    /// When the connection was configured first. Earlier Pix are not this service's business.
    #[serde(with = "domain::time::millis")]
    pub created_at: Timestamp,
    /// Every Pix that the bank listed with an earlier `horario` is stored.
    #[serde(with = "domain::time::millis")]
    pub watermark: Timestamp,
    /// Every returned Pix that the bank listed before is stored. The sweep for returns asks once a day for the
    /// last 92 days; then [`Self::late_from`] begins.
    #[serde(with = "domain::time::millis")]
    pub returns_swept_at: Timestamp,
    /// The `horario` from which the last days are read again, for Pix that the bank listed late. `None`: done
    /// today.
    #[serde(default, with = "domain::time::millis_option", skip_serializing_if = "Option::is_none")]
    pub late_from: Option<Timestamp>,
    #[serde(with = "domain::time::millis")]
    pub next_at: Timestamp,
    /// Since when the bank could not be read. `None`: the last sweep succeeded.
    #[serde(default, with = "domain::time::millis_option", skip_serializing_if = "Option::is_none")]
    pub failing_since: Option<Timestamp>,
    /// The log says that the bank has not been readable for long.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_reported: bool,
    /// How far the bank's times are behind and ahead of ours, in seconds, if more than a minute since the last
    /// sweep for returns. A sweep reads a period that is so much longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_offsets: Option<(i64, i64)>,
    pub version: u64,
}

const SWEEP_SORT: &str = "sweep";

impl ConnectionSweep {
    /// Creates the sweep of a new connection. It reads the Pix from `now` on.
    pub fn new(connection: ConnectionId, account: AccountId, now: Timestamp) -> Self {
        Self {
            connection,
            accounts: vec![account],
            created_at: now,
            watermark: now,
            returns_swept_at: now,
            late_from: None,
            next_at: now,
            failing_since: None,
            is_reported: false,
            clock_offsets: None,
            version: 1,
        }
    }

    pub fn key_of(connection: ConnectionId) -> Key {
        Key { pk: format!("sweep#{connection}"), sk: SWEEP_SORT.to_owned() }
    }

    pub fn is_at(key: &Key) -> bool {
        key.sk == SWEEP_SORT && key.pk.starts_with("sweep#")
    }

    /// Returns the row with an account added. `None`: the account is listed already.
    pub fn with_account(&self, account: AccountId) -> Option<Self> {
        if self.accounts.contains(&account) {
            return None;
        }
        let accounts = self.accounts.iter().copied().chain([account]).collect();
        Some(Self { accounts, ..self.next_version() })
    }

    /// Returns the row without an account. `None`: the account is not listed.
    pub fn without_account(&self, account: AccountId) -> Option<Self> {
        let accounts: Vec<AccountId> =
            self.accounts.iter().copied().filter(|listed| *listed != account).collect();
        (accounts.len() < self.accounts.len()).then(|| Self { accounts, ..self.next_version() })
    }

    /// Returns the row after a sweep that read what the bank listed before `watermark`.
    #[must_use]
    pub fn read_until(&self, watermark: Timestamp, next_at: Timestamp) -> Self {
        Self { watermark, next_at, failing_since: None, is_reported: false, ..self.next_version() }
    }

    /// The row of the last day that was reconciled automatically. It is apart from the sweep's, so that neither work
    /// conflicts with the other.
    pub fn reconciled_key(connection: ConnectionId) -> Key {
        Key { sk: "reconciled".to_owned(), ..Self::key_of(connection) }
    }

    /// Returns the days to reconcile up to yesterday: those since the last one, or since the connection exists, but at
    /// most the newest `most`.
    pub fn days_to_reconcile(&self, last: Option<Day>, most: u64, now: Timestamp) -> Vec<Day> {
        let today = Day::of(now);
        let first = last.map_or(Day::of(self.created_at), |last| last.plus_days(1));
        let days = first.max(today.minus_days(most)).days_until(today);
        (1..=days).rev().map(|before| today.minus_days(before)).collect()
    }

    #[must_use]
    pub fn next_version(&self) -> Self {
        Self { version: self.version.saturating_add(1), ..self.clone() }
    }
}

impl Row for ConnectionSweep {
    fn key(&self) -> Key {
        Self::key_of(self.connection)
    }

    fn indexes(&self) -> Indexes {
        // Without an account there are no credentials, so nothing can be swept.
        let due = (!self.accounts.is_empty()).then_some(self.next_at);
        Indexes { due, ..Indexes::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_day_since_the_last_is_reconciled_once() {
        let at = |text: &str| Timestamp::parse_floor(text).unwrap();
        let connection = ConnectionId::derive("pix", "https://pix.example.com/v2", "loja");
        let created_at = at("2026-11-22T12:00:00Z");
        let new = ConnectionSweep::new(connection, AccountId::new([1; 10]), created_at);
        let days = |last: Option<Day>, now: &str| -> Vec<String> {
            new.days_to_reconcile(last, 3, at(now)).iter().map(ToString::to_string).collect()
        };
        assert_eq!(days(None, "2026-11-23T02:59:59Z"), [""; 0]);
        assert_eq!(days(None, "2026-11-23T03:00:00Z"), ["2026-11-22"]);
        assert_eq!(days(None, "2026-11-24T06:00:00Z"), ["2026-11-22", "2026-11-23"]);
        let last = Some("2026-11-23".parse().unwrap());
        assert_eq!(days(last, "2026-11-24T06:00:00Z"), [""; 0]);
        assert_eq!(days(last, "2026-11-20T06:00:00Z"), [""; 0]);
        assert_eq!(days(None, "2026-12-24T06:00:00Z"), ["2026-12-21", "2026-12-22", "2026-12-23"]);
    }

    #[test]
    fn a_sweep_runs_only_while_an_account_uses_the_connection() {
        let now = Timestamp::parse_floor("2026-11-22T12:00:00Z").unwrap();
        let connection = ConnectionId::derive("pix", "https://pix.example.com/v2", "loja");
        let (first, second) = (AccountId::new([1; 10]), AccountId::new([2; 10]));
        let sweep = ConnectionSweep::new(connection, first, now);
        assert!(ConnectionSweep::is_at(&sweep.key()));
        assert_eq!(sweep.indexes().due, Some(now));
        assert_eq!(sweep.with_account(first), None);
        let shared = sweep.with_account(second).unwrap();
        assert_eq!((shared.accounts.len(), shared.version), (2, 2));
        assert_eq!(sweep.without_account(second), None);
        let unused = shared.without_account(first).and_then(|sweep| sweep.without_account(second)).unwrap();
        assert_eq!((unused.indexes().due, unused.version), (None, 4));
    }
}
