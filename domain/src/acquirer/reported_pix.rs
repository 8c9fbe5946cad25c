//! A Pix that a bank reported. Its row is the service's only claim of the end-to-end id: the transaction that
//! records the money also writes it.

use serde::{Deserialize, Serialize};

use crate::ids::{AccountId, ChargeId, ConnectionId, EndToEndId};
use crate::money::Amount;
use crate::row::{Indexes, Key, Row, sortable};
use crate::time::Timestamp;

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReportedPixStatus {
    /// A notification named the Pix. It must be read back from the bank.
    Reported,
    /// The Pix was read from the bank, and its money is in the ledger.
    Recorded,
    /// The bank did not confirm the Pix within 24 hours. A later sweep can still find it.
    Unconfirmed,
    /// The bank reports neither a key nor a txid of this service. The Pix waits for an operator of the
    /// connection.
    Unowned,
}

/// What the bank reported of a Pix that was not credited, for the operator who decides about it.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct PixDetails {
    pub amount: Amount,
    /// When the bank received it.
    #[serde(with = "domain::time::millis")]
    pub paid_at: Timestamp,
    pub txid: Option<String>,
    /// The Pix key that received it.
    pub key: Option<String>,
    /// The payer's message (`infoPagador`), without documents.
    pub payer_message: Option<String>,
    /// The payer's document, masked.
    pub payer: Option<String>,
}

/// A devolução of the Pix whose final status the service has processed.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct SeenReturn {
    pub id: String,
    /// Its status at the bank, such as `DEVOLVIDO`.
    pub status: String,
}

/// The row of a reported Pix.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ReportedPix {
    pub end_to_end_id: EndToEndId,
    /// The connection of the bank that reported it.
    pub connection: ConnectionId,
    /// The account whose notification names it; once it is recorded, the account that has the money.
    pub account: AccountId,
    /// The txid of the notification, if it has one.
    pub txid: Option<String>,
    pub status: ReportedPixStatus,
    /// The charge that the money was recorded for. `None`: not recorded, or no charge matches.
    pub charge: Option<ChargeId>,
    /// What the bank reported. `None`: the Pix was credited when it was recorded, or is not recorded.
    pub details: Option<PixDetails>,
    /// Devoluções that were processed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub returns: Vec<SeenReturn>,
    /// When the Pix was first reported.
    #[serde(with = "domain::time::millis")]
    pub reported_at: Timestamp,
    /// When the scheduler reads the Pix back next. `None`: it need not be read.
    #[serde(default, with = "domain::time::millis_option")]
    pub read_back_at: Option<Timestamp>,
    pub version: u64,
}

/// In case the queue message was lost.
const FIRST_DUE_SECONDS: i64 = 120;

/// Of an hour, before own payments may have to wait.
const UNKNOWN_AT_ONCE: u32 = 20;

const UNKNOWN_PAUSE_SECONDS: i64 = 5;

const REPORTED_PIX_SORT: &str = "pix";

impl ReportedPix {
    /// Creates the row of a Pix that a notification names.
    pub fn notified(
        end_to_end_id: EndToEndId,
        (connection, account): (ConnectionId, AccountId),
        txid: Option<String>,
        now: Timestamp,
    ) -> Self {
        Self {
            end_to_end_id,
            connection,
            account,
            txid,
            status: ReportedPixStatus::Reported,
            charge: None,
            details: None,
            returns: Vec::new(),
            reported_at: now,
            read_back_at: now.plus_seconds(FIRST_DUE_SECONDS).ok(),
            version: 1,
        }
    }

    /// This version as the `number`th (from 0) of its hour that names no known charge. Only some are read back
    /// at once. The others are spread over the next hour, so that payments of known charges do not wait for
    /// them.
    #[must_use]
    pub fn unknown(self, number: u32) -> Self {
        let later = i64::from(number.saturating_sub(UNKNOWN_AT_ONCE)).saturating_mul(UNKNOWN_PAUSE_SECONDS);
        let read_back_at = self.read_back_at.map(|at| at.saturating_plus_seconds(later));
        Self { read_back_at, ..self }
    }

    /// Whether a new Pix is read back at once, not only when it is due.
    pub fn is_read_back_at_once(&self) -> bool {
        let pause = |at: Timestamp| at.millis_since(self.reported_at).div_euclid(1_000);
        self.read_back_at.is_some_and(|at| pause(at) <= FIRST_DUE_SECONDS)
    }

    /// Whether a change of the row reports the Pix again. The scheduler's postponement changes no version, and a Pix
    /// that is now held for review is read again later.
    pub fn is_reported_again_since(&self, old: &Self) -> bool {
        let is_same_status = old.status == self.status && old.version != self.version;
        self.read_back_at.is_some() && (old.read_back_at.is_none() || is_same_status)
    }

    /// Returns the next version: the bank reported a change, so the Pix must be read back again.
    #[must_use]
    pub fn reported_again(&self, now: Timestamp) -> Self {
        self.next_version().due(now)
    }

    /// Returns this version with a further read-back.
    #[must_use]
    pub fn due(self, now: Timestamp) -> Self {
        Self { read_back_at: now.plus_seconds(FIRST_DUE_SECONDS).ok(), ..self }
    }

    /// Returns the next version, with the account and the charge for which the money was recorded.
    #[must_use]
    pub fn recorded(&self, account: AccountId, charge: Option<ChargeId>) -> Self {
        let status = ReportedPixStatus::Recorded;
        Self { status, account, charge, read_back_at: None, ..self.next_version() }
    }

    /// Returns the next version of a Pix of which no account is known to have the money.
    #[must_use]
    pub fn unowned(&self, details: PixDetails) -> Self {
        let (status, details) = (ReportedPixStatus::Unowned, Some(details));
        Self { status, details, read_back_at: None, ..self.next_version() }
    }

    /// Returns the partition of a connection's unowned Pix in the `list` index.
    pub fn unowned_partition(connection: ConnectionId) -> String {
        format!("unowned-pix#{connection}")
    }

    /// Returns the next version of a recorded Pix, after the read-back that a notification caused.
    #[must_use]
    pub fn read_back(&self) -> Self {
        Self { read_back_at: None, ..self.next_version() }
    }

    /// Returns the next version of a Pix that its bank did not confirm.
    #[must_use]
    pub fn unconfirmed(&self) -> Self {
        Self { status: ReportedPixStatus::Unconfirmed, read_back_at: None, ..self.next_version() }
    }

    /// Returns the next version with the devoluções that are processed now.
    #[must_use]
    pub fn with_returns(&self, returns: Vec<SeenReturn>) -> Self {
        Self { returns, read_back_at: None, ..self.next_version() }
    }

    fn next_version(&self) -> Self {
        Self { version: self.version.saturating_add(1), ..self.clone() }
    }

    /// Returns the primary key of a reported Pix. It depends on the end-to-end id alone.
    pub fn key_of(end_to_end_id: &EndToEndId) -> Key {
        Key { pk: format!("pix#{end_to_end_id}"), sk: REPORTED_PIX_SORT.to_owned() }
    }

    pub fn is_at(key: &Key) -> bool {
        key.sk == REPORTED_PIX_SORT && key.pk.starts_with("pix#")
    }
}

impl Row for ReportedPix {
    fn key(&self) -> Key {
        Self::key_of(&self.end_to_end_id)
    }

    fn indexes(&self) -> Indexes {
        let list = (self.status == ReportedPixStatus::Unowned).then(|| {
            let sort = format!("{}#{}", sortable(self.reported_at), self.end_to_end_id);
            (Self::unowned_partition(self.connection), sort)
        });
        Indexes { list, due: self.read_back_at, ..Indexes::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Mode;

    #[test]
    fn each_change_of_a_pix_has_the_next_version_and_ends_the_wait_for_its_read_back() {
        let (connection, owner) =
            (ConnectionId::derive("pix", "https://bank.example.com", "client"), AccountId::new([2; 10]));
        let at = (connection, AccountId::new([1; 10]));
        let id: EndToEndId = "E12345678202611251200abcdefghijk".parse().unwrap();
        let reported = ReportedPix::notified(id, at, None, Timestamp::MIN);
        let due = Timestamp::MIN.plus_seconds(120).unwrap();
        assert_eq!((reported.indexes().due, reported.version), (Some(due), 1));
        let changed = ReportedPix { read_back_at: None, version: 2, ..reported.clone() };
        assert_eq!(
            reported.reported_again(due),
            ReportedPix { read_back_at: due.plus_seconds(120).ok(), ..changed.clone() }
        );
        assert_eq!(reported.read_back(), changed);
        for (number, later) in [(0, 0), (20, 0), (21, 5), (599, 2_895)] {
            let unknown = reported.clone().unknown(number);
            assert_eq!(unknown.read_back_at, due.plus_seconds(later).ok(), "{number}");
            assert_eq!(unknown.is_read_back_at_once(), later == 0, "{number}");
        }
        let status = ReportedPixStatus::Unconfirmed;
        assert_eq!(reported.unconfirmed(), ReportedPix { status, ..changed.clone() });
        let charge = Some(ChargeId::derive(&[3], Mode::Live, "charges", "order-0001"));
        let status = ReportedPixStatus::Recorded;
        assert_eq!(
            reported.recorded(owner, charge),
            ReportedPix { status, account: owner, charge, ..changed.clone() }
        );
        let returns = vec![SeenReturn { id: "d1".to_owned(), status: "DEVOLVIDO".to_owned() }];
        assert_eq!(reported.with_returns(returns.clone()), ReportedPix { returns, ..changed });
    }
}
