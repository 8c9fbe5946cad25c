//! The statement of a wallet: every posting that moves the merchant's money, newest first. Merchants see each
//! of these postings as a movement (`mv_…`).
//!
//! Posting ids are ULIDs, which sort by time, and the rows' sort keys end in them. So a page is one query on
//! the table's own keys, without an index. The cursor is a posting's id.

use domain::ids::{PostingId, Scope};
use domain::money::{Currency, MinorUnits, MoneyError};
use domain::time::Timestamp;
use domain::wallet::{LedgerAccount, PRIMARY_CURRENCY, Posting};

use crate::http::{Fields, Problem, Query};
use crate::store::{Order, PageError, from_item};
use crate::wallet::Wallets;

const PARAMETERS: [&str; 5] = ["currency", "limit", "starting_after", "created_after", "created_before"];

/// The query parameters of a statement, validated.
#[derive(Clone, Debug)]
pub struct StatementFilter {
    currency: Currency,
    limit: usize,
    starting_after: Option<PostingId>,
    created_after: Option<Timestamp>,
    created_before: Option<Timestamp>,
}

/// A page of a statement, newest first.
#[derive(Debug)]
pub struct StatementPage {
    /// The movements, at most the requested `limit`.
    pub postings: Vec<Posting>,
    /// The `starting_after` of the next page; `None` on the last page.
    pub next_cursor: Option<PostingId>,
}

/// The number of movements on a page.
#[derive(Clone, Copy, Debug)]
pub struct PageSize {
    /// The number if the request has no `limit`.
    pub default: u32,
    /// The largest `limit`.
    pub max: u32,
}

impl StatementFilter {
    /// Parses a query string.
    ///
    /// # Errors
    ///
    /// Lists all invalid and unknown parameters in one error.
    pub fn parse(query: &Query, size: PageSize) -> Result<Self, Problem> {
        let mut fields = Fields::new();
        query.allow_only(&mut fields, &PARAMETERS);
        let limit = query.integer(&mut fields, "limit", 1, size.max, size.default);
        let starting_after =
            query.parsed(&mut fields, "starting_after", "must be a movement id (mv_…)", |text| {
                text.parse().ok()
            });
        let filter = Self {
            currency: query.currency(&mut fields, "currency").unwrap_or(PRIMARY_CURRENCY),
            limit: usize::try_from(limit).unwrap_or_default(),
            starting_after,
            created_after: query.not_before(&mut fields, "created_after"),
            created_before: query.not_after(&mut fields, "created_before"),
        };
        fields.finish(Some(filter))
    }
}

impl Wallets {
    /// Reads a page of a wallet's statement.
    ///
    /// # Errors
    ///
    /// [`PageError::UnknownCursor`] when `starting_after` names no movement of this wallet. A cursor newer
    /// than `created_before` is not checked, because it does not limit the page.
    pub async fn statement(
        &self,
        scope: &Scope,
        filter: &StatementFilter,
    ) -> Result<StatementPage, PageError> {
        let from = PostingId::first_at(filter.created_after.unwrap_or(Timestamp::MIN));
        let to = PostingId::last_at(filter.created_before.unwrap_or(Timestamp::MAX));
        let cursor = filter.starting_after;
        let is_bounded_by_cursor = cursor.is_some_and(|cursor| cursor < to);
        let to = cursor.filter(|_| is_bounded_by_cursor).unwrap_or(to);
        if from > to {
            return Ok(StatementPage { postings: Vec::new(), next_cursor: None });
        }
        // Two more than the limit: the range includes the cursor itself, and one extra posting shows whether
        // more follow.
        let limit = filter.limit.saturating_add(2);
        let [from, to] = [from, to].map(|id| Posting::wallet_sort(filter.currency, id));
        let partition = Posting::partition(scope);
        let items = self.store.range(&partition, (&from, &to), Order::NewestFirst, limit).await?;
        let postings: Vec<Posting> = items.into_iter().map(from_item).collect::<Result<_, _>>()?;
        if is_bounded_by_cursor && postings.first().map(|posting| posting.id) != cursor {
            return Err(PageError::UnknownCursor("a movement of this wallet"));
        }
        let mut postings: Vec<Posting> =
            postings.into_iter().filter(|posting| Some(posting.id) != cursor).collect();
        let has_more = postings.len() > filter.limit;
        postings.truncate(filter.limit);
        let next_cursor = postings.last().filter(|_| has_more).map(|posting| posting.id);
        Ok(StatementPage { postings, next_cursor })
    }
}

/// The changes that a movement makes to a wallet, in minor units.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Serialize)]
pub struct BalanceChanges {
    /// The change of the available balance.
    pub available: MinorUnits,
    /// The change of the pending balance: settled money that is still held.
    pub pending: MinorUnits,
    /// The change of the money retained for MED cases.
    pub retained: MinorUnits,
}

impl BalanceChanges {
    /// Sums the transfers of a posting.
    ///
    /// # Errors
    ///
    /// When a sum does not fit 64 bits.
    pub fn from_posting(posting: &Posting) -> Result<Self, MoneyError> {
        Ok(Self {
            available: posting.change(LedgerAccount::MerchantAvailable)?,
            pending: posting.change(LedgerAccount::MerchantPending)?,
            retained: posting.change(LedgerAccount::MerchantRetained)?,
        })
    }
}
