//! The statement of a wallet: every posting that moves the merchant's money, newest first. One query a page, by the
//! postings' own keys; ids sort as time does, and an id alone says where the next page begins.

use domain::ids::{PostingId, Scope};
use domain::money::{Currency, MinorUnits, MoneyError};
use domain::time::Timestamp;
use domain::wallet::{LedgerAccount, PRIMARY_CURRENCY, Posting};

use crate::http::{Fields, Problem, Query};
use crate::store::{Order, PageError, from_item};
use crate::wallet::Wallets;

const PARAMETERS: [&str; 5] = ["currency", "limit", "starting_after", "created_after", "created_before"];

/// What a client asks of the statement.
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
    /// The movements.
    pub postings: Vec<Posting>,
    /// Where the next page starts; `None` on the last one.
    pub next_cursor: Option<PostingId>,
}

/// How many movements a page has, unless asked otherwise, and at most.
#[derive(Clone, Copy, Debug)]
pub struct PageSize {
    /// Unless asked otherwise.
    pub default: u32,
    /// At most.
    pub max: u32,
}

impl StatementFilter {
    /// Reads a query string; every failing parameter is reported, an unknown one too.
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
    /// A page of a wallet's statement.
    ///
    /// # Errors
    ///
    /// When `starting_after` names no movement of this wallet.
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
        // One more to know whether there is more, one for the cursor itself, which the bound takes in.
        let wanted = filter.limit.saturating_add(2);
        let [from, to] = [from, to].map(|id| Posting::wallet_sort(filter.currency, id));
        let partition = Posting::partition(scope);
        let items = self.store.range(&partition, (&from, &to), Order::NewestFirst, wanted).await?;
        let postings: Vec<Posting> = items.into_iter().map(from_item).collect::<Result<_, _>>()?;
        if is_bounded_by_cursor && postings.first().map(|posting| posting.id) != cursor {
            return Err(PageError::UnknownCursor("a movement of this wallet"));
        }
        let mut postings: Vec<Posting> =
            postings.into_iter().filter(|posting| Some(posting.id) != cursor).collect();
        let more = postings.len() > filter.limit;
        postings.truncate(filter.limit);
        let next_cursor = postings.last().filter(|_| more).map(|posting| posting.id);
        Ok(StatementPage { postings, next_cursor })
    }
}

/// What a movement changed in a wallet.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Serialize)]
pub struct Changes {
    /// Of what can be spent.
    pub available: MinorUnits,
    /// Of what is held.
    pub pending: MinorUnits,
    /// Of what is retained.
    pub retained: MinorUnits,
}

impl Changes {
    /// Of a posting.
    pub fn of(posting: &Posting) -> Result<Self, MoneyError> {
        Ok(Self {
            available: posting.change(LedgerAccount::MerchantAvailable)?,
            pending: posting.change(LedgerAccount::MerchantPending)?,
            retained: posting.change(LedgerAccount::MerchantRetained)?,
        })
    }
}
