//! Circuit breakers: stop the attempts of a scope to a server that does not answer, and try again after a
//! while. Without them, each delivery to a dead server holds an invocation until the time limit, and an outage of some
//! hours uses up the attempts of all its deliveries.
//!
//! A breaker opens after `FAILURES_TO_OPEN` consecutive attempts without an answer. Attempts are then
//! postponed without being counted. After some time, one attempt is the *probe*. If the server answers it,
//! the breaker closes; otherwise it stays open for twice as long. A response with any status is an answer.
//!
//! The breakers of a scope are attributes of one row. A worker reads the row with the event and the endpoint,
//! so a closed breaker costs no request. The row is written only when an attempt gets no answer, for a probe,
//! and when the server answers again.
//!
//! The key is the scope and the server. So one merchant's failures never stop another merchant's deliveries
//! to the same server, for example with a URL that the server refuses.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};
use url::Url;

use domain::hex;
use domain::ids::Scope;
use domain::row::Key;
use domain::time::Timestamp;

use shared::store::{Item, RowUpdate, StoreError, UpdateOutcome, integer, number, ttl};

/// The number of consecutive attempts without an answer that opens a breaker.
const FAILURES_TO_OPEN: i64 = 5;

/// How long a breaker is open the first time, in seconds.
const FIRST_OPEN_SECONDS: i64 = 30;

/// The longest time that a breaker is open, in seconds. The time doubles after each failed probe.
const MAX_OPEN_SECONDS: i64 = 300;

/// How long other attempts wait for the result of a probe, in seconds. An attempt takes at most 30 s. If the
/// worker dies, the next attempt after this time is a probe.
const PROBE_SECONDS: i64 = 60;

/// The most servers in a row, which limits its size to about 40 KB. Beyond, those that are not open are
/// forgotten first.
const MAX_SERVERS: usize = 512;

/// The most servers that one update forgets. Each takes three attributes, and the update's expression may have 4 KB.
const MOST_FORGOTTEN: usize = 48;

/// When DynamoDB may remove the row, in seconds after the last failure.
const KEPT_SECONDS: i64 = 24 * 60 * 60;

const FAILURES: &str = "failures#";
const OPEN_UNTIL: &str = "open_until#";
const OPEN_SECONDS: &str = "open_seconds#";

/// A short name of a server: 8 hex digits of a hash of the URL's host and port. `None`: the URL has none.
pub fn server_of(url: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    let server = format!("{}:{}", url.host_str()?, url.port_or_known_default()?);
    let hash = hex::encode(Sha256::digest(server));
    hash.get(..8).map(str::to_owned)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    Pass,
    /// The attempt may be made if [`Breakers::start_probe`] succeeds.
    Probe(Open),
    Refuse {
        /// When the next probe is possible.
        until: Timestamp,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    until_ms: i64,
    seconds: i64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Breaker {
    failures: i64,
    open: Option<Open>,
}

impl Breaker {
    pub fn of(row: Option<&Item>, server: &str) -> Self {
        let number = |prefix: &str| integer(row?, &format!("{prefix}{server}"));
        let seconds = number(OPEN_SECONDS).unwrap_or(FIRST_OPEN_SECONDS);
        Self {
            failures: number(FAILURES).unwrap_or_default(),
            open: number(OPEN_UNTIL).map(|until_ms| Open { until_ms, seconds }),
        }
    }

    pub fn admit(&self, now: Timestamp) -> Passage {
        let Some(open) = self.open else { return Passage::Pass };
        // A longer time than the longest means that the clock was moved back.
        let longest_ms = MAX_OPEN_SECONDS.saturating_mul(1_000);
        match open.until_ms.saturating_sub(now.millis()) {
            left_ms if (1..=longest_ms).contains(&left_ms) => {
                Passage::Refuse { until: now.plus_millis(left_ms).unwrap_or(Timestamp::MAX) }
            }
            _ => Passage::Probe(open),
        }
    }

    /// Whether a success must be recorded.
    pub fn has_failures(&self) -> bool {
        self.failures > 0 || self.open.is_some()
    }
}

shared::store::repository!(Breakers);

impl Breakers {
    pub fn key_of(scope: &Scope) -> Key {
        Key { pk: format!("in-flight#{scope}"), sk: "breakers".to_owned() }
    }

    /// Makes the caller's attempt the probe. Returns `None`, or the time to wait for if another worker's
    /// attempt is the probe.
    pub async fn start_probe(
        &self,
        (scope, server): (&Scope, &str),
        seen: Open,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, StoreError> {
        let until = now.saturating_plus_seconds(PROBE_SECONDS);
        let name = format!("{OPEN_UNTIL}{server}");
        let update = row(scope).set(name.clone(), number(until.millis()));
        Ok(match update.when(&name, "=", number(seen.until_ms)).run(&self.store).await? {
            UpdateOutcome::Done(_) => None,
            UpdateOutcome::Refused(_) => Some(until),
        })
    }

    /// Records an attempt without an answer. `probe`: the breaker whose probe it was.
    pub async fn record_failure(
        &self,
        (scope, server): (&Scope, &str),
        probe: Option<Open>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let counting = row(scope)
            .add(format!("{FAILURES}{server}"), number(1))
            .set_all(ttl(now.seconds().saturating_add(KEPT_SECONDS)));
        if let Some(open) = probe {
            let seconds = open.seconds.saturating_mul(2).min(MAX_OPEN_SECONDS);
            return opening(counting, server, seconds, now).run(&self.store).await.map(|_reopened| ());
        }
        let (UpdateOutcome::Done(counted) | UpdateOutcome::Refused(counted)) =
            counting.run(&self.store).await?;
        let breaker = Breaker::of(Some(&counted), server);
        let forgotten = forgotten(&counted, server);
        let update = if breaker.failures >= FAILURES_TO_OPEN && breaker.open.is_none() {
            tracing::warn!(%scope, server, "a server does not answer; its breaker opens");
            opening(row(scope), server, FIRST_OPEN_SECONDS, now).when_absent(&format!("{OPEN_UNTIL}{server}"))
        } else if !forgotten.is_empty() {
            row(scope)
        } else {
            return Ok(());
        };
        update.remove_all(forgotten).run(&self.store).await.map(|_opened_here_or_elsewhere| ())
    }

    /// Records an answer, which closes the breaker.
    pub async fn record_answer(&self, (scope, server): (&Scope, &str)) -> Result<(), StoreError> {
        let names = [FAILURES, OPEN_UNTIL, OPEN_SECONDS].map(|prefix| format!("{prefix}{server}"));
        row(scope).remove_all(names).run(&self.store).await.map(|_closed| ())
    }
}

fn row(scope: &Scope) -> RowUpdate {
    RowUpdate::of(Breakers::key_of(scope))
}

fn opening(update: RowUpdate, server: &str, seconds: i64, now: Timestamp) -> RowUpdate {
    update
        .set(format!("{OPEN_UNTIL}{server}"), number(now.saturating_plus_seconds(seconds).millis()))
        .set(format!("{OPEN_SECONDS}{server}"), number(seconds))
}

/// Returns the attributes of the servers that a row no longer has room for, except those of `server`. The
/// servers whose breaker opened longest ago, or never, come first; at most [`MOST_FORGOTTEN`] servers.
fn forgotten(row: &Item, server: &str) -> Vec<String> {
    let mut servers: BTreeMap<&str, i64> = BTreeMap::new();
    for (name, value) in row {
        if let Some(failing) = name.strip_prefix(FAILURES) {
            servers.entry(failing).or_default();
        }
        if let Some(open) = name.strip_prefix(OPEN_UNTIL) {
            servers.insert(open, value.as_n().ok().and_then(|until| until.parse().ok()).unwrap_or_default());
        }
    }
    let excess = servers.len().saturating_sub(MAX_SERVERS).min(MOST_FORGOTTEN);
    let mut others: Vec<(i64, &str)> =
        servers.into_iter().filter(|(name, _)| *name != server).map(|(name, until)| (until, name)).collect();
    others.sort_unstable();
    let of_server =
        |(_, name): (i64, &str)| [FAILURES, OPEN_UNTIL, OPEN_SECONDS].map(|prefix| format!("{prefix}{name}"));
    others.into_iter().take(excess).flat_map(of_server).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(1_000_000_000 + ms).unwrap()
    }

    fn open(until: Timestamp) -> Breaker {
        Breaker { failures: 5, open: Some(Open { until_ms: until.millis(), seconds: 30 }) }
    }

    #[test]
    fn an_open_breaker_refuses_until_its_time_and_then_lets_a_probe_through() {
        assert_eq!(Breaker::default().admit(at(0)), Passage::Pass);
        let breaker = open(at(30_000));
        assert_eq!(breaker.admit(at(0)), Passage::Refuse { until: at(30_000) });
        assert_eq!(breaker.admit(at(29_999)), Passage::Refuse { until: at(30_000) });
        assert!(matches!(breaker.admit(at(30_000)), Passage::Probe(_)));
        let clock_was_moved_back = open(at(301_000));
        assert!(matches!(clock_was_moved_back.admit(at(0)), Passage::Probe(_)));
    }

    #[test]
    fn a_server_is_a_host_and_a_port() {
        assert_eq!(server_of("https://shop.example/a"), server_of("https://shop.example:443/b?c"));
        assert_ne!(server_of("https://shop.example/"), server_of("https://shop.example:8443/"));
        assert_eq!(server_of("nonsense"), None);
    }

    #[test]
    fn a_full_row_forgets_the_servers_that_opened_first() {
        let mut row = Item::new();
        for index in 0..MAX_SERVERS {
            let until = i64::try_from(index).unwrap();
            row.insert(format!("{OPEN_UNTIL}{index:03}"), number(until));
        }
        assert!(forgotten(&row, "000").is_empty());
        row.insert(format!("{FAILURES}new"), number(5));
        assert_eq!(forgotten(&row, "new"), ["failures#000", "open_until#000", "open_seconds#000"]);
        assert_eq!(forgotten(&row, "000"), ["failures#new", "open_until#new", "open_seconds#new"]);
    }

    #[test]
    fn a_success_is_recorded_after_a_failure_and_while_the_breaker_is_open() {
        assert!(!Breaker::default().has_failures());
        assert!(Breaker { failures: 1, ..Breaker::default() }.has_failures());
        assert!(Breaker { failures: 0, ..open(at(0)) }.has_failures());
    }
}
