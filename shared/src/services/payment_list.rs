//! The list of payments (contract: `GET /v1/payments`): pages by number or by cursor, with the total of all that match.
//!
//! In order of creation a page is one query of keys and one `BatchGetItem`; the total comes from the rollups, read beside
//! the query, or from the query itself where that reached the end. Ordered by another field, all that match are read and
//! sorted here, up to a bound.

use std::cmp::Ordering;

use serde::Serialize;
use serde_json::Value;
use strum::{IntoStaticStr, VariantArray};

use domain::calendar::Day;
use domain::charge::{Charge, StoredCharge, TransactionStatus};
use domain::ids::{ChargeId, Scope};
use domain::rollup::Counter;
use domain::row::Key;
use domain::time::Timestamp;
use domain::vocabulary::Vocabulary;

use crate::charge::list::sort_range;
use crate::charge::payment::view::PaymentView;
use crate::config::PublicUrls;
use crate::http::{Fields, Problem, Query};
use crate::rollup::{DayRow, Rollups};
use crate::store::{ListIndex, Order, PageError, Store, StoreError};

/// Payments on a page, unless asked otherwise, and at most (contract: Limits).
const DEFAULT_LIMIT: u32 = 20;
const MAX_LIMIT: u32 = 100;

/// Payments before a page, at most: a page reads their keys too, and so many still are one query.
const MAX_OFFSET: usize = 5_000;

/// Payments that are sorted in memory, at most: some megabytes, and ten `BatchGetItem`s.
const MAX_SORTED: usize = 1_000;

/// A list that is no longer than this has an exact total at any moment: its keys are read to the end, which costs
/// five read units. The rollups are behind by what the stream is behind.
const EXACT_TOTAL: usize = 250;

const PARAMETERS: [&str; 8] =
    ["page", "limit", "starting_after", "status", "startDate", "endDate", "sortBy", "sortOrder"];

/// The field that the index keeps in order.
const CREATED_AT: &str = "createdAt";

/// What a client asks of the list.
#[derive(Clone, Debug)]
pub struct PaymentFilter {
    page: u32,
    limit: u32,
    /// The last payment of the page before; takes the place of `page`.
    pub starting_after: Option<ChargeId>,
    status: Option<TransactionStatus>,
    start: Option<Timestamp>,
    end: Option<Timestamp>,
    sort_by: &'static str,
    order: SortOrder,
}

#[derive(Clone, Copy, Debug, Eq, IntoStaticStr, PartialEq, VariantArray)]
enum SortOrder {
    #[strum(serialize = "asc")]
    Ascending,
    #[strum(serialize = "desc")]
    Descending,
}

impl SortOrder {
    fn of(self, ascending: Ordering) -> Ordering {
        match self {
            Self::Ascending => ascending,
            Self::Descending => ascending.reverse(),
        }
    }

    fn by_creation(self) -> Order {
        match self {
            Self::Ascending => Order::OldestFirst,
            Self::Descending => Order::NewestFirst,
        }
    }
}

/// A page of payments.
#[derive(Debug)]
pub struct PaymentPage {
    /// The payments, as they stand now.
    pub payments: Vec<Charge>,
    /// How many match, on all pages.
    pub total: usize,
    /// Which page it is, from 1; `None`: it was asked for by a cursor.
    pub page: Option<u32>,
    /// How many payments a page has.
    pub limit: u32,
    /// Whether more follow.
    pub has_more: bool,
    /// Where the next page starts; `None` on the last one and in an order that cursors don't have.
    pub next_cursor: Option<ChargeId>,
}

impl PaymentFilter {
    /// Reads a query string; every failing parameter is reported, an unknown one too.
    pub fn parse(query: &Query) -> Result<Self, Problem> {
        let mut fields = Fields::new();
        query.allow_only(&mut fields, &PARAMETERS);
        let filter = Self {
            page: query.integer(&mut fields, "page", 1, u32::MAX, 1),
            limit: query.integer(&mut fields, "limit", 1, MAX_LIMIT, DEFAULT_LIMIT),
            starting_after: query.parsed(
                &mut fields,
                "starting_after",
                "must be a payment id (a UUID)",
                |text| ChargeId::parse_any(text).ok(),
            ),
            status: query.one_of(&mut fields, "status", &TransactionStatus::vocabulary()),
            start: query.not_before(&mut fields, "startDate"),
            end: query.not_after(&mut fields, "endDate"),
            sort_by: query
                .one_of(&mut fields, "sortBy", &PaymentView::FIELDS.map(|field| (field, field)))
                .unwrap_or(CREATED_AT),
            order: query
                .one_of(&mut fields, "sortOrder", &SortOrder::vocabulary())
                .unwrap_or(SortOrder::Descending),
        };
        if filter.offset() > MAX_OFFSET {
            let message = format!(
                "must begin within the first {MAX_OFFSET} payments; continue with `starting_after`, the id of the last payment you have, or narrow the list by `startDate` and `endDate`"
            );
            fields.reject("page", message);
        }
        if filter.starting_after.is_some() {
            if query.get("page").is_some() {
                fields.reject("starting_after", "can't be combined with `page`; send one of them");
            }
            if filter.sort_by != CREATED_AT {
                let message = format!("works only in the order of `{CREATED_AT}`; leave `sortBy` out");
                fields.reject("starting_after", message);
            }
        }
        fields.finish(Some(filter))
    }

    fn offset(&self) -> usize {
        let before = self.page.saturating_sub(1).saturating_mul(self.limit);
        usize::try_from(before).unwrap_or(usize::MAX)
    }

    fn limit(&self) -> usize {
        usize::try_from(self.limit).unwrap_or_default()
    }

    fn admits(&self, charge: &Charge) -> bool {
        self.status.is_none_or(|status| charge.status == status)
    }

    fn partition(&self, scope: &Scope) -> (ListIndex, String) {
        match self.status {
            None => (ListIndex::All, Charge::list_partition(scope)),
            Some(status) => (ListIndex::ByStatus, Charge::status_partition(scope, status)),
        }
    }

    /// What counts those that match.
    fn counter(&self) -> Counter {
        self.status.map_or(Counter::Created, Counter::InStatus)
    }

    fn page(&self, payments: Vec<Charge>, total: usize) -> PaymentPage {
        let page = if self.starting_after.is_none() { Some(self.page) } else { None };
        PaymentPage { payments, total, page, limit: self.limit, has_more: false, next_cursor: None }
    }

    /// The places that the page is read from, and how many of them: without `cursor` from the first payment on, for a page by
    /// number skips those before it and small lists are counted on the way.
    fn window(&self, cursor: Option<&str>) -> (String, String, usize) {
        let (from, to) = sort_range(self.start, self.end);
        let Some(cursor) = cursor else {
            return (from, to, self.offset().saturating_add(self.limit()).max(EXACT_TOTAL).saturating_add(1));
        };
        let cursor = cursor.to_owned();
        // One more to know whether more follow, one for the cursor itself, whose entry the bound takes in.
        let wanted = self.limit().saturating_add(2);
        match self.order {
            SortOrder::Ascending => (from.max(cursor), to, wanted),
            SortOrder::Descending => (from, to.min(cursor), wanted),
        }
    }
}

/// Why a page of payments is not read.
#[derive(Debug, thiserror::Error)]
pub enum PaymentListError {
    /// More payments match than can be sorted by another field than their creation.
    #[error(
        "can sort at most {MAX_SORTED} payments, and more match; narrow the list by `status`, `startDate` and `endDate`, or read all in the order of `{CREATED_AT}` with `starting_after`"
    )]
    TooManyToSort,
    /// `starting_after` names no payment of the scope, or DynamoDB.
    #[error(transparent)]
    Page(#[from] PageError),
}

impl From<StoreError> for PaymentListError {
    fn from(error: StoreError) -> Self {
        Self::Page(error.into())
    }
}

/// The payments of all scopes, as lists.
#[derive(Clone, Debug)]
pub struct PaymentList {
    store: Store,
}

impl PaymentList {
    /// The payments in a store.
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// A page of a scope's payments, charges of `/v1/charges` among them. `cursor` is the payment that `starting_after`
    /// names, read beforehand. A payment that has expired since its status was written counts in `total` for a filter by
    /// that status, and is left out of the page.
    ///
    /// # Errors
    ///
    /// See [`PaymentListError`].
    pub async fn page(
        &self,
        scope: &Scope,
        filter: &PaymentFilter,
        cursor: Option<StoredCharge>,
        public_urls: &PublicUrls,
        now: Timestamp,
    ) -> Result<PaymentPage, PaymentListError> {
        let cursor = cursor.map(|charge| charge.at(now)).filter(|charge| charge.scope == *scope);
        let cursor = cursor.map(|charge| charge.list_sort());
        if filter.starting_after.is_some() && cursor.is_none() {
            return Err(PageError::UnknownCursor("a payment of this account and mode").into());
        }
        if filter.start.zip(filter.end).is_some_and(|(start, end)| start > end) {
            return Ok(filter.page(Vec::new(), 0));
        }
        if filter.sort_by == CREATED_AT {
            Ok(self.by_creation(scope, filter, cursor.as_deref(), now).await?)
        } else {
            self.sorted(scope, filter, public_urls, now).await
        }
    }

    async fn by_creation(
        &self,
        scope: &Scope,
        filter: &PaymentFilter,
        cursor: Option<&str>,
        now: Timestamp,
    ) -> Result<PaymentPage, StoreError> {
        let (index, partition) = filter.partition(scope);
        let (from, to, wanted) = filter.window(cursor);
        let read = async || {
            // DynamoDB refuses a range that ends before it begins: a cursor outside the dates asked for.
            if from > to {
                return Ok(Vec::new());
            }
            self.store.list(index, &partition, (&from, &to), filter.order.by_creation(), wanted).await
        };
        let (mut entries, counted) = tokio::try_join!(read(), Box::pin(self.count(scope, filter, now)))?;
        let seen = entries.len();
        let total = if cursor.is_none() && seen < wanted { seen } else { counted.max(seen) };
        entries.retain(|entry| Some(entry.sort.as_str()) != cursor);
        let skipped = if cursor.is_none() { filter.offset() } else { 0 };
        let has_more = entries.len() > skipped.saturating_add(filter.limit());
        let on_page = entries.into_iter().skip(skipped).take(filter.limit());
        let keys: Vec<Key> = on_page.map(|entry| entry.key).collect();
        let rows: Vec<StoredCharge> = self.store.get_in_order(&keys).await?;
        let payments: Vec<Charge> = rows.into_iter().map(|charge| charge.at(now)).collect();
        let next_cursor = payments.last().map(|charge| charge.id).filter(|_| has_more);
        let admitted = payments.into_iter().filter(|charge| filter.admits(charge));
        let page = filter.page(admitted.collect(), total);
        Ok(PaymentPage { has_more, next_cursor, ..page })
    }

    async fn sorted(
        &self,
        scope: &Scope,
        filter: &PaymentFilter,
        public_urls: &PublicUrls,
        now: Timestamp,
    ) -> Result<PaymentPage, PaymentListError> {
        let (index, partition) = filter.partition(scope);
        let (from, to) = sort_range(filter.start, filter.end);
        let bounds = (from.as_str(), to.as_str());
        let wanted = MAX_SORTED.saturating_add(1);
        let entries = self.store.list(index, &partition, bounds, Order::NewestFirst, wanted).await?;
        if entries.len() > MAX_SORTED {
            return Err(PaymentListError::TooManyToSort);
        }
        let keys: Vec<Key> = entries.into_iter().map(|entry| entry.key).collect();
        let rows: Vec<StoredCharge> = self.store.get_in_order(&keys).await?;
        let payments = rows.into_iter().map(|charge| charge.at(now));
        let payments: Vec<Charge> = payments.filter(|charge| filter.admits(charge)).collect();
        let total = payments.len();
        let sorted = sorted(payments, filter.sort_by, filter.order, public_urls).into_iter();
        let page = filter.page(sorted.skip(filter.offset()).take(filter.limit()).collect(), total);
        Ok(PaymentPage { has_more: total > filter.offset().saturating_add(filter.limit()), ..page })
    }

    /// How many payments match, by the rollups: of all time, or of the whole days between two dates, with what the parts
    /// of days at either end have by their index entries.
    async fn count(
        &self,
        scope: &Scope,
        filter: &PaymentFilter,
        now: Timestamp,
    ) -> Result<usize, StoreError> {
        let rollups = Rollups::new(self.store.clone());
        // Nothing was made after now.
        let end = filter.end.filter(|end| *end < now);
        if filter.start.is_none() && end.is_none() {
            return Ok(positive(rollups.of_all_time(scope).await?.get(filter.counter())));
        }
        let parts = Parts::of(filter.start, end);
        let (index, partition) = filter.partition(scope);
        let of_part = async |part: Option<(Timestamp, Timestamp)>| match part {
            None => Ok(0),
            Some((from, to)) => {
                let (from, to) = sort_range(Some(from), Some(to));
                self.store.count(index, &partition, (&from, &to)).await
            }
        };
        let of_days = async |days: Option<(Day, Day)>| match days {
            None => Ok(Vec::new()),
            Some((first, last)) => rollups.between(scope, first, last).await,
        };
        let (head, days, tail) =
            tokio::try_join!(of_part(parts.head), of_days(parts.days), of_part(parts.tail))?;
        let of_row = |row: &DayRow| positive(row.sums.get(filter.counter()));
        Ok(days.iter().map(of_row).fold(head.saturating_add(tail), usize::saturating_add))
    }
}

/// A page of payments on the wire.
#[derive(Debug, Serialize)]
pub struct PaymentListView<'a> {
    data: Vec<PaymentView<'a>>,
    total: usize,
    page: Option<u32>,
    limit: u32,
    #[serde(rename = "has_more")]
    has_more: bool,
    #[serde(rename = "next_cursor")]
    next_cursor: Option<String>,
}

impl<'a> PaymentListView<'a> {
    /// The page as the list gives it.
    pub fn new(page: &'a PaymentPage, public_urls: &PublicUrls) -> Self {
        Self {
            data: page.payments.iter().map(|payment| PaymentView::new(payment, public_urls)).collect(),
            total: page.total,
            page: page.page,
            limit: page.limit,
            has_more: page.has_more,
            next_cursor: page.next_cursor.map(|id| id.raw()),
        }
    }
}

/// A count may be below zero for a moment, when a charge's leaving a status is counted before its coming.
fn positive(count: i64) -> usize {
    usize::try_from(count).unwrap_or_default()
}

/// A time between two instants, cut at São Paulo's midnights: whole days, and what is left of a day at either end.
#[derive(Debug, Eq, PartialEq)]
struct Parts {
    head: Option<(Timestamp, Timestamp)>,
    days: Option<(Day, Day)>,
    tail: Option<(Timestamp, Timestamp)>,
}

impl Parts {
    fn of(from: Option<Timestamp>, to: Option<Timestamp>) -> Self {
        let (from, to) = (from.unwrap_or(Timestamp::MIN), to.unwrap_or(Timestamp::MAX));
        let (first, last) = (Day::of(from), Day::of(to));
        let (begins_within, ends_within) = (from > first.starts_at(), to < last.ends_at());
        if first == last && (begins_within || ends_within) {
            return Self { head: Some((from, to)), days: None, tail: None };
        }
        let first_whole = if begins_within { first.on(1) } else { first };
        let last_whole = if ends_within { last.back(1) } else { last };
        Self {
            head: begins_within.then(|| (from, first.ends_at())),
            days: (first_whole <= last_whole).then_some((first_whole, last_whole)),
            tail: ends_within.then(|| (last.starts_at(), to)),
        }
    }
}

/// A field's value, as it sorts. Lists and objects sort as their JSON does.
#[derive(Debug, Eq, Ord, PartialEq, PartialOrd)]
enum SortKey {
    Number(i64),
    /// A decimal number without a sign: the length of its whole part, that part, its decimals.
    Decimal(usize, String, String),
    Text(String),
}

impl SortKey {
    /// `None`: the field is `null`.
    fn of(charge: &Charge, field: &str, public_urls: &PublicUrls) -> Option<Self> {
        // The picture takes longer than all the rest.
        let view = match field {
            "pixQrCode" => PaymentView::new(charge, public_urls),
            _ => PaymentView::without_picture(charge, public_urls),
        };
        let Ok(Value::Object(mut fields)) = serde_json::to_value(view) else { return None };
        match fields.remove(field)? {
            Value::Null => None,
            Value::Number(number) => number.as_i64().map(Self::Number),
            Value::String(text) if field == "cryptoAmount" => {
                let (whole, decimals) = text.split_once('.').unwrap_or((&text, ""));
                Some(Self::Decimal(whole.len(), whole.to_owned(), decimals.to_owned()))
            }
            Value::String(text) => Some(Self::Text(text)),
            other @ (Value::Bool(_) | Value::Array(_) | Value::Object(_)) => {
                Some(Self::Text(other.to_string()))
            }
        }
    }
}

/// By a field; what has none comes last either way. Those that are equal go by their creation, then by their id.
fn sorted(payments: Vec<Charge>, by: &str, order: SortOrder, public_urls: &PublicUrls) -> Vec<Charge> {
    let keyed = payments
        .into_iter()
        .map(|charge| (SortKey::of(&charge, by, public_urls), charge.list_sort(), charge));
    let mut keyed: Vec<_> = keyed.collect();
    keyed.sort_by(|(left, left_place, _), (right, right_place, _)| {
        let by_key = match (left, right) {
            (Some(left), Some(right)) => order.of(left.cmp(right)),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => Ordering::Equal,
        };
        by_key.then_with(|| order.of(left_place.cmp(right_place)))
    });
    keyed.into_iter().map(|(_, _, charge)| charge).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::charge::testing::{at, waiting};
    use domain::charge::Crypto;
    use domain::ids::Mode;
    use domain::money::{Amount, Currency};

    fn public_urls() -> PublicUrls {
        PublicUrls::new("https://pay.example.com/checkout").unwrap()
    }

    fn numbered(number: i64) -> Charge {
        Charge {
            id: ChargeId::derive(b"salt", Mode::Test, "payments", &number.to_string()),
            created_at: at(number),
            amount: Amount::parse(1000 + number % 2).unwrap(),
            ..waiting()
        }
    }

    fn in_order(charges: &[Charge], by: &str, order: SortOrder) -> Vec<i64> {
        let sorted = sorted(charges.to_vec(), by, order, &public_urls());
        sorted.iter().map(|charge| charge.created_at.millis_since(at(0)) / 1000).collect()
    }

    #[test]
    fn equal_ones_go_by_their_creation_in_the_same_direction() {
        let charges: Vec<Charge> = (0..5).map(numbered).collect();
        assert_eq!(in_order(&charges, "amount", SortOrder::Ascending), [0, 2, 4, 1, 3]);
        assert_eq!(in_order(&charges, "amount", SortOrder::Descending), [3, 1, 4, 2, 0]);
        assert_eq!(in_order(&charges, "paidAt", SortOrder::Ascending), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn what_has_no_value_comes_last_either_way() {
        let mut charges: Vec<Charge> = (0..3).map(numbered).collect();
        charges[1].artefacts.pix = None;
        assert_eq!(in_order(&charges, "pixCopyPaste", SortOrder::Ascending), [0, 2, 1]);
        assert_eq!(in_order(&charges, "pixCopyPaste", SortOrder::Descending), [2, 0, 1]);
    }

    #[test]
    fn amounts_of_tokens_sort_as_numbers() {
        let amounts = ["10.000000", "9.500000", "100", "9.400000"];
        let charges: Vec<Charge> = (0..4)
            .map(numbered)
            .zip(amounts)
            .map(|(mut charge, amount)| {
                let crypto = Crypto {
                    address: "T".to_owned(),
                    network: "T".to_owned(),
                    currency: Currency::USDT,
                    amount: amount.to_owned(),
                    expires_at: at(0),
                };
                charge.artefacts.crypto = Some(crypto);
                charge
            })
            .collect();
        assert_eq!(in_order(&charges, "cryptoAmount", SortOrder::Ascending), [3, 1, 0, 2]);
    }

    #[test]
    fn every_field_sorts() {
        let charges: Vec<Charge> = (0..3).map(numbered).collect();
        for field in PaymentView::FIELDS {
            assert_eq!(in_order(&charges, field, SortOrder::Ascending).len(), 3, "{field}");
        }
    }

    fn day(text: &str) -> Day {
        text.parse().unwrap()
    }

    #[test]
    fn a_time_is_cut_at_midnight_in_sao_paulo() {
        let at = |text: &str| Timestamp::parse_floor(text).unwrap();
        let parts = |from: &str, to: &str| Parts::of(Some(at(from)), Some(at(to)));
        assert_eq!(
            parts("2026-11-18T03:00:00Z", "2026-11-21T02:59:59.999Z"),
            Parts { head: None, days: Some((day("2026-11-18"), day("2026-11-20"))), tail: None }
        );
        assert_eq!(
            parts("2026-11-18T03:00:00.001Z", "2026-11-21T02:59:59.998Z"),
            Parts {
                head: Some((at("2026-11-18T03:00:00.001Z"), at("2026-11-19T02:59:59.999Z"))),
                days: Some((day("2026-11-19"), day("2026-11-19"))),
                tail: Some((at("2026-11-20T03:00:00Z"), at("2026-11-21T02:59:59.998Z"))),
            }
        );
        let within = (at("2026-11-18T12:00:00Z"), at("2026-11-18T13:00:00Z"));
        assert_eq!(
            Parts::of(Some(within.0), Some(within.1)),
            Parts { head: Some(within), days: None, tail: None }
        );
        assert_eq!(parts("2026-11-18T12:00:00Z", "2026-11-19T12:00:00Z").days, None);
        let open = Parts::of(Some(at("2026-11-18T03:00:00Z")), None);
        assert_eq!(open.days, Some((day("2026-11-18"), Day::of(Timestamp::MAX))));
        assert_eq!((open.head, open.tail), (None, None));
    }

    proptest! {
        #[test]
        fn every_instant_is_in_one_part(
            from in 0_i64..4_000_000_000_000,
            length in 0_i64..1_000_000_000,
            inside in 0.0_f64..1.0,
        ) {
            let millis = |millis: i64| Timestamp::from_millis(millis).unwrap();
            let (from, to) = (millis(from), millis(from + length));
            let parts = Parts::of(Some(from), Some(to));
            #[expect(clippy::as_conversions, clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "any number will do")]
            let inside = millis(from.millis() + (length as f64 * inside) as i64);
            let holds = |at: Timestamp| {
                let part = |part: Option<(Timestamp, Timestamp)>| part.is_some_and(|(from, to)| from <= at && at <= to);
                let days = parts.days.is_some_and(|(first, last)| first.starts_at() <= at && at <= last.ends_at());
                [part(parts.head), days, part(parts.tail)].into_iter().filter(|holds| *holds).count()
            };
            prop_assert_eq!((holds(from), holds(inside), holds(to)), (1, 1, 1));
            prop_assert_eq!(from.plus_millis(-1).map_or(0, holds), 0);
            prop_assert_eq!(holds(to.plus_millis(1).unwrap()), 0);
        }
    }
}
