//! Moves incoming payments of earlier versions, which put all payments of a scope into one partition, to the
//! partitions of their shards.

use domain::audit::Audit;
use domain::charge::IncomingPayment;
use domain::ids::{AcquirerPaymentId, Scope};
use domain::row::{Key, Row};
use domain::shard::Shard;

use crate::store::{Item, Store, StoreError, Write, from_item, key_of_item, to_item};

/// The number of rows that one query reads: at most 1 MB, DynamoDB's limit.
const ROWS_PER_QUERY: i32 = 500;

/// The prefix of the attributes that place a row in an index.
const INDEX_PREFIXES: [&str; 2] = ["list_", "due_"];

/// What a migration did with the incoming payments of a scope.
#[derive(Debug, Default)]
pub struct MovedPayments {
    /// How many were moved.
    pub moved: u64,
    /// The sort keys of rows that were not moved, and why.
    pub failed: Vec<(String, String)>,
}

/// The outcome of one move.
enum Move {
    Done,
    /// Another run of the migration moved it.
    Nothing,
    /// There is a row with the new key too.
    Duplicate,
}

/// Moves the incoming payments of a scope that are in the partition of earlier versions and belong to another one.
/// Each one is moved in a transaction. The first transaction also appends `audit`. Repeating it moves what is left.
/// `progress` is called with the number of rows read so far.
pub async fn move_former_payments(
    store: &Store,
    scope: &Scope,
    audit: &Audit,
    progress: &impl Fn(u64),
) -> Result<MovedPayments, StoreError> {
    let (partition, mut moved) = (IncomingPayment::former_partition(scope), MovedPayments::default());
    let (mut after, mut read): (Option<String>, u64) = (None, 0);
    loop {
        let (items, next) = store.page(&partition, after.as_deref(), ROWS_PER_QUERY).await?;
        for item in items {
            read = read.saturating_add(1);
            progress(read);
            let sort = key_of_item(&item).map(|key| key.sk).unwrap_or_default();
            let payment = match from_item::<IncomingPayment>(item) {
                Ok(payment) if Shard::of_payment(&payment.payment_id).is_first() => continue,
                Ok(payment) => payment.payment_id,
                Err(error) => {
                    moved.failed.push((sort, error.to_string()));
                    continue;
                }
            };
            let audit = (moved.moved == 0).then_some(audit);
            match move_payment(store, (scope, &payment), audit).await? {
                Move::Done => moved.moved = moved.moved.saturating_add(1),
                Move::Nothing => {}
                Move::Duplicate => {
                    moved.failed.push((sort, "the payment also has a row of this version".to_owned()));
                }
            }
        }
        after = next;
        if after.is_none() {
            return Ok(moved);
        }
    }
}

/// Moves an incoming payment, and appends an audit row.
async fn move_payment(
    store: &Store,
    (scope, payment): (&Scope, &AcquirerPaymentId),
    audit: Option<&Audit>,
) -> Result<Move, StoreError> {
    let from = Key { pk: IncomingPayment::former_partition(scope), sk: payment.to_string() };
    let mut update = store.start_update("an incoming payment");
    loop {
        update.next_attempt().await?;
        if update.failed().contains(&1) {
            return Ok(Move::Duplicate);
        }
        let Some(item) = store.get_item(&from).await? else { return Ok(Move::Nothing) };
        let row: IncomingPayment = from_item(item.clone())?;
        let version = i64::try_from(row.version).unwrap_or(i64::MAX);
        let moved = IncomingPayment { shard: Shard::of_payment(payment), ..row };
        let mut writes = vec![
            Write::remove(from.clone(), "version", version),
            Write::insert_into(store.table(), with_unknown(item, &moved)?),
        ];
        writes.extend(audit.map(Write::audit));
        if update.commit(writes).await? {
            return Ok(Move::Done);
        }
    }
}

/// Returns the item of a moved row, with the attributes of the former item that this version does not know.
fn with_unknown(former: Item, moved: &impl Row) -> Result<Item, StoreError> {
    let mut item = former;
    item.retain(|name, _| !INDEX_PREFIXES.iter().any(|prefix| name.starts_with(prefix)));
    item.extend(to_item(moved)?);
    Ok(item)
}
