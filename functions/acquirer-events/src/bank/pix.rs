use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};

use acquirer_core::NotificationView;
use axum::Json;
use axum::response::{IntoResponse, Response};
use domain::acquirer::{ReportedPix, ReportedPixStatus, SetAsideItem};
use domain::charge::Charge;
use domain::ids::{ConnectionId, EndToEndId, Mode, Scope};
use domain::payment_method::PaymentMethod;
use domain::row::{Key, Row};
use domain::time::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;
use services::SetAsideItems;
use shared::concurrently;
use shared::http::{Problem, RawBody, Result};
use shared::store::{Inserted, Item as StoredItem, Plan, Store, StoreError, Write, from_item, key_of_item};

use super::authentication::NotificationSender;
use super::bad_item::bad_item;
use super::items::{self, Item};
use super::{MAX_BODY_BYTES, limit};

const MAX_CONCURRENT_WRITES: usize = 25;

pub(super) async fn receive(
    sender: NotificationSender,
    RawBody(body): RawBody<MAX_BODY_BYTES>,
) -> Result<Response> {
    if sender.acquirer.settings.pix().is_none() {
        return Err(Problem::UnknownSender);
    }
    let (items, bad_items) = sort(&sender, &items::parse(&body)?);
    if !(items.is_empty() && bad_items.is_empty()) {
        store_all(&sender, items, bad_items).await?;
    }
    Ok(Json(NotificationView {}).into_response())
}

/// Parses the items. Several items about one Pix become one.
fn sort(
    sender: &NotificationSender,
    items: &[&RawValue],
) -> (BTreeMap<EndToEndId, Item>, HashMap<Key, SetAsideItem>) {
    let (mut pix, mut bad_items) = (BTreeMap::<EndToEndId, Item>::new(), HashMap::new());
    let acquirer = &sender.acquirer;
    for raw in items {
        let Some(item) = Item::parse(raw) else {
            let bad = bad_item((acquirer.connection, acquirer.account), raw, sender.now);
            bad_items.insert(bad.key(), bad);
            continue;
        };
        match pix.entry(item.end_to_end_id.clone()) {
            Entry::Occupied(mut same) => same.get_mut().merge(item),
            Entry::Vacant(entry) => {
                entry.insert(item);
            }
        }
    }
    (pix, bad_items)
}

enum Task {
    Insert(Box<ReportedPix>, Item),
    /// The row exists and lacks a devolução of the item.
    ReportAgain(Item),
    SetAside(SetAsideItem),
}

async fn store_all(
    sender: &NotificationSender,
    items: BTreeMap<EndToEndId, Item>,
    bad_items: HashMap<Key, SetAsideItem>,
) -> Result<()> {
    let (store, acquirer) = (&sender.bank.store, &sender.acquirer);
    let mut stored = stored_items(store, items.values(), &bad_items).await?;
    let (mut tasks, mut unknown) = (Vec::new(), Vec::new());
    for (id, item) in items {
        if let Some(row) = stored.remove(&ReportedPix::key_of(&id)) {
            let row: ReportedPix = from_item(row)?;
            if must_report_again(&row, &item, acquirer.connection) {
                tasks.push(Task::ReportAgain(item));
            }
            continue;
        }
        let owner = item.charge().and_then(|charge| stored.get(&Charge::key_of(charge)));
        let is_known = owner.is_some_and(|charge| is_own_charge(sender, charge));
        let source = (acquirer.connection, acquirer.account);
        let row = ReportedPix::notified(id, source, item.txid.clone(), sender.now);
        if is_known { &mut tasks } else { &mut unknown }.push(Task::Insert(Box::new(row), item));
    }
    let new_bad_items = bad_items.into_iter().filter(|(key, _)| !stored.contains_key(key));
    unknown.extend(new_bad_items.map(|(_, bad)| Task::SetAside(bad)));
    let numbers = limit::take(store, &acquirer.account, unknown.len(), sender.now).await?;
    tasks.extend(unknown.into_iter().zip(numbers).map(|(task, number)| match task {
        Task::Insert(row, item) => Task::Insert(Box::new(row.unknown(number)), item),
        Task::ReportAgain(_) | Task::SetAside(_) => task,
    }));
    Ok(write_all(sender, tasks).await?)
}

async fn stored_items(
    store: &Store,
    items: impl Iterator<Item = &Item>,
    bad_items: &HashMap<Key, SetAsideItem>,
) -> Result<HashMap<Key, StoredItem>, StoreError> {
    let mut keys: Vec<Key> = bad_items.keys().cloned().collect();
    for item in items {
        keys.push(ReportedPix::key_of(&item.end_to_end_id));
        keys.extend(item.charge().map(Charge::key_of));
    }
    let found = store.batch_get(&keys).await?;
    Ok(found.into_iter().filter_map(|item| Some((key_of_item(&item)?, item))).collect())
}

/// The attributes of a charge that show whether the account created it at this bank.
#[derive(Deserialize)]
struct ChargeOwner {
    scope: Scope,
    #[serde(default)]
    connection: Option<ConnectionId>,
    #[serde(default)]
    elsewhere: Vec<(PaymentMethod, ConnectionId)>,
}

fn is_own_charge(sender: &NotificationSender, charge: &StoredItem) -> bool {
    let Ok(owner) = from_item::<ChargeOwner>(charge.clone()) else { return false };
    owner.scope == Scope { account: sender.acquirer.account, mode: Mode::Live }
        && (owner.connection == Some(sender.acquirer.connection)
            || owner.elsewhere.contains(&(PaymentMethod::Pix, sender.acquirer.connection)))
}

/// Checks whether a stored Pix must be read back again, because the notification contains its txid, or the end of a
/// devolução that was not processed yet.
fn must_report_again(row: &ReportedPix, item: &Item, connection: ConnectionId) -> bool {
    if row.connection != connection {
        if row.status != ReportedPixStatus::Recorded {
            tracing::error!(
                pix = %row.end_to_end_id, %connection, earlier = %row.connection,
                "two bank connections reported the same Pix; it is read back from the first one"
            );
        }
        return false;
    }
    let is_seen = |(id, status): &(String, String)| {
        row.returns.iter().any(|seen| seen.id == *id && seen.status == *status)
    };
    // A sweep has recorded the Pix without the txid that only the notification has.
    let has_new_txid = row.txid.is_none() && row.charge.is_none() && item.charge().is_some();
    has_new_txid || !item.final_returns.iter().all(is_seen)
}

async fn write_all(sender: &NotificationSender, tasks: Vec<Task>) -> Result<(), StoreError> {
    let writes = concurrently(MAX_CONCURRENT_WRITES, tasks, |task| {
        let (store, connection, now) = (sender.bank.store.clone(), sender.acquirer.connection, sender.now);
        async move {
            match task {
                Task::Insert(row, item) => match store.insert(row.as_ref()).await? {
                    Inserted::Existing(row) if must_report_again(&row, &item, connection) => {
                        report_again(&store, &item, connection, now).await
                    }
                    Inserted::Existing(_) | Inserted::New => Ok(()),
                },
                Task::ReportAgain(item) => report_again(&store, &item, connection, now).await,
                Task::SetAside(bad) => SetAsideItems::new(store).add(&[bad]).await,
            }
        }
    });
    writes.await.into_iter().collect()
}

async fn report_again(
    store: &Store,
    item: &Item,
    connection: ConnectionId,
    now: Timestamp,
) -> Result<(), StoreError> {
    let key = ReportedPix::key_of(&item.end_to_end_id);
    let plan = |row: Option<ReportedPix>| match row {
        Some(row) if must_report_again(&row, item, connection) => {
            let txid = row.txid.clone().or_else(|| item.txid.clone());
            let next = ReportedPix { txid, ..row.reported_again(now) };
            Ok(Plan::Commit(vec![Write::replace(&next, row.version)?], ()))
        }
        Some(_) | None => Ok(Plan::Finished(())),
    };
    store.update("a reported Pix", &key, plan).await
}
