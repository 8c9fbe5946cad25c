//! Records the Pix that a bank received, exactly once each. Notifications only name a Pix; this module gets
//! what was read from the bank itself.
//!
//! The transaction that records the money also writes the row of the reported Pix ([`ReportedPix`]), whose
//! key is the end-to-end id alone. So a Pix that is reported again, by a notification and by a sweep, or by
//! two connections, is recorded once.

use std::collections::HashMap;
use std::sync::Arc;

use api_pix::{Devolucao, DevolucaoStatus, Nature, Pix};

use domain::account::Account;
use domain::acquirer::{ReportedPix, ReportedPixStatus, SeenReturn};
use domain::charge::transition::{self, Command, Outcome, Payment};
use domain::charge::{Charge, Decision, StoredCharge, TransactionStatus};
use domain::ids::{AccountId, AcquirerPaymentId, ChargeId, EndToEndId, Mode, Scope};
use domain::payment_method::PaymentMethod;
use domain::refund::RefundOutcome;
use domain::row::Key;
use domain::tax_id::TaxId;
use domain::time::Timestamp;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::WorkError;
use crate::acquirer::PixBank;
use crate::acquirer::configuration::{AccountAcquirers, PixKeyClaim};
use crate::charge::{ChargeError, Charges, WritePlan, recorded_payment_writes};
use crate::med::{BankMedReturn, MedCases};
use crate::refund::{RefundError, Refunds};
use crate::services::bank_returns::Returns;
use crate::services::receipts::{ReceiptError, Receipts};
use crate::store::{Store, StoreError, Write};

/// The most Pix of a page that are recorded concurrently.
const CONCURRENT_PIX: usize = 8;

/// Records payments that banks received.
#[derive(Clone, Debug)]
pub struct BankPayments {
    store: Store,
    charges: Charges,
    refunds: Refunds,
    cases: MedCases,
    returns: Returns,
    receipts: Receipts,
    acquirers: AccountAcquirers,
}

/// Which charge a Pix was meant for.
#[derive(Debug)]
enum Match {
    /// A charge of this bank connection, or of another one of the same account.
    Charge(Box<StoredCharge>),
    /// No charge. The money belongs to the account that owns the Pix key.
    None(Scope),
}

impl BankPayments {
    /// Creates the service. `acquirers` finds the owner of a Pix key.
    pub fn new(store: Store, acquirers: AccountAcquirers) -> Self {
        Self {
            charges: Charges::new(store.clone()),
            refunds: Refunds::new(store.clone()),
            cases: MedCases::new(store.clone()),
            returns: Returns::new(store.clone()),
            receipts: Receipts::new(store.clone()),
            store,
            acquirers,
        }
    }

    /// Records a Pix that was read from the bank, and its devoluções. A Pix that is recorded already changes
    /// nothing. `paid_charge`: the charge whose cob names the Pix; it is used when the Pix itself has no txid.
    ///
    /// `None`: the Pix concerns no charge, and no account has the Pix key that received it. A merchant's other
    /// keys at the same bank are not this service's business.
    ///
    /// # Errors
    ///
    /// When the database or the bank does not answer. The caller must repeat the call.
    pub async fn record(
        &self,
        bank: &PixBank,
        pix: &Pix,
        paid_charge: Option<ChargeId>,
        now: Timestamp,
    ) -> Result<Option<ReportedPix>, WorkError> {
        match self.record_money(bank, pix, paid_charge, now).await? {
            Some(recorded) => Ok(Some(self.record_returns(recorded, pix, now).await?)),
            None => Ok(None),
        }
    }

    /// Records the Pix of a page of the bank's list. Those that are recorded, with all their devoluções, cost
    /// one read together.
    ///
    /// # Errors
    ///
    /// When the database does not answer. A Pix that can't be recorded for another reason is stored as if a
    /// notification had named it, so that it is tried again and does not stop the sweep.
    pub async fn record_listed(
        &self,
        bank: &PixBank,
        listed: &[Pix],
        now: Timestamp,
    ) -> Result<(), WorkError> {
        let keys: Vec<Key> = listed.iter().map(|pix| ReportedPix::key_of(&pix.end_to_end_id)).collect();
        let known: Vec<ReportedPix> = self.store.get_in_order(&keys).await?;
        let known: HashMap<&EndToEndId, &ReportedPix> =
            known.iter().map(|known| (&known.end_to_end_id, known)).collect();
        let is_new = |pix: &&Pix| {
            known.get(&pix.end_to_end_id).is_none_or(|known| {
                known.status != ReportedPixStatus::Recorded || !unseen_returns(known, pix).is_empty()
            })
        };
        let slots = Arc::new(Semaphore::new(CONCURRENT_PIX));
        let mut work = JoinSet::new();
        for pix in listed.iter().filter(is_new) {
            let (service, bank, pix, slots) = (self.clone(), bank.clone(), pix.clone(), Arc::clone(&slots));
            work.spawn(async move {
                let _slot = slots.acquire().await;
                let recorded = Box::pin(service.record(&bank, &pix, None, now)).await;
                let Err(error) = recorded else { return Ok(()) };
                tracing::error!(pix = %pix.end_to_end_id, %error, "a listed Pix can't be recorded yet; it is tried again");
                service.remember(&bank, &pix, now).await
            });
        }
        work.join_all().await.into_iter().collect()
    }

    /// Stores a Pix as if a notification had named it, unless it is stored already.
    async fn remember(&self, bank: &PixBank, pix: &Pix, now: Timestamp) -> Result<(), WorkError> {
        let at = (bank.connection(), bank.account());
        let row = ReportedPix::notified(pix.end_to_end_id.clone(), at, pix.txid.clone(), now);
        let _inserted_or_stored = self.store.commit(vec![Write::insert(&row)?]).await?;
        Ok(())
    }

    /// Ends the read-back that a notification of a recorded Pix caused.
    pub async fn settle_read_back(&self, recorded: &ReportedPix) -> Result<(), WorkError> {
        match recorded.read_back_at {
            None => Ok(()),
            Some(_) => Ok(self.replace_reported(&recorded.read_back(), recorded).await?),
        }
    }

    /// Replaces the row of a reported Pix. If another caller changed it meanwhile, nothing is written.
    pub async fn replace_reported(&self, next: &ReportedPix, read: &ReportedPix) -> Result<(), StoreError> {
        self.store.commit(vec![Write::replace(next, read.version)?]).await.map(|_conflict_or_done| ())
    }

    /// Returns the claim of the Pix key that a Pix was sent to, if its account uses this connection.
    async fn claim_of(&self, bank: &PixBank, pix: &Pix) -> Result<Option<PixKeyClaim>, StoreError> {
        let Some(key) = pix.key.as_deref().and_then(|key| key.parse().ok()) else { return Ok(None) };
        let claim = self.acquirers.claim_of_key(&key).await?;
        Ok(claim.filter(|claim| claim.connection == bank.connection()))
    }

    async fn record_money(
        &self,
        bank: &PixBank,
        pix: &Pix,
        paid_charge: Option<ChargeId>,
        now: Timestamp,
    ) -> Result<Option<ReportedPix>, WorkError> {
        let key = ReportedPix::key_of(&pix.end_to_end_id);
        let mut update = self.store.start_update("a Pix");
        loop {
            update.next_attempt().await?;
            let known = self.store.get::<ReportedPix>(&key).await?;
            if let Some(known) = known.clone().filter(|known| known.status == ReportedPixStatus::Recorded) {
                return Ok(Some(match paid_charge.filter(|_| known.charge.is_none()) {
                    Some(charge) => self.apply_unmatched(known, charge, now).await?,
                    None => known,
                }));
            }
            let Some(found) = self.match_charge(bank, pix, paid_charge).await? else { return Ok(None) };
            let (account, charge, mut writes) = match found {
                Match::Charge(stored) => {
                    let charge = self.finalised(bank, stored.read_at(now), now).await?;
                    let writes = self.payment_writes(bank, pix, &charge, now).await?;
                    (charge.scope.account, Some(charge.id), writes)
                }
                Match::None(scope) => {
                    let payment = payment(pix, pix.payer.document());
                    let moved = transition::unmatched((scope, bank.connection()), &payment, now);
                    tracing::warn!(pix = %pix.end_to_end_id, %scope, "a Pix matches no charge; an operator must end it with `admin receipts apply` or `admin receipts return`");
                    (scope.account, None, recorded_payment_writes(&moved)?)
                }
            };
            let at = (bank.connection(), bank.account());
            let (recorded, claim) = if let Some(known) = &known {
                let recorded = known.recorded(account, charge);
                let claim = Write::replace(&recorded, known.version)?;
                (recorded, claim)
            } else {
                let row = ReportedPix::notified(pix.end_to_end_id.clone(), at, pix.txid.clone(), now);
                let recorded = ReportedPix { version: 1, ..row.recorded(account, charge) };
                let claim = Write::insert(&recorded)?;
                (recorded, claim)
            };
            writes.push(claim);
            if update.commit(writes).await? {
                return Ok(Some(recorded));
            }
        }
    }

    /// Finalises a charge that is still pending, because the bank's answer to its creation was lost. A pending
    /// charge accepts no payment.
    async fn finalised(&self, bank: &PixBank, charge: Charge, now: Timestamp) -> Result<Charge, WorkError> {
        if charge.status != TransactionStatus::Pending {
            return Ok(charge);
        }
        let account = self.account_of(&charge).await?;
        let finalised = bank.create(&charge, &account.settings, false).await?;
        Ok(self.charges.finalise(charge, finalised, now).await?)
    }

    /// Reads the account of a charge.
    pub async fn account_of(&self, charge: &Charge) -> Result<Account, WorkError> {
        let account = self.store.get::<Account>(&Account::key_of(&charge.scope.account)).await?;
        account.ok_or(WorkError::Missing("the account of a charge does not exist"))
    }

    /// Returns the charge that a Pix was meant for: the one that its txid encodes, if it was created at this
    /// connection, or at another connection of the same account. Otherwise the Pix belongs to the account of its key. `None`: no account has the key.
    async fn match_charge(
        &self,
        bank: &PixBank,
        pix: &Pix,
        paid_charge: Option<ChargeId>,
    ) -> Result<Option<Match>, WorkError> {
        let of_txid = pix.txid.as_deref().and_then(|txid| ChargeId::from_txid(txid).ok());
        if let Some(stored) = self.charges.find(of_txid.or(paid_charge)).await? {
            let charge = stored.as_stored();
            let is_live = charge.scope.mode == Mode::Live;
            if is_live
                && (charge.connection == Some(bank.connection())
                    || self.is_of_same_account(bank, pix, charge).await?)
            {
                return Ok(Some(Match::Charge(Box::new(stored))));
            }
        }
        let account = self.owner_of(bank, pix).await?;
        Ok(account.map(|account| Match::None(Scope { account, mode: Mode::Live })))
    }

    /// Returns the account that owns the key of a Pix. `None`: no account has the key.
    async fn owner_of(&self, bank: &PixBank, pix: &Pix) -> Result<Option<AccountId>, StoreError> {
        Ok(match &pix.key {
            // The bank does not report keys, so the account that asked is the only one that can have it.
            None => Some(bank.account()),
            Some(key) if key == bank.settings().pix_key.as_str() => Some(bank.account()),
            Some(_) => self.claim_of(bank, pix).await?.map(|claim| claim.account),
        })
    }

    /// Checks whether a charge of another connection belongs to the account that owns the Pix, and that
    /// connection is still known. An account may have two connections to one bank, as after a change of its
    /// client id. Both then list each Pix.
    async fn is_of_same_account(
        &self,
        bank: &PixBank,
        pix: &Pix,
        charge: &Charge,
    ) -> Result<bool, StoreError> {
        let account = charge.scope.account;
        let Some(connection) = charge.connection else { return Ok(false) };
        if self.owner_of(bank, pix).await? != Some(account) {
            return Ok(false);
        }
        let current = self.acquirers.find(&account).await?;
        Ok(current.is_some_and(|current| current.connection == connection)
            || self.acquirers.find_retired(&account, connection).await?.is_some())
    }

    /// Returns the writes that apply a Pix to its charge, or that return it to its payer.
    async fn payment_writes(
        &self,
        bank: &PixBank,
        pix: &Pix,
        charge: &Charge,
        now: Timestamp,
    ) -> Result<Vec<Write>, WorkError> {
        let account = self.account_of(charge).await?;
        let payer = bank.payer_of(pix, charge.expected_payer.as_ref()).await?;
        let terms = account.settings.terms.for_method(PaymentMethod::Pix);
        let is_in_time = bank.accepted_in_time(charge, pix, now).await?;
        let payment = Payment { is_in_time, ..payment(pix, payer) };
        let command = Command::Pay { payment, terms };
        match transition::apply(charge, &command, now) {
            Ok(Outcome::Unchanged) => Ok(Vec::new()),
            Ok(outcome) => Ok(WritePlan::from_outcome(outcome, charge)?.writes),
            Err(rejection) => {
                tracing::error!(charge = %charge.id, %rejection, "a charge refuses a payment");
                Err(WorkError::Missing("a charge refuses a payment"))
            }
        }
    }

    /// Applies a Pix that was recorded as unmatched to the charge whose paid cob names it.
    async fn apply_unmatched(
        &self,
        known: ReportedPix,
        charge: ChargeId,
        now: Timestamp,
    ) -> Result<ReportedPix, WorkError> {
        let payment = AcquirerPaymentId::from(known.end_to_end_id.clone());
        let scope = Scope { account: known.account, mode: Mode::Live };
        match self.receipts.apply(&scope, &payment, charge, None, now).await {
            Ok(applied) => Ok(applied.reported.unwrap_or(known)),
            Err(ReceiptError::Refused(refused)) => {
                tracing::error!(%charge, pix = %known.end_to_end_id, %refused, "a Pix that paid a charge does not name it; an operator must end it with `admin receipts apply` or `admin receipts return`");
                Ok(known)
            }
            Err(ReceiptError::Store(error)) => Err(error.into()),
            Err(error) => {
                tracing::error!(%charge, pix = %known.end_to_end_id, %error, "a Pix that paid a charge can't be applied");
                Ok(known)
            }
        }
    }

    /// Processes the devoluções of a Pix whose final status is new: of refunds and returns of this service, of
    /// the merchant at the bank itself, and by MED.
    async fn record_returns(
        &self,
        known: ReportedPix,
        pix: &Pix,
        now: Timestamp,
    ) -> Result<ReportedPix, WorkError> {
        let final_returns: Vec<&Devolucao> = pix.returns.iter().filter(|item| is_final(item)).collect();
        let unseen = unseen_returns(&known, pix);
        if unseen.is_empty() {
            return Ok(known);
        }
        let Some(charge) = self.credited_charge(&known).await? else {
            return self.record_returns_of_uncredited(known, pix, now).await;
        };
        let med: Vec<BankMedReturn> = final_returns.iter().filter_map(|item| med_return(item)).collect();
        if unseen.iter().any(|item| med_return(item).is_some()) {
            self.cases.apply_bank_returns(charge, &med, now).await?;
        }
        for item in &unseen {
            match item.nature {
                Nature::MedOperational | Nature::MedFraud => {}
                Nature::MedAutomaticPix | Nature::Other(_) => {
                    tracing::error!(pix = %pix.end_to_end_id, nature = item.nature.as_str(), "the bank returned a Pix for a reason that an operator must handle");
                }
                Nature::Original | Nature::Withdrawal => {
                    self.record_own_return(charge, item, now).await?;
                }
            }
        }
        self.remember_returns(known, &final_returns).await
    }

    /// Returns the charge to which a Pix was credited. `None`: the Pix matches no charge, is held for review,
    /// or goes back to its payer.
    async fn credited_charge(&self, known: &ReportedPix) -> Result<Option<ChargeId>, StoreError> {
        let payment = AcquirerPaymentId::from(known.end_to_end_id.clone());
        let stored = self.charges.find(known.charge).await?;
        let charge = stored.as_ref().map(StoredCharge::as_stored).filter(|charge| {
            let applied = charge.applied_payment.as_ref();
            charge.settlement.is_some() && applied.is_some_and(|applied| applied.payment_id == payment)
        });
        Ok(charge.map(|charge| charge.id))
    }

    /// Processes the devoluções of a Pix that was not credited: of its automatic return, and those that this
    /// service did not request. If the latter returned the whole Pix, it counts as returned. If they returned a
    /// part, they are not remembered, so that they are processed again if the Pix is credited.
    async fn record_returns_of_uncredited(
        &self,
        known: ReportedPix,
        pix: &Pix,
        now: Timestamp,
    ) -> Result<ReportedPix, WorkError> {
        let (mut seen, mut by_bank): (Vec<&Devolucao>, Vec<&Devolucao>) = (Vec::new(), Vec::new());
        for item in pix.returns.iter().filter(|item| is_final(item)) {
            if item.status == DevolucaoStatus::NotRealised {
                // The message of an automatic return asks the bank for this status itself.
                seen.push(item);
            } else if self.returns.is_attempt(&known, &item.id).await? {
                self.returns.complete_attempt(&known, item, now).await?;
                seen.push(item);
            } else {
                by_bank.push(item);
            }
        }
        let sum: i128 = by_bank.iter().map(|item| i128::from(item.amount.minor())).sum();
        if sum >= i128::from(pix.amount.minor()) {
            tracing::warn!(pix = %pix.end_to_end_id, "the bank returned a Pix that was not credited");
            if self.return_without_credit(&known, now).await? {
                seen.extend(by_bank);
            }
        } else if !by_bank.is_empty() {
            tracing::error!(pix = %pix.end_to_end_id, "the bank returned a part of a Pix that is not credited; an operator must end it with `admin receipts` or `admin review`");
        }
        self.remember_returns(known, &seen).await
    }

    /// Ends the wait of a Pix whose money the bank has returned: its return is requested, and then finds that
    /// the bank has executed it. Returns false if the Pix was credited meanwhile.
    async fn return_without_credit(&self, known: &ReportedPix, now: Timestamp) -> Result<bool, WorkError> {
        let scope = Scope { account: known.account, mode: Mode::Live };
        let payment = AcquirerPaymentId::from(known.end_to_end_id.clone());
        let stored = self.charges.find(known.charge).await?;
        let held = stored.filter(|stored| {
            let charge = stored.as_stored();
            let applied = charge.applied_payment.as_ref();
            charge.is_held_for_review() && applied.is_some_and(|applied| applied.payment_id == payment)
        });
        if let Some(held) = held {
            let account = self.account_of(held.as_stored()).await?;
            let terms = account.settings.terms.for_method(PaymentMethod::Pix);
            let command = Command::Review { decision: Decision::Return, terms };
            match self.charges.apply(held, &command, now).await {
                Ok(_) | Err(ChargeError::Rejected { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        } else {
            match self.receipts.give_back(&scope, &payment, None, now).await {
                Ok(_) | Err(ReceiptError::NotWaiting | ReceiptError::NotFound) => {}
                Err(ReceiptError::Store(error)) => return Err(error.into()),
                Err(error) => {
                    tracing::error!(pix = %known.end_to_end_id, %error, "a Pix that the bank returned is not recorded as returned");
                    return Ok(false);
                }
            }
        }
        let incoming = self.returns.find(&scope, &payment).await?;
        Ok(incoming.is_some_and(|incoming| incoming.returned.is_some()))
    }

    /// Stores the devoluções of a Pix that are processed.
    async fn remember_returns(
        &self,
        known: ReportedPix,
        processed: &[&Devolucao],
    ) -> Result<ReportedPix, WorkError> {
        let seen: Vec<SeenReturn> = processed
            .iter()
            .map(|item| SeenReturn { id: item.id.clone(), status: item.status.as_str().to_owned() })
            .collect();
        if seen == known.returns {
            return Ok(known);
        }
        let next = known.with_returns(seen);
        // If another caller changed the row, it processes the same devoluções again, which changes nothing.
        let _conflict_or_done = self.store.commit(vec![Write::replace(&next, known.version)?]).await?;
        Ok(next)
    }

    /// Ends the refund that a devolução belongs to. A devolução that this service did not request
    /// becomes a refund that was made at the bank.
    async fn record_own_return(
        &self,
        charge: ChargeId,
        item: &Devolucao,
        now: Timestamp,
    ) -> Result<(), WorkError> {
        let outcome = match item.status {
            DevolucaoStatus::Returned => RefundOutcome::Refunded,
            DevolucaoStatus::NotRealised => RefundOutcome::Failed,
            DevolucaoStatus::InProgress | DevolucaoStatus::Other(_) => return Ok(()),
        };
        let rtr_id = item.rtr_id.as_ref().map(ToString::to_string);
        let refunds = self.refunds.for_charge(Some(charge)).await?;
        let refund = match refunds.into_iter().find(|refund| refund.bank_id() == item.id) {
            Some(refund) => refund,
            None if outcome == RefundOutcome::Failed => return Ok(()),
            None => match self.refunds.record_made_at_bank(charge, item, now).await {
                Ok(refund) => refund,
                Err(RefundError::Refused { why, status }) => {
                    tracing::error!(%charge, status = status.as_str(), %why, "a devolução at the bank can't be recorded; an operator must correct the ledger");
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            },
        };
        self.refunds.end_at_bank(refund, outcome, rtr_id, now).await?;
        Ok(())
    }
}

fn payment(pix: &Pix, payer_document: Option<TaxId>) -> Payment {
    Payment {
        id: pix.end_to_end_id.clone().into(),
        method: PaymentMethod::Pix,
        amount: pix.amount,
        payer_document,
        paid_at: pix.at,
        is_in_time: false,
    }
}

/// Returns the devoluções with a final status that the row of the Pix lacks.
fn unseen_returns<'a>(known: &ReportedPix, pix: &'a Pix) -> Vec<&'a Devolucao> {
    let is_seen = |item: &Devolucao| {
        known.returns.iter().any(|seen| seen.id == item.id && seen.status == item.status.as_str())
    };
    pix.returns.iter().filter(|item| is_final(item) && !is_seen(item)).collect()
}

fn is_final(item: &Devolucao) -> bool {
    match item.status {
        DevolucaoStatus::Returned | DevolucaoStatus::NotRealised => true,
        DevolucaoStatus::InProgress | DevolucaoStatus::Other(_) => false,
    }
}

/// Returns a devolução by MED that the bank has executed. Until then, the money is not gone.
fn med_return(item: &Devolucao) -> Option<BankMedReturn> {
    let is_med = matches!(item.nature, Nature::MedOperational | Nature::MedFraud);
    (is_med && item.status == DevolucaoStatus::Returned)
        .then(|| BankMedReturn { id: item.id.clone(), amount: item.amount })
}

#[cfg(test)]
mod tests {
    use domain::ids::ConnectionId;
    use serde_json::{Value, json};

    use super::*;

    const PIX: &str = "E12345678202611251200abcdefghijk";

    #[test]
    fn the_devolucoes_that_a_row_lacks_are_those_whose_final_status_it_has_not_seen() {
        let devolucao = |id: &str, status: &str| json!({"id": id, "valor": "1.00", "status": status});
        let returns: Vec<Value> = vec![
            devolucao("seen", "DEVOLVIDO"),
            devolucao("seenfailed", "NAO_REALIZADO"),
            devolucao("changed", "DEVOLVIDO"),
            devolucao("new", "DEVOLVIDO"),
            devolucao("newfailed", "NAO_REALIZADO"),
            devolucao("open", "EM_PROCESSAMENTO"),
        ];
        let pix = json!({
            "endToEndId": PIX,
            "valor": "10.00",
            "horario": "2026-11-25T12:00:00Z",
            "devolucoes": returns,
        });
        let pix = Pix::parse(&pix).unwrap();
        let seen = |id: &str, status: &str| SeenReturn { id: id.to_owned(), status: status.to_owned() };
        let at = (ConnectionId::derive("pix", "https://bank.example.com", "client"), AccountId::new([2; 10]));
        let known = ReportedPix::notified(pix.end_to_end_id.clone(), at, None, pix.at).with_returns(vec![
            seen("seen", "DEVOLVIDO"),
            seen("seenfailed", "NAO_REALIZADO"),
            seen("changed", "NAO_REALIZADO"),
        ]);
        let unseen: Vec<&str> = unseen_returns(&known, &pix).iter().map(|item| item.id.as_str()).collect();
        assert_eq!(unseen, ["changed", "new", "newfailed"]);
    }
}
