//! Items of banks' notifications that were set aside. An operator removes each after examining it.

use domain::acquirer::{ReportedPix, SetAsideItem};
use domain::audit::{Action, Operator};
use domain::ids::{AccountId, EndToEndId};
use domain::row::{Key, Row as _};
use domain::time::{SECONDS_A_DAY, Timestamp};

use shared::audit;
use shared::request_limit::Window;
use shared::store::{Inserted, ListIndex, Order, PageRange, StoreError, Write};

const PAGE: usize = 100;

#[derive(Debug, thiserror::Error)]
pub enum SetAsideError {
    #[error("the account has no such item: it was resolved already, or it expired after 90 days")]
    NotFound,
    #[error(transparent)]
    Store(#[from] StoreError),
}

shared::store::repository!(SetAsideItems);

impl SetAsideItems {
    /// Stores items, each once. The first new one of a connection in a day is an error, so that many cause one alarm.
    pub async fn add(&self, items: &[SetAsideItem]) -> Result<(), StoreError> {
        for item in items {
            if let Inserted::Existing(_) = self.store.insert(item).await? {
                continue;
            }
            let day = Window::of(item.received_at, SECONDS_A_DAY);
            let sk = format!("set-aside#{}", day.number);
            let key = Key { pk: format!("notifications#{}", item.connection), sk };
            let count = self.store.add_up_to(&key, ("new", 1), day.ttl(), None).await?;
            let Key { pk, sk } = item.key();
            if count == Some(1) {
                tracing::error!(
                    pk,
                    sk,
                    "an object of an acquirer can't be used and was set aside; further ones of this connection and day are warnings: admin notifications list"
                );
            } else {
                tracing::warn!(pk, sk, "a further object of an acquirer was set aside");
            }
        }
        Ok(())
    }

    /// Newest first, at most 100. Also returns whether there are more. The index is eventually consistent.
    pub async fn latest(&self) -> Result<(Vec<SetAsideItem>, bool), StoreError> {
        let list = (ListIndex::All, &[SetAsideItem::ALL_ACCOUNTS_PARTITION.to_owned()][..]);
        self.store.rows_page(list, PageRange::newest_first(("0", "~"), None, PAGE)).await
    }

    /// By ascending hash, at most 100 after the hash `after`. Also returns whether more follow.
    pub async fn of_account(
        &self,
        account: &AccountId,
        after: Option<&str>,
    ) -> Result<(Vec<SetAsideItem>, bool), StoreError> {
        let page = PageRange { range: ("0", "~"), order: Order::OldestFirst, after, limit: PAGE };
        self.store.table_page(&[SetAsideItem::partition_of(account)], page).await
    }

    pub async fn get(&self, account: &AccountId, sha256: &str) -> Result<SetAsideItem, SetAsideError> {
        let found = self.store.get(&SetAsideItem::key_of(account, sha256)).await?;
        found.ok_or(SetAsideError::NotFound)
    }

    /// Removes an item that an operator has examined. With `read_back`, also stores the Pix that the item names
    /// as if a notification had named it, so that it is read back from its bank.
    pub async fn resolve(
        &self,
        account: &AccountId,
        sha256: &str,
        read_back: Option<&EndToEndId>,
        by: &Operator,
        now: Timestamp,
    ) -> Result<(SetAsideItem, Option<ReportedPix>), SetAsideError> {
        let mut update = self.store.start_update("an item of a notification");
        loop {
            let item = self.get(account, sha256).await?;
            let action = Action::ResolveNotification { read_back: read_back.cloned() };
            let audit = audit::by_operator(by, *account, action, sha256, now)?;
            let key = SetAsideItem::key_of(account, sha256);
            let mut writes = vec![Write::remove_existing(&key), Write::audit(&audit)];
            let reported = match read_back {
                Some(id) => {
                    let (reported, write) = self.reported(&item, id, now).await?;
                    writes.push(write);
                    Some(reported)
                }
                None => None,
            };
            if update.commit(writes).await? {
                return Ok((item, reported));
            }
        }
    }

    async fn reported(
        &self,
        item: &SetAsideItem,
        id: &EndToEndId,
        now: Timestamp,
    ) -> Result<(ReportedPix, Write), StoreError> {
        let known = self.store.get::<ReportedPix>(&ReportedPix::key_of(id)).await?;
        Ok(if let Some(known) = known {
            let next = known.reported_again(now);
            let write = Write::replace(&next, known.version)?;
            (next, write)
        } else {
            let new = ReportedPix::notified(id.clone(), (item.connection, item.account), None, now);
            let write = Write::insert(&new)?;
            (new, write)
        })
    }
}
