//! Records the Pix that a bank received, exactly once each. Notifications only name a Pix; this module gets
//! what was read from the bank itself.
//!
//! The transaction that records the money also writes the row of the reported Pix ([`ReportedPix`]), whose key
//! is the end-to-end id alone. So a Pix that is reported again, by a notification and by a sweep, or by two
//! connections, is recorded once.

use std::collections::HashMap;

use api_pix::{Devolucao, DevolucaoStatus, Nature, Pix, end_of};

use domain::account::Account;
use domain::acquirer::{ConnectionSweep, OddObject, PixDetails, ReportedPix, ReportedPixStatus, SeenReturn};
use domain::audit::{Action, Operator};
use domain::charge::transition::{self, Command, MadeLegs, Outcome, Payment};
use domain::charge::{Charge, Decision, StoredCharge};
use domain::ids::{AccountId, AcquirerPaymentId, ChargeId, EndToEndId, Mode, Scope};
use domain::payment_method::PaymentMethod;
use domain::refund::{Refund, RefundOutcome, RefundReason, RefundStatus};
use domain::row::Key;
use domain::tax_id::TaxId;
use domain::time::Timestamp;
use domain::wallet::ReturnStatus;

use crate::bank_returns::Returns;
use crate::receipts::{ReceiptError, Receipts};
use acquirer_core::configuration::{AccountAcquirers, PixKeyClaim};
use acquirer_core::{Connector as _, NewCharge, PixBank};
use money::charge::{ChargeError, Charges, WritePlan, recorded_payment_writes};
use money::med::{BankMedReturn, MedCases};
use money::refund::{MadeThere, RefundError, Refunds};
use shared::store::{Result, Store, Write};
use shared::{WorkError, WorkResult, audit, concurrently};

/// How long a bank is asked again for the payer of a payment that is held for review: six hours, in
/// milliseconds. Its list may confirm a payer later than the Pix.
const CONFIRM_PAYER_MS: i64 = 6 * 60 * 60 * 1_000;
const CONCURRENT_PIX: usize = 8;

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

#[derive(Debug)]
enum Match {
    /// Of this bank connection, or of another one of the same account.
    Charge(Box<StoredCharge>),
    /// The money belongs to the account that owns the Pix key.
    None(Scope),
    /// The bank does not report the key. An operator must say whose the money is.
    Unowned,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Owner {
    Account(AccountId),
    /// It is another key of the bank's client.
    Nobody,
    Unknown,
}

/// What is known about a Pix besides what the bank says.
#[derive(Clone, Copy, Debug, Default)]
pub struct PixHint<'a> {
    /// The charge whose cob names the Pix. It is used when the Pix has no txid.
    pub paid_charge: Option<ChargeId>,
    /// As an operator decided: the account that has the money if the Pix concerns no charge, and no other account has
    /// its key.
    pub owner: Option<(AccountId, &'a Operator)>,
}

impl BankPayments {
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
    /// nothing. `None`: the Pix concerns no charge, and no account has its key. If the bank reports neither a key nor a
    /// txid of this service, the Pix becomes [`ReportedPixStatus::Unowned`]. After an error the caller must repeat the
    /// call.
    pub async fn record(
        &self,
        bank: &PixBank,
        pix: &Pix,
        hint: PixHint<'_>,
        now: Timestamp,
    ) -> WorkResult<Option<ReportedPix>> {
        match Box::pin(self.record_money(bank, pix, hint, now)).await? {
            Some(recorded) if recorded.status == ReportedPixStatus::Recorded => {
                Ok(Some(Box::pin(self.record_returns(recorded, pix, now)).await?))
            }
            unowned_or_ignored => Ok(unowned_or_ignored),
        }
    }

    /// Records the Pix of a page of the bank's list. Those that are recorded, with all their devoluções, cost
    /// one read together. A Pix that can't be recorded is stored as if a notification had named it, so that it
    /// is tried again and does not stop the sweep. Returns what must be set aside.
    pub async fn record_listed(
        &self,
        bank: &PixBank,
        listed: &[Pix],
        now: Timestamp,
    ) -> WorkResult<Vec<OddObject>> {
        let keys: Vec<Key> = listed.iter().map(|pix| ReportedPix::key_of(&pix.end_to_end_id)).collect();
        let known: Vec<ReportedPix> = self.store.get_in_order(&keys).await?;
        let known: HashMap<&EndToEndId, &ReportedPix> =
            known.iter().map(|known| (&known.end_to_end_id, known)).collect();
        let is_new = |pix: &&Pix| {
            known.get(&pix.end_to_end_id).is_none_or(|known| match known.status {
                ReportedPixStatus::Recorded => !unseen_returns(known, pix).is_empty(),
                ReportedPixStatus::Unowned => pix.key.is_some() || charge_of_txid(pix).is_some(),
                ReportedPixStatus::Reported | ReportedPixStatus::Unconfirmed => true,
            })
        };
        let work = concurrently(CONCURRENT_PIX, listed.iter().filter(is_new).cloned(), |pix| {
            let (service, bank) = (self.clone(), bank.clone());
            async move {
                let odd = match service.record(&bank, &pix, PixHint::default(), now).await {
                    Ok(_) => return Ok(None),
                    Err(error) => {
                        if error.odd().is_none() {
                            tracing::error!(pix = %pix.end_to_end_id, %error, "a listed Pix can't be recorded yet; it is tried again");
                        }
                        error.odd().cloned()
                    }
                };
                let row = ReportedPix::notified(
                    pix.end_to_end_id.clone(),
                    (bank.connection(), bank.account()),
                    pix.txid.clone(),
                    now,
                );
                service.store.insert(&row).await?;
                Ok(odd)
            }
        });
        work.await.into_iter().filter_map(Result::transpose).collect()
    }

    /// `None`: this is not the id of a Pix, the bank does not find it, or [`Self::record`] ignores it.
    pub async fn record_by_id(
        &self,
        bank: &PixBank,
        payment: &str,
        paid_charge: Option<ChargeId>,
        now: Timestamp,
    ) -> WorkResult<Option<ReportedPix>> {
        let Ok(id) = payment.parse::<EndToEndId>() else { return Ok(None) };
        match bank.read_back(&id, None, (now, now)).await? {
            Some(pix) => self.record(bank, &pix, PixHint { paid_charge, owner: None }, now).await,
            None => Ok(None),
        }
    }

    /// Ends the read-back of a recorded Pix. If its charge is held for review because the bank did not confirm
    /// the payer, the scheduler sends further messages until the bank confirms the payer, or for some hours.
    pub async fn settle_read_back(
        &self,
        bank: &PixBank,
        recorded: &ReportedPix,
        pix: &Pix,
        now: Timestamp,
    ) -> WorkResult<()> {
        if recorded.read_back_at.is_none() {
            return Ok(());
        }
        if let Some(held) = self.held_charge(recorded).await? {
            let expected = held.as_stored().expected_payer;
            let payer = bank.payer_of(pix, expected.as_ref()).await?;
            if payer.is_some() && payer == expected {
                let terms = self.account_of(held.as_stored()).await?.settings.terms;
                let command = Command::ConfirmPayer { terms: terms.for_method(PaymentMethod::Pix) };
                self.charges.apply(held, &command, now).await?;
                // Devoluções of a part are recorded once the payment is credited.
                Box::pin(self.record_returns(recorded.clone(), pix, now)).await?;
                let read = self.store.get::<ReportedPix>(&ReportedPix::key_of(&pix.end_to_end_id)).await?;
                return self.end_read_back(read.as_ref().unwrap_or(recorded)).await;
            }
            if payer.is_none() && now.millis_since(recorded.reported_at) < CONFIRM_PAYER_MS {
                return Ok(());
            }
            tracing::error!(pix = %pix.end_to_end_id, charge = %held.as_stored().id, "the bank did not confirm the payer of a payment that is held for review; an operator must decide: admin review");
        }
        self.end_read_back(recorded).await
    }

    pub async fn end_read_back(&self, known: &ReportedPix) -> WorkResult<()> {
        let next = match known.status {
            ReportedPixStatus::Recorded | ReportedPixStatus::Unowned => known.read_back(),
            ReportedPixStatus::Reported | ReportedPixStatus::Unconfirmed => known.unconfirmed(),
        };
        Ok(self.replace_reported(&next, known).await?)
    }

    /// Returns the charge to which a Pix was applied.
    async fn charge_of(&self, known: &ReportedPix) -> Result<Option<StoredCharge>> {
        let (_, payment) = payment_of(known);
        let stored = self.charges.find(known.charge).await?;
        Ok(stored.filter(|stored| {
            let applied = stored.as_stored().applied_payment.as_ref();
            applied.is_some_and(|applied| applied.payment_id == payment)
        }))
    }

    async fn held_charge(&self, known: &ReportedPix) -> Result<Option<StoredCharge>> {
        let applied = self.charge_of(known).await?;
        Ok(applied.filter(|applied| applied.as_stored().is_held_for_review()))
    }

    /// If another caller changed the row meanwhile, nothing is written.
    async fn replace_reported(&self, next: &ReportedPix, read: &ReportedPix) -> Result<()> {
        self.store.commit(vec![Write::replace(next, read.version)?]).await.map(|_conflict_or_done| ())
    }

    /// `None` unless the owner of the key uses this connection.
    async fn claim_of(&self, bank: &PixBank, pix: &Pix) -> Result<Option<PixKeyClaim>> {
        let Some(key) = pix.key.as_deref().and_then(|key| key.parse().ok()) else { return Ok(None) };
        let claim = self.acquirers.claim_of_key(&key).await?;
        Ok(claim.filter(|claim| claim.connection == bank.connection()))
    }

    async fn record_money(
        &self,
        bank: &PixBank,
        pix: &Pix,
        hint: PixHint<'_>,
        now: Timestamp,
    ) -> WorkResult<Option<ReportedPix>> {
        let key = ReportedPix::key_of(&pix.end_to_end_id);
        let (mut update, mut hint) = (self.store.start_update("a Pix"), hint);
        loop {
            let known = self.store.get::<ReportedPix>(&key).await?;
            // The notification had the txid that the bank's list lacks. Only the cob proves it.
            let lacks_charge = |known: &&ReportedPix| pix.txid.is_none() && known.charge.is_none();
            let notified = known.as_ref().filter(lacks_charge).and_then(|known| known.txid.as_deref());
            let named = notified.and_then(|txid| ChargeId::from_txid(txid).ok());
            if let (None, Some(charge)) = (hint.paid_charge, named)
                && bank.paid(charge, &pix.end_to_end_id).await?
            {
                hint.paid_charge = Some(charge);
            }
            if let Some(known) = known.clone().filter(|known| known.status == ReportedPixStatus::Recorded) {
                return Ok(Some(match hint.paid_charge.filter(|_| known.charge.is_none()) {
                    Some(charge) => self.apply_unmatched(known, charge, now).await?,
                    None => known,
                }));
            }
            let at = (bank.connection(), bank.account());
            let row = known.clone().unwrap_or_else(|| {
                ReportedPix::notified(pix.end_to_end_id.clone(), at, pix.txid.clone(), now)
            });
            let Some(found) = self.match_charge(bank, pix, hint).await? else { return Ok(None) };
            let (account, charge, mut writes, holding) = match found {
                Match::Charge(stored) => {
                    let charge = Box::pin(self.finalised(bank, stored.read_at(now), now)).await?;
                    let (writes, holding) = self.payment_writes(bank, pix, &charge, now).await?;
                    (charge.scope.account, Some(charge.id), writes, holding)
                }
                Match::None(scope) => {
                    let payment = payment(pix, pix.payer.document());
                    let moved = transition::unmatched((scope, bank.connection()), &payment, None, now);
                    tracing::warn!(pix = %pix.end_to_end_id, %scope, "a Pix matches no charge; an operator must end it with `admin receipts apply` or `admin receipts return`");
                    (scope.account, None, recorded_payment_writes(&moved)?, Holding::NotCredited)
                }
                Match::Unowned if row.status == ReportedPixStatus::Unowned => return Ok(Some(row)),
                Match::Unowned => {
                    let (unowned, write) = claim(known.as_ref(), row.unowned(details(pix)))?;
                    if update.commit(vec![write]).await? {
                        tracing::error!(pix = %pix.end_to_end_id, connection = %bank.connection(), "the bank reports neither a key nor a txid of a charge for a Pix; an operator must say whose it is with `admin receipts record`");
                        return Ok(Some(unowned));
                    }
                    continue;
                }
            };
            let recorded = row.recorded(account, charge);
            let recorded = match holding {
                Holding::Credited => ReportedPix { details: None, ..recorded },
                Holding::NotCredited | Holding::ForReview => {
                    ReportedPix { details: Some(details(pix)), ..recorded }
                }
            };
            // The bank may confirm the payer later, so the Pix is read back again.
            let is_to_confirm = holding == Holding::ForReview && bank.settings().filter_verified;
            let recorded = if is_to_confirm { recorded.due(now) } else { recorded };
            let (recorded, write) = claim(known.as_ref(), recorded)?;
            writes.push(write);
            if let Some((account, by)) = hint.owner {
                let id = pix.end_to_end_id.to_string();
                let audit = audit::by_operator(by, account, Action::RecordReceipt, id, now)?;
                writes.push(Write::audit(&audit));
            }
            if update.commit(writes).await? {
                return Ok(Some(recorded));
            }
        }
    }

    /// Finalises the leg of a charge that is still missing, because the bank's answer to its creation was lost. It
    /// accepts no payment before.
    async fn finalised(&self, bank: &PixBank, charge: Charge, now: Timestamp) -> WorkResult<Charge> {
        if !charge.is_open() || charge.missing_legs().all(|method| method != PaymentMethod::Pix) {
            return Ok(charge);
        }
        let account = self.account_of(&charge).await?;
        let (settings, return_url, pix_location) = (&account.settings, "", "");
        let new = NewCharge { charge: &charge, settings, return_url, pix_location, is_first: false, now };
        let finalised = bank.create(new).await?;
        let made = MadeLegs::of(PaymentMethod::Pix, finalised, now);
        Ok(self.charges.finalise(charge, made, now).await?)
    }

    pub async fn account_of(&self, charge: &Charge) -> WorkResult<Account> {
        let account = self.store.get::<Account>(&Account::key_of(&charge.scope.account)).await?;
        account.ok_or(WorkError::Missing("the account of a charge does not exist"))
    }

    /// The charge that the txid encodes, if it was created at this connection, or at another one of the same
    /// account. Otherwise the Pix belongs to the account of its key, or to the one that an operator named.
    /// `None`: no account has the key.
    async fn match_charge(&self, bank: &PixBank, pix: &Pix, hint: PixHint<'_>) -> WorkResult<Option<Match>> {
        if let Some(stored) = self.charges.find(charge_of_txid(pix).or(hint.paid_charge)).await? {
            let charge = stored.as_stored();
            let is_live = charge.scope.mode == Mode::Live;
            if is_live
                && (charge.connection_of(PaymentMethod::Pix) == Some(bank.connection())
                    || self.is_of_same_account(bank, pix, charge).await?)
            {
                return Ok(Some(Match::Charge(Box::new(stored))));
            }
        }
        let unmatched = |account| Match::None(Scope { account, mode: Mode::Live });
        Ok(match (self.owner_of(bank, pix).await?, hint.owner) {
            (Owner::Account(account), _) | (Owner::Nobody | Owner::Unknown, Some((account, _))) => {
                Some(unmatched(account))
            }
            (Owner::Nobody, None) => None,
            (Owner::Unknown, None) => Some(Match::Unowned),
        })
    }

    /// If several accounts are clients of one bank, the account that asked need not have a Pix whose key the bank
    /// does not report.
    async fn owner_of(&self, bank: &PixBank, pix: &Pix) -> Result<Owner> {
        Ok(match &pix.key {
            None => {
                let sweep: Option<ConnectionSweep> =
                    self.store.get(&ConnectionSweep::key_of(bank.connection())).await?;
                match sweep.map(|sweep| sweep.accounts).as_deref() {
                    Some([only]) => Owner::Account(*only),
                    _ => Owner::Unknown,
                }
            }
            Some(key) if key == bank.settings().pix_key.as_str() => Owner::Account(bank.account()),
            Some(_) => {
                let claim = self.claim_of(bank, pix).await?;
                claim.map_or(Owner::Nobody, |claim| Owner::Account(claim.account))
            }
        })
    }

    /// Whether a charge of another connection belongs to the account that owns the Pix, and that connection is
    /// still known. An account may have two connections to one bank, as after a change of its client id. Both
    /// then list each Pix.
    async fn is_of_same_account(&self, bank: &PixBank, pix: &Pix, charge: &Charge) -> Result<bool> {
        let account = charge.scope.account;
        let Some(connection) = charge.connection_of(PaymentMethod::Pix) else { return Ok(false) };
        let is_owner = match self.owner_of(bank, pix).await? {
            Owner::Account(owner) => owner == account,
            Owner::Nobody => false,
            Owner::Unknown => self.acquirers.uses(&account, bank.connection()).await?,
        };
        Ok(is_owner && self.acquirers.uses(&account, connection).await?)
    }

    async fn payment_writes(
        &self,
        bank: &PixBank,
        pix: &Pix,
        charge: &Charge,
        now: Timestamp,
    ) -> WorkResult<(Vec<Write>, Holding)> {
        let account = self.account_of(charge).await?;
        let payer = bank.payer_of(pix, charge.expected_payer.as_ref()).await?;
        let terms = account.settings.terms.for_method(PaymentMethod::Pix);
        let is_in_time = bank.accepted_in_time(charge, pix, now).await?;
        let payment = Payment { is_in_time, ..payment(pix, payer) };
        let command = Command::Pay { payment, terms };
        match transition::apply(charge, &command, now) {
            Ok(Outcome::Unchanged) => Ok((Vec::new(), Holding::Credited)),
            Ok(outcome) => {
                let holding = match &outcome {
                    Outcome::Paid { charge, .. } if charge.is_held_for_review() => Holding::ForReview,
                    Outcome::Paid { charge, .. } if charge.settlement.is_some() => Holding::Credited,
                    _ => Holding::NotCredited,
                };
                Ok((WritePlan::from_outcome(outcome, None, charge)?.writes, holding))
            }
            Err(rejection) => {
                tracing::error!(charge = %charge.id, %rejection, "a charge refuses a payment");
                Err(WorkError::Missing("a charge refuses a payment"))
            }
        }
    }

    /// The charge's paid cob names the Pix.
    async fn apply_unmatched(
        &self,
        known: ReportedPix,
        charge: ChargeId,
        now: Timestamp,
    ) -> WorkResult<ReportedPix> {
        let (scope, payment) = payment_of(&known);
        match self.receipts.apply(&scope, &payment, charge, None, now).await {
            Ok(applied) => Ok(applied.reported.unwrap_or(known)),
            Err(ReceiptError::Store(error)) => Err(error.into()),
            Err(error) => {
                tracing::error!(%charge, pix = %known.end_to_end_id, %error, "a Pix that paid a charge does not name it, and can't be applied; an operator must end it with `admin receipts apply` or `admin receipts return`");
                Ok(known)
            }
        }
    }

    /// Of refunds and returns of this service, of the merchant at the bank itself, and by MED.
    async fn record_returns(&self, known: ReportedPix, pix: &Pix, now: Timestamp) -> WorkResult<ReportedPix> {
        let final_returns: Vec<&Devolucao> = pix.returns.iter().filter(|item| is_final(item)).collect();
        let unseen = unseen_returns(&known, pix);
        if unseen.is_empty() {
            return Ok(known);
        }
        let applied = self.charge_of(&known).await?;
        let credited = applied.filter(|applied| applied.as_stored().settlement.is_some());
        // Otherwise the Pix matches no charge, is held for review, or goes back to its payer.
        let Some(charge) = credited.map(|credited| credited.as_stored().id) else {
            return self.record_returns_of_uncredited(known, pix, now).await;
        };
        let med: Vec<BankMedReturn> = final_returns.iter().filter_map(|item| med_return(item)).collect();
        if unseen.iter().any(|item| med_return(item).is_some()) {
            self.cases.apply_bank_returns(charge, &med, now).await?;
        }
        let mut processed = final_returns;
        for item in unseen.into_iter().filter(|item| !is_med(item)) {
            if !Box::pin(self.record_return(charge, item, now)).await? {
                processed.retain(|other| other.id != item.id);
            }
        }
        self.remember_returns(known, &processed).await
    }

    /// Of its automatic return, and those that this service did not request. If the latter returned the whole
    /// Pix, it counts as returned. If they returned a part, they are not remembered, so that they are processed
    /// again if the Pix is credited.
    async fn record_returns_of_uncredited(
        &self,
        known: ReportedPix,
        pix: &Pix,
        now: Timestamp,
    ) -> WorkResult<ReportedPix> {
        let (scope, payment) = payment_of(&known);
        let incoming = self.charges.find_payment(&scope, &payment).await?;
        let (mut seen, mut by_bank): (Vec<&Devolucao>, Vec<&Devolucao>) = (Vec::new(), Vec::new());
        for item in pix.returns.iter().filter(|item| is_final(item)) {
            if item.status == DevolucaoStatus::NotRealised {
                // The message of an automatic return asks the bank for this status itself.
                seen.push(item);
            } else if let Some(incoming) = incoming.as_ref().filter(|it| it.has_return_attempt(&item.id)) {
                self.returns.complete_attempt(incoming, item, now).await?;
                seen.push(item);
            } else {
                by_bank.push(item);
            }
        }
        let sum: i128 = by_bank.iter().map(|item| i128::from(item.amount.minor())).sum();
        let incoming = self.charges.find_payment(&scope, &payment).await?;
        let returned = incoming.and_then(|incoming| incoming.returned).map(|returned| returned.status);
        if returned == Some(ReturnStatus::Returned) {
            seen.extend(by_bank);
        } else if sum >= i128::from(pix.amount.minor()) {
            tracing::warn!(pix = %pix.end_to_end_id, "the bank returned a Pix that was not credited");
            if self.return_without_credit(&known, now).await? {
                seen.extend(by_bank);
            }
        } else if !by_bank.is_empty() && returned != Some(ReturnStatus::Requested) {
            tracing::error!(pix = %pix.end_to_end_id, "the bank returned a part of a Pix that is not credited; an operator must end it with `admin receipts` or `admin review`");
        }
        self.remember_returns(known, &seen).await
    }

    /// The bank has returned the money: a return is requested, and then finds that the bank has executed it.
    /// False if the Pix was credited meanwhile.
    async fn return_without_credit(&self, known: &ReportedPix, now: Timestamp) -> WorkResult<bool> {
        let (scope, payment) = payment_of(known);
        if let Some(held) = self.held_charge(known).await? {
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
        let incoming = self.charges.find_payment(&scope, &payment).await?;
        Ok(incoming.is_some_and(|incoming| incoming.returned.is_some()))
    }

    async fn remember_returns(
        &self,
        known: ReportedPix,
        processed: &[&Devolucao],
    ) -> WorkResult<ReportedPix> {
        let seen: Vec<SeenReturn> = processed
            .iter()
            .map(|item| SeenReturn { id: item.id.clone(), status: item.status.as_str().to_owned() })
            .collect();
        if seen == known.returns {
            return Ok(known);
        }
        let next = known.with_returns(seen);
        // If another caller changed the row, it processes the same devoluções again, which changes nothing.
        self.replace_reported(&next, &known).await?;
        Ok(next)
    }

    /// Ends the refund that a final devolução belongs to. One that this service did not request, or whose
    /// refund has failed here, becomes a refund that was made at the bank: the money is gone, so the wallet is
    /// debited. False if it can't be recorded yet.
    async fn record_return(&self, charge: ChargeId, item: &Devolucao, now: Timestamp) -> WorkResult<bool> {
        let is_executed = item.status == DevolucaoStatus::Returned;
        let outcome = if is_executed { RefundOutcome::Refunded } else { RefundOutcome::Failed };
        let refunds = self.refunds.for_charge(Some(charge)).await?;
        // Another worker may have recorded the same devolução, which then has not failed.
        let (failed, others): (Vec<Refund>, Vec<Refund>) = refunds
            .into_iter()
            .filter(|refund| refund.bank_id() == item.id)
            .partition(|refund| is_executed && refund.status == RefundStatus::Failed);
        let has_failed_here = !failed.is_empty();
        let refund = match others.into_iter().next() {
            Some(refund) => refund,
            None if !is_executed => return Ok(true),
            None => match self.refunds.record_made_there(charge, made_there(item), now).await {
                Ok(refund) => refund,
                Err(RefundError::Refused { why, status }) => {
                    tracing::error!(%charge, devolucao = item.id, status = status.as_str(), %why, "a devolução at the bank can't be recorded yet; it is tried again");
                    return Ok(false);
                }
                Err(error) => return Err(error.into()),
            },
        };
        if refund.requested_at_bank.is_some() && !refund.is_done() {
            log_foreign_return(charge, item, has_failed_here);
        }
        self.refunds.end_at_bank(refund, outcome, end_of(item), now).await?;
        Ok(true)
    }
}

/// Returns the row of incoming money that a Pix has.
fn payment_of(known: &ReportedPix) -> (Scope, AcquirerPaymentId) {
    (Scope { account: known.account, mode: Mode::Live }, known.end_to_end_id.clone().into())
}

fn made_there(item: &Devolucao) -> MadeThere<'_> {
    MadeThere {
        id: &item.id,
        amount: item.amount,
        its_id: end_of(item).id,
        reason: reason_at_bank(&item.nature),
    }
}

fn log_foreign_return(charge: ChargeId, item: &Devolucao, has_failed_here: bool) {
    let (id, nature) = (item.id.as_str(), item.nature.as_str());
    if has_failed_here {
        tracing::error!(%charge, devolucao = id, "the bank executed a refund that counts as failed; the wallet is debited again");
    } else if !matches!(item.nature, Nature::Original | Nature::Withdrawal) {
        tracing::error!(%charge, devolucao = id, nature, "the bank returned a Pix for a reason that an operator must classify; the wallet is debited");
    }
}

fn reason_at_bank(nature: &Nature) -> RefundReason {
    match nature {
        Nature::Original | Nature::Withdrawal => RefundReason::RequestedAtBank,
        Nature::MedOperational | Nature::MedFraud | Nature::MedAutomaticPix | Nature::Other(_) => {
            let is_plain = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
            let code = nature.as_str().chars().filter(is_plain).take(MAX_NATURE_CHARS).collect();
            RefundReason::ReturnedByBank(code)
        }
    }
}

const MAX_NATURE_CHARS: usize = 40;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Holding {
    Credited,
    ForReview,
    NotCredited,
}

fn charge_of_txid(pix: &Pix) -> Option<ChargeId> {
    pix.txid.as_deref().and_then(|txid| ChargeId::from_txid(txid).ok())
}

fn claim(known: Option<&ReportedPix>, next: ReportedPix) -> Result<(ReportedPix, Write)> {
    let next = if known.is_some() { next } else { ReportedPix { version: 1, ..next } };
    let write = Write::put(&next, known.map(|known| known.version))?;
    Ok((next, write))
}

fn details(pix: &Pix) -> PixDetails {
    PixDetails {
        amount: pix.amount,
        paid_at: pix.at,
        txid: pix.txid.clone(),
        key: pix.key.clone(),
        payer_message: pix.payer_message(),
        payer: pix.masked_payer(),
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
        charged: None,
    }
}

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

/// Any other devolução is recorded as a refund, whatever its reason.
pub(super) fn is_med(item: &Devolucao) -> bool {
    match item.nature {
        Nature::MedOperational | Nature::MedFraud => true,
        Nature::Original | Nature::Withdrawal | Nature::MedAutomaticPix | Nature::Other(_) => false,
    }
}

/// Until the bank has executed it, the money is not gone.
fn med_return(item: &Devolucao) -> Option<BankMedReturn> {
    (is_med(item) && item.status == DevolucaoStatus::Returned)
        .then(|| BankMedReturn { id: item.id.clone(), amount: item.amount })
}

#[cfg(test)]
mod tests {
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
        let at = (
            domain::ids::ConnectionId::derive("pix", "https://bank.example.com", "client"),
            AccountId::new([2; 10]),
        );
        let known = ReportedPix::notified(pix.end_to_end_id.clone(), at, None, pix.at).with_returns(vec![
            seen("seen", "DEVOLVIDO"),
            seen("seenfailed", "NAO_REALIZADO"),
            seen("changed", "NAO_REALIZADO"),
        ]);
        let unseen: Vec<&str> = unseen_returns(&known, &pix).iter().map(|item| item.id.as_str()).collect();
        assert_eq!(unseen, ["changed", "new", "newfailed"]);
    }
}
