//! The lines of a report, a page at a time: postings, charges, payouts or MED cases of the period.

use std::collections::HashMap;

use domain::charge::{Charge, StoredCharge};
use domain::ids::{ChargeId, PayoutId, PostingId, RefundId};
use domain::med::MedCase;
use domain::money::{Currency, MoneyError};
use domain::payout::Payout;
use domain::refund::{Refund, RefundStatus};
use domain::report::{Report, ReportBasis, ReportKind};
use domain::row::Key;
use domain::shard::ShardedScope;
use domain::time::Timestamp;
use domain::wallet::{Posting, PostingKind};
use money::charge::list::sort_range;
use serde::de::DeserializeOwned;
use shared::store::{ListIndex, Store, StoreError, from_item};

use crate::line::{Charges, Line, LineKind};
use crate::rows::{Found, Rows};

#[derive(Clone, Copy)]
enum Of {
    /// Postings of which these are lines.
    Postings(fn(&Posting) -> bool, ReportKind),
    Charges,
    Payouts,
    Cases,
}

pub(crate) struct Source {
    store: Store,
    rows: Rows,
    of: Of,
    currency: Currency,
    now: Timestamp,
}

/// The postings of a currency and a time: those that change the wallet, and, if `with_others`, the others.
pub(crate) fn postings(
    store: Store,
    scope: &ShardedScope,
    currency: Currency,
    (from, to): (Timestamp, Timestamp),
    with_others: bool,
) -> Rows {
    let (first, last) = (PostingId::first_at(from), PostingId::last_at(to));
    let wallet = |pk| (pk, (Posting::wallet_sort(currency, first), Posting::wallet_sort(currency, last)));
    let other = |pk| (pk, (Posting::other_sort(currency, first), Posting::other_sort(currency, last)));
    let partitions = scope.partitions(Posting::partition);
    let others = partitions.clone().into_iter().filter(|_| with_others).map(other);
    Rows::new(store, None, partitions.into_iter().map(wallet).chain(others))
}

/// Deserialises postings.
pub(crate) fn postings_of(found: Vec<Found>) -> Result<Vec<Posting>, StoreError> {
    let items = found.into_iter().filter_map(|found| match found {
        Found::Row(item) => Some(item),
        Found::Listed(_) => None,
    });
    items.map(from_item).collect()
}

impl Source {
    pub(crate) fn new(store: Store, scope: ShardedScope, report: &Report, now: Timestamp) -> Self {
        let (kind, currency) = (report.spec.kind, report.spec.currency);
        let period = (report.spec.from.starts_at(), report.ends_at());
        let ledger = |with_others| postings(store.clone(), &scope, currency, period, with_others);
        let listed = |partitions: Vec<String>| {
            let range = sort_range(Some(period.0), Some(period.1));
            let ranges = partitions.into_iter().map(move |pk| (pk, range.clone()));
            Rows::new(store.clone(), Some(ListIndex::All), ranges)
        };
        let (of, rows) = match (kind, report.spec.by) {
            (ReportKind::Statement, _) => (Of::Postings(|_| true, kind), ledger(false)),
            (ReportKind::Fees, _) => (Of::Postings(|posting| !posting.fee.is_zero(), kind), ledger(false)),
            (ReportKind::Refunds, _) => {
                (Of::Postings(|posting| posting.kind == PostingKind::Refund, kind), ledger(false))
            }
            // A payment to the merchant's own wallet changes no balance here.
            (ReportKind::Payments, ReportBasis::Paid) => (Of::Postings(is_payment, kind), ledger(true)),
            (ReportKind::Payments, ReportBasis::Created) => {
                (Of::Charges, listed(scope.partitions(Charge::list_partition)))
            }
            (ReportKind::MedCases, _) => (Of::Cases, listed(vec![MedCase::list_partition(&scope.scope)])),
            (ReportKind::Payouts, _) => {
                let (from, to) = (PayoutId::first_at(period.0), PayoutId::last_at(period.1));
                let range = (from.to_string(), to.to_string());
                let ranges = [(Payout::list_partition(&scope.scope), range)];
                (Of::Payouts, Rows::new(store.clone(), Some(ListIndex::All), ranges))
            }
        };
        Self { store, rows, of, currency, now }
    }

    /// The next lines, which may be none of a page; `None` at the end.
    pub(crate) async fn next_page(&mut self) -> Result<Option<Vec<Line>>, StoreError> {
        let found = self.rows.next_page().await?;
        if found.is_empty() {
            return Ok(None);
        }
        let lines = match self.of {
            Of::Postings(is_line, kind) => {
                let mut postings = postings_of(found)?;
                postings.retain(is_line);
                self.of_postings(&postings, kind).await?
            }
            Of::Charges => {
                let charges: Vec<StoredCharge> = self.listed(found).await?;
                let charges = charges.into_iter().map(|charge| charge.read_at(self.now));
                let own = charges.filter(|charge| charge.currency == self.currency);
                let lines = own.map(|charge| Line::of_charge(&charge, charge.created_at));
                lines.collect::<Result<_, _>>()?
            }
            Of::Payouts => {
                let payouts: Vec<Payout> = self.listed(found).await?;
                let own = payouts.iter().filter(|payout| payout.currency == self.currency);
                own.map(Line::of_payout).collect()
            }
            Of::Cases => {
                let cases: Vec<MedCase> = self.listed(found).await?;
                let charges = self.charges(cases.iter().map(|case| case.id.charge())).await?;
                let own = cases.iter().filter(|case| case.currency == self.currency);
                own.map(|case| Line::of_case(case, &charges)).collect::<Result<_, _>>()?
            }
        };
        Ok(Some(lines))
    }

    async fn of_postings(&self, postings: &[Posting], kind: ReportKind) -> Result<Vec<Line>, StoreError> {
        let charges = self.charges(postings.iter().filter_map(|posting| posting.subject.charge)).await?;
        let refunds = match kind {
            ReportKind::Refunds => self.refunds(postings).await?,
            _ => HashMap::new(),
        };
        let line = |posting: &Posting| {
            let charge = posting.subject.charge.and_then(|id| charges.get(&id)).map(StoredCharge::as_stored);
            let at = posting.dated_at();
            if let (ReportKind::Payments, Some(charge)) = (kind, charge) {
                return Line::of_charge(charge, at);
            }
            let refund = posting.subject.refund.and_then(|id| refunds.get(&id));
            let kind = refund.map_or(LineKind::Movement(posting.kind), |status| LineKind::Refund(*status));
            Line::of_posting(posting, kind, &charges)
        };
        Ok(postings.iter().map(line).collect::<Result<_, MoneyError>>()?)
    }

    /// The rows of index entries, in their order.
    async fn listed<R: DeserializeOwned>(&self, found: Vec<Found>) -> Result<Vec<R>, StoreError> {
        let keys = found.into_iter().filter_map(|found| match found {
            Found::Listed(key) => Some(key),
            Found::Row(_) => None,
        });
        self.store.get_in_order(&keys.collect::<Vec<Key>>()).await
    }

    async fn charges(&self, ids: impl Iterator<Item = ChargeId>) -> Result<Charges, StoreError> {
        let keys: Vec<Key> = ids.map(Charge::key_of).collect();
        let mut charges = Charges::new();
        for item in self.store.batch_get(&keys).await? {
            let charge: StoredCharge = from_item(item)?;
            charges.insert(charge.as_stored().id, charge);
        }
        Ok(charges)
    }

    async fn refunds(&self, postings: &[Posting]) -> Result<HashMap<RefundId, RefundStatus>, StoreError> {
        let ids = postings.iter().filter_map(|posting| posting.subject.refund);
        let refunds: Vec<Refund> =
            self.store.get_in_order(&ids.map(Refund::key_of).collect::<Vec<Key>>()).await?;
        Ok(refunds.into_iter().map(|refund| (refund.id, refund.status)).collect())
    }
}

fn is_payment(posting: &Posting) -> bool {
    matches!(posting.kind, PostingKind::Settlement | PostingKind::SelfCustody)
}
