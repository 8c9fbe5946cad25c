//! Lists charges newest first, with filters and a cursor. A page costs at most five DynamoDB requests,
//! including that for authentication, at most three of them in sequence. An account with several shards costs
//! one query for each shard instead of one.

use domain::charge::{Charge, PublicStatus, StoredCharge, TransactionStatus};
use domain::ids::ChargeId;
use domain::row::sortable;
use domain::shard::ShardedScope;
use domain::tax_id::Document;
use domain::time::Timestamp;

use crate::charge::Charges;
use crate::http::field::{CHARGE_ID, CREATED_AFTER, CREATED_BEFORE, Definitions, LIMIT, Parsed, Word};
use crate::http::{Fields, Problem, Query};
use crate::store::{ListIndex, Page, PageError, StoreError};

/// Index entries read for a page that is filtered by both status and customer. No index covers both, so the
/// status is checked after the rows are read, and the page may have fewer charges than `limit` although more
/// follow.
const FILTERED_WINDOW: usize = 200;
const REVIEW_PAGE: usize = 100;

crate::fields! {
    STARTING_AFTER: Parsed<ChargeId> = "starting_after",
        CHARGE_ID, Optional, "ch_fe5392dd-e865-8656-a544-24ef3d590c1b",
        "The cursor: the `next_cursor` of the previous page, a charge id.";
    STATUS: Word<PublicStatus> = "status", Word::ALL, Optional, "paid",
        "Only charges with this status.";
    CUSTOMER_ID: Parsed<Document> = "customer_id",
        Parsed {
            chars: (1, Document::MAX_CHARS),
            pattern: None,
            format: None,
            parse: Document::parse,
            rule: "must be 1 to 32 characters without surrounding spaces",
        },
        Optional, "29537995593",
        "Only charges of this payer: the CPF, CNPJ or other document exactly as the charge's request sent it, as `expected_payer_tax_id` or else as `customer.document`. Together with `status`, a page may be shorter than `limit` while `has_more` is true.";
}

pub const CHARGES_QUERY: Definitions =
    &[&STATUS, &CUSTOMER_ID, &CREATED_AFTER, &CREATED_BEFORE, &LIMIT, &STARTING_AFTER];

#[derive(Clone, Debug)]
pub struct ChargeFilter {
    limit: usize,
    /// The last charge of the previous page.
    pub starting_after: Option<ChargeId>,
    status: Option<PublicStatus>,
    created_after: Option<Timestamp>,
    created_before: Option<Timestamp>,
    customer: Option<Document>,
}

pub type ChargePage = Page<Charge, ChargeId>;

impl ChargeFilter {
    /// Reports every invalid parameter at once. An unknown one is invalid too.
    pub fn parse(query: &Query) -> Result<Self, Problem> {
        let mut fields = Fields::new();
        query.allow_only(&mut fields, CHARGES_QUERY);
        let filter = Self {
            limit: query.count(&mut fields, &LIMIT),
            starting_after: query.read(&mut fields, &STARTING_AFTER),
            status: query.read(&mut fields, &STATUS),
            created_after: query.read(&mut fields, &CREATED_AFTER),
            created_before: query.read(&mut fields, &CREATED_BEFORE),
            customer: query.read(&mut fields, &CUSTOMER_ID),
        };
        fields.finish(Some(filter))
    }

    fn matches(&self, charge: &Charge) -> bool {
        self.status.is_none_or(|status| charge.status.public() == status)
            && self.customer.as_ref().is_none_or(|customer| charge.payer() == Some(customer.as_str()))
    }

    fn partitions(&self, scope: &ShardedScope) -> (ListIndex, Vec<String>) {
        match (&self.customer, self.status) {
            (Some(customer), _) => {
                (ListIndex::ByCustomer, vec![Charge::customer_partition(&scope.scope, customer.as_str())])
            }
            (None, Some(status)) => {
                let statuses = status.transaction_statuses().iter();
                let partitions = statuses.flat_map(|status| status_partitions(scope, *status));
                (ListIndex::ByStatus, partitions.collect())
            }
            (None, None) => (ListIndex::All, scope.partitions(Charge::list_partition)),
        }
    }
}

pub(crate) fn status_partitions(scope: &ShardedScope, status: TransactionStatus) -> Vec<String> {
    scope.partitions(|scope, shard| Charge::status_partition(scope, status, shard))
}

/// Both bounds are inclusive; `None` means no limit on that side.
pub(crate) fn sort_range(from: Option<Timestamp>, to: Option<Timestamp>) -> (String, String) {
    // DynamoDB refuses an empty string in a key condition; '0' sorts before every time.
    let from = from.map_or_else(|| "0".to_owned(), sortable);
    // An entry's sort key is a time, '#' and an id. '$' sorts after '#', so the range includes every entry of
    // the time `to`.
    (from, format!("{}$", sortable(to.unwrap_or(Timestamp::MAX))))
}

impl Charges {
    /// `cursor` is the charge with the id `starting_after`, which the caller has read.
    /// [`PageError::UnknownCursor`] when no charge of this scope has that id.
    pub async fn list(
        &self,
        scope: &ShardedScope,
        filter: &ChargeFilter,
        cursor: Option<StoredCharge>,
        now: Timestamp,
    ) -> Result<ChargePage, PageError> {
        let cursor = cursor.map(|charge| charge.read_at(now)).filter(|charge| charge.scope == scope.scope);
        if filter.starting_after.is_some() && cursor.is_none() {
            return Err(PageError::UnknownCursor("a charge of this account and mode"));
        }
        let (from, to) = sort_range(filter.created_after, filter.created_before);
        let cursor = cursor.map(|charge| charge.list_sort());
        let window =
            if filter.customer.is_some() && filter.status.is_some() { FILTERED_WINDOW } else { filter.limit };
        let (index, partitions) = filter.partitions(scope);
        let read = self.store.rows_after((index, &partitions), (&from, &to), cursor.as_deref(), window);
        let rows = read_at(read.await?, now);
        Ok(Page::of_matching(rows, filter.limit, |charge| filter.matches(charge), |charge| charge.id))
    }

    /// Newest first, after `cursor`. A page may contain few charges although more follow: charges whose card
    /// holders are authenticating have the same status and are left out.
    pub async fn held_for_review(
        &self,
        scope: &ShardedScope,
        cursor: Option<&StoredCharge>,
        now: Timestamp,
    ) -> Result<ChargePage, StoreError> {
        let cursor = cursor.map(|charge| charge.as_stored().list_sort());
        let partitions = status_partitions(scope, TransactionStatus::Processing);
        let list = (ListIndex::ByStatus, partitions.as_slice());
        let rows = self.store.rows_after(list, ("0", "~"), cursor.as_deref(), REVIEW_PAGE).await?;
        Ok(Page::of_matching(read_at(rows, now), REVIEW_PAGE, Charge::is_held_for_review, |charge| charge.id))
    }
}

/// Returns charges with the status that they have at `now`.
fn read_at((rows, has_more): (Vec<StoredCharge>, bool), now: Timestamp) -> (Vec<Charge>, bool) {
    (rows.into_iter().map(|charge| charge.read_at(now)).collect(), has_more)
}
