//! Lists MED cases newest first, with filters and a cursor (contract: MED cases). The cost of a page is
//! bounded: it grows neither with the number of cases nor with the number of those that do not match the
//! filters.

use domain::charge::Charge;
use domain::ids::{ChargeId, MedCaseId, Scope};
use domain::med::{CASE_SORT, CaseKind, CaseStatus, MedCase};
use domain::row::{Key, sortable};
use domain::time::Timestamp;
use domain::vocabulary::Vocabulary;

use crate::http::{Fields, Problem, Query};
use crate::med::MedCases;
use crate::store::{ListEntry, ListIndex, Order, PageError, StoreError};

/// The number of cases on a page when the query has no `limit` (contract: Limits).
const DEFAULT_LIMIT: u32 = 25;

/// The largest `limit` (contract: Limits).
const MAX_LIMIT: u32 = 100;

/// The number of index entries read for one page that is filtered by both status and type. No index covers
/// both, so the type is checked after the rows are read. Such a page may hold fewer cases than `limit`
/// although more follow.
const FILTERED_WINDOW: usize = 200;

const PARAMETERS: [&str; 7] =
    ["limit", "starting_after", "status", "type", "charge_id", "created_after", "created_before"];

/// The query parameters of the list, validated.
#[derive(Clone, Debug)]
pub struct CaseFilter {
    limit: usize,
    /// The cursor: [`CasePage::next_cursor`] of the previous page.
    pub starting_after: Option<MedCaseId>,
    status: Option<CaseStatus>,
    kind: Option<CaseKind>,
    charge: Option<ChargeId>,
    created_after: Option<Timestamp>,
    created_before: Option<Timestamp>,
}

/// A page of cases, newest first.
#[derive(Debug)]
pub struct CasePage {
    /// The cases, at most `limit`.
    pub cases: Vec<MedCase>,
    /// The `starting_after` of the next page; `None` on the last page.
    pub next_cursor: Option<MedCaseId>,
}

impl CaseFilter {
    /// Parses a query string.
    ///
    /// # Errors
    ///
    /// Reports every failing parameter at once; an unknown parameter fails too.
    pub fn parse(query: &Query) -> Result<Self, Problem> {
        let mut fields = Fields::new();
        query.allow_only(&mut fields, &PARAMETERS);
        let limit = query.integer(&mut fields, "limit", 1, MAX_LIMIT, DEFAULT_LIMIT);
        let starting_after =
            query.parsed(&mut fields, "starting_after", "must be a case id (med_…)", |text| {
                text.parse().ok()
            });
        let charge =
            query.parsed(&mut fields, "charge_id", "must be a charge id (ch_…)", |text| text.parse().ok());
        let filter = Self {
            limit: usize::try_from(limit).unwrap_or_default(),
            starting_after,
            status: query.one_of(&mut fields, "status", &CaseStatus::vocabulary()),
            kind: query.one_of(&mut fields, "type", &CaseKind::vocabulary()),
            charge,
            // These bounds are exclusive, unlike those of other lists (contract: MED cases).
            created_after: query.after(&mut fields, "created_after"),
            created_before: query.before(&mut fields, "created_before"),
        };
        fields.finish(Some(filter))
    }

    /// Creates a filter by status alone, with the largest page.
    pub fn by_status(status: Option<CaseStatus>, starting_after: Option<MedCaseId>) -> Self {
        Self {
            limit: usize::try_from(MAX_LIMIT).unwrap_or_default(),
            starting_after,
            status,
            kind: None,
            charge: None,
            created_after: None,
            created_before: None,
        }
    }

    fn matches(&self, case: &MedCase) -> bool {
        self.status.is_none_or(|status| case.status == status)
            && self.kind.is_none_or(|kind| case.kind == kind)
            && self.created_after.is_none_or(|after| case.created_at > after)
            && self.created_before.is_none_or(|before| case.created_at < before)
    }

    fn partition(&self, scope: &Scope) -> (ListIndex, String) {
        match (self.status, self.kind) {
            (Some(status), _) => (ListIndex::ByStatus, MedCase::status_partition(scope, status)),
            // Cases are not listed by customer. Their rows use the partition key of that index for the type
            // instead.
            (None, Some(kind)) => (ListIndex::ByCustomer, MedCase::kind_partition(scope, kind)),
            (None, None) => (ListIndex::All, MedCase::list_partition(scope)),
        }
    }
}

impl MedCases {
    /// Reads a page of a scope's cases. `cursor` is the case that `starting_after` names; the caller has read
    /// it.
    ///
    /// # Errors
    ///
    /// [`PageError::UnknownCursor`] when `starting_after` names no case of this scope.
    pub async fn list(
        &self,
        scope: &Scope,
        filter: &CaseFilter,
        cursor: Option<MedCase>,
    ) -> Result<CasePage, PageError> {
        let cursor = cursor.filter(|case| case.scope == *scope);
        if filter.starting_after.is_some() && cursor.is_none() {
            return Err(PageError::UnknownCursor("a case of this account and mode"));
        }
        let cursor = cursor.map(|case| case.list_sort());
        if let Some(charge) = filter.charge {
            return Ok(self.list_for_charge(scope, charge, filter, cursor.as_deref()).await?);
        }
        // An entry's sort key is a time, '#' and the case's id. '$' sorts after '#', so `from` excludes the
        // entries of the time `created_after`. A time alone sorts before its entries, so `to` excludes those
        // of `created_before`.
        let from =
            filter.created_after.map_or_else(|| "0".to_owned(), |after| format!("{}$", sortable(after)));
        let to = filter.created_before.map_or_else(|| format!("{}$", sortable(Timestamp::MAX)), sortable);
        let to = cursor.clone().filter(|cursor| *cursor < to).unwrap_or(to);
        if from > to {
            return Ok(CasePage { cases: Vec::new(), next_cursor: None });
        }
        let window =
            if filter.status.is_some() && filter.kind.is_some() { FILTERED_WINDOW } else { filter.limit };
        let (index, partition) = filter.partition(scope);
        // Reads two extra entries: the cursor's own entry, which the range includes, and one that shows
        // whether more follow.
        let limit = window.saturating_add(2);
        let mut entries = self.store.list(index, &partition, (&from, &to), Order::NewestFirst, limit).await?;
        entries.retain(|entry| Some(&entry.sort) != cursor.as_ref());
        let more_entries = entries.len() > window;
        entries.truncate(window);
        Ok(self.page(filter, &entries, more_entries).await?)
    }

    async fn page(
        &self,
        filter: &CaseFilter,
        entries: &[ListEntry],
        more_entries: bool,
    ) -> Result<CasePage, StoreError> {
        let keys: Vec<Key> = entries.iter().map(|entry| entry.key.clone()).collect();
        let cases: Vec<MedCase> = self.store.get_in_order(&keys).await?;
        let last_read = cases.last().map(|case| case.id);
        Ok(page_of(filter, cases, last_read.filter(|_| more_entries)))
    }

    /// Reads a page of one charge's cases. They are few and share the charge's partition, so all of them are
    /// read.
    async fn list_for_charge(
        &self,
        scope: &Scope,
        charge: ChargeId,
        filter: &CaseFilter,
        cursor: Option<&str>,
    ) -> Result<CasePage, StoreError> {
        let pk = Charge::key_of(charge).pk;
        let mut cases: Vec<MedCase> = self.store.rows_of_prefix(&pk, CASE_SORT).await?;
        cases.retain(|case| case.scope == *scope);
        cases.retain(|case| cursor.is_none_or(|cursor| case.list_sort().as_str() < cursor));
        cases.sort_by_key(|case| std::cmp::Reverse(case.list_sort()));
        Ok(page_of(filter, cases, None))
    }
}

/// Builds a page of the cases that match, at most `limit`. If more than `limit` match, the next page starts
/// after the last case of this page. Otherwise its cursor is `next`; `None` means that there is no next page.
fn page_of(filter: &CaseFilter, cases: Vec<MedCase>, next: Option<MedCaseId>) -> CasePage {
    let mut matching: Vec<MedCase> = cases.into_iter().filter(|case| filter.matches(case)).collect();
    let is_cut = matching.len() > filter.limit;
    matching.truncate(filter.limit);
    let next_cursor = if is_cut { matching.last().map(|case| case.id) } else { next };
    CasePage { cases: matching, next_cursor }
}
