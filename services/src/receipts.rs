//! *Unapplied receipts*: payments that match no charge. An operator applies each to a charge, or returns it.

use std::collections::HashMap;

use domain::account::Account;
use domain::acquirer::{RETURN_WINDOW_MS, ReportedPix, ReportedPixStatus};
use domain::audit::{Action, Operator};
use domain::charge::transition::{ReceiptRefused, apply_receipt};
use domain::charge::{Charge, IncomingPayment};
use domain::ids::{AcquirerPaymentId, ChargeId, ConnectionId, EndToEndId, Scope, Scoped};
use domain::payment_method::PaymentMethod;
use domain::row::Key;
use domain::time::Timestamp;

use money::charge::{Charges, recorded_payment_writes};
use money::wallet::counters::{self, DebitCheck};
use shared::audit;
use shared::store::{ListIndex, PageRange, Result, Store, StoreError, Write};

const PAGE: usize = 100;

#[derive(Debug, thiserror::Error)]
pub enum ReceiptError {
    #[error("the account has no such payment in this mode")]
    NotFound,
    #[error("the account has no such charge in this mode")]
    NoCharge,
    #[error(transparent)]
    Refused(#[from] ReceiptRefused),
    #[error(
        "this is neither a refund that came back nor crypto that no charge took, or an operator has decided about it"
    )]
    NoRefund,
    #[error("the payment is applied, or its return is in progress or completed")]
    NotWaiting,
    #[error(
        "the 90 days in which a Pix can be returned through the API are over, so only the bank itself can return this payment: ask the bank, then record its devolução: admin receipts record"
    )]
    OnlyByBank,
    #[error(
        "no acquirer returns a payment by this method, and one by crypto is in the merchant's own wallet: apply it to a charge, or pay the payer in another way (by crypto: `receipts credit` leaves it to the merchant)"
    )]
    NotReturnable,
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[derive(Debug)]
pub struct Applied {
    pub charge: Charge,
    /// `None`: the payment is not a Pix of a bank.
    pub reported: Option<ReportedPix>,
}

#[derive(Clone, Debug)]
pub struct Receipts {
    store: Store,
    charges: Charges,
}

impl Receipts {
    pub fn new(store: Store) -> Self {
        Self { charges: Charges::new(store.clone()), store }
    }

    /// Newest first, at most 100 after the payment `cursor`. Also returns whether more follow.
    pub async fn waiting(
        &self,
        scope: &Scope,
        cursor: Option<&IncomingPayment>,
    ) -> Result<(Vec<IncomingPayment>, bool)> {
        let partition = IncomingPayment::operators_partition(scope);
        let cursor = cursor.map(IncomingPayment::operators_sort);
        let page = PageRange::newest_first(("0", "~"), cursor.as_deref(), PAGE);
        self.store.rows_page((ListIndex::All, &[partition]), page).await
    }

    pub async fn find(&self, scope: &Scope, payment: &AcquirerPaymentId) -> Result<Option<IncomingPayment>> {
        self.charges.find_payment(scope, payment).await
    }

    /// The charge is of the same scope. Without an operator, the bank itself named it.
    pub async fn apply(
        &self,
        scope: &Scope,
        payment: &AcquirerPaymentId,
        charge: ChargeId,
        by: Option<&Operator>,
        now: Timestamp,
    ) -> Result<Applied, ReceiptError> {
        let account = self.store.get::<Account>(&Account::key_of(&scope.account)).await?;
        let terms = account.ok_or(ReceiptError::NoCharge)?.settings.terms;
        let mut update = self.store.start_update("an unapplied receipt");
        loop {
            let incoming = self.find(scope, payment).await?.ok_or(ReceiptError::NotFound)?;
            let stored = self.charges.find(Some(charge)).await?;
            let stored = stored.filter(|stored| stored.scope() == *scope).ok_or(ReceiptError::NoCharge)?;
            // An expiry that the bank has not confirmed yet does not prevent the payment.
            let current = stored.read_at(now);
            let reported = self.reported(payment).await?;
            let Some((next, moved)) =
                apply_receipt(&current, &incoming, &terms.for_method(incoming.method), now)?
            else {
                return Ok(Applied { charge: current, reported });
            };
            let mut writes = vec![Write::replace(&next, current.version)?];
            writes.extend(recorded_payment_writes(&moved)?);
            let next_reported = reported.as_ref().map(|known| {
                let next = ReportedPix { details: None, ..known.recorded(scope.account, Some(charge)) };
                // The bank may have returned a part of the Pix while it waited. That is recorded now.
                if by.is_some() { next.due(now) } else { next }
            });
            writes.extend(self.read_again_writes(&incoming, next.id, now).await?);
            if let Some((known, next)) = reported.as_ref().zip(next_reported.as_ref()) {
                writes.push(Write::replace(next, known.version)?);
            }
            if let Some(operator) = by {
                let action = Action::ApplyReceipt(next.id);
                let audit = audit::by_operator(operator, scope.account, action, payment, now)?;
                writes.push(Write::audit(&audit));
            }
            if update.commit(writes).await? {
                return Ok(Applied { charge: next, reported: next_reported });
            }
        }
    }

    /// The platform bore the fee of the payment. If another charge takes it, and its settlement the fee, the one that it
    /// came for must be read again, so that the platform gets the fee back.
    async fn read_again_writes(
        &self,
        incoming: &IncomingPayment,
        applied_to: ChargeId,
        now: Timestamp,
    ) -> Result<Vec<Write>> {
        let came_for = incoming.meant_for().filter(|id| *id != applied_to && incoming.has_fee());
        let Some(stored) = self.charges.find(came_for).await? else { return Ok(Vec::new()) };
        let stored = stored.as_stored();
        let next = stored.with_all_read(false, now);
        next.map(|next| Write::replace(&next, stored.version)).into_iter().collect()
    }

    /// Requests the return of a payment that matched no charge, or a stopped return again. Without an operator,
    /// the bank has returned the payment already, and the request only finds that out.
    pub async fn give_back(
        &self,
        scope: &Scope,
        payment: &AcquirerPaymentId,
        by: Option<&Operator>,
        now: Timestamp,
    ) -> Result<IncomingPayment, ReceiptError> {
        let mut update = self.store.start_update("an unapplied receipt");
        loop {
            let incoming = self.find(scope, payment).await?.ok_or(ReceiptError::NotFound)?;
            let (next, posting) = match (incoming.return_unmatched(now), incoming.return_resumed(now)) {
                (Some((next, posting)), _) => (next, Some(posting)),
                (None, Some(next)) => (next, None),
                (None, None) => return Err(ReceiptError::NotWaiting),
            };
            if !incoming.method.is_returnable() {
                return Err(ReceiptError::NotReturnable);
            }
            if by.is_some() && incoming.method == PaymentMethod::Pix {
                check_returnable(incoming.paid_at, now)?;
            }
            let mut writes = vec![Write::replace(&next, incoming.version)?];
            if let Some(operator) = by {
                let audit = audit::by_operator(operator, scope.account, Action::ReturnReceipt, payment, now)?;
                writes.push(Write::audit(&audit));
            }
            if let Some(posting) = &posting {
                writes.extend(counters::posting_writes(posting, DebitCheck::Unchecked)?);
            }
            writes.extend(self.charges.return_progress_write(&next, now).await?);
            if update.commit(writes).await? {
                return Ok(next);
            }
        }
    }

    /// Gives the merchant the money of a refund that came back after it had succeeded, because the payer got it in
    /// another way. A payment by crypto that no charge took stays in the merchant's own wallet.
    pub async fn credit(
        &self,
        scope: &Scope,
        payment: &AcquirerPaymentId,
        by: &Operator,
        now: Timestamp,
    ) -> Result<IncomingPayment, ReceiptError> {
        let mut update = self.store.start_update("an unapplied receipt");
        loop {
            let incoming = self.find(scope, payment).await?.ok_or(ReceiptError::NotFound)?;
            let (next, posting) = incoming.credited_to_merchant(now).ok_or(ReceiptError::NoRefund)?;
            let audit = audit::by_operator(by, scope.account, Action::CreditReceipt, payment, now)?;
            let mut writes = vec![Write::replace(&next, incoming.version)?, Write::audit(&audit)];
            writes.extend(counters::posting_writes(&posting, DebitCheck::Unchecked)?);
            if update.commit(writes).await? {
                return Ok(next);
            }
        }
    }

    /// Payments that are not Pix of a bank have none.
    pub async fn reported_of(
        &self,
        payments: impl Iterator<Item = &AcquirerPaymentId>,
    ) -> Result<HashMap<AcquirerPaymentId, ReportedPix>> {
        let ids = payments.filter_map(|payment| payment.as_str().parse::<EndToEndId>().ok());
        let keys: Vec<Key> = ids.map(|id| ReportedPix::key_of(&id)).collect();
        let found: Vec<ReportedPix> = self.store.get_in_order(&keys).await?;
        Ok(found.into_iter().map(|pix| (pix.end_to_end_id.clone().into(), pix)).collect())
    }

    /// Newest first, at most 100.
    pub async fn unowned(&self, connection: ConnectionId) -> Result<Vec<ReportedPix>> {
        let partition = ReportedPix::unowned_partition(connection);
        let page = PageRange::newest_first(("0", "~"), None, PAGE);
        let (mut found, _more): (Vec<ReportedPix>, bool) =
            self.store.rows_page((ListIndex::All, &[partition]), page).await?;
        // The index may still list a Pix that was just recorded.
        found.retain(|pix| pix.status == ReportedPixStatus::Unowned);
        Ok(found)
    }

    /// The bank may have done something with the Pix meanwhile. A payment that is not a Pix of a bank changes
    /// nothing.
    pub async fn read_back(&self, payment: &AcquirerPaymentId, now: Timestamp) -> Result<()> {
        let Some(known) = self.reported(payment).await? else { return Ok(()) };
        let write = Write::replace(&known.reported_again(now), known.version)?;
        // Another caller that changed the row has read the Pix.
        self.store.commit(vec![write]).await.map(|_conflict_or_done| ())
    }

    async fn reported(&self, payment: &AcquirerPaymentId) -> Result<Option<ReportedPix>> {
        match payment.as_str().parse::<EndToEndId>() {
            Ok(id) => self.store.get(&ReportedPix::key_of(&id)).await,
            Err(_not_a_pix) => Ok(None),
        }
    }
}

/// API Pix returns payments for 90 days.
pub fn check_returnable(paid_at: Timestamp, now: Timestamp) -> Result<(), ReceiptError> {
    if now.millis_since(paid_at) > RETURN_WINDOW_MS { Err(ReceiptError::OnlyByBank) } else { Ok(()) }
}
