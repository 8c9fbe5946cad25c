//! Compares the movements that an acquirer lists for a day with what is recorded. It is for acquirers that list their
//! balance; [`crate::services::reconciliation`] is for banks of Pix. Without it, money that the acquirer moved and the
//! ledger does not show goes unnoticed.
//!
//! A charge whose only movement is its payment is compared with its rows. Any other charge with movements or postings of
//! the day is read at the acquirer, and differs if [`next_step`](domain::snapshot::next_step) finds a change that is
//! missing.

use std::collections::{BTreeMap, BTreeSet};

use domain::acquirer::{ConnectionSweep, OddObject};
use domain::calendar::Day;
use domain::charge::transition::Command;
use domain::charge::{Charge, IncomingPayment};
use domain::ids::{AccountId, AcquirerPaymentId, ChargeId, Mode, PostingId, Scope};
use domain::money::MinorUnits;
use domain::row::Key;
use domain::snapshot::Step;
use domain::time::Timestamp;
use domain::wallet::{Posting, PostingKind};
use serde::Serialize;

use crate::WorkResult;
use crate::acquirer::{Acquirer, Acquirers, Connection, Movement};
use crate::charge::Charges;
use crate::services::RemoteCharges;
use crate::store::{Result, Store};
use crate::wallet::Wallets;

/// A payment may be recorded so long after it was made: its fee may be unknown for two hours.
const RECORDED_SECONDS: i64 = 3 * 60 * 60;

#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct MovementReconciliation {
    /// At the acquirer.
    pub payments: u64,
    /// Those that belong to no charge, such as payouts and payments of other systems.
    pub others: u64,
    #[serde(skip)]
    pub differences: Vec<MovementDifference>,
}

#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct MovementDifference {
    /// `None`: of an object that can't be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub charge: Option<ChargeId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payment: Option<AcquirerPaymentId>,
    /// In minor units.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acquirer_amount: Option<MinorUnits>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded_amount: Option<MinorUnits>,
    pub reason: String,
}

impl MovementDifference {
    fn new(charge: impl Into<Option<ChargeId>>, reason: impl Into<String>) -> Self {
        let (payment, acquirer_amount, recorded_amount) = (None, None, None);
        Self { charge: charge.into(), payment, acquirer_amount, recorded_amount, reason: reason.into() }
    }
}

/// With `apply`, records what is missing first.
pub async fn reconcile_movements(
    store: &Store,
    charges: &RemoteCharges,
    (acquirers, connection): (&Acquirers, &Connection),
    (day, apply): (Day, bool),
    now: Timestamp,
) -> WorkResult<MovementReconciliation> {
    let mut found = MovementReconciliation::default();
    let mut of_charges: BTreeMap<ChargeId, Vec<Movement>> = BTreeMap::new();
    let (period, mut cursor) = ((day.starts_at(), day.ends_at()), None::<String>);
    loop {
        let page = connection.connector().movements(period, cursor.as_deref()).await?;
        for moved in page.movements {
            found.payments = found.payments.saturating_add(moved.payment.is_some().into());
            match moved.charge {
                Some(charge) => of_charges.entry(charge).or_default().push(moved),
                None => found.others = found.others.saturating_add(1),
            }
        }
        let odd = |odd: &OddObject| MovementDifference::new(None, odd.to_string());
        found.differences.extend(page.odd.iter().map(odd));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    let sweep = store.get::<ConnectionSweep>(&ConnectionSweep::key_of(connection.id())).await?;
    let accounts = sweep.map(|sweep| sweep.accounts).unwrap_or_default();
    let accounts: BTreeSet<AccountId> = accounts.into_iter().chain([connection.account()]).collect();
    let mut recorded: BTreeMap<ChargeId, Vec<IncomingPayment>> = BTreeMap::new();
    for account in &accounts {
        for payment in recorded_payments(store, *account, day).await? {
            let is_ours = payment.connection == Some(connection.id());
            if let Some(charge) = payment.charge_id().filter(|_| is_ours) {
                recorded.entry(charge).or_default().push(payment);
            }
        }
    }
    let rows = Charges::new(store.clone());
    let ids: BTreeSet<ChargeId> = of_charges.keys().chain(recorded.keys()).copied().collect();
    for id in ids {
        let movements = of_charges.remove(&id).unwrap_or_default();
        let payments = recorded.remove(&id).unwrap_or_default();
        let Some(stored) = rows.find(Some(id)).await? else {
            found.differences.push(MovementDifference::new(id, "no such charge is recorded"));
            continue;
        };
        let charge = stored.as_stored();
        if !accounts.contains(&charge.scope.account) || !charge.uses(connection.id()) {
            // A payment of another system names it.
            found.others = found.others.saturating_add(1);
            continue;
        }
        if let ([moved], [payment]) = (&movements[..], &payments[..])
            && moved.payment.as_ref() == Some(&payment.payment_id)
            && is_equal(charge, moved, payment)
        {
            continue;
        }
        let Acquirer::Remote(whole) = acquirers.of_charge(charge).await? else { continue };
        found
            .differences
            .extend(differences(charges, &whole, charge, (&movements, &payments), apply, now).await?);
    }
    Ok(found)
}

/// The plan's fee was taken if the payment was settled in another currency.
fn is_equal(charge: &Charge, moved: &Movement, payment: &IncomingPayment) -> bool {
    let has_same_amount = moved.amount == MinorUnits::from(payment.amount);
    let is_credited =
        charge.applied_payment.as_ref().is_some_and(|applied| applied.payment_id == payment.payment_id);
    let fee = charge.settlement.filter(|_| is_credited).map(|settlement| settlement.fees.acquirer());
    moved.currency != Some(charge.currency) || (has_same_amount && fee.is_none_or(|fee| fee == moved.fee))
}

async fn differences(
    charges: &RemoteCharges,
    connection: &Connection,
    charge: &Charge,
    (movements, payments): (&[Movement], &[IncomingPayment]),
    apply: bool,
    now: Timestamp,
) -> WorkResult<Vec<MovementDifference>> {
    let differing = |reason: String| MovementDifference::new(charge.id, reason);
    let snapshot = match connection.connector().read_whole(charge).await {
        Ok(Some(snapshot)) => snapshot,
        Ok(None) => return Ok(vec![differing("the acquirer does not know the charge".to_owned())]),
        Err(error) => return Ok(vec![differing(format!("the charge can't be read: {error}"))]),
    };
    if apply {
        charges.follow(connection, charge, (&snapshot, None), now).await?;
    }
    let (step, contradictions) = charges.missing(charge.id, &snapshot, now).await?;
    let mut found: Vec<MovementDifference> = contradictions.into_iter().map(differing).collect();
    found.extend(snapshot.odd.iter().map(|odd| differing(odd.to_string())));
    found.extend(step.and_then(|step| missing_step(&step)).map(|reason| differing(reason.to_owned())));
    for payment in payments {
        // A refund that came back is recorded under its own id.
        let is_listed = snapshot.payments.iter().any(|remote| remote.payment.id == payment.payment_id)
            || snapshot.refunds.iter().any(|remote| remote.id == payment.payment_id.as_str());
        let listed = movements.iter().find(|moved| moved.payment.as_ref() == Some(&payment.payment_id));
        let (reason, acquirer_amount) = match listed {
            Some(moved) if !is_equal(charge, moved, payment) => ("amount or fee differ", Some(moved.amount)),
            None if !is_listed => ("a payment is recorded that the acquirer does not know", None),
            Some(_) | None => continue,
        };
        found.push(MovementDifference {
            payment: Some(payment.payment_id.clone()),
            acquirer_amount,
            recorded_amount: Some(payment.amount.into()),
            ..differing(reason.to_owned())
        });
    }
    Ok(found)
}

/// The end of an unpaid charge moves no money.
fn missing_step(step: &Step) -> Option<&'static str> {
    match step {
        Step::Charge(command) => {
            let is_payment = matches!(**command, Command::Pay { .. });
            is_payment.then_some("a payment is not recorded")
        }
        Step::ReadAgain(_) => Some("the acquirer does not know the fee of a payment yet"),
        Step::EndRefund(..) => Some("a refund ended at the acquirer, and is in progress here"),
        Step::RefundMadeThere(_) => Some("a refund was made at the acquirer that is not recorded"),
        Step::RefundCameBack(_) => Some("a refund came back that is not recorded"),
        Step::OpenCase(..) => Some("a dispute has no case"),
        Step::ChargeFees(..) => Some("the fee of a dispute is not recorded"),
        Step::DecideCase(..) => Some("a dispute was decided, and its case is open"),
    }
}

/// The payments that arrived on a day, by the postings of that time.
async fn recorded_payments(store: &Store, account: AccountId, day: Day) -> Result<Vec<IncomingPayment>> {
    let scope = Scope { account, mode: Mode::Live };
    let wallets = Wallets::new(store.clone());
    let sharded = wallets.sharded_scope(&scope).await?;
    let first = PostingId::first_at(day.starts_at());
    let last = PostingId::last_at(day.ends_at().saturating_plus_seconds(RECORDED_SECONDS));
    let mut received: BTreeSet<AcquirerPaymentId> = BTreeSet::new();
    for currency in wallets.for_scope(&sharded).await?.into_keys() {
        let add = |posting: Posting| {
            let is_receipt = matches!(posting.kind, PostingKind::Settlement | PostingKind::UnappliedReceipt);
            received.extend(posting.subject.payment.filter(|_| is_receipt));
        };
        wallets.each_posting(&sharded, currency, (first, last), add).await?;
    }
    let keys: Vec<Key> = received.iter().map(|payment| IncomingPayment::key_of(&scope, payment)).collect();
    let mut rows: Vec<IncomingPayment> = store.get_in_order(&keys).await?;
    rows.retain(|payment| Day::of(payment.paid_at) == day);
    Ok(rows)
}
