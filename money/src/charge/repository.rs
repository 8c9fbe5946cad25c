use domain::account::terms::MethodTerms;
use domain::audit::{Action, Audit, Operator, Sum};
use domain::charge::transition::{self, Command, IncomingPaymentWrite, MadeLegs, Outcome, RecordedPayment};
use domain::charge::{Charge, Decision, IncomingPayment, StoredCharge};
use domain::ids::{AcquirerPaymentId, ChargeId, Scope};
use domain::row::Key;
use domain::time::Timestamp;

use crate::charge::ChargeError;
use crate::wallet::counters::{self, DebitCheck};
use shared::audit;
use shared::auth::Caller;
use shared::store::{CommitOutcome, Inserted, Result, Store, StoreError, Write, reuse_or_read};

shared::store::repository!(Charges);

impl Charges {
    pub fn store(&self) -> &Store {
        &self.store
    }

    pub async fn insert(&self, charge: &Charge) -> Result<Inserted<StoredCharge>> {
        self.store.insert_or_read(charge).await
    }

    /// Reads a charge of any scope; the caller checks the scope. Without an id nothing is read.
    pub async fn find(&self, id: Option<ChargeId>) -> Result<Option<StoredCharge>> {
        self.store.find(id.map(Charge::key_of)).await
    }

    /// In the order of `ids`. Missing charges are left out.
    pub async fn find_all(&self, ids: &[ChargeId]) -> Result<Vec<StoredCharge>> {
        let keys: Vec<Key> = ids.iter().map(|id| Charge::key_of(*id)).collect();
        self.store.get_in_order(&keys).await
    }

    pub async fn find_payment(
        &self,
        scope: &Scope,
        payment: &AcquirerPaymentId,
    ) -> Result<Option<IncomingPayment>> {
        self.store.get(&IncomingPayment::key_of(scope, payment)).await
    }

    /// Takes the lease of a pending charge that was just read. `None`: another caller changed the charge
    /// meanwhile.
    pub async fn lease(&self, charge: &Charge, seconds: i64, now: Timestamp) -> Result<Option<Charge>> {
        let leased = charge.with_lease(now.plus_seconds(seconds).ok(), now);
        let outcome = self.store.commit(vec![Write::replace(&leased, charge.version)?]).await?;
        Ok((outcome == CommitOutcome::Done).then_some(leased))
    }

    /// If another caller changed the charge meanwhile, nothing is written.
    pub async fn release_lease(&self, leased: &Charge, now: Timestamp) -> Result<()> {
        let released = leased.with_lease(None, now);
        self.store.commit(vec![Write::replace(&released, leased.version)?]).await.map(|_conflict_or_done| ())
    }

    /// Records whether all connections of a charge answered. Until they do, its row is due.
    pub async fn note_read(&self, charge: StoredCharge, all: bool, now: Timestamp) -> Result<()> {
        let (id, mut just_read) = (charge.as_stored().id, Some(charge));
        let mut update = self.store.start_update("a charge");
        loop {
            let charge = reuse_or_read(&mut just_read, self.get_existing(id)).await?;
            let stored = charge.as_stored();
            let Some(next) = stored.with_all_read(all, now) else { return Ok(()) };
            if update.commit(vec![Write::replace(&next, stored.version)?]).await? {
                return Ok(());
            }
        }
    }

    /// Applies what acquirers answered to a charge whose row the caller has just written or read.
    pub async fn finalise(
        &self,
        charge: Charge,
        made: MadeLegs,
        now: Timestamp,
    ) -> Result<Charge, ChargeError> {
        self.apply(StoredCharge::written(charge), &Command::Finalise(Box::new(made)), now).await
    }

    /// Applies a command to a charge that was just read, in one transaction. If another caller changed the
    /// charge meanwhile, reads it again and retries.
    pub async fn apply(
        &self,
        charge: StoredCharge,
        command: &Command,
        now: Timestamp,
    ) -> Result<Charge, ChargeError> {
        self.apply_by(Author::Service, charge, command, now).await
    }

    pub async fn cancel(
        &self,
        charge: StoredCharge,
        by: &Caller,
        now: Timestamp,
    ) -> Result<Charge, ChargeError> {
        self.apply_by(Author::Merchant(by), charge, &Command::Cancel, now).await
    }

    /// Ends a manual review. `terms` apply if the payment is credited. A repeated decision changes nothing.
    pub async fn review(
        &self,
        charge: StoredCharge,
        (decision, terms): (Decision, MethodTerms),
        by: &Operator,
        now: Timestamp,
    ) -> Result<Charge, ChargeError> {
        let stored = charge.as_stored();
        let (account, mode) = (stored.scope.account, stored.scope.mode);
        let sum = Sum { mode, currency: stored.currency, minor: stored.amount.minor() };
        let action = match decision {
            Decision::Approve => Action::ApproveReview(sum),
            Decision::Return => Action::ReturnReview(sum),
        };
        let audit = audit::by_operator(by, account, action, stored.id, now)?;
        self.apply_by(Author::Operator(&audit), charge, &Command::Review { decision, terms }, now).await
    }

    /// Expires an overdue charge whose cob the bank has lost. The caller has asked the bank.
    pub async fn expire_lost(
        &self,
        charge: StoredCharge,
        by: &Operator,
        now: Timestamp,
    ) -> Result<Charge, ChargeError> {
        let (stored, at) = (charge.as_stored(), charge.as_stored().ends_at());
        let subject = stored.id.to_string();
        let audit = audit::by_operator(by, stored.scope.account, Action::ExpireCharge, subject, now)?;
        self.apply_by(Author::Operator(&audit), charge, &Command::Expire { at }, now).await
    }

    async fn apply_by(
        &self,
        by: Author<'_>,
        charge: StoredCharge,
        command: &Command,
        now: Timestamp,
    ) -> Result<Charge, ChargeError> {
        let (id, mut just_read) = (charge.as_stored().id, Some(charge));
        let mut payment_insert = None;
        let mut update = self.store.start_update("a charge");
        loop {
            let charge = reuse_or_read(&mut just_read, self.get_existing(id)).await?;
            // The payment's insert failed because its row exists: the payment was processed when it was first
            // reported.
            if payment_insert.is_some_and(|index| update.failed().contains(&index)) {
                return Ok(charge.read_at(now));
            }
            // The state machine below must not change a charge whose expiry is not persisted: the events of the
            // expiry are derived from the version that it has then.
            let overdue = Command::Expire { at: charge.as_stored().expires_at() };
            let is_overdue = charge.clone().read_at(now).status != charge.as_stored().status;
            let (command, is_first_step) = match command {
                Command::Pay { .. } if is_overdue => (&overdue, true),
                command => (command, false),
            };
            let current = match command {
                // To persist an expiry, the state machine needs the stored status, without the expiry
                // applied.
                Command::Expire { .. } | Command::ExpireDeclined { .. } => charge.as_stored().clone(),
                Command::Finalise(_)
                | Command::EndLeg(..)
                | Command::Pay { .. }
                | Command::Authenticate
                | Command::AwaitConfirmation(_)
                | Command::EndTry { .. }
                | Command::Cancel
                | Command::Decline(_)
                | Command::ConfirmPayer { .. }
                | Command::BearCosts { .. }
                | Command::Review { .. } => charge.read_at(now),
            };
            let outcome = transition::apply(&current, command, now)
                .map_err(|rejection| ChargeError::Rejected { rejection, status: current.status })?;
            let mut planned = match outcome {
                Outcome::Unchanged => return Ok(current),
                outcome => WritePlan::from_outcome(outcome, by.caller(), &current)?,
            };
            planned.writes.extend(self.slot_release_writes(&current, &planned.next, now).await?);
            planned.writes.extend(by.audit().map(Write::audit));
            payment_insert = planned.payment_insert;
            if update.commit(planned.writes).await? {
                if is_first_step {
                    just_read = Some(StoredCharge::written(planned.next));
                    continue;
                }
                return Ok(planned.next);
            }
        }
    }

    /// Persists the expiry of a charge that has expired, if the scheduler has not done so yet.
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

    /// The write that adds the progress of a payment's return to its charge. `None`: the charge does not list
    /// the payment, or lists it with this progress.
    pub async fn return_progress_write(
        &self,
        incoming: &IncomingPayment,
        now: Timestamp,
    ) -> Result<Option<Write>> {
        let Some(stored) = self.find(incoming.charge_id()).await? else { return Ok(None) };
        let charge = stored.as_stored();
        let next = charge.with_return_progress(incoming, now);
        next.map(|next| Write::replace(&next, charge.version)).transpose()
    }

    pub async fn get_existing(&self, id: ChargeId) -> Result<StoredCharge> {
        let missing = || StoreError::Corrupt(format!("the charge {id} no longer exists"));
        self.find(Some(id)).await?.ok_or_else(missing)
    }
}

/// Seconds from the expiry of a charge whose cob the bank does not know until an operator may expire it: a day.
/// The bank may find the cob again.
const LOST_COB_SECONDS: i64 = 24 * 60 * 60;

pub fn lost_cob_ends_at(expires_at: Timestamp) -> Timestamp {
    expires_at.saturating_plus_seconds(LOST_COB_SECONDS)
}

#[derive(Clone, Copy)]
enum Author<'a> {
    Service,
    /// The audit row is derived from the charge's row.
    Merchant(&'a Caller),
    /// The change also writes this audit row.
    Operator(&'a Audit),
}

impl<'a> Author<'a> {
    fn caller(self) -> Option<&'a Caller> {
        if let Self::Merchant(caller) = self { Some(caller) } else { None }
    }

    fn audit(self) -> Option<&'a Audit> {
        if let Self::Operator(audit) = self { Some(audit) } else { None }
    }
}

pub struct WritePlan {
    pub writes: Vec<Write>,
    pub next: Charge,
    /// The index of the incoming payment's insert, which fails when the payment was reported before.
    pub(crate) payment_insert: Option<usize>,
}

impl WritePlan {
    pub fn from_outcome(outcome: Outcome, by: Option<&Caller>, current: &Charge) -> Result<Self> {
        let (next, posting, moved) = match outcome {
            Outcome::Unchanged => {
                return Ok(Self { writes: Vec::new(), next: current.clone(), payment_insert: None });
            }
            Outcome::Changed(next) => (next, None, None),
            Outcome::Credited { charge: next, posting } => (next, Some(posting), None),
            Outcome::Paid { charge: next, moved } => (next, None, Some(moved)),
        };
        let actor = by.map(|caller| caller.actor(next.version));
        let next = Charge { actor: actor.or(next.actor), ..*next };
        let writes = vec![Write::replace(&next, current.version)?];
        let mut planned = Self { writes, next, payment_insert: None };
        if let Some(moved) = moved {
            if matches!(moved.incoming_payment, IncomingPaymentWrite::Insert(_)) {
                planned.payment_insert = Some(planned.writes.len());
            }
            planned.writes.extend(recorded_payment_writes(&moved)?);
        }
        if let Some(posting) = posting {
            planned.writes.extend(counters::posting_writes(&posting, DebitCheck::Unchecked)?);
        }
        Ok(planned)
    }
}

/// The first is that of the payment's row.
pub fn recorded_payment_writes(moved: &RecordedPayment) -> Result<Vec<Write>> {
    let row = match &moved.incoming_payment {
        IncomingPaymentWrite::Insert(incoming) => Write::insert(incoming)?,
        IncomingPaymentWrite::Replace(incoming) => {
            Write::replace(incoming, incoming.version.saturating_sub(1))?
        }
    };
    let mut writes = vec![row];
    writes.extend(counters::posting_writes(&moved.posting, DebitCheck::Unchecked)?);
    Ok(writes)
}
