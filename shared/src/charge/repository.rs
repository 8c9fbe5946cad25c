//! Reads and writes of charges.

use domain::charge::transition::{self, Command, IncomingPaymentWrite, Outcome};
use domain::charge::{Charge, StoredCharge};
use domain::ids::ChargeId;
use domain::row::Key;
use domain::time::Timestamp;

use crate::auth::Caller;
use crate::charge::ChargeError;
use crate::store::{Inserted, Store, StoreError, Write, just_read_or};
use crate::wallet::counters::{self, Cover};

/// The charges of all scopes.
#[derive(Clone, Debug)]
pub struct Charges {
    pub(super) store: Store,
}

impl Charges {
    /// Charges in a store.
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// Inserts a charge, or finds the one that was there.
    pub async fn insert(&self, charge: &Charge) -> Result<Inserted<StoredCharge>, StoreError> {
        self.store.insert_or_read(charge).await
    }

    /// Reads a charge, whatever its scope; none has no id.
    pub async fn find(&self, id: Option<ChargeId>) -> Result<Option<StoredCharge>, StoreError> {
        match id {
            Some(id) => self.store.get(&Charge::key_of(id)).await,
            None => Ok(None),
        }
    }

    /// Reads many charges, whatever their scope, in the order of their ids; those that do not exist are left out.
    pub async fn find_all(&self, ids: &[ChargeId]) -> Result<Vec<StoredCharge>, StoreError> {
        let keys: Vec<Key> = ids.iter().map(|id| Charge::key_of(*id)).collect();
        self.store.get_in_order(&keys).await
    }

    /// Applies what happened to a charge that was just read: one write, tried anew on the newer row when
    /// somebody else was first. Gives the charge as it stands after.
    pub async fn apply(
        &self,
        charge: StoredCharge,
        command: &Command,
        now: Timestamp,
    ) -> Result<Charge, ChargeError> {
        self.apply_by(None, charge, command, now).await
    }

    /// The merchant cancels a charge that was just read.
    ///
    /// # Errors
    ///
    /// [`ChargeError::Rejected`] when it is settled or has ended.
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
        let (id, mut just_read, mut told) = (charge.as_stored().id, Some(charge), None);
        let mut update = self.store.start_update("a charge");
        loop {
            update.next_attempt().await?;
            let charge = just_read_or(&mut just_read, self.get_existing(id)).await?;
            // The payment was reported before; what it meant is done.
            if told.is_some_and(|place| update.failed().contains(&place)) {
                return Ok(charge.at(now));
            }
            let shown = match command {
                // What writes an expiry down must see that it is not written yet.
                Command::Expire { .. } => charge.as_stored().clone(),
                Command::Finalise { .. }
                | Command::Pay { .. }
                | Command::Authenticate
                | Command::Cancel
                | Command::Decline { .. }
                | Command::Review { .. } => charge.at(now),
            };
            let outcome = transition::apply(&shown, command, now)
                .map_err(|rejection| ChargeError::Rejected { rejection, status: shown.status })?;
            let mut planned = match outcome {
                Outcome::Unchanged => return Ok(shown),
                outcome => WritePlan::of(made_by(by, outcome), &shown)?,
            };
            planned.writes.extend(self.places_given_back(&shown, &planned.next, now).await?);
            told = planned.told;
            if update.commit(planned.writes).await? {
                return Ok(planned.next);
            }
        }
    }

    /// The charge with its expiry written down, where it reads as expired and `scheduler` did not come by yet.
    pub async fn with_expiry_persisted(
        &self,
        charge: StoredCharge,
        now: Timestamp,
    ) -> Result<Charge, ChargeError> {
        let stored = charge.as_stored();
        let at = stored.expires_at();
        if charge.clone().at(now).status == stored.status {
            return Ok(charge.at(now));
        }
        self.apply(charge, &Command::Expire { at }, now).await
    }

    pub(super) async fn get_existing(&self, id: ChargeId) -> Result<StoredCharge, StoreError> {
        self.find(Some(id)).await?.ok_or_else(|| StoreError::Corrupt("a charge vanished".to_owned()))
    }
}

/// The outcome with the API key that caused it, where one did.
fn made_by(caller: Option<&Caller>, outcome: Outcome) -> Outcome {
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
        // The charge stays as it is.
        Outcome::Unapplied(moved) => Outcome::Unapplied(moved),
    }
}

/// What an outcome writes.
struct WritePlan {
    writes: Vec<Write>,
    /// The charge after it.
    next: Charge,
    /// The place of the write that fails where the payment was told before.
    told: Option<usize>,
}

impl WritePlan {
    fn of(outcome: Outcome, shown: &Charge) -> Result<Self, StoreError> {
        let replace = |next: &Charge| Write::replace(next, shown.version);
        let mut planned = Self { writes: Vec::new(), next: shown.clone(), told: None };
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
                planned.told = Some(planned.writes.len());
                planned.writes.push(Write::insert(&incoming)?);
            }
            Some(IncomingPaymentWrite::Replace(incoming)) => {
                planned.writes.push(Write::replace(&incoming, incoming.version.saturating_sub(1))?);
            }
        }
        planned.writes.extend(counters::posting_writes(&posting, Cover::NotNeeded)?);
        Ok(planned)
    }
}
