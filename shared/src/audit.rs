//! Audit rows of operators, and reads of all.

use domain::audit::{Audit, Operator, partition};
use domain::ids::{AccountId, AuditId};
use domain::time::Timestamp;

use crate::random::{self, RandomError};
use crate::store::{Order, Store, StoreError, from_item};

/// Audit rows that are listed at once.
const PAGE: usize = 100;

/// The audit row of an operator's action, under a random id.
pub fn by_operator(
    operator: &Operator,
    account: AccountId,
    action: &str,
    subject: impl Into<String>,
    at: Timestamp,
) -> Result<Audit, RandomError> {
    let id = AuditId::new(at, random::bytes()?);
    Ok(Audit::by_operator(operator, account, (id, at), action, subject))
}

/// A page of an account's audit rows, newest first, those before `before` where it is given; and whether there are
/// older ones.
pub async fn page(
    store: &Store,
    account: &AccountId,
    before: Option<AuditId>,
) -> Result<(Vec<Audit>, bool), StoreError> {
    let to = before.map_or_else(|| "aud_~".to_owned(), |before| before.to_string());
    // One more says whether there is another page, and one is the row that it begins after.
    let most = PAGE.saturating_add(2);
    let items = store.range(&partition(account), ("aud_", &to), Order::NewestFirst, most).await?;
    let rows: Result<Vec<Audit>, StoreError> = items.into_iter().map(from_item).collect();
    let mut rows = rows?;
    rows.retain(|row| Some(row.id) != before);
    let has_more = rows.len() > PAGE;
    rows.truncate(PAGE);
    Ok((rows, has_more))
}
