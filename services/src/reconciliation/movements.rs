//! Compares the movements that an acquirer lists for a day with what is recorded. It is for acquirers that list their
//! balance; [`super::pix`] is for banks of Pix.
//!
//! A charge whose only movement is its payment is compared with its rows. Any other charge with movements or postings of
//! the day is read at the acquirer. It differs if [`next_step`](domain::snapshot::next_step) finds a change that is
//! missing. Else all its movements, of any day, are compared with its postings: the payments with their returns, each
//! refund and each dispute in the charge's currency, and the fees in the currency of the balance. A refund or return in
//! progress is compared when it has ended.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use domain::calendar::Day;
use domain::charge::transition::Command;
use domain::charge::{Charge, IncomingPayment};
use domain::ids::{AccountId, AcquirerPaymentId, ChargeId, ConnectionId, PostingId, RefundId};
use domain::med::{CaseKind, MedCase};
use domain::money::{Currency, MinorUnits, MoneyError};
use domain::refund::Refund;
use domain::row::Key;
use domain::snapshot::{MovedObject, RemoteMovement, RemoteRefund, Snapshot, Step};
use domain::time::Timestamp;
use domain::wallet::{LedgerAccount, Posting, PostingKind, Transfer, add_to_counter};
use serde::Serialize;

use super::{accounts_of, live};
use crate::{ChargeRows, RemoteCharges};
use acquirer_core::{Connection, Connections, Legs, Movement};
use money::charge::Charges;
use money::wallet::Wallets;
use shared::store::{Result, Store};
use shared::{WorkError, WorkResult};

/// A payment may be recorded so long after it was made: its fee may be unknown for two hours.
const RECORDED_SECONDS: i64 = 3 * 60 * 60;

/// The accounts whose changes are movements at an acquirer.
const AT_ACQUIRER: [LedgerAccount; 4] = [
    LedgerAccount::AcquirerClearing,
    LedgerAccount::AcquirerFees,
    LedgerAccount::MedLosses,
    LedgerAccount::SelfCustodyClearing,
];

/// The kinds of postings that record a payment.
const RECEIPTS: [PostingKind; 4] =
    [PostingKind::Settlement, PostingKind::UnappliedReceipt, PostingKind::SelfCustody, PostingKind::Fee];

#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct MovementReconciliation {
    /// At the acquirer.
    pub payments: u64,
    /// Those that belong to no charge, such as payouts and payments of other systems.
    pub others: u64,
    #[serde(skip)]
    pub differences: Vec<MovementDifference>,
    /// Charges whose money is on the balance in another currency. They are no differences.
    #[serde(skip)]
    pub exchanged: Vec<MovementDifference>,
}

#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct MovementDifference {
    /// `None`: of an object that can't be read.
    pub charge: Option<ChargeId>,
    pub payment: Option<AcquirerPaymentId>,
    /// Such as `refund re_…`, if the movements of one object are compared.
    pub object: Option<String>,
    /// In minor units.
    pub acquirer_amount: Option<MinorUnits>,
    pub recorded_amount: Option<MinorUnits>,
    pub reason: String,
}

impl MovementDifference {
    fn new(charge: impl Into<Option<ChargeId>>, reason: impl Display) -> Self {
        let (payment, object, acquirer_amount, recorded_amount) = (None, None, None, None);
        let (charge, reason) = (charge.into(), reason.to_string());
        Self { charge, payment, object, acquirer_amount, recorded_amount, reason }
    }

    fn of_object(self, object: String, (acquirer, recorded): (MinorUnits, MinorUnits)) -> Self {
        let (acquirer_amount, recorded_amount) = (Some(acquirer), Some(recorded));
        Self { object: Some(object), acquirer_amount, recorded_amount, ..self }
    }
}

/// With `apply`, records what is missing first.
pub(super) async fn reconcile(
    store: &Store,
    charges: &RemoteCharges,
    (connections, connection): (&Connections, &Connection),
    (day, apply): (Day, bool),
    now: Timestamp,
) -> WorkResult<MovementReconciliation> {
    let id = connection.id().ok_or(WorkError::Missing("the sandbox moves no money"))?;
    let mut found = MovementReconciliation::default();
    let mut of_charges: BTreeMap<ChargeId, Recorded> = BTreeMap::new();
    let (period, mut cursor) = ((day.starts_at(), day.ends_at()), None::<String>);
    loop {
        let page = connection.connector().movements(period, cursor.as_deref()).await?;
        for moved in page.movements {
            found.payments = found.payments.saturating_add(moved.payment.is_some().into());
            match moved.charge {
                Some(charge) => of_charges.entry(charge).or_default().movements.push(moved),
                None => found.others = found.others.saturating_add(1),
            }
        }
        found.differences.extend(page.odd.iter().map(|odd| MovementDifference::new(None, odd)));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    let accounts = accounts_of(store, id, connection.account()).await?;
    for account in &accounts {
        record_of_day(store, (*account, id), day, &mut of_charges).await?;
    }
    let rows = Charges::new(store.clone());
    for (of, Recorded { movements, payments }) in of_charges {
        let Some(stored) = rows.find(Some(of)).await? else {
            found.differences.push(MovementDifference::new(of, "no such charge is recorded"));
            continue;
        };
        let charge = stored.as_stored();
        if !accounts.contains(&charge.scope.account) || !charge.uses(id) {
            // A payment of another system names it, or it has postings and no part at this connection.
            found.others = found.others.saturating_add((!movements.is_empty()).into());
            continue;
        }
        let are_kept = movements.iter().all(|moved| is_kept(moved, &payments));
        if are_kept && movements.len() == payments.len() && !movements.is_empty() {
            continue;
        }
        if let ([moved], [payment]) = (&movements[..], &payments[..])
            && moved.payment.as_ref() == Some(&payment.payment_id)
            && charge.funds.is_whole()
            && is_equal(charge, moved, payment)
        {
            continue;
        }
        let legs = connections.of_charge(charge).await?;
        let what = (&movements[..], &payments[..]);
        Box::pin(compare(store, charges, (&legs, charge), what, (apply, now), &mut found)).await?;
    }
    Ok(found)
}

/// What moved on the day, and what is recorded of that day.
#[derive(Default)]
struct Recorded {
    movements: Vec<Movement>,
    payments: Vec<IncomingPayment>,
}

/// Whether it came to the merchant's own wallet, where nothing else moves for a charge, and is recorded so.
fn is_kept(moved: &Movement, payments: &[IncomingPayment]) -> bool {
    let is_same = |payment: &IncomingPayment| {
        moved.payment.as_ref() == Some(&payment.payment_id)
            && payment.method.is_self_custody()
            && (moved.amount, moved.currency) == (payment.amount.into(), Some(payment.currency))
    };
    payments.iter().any(is_same)
}

/// Amount and fee, in the charge's currency.
fn is_equal(charge: &Charge, moved: &Movement, payment: &IncomingPayment) -> bool {
    let has_same_amount = moved.amount == MinorUnits::from(payment.amount);
    let is_credited =
        charge.applied_payment.as_ref().is_some_and(|applied| applied.payment_id == payment.payment_id);
    let fee = charge.settlement.filter(|_| is_credited).map(|settlement| settlement.fees.acquirer());
    moved.currency == Some(charge.currency) && has_same_amount && fee == Some(moved.fee)
}

/// Compares a charge that is read at its acquirers.
async fn compare(
    store: &Store,
    charges: &RemoteCharges,
    (legs, charge): (&Legs, &Charge),
    (movements, payments): (&[Movement], &[IncomingPayment]),
    (apply, now): (bool, Timestamp),
    found: &mut MovementReconciliation,
) -> WorkResult<()> {
    let differing = |reason: &dyn Display| MovementDifference::new(charge.id, reason);
    let snapshot = match legs.read(charge, true, now).await {
        Ok(Some(snapshot)) if !snapshot.is_partial => snapshot,
        unread => {
            let why = match unread {
                Ok(Some(partial)) if partial.odd.is_empty() => {
                    "one of the charge's acquirers did not answer".to_owned()
                }
                Ok(Some(partial)) => {
                    partial.odd.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
                }
                Ok(None) => "the acquirer does not know the charge".to_owned(),
                Err(error) => format!("the charge can't be read: {error}"),
            };
            found.differences.push(differing(&why));
            return Ok(());
        }
    };
    if apply {
        charges.follow(legs, charge, (&snapshot, None), now).await?;
    }
    let (step, contradictions) = charges.missing(charge.id, &snapshot, now).await?;
    let missing = step.as_ref().and_then(missing_step);
    let differences = &mut found.differences;
    differences.extend(contradictions.iter().chain(&snapshot.odd).map(|odd| differing(odd)));
    differences.extend(missing.map(|reason| differing(&reason)));
    for payment in payments {
        // A refund that came back is recorded under its own id.
        let is_listed = snapshot.payments.iter().any(|remote| remote.payment.id == payment.payment_id)
            || snapshot.refunds.iter().any(|remote| remote.id == payment.payment_id.as_str());
        let is_its = |moved: &&RemoteMovement| {
            moved.payment == payment.payment_id && moved.object == MovedObject::Payment
        };
        let of_own = snapshot.payments.iter().find(|remote| remote.payment.id == payment.payment_id);
        let of_own = of_own.filter(|remote| remote.payment.method.is_self_custody());
        let moved = snapshot.movements.iter().find(is_its).map(|moved| moved.gross);
        let acquirer_amount = moved.or(of_own.map(|remote| remote.payment.amount.into()));
        let reason = match acquirer_amount {
            Some(gross) if gross != MinorUnits::from(payment.amount) => "amount or fee differ",
            None if !is_listed => "a payment is recorded that the acquirer does not know",
            Some(_) | None => continue,
        };
        let (payment, recorded_amount) = (Some(payment.payment_id.clone()), Some(payment.amount.into()));
        let difference = MovementDifference { payment, acquirer_amount, ..differing(&reason) };
        differences.push(MovementDifference { recorded_amount, ..difference });
    }
    let is_own = |moved: &&Movement| {
        let kept = snapshot.payments.iter().filter(|remote| remote.payment.method.is_self_custody());
        kept.map(|remote| &remote.payment.id).any(|id| Some(id) == moved.payment.as_ref())
    };
    let is_known =
        |moved: &&Movement| is_own(moved) || snapshot.movements.iter().any(|known| known.id == moved.id);
    differences.extend(movements.iter().filter(|moved| !is_known(moved)).map(|moved| {
        let reason = "the balance moved for no payment, refund or dispute that can be recorded";
        differing(&reason).of_object(moved.id.clone(), (moved.amount, MinorUnits::ZERO))
    }));
    if missing.is_none() {
        differences.extend(Books::read(store, charge.id, &snapshot).await?.differences(&snapshot)?);
    }
    found.exchanged.extend(exchanged(charge, &snapshot)?);
    Ok(())
}

/// All that is recorded about a charge.
struct Books {
    charge: Charge,
    refunds: Vec<Refund>,
    cases: Vec<MedCase>,
    /// Those of the snapshot, and the refunds that came back.
    payments: Vec<IncomingPayment>,
    postings: Vec<Posting>,
}

impl Books {
    async fn read(store: &Store, id: ChargeId, snapshot: &Snapshot) -> WorkResult<Self> {
        let rows = ChargeRows::read(store, id).await?;
        let ChargeRows { charge, refunds, cases } = rows.ok_or(WorkError::Missing("a charge has no row"))?;
        let charge = charge.as_stored().clone();
        let came_back = snapshot.refunds.iter().filter_map(RemoteRefund::came_back_as);
        let ids = snapshot.movements.iter().map(|moved| moved.payment.clone()).chain(came_back);
        let ids: BTreeSet<AcquirerPaymentId> = ids.collect();
        let keys: Vec<Key> = ids.iter().map(|id| IncomingPayment::key_of(&charge.scope, id)).collect();
        let payments: Vec<IncomingPayment> = store.get_in_order(&keys).await?;
        let of_payments = payments.iter().flat_map(|payment| payment.posting_keys(charge.shard()));
        let of_refunds = refunds.iter().flat_map(Refund::posting_keys);
        let of_cases = cases.iter().flat_map(MedCase::posting_keys);
        let keys = charge.posting_keys().into_iter().chain(of_payments).chain(of_refunds).chain(of_cases);
        let mut keys: Vec<Key> = keys.collect();
        let mut postings: Vec<Posting> = Vec::new();
        while !keys.is_empty() {
            let read: Vec<Posting> = store.get_in_order(&keys).await?;
            keys = read.iter().filter_map(Posting::earlier_key).collect();
            postings.extend(read);
        }
        postings.retain(|posting| match &posting.subject.payment {
            Some(payment) => ids.contains(payment),
            None => matches!(posting.kind, PostingKind::AcquirerCosts | PostingKind::DisputeFees),
        });
        Ok(Self { charge, refunds, cases, payments, postings })
    }

    fn differences(&self, snapshot: &Snapshot) -> Result<Vec<MovementDifference>> {
        let mut sums: BTreeMap<String, (MinorUnits, MinorUnits)> = BTreeMap::new();
        for moved in &snapshot.movements {
            let sums = sums.entry(self.object_of(moved, snapshot)).or_default();
            add_to_counter(&mut sums.0, moved.gross)?;
        }
        for posting in &self.postings {
            let sums = sums.entry(object_of_posting(posting)).or_default();
            add_to_counter(&mut sums.1, self.gross_of(posting)?)?;
        }
        let is_returning = self.payments.iter().any(|payment| payment.open_return().is_some());
        let in_progress = self.refunds.iter().filter(|refund| !refund.is_done()).map(|refund| refund.id);
        let undecided = snapshot.refunds.iter().filter(|remote| remote.outcome.is_none());
        let undecided = undecided.map(|remote| self.refund_of(&remote.id, remote.ours));
        let mut moving: BTreeSet<String> = in_progress.chain(undecided).map(of_refund).collect();
        moving.extend(is_returning.then(|| PAYMENTS.to_owned()));
        sums.retain(|object, (acquirer, recorded)| acquirer != recorded && !moving.contains(object));
        let reason = "the acquirer moved another amount than the postings";
        let differing = |reason: &str| MovementDifference::new(self.charge.id, reason);
        let mut found: Vec<MovementDifference> =
            sums.into_iter().map(|(object, amounts)| differing(reason).of_object(object, amounts)).collect();
        let lacks_fee = snapshot.payments.iter().any(|remote| remote.lacks_fee);
        if lacks_fee || self.charge.funds.in_progress()?.is_positive() {
            return Ok(found);
        }
        for ((currency, of_disputes), charged) in snapshot.charged(self.charge.currency)? {
            let is_it = |posting: &&Posting| {
                posting.currency == currency && (posting.kind == PostingKind::DisputeFees) == of_disputes
            };
            let fees = self.postings.iter().filter(is_it);
            let posted = fees.map(|posting| posting.change(LedgerAccount::AcquirerFees));
            let is_own = currency == self.charge.currency && !of_disputes;
            let elsewhere = self.payments.iter().filter(|_| is_own);
            let elsewhere = elsewhere.map(|payment| Ok(payment.fee_elsewhere(self.charge.id)));
            let posted = posted.chain(elsewhere).collect::<Result<Vec<_>, MoneyError>>()?;
            let posted = MinorUnits::checked_sum(posted)?;
            if charged != posted {
                let reason = "the acquirer charged other fees than the postings";
                let object = format!("{}fees {currency}", if of_disputes { "dispute " } else { "" });
                found.push(differing(reason).of_object(object, (charged, posted)));
            }
        }
        Ok(found)
    }

    fn object_of(&self, moved: &RemoteMovement, snapshot: &Snapshot) -> String {
        let refund = |id: &String| {
            let remote = snapshot.refunds.iter().find(|remote| remote.id == *id);
            self.refund_of(id, remote.and_then(|remote| remote.ours))
        };
        match &moved.object {
            MovedObject::Payment | MovedObject::Return => PAYMENTS.to_owned(),
            // A refund that had succeeded here is a payment that came back.
            MovedObject::RefundFailure(id)
                if self.payments.iter().any(|payment| payment.payment_id.as_str() == id) =>
            {
                PAYMENTS.to_owned()
            }
            // A return that was made there has not the name of one.
            MovedObject::Refund(id) | MovedObject::RefundFailure(id)
                if self.refunds.iter().all(|recorded| recorded.id != refund(id))
                    && self
                        .payments
                        .iter()
                        .any(|payment| payment.payment_id == moved.payment && payment.returned.is_some()) =>
            {
                PAYMENTS.to_owned()
            }
            MovedObject::Refund(id) | MovedObject::RefundFailure(id) => of_refund(refund(id)),
            MovedObject::Dispute(id) => match snapshot.disputes.iter().find(|remote| remote.id == *id) {
                Some(remote) => format!("case {}", remote.case_of(self.charge.id)),
                None => format!("dispute {id}"),
            },
        }
    }

    fn refund_of(&self, id: &str, ours: Option<RefundId>) -> RefundId {
        let made_there = Refund::id_of_bank_return(self.charge.id, id);
        let is_recorded = self.refunds.iter().any(|refund| refund.id == made_there);
        ours.filter(|_| !is_recorded).unwrap_or(made_there)
    }

    /// What a posting moved at the acquirer. The acquirer has the money of a chargeback from the beginning, and never
    /// that of an inquiry.
    fn gross_of(&self, posting: &Posting) -> Result<MinorUnits, MoneyError> {
        let case = self.cases.iter().find(|case| Some(case.id) == posting.subject.case);
        let is_withheld =
            case.is_some_and(|case| case.kind == CaseKind::Chargeback && !case.status.is_over());
        let retained =
            if is_withheld { posting.change(LedgerAccount::MerchantRetained)? } else { MinorUnits::ZERO };
        let moved =
            [posting.change(LedgerAccount::AcquirerClearing)?, posting.change(LedgerAccount::MedLosses)?];
        MinorUnits::checked_sum(moved.into_iter().chain([retained]))?.checked_neg()
    }
}

/// The payments with their returns.
const PAYMENTS: &str = "payments";

fn of_refund(id: RefundId) -> String {
    format!("refund {id}")
}

fn object_of_posting(posting: &Posting) -> String {
    match (posting.subject.refund, posting.subject.case) {
        (Some(refund), _) => of_refund(refund),
        (None, Some(case)) => format!("case {case}"),
        (None, None) => PAYMENTS.to_owned(),
    }
}

/// A line for each other currency of the balance: what the movements are there, and in the charge's currency.
fn exchanged(charge: &Charge, snapshot: &Snapshot) -> Result<Vec<MovementDifference>> {
    let mut sums: BTreeMap<Currency, (MinorUnits, MinorUnits)> = BTreeMap::new();
    for moved in snapshot.movements.iter().filter(|moved| moved.currency != charge.currency) {
        let (settled, gross) = sums.entry(moved.currency).or_default();
        add_to_counter(settled, moved.settled)?;
        add_to_counter(gross, moved.gross)?;
    }
    let charged = snapshot.charged(charge.currency)?;
    let line = |(currency, sums): (Currency, (MinorUnits, MinorUnits))| {
        let costs = charged.get(&(currency, false)).copied().unwrap_or_default();
        let reason = format!("fees and losses by exchange of {costs} {currency} are posted as acquirer fees");
        let object = format!("exchange {} to {currency}", charge.currency);
        MovementDifference::new(charge.id, reason).of_object(object, sums)
    };
    Ok(sums.into_iter().map(line).collect())
}

/// The end of an unpaid charge moves no money.
fn missing_step(step: &Step) -> Option<&'static str> {
    match step {
        Step::Charge(command) => match **command {
            Command::Pay { .. } => Some("a payment is not recorded"),
            Command::AwaitConfirmation(_) => Some("a payment awaits its confirmation"),
            Command::BearCosts { .. } => Some("fees that the platform bears are not recorded"),
            _ => None,
        },
        Step::ReadAgain(_) => Some("the acquirer does not know the fee of a payment yet"),
        Step::EndRefund(..) => Some("a refund ended at the acquirer, and is in progress here"),
        Step::RefundMadeThere(_) => Some("a refund was made at the acquirer that is not recorded"),
        Step::RefundCameBack(_) => Some("a refund came back that is not recorded"),
        Step::OpenCase(..) => Some("a dispute has no case"),
        Step::DecideCase(..) => Some("a dispute was decided, and its case is open"),
        Step::ChangeLoss(..) => Some("a dispute took another amount than its case lost"),
    }
}

/// Adds the payments of an account that arrived at the connection on a day, by the postings of that time, and the
/// charges of the other postings that moved money at an acquirer.
async fn record_of_day(
    store: &Store,
    (account, connection): (AccountId, ConnectionId),
    day: Day,
    of_charges: &mut BTreeMap<ChargeId, Recorded>,
) -> Result<()> {
    let (scope, wallets) = (live(account), Wallets::new(store.clone()));
    let sharded = wallets.sharded_scope(&scope).await?;
    let first = PostingId::first_at(day.starts_at());
    let last = PostingId::last_at(day.ends_at().saturating_plus_seconds(RECORDED_SECONDS));
    let mut received: BTreeSet<AcquirerPaymentId> = BTreeSet::new();
    for currency in wallets.for_scope(&sharded).await?.into_keys() {
        let add = |posting: Posting| {
            let is_at_acquirer =
                |one: &Transfer| [one.from, one.to].iter().any(|account| AT_ACQUIRER.contains(account));
            if RECEIPTS.contains(&posting.kind) {
                received.extend(posting.subject.payment);
            } else if let Some(charge) = posting.subject.charge
                && posting.transfers.iter().any(is_at_acquirer)
            {
                of_charges.entry(charge).or_default();
            }
        };
        wallets.each_posting(&sharded, currency, (first, last), add).await?;
    }
    let keys: Vec<Key> = received.iter().map(|payment| IncomingPayment::key_of(&scope, payment)).collect();
    for payment in store.get_in_order::<IncomingPayment>(&keys).await? {
        let is_its = payment.connection == Some(connection) && Day::of(payment.paid_at) == day;
        if let Some(charge) = payment.meant_for().filter(|_| is_its) {
            of_charges.entry(charge).or_default().payments.push(payment);
        }
    }
    Ok(())
}
