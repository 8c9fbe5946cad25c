//! What still needs a connection that is to be forgotten.

use std::collections::HashSet;

use domain::acquirer::{ReportedPix, ReportedPixStatus};
use domain::charge::{Charge, IncomingPayment, StoredCharge};
use domain::ids::{AccountId, ChargeId, ConnectionId, Mode, Scope};
use domain::med::{CaseStatus, MedCase};
use domain::refund::Refund;
use domain::row::Key;
use domain::time::Timestamp;
use serde::de::DeserializeOwned;
use shared::store::{DUE_SHARDS, DuePartition, ListIndex, PageRange, Store, StoreError};

use crate::Result;
use crate::target::Stack;

/// The most rows in memory at once.
const STEP: usize = 1_000;

/// Counts what of an account can't end without a connection. `None`: nothing.
pub(super) async fn count(
    stack: &Stack,
    account: AccountId,
    connection: ConnectionId,
) -> Result<Option<String>> {
    let (store, scope) = (&stack.store, Scope { account, mode: Mode::Live });
    let its = (scope, Some(connection));
    let is_at_connection = |charge: &StoredCharge| {
        let charge = charge.as_stored();
        charge.scope == scope && charge.uses(connection)
    };
    let is_its = |payment: &IncomingPayment| (payment.scope, payment.connection) == its;
    let is_unread = |pix: &ReportedPix| {
        (pix.account, pix.connection, pix.status) == (account, connection, ReportedPixStatus::Reported)
    };
    let due = due_keys(store).await?;
    let charges = count_rows(store, due.iter().filter(|key| Charge::is_at(key)), is_at_connection).await?;
    let refunds = due.iter().filter(|key| Refund::is_at(key));
    let refunds = count_rows(store, refunds, |of: &Refund| (of.scope, of.connection) == its).await?;
    let returns = count_rows(store, due.iter().filter(|key| IncomingPayment::is_at(key)), is_its).await?;
    let unread = count_rows(store, due.iter().filter(|key| ReportedPix::is_at(key)), is_unread).await?;

    let whole = || PageRange::newest_first(("0", "~"), None, usize::MAX);
    let list = (ListIndex::All, &[IncomingPayment::operators_partition(&scope)][..]);
    let (waiting, _): (Vec<IncomingPayment>, bool) = store.rows_page(list, whole()).await?;
    let waiting = waiting.iter().filter(|of| is_its(of) && of.method.is_returnable()).count();
    let open = [CaseStatus::Open, CaseStatus::Appealed];
    let open = open.map(|status| MedCase::status_partition(&scope, status));
    let (cases, _): (Vec<MedCase>, bool) = store.rows_page((ListIndex::ByStatus, &open), whole()).await?;
    let disputed: Vec<ChargeId> = cases.iter().map(|case| case.id.charge()).collect();
    let disputed = stack.charges.find_all(&disputed).await?;
    let counts = [
        ("open charges", charges),
        ("refunds in progress", refunds),
        ("returns in progress", returns),
        ("Pix to read", unread),
        ("payments that wait for an operator", waiting),
        ("charges in dispute", disputed.iter().filter(|of| is_at_connection(of)).count()),
    ];
    let counts =
        counts.iter().filter(|(_, count)| *count > 0).map(|(what, count)| format!("{what}: {count}"));
    Ok(Some(counts.collect::<Vec<_>>().join(", ")).filter(|counts| !counts.is_empty()))
}

/// The keys of all rows that the service has to end, of all accounts: the due index has no order by account.
async fn due_keys(store: &Store) -> Result<HashSet<Key>, StoreError> {
    let mut keys = HashSet::new();
    for partition in (0..DUE_SHARDS).flat_map(DuePartition::of_shard) {
        let mut after = None;
        loop {
            let (rows, next) = store.due(partition, Timestamp::MAX, after).await?;
            keys.extend(rows.into_iter().map(|row| row.key));
            if next.is_none() {
                break;
            }
            after = next;
        }
    }
    Ok(keys)
}

/// Reads rows in steps, so that their number has no bound.
async fn count_rows<R: DeserializeOwned>(
    store: &Store,
    keys: impl Iterator<Item = &Key>,
    is_counted: impl Fn(&R) -> bool,
) -> Result<usize, StoreError> {
    let (keys, mut count): (Vec<Key>, usize) = (keys.cloned().collect(), 0);
    for keys in keys.chunks(STEP) {
        let rows: Vec<R> = store.get_in_order(keys).await?;
        count = count.saturating_add(rows.iter().filter(|row| is_counted(row)).count());
    }
    Ok(count)
}
