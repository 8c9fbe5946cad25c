//! Reads charges and writes their changes.

use domain::charge::transition::{self, Command, IncomingPaymentWrite, Outcome};
use domain::charge::{Charge, StoredCharge};
use domain::ids::ChargeId;
use domain::row::Key;
use domain::time::Timestamp;

use crate::auth::Caller;
use crate::charge::ChargeError;
use crate::store::{Inserted, Store, StoreError, Write, reuse_or_read};
use crate::wallet::counters::{self, DebitCheck};

/// The repository of the charges of all scopes.
#[derive(Clone, Debug)]
pub struct Charges {
    pub(super) store: Store,
}

impl Charges {
    /// Creates a repository on a store.
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// Inserts a charge, or returns the stored charge that has the same id.
    pub async fn insert(&self, charge: &Charge) -> Result<Inserted<StoredCharge>, StoreError> {
        self.store.insert_or_read(charge).await
    }

    /// Reads a charge of any scope; the caller checks the scope. Without an id the result is `None`, and
    /// nothing is read.
    pub async fn find(&self, id: Option<ChargeId>) -> Result<Option<StoredCharge>, StoreError> {
        match id {
            Some(id) => self.store.get(&Charge::key_of(id)).await,
            None => Ok(None),
        }
    }

    /// Reads charges of any scope, in the order of `ids`. Missing charges are left out.
    pub async fn find_all(&self, ids: &[ChargeId]) -> Result<Vec<StoredCharge>, StoreError> {
        let keys: Vec<Key> = ids.iter().map(|id| Charge::key_of(*id)).collect();
        self.store.get_in_order(&keys).await
    }

    /// Applies a command to a charge that was just read, in one transaction. If another caller changed the
    /// charge meanwhile, reads the charge again and retries. Returns the charge after the change.
    ///
    /// # Errors
    ///
    /// [`ChargeError::Rejected`] when the state machine refuses the command.
    pub async fn apply(
        &self,
        charge: StoredCharge,
        command: &Command,
        now: Timestamp,
    ) -> Result<Charge, ChargeError> {
        self.apply_by(None, charge, command, now).await
    }

    /// Cancels a charge that was just read, at the merchant's request.
    ///
    /// # Errors
    ///
    /// [`ChargeError::Rejected`] when the charge is settled or has ended.
    pub async fn cancel(
        &self,
        charge: StoredCharge,
        by: &Caller,
        now: Timestamp,
    ) -> Result<Charge, ChargeError> {
        self.apply_by(Some(by), charge, &Command::Cancel, now).await
    }

    async fn apply_by(
        &self,
        by: Option<&Caller>,
        charge: StoredCharge,
        command: &Command,
        now: Timestamp,
    ) -> Result<Charge, ChargeError> {
        let (id, mut just_read) = (charge.as_stored().id, Some(charge));
        let mut payment_insert = None;
        let mut update = self.store.start_update("a charge");
        loop {
            update.next_attempt().await?;
            let charge = reuse_or_read(&mut just_read, self.get_existing(id)).await?;
            // The payment's insert failed because its row exists: the payment was processed when it was first
            // reported.
            if payment_insert.is_some_and(|index| update.failed().contains(&index)) {
                return Ok(charge.read_at(now));
            }
            let current = match command {
                // To persist an expiry, the state machine needs the stored status, without the expiry
                // applied.
                Command::Expire { .. } => charge.as_stored().clone(),
                Command::Finalise { .. }
                | Command::Pay { .. }
                | Command::Authenticate
                | Command::Cancel
                | Command::Decline { .. }
                | Command::Review { .. } => charge.read_at(now),
            };
            let outcome = transition::apply(&current, command, now)
                .map_err(|rejection| ChargeError::Rejected { rejection, status: current.status })?;
            let mut planned = match outcome {
                Outcome::Unchanged => return Ok(current),
                outcome => WritePlan::from_outcome(with_actor(by, outcome), &current)?,
            };
            planned.writes.extend(self.slot_release_writes(&current, &planned.next, now).await?);
            payment_insert = planned.payment_insert;
            if update.commit(planned.writes).await? {
                return Ok(planned.next);
            }
        }
    }

    /// Persists the expiry of a charge that has expired, if the scheduler has not persisted it yet. Returns
    /// the charge as it is at `now`.
    pub async fn with_expiry_persisted(
        &self,
        charge: StoredCharge,
        now: Timestamp,
    ) -> Result<Charge, ChargeError> {
        let stored = charge.as_stored();
        let at = stored.expires_at();
        if charge.clone().read_at(now).status == stored.status {
            return Ok(charge.read_at(now));
        }
        self.apply(charge, &Command::Expire { at }, now).await
    }

    pub(super) async fn get_existing(&self, id: ChargeId) -> Result<StoredCharge, StoreError> {
        let missing = || StoreError::Corrupt(format!("the charge {id} no longer exists"));
        self.find(Some(id)).await?.ok_or_else(missing)
    }
}

/// Records the caller in the charge of an outcome, so that an audit row can be derived from the charge's row.
/// Without a caller the outcome is unchanged.
fn with_actor(caller: Option<&Caller>, outcome: Outcome) -> Outcome {
    let Some(caller) = caller else { return outcome };
    let by = |next: Box<Charge>| {
        let actor = Some(caller.actor(next.version));
        Box::new(Charge { actor, ..*next })
    };
    match outcome {
        Outcome::Unchanged => Outcome::Unchanged,
        Outcome::Changed(next) => Outcome::Changed(by(next)),
        Outcome::Paid { charge, moved } => Outcome::Paid { charge: by(charge), moved },
        Outcome::Credited { charge, posting } => Outcome::Credited { charge: by(charge), posting },
        // This outcome does not write the charge's row.
        Outcome::Unapplied(moved) => Outcome::Unapplied(moved),
    }
}

/// The writes of an outcome, and their result.
struct WritePlan {
    writes: Vec<Write>,
    /// The charge after the writes.
    next: Charge,
    /// The index in `writes` of the incoming payment's insert. That insert fails when the payment was
    /// reported before.
    payment_insert: Option<usize>,
}

impl WritePlan {
    fn from_outcome(outcome: Outcome, current: &Charge) -> Result<Self, StoreError> {
        let replace = |next: &Charge| Write::replace(next, current.version);
        let mut planned = Self { writes: Vec::new(), next: current.clone(), payment_insert: None };
        let (posting, incoming) = match outcome {
            Outcome::Unchanged => return Ok(planned),
            Outcome::Changed(next) => {
                planned.writes.push(replace(&next)?);
                planned.next = *next;
                return Ok(planned);
            }
            Outcome::Credited { charge: next, posting } => {
                planned.writes.push(replace(&next)?);
                planned.next = *next;
                (*posting, None)
            }
            Outcome::Paid { charge: next, moved } => {
                planned.writes.push(replace(&next)?);
                planned.next = *next;
                (moved.posting, Some(moved.incoming_payment))
            }
            Outcome::Unapplied(moved) => (moved.posting, Some(moved.incoming_payment)),
        };
        match incoming {
            None => {}
            Some(IncomingPaymentWrite::Insert(incoming)) => {
                planned.payment_insert = Some(planned.writes.len());
                planned.writes.push(Write::insert(&incoming)?);
            }
            Some(IncomingPaymentWrite::Replace(incoming)) => {
                planned.writes.push(Write::replace(&incoming, incoming.version.saturating_sub(1))?);
            }
        }
        planned.writes.extend(counters::posting_writes(&posting, DebitCheck::Unchecked)?);
        Ok(planned)
    }
}
