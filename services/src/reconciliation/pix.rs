//! Compares the Pix that a bank connection lists for a day with the payments that are recorded for its accounts.
//!
//! A Pix belongs to the São Paulo day of its `horario`, and a devolução to the day of its `horario.liquidacao`.
//! The returned Pix of the 91 days before are read too, because a devolução may be much later than its Pix.
//!
//! A bank has no list of the Pix that it sent. So the Pix of the refunds by cash-out that ended on the day are
//! read one by one, after the records. A Pix out that no refund requested is not found.
//!
//! Records of the Pix that the bank lists are read by their keys. Others are found through the postings since
//! the day began, because postings sort by time and incoming payments do not. So the costs grow with the number
//! of days since the reconciled one, not with the age of an account.

use std::collections::{BTreeMap, BTreeSet};

use api_pix::{Devolucao, DevolucaoStatus, MalformedItem, Pix, PixOut, PixOutStatus, PixQuery};
use serde::Serialize;

use domain::acquirer::{ReportedPix, ReportedPixStatus};
use domain::calendar::Day;
use domain::charge::{IncomingPayment, StoredCharge};
use domain::ids::{AccountId, AcquirerPaymentId, ChargeId, EndToEndId, PostingId, Scope};
use domain::money::{Amount, Currency, MinorUnits};
use domain::refund::RefundStatus;
use domain::row::Key;
use domain::time::Timestamp;
use domain::wallet::{Posting, PostingKind, RefundStrategy, ReturnStatus};

use super::{ReconciliationError, accounts_of, live};
use crate::bank_payments::{BankPayments, is_med};
use acquirer_core::configuration::PixKeyClaim;
use acquirer_core::{KitError, PixBank};
use money::charge::Charges;
use money::refund::Refunds;
use money::wallet::Wallets;
use shared::WorkResult;
use shared::store::{Result, Store};

/// One hour. The sweep needs some minutes to find a Pix whose notification was lost, and a bank may list a Pix
/// late.
const PENDING_MS: i64 = 60 * 60 * 1_000;

/// Devoluções are possible for 90 days (API Pix). One more day covers the time of day.
const RETURNS_DAYS: u64 = 91;

/// How far `horario` may differ from the time by which a bank filters its list.
const MARGIN_SECONDS: i64 = 60;

/// The bank's list may lack the newest Pix.
const BEHIND_SECONDS: i64 = 5;

/// How far this service's clock may be behind the bank's. A posting is found even if its time is that much
/// earlier than the `horario` of its Pix.
const CLOCK_SECONDS: i64 = 60 * 60;

/// The kinds of postings that record a Pix.
const RECEIPTS: [PostingKind; 3] =
    [PostingKind::Settlement, PostingKind::ReviewHold, PostingKind::UnappliedReceipt];

/// The kinds of postings that end a refund or return.
const ENDS: [PostingKind; 4] = [
    PostingKind::RefundCompleted,
    PostingKind::RefundCredit,
    PostingKind::RefundFailed,
    PostingKind::ReturnCompleted,
];

#[derive(Debug, Default)]
struct BankRecords {
    /// Also the returned Pix of the days before.
    pix: BTreeMap<EndToEndId, Pix>,
    /// The Pix that the bank sent for refunds that ended on the day, by the id of the Pix out.
    pix_out: BTreeMap<String, PixOut>,
    /// Items that can't be read. An item may have no id.
    unreadable: BTreeSet<Option<String>>,
    /// Why Pix are not recorded, where that is known.
    unrecorded: BTreeMap<EndToEndId, DifferenceKind>,
}

#[derive(Clone, Debug)]
struct RecordedPix {
    end_to_end_id: EndToEndId,
    account: AccountId,
    /// `None`: it matches no charge.
    charge: Option<ChargeId>,
    amount: Amount,
    paid_at: Timestamp,
    /// This and the following fields are read only for a Pix that was returned on the reconciled day.
    sent: Vec<Sent>,
    med_lost: MinorUnits,
    /// Without a request of this service.
    is_returned_by_bank: bool,
}

/// A refund of a Pix, or its return, that has ended.
#[derive(Clone, Debug)]
struct Sent {
    /// At the bank.
    id: String,
    amount: Amount,
    ended_at: Timestamp,
    strategy: RefundStrategy,
    /// Otherwise it failed.
    is_completed: bool,
}

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DifferenceKind {
    Missing,
    Unowned,
    Unknown,
    Differing,
    OtherKey,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    pub kind: DifferenceKind,
    /// `None`: the bank lists an item that can't be read and has no id.
    pub end_to_end_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub return_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<AccountId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub charge: Option<ChargeId>,
    /// When the Pix was received, or the devolução was executed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// The amount at the bank, in centavos. `None`: the bank has none.
    pub bank_amount: Option<i64>,
    /// The recorded amount, in centavos. `None`: none is recorded.
    pub recorded_amount: Option<i64>,
    pub reason: &'static str,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    pub pix: u64,
    /// In centavos.
    pub amount: i64,
    pub returns: u64,
    pub pix_out: u64,
    /// In the order of their kinds and times.
    pub differences: Vec<Difference>,
    /// Younger than an hour. They may disappear without any action.
    pub pending: Vec<Difference>,
    /// Pix that are not the service's business, because no account has their key.
    pub of_other_keys: Vec<Difference>,
    /// What was recorded before the comparison.
    pub recorded: Vec<ReportedPix>,
}

fn is_returned(item: &Devolucao) -> bool {
    item.status == DevolucaoStatus::Returned
}

fn returned_on(pix: &Pix, day: Day) -> impl Iterator<Item = &Devolucao> {
    pix.returns.iter().filter(move |item| is_returned(item) && Day::of(settled_at(pix, item)) == day)
}

/// A bank that does not report it may report the request.
fn settled_at(pix: &Pix, item: &Devolucao) -> Timestamp {
    item.settled_at.or(item.requested_at).unwrap_or(pix.at)
}

fn sum_of<'a>(items: impl Iterator<Item = &'a Devolucao>) -> MinorUnits {
    MinorUnits::new(items.fold(0, |sum: i64, item| sum.saturating_add(item.amount.minor())))
}

fn count(items: usize) -> u64 {
    u64::try_from(items).unwrap_or(u64::MAX)
}

impl Sent {
    fn is_pix_out(&self) -> bool {
        self.strategy == RefundStrategy::Cashout
    }
}

impl RecordedPix {
    fn sent_on(&self, day: Day) -> impl Iterator<Item = &Sent> {
        self.sent.iter().filter(move |sent| Day::of(sent.ended_at) == day)
    }

    fn difference(&self, kind: DifferenceKind, at: Timestamp, reason: &'static str) -> Difference {
        let id = Some(self.end_to_end_id.to_string());
        let (account, charge) = (Some(self.account), self.charge);
        Difference { account, charge, ..Difference::new(kind, id, Some(at), reason) }
    }
}

impl Difference {
    fn new(
        kind: DifferenceKind,
        end_to_end_id: Option<String>,
        at: Option<Timestamp>,
        reason: &'static str,
    ) -> Self {
        let (return_id, account, charge) = (None, None, None);
        let (bank_amount, recorded_amount) = (None, None);
        Self { kind, end_to_end_id, return_id, account, charge, at, bank_amount, recorded_amount, reason }
    }

    fn amounts(self, bank: Option<impl Into<MinorUnits>>, recorded: Option<impl Into<MinorUnits>>) -> Self {
        let bank_amount = bank.map(|amount| amount.into().get());
        let recorded_amount = recorded.map(|amount| amount.into().get());
        Self { bank_amount, recorded_amount, ..self }
    }

    fn of_return(self, id: &str) -> Self {
        Self { return_id: Some(id.to_owned()), ..self }
    }

    fn is_pending(&self, now: Timestamp) -> bool {
        self.at.is_some_and(|at| now.millis_since(at) < PENDING_MS)
    }
}

const OTHER_KEY: &str = "no account has its Pix key; if the key is a merchant's, set it with `admin accounts set-acquirer`, then `admin receipts record` records the Pix";
const UNOWNED: &str =
    "an operator must say whose it is: `admin receipts list` shows it, `admin receipts record` records it";

/// Pure: needs no bank and no database.
fn compare(day: Day, now: Timestamp, bank: &BankRecords, recorded: &[RecordedPix]) -> Comparison {
    let known: BTreeSet<&EndToEndId> = recorded.iter().map(|ours| &ours.end_to_end_id).collect();
    let (mut found, mut result) = (Vec::new(), Comparison::default());
    for pix in bank.pix.values() {
        let (is_of_day, returns) = (Day::of(pix.at) == day, returned_on(pix, day).count());
        result.returns = result.returns.saturating_add(count(returns));
        if is_of_day {
            result.pix = result.pix.saturating_add(1);
            result.amount = result.amount.saturating_add(pix.amount.minor());
        }
        if known.contains(&pix.end_to_end_id) || !(is_of_day || returns > 0) {
            continue;
        }
        let (kind, reason, into) = match bank.unrecorded.get(&pix.end_to_end_id) {
            Some(DifferenceKind::OtherKey) => {
                (DifferenceKind::OtherKey, OTHER_KEY, &mut result.of_other_keys)
            }
            Some(DifferenceKind::Unowned) => (DifferenceKind::Unowned, UNOWNED, &mut found),
            _ => (DifferenceKind::Missing, "the bank lists a Pix that is not recorded", &mut found),
        };
        let missing = Difference::new(kind, Some(pix.end_to_end_id.to_string()), Some(pix.at), reason);
        into.push(missing.amounts(Some(pix.amount), None::<Amount>));
    }
    found.extend(recorded.iter().flat_map(|ours| differences_of(day, bank, ours)));
    let sent = bank.pix_out.values().filter(|sent| sent.status == PixOutStatus::Completed).count();
    result.pix_out = count(sent);
    let reason = "the bank lists a Pix that can't be read";
    let unreadable =
        |id: &Option<String>| Difference::new(DifferenceKind::Differing, id.clone(), None, reason);
    found.extend(bank.unreadable.iter().map(unreadable));
    found.sort_by_key(|difference| (difference.kind, difference.at));
    let (pending, differences) = found.into_iter().partition(|difference| difference.is_pending(now));
    Comparison { differences, pending, ..result }
}

/// Of its amount, and of what went back on the day by either side.
fn differences_of(day: Day, bank: &BankRecords, ours: &RecordedPix) -> Vec<Difference> {
    let differing = |at, reason| ours.difference(DifferenceKind::Differing, at, reason);
    let listed = bank.pix.get(&ours.end_to_end_id);
    let is_unreadable = bank.unreadable.contains(&Some(ours.end_to_end_id.to_string()));
    let mut found = Vec::new();
    match listed {
        Some(pix) if Day::of(pix.at) == day && pix.amount != ours.amount => {
            let other = differing(pix.at, "the bank reports another amount");
            found.push(other.amounts(Some(pix.amount), Some(ours.amount)));
        }
        None if Day::of(ours.paid_at) == day && !is_unreadable => {
            let reason = "a payment is recorded that the bank does not list";
            let unknown = ours.difference(DifferenceKind::Unknown, ours.paid_at, reason);
            found.push(unknown.amounts(None::<Amount>, Some(ours.amount)));
        }
        _ => {}
    }
    if let Some(pix) = listed.filter(|_| ours.is_returned_by_bank) {
        let sum = sum_of(pix.returns.iter().filter(|item| is_returned(item)));
        if sum != MinorUnits::from(ours.amount) {
            let reason = "a payment counts as returned by the bank, which returned another amount";
            found.push(differing(pix.at, reason).amounts(Some(sum), Some(ours.amount)));
        }
        return found;
    }
    let is_compared = |sent: &&Sent| {
        if sent.is_pix_out() { !bank.unreadable.contains(&Some(sent.id.clone())) } else { !is_unreadable }
    };
    let recorded = ours.sent_on(day).filter(is_compared).map(|sent| (&*sent.id, sent.ended_at));
    let executed = listed.into_iter().flat_map(|pix| {
        let of_refunds = returned_on(pix, day).filter(|item| !is_med(item));
        of_refunds.map(|item| (&*item.id, settled_at(pix, item)))
    });
    // Both clocks need not agree on the day.
    for (id, at) in recorded.chain(executed).collect::<BTreeMap<&str, Timestamp>>() {
        let devolucoes = listed.into_iter().flat_map(|pix| &pix.returns);
        let returned = devolucoes.filter(|item| is_returned(item)).find(|item| item.id == id);
        let sent = bank.pix_out.get(id).filter(|sent| sent.status == PixOutStatus::Completed);
        let executed = returned.map(|item| item.amount).or(sent.map(|sent| sent.amount));
        let completed = ours.sent.iter().find(|sent| sent.id == id && sent.is_completed);
        let completed = completed.map(|completed| completed.amount);
        let reason = match (executed, completed) {
            (executed, completed) if executed == completed => continue,
            (Some(_), Some(_)) => "the bank sent another amount than the completed refund or return",
            (Some(_), None) => "the bank sent money for which no refund or return is completed",
            (None, _) => "a refund or return is completed that the bank has not executed",
        };
        found.push(differing(at, reason).of_return(id).amounts(executed, completed));
    }
    // One MED case may lose the amounts of several devoluções, so only the sums are comparable.
    let by_med = |pix| returned_on(pix, day).filter(|item| is_med(item)).map(move |item| (pix, item));
    let latest = listed.into_iter().flat_map(by_med).max_by_key(|(pix, item)| settled_at(pix, item));
    if let Some((pix, latest)) = latest {
        let sum = sum_of(pix.returns.iter().filter(|item| is_med(item) && is_returned(item)));
        if sum > ours.med_lost {
            let reason = "the bank returned more by MED than the charge's cases lost";
            let other = differing(settled_at(pix, latest), reason).of_return(&latest.id);
            found.push(other.amounts(Some(sum), Some(ours.med_lost)));
        }
    }
    found
}

/// The records are those of all accounts of the bank's connection. After an error nothing was compared.
pub(super) async fn reconcile(
    store: &Store,
    bank: &PixBank,
    day: Day,
    now: Timestamp,
) -> Result<Comparison, ReconciliationError> {
    // The bank is read first: a Pix that is recorded meanwhile is then found in the records.
    let mut listed = read_bank(bank, day, now).await?;
    let records = Records { store, bank, day };
    let recorded = records.read(&listed).await?;
    for ours in &recorded {
        let id = &ours.end_to_end_id;
        // If the bank's clock is ahead, it lists the Pix of a refund on a later day.
        let is_sought = ours.sent_on(day).any(|sent| sent.is_completed && !sent.is_pix_out());
        if is_sought && !listed.pix.contains_key(id) && !listed.unreadable.contains(&Some(id.to_string())) {
            match bank.read_back(id, None, (now, now)).await {
                Err(KitError::Odd(_)) => drop(listed.unreadable.insert(Some(id.to_string()))),
                found => listed.pix.extend(found?.map(|pix| (id.clone(), pix))),
            }
        }
        for sent in ours.sent_on(day).filter(|sent| sent.is_pix_out()) {
            match bank.pix_out(&sent.id).await {
                Err(KitError::Odd(_)) => drop(listed.unreadable.insert(Some(sent.id.clone()))),
                found => listed.pix_out.extend(found?.map(|found| (sent.id.clone(), found))),
            }
        }
    }
    records.explain(&mut listed, &recorded).await?;
    Ok(compare(day, now, &listed, &recorded))
}

/// Records the Pix whose money or devoluções the bank lists and the records lack. After an error, what was recorded
/// before remains.
pub(super) async fn record_listed(
    payments: &BankPayments,
    bank: &PixBank,
    found: &Comparison,
    now: Timestamp,
) -> WorkResult<Vec<ReportedPix>> {
    let lacking = found.differences.iter().chain(&found.pending).filter(|it| it.bank_amount.is_some());
    let ids: BTreeSet<&str> = lacking.filter_map(|it| it.end_to_end_id.as_deref()).collect();
    let mut recorded = Vec::new();
    for id in ids {
        recorded.extend(payments.record_by_id(bank, id, None, now).await?);
    }
    Ok(recorded)
}

/// First the Pix of the day, then all returned Pix of the days before.
async fn read_bank(bank: &PixBank, day: Day, now: Timestamp) -> Result<BankRecords, ReconciliationError> {
    let end = day
        .ends_at()
        .saturating_plus_seconds(MARGIN_SECONDS)
        .min(now.saturating_plus_seconds(-BEHIND_SECONDS));
    let mut records = BankRecords::default();
    let received_from = day.starts_at().saturating_plus_seconds(-MARGIN_SECONDS);
    let returned_from = day.minus_days(RETURNS_DAYS).starts_at();
    let length = i64::from(bank.settings().max_period_seconds.max(1));
    for (mut from, with_return) in [(received_from, None), (returned_from, Some(true))] {
        loop {
            let to = from.saturating_plus_seconds(length).min(end);
            let mut pages = bank.pages(PixQuery { with_return, ..PixQuery::period(from, to) });
            while let Some(page) = pages.next().await? {
                records.pix.extend(page.pix.into_iter().map(|pix| (pix.end_to_end_id.clone(), pix)));
                let id_of = |item: MalformedItem| item.end_to_end_id;
                records.unreadable.extend(page.malformed.into_iter().map(id_of));
            }
            if pages.kept_changing() {
                return Err(ReconciliationError::KeepsChanging);
            }
            if to >= end {
                break;
            }
            from = to;
        }
    }
    Ok(records)
}

#[derive(Clone, Copy)]
struct Records<'a> {
    store: &'a Store,
    bank: &'a PixBank,
    day: Day,
}

impl Records<'_> {
    async fn read(self, listed: &BankRecords) -> Result<Vec<RecordedPix>> {
        let (day, connection) = (self.day, self.bank.connection());
        let was_returned = |pix: &Pix| returned_on(pix, day).next().is_some();
        let compared = listed.pix.values().filter(|pix| Day::of(pix.at) == day || was_returned(pix));
        let keys: Vec<Key> = compared.map(|pix| ReportedPix::key_of(&pix.end_to_end_id)).collect();
        let reported: Vec<ReportedPix> = self.store.get_in_order(&keys).await?;
        let reported = reported.into_iter().filter(|pix| pix.status == ReportedPixStatus::Recorded);
        let mut wanted: BTreeMap<AcquirerPaymentId, Scope> =
            reported.map(|pix| (pix.end_to_end_id.into(), live(pix.account))).collect();
        let (of_bank, mut ended) = (wanted.clone(), BTreeSet::<AcquirerPaymentId>::new());
        let first = PostingId::first_at(day.starts_at().saturating_plus_seconds(-CLOCK_SECONDS));
        let last = PostingId::last_at(Timestamp::MAX);
        for account in accounts_of(self.store, connection, self.bank.account()).await? {
            let wallets = Wallets::new(self.store.clone());
            let scope = wallets.sharded_scope(&live(account)).await?;
            let add = |posting: Posting| {
                let Some(payment) = posting.subject.payment else { return };
                if ENDS.contains(&posting.kind) && Day::of(posting.at) == day {
                    ended.insert(payment.clone());
                } else if !RECEIPTS.contains(&posting.kind) {
                    return;
                }
                wanted.entry(payment).or_insert_with(|| live(account));
            };
            wallets.each_posting(&scope, Currency::BRL, (first, last), add).await?;
        }
        let keys: Vec<Key> =
            wanted.iter().map(|(payment, scope)| IncomingPayment::key_of(scope, payment)).collect();
        let rows: Vec<IncomingPayment> = self.store.get_in_order(&keys).await?;
        let mut recorded = Vec::new();
        for row in rows {
            let has_ended = ended.contains(&row.payment_id);
            let is_of_day = row.connection == Some(connection) && (has_ended || Day::of(row.paid_at) == day);
            let Ok(end_to_end_id) = row.payment_id.as_str().parse::<EndToEndId>() else { continue };
            if !is_of_day && !of_bank.contains_key(&row.payment_id) {
                continue;
            }
            let went_back = has_ended || listed.pix.get(&end_to_end_id).is_some_and(was_returned);
            let ours = RecordedPix {
                end_to_end_id,
                account: row.scope.account,
                charge: row.charge_id(),
                amount: row.amount,
                paid_at: row.paid_at,
                sent: Vec::new(),
                med_lost: MinorUnits::ZERO,
                is_returned_by_bank: false,
            };
            recorded.push(if went_back { self.with_sent(ours, &row).await? } else { ours });
        }
        Ok(recorded)
    }

    /// Finds out why listed Pix are not recorded.
    async fn explain(self, listed: &mut BankRecords, recorded: &[RecordedPix]) -> Result<()> {
        let recorded: BTreeSet<&EndToEndId> = recorded.iter().map(|ours| &ours.end_to_end_id).collect();
        let of_day = |pix: &Pix| Day::of(pix.at) == self.day || returned_on(pix, self.day).next().is_some();
        for (id, pix) in listed.pix.iter().filter(|(id, pix)| !recorded.contains(id) && of_day(pix)) {
            let own = self.bank.settings().pix_key.as_str();
            let kind = if let Some(key) = pix.key.as_deref().filter(|key| *key != own) {
                let claim: Option<PixKeyClaim> = match key.parse() {
                    Ok(key) => self.store.get(&PixKeyClaim::key_of(&key)).await?,
                    Err(_) => None,
                };
                let is_ours = claim.is_some_and(|claim| claim.connection == self.bank.connection());
                (!is_ours).then_some(DifferenceKind::OtherKey)
            } else {
                let row: Option<ReportedPix> = self.store.get(&ReportedPix::key_of(id)).await?;
                let is_unowned = row.is_some_and(|row| row.status == ReportedPixStatus::Unowned);
                is_unowned.then_some(DifferenceKind::Unowned)
            };
            listed.unrecorded.extend(kind.map(|kind| (id.clone(), kind)));
        }
        Ok(())
    }

    async fn with_sent(self, ours: RecordedPix, row: &IncomingPayment) -> Result<RecordedPix> {
        let returned = row.returned.as_ref().filter(|back| back.status == ReturnStatus::Returned);
        let is_returned_by_bank = returned.is_some_and(|back| back.by_bank);
        let returned = returned.filter(|back| !back.by_bank).map(|back| Sent {
            id: back.id.to_string(),
            amount: row.amount,
            ended_at: row.recorded_at,
            strategy: RefundStrategy::Devolution,
            is_completed: true,
        });
        let refunds = Refunds::new(self.store.clone()).for_charge(ours.charge).await?;
        let its = refunds.into_iter().filter(|refund| refund.payment == row.payment_id && refund.is_done());
        let sent = its.map(|refund| Sent {
            id: refund.bank_id(),
            amount: refund.share.gross,
            ended_at: refund.updated_at,
            strategy: refund.share.strategy,
            is_completed: refund.status == RefundStatus::Refunded,
        });
        let sent = returned.into_iter().chain(sent).collect();
        let charge = Charges::new(self.store.clone()).find(ours.charge).await?;
        let charge = charge.as_ref().map(StoredCharge::as_stored);
        let applied = charge.and_then(|charge| Some((charge, charge.applied_payment.as_ref()?)));
        let credited = applied.filter(|(_, applied)| applied.payment_id == row.payment_id);
        let med_lost = credited.map_or(MinorUnits::ZERO, |(charge, _)| charge.funds.med_lost);
        Ok(RecordedPix { sent, med_lost, is_returned_by_bank, ..ours })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ID: &str = "E0000000020261121150000000000001";
    const OTHER_ID: &str = "E0000000020261121150000000000002";

    fn day() -> Day {
        "2026-11-21".parse().unwrap()
    }

    fn at(text: &str) -> Timestamp {
        Timestamp::parse_floor(text).unwrap()
    }

    fn noon() -> Timestamp {
        at("2026-11-21T15:00:00Z")
    }

    fn next_day() -> Timestamp {
        at("2026-11-22T15:00:00Z")
    }

    fn amount(minor: i64) -> Amount {
        Amount::parse(minor).unwrap()
    }

    fn pix(id: &str, at: Timestamp, minor: i64) -> Pix {
        let value = json!({"endToEndId": id, "valor": amount(minor).decimal(2), "horario": at.to_iso()});
        Pix::parse(&value).unwrap()
    }

    fn devolucao(id: &str, minor: i64, status: &str, nature: &str, settled_at: Timestamp) -> Devolucao {
        let value = json!({
            "id": id,
            "valor": amount(minor).decimal(2),
            "status": status,
            "natureza": nature,
            "horario": {"solicitacao": noon().to_iso(), "liquidacao": settled_at.to_iso()},
        });
        Devolucao::parse(&value).unwrap()
    }

    fn recorded(id: &str, paid_at: Timestamp, minor: i64) -> RecordedPix {
        RecordedPix {
            end_to_end_id: id.parse().unwrap(),
            account: AccountId::new([1; 10]),
            charge: None,
            amount: amount(minor),
            paid_at,
            sent: Vec::new(),
            med_lost: MinorUnits::ZERO,
            is_returned_by_bank: false,
        }
    }

    fn completed(id: &str, minor: i64, ended_at: Timestamp) -> Sent {
        let strategy = RefundStrategy::Devolution;
        Sent { id: id.to_owned(), amount: amount(minor), ended_at, strategy, is_completed: true }
    }

    fn listed(pix: impl IntoIterator<Item = Pix>) -> BankRecords {
        let pix = pix.into_iter().map(|pix| (pix.end_to_end_id.clone(), pix)).collect();
        BankRecords { pix, ..BankRecords::default() }
    }

    fn kinds(found: &[Difference]) -> Vec<(DifferenceKind, Option<i64>, Option<i64>)> {
        found.iter().map(|each| (each.kind, each.bank_amount, each.recorded_amount)).collect()
    }

    #[test]
    fn equal_lists_have_no_difference() {
        // The last Pix belongs to the next day in São Paulo.
        let later = at("2026-11-22T03:00:00Z");
        let bank = listed([pix(ID, noon(), 1000), pix(OTHER_ID, later, 500)]);
        let found = compare(day(), next_day(), &bank, &[recorded(ID, noon(), 1000)]);
        assert_eq!(found, Comparison { pix: 1, amount: 1000, ..Comparison::default() });
    }

    #[test]
    fn a_difference_younger_than_an_hour_is_pending() {
        let bank = listed([pix(ID, noon(), 1000)]);
        let after = |seconds| compare(day(), noon().plus_seconds(seconds).unwrap(), &bank, &[]);
        assert_eq!((after(3_599).differences.len(), after(3_599).pending.len()), (0, 1));
        assert_eq!((after(3_600).differences.len(), after(3_600).pending.len()), (1, 0));
    }

    #[test]
    fn each_executed_devolucao_needs_a_completed_refund_of_its_amount() {
        let settled_at = at("2026-11-21T18:00:00Z");
        let earlier = at("2026-10-01T15:00:00Z");
        let returned = devolucao("d1", 400, "DEVOLVIDO", "ORIGINAL", settled_at);
        let failed = devolucao("d2", 100, "NAO_REALIZADO", "ORIGINAL", settled_at);
        // The Pix itself belongs to an earlier day.
        let bank = listed([Pix { returns: vec![returned, failed], ..pix(ID, earlier, 1000) }]);
        let found = |sent: Vec<Sent>| {
            let ours = RecordedPix { sent, ..recorded(ID, earlier, 1000) };
            compare(day(), next_day(), &bank, &[ours])
        };
        let equal = found(vec![completed("d1", 400, settled_at)]);
        assert_eq!((equal.differences, equal.pix, equal.returns), (Vec::new(), 0, 1));
        let none = found(Vec::new()).differences;
        assert_eq!(kinds(&none), [(DifferenceKind::Differing, Some(400), None)]);
        assert_eq!(none[0].return_id.as_deref(), Some("d1"));
        let other = found(vec![completed("d1", 300, settled_at)]).differences;
        assert_eq!(kinds(&other), [(DifferenceKind::Differing, Some(400), Some(300))]);
        let unrecorded = compare(day(), next_day(), &bank, &[]).differences;
        assert_eq!(kinds(&unrecorded), [(DifferenceKind::Missing, Some(1000), None)]);
        // Another day's reconciliation shows this devolução.
        assert_eq!(compare(Day::of(next_day()), next_day(), &bank, &[]), Comparison::default());
    }

    #[test]
    fn each_completed_refund_needs_an_executed_devolucao() {
        let completed_at = at("2026-11-21T18:00:00Z");
        let ours =
            RecordedPix { sent: vec![completed("d1", 400, completed_at)], ..recorded(ID, noon(), 1000) };
        for status in ["EM_PROCESSAMENTO", "NAO_REALIZADO"] {
            let item = devolucao("d1", 400, status, "ORIGINAL", completed_at);
            let bank = listed([Pix { returns: vec![item], ..pix(ID, noon(), 1000) }]);
            let found = compare(day(), next_day(), &bank, std::slice::from_ref(&ours)).differences;
            assert_eq!(kinds(&found), [(DifferenceKind::Differing, None, Some(400))], "{status}");
        }
        // Both clocks need not agree on the day.
        let midnight = at("2026-11-22T03:00:01Z");
        let item = devolucao("d1", 400, "DEVOLVIDO", "ORIGINAL", midnight);
        let bank = listed([Pix { returns: vec![item], ..pix(ID, noon(), 1000) }]);
        assert!(compare(day(), next_day(), &bank, &[ours]).differences.is_empty());
    }

    #[test]
    fn each_ended_cash_out_is_compared_with_its_pix_out() {
        let ended = |id: &str, is_completed| Sent {
            strategy: RefundStrategy::Cashout,
            is_completed,
            ..completed(id, 300, noon())
        };
        let pix_out = |id: &str, valor: &str, status: &str| {
            let value = json!({"id": id, "endToEndId": OTHER_ID, "valor": valor, "status": status});
            (id.to_owned(), PixOut::parse(&value).unwrap())
        };
        let found = |day: Day, sent: Option<(&str, &str)>, is_completed| {
            let sent = sent.map(|(valor, status)| pix_out("o1", valor, status));
            let bank = BankRecords { pix_out: sent.into_iter().collect(), ..listed([pix(ID, noon(), 1000)]) };
            let ours = RecordedPix { sent: vec![ended("o1", is_completed)], ..recorded(ID, noon(), 1000) };
            compare(day, next_day(), &bank, &[ours])
        };
        let equal = found(day(), Some(("3.00", "REALIZADO")), true);
        assert_eq!((equal.differences, equal.pix_out), (Vec::new(), 1));
        for (sent, is_completed, amounts) in [
            (Some(("2.00", "REALIZADO")), true, (Some(200), Some(300))),
            (Some(("3.00", "NAO_REALIZADO")), true, (None, Some(300))),
            (Some(("3.00", "EM_PROCESSAMENTO")), true, (None, Some(300))),
            (None, true, (None, Some(300))),
            (Some(("3.00", "REALIZADO")), false, (Some(300), None)),
        ] {
            let differences = found(day(), sent, is_completed).differences;
            assert_eq!(kinds(&differences), [(DifferenceKind::Differing, amounts.0, amounts.1)], "{sent:?}");
            assert_eq!(differences[0].return_id.as_deref(), Some("o1"));
        }
        assert!(found(day(), Some(("3.00", "NAO_REALIZADO")), false).differences.is_empty());
        // Another day's reconciliation shows this refund.
        let ours = RecordedPix { sent: vec![ended("o1", true)], ..recorded(ID, noon(), 1000) };
        assert!(differences_of(Day::of(next_day()), &listed([]), &ours).is_empty());
    }

    #[test]
    fn devolucoes_by_med_are_compared_with_the_losses_of_the_cases() {
        let items = || {
            ["MED_FRAUDE", "MED_OPERACIONAL"]
                .map(|nature| devolucao(nature, 300, "DEVOLVIDO", nature, noon()))
        };
        let bank = listed([Pix { returns: items().to_vec(), ..pix(ID, noon(), 1000) }]);
        let found = |lost| {
            let ours = RecordedPix { med_lost: MinorUnits::new(lost), ..recorded(ID, noon(), 1000) };
            compare(day(), next_day(), &bank, &[ours]).differences
        };
        assert!(found(600).is_empty() && found(1000).is_empty());
        assert_eq!(kinds(&found(300)), [(DifferenceKind::Differing, Some(600), Some(300))]);
    }

    #[test]
    fn an_unreadable_item_is_a_difference_and_its_record_is_not_unknown() {
        let unreadable = [Some(ID.to_owned()), None].into_iter().collect();
        let bank = BankRecords { unreadable, ..BankRecords::default() };
        let found = compare(day(), next_day(), &bank, &[recorded(ID, noon(), 1000)]).differences;
        assert_eq!(kinds(&found), [(DifferenceKind::Differing, None, None); 2]);
    }
}
