//! Creates the audit rows of operators' actions, appends derived audit rows, and reads and verifies an
//! account's audit rows.
//!
//! The rows of an account are a hash chain ([`domain::audit::chain`]), in the order in which they were
//! written.

use std::collections::HashSet;
use std::fmt::Display;

use domain::audit::chain::{self, Attributes, ChainCheck, ChainReport, Head};
use domain::audit::{Action, Audit, Operator, partition};
use domain::ids::{AccountId, AuditId};
use domain::time::Timestamp;

use crate::random;
use crate::store::{
    Item, Order, PageRange, Result, Store, StoreError, Write, from_item, head_of, integer, text,
};

const PAGE: usize = 100;

/// The number of rows that the first query of [`NewestFirst`] reads. Usually they suffice.
const FIRST_READ: usize = 10;

/// The most rows that one query of [`NewestFirst`] reads.
const LARGEST_READ: usize = 1_000;

/// The maximum difference between the clocks of two machines, in milliseconds.
const MAX_CLOCK_SKEW_MS: i64 = 60_000;

/// The most rows that are appended one by one, at one write unit each. More rows are appended in
/// transactions, at two write units each: one request then extends the chain by many rows, so that callers
/// who append to the same chain seldom conflict.
const MAX_SINGLE_APPENDS: usize = 4;

const ROWS_A_TRANSACTION: usize = 50;

/// Creates the audit row of an operator's action. The row's id consists of the time and 80 random bits.
pub fn by_operator(
    operator: &Operator,
    account: AccountId,
    action: Action,
    subject: impl Display,
    at: Timestamp,
) -> Result<Audit> {
    let id = AuditId::new(at, random::bytes()?);
    Ok(Audit::by_operator(operator, account, (id, at), action, subject))
}

/// Appends the audit row of an action that has no change of a row, or whose change is not in one transaction.
pub async fn append(store: &Store, audit: &Audit) -> Result<()> {
    // A commit of only an audit row ends without a conflict.
    let _done = store.commit(vec![Write::audit(audit)]).await?;
    Ok(())
}

/// Appends audit rows of one account whose ids are derived from the changes, unless the chain has them
/// already. Repeated calls therefore append each row once.
///
/// A row can't have been written before its action. So all rows that were written since the oldest of these
/// actions are read, and those that are found are not appended again. A concurrent call can't append one of
/// them in between: it would take the next place in the chain, and then this call reads again.
/// Errors: [`StoreError::Unavailable`] when the database does not answer, or other callers keep extending the
/// chain. Some of the rows may have been appended.
pub async fn append_derived(
    store: &Store,
    account: &AccountId,
    audits: &[Audit],
    now: Timestamp,
) -> Result<()> {
    let Some(oldest) = audits.iter().map(|audit| audit.at).min() else { return Ok(()) };
    let mut audits: Vec<&Audit> = audits.iter().collect();
    audits.sort_by_key(|audit| audit.id);
    audits.dedup_by_key(|audit| audit.id);
    let mut update = store.start_update("the audit rows of an account");
    'attempts: loop {
        let (mut head, ids) = rows_written_since(store, account, oldest).await?;
        let missing: Vec<&Audit> = audits.iter().copied().filter(|audit| !ids.contains(&audit.id)).collect();
        let at_once = if missing.len() > MAX_SINGLE_APPENDS { ROWS_A_TRANSACTION } else { 1 };
        for rows in missing.chunks(at_once) {
            let Some(next) = store.append_after(&head, rows, now).await? else {
                update.pause().await?;
                continue 'attempts;
            };
            head = next;
        }
        return Ok(());
    }
}

/// Reads the head of an account's chain, and the ids of the rows that may have been written since an action.
async fn rows_written_since(
    store: &Store,
    account: &AccountId,
    action_at: Timestamp,
) -> Result<(Head, HashSet<AuditId>)> {
    let mut reader = NewestFirst::new(store, account);
    let (mut head, mut ids) = (None, HashSet::new());
    'pages: while let Some(items) = reader.read().await? {
        for item in &items {
            head.get_or_insert_with(|| head_of(account, item));
            if is_written_before(item, action_at) {
                break 'pages;
            }
            ids.extend(text(item, "id").and_then(|id| id.parse::<AuditId>().ok()));
        }
    }
    Ok((head.unwrap_or_else(|| Head::of_empty_chain(account)), ids))
}

/// Whether a row was written so long before an action that it can't be the action's row.
fn is_written_before(item: &Item, action_at: Timestamp) -> bool {
    integer(item, "written_at").is_some_and(|ms| ms < action_at.millis().saturating_sub(MAX_CLOCK_SKEW_MS))
}

/// Reads the audit rows of an account's actions since `from`, the last written first. A row may have been
/// written long after its action, but not before it.
pub async fn since(store: &Store, account: &AccountId, from: Timestamp) -> Result<Vec<Audit>> {
    since_where(store, account, from, |row| row.at >= from).await
}

/// Reads those of the rows that were written since `from` that `is_read` selects, the last written first.
pub async fn since_where(
    store: &Store,
    account: &AccountId,
    from: Timestamp,
    is_read: impl Fn(&Audit) -> bool,
) -> Result<Vec<Audit>> {
    let mut reader = NewestFirst::new(store, account);
    let mut rows: Vec<Audit> = Vec::new();
    while let Some(items) = reader.read().await? {
        for item in items {
            if is_written_before(&item, from) {
                return Ok(rows);
            }
            rows.extend(Some(from_item::<Audit>(item)?).filter(&is_read));
        }
    }
    Ok(rows)
}

/// Reads a page of an account's audit rows, the last written first: those before the row with the number `before` in
/// the chain, or the newest. Also returns whether there are older rows.
pub async fn page(store: &Store, account: &AccountId, before: Option<u64>) -> Result<(Vec<Audit>, bool)> {
    let before = before.map(|sequence| chain::key_of(account, sequence).sk);
    let page = PageRange::newest_first(chain::SORT_KEYS, before.as_deref(), PAGE);
    store.table_page(&[partition(account)], page).await
}

/// The number of rows that a query of [`verify`] reads: about 1 MB, the most that DynamoDB returns.
const ROWS_PER_QUERY: i32 = 1_500;

/// Verifies the chain of an account's audit rows. `expected`: the head of an earlier verification, which the
/// chain must still contain. Without it, the removal of the newest rows is not found.
/// Errors: [`StoreError::Unavailable`] when the database does not answer, or a newer version of the service
/// wrote a row in a format that this version can't read.
pub async fn verify(store: &Store, account: &AccountId, expected: Option<Head>) -> Result<ChainReport> {
    let mut check = ChainCheck::new(*account, expected);
    let mut after: Option<String> = None;
    loop {
        let (items, next) = store.page(&partition(account), after.as_deref(), ROWS_PER_QUERY).await?;
        for item in items {
            let sort_key = text(&item, "sk").unwrap_or_default();
            match from_item::<Attributes>(item) {
                Ok(attributes) => check.add(&sort_key, &attributes),
                Err(StoreError::Corrupt(reason)) => check.add_malformed(&sort_key, reason),
                Err(error) => return Err(error),
            }
        }
        after = next;
        if after.is_none() {
            return Ok(check.finish());
        }
    }
}

/// Reads an account's audit rows from the newest to the oldest, with queries that grow.
struct NewestFirst<'a> {
    store: &'a Store,
    partition: String,
    /// The sort key of the last row that was read. The next query begins with it, because a range includes
    /// its ends.
    to: String,
    limit: usize,
    has_more: bool,
}

impl<'a> NewestFirst<'a> {
    fn new(store: &'a Store, account: &AccountId) -> Self {
        let (_, to) = chain::SORT_KEYS;
        let (partition, to) = (partition(account), to.to_owned());
        Self { store, partition, to, limit: FIRST_READ, has_more: true }
    }

    /// Reads further rows. `None`: there are none.
    async fn read(&mut self) -> Result<Option<Vec<Item>>> {
        if !self.has_more {
            return Ok(None);
        }
        let range = (chain::SORT_KEYS.0, self.to.as_str());
        let mut items = self.store.range(&self.partition, range, Order::NewestFirst, self.limit).await?;
        self.has_more = items.len() >= self.limit;
        self.limit = self.limit.saturating_mul(4).min(LARGEST_READ);
        items.retain(|item| text(item, "sk").as_ref() != Some(&self.to));
        if let Some(sort_key) = items.last().and_then(|item| text(item, "sk")) {
            self.to = sort_key;
        }
        Ok(Some(items))
    }
}
