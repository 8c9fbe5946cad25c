//! What an invoice and its transactions say about a charge.
//!
//! A charge takes one payment, but several transactions may pay one invoice, and its address stays payable for ever. So
//! the transactions that pay it in time are one payment with the id of the invoice and the charge's amount. Each further
//! value is a payment of its own with the id of its transaction, which waits for an operator.
//!
//! The caller records an id once. So an id must keep its amount in all later states of the invoice, and no value may have
//! two ids. Therefore the decision depends only on what does not change any more: the transactions that were received
//! before the expiry, and whether they are confirmed. It does not depend on the charge's status, which may change between
//! the read and the record.

use acquirer_kit::{KitError, Result};
use domain::acquirer::OddObject;
use domain::charge::FailureReason;
use domain::charge::transition::Payment;
use domain::money::{Amount, Currency};
use domain::payment_method::PaymentMethod;
use domain::snapshot::{RemotePayment, RemoteState, Snapshot};
use domain::time::Timestamp;

use crate::objects::{
    AdditionalStatus, Invoice, InvoicePayment, InvoicePaymentMethod, InvoiceStatus, PaymentStatus,
};

/// How far the server's clock may be behind, in seconds. So long after the expiry, no transaction is received before it.
const CLOCK_SECONDS: i64 = 5 * 60;

/// The most digits of an amount. A quantity of satoshis has 16.
const MAX_DIGITS: usize = 30;

pub(crate) fn odd(id: &str, why: &str) -> KitError {
    KitError::Odd(OddObject::new(id, why))
}

pub(crate) fn time(id: &str, seconds: i64) -> Result<Timestamp> {
    Timestamp::from_millis(seconds.saturating_mul(1_000)).map_err(|_| odd(id, "a time is out of range"))
}

/// Parses decimal text as a number of smallest units. `None`: it is no number, or has more decimals.
pub(crate) fn units(text: &str, currency: Currency) -> Option<i128> {
    let decimals = usize::try_from(currency.exponent()).ok()?;
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let significant = fraction.trim_end_matches('0');
    let is_exact = is_number(whole) && is_number(fraction) && significant.len() <= decimals;
    if !is_exact || whole.len() > MAX_DIGITS {
        return None;
    }
    let units: i128 = format!("{whole}{significant:0<decimals$}").parse().ok()?;
    if text.starts_with('-') { units.checked_neg() } else { Some(units) }
}

pub(crate) fn satoshis(id: &str, text: &str) -> Result<i128> {
    units(text, Currency::BTC).ok_or_else(|| odd(id, "an amount in BTC is not valid"))
}

/// Whether the snapshot of an invoice needs its payments. Until the invoice ends, its status suffices.
pub(crate) fn has_payments(invoice: &Invoice) -> bool {
    match invoice.status {
        InvoiceStatus::New | InvoiceStatus::Processing => false,
        InvoiceStatus::Expired => invoice.additional_status != AdditionalStatus::None,
        InvoiceStatus::Settled | InvoiceStatus::Invalid | InvoiceStatus::Other(_) => true,
    }
}

/// A transaction that was not replaced.
#[derive(Debug)]
struct Transaction<'a> {
    id: &'a str,
    /// What it pays for the charge, in satoshis.
    value: i128,
    received_at: Timestamp,
    is_settled: bool,
}

#[derive(Debug)]
struct Transactions<'a> {
    /// What the charge's amount is in satoshis, at the rate of the invoice.
    due: i128,
    /// The oldest first.
    all: Vec<Transaction<'a>>,
    expires_at: Timestamp,
}

impl<'a> Transactions<'a> {
    fn of(invoice: &Invoice, method: &'a InvoicePaymentMethod) -> Result<Self> {
        let id = &*invoice.id;
        // Both grow with each further transaction, if the store charges its costs to the payer.
        let fee = satoshis(id, &method.payment_method_fee)?;
        let due = satoshis(id, &method.amount)?.checked_sub(fee).filter(|due| *due > 0);
        let due = due.ok_or_else(|| odd(id, "its amount in BTC is not positive"))?;
        let all = method.payments.iter().map(|payment| transaction(id, payment));
        let mut all: Vec<Transaction<'a>> = all.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
        // The server lists those of one second in their order.
        all.sort_by_key(|transaction| transaction.received_at);
        Ok(Self { due, all, expires_at: time(id, invoice.expiration_time)? })
    }

    fn sum(&self, counts: impl Fn(&Transaction<'_>) -> bool) -> i128 {
        let counted = self.all.iter().filter(|transaction| counts(transaction));
        counted.fold(0, |sum, transaction| sum.saturating_add(transaction.value))
    }

    fn are_enough(&self, counts: impl Fn(&Transaction<'_>) -> bool) -> bool {
        self.sum(counts) >= self.due
    }

    /// Times have whole seconds. In that of the expiry, the invoice may have expired before.
    fn is_in_time(&self, transaction: &Transaction<'_>) -> bool {
        transaction.received_at < self.expires_at
    }

    /// Returns the value in the charge's currency, rounded down. What is due is worth exactly the charge's amount.
    fn worth(&self, satoshis: i128, amount: Amount) -> i128 {
        let product = satoshis.checked_mul(amount.minor().into());
        product.and_then(|product| product.checked_div(self.due)).unwrap_or(i128::MAX)
    }

    /// When the last of the confirmed transactions that are needed was received.
    fn paid_at(&self) -> Timestamp {
        let mut left = self.due;
        let settled = self.all.iter().filter(|transaction| transaction.is_settled);
        let covering = settled.map(|transaction| {
            left = left.saturating_sub(transaction.value);
            (left, transaction.received_at)
        });
        covering.filter(|(left, _)| *left <= 0).map(|(_, at)| at).next().unwrap_or(self.expires_at)
    }

    /// What the confirmed transactions pay beyond the charge, by transaction in their order. Behind one that may still be
    /// confirmed or replaced, it is not decided.
    fn excess(&self) -> Vec<(&Transaction<'a>, i128)> {
        let mut left = self.due;
        let confirmed = self.all.iter().take_while(|transaction| transaction.is_settled);
        let excess = confirmed.map(|transaction| {
            let used = transaction.value.min(left);
            left = left.saturating_sub(used);
            (transaction, transaction.value.saturating_sub(used))
        });
        excess.collect()
    }
}

/// `None`: it was replaced, or pays costs alone.
fn transaction<'a>(invoice: &str, payment: &'a InvoicePayment) -> Result<Option<Transaction<'a>>> {
    let is_settled = match payment.status {
        PaymentStatus::Settled => true,
        PaymentStatus::Processing => false,
        PaymentStatus::Invalid => return Ok(None),
        PaymentStatus::Other(_) => return Err(odd(invoice, "a payment has an unknown status")),
    };
    let (gross, fee) = (satoshis(invoice, &payment.value)?, satoshis(invoice, &payment.fee)?);
    let value = gross.saturating_sub(fee);
    let received_at = time(invoice, payment.received_date)?;
    Ok((value > 0).then_some(Transaction { id: &payment.id, value, received_at, is_settled }))
}

/// Returns what an invoice says about its charge, which has this amount. `method`: if [`has_payments`].
pub(crate) fn snapshot(
    amount: Amount,
    invoice: &Invoice,
    method: Option<&InvoicePaymentMethod>,
    now: Timestamp,
) -> Result<Snapshot> {
    let transactions = method.map(|method| Transactions::of(invoice, method)).transpose()?;
    let is_marked = invoice.additional_status == AdditionalStatus::Marked;
    let is_over = (invoice.status == InvoiceStatus::Invalid && !is_marked)
        || time(&invoice.id, invoice.monitoring_expiration)? <= now;
    let is_covered = transactions.as_ref().is_some_and(|all| all.are_enough(|each| each.is_settled));
    let mut snapshot = Snapshot::of(match (&invoice.status, is_covered) {
        (InvoiceStatus::New, _) => RemoteState::Open,
        (InvoiceStatus::Processing, _) => RemoteState::InProgress,
        (InvoiceStatus::Settled, true) => RemoteState::Paid,
        (InvoiceStatus::Settled, false) if !is_marked => {
            return Err(odd(&invoice.id, "it is settled, and its payments do not cover it"));
        }
        (InvoiceStatus::Settled, false) if !is_over => RemoteState::InProgress,
        (InvoiceStatus::Settled | InvoiceStatus::Expired, _) => RemoteState::Expired,
        (InvoiceStatus::Invalid, _) if is_marked => RemoteState::ClosedByUs,
        // Its payments were not confirmed in time.
        (InvoiceStatus::Invalid, _) => RemoteState::ClosedByAcquirer(FailureReason::ProcessingError),
        (InvoiceStatus::Other(_), _) => return Err(odd(&invoice.id, "it has an unknown status")),
    });
    if invoice.status == InvoiceStatus::Settled && !is_covered {
        let why = "it was marked as settled by hand, and its payments do not cover it";
        snapshot.odd.push(OddObject::new(&invoice.id, why));
    }
    if let Some(transactions) = &transactions {
        add_payments(&mut snapshot, (amount, invoice), transactions, (is_over, now))?;
    }
    Ok(snapshot)
}

fn add_payments(
    snapshot: &mut Snapshot,
    (amount, invoice): (Amount, &Invoice),
    transactions: &Transactions<'_>,
    (is_over, now): (bool, Timestamp),
) -> Result<()> {
    let is_marked = invoice.additional_status == AdditionalStatus::Marked;
    let is_settled = invoice.status == InvoiceStatus::Settled && !is_marked;
    // The server never takes this back, although it may still confirm transactions.
    let is_invalid = invoice.status == InvoiceStatus::Invalid && !is_marked;
    let is_in_time = |each: &Transaction<'_>| transactions.is_in_time(each);
    // No later state takes this back: the server leaves `Settled` only if it was set by hand.
    let is_paid =
        is_settled || (!is_invalid && transactions.are_enough(|each| each.is_settled && is_in_time(each)));
    if is_over && !is_invalid && transactions.all.iter().any(|each| !each.is_settled) {
        let why = "a transaction of it is not confirmed at the end of its monitoring; what depends on it is not recorded";
        snapshot.odd.push(OddObject::new(&invoice.id, why));
    }
    if is_paid {
        if transactions.are_enough(|each| each.is_settled) {
            let whole = i128::from(amount.minor());
            add_payment(snapshot, &invoice.id, whole, (transactions.paid_at(), true))?;
            for (each, satoshis) in transactions.excess() {
                let worth = transactions.worth(satoshis, amount);
                add_payment(snapshot, each.id, worth, (each.received_at, false))?;
            }
        }
        return Ok(());
    }
    let expired_at = transactions.expires_at.saturating_plus_seconds(CLOCK_SECONDS);
    let is_expired = invoice.status == InvoiceStatus::Expired || is_over || expired_at <= now;
    let may_be_paid = !is_invalid && (!is_expired || transactions.are_enough(is_in_time));
    if may_be_paid {
        return Ok(());
    }
    for each in transactions.all.iter().filter(|each| each.is_settled) {
        let worth = transactions.worth(each.value, amount);
        add_payment(snapshot, each.id, worth, (each.received_at, false))?;
    }
    Ok(())
}

/// What is worth less than the smallest unit is left out.
fn add_payment(
    snapshot: &mut Snapshot,
    id: &str,
    minor: i128,
    (paid_at, is_in_time): (Timestamp, bool),
) -> Result<()> {
    if minor < 1 {
        return Ok(());
    }
    let Ok(amount) = Amount::parse(minor) else {
        snapshot.odd.push(OddObject::new(id, "its amount is out of range"));
        return Ok(());
    };
    let payment = Payment {
        id: id.parse().map_err(|_| odd(id, "it has an odd id"))?,
        method: PaymentMethod::Crypto,
        amount,
        payer_document: None,
        paid_at,
        is_in_time,
        charged: None,
    };
    snapshot.payments.push(RemotePayment { payment, lacks_fee: false });
    Ok(())
}

#[cfg(test)]
mod tests;
