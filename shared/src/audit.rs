//! Creates the audit rows of operators' actions, and reads an account's audit rows.

use domain::audit::{Audit, Operator, partition};
use domain::ids::{AccountId, AuditId};
use domain::time::Timestamp;

use crate::random::{self, RandomError};
use crate::store::{Order, Store, StoreError, from_item};

/// The number of audit rows in a page.
const PAGE: usize = 100;

/// Creates the audit row of an operator's action. The row's id consists of the time and 80 random bits.
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

/// Reads a page of an account's audit rows, newest first. The page begins with the row before `before`, or
/// with the newest row if `before` is `None`. Also returns whether there are older rows.
pub async fn page(
    store: &Store,
    account: &AccountId,
    before: Option<AuditId>,
) -> Result<(Vec<Audit>, bool), StoreError> {
    let to = before.map_or_else(|| "aud_~".to_owned(), |before| before.to_string());
    // Reads two more rows than a page has. One of them shows that there are older rows. The other may be the
    // row `before`, because the range includes it.
    let most = PAGE.saturating_add(2);
    let items = store.range(&partition(account), ("aud_", &to), Order::NewestFirst, most).await?;
    let rows: Result<Vec<Audit>, StoreError> = items.into_iter().map(from_item).collect();
    let mut rows = rows?;
    rows.retain(|row| Some(row.id) != before);
    let has_more = rows.len() > PAGE;
    rows.truncate(PAGE);
    Ok((rows, has_more))
}
