//! Erases a customer's personal data from a finished charge, its refunds and the events that are still stored.
//! The charge's row is written last, together with the removal of its lookup rows: until then, the charge is found
//! by the customer's document, so an interrupted erasure can be repeated. [`domain::charge::ErasureRefused`] says
//! when it must wait.

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;

use domain::audit::{Action, Operator};
use domain::charge::{Charge, ErasureRefused, Lookups};
use domain::ids::ChargeId;
use domain::refund::Refund;
use domain::row::{Key, Row};
use domain::time::Timestamp;

use effects::webhook::event::{Event, EventRef};
use money::charge::Charges;
use money::refund::Refunds;
use shared::account::Accounts;
use shared::audit;
use shared::store::{CommitOutcome, RowUpdate, Store, StoreError, Write};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ErasureOutcome {
    /// In a dry run: it would be.
    Erased,
    NothingLeft,
    Kept(ErasureRefused),
}

/// After an error it can be repeated. `by` is `None` in a dry run, which writes nothing.
pub async fn erase_customer(
    store: &Store,
    id: ChargeId,
    by: Option<&Operator>,
    now: Timestamp,
) -> Result<ErasureOutcome, StoreError> {
    let mut update = store.start_update("a charge");
    loop {
        // An expiry that is not persisted yet has no event. The scheduler persists it soon.
        let stored = Charges::new(store.clone()).get_existing(id).await?;
        let charge = stored.as_stored();
        let refunds = Refunds::new(store.clone()).for_charge(Some(id)).await?;
        if let Err(refused) = charge.check_erasable(!refunds.iter().all(Refund::is_done), now) {
            return Ok(ErasureOutcome::Kept(refused));
        }
        let Some(next) = charge.erased(now) else { return Ok(ErasureOutcome::NothingLeft) };
        let Some(by) = by else { return Ok(ErasureOutcome::Erased) };
        erase_events(store, charge, &refunds).await?;
        if !erase_refunds(store, &refunds).await? {
            update.pause().await?;
            continue;
        }
        let audit = audit::by_operator(by, charge.scope.account, Action::EraseCustomer, charge.id, now)?;
        let mut writes = vec![Write::replace(&next, charge.version)?, Write::audit(&audit)];
        if let Some(lookups) = Lookups::of(charge) {
            let account = Accounts::new(store.clone()).find(&charge.scope.account).await?;
            let salt = account.map(|account| account.salt).unwrap_or_default();
            writes.extend(lookups.rows(salt.as_bytes()).map(|row| Write::remove_any(row.key())));
        }
        if update.commit(writes).await? {
            return Ok(ErasureOutcome::Erased);
        }
    }
}

async fn erase_refunds(store: &Store, refunds: &[Refund]) -> Result<bool, StoreError> {
    for refund in refunds {
        let Some(erased) = refund.erased() else { continue };
        let outcome = store.commit(vec![Write::replace(&erased, refund.version)?]).await?;
        if !matches!(outcome, CommitOutcome::Done) {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn erase_events(store: &Store, charge: &Charge, refunds: &[Refund]) -> Result<(), StoreError> {
    let refs = EventRef::of_charge(charge).into_iter().chain(refunds.iter().flat_map(EventRef::of_refund));
    let keys: Vec<Key> = refs.map(|event| Event::key_of(&charge.scope, event.shard, event.id)).collect();
    for event in store.get_in_order::<Event>(&keys).await? {
        let Some(objects) = event.erased_objects() else { continue };
        let update = RowUpdate::of(event.key()).set("objects", AttributeValue::B(Blob::new(objects)));
        // The row may expire meanwhile.
        update.when_exists().run(store).await?;
    }
    Ok(())
}
