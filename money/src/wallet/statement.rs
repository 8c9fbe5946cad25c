//! The statement of a wallet: every posting that moves the merchant's money, newest first. Posting ids sort by
//! time, and the rows' sort keys end in them. So a page is one query of each shard, without an index.

use domain::ids::PostingId;
use domain::money::{Currency, MinorUnits, MoneyError};
use domain::shard::ShardedScope;
use domain::time::Timestamp;
use domain::wallet::{LedgerAccount, PRIMARY_CURRENCY, Posting};

use crate::wallet::Wallets;
use shared::http::field::{
    CREATED_AFTER, CREATED_BEFORE, CURRENCY_CODE, Count, Definitions, Field, LIMIT, Parsed, Presence,
};
use shared::http::{Fields, Problem, Query};
use shared::store::{ListPage, PageError, PageRange};

shared::fields! {
    CURRENCY: Parsed<Currency> = "currency", CURRENCY_CODE, DefaultsTo("BRL"), "BRL",
        "The currency of the wallet: a code of ISO 4217, `BTC`, `USDC` or `USDT`.";
    STARTING_AFTER: Parsed<PostingId> = "starting_after",
        Parsed::id("must be a movement id (mv_…)"),
        Optional, "mv_01kb5cpq4t0000000000000000",
        "The cursor: the `next_cursor` of the previous page, a movement id.";
}

const PAGE_SIZE: Field<Count> = Field {
    text: "The largest number of movements on a page. With `Accept: text/csv`, the default and the maximum are 1000.",
    ..LIMIT
};

/// 1,000 movements are about a month of a small shop, and their rows are about 500 KB, which one query reads.
const CSV_PAGE_SIZE: Field<Count> = Field {
    kind: Count { min: 1, max: 1_000, hint: "" },
    presence: Presence::DefaultsTo("1000"),
    ..PAGE_SIZE
};

pub const STATEMENT_QUERY: Definitions =
    &[&CURRENCY, &CREATED_AFTER, &CREATED_BEFORE, &PAGE_SIZE, &STARTING_AFTER];

pub const CSV_STATEMENT_QUERY: Definitions =
    &[&CURRENCY, &CREATED_AFTER, &CREATED_BEFORE, &CSV_PAGE_SIZE, &STARTING_AFTER];

#[derive(Clone, Debug)]
pub struct StatementFilter {
    pub currency: Currency,
    limit: usize,
    starting_after: Option<PostingId>,
    created_after: Option<Timestamp>,
    created_before: Option<Timestamp>,
}

pub type StatementPage = ListPage<Posting, PostingId>;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum StatementFormat {
    Json,
    Csv,
}

impl StatementFilter {
    /// Lists all invalid and unknown parameters in one error.
    pub fn parse(query: &Query, format: StatementFormat) -> Result<Self, Problem> {
        let (known, page_size) = match format {
            StatementFormat::Json => (STATEMENT_QUERY, PAGE_SIZE),
            StatementFormat::Csv => (CSV_STATEMENT_QUERY, CSV_PAGE_SIZE),
        };
        let mut fields = Fields::new();
        query.allow_only(&mut fields, known);
        let filter = Self {
            limit: query.count(&mut fields, &page_size),
            starting_after: query.read(&mut fields, &STARTING_AFTER),
            currency: query.read(&mut fields, &CURRENCY).unwrap_or(PRIMARY_CURRENCY),
            created_after: query.read(&mut fields, &CREATED_AFTER),
            created_before: query.read(&mut fields, &CREATED_BEFORE),
        };
        fields.finish(Some(filter))
    }

    /// The page after a movement.
    #[must_use]
    pub fn after(self, last: PostingId) -> Self {
        Self { starting_after: Some(last), ..self }
    }
}

const BALANCE_CURRENCY: Field<Parsed<Currency>> = Field {
    presence: Presence::Optional,
    text: "The currency of the only wallet to show, in a shorter response. The default is all wallets.",
    ..CURRENCY
};

pub const BALANCE_QUERY: Definitions = &[&BALANCE_CURRENCY];

/// `None`: all wallets are shown.
pub fn balance_currency(query: &Query) -> Result<Option<Currency>, Problem> {
    let mut fields = Fields::new();
    query.allow_only(&mut fields, BALANCE_QUERY);
    let currency = query.read(&mut fields, &BALANCE_CURRENCY);
    fields.finish(Some(currency))
}

impl Wallets {
    /// [`PageError::UnknownCursor`] when `starting_after` names no movement of this wallet. A cursor newer than
    /// `created_before` is not checked, because it does not limit the page.
    pub async fn statement(
        &self,
        scope: &ShardedScope,
        filter: &StatementFilter,
    ) -> Result<StatementPage, PageError> {
        let from = PostingId::first_at(filter.created_after.unwrap_or(Timestamp::MIN));
        let to = PostingId::last_at(filter.created_before.unwrap_or(Timestamp::MAX));
        let cursor = filter.starting_after;
        let is_bounded_by_cursor = cursor.is_some_and(|cursor| cursor < to);
        let to = cursor.filter(|_| is_bounded_by_cursor).unwrap_or(to);
        // The cursor is read too, because it must exist.
        let limit = filter.limit.saturating_add(usize::from(is_bounded_by_cursor));
        let sorts = [from, to].map(|id| Posting::wallet_sort(filter.currency, id));
        let page = PageRange::newest_first((&sorts[0], &sorts[1]), None, limit);
        let partitions = scope.partitions(Posting::partition);
        let (mut postings, has_more): (Vec<Posting>, bool) = self.store.table_page(&partitions, page).await?;
        if is_bounded_by_cursor && from <= to && postings.first().map(|posting| posting.id) != cursor {
            return Err(PageError::UnknownCursor("a movement of this wallet"));
        }
        postings.retain(|posting| Some(posting.id) != cursor);
        Ok(ListPage::of_matching((postings, has_more), filter.limit, |_| true, |posting| posting.id))
    }
}

/// The changes that a movement makes to a wallet, in minor units.
#[derive(Clone, Copy, Debug, Eq, PartialEq, schemars::JsonSchema, serde::Serialize)]
pub struct BalanceChanges {
    /// The change of the available balance.
    pub available: MinorUnits,
    /// The change of the pending balance: settled money that is still held.
    pub pending: MinorUnits,
    /// The change of the money retained for MED cases.
    pub retained: MinorUnits,
}

impl BalanceChanges {
    /// Fails when a sum does not fit 64 bits.
    pub(crate) fn from_posting(posting: &Posting) -> Result<Self, MoneyError> {
        Ok(Self {
            available: posting.change(LedgerAccount::MerchantAvailable)?,
            pending: posting.change(LedgerAccount::MerchantPending)?,
            retained: posting.change(LedgerAccount::MerchantRetained)?,
        })
    }
}
