//! Appends audit rows to the hash chains of their accounts ([`domain::audit::chain`]).
//!
//! Every audit row is written here, by a put on the condition that its place in the chain is free. If
//! another caller appends a row first, the put fails, the newest row is read again, and the row is appended
//! after it.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use domain::audit::chain::{self, HASH, Head};
use domain::audit::{Audit, partition};
use domain::ids::AccountId;
use domain::row::{Key, Row};
use domain::time::Timestamp;
use serde::Serialize;

use super::update::RETRY_BUDGET;
use super::write::WriteKind;
use super::{CommitOutcome, Item, Order, Result, Store, Write, from_item, text, to_item};

/// An audit row at its place in the chain, without its hash.
#[derive(Serialize)]
struct Linked<'a> {
    #[serde(flatten)]
    audit: &'a Audit,
    sequence: u64,
    #[serde(with = "domain::time::millis")]
    written_at: Timestamp,
    previous: &'a str,
}

impl Row for Linked<'_> {
    fn key(&self) -> Key {
        chain::key_of(&self.audit.account, self.sequence)
    }
}

/// A row that a commit appends to a chain.
pub(super) struct Appended {
    /// The index of the row's write.
    index: usize,
    account: AccountId,
    /// The head of the chain after the commit.
    head: Head,
}

impl Store {
    /// Replaces each audit row among the writes by the put that appends it to its chain. Each chain can be
    /// extended by one row.
    pub(super) async fn link_audit_rows(&self, writes: Vec<Write>) -> Result<(Vec<Write>, Vec<Appended>)> {
        let (mut linked, mut appended) = (Vec::with_capacity(writes.len()), Vec::new());
        for (index, write) in writes.into_iter().enumerate() {
            let WriteKind::Audit(audit) = &write.change else {
                linked.push(write);
                continue;
            };
            let head = self.head(&audit.account).await?;
            let (put, head) = link(audit, &head, audit.at)?;
            appended.push(Appended { index, account: audit.account, head });
            linked.push(put);
        }
        Ok((linked, appended))
    }

    /// Appends audit rows of one account after `head`, all or none. Returns the new head; `None`: another
    /// caller appended a row first.
    pub(crate) async fn append_after(
        &self,
        head: &Head,
        audits: &[&Audit],
        now: Timestamp,
    ) -> Result<Option<Head>> {
        let (mut head, mut writes, mut appended) = (head.clone(), Vec::new(), Vec::new());
        for (index, audit) in audits.iter().enumerate() {
            let (put, next) = link(audit, &head, now)?;
            writes.push(put);
            appended.push(Appended { index, account: audit.account, head: next.clone() });
            head = next;
        }
        Ok(self.commit_linked(RETRY_BUDGET, writes, appended).await?.map(|_done| head))
    }

    /// Executes writes whose audit rows are linked, all or none. `None`: nothing is written, only because
    /// places in chains were taken.
    pub(super) async fn commit_linked(
        &self,
        budget: Duration,
        writes: Vec<Write>,
        appended: Vec<Appended>,
    ) -> Result<Option<CommitOutcome>> {
        match self.execute(budget, writes).await? {
            CommitOutcome::Done => {
                for Appended { account, head: Head { sequence, hash }, .. } in appended {
                    tracing::info!(%account, sequence, hash, "appended an audit row");
                }
                Ok(Some(CommitOutcome::Done))
            }
            CommitOutcome::Conflict { mut at } => {
                at.retain(|failed| appended.iter().all(|row| row.index != *failed));
                Ok(if at.is_empty() { None } else { Some(CommitOutcome::Conflict { at }) })
            }
        }
    }

    /// Reads the newest row of an account's chain.
    async fn head(&self, account: &AccountId) -> Result<Head> {
        let partition = partition(account);
        let newest = self.range(&partition, chain::SORT_KEYS, Order::NewestFirst, 1).await?.pop();
        Ok(newest.map_or_else(|| Head::of_empty_chain(account), |item| head_of(account, &item)))
    }
}

/// Returns the head of an account's chain whose newest audit row is `newest`.
///
/// A row whose hash was removed does not prevent further rows. The verification of the chain finds it.
pub(crate) fn head_of(account: &AccountId, newest: &Item) -> Head {
    match text(newest, "sk").and_then(|sort_key| chain::sequence_of(&sort_key)) {
        Some(sequence) => Head { sequence, hash: text(newest, HASH).unwrap_or_default() },
        None => Head::of_empty_chain(account),
    }
}

/// Returns the put that appends an audit row after `head`, and the head after it. This is the only function
/// that creates a write of an audit row.
fn link(audit: &Audit, head: &Head, written_at: Timestamp) -> Result<(Write, Head)> {
    let sequence = head.sequence.saturating_add(1);
    // The clock of the function that recorded the action may be ahead.
    let written_at = written_at.max(audit.at);
    let mut item = to_item(&Linked { audit, sequence, written_at, previous: &head.hash })?;
    let hash = chain::hash_of(&from_item(item.clone())?);
    item.insert(HASH.to_owned(), AttributeValue::S(hash.clone()));
    Ok((WriteKind::Insert { item }.into(), Head { sequence, hash }))
}
