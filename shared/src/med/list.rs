//! Lists of cases: newest first, by cursor, with filters (contract: MED cases). A page costs the same however many cases
//! there are and however rare those that match.

use domain::charge::Charge;
use domain::ids::{ChargeId, MedCaseId, Scope};
use domain::med::{CaseKind, CaseStatus, MedCase, SORT};
use domain::row::{Key, sortable};
use domain::time::Timestamp;
use domain::vocabulary::Vocabulary;

use crate::http::{Fields, Problem, Query};
use crate::med::MedCases;
use crate::store::{ListIndex, Listed, Order, PageError, StoreError};

/// Cases on a page, unless asked otherwise, and at most (contract: Limits).
const DEFAULT_LIMIT: u32 = 25;
const MAX_LIMIT: u32 = 100;

/// Entries looked at for a page by status and type at once: it may hold fewer cases than asked for and still have more to
/// come.
const FILTERED_WINDOW: usize = 200;

const PARAMETERS: [&str; 7] =
    ["limit", "starting_after", "status", "type", "charge_id", "created_after", "created_before"];

/// What a client asks of the list.
#[derive(Clone, Debug)]
pub struct CaseFilter {
    limit: usize,
    /// The last case of the page before.
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
    /// The cases.
    pub cases: Vec<MedCase>,
    /// Where the next page starts; `None` on the last one.
    pub next_cursor: Option<MedCaseId>,
}

impl CaseFilter {
    /// Reads a query string; every failing parameter is reported, an unknown one too.
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
            // Exclusive, unlike those of other lists (contract: MED cases).
            created_after: query.after(&mut fields, "created_after"),
            created_before: query.before(&mut fields, "created_before"),
        };
        fields.finish(Some(filter))
    }

    /// As many as a page has, of any kind and time.
    pub fn latest(status: Option<CaseStatus>, starting_after: Option<MedCaseId>) -> Self {
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

    fn admits(&self, case: &MedCase) -> bool {
        self.status.is_none_or(|status| case.status == status)
            && self.kind.is_none_or(|kind| case.kind == kind)
            && self.created_after.is_none_or(|after| case.created_at > after)
            && self.created_before.is_none_or(|before| case.created_at < before)
    }

    fn partition(&self, scope: &Scope) -> (ListIndex, String) {
        match (self.status, self.kind) {
            (Some(status), _) => (ListIndex::ByStatus, MedCase::status_partition(scope, status)),
            (None, Some(kind)) => (ListIndex::ByCustomer, MedCase::kind_partition(scope, kind)),
            (None, None) => (ListIndex::All, MedCase::list_partition(scope)),
        }
    }
}

impl MedCases {
    /// A page of a scope's cases. `cursor` is the case that `starting_after` names, read beforehand.
    ///
    /// # Errors
    ///
    /// 400 when `starting_after` names no case of this scope.
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
            return Ok(self.of_charge(scope, charge, filter, cursor.as_deref()).await?);
        }
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
        // One more to know whether there is more, one for the cursor itself, whose entry the bound takes in.
        let wanted = window.saturating_add(2);
        let mut entries =
            self.store.list(index, &partition, (&from, &to), Order::NewestFirst, wanted).await?;
        entries.retain(|entry| Some(&entry.sort) != cursor.as_ref());
        let more_entries = entries.len() > window;
        entries.truncate(window);
        Ok(self.page(filter, &entries, more_entries).await?)
    }

    async fn page(
        &self,
        filter: &CaseFilter,
        entries: &[Listed],
        more_entries: bool,
    ) -> Result<CasePage, StoreError> {
        let keys: Vec<Key> = entries.iter().map(|entry| entry.key.clone()).collect();
        let cases: Vec<MedCase> = self.store.get_in_order(&keys).await?;
        let last_seen = cases.last().map(|case| case.id);
        Ok(cut(filter, cases, last_seen.filter(|_| more_entries)))
    }

    /// The cases of one charge are few, and in its partition.
    async fn of_charge(
        &self,
        scope: &Scope,
        charge: ChargeId,
        filter: &CaseFilter,
        cursor: Option<&str>,
    ) -> Result<CasePage, StoreError> {
        let pk = Charge::key_of(charge).pk;
        let mut cases: Vec<MedCase> = self.store.rows_of_prefix(&pk, SORT).await?;
        cases.retain(|case| case.scope == *scope);
        cases.retain(|case| cursor.is_none_or(|cursor| case.list_sort().as_str() < cursor));
        cases.sort_by_key(|case| std::cmp::Reverse(case.list_sort()));
        Ok(cut(filter, cases, None))
    }
}

/// Those that match, as many as asked for. `more`: where the next page starts if these are not too many.
fn cut(filter: &CaseFilter, cases: Vec<MedCase>, more: Option<MedCaseId>) -> CasePage {
    let mut admitted: Vec<MedCase> = cases.into_iter().filter(|case| filter.admits(case)).collect();
    let is_cut = admitted.len() > filter.limit;
    admitted.truncate(filter.limit);
    let next_cursor = if is_cut { admitted.last().map(|case| case.id) } else { more };
    CasePage { cases: admitted, next_cursor }
}
