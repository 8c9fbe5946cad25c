//! Lists payments (`GET /v1/payments`) by page number or by cursor, with the total number of
//! matches.
//!
//! A page in order of creation costs one query of index entries for each shard of the account, and one
//! `BatchGetItem`. If the queries read the whole list, they also provide the total. Otherwise the total is
//! computed from the rollups, which are read at the same time. For any other order, all matching payments are
//! read and sorted in memory, and the request fails if more than 1,000 match.

use std::cmp::Ordering;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use strum::{IntoStaticStr, VariantArray};

use domain::calendar::Day;
use domain::charge::{Charge, StoredCharge, TransactionStatus};
use domain::ids::{ChargeId, RawChargeId};
use domain::rollup::{Counter, RollupChange};
use domain::row::Key;
use domain::shard::ShardedScope;
use domain::time::Timestamp;

use effects::rollup::{Checkpoint, DayRow, Rollups};
use money::charge::list::{sort_range, status_partitions};
use money::charge::payment::view::PaymentView;
use shared::config::PublicUrls;
use shared::http::field::{
    CREATED_AFTER, CREATED_BEFORE, Count, Definitions, Field, LIMIT, Parsed, Presence, TimeBound, Word,
};
use shared::http::{self, Fields, Problem, Query};
use shared::store::{ListIndex, Order, PageError, PageRange, Result};

/// The most payments that a page by number can skip. Their index entries are read too, and this many still
/// fit in one query.
const MAX_OFFSET: usize = 5_000;

/// The most payments that are sorted in memory. They take a few megabytes and ten `BatchGetItem` requests.
const MAX_SORTED: usize = 1_000;

/// The length of the longest list whose total is always exact. The index entries of such a list are read to
/// its end, which costs at most five read units. The total of a longer list comes from the rollups, which lag
/// behind by the delay of the stream.
const EXACT_TOTAL: usize = 250;

/// The field by which the index is sorted.
const CREATED_AT: &str = "createdAt";

shared::fields! {
    PAGE: Count = "page", Count { min: 1, max: u32::MAX, hint: "" }, DefaultsTo(1), 2,
        "The page number. The page must begin within the first 5000 payments. It can't be combined with `starting_after`.";
    STARTING_AFTER: Parsed<ChargeId> = "starting_after",
        Parsed {
            chars: (36, 39),
            pattern: Some("^(ch_|tx_)?[0-9a-f-]{36}$"),
            format: None,
            parse: |text| ChargeId::parse_any(text).ok(),
            rule: "must be a payment id (a UUID)",
            mistake: |_| None,
        },
        Optional, "fe5392dd-e865-8656-a544-24ef3d590c1b",
        "The cursor: the `next_cursor` of the previous page, a payment id. It can't be combined with `page`, or with another `sortBy` than `createdAt`.";
    STATUS: Word<TransactionStatus> = "status", Word::ALL, Optional, "PAID",
        "Only payments with this status.";
    SORT_BY: Word<&str> = "sortBy",
        Word { words: || PaymentView::FIELDS.map(|field| (field, field)).to_vec() },
        DefaultsTo("createdAt"), "amount",
        "The field by which the list is sorted. Fields other than `createdAt` can sort at most 1000 matching payments.";
    SORT_ORDER: Word<SortOrder> = "sortOrder", Word::ALL, DefaultsTo("desc"), "asc",
        "Ascending or descending order.";
}

/// The default differs from that of other lists.
const PAGE_SIZE: Field<Count> = Field {
    presence: Presence::DefaultsTo("20"),
    text: "The largest number of payments on a page.",
    ..LIMIT
};

const START_DATE: Field<TimeBound> = Field { name: "startDate", ..CREATED_AFTER };

const END_DATE: Field<TimeBound> = Field { name: "endDate", ..CREATED_BEFORE };

pub const PAYMENTS_QUERY: Definitions =
    &[&STATUS, &START_DATE, &END_DATE, &PAGE_SIZE, &PAGE, &STARTING_AFTER, &SORT_BY, &SORT_ORDER];

#[derive(Clone, Debug)]
pub struct PaymentFilter {
    page: u32,
    limit: u32,
    /// The cursor: the last payment of the previous page. It replaces `page`.
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
    fn apply(self, ascending: Ordering) -> Ordering {
        match self {
            Self::Ascending => ascending,
            Self::Descending => ascending.reverse(),
        }
    }

    fn index_order(self) -> Order {
        match self {
            Self::Ascending => Order::OldestFirst,
            Self::Descending => Order::NewestFirst,
        }
    }
}

#[derive(Debug)]
pub struct PaymentPage {
    pub payments: Vec<Charge>,
    pub total: usize,
    /// The page number, from 1; `None` when the request has a cursor.
    pub page: Option<u32>,
    pub limit: u32,
    pub has_more: bool,
    /// The `starting_after` of the next page. `None` on the last page, and if the list is sorted by another
    /// field than `createdAt`.
    pub next_cursor: Option<ChargeId>,
}

impl PaymentFilter {
    pub fn parse(query: &Query) -> Result<Self, Problem> {
        let mut fields = Fields::new();
        query.allow_only(&mut fields, PAYMENTS_QUERY);
        let filter = Self {
            page: query.read(&mut fields, &PAGE).unwrap_or_default(),
            limit: query.read(&mut fields, &PAGE_SIZE).unwrap_or_default(),
            starting_after: query.read(&mut fields, &STARTING_AFTER),
            status: query.read(&mut fields, &STATUS),
            start: query.read(&mut fields, &START_DATE),
            end: query.read(&mut fields, &END_DATE),
            sort_by: query.read(&mut fields, &SORT_BY).unwrap_or(CREATED_AT),
            order: query.read(&mut fields, &SORT_ORDER).unwrap_or(SortOrder::Descending),
        };
        if filter.offset() > MAX_OFFSET {
            let message = format!(
                "must begin within the first {MAX_OFFSET} payments; continue with `starting_after`, the id of the last payment you have, or narrow the list by `startDate` and `endDate`"
            );
            fields.reject(PAGE.name, message);
        }
        if filter.starting_after.is_some() {
            if query.has(&PAGE) {
                fields.reject(STARTING_AFTER.name, "can't be combined with `page`; send one of them");
            }
            if filter.sort_by != CREATED_AT {
                let message = format!("works only in the order of `{CREATED_AT}`; leave `sortBy` out");
                fields.reject(STARTING_AFTER.name, message);
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

    fn matches(&self, charge: &Charge) -> bool {
        self.status.is_none_or(|status| charge.status == status)
    }

    fn partitions(&self, scope: &ShardedScope) -> (ListIndex, Vec<String>) {
        match self.status {
            None => (ListIndex::All, scope.partitions(Charge::list_partition)),
            Some(status) => (ListIndex::ByStatus, status_partitions(scope, status)),
        }
    }

    fn counter(&self) -> Counter {
        self.status.map_or(Counter::Created, Counter::InStatus)
    }

    fn page(&self, payments: Vec<Charge>, total: usize) -> PaymentPage {
        let page = if self.starting_after.is_none() { Some(self.page) } else { None };
        PaymentPage { payments, total, page, limit: self.limit, has_more: false, next_cursor: None }
    }
}

/// A number of payments up to the checkpoint of the rollups.
struct Counted {
    number: i64,
    /// `None`: no rollup was read, so that the number has no later changes.
    checkpoint: Option<Checkpoint>,
    /// The days whose later changes matter; `None`: all.
    days: Option<(Day, Day)>,
}

/// The problem of a list that is longer than is sorted.
pub fn too_many_to_sort() -> Problem {
    let reason = format!(
        "can sort at most {MAX_SORTED} payments, and more match; narrow the list by `status`, `startDate` and `endDate`, or read all in the order of `{CREATED_AT}` with `starting_after`"
    );
    Problem::field("sortBy", reason)
}

shared::store::repository!(PaymentList);

impl PaymentList {
    /// Reads a page of a scope's payments, including charges created by `/v1/charges`. `cursor` is the
    /// payment that `starting_after` names; the caller has read it.
    ///
    /// A filter by status selects by the stored status. A selected payment whose expiry is not persisted yet
    /// is left out of the page. In the order of creation, `total` still counts it.
    pub async fn page(
        &self,
        scope: &ShardedScope,
        filter: &PaymentFilter,
        cursor: Option<StoredCharge>,
        public_urls: &PublicUrls,
        now: Timestamp,
    ) -> http::Result<PaymentPage> {
        let cursor = cursor.map(|charge| charge.read_at(now)).filter(|charge| charge.scope == scope.scope);
        let cursor = cursor.map(|charge| charge.list_sort());
        if filter.starting_after.is_some() && cursor.is_none() {
            return Err(PageError::UnknownCursor("a payment of this account and mode").into());
        }
        if filter.start.zip(filter.end).is_some_and(|(start, end)| start > end) {
            return Ok(filter.page(Vec::new(), 0));
        }
        if filter.sort_by == CREATED_AT {
            Ok(self.page_by_creation(scope, filter, cursor.as_deref(), now).await?)
        } else {
            self.page_by_field(scope, filter, public_urls, now).await
        }
    }

    async fn page_by_creation(
        &self,
        scope: &ShardedScope,
        filter: &PaymentFilter,
        cursor: Option<&str>,
        now: Timestamp,
    ) -> Result<PaymentPage> {
        let (index, partitions) = filter.partitions(scope);
        let (from, to) = sort_range(filter.start, filter.end);
        let skipped = if cursor.is_none() { filter.offset() } else { 0 };
        let end = skipped.saturating_add(filter.limit());
        // Without a cursor, the entries before the page are read and skipped, and a short list is read to its end.
        let limit = if cursor.is_none() { end.max(EXACT_TOTAL) } else { end };
        let page = PageRange { range: (&from, &to), order: filter.order.index_order(), after: cursor, limit };
        let ((entries, is_cut), counted) = tokio::try_join!(
            self.store.entries_page((index, &partitions), page),
            Box::pin(self.count(scope, filter, now))
        )?;
        let read_count = entries.len().saturating_add(usize::from(is_cut));
        let is_complete = cursor.is_none() && !is_cut;
        let has_more = read_count > end;
        let on_page = entries.into_iter().skip(skipped).take(filter.limit());
        let keys: Vec<Key> = on_page.map(|entry| entry.key).collect();
        let total = async || {
            if is_complete {
                return Ok(read_count);
            }
            Ok(self.with_later_changes(scope, filter, &counted).await?.max(read_count))
        };
        let (rows, total): (Vec<StoredCharge>, usize) =
            tokio::try_join!(self.store.get_in_order(&keys), Box::pin(total()))?;
        let payments: Vec<Charge> = rows.into_iter().map(|charge| charge.read_at(now)).collect();
        let next_cursor = payments.last().map(|charge| charge.id).filter(|_| has_more);
        let matching = payments.into_iter().filter(|charge| filter.matches(charge));
        let page = filter.page(matching.collect(), total);
        Ok(PaymentPage { has_more, next_cursor, ..page })
    }

    async fn page_by_field(
        &self,
        scope: &ShardedScope,
        filter: &PaymentFilter,
        public_urls: &PublicUrls,
        now: Timestamp,
    ) -> http::Result<PaymentPage> {
        let (index, partitions) = filter.partitions(scope);
        let (from, to) = sort_range(filter.start, filter.end);
        let bounds = (from.as_str(), to.as_str());
        let limit = MAX_SORTED.saturating_add(1);
        let entries = self.store.list_of_each(index, &partitions, bounds, Order::NewestFirst, limit).await?;
        if entries.len() > MAX_SORTED {
            return Err(too_many_to_sort());
        }
        let keys: Vec<Key> = entries.into_iter().map(|entry| entry.key).collect();
        let rows: Vec<StoredCharge> = self.store.get_in_order(&keys).await?;
        let payments = rows.into_iter().map(|charge| charge.read_at(now));
        let payments: Vec<Charge> = payments.filter(|charge| filter.matches(charge)).collect();
        let total = payments.len();
        let sorted = sort_by_field(payments, filter.sort_by, filter.order, public_urls).into_iter();
        let page = filter.page(sorted.skip(filter.offset()).take(filter.limit()).collect(), total);
        Ok(PaymentPage { has_more: total > filter.offset().saturating_add(filter.limit()), ..page })
    }

    /// Counts the matching payments, up to the checkpoint of the rollups. Without dates, the rollup of all time
    /// contains the number. With dates, adds the daily rollups of the whole days and the number of index entries
    /// in the partial days at either end.
    async fn count(&self, scope: &ShardedScope, filter: &PaymentFilter, now: Timestamp) -> Result<Counted> {
        let rollups = Rollups::new(self.store.clone());
        // No payment was created after `now`, so an end after it does not limit the list.
        let end = filter.end.filter(|end| *end < now);
        if filter.start.is_none() && end.is_none() {
            let (sums, checkpoint) = rollups.all_time(&scope.scope).await?;
            let number = sums.get(filter.counter());
            return Ok(Counted { number, checkpoint: Some(checkpoint), days: None });
        }
        let parts = RangeParts::split(filter.start, end);
        let (index, partitions) = filter.partitions(scope);
        let count_entries = async |part: Option<(Timestamp, Timestamp)>| match part {
            None => Ok(0),
            Some((from, to)) => {
                let (from, to) = sort_range(Some(from), Some(to));
                self.store.count_of_each(index, &partitions, (&from, &to)).await
            }
        };
        let read_days = async |days: Option<(Day, Day)>| match days {
            None => Ok(None),
            Some((first, last)) => rollups.for_days(&scope.scope, first, last).await.map(Some),
        };
        let (head, days, tail) =
            tokio::try_join!(count_entries(parts.head), read_days(parts.days), count_entries(parts.tail))?;
        let (days, checkpoint) = days.unzip();
        let of_days = days.iter().flatten().map(|row: &DayRow| row.sums.get(filter.counter()));
        let in_parts = i64::try_from(head.saturating_add(tail)).unwrap_or(i64::MAX);
        let number = of_days.fold(in_parts, i64::saturating_add);
        Ok(Counted { number, checkpoint, days: parts.days })
    }

    async fn with_later_changes(
        &self,
        scope: &ShardedScope,
        filter: &PaymentFilter,
        counted: &Counted,
    ) -> Result<usize> {
        let later = match counted.checkpoint.clone() {
            Some(checkpoint) => Rollups::new(self.store.clone()).changes_after(scope, checkpoint).await?,
            None => Vec::new(),
        };
        let is_within = |change: &&RollupChange| {
            counted.days.is_none_or(|(first, last)| (first..=last).contains(&change.day))
        };
        let later = later.iter().filter(is_within).map(|change| change.sums.get(filter.counter()));
        Ok(count_or_zero(later.fold(counted.number, i64::saturating_add)))
    }
}

/// A page of payments.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "PaymentList")]
pub struct PaymentListView<'a> {
    /// The payments of the page.
    data: Vec<PaymentView<'a>>,
    /// The number of payments that match the filter, on all pages.
    total: usize,
    /// The number of the page, as requested. `null` if the page was requested by `starting_after`.
    page: Option<u32>,
    /// The most payments of a page, as requested.
    limit: u32,
    /// Whether there are more payments after this page.
    has_more: bool,
    /// The `starting_after` of the next page. `null` on the last page.
    next_cursor: Option<RawChargeId>,
}

impl<'a> PaymentListView<'a> {
    pub fn new(page: &'a PaymentPage, public_urls: &PublicUrls) -> Self {
        Self {
            data: page.payments.iter().map(|payment| PaymentView::new(payment, public_urls)).collect(),
            total: page.total,
            page: page.page,
            limit: page.limit,
            has_more: page.has_more,
            next_cursor: page.next_cursor.map(RawChargeId::from),
        }
    }
}

/// Converts a count; a negative one becomes 0. A count can be negative: while the stream record of a charge's
/// entry into a status is quarantined, only the charge's exit from that status is counted.
fn count_or_zero(count: i64) -> usize {
    usize::try_from(count).unwrap_or_default()
}

/// A range of time, split at the midnights of `America/Sao_Paulo` into whole days and the partial days at
/// either end. All bounds are inclusive.
#[derive(Debug, Eq, PartialEq)]
struct RangeParts {
    head: Option<(Timestamp, Timestamp)>,
    days: Option<(Day, Day)>,
    tail: Option<(Timestamp, Timestamp)>,
}

impl RangeParts {
    fn split(from: Option<Timestamp>, to: Option<Timestamp>) -> Self {
        let (from, to) = (from.unwrap_or(Timestamp::MIN), to.unwrap_or(Timestamp::MAX));
        let (first, last) = (Day::of(from), Day::of(to));
        let (begins_within, ends_within) = (from > first.starts_at(), to < last.ends_at());
        if first == last && (begins_within || ends_within) {
            return Self { head: Some((from, to)), days: None, tail: None };
        }
        let first_whole = if begins_within { first.plus_days(1) } else { first };
        let last_whole = if ends_within { last.minus_days(1) } else { last };
        Self {
            head: begins_within.then(|| (from, first.ends_at())),
            days: (first_whole <= last_whole).then_some((first_whole, last_whole)),
            tail: ends_within.then(|| (last.starts_at(), to)),
        }
    }
}

/// The value of a field as a key to sort by. Booleans, lists and objects sort by their JSON text.
#[derive(Debug, Eq, Ord, PartialEq, PartialOrd)]
enum SortKey {
    Number(i64),
    /// An unsigned decimal number: the number of digits before the point, these digits, the decimals.
    Decimal(usize, String, String),
    Text(String),
}

impl SortKey {
    /// Reads a field of a charge as `GET /v1/payments/{id}` shows it. `None` when the field is `null`.
    fn from_field(charge: &Charge, field: &str, public_urls: &PublicUrls) -> Option<Self> {
        // The QR image is generated only if it is the field to sort by, because that takes longer than all
        // other fields together.
        let view = match field {
            "pixQrCode" => PaymentView::new(charge, public_urls),
            _ => PaymentView::without_qr_image(charge, public_urls),
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

/// Sorts payments by a field. Payments without a value come last in both directions. Equal payments are
/// sorted by creation and then by id, in the same direction.
fn sort_by_field(payments: Vec<Charge>, by: &str, order: SortOrder, public_urls: &PublicUrls) -> Vec<Charge> {
    let keyed = payments
        .into_iter()
        .map(|charge| (SortKey::from_field(&charge, by, public_urls), charge.list_sort(), charge));
    let mut keyed: Vec<_> = keyed.collect();
    keyed.sort_by(|(left, left_list_sort, _), (right, right_list_sort, _)| {
        let by_key = match (left, right) {
            (Some(left), Some(right)) => order.apply(left.cmp(right)),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => Ordering::Equal,
        };
        by_key.then_with(|| order.apply(left_list_sort.cmp(right_list_sort)))
    });
    keyed.into_iter().map(|(_, _, charge)| charge).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::charge_testing::{at, waiting};
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
        let sorted = sort_by_field(charges.to_vec(), by, order, &public_urls());
        sorted.iter().map(|charge| charge.created_at.millis_since(at(0)) / 1000).collect()
    }

    #[test]
    fn payments_with_equal_values_sort_by_creation_in_the_same_direction() {
        let charges: Vec<Charge> = (0..5).map(numbered).collect();
        assert_eq!(in_order(&charges, "amount", SortOrder::Ascending), [0, 2, 4, 1, 3]);
        assert_eq!(in_order(&charges, "amount", SortOrder::Descending), [3, 1, 4, 2, 0]);
        assert_eq!(in_order(&charges, "paidAt", SortOrder::Ascending), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn payments_without_a_value_come_last_in_both_directions() {
        let mut charges: Vec<Charge> = (0..3).map(numbered).collect();
        charges[1].artefacts.pix = None;
        assert_eq!(in_order(&charges, "pixCopyPaste", SortOrder::Ascending), [0, 2, 1]);
        assert_eq!(in_order(&charges, "pixCopyPaste", SortOrder::Descending), [2, 0, 1]);
    }

    #[test]
    fn crypto_amounts_sort_as_numbers_instead_of_as_text() {
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
                    invoice: None,
                    expires_at: at(0),
                };
                charge.artefacts.crypto = Some(crypto);
                charge
            })
            .collect();
        assert_eq!(in_order(&charges, "cryptoAmount", SortOrder::Ascending), [3, 1, 0, 2]);
    }

    fn day(text: &str) -> Day {
        text.parse().unwrap()
    }

    #[test]
    fn a_range_is_split_at_midnight_in_sao_paulo() {
        let at = |text: &str| Timestamp::parse_floor(text).unwrap();
        let parts = |from: &str, to: &str| RangeParts::split(Some(at(from)), Some(at(to)));
        assert_eq!(
            parts("2026-11-18T03:00:00Z", "2026-11-21T02:59:59.999Z"),
            RangeParts { head: None, days: Some((day("2026-11-18"), day("2026-11-20"))), tail: None }
        );
        assert_eq!(
            parts("2026-11-18T03:00:00.001Z", "2026-11-21T02:59:59.998Z"),
            RangeParts {
                head: Some((at("2026-11-18T03:00:00.001Z"), at("2026-11-19T02:59:59.999Z"))),
                days: Some((day("2026-11-19"), day("2026-11-19"))),
                tail: Some((at("2026-11-20T03:00:00Z"), at("2026-11-21T02:59:59.998Z"))),
            }
        );
        let within = (at("2026-11-18T12:00:00Z"), at("2026-11-18T13:00:00Z"));
        assert_eq!(
            RangeParts::split(Some(within.0), Some(within.1)),
            RangeParts { head: Some(within), days: None, tail: None }
        );
        assert_eq!(parts("2026-11-18T12:00:00Z", "2026-11-19T12:00:00Z").days, None);
        let open = RangeParts::split(Some(at("2026-11-18T03:00:00Z")), None);
        assert_eq!(open.days, Some((day("2026-11-18"), Day::of(Timestamp::MAX))));
        assert_eq!((open.head, open.tail), (None, None));
    }

    proptest! {
        #[test]
        fn every_instant_of_a_range_is_in_exactly_one_part(
            from in 0_i64..4_000_000_000_000,
            length in 0_i64..1_000_000_000,
            inside in 0.0_f64..1.0,
        ) {
            let millis = |millis: i64| Timestamp::from_millis(millis).unwrap();
            let (from, to) = (millis(from), millis(from + length));
            let parts = RangeParts::split(Some(from), Some(to));
            #[expect(clippy::as_conversions, clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "the exact value does not matter")]
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
