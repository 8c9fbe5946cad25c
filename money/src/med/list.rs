//! Lists MED cases newest first, with filters and a cursor. The cost of a page grows neither with the number of
//! cases nor with the number of those that do not match the filters.

use domain::charge::Charge;
use domain::ids::{ChargeId, MedCaseId, Scope};
use domain::med::{CASE_SORT, CaseKind, CaseStatus, MedCase};
use domain::row::{Key, sortable};
use domain::time::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use strum::{IntoStaticStr, VariantArray};

use crate::med::MedCases;
use shared::http::field::{CHARGE_ID, Count, Definitions, Field, LIMIT, Parsed, TimeBound, Word};
use shared::http::{Fields, Problem, Query};
use shared::store::{ListIndex, ListPage, PageError, PageRange, StoreError};

/// Cases on a page of the dashboard: as many read units, or more if they have long texts.
pub const SHOWN: usize = 25;

/// The most open cases that are sorted by their deadlines: about 30 read units. Cases beyond are the newest ones, whose
/// deadlines are usually the latest.
pub const MOST_SORTED: usize = 1_000;

/// The most cases of a list by deadline without `limit`: two requests read their rows.
pub const MOST_NEAREST: usize = 200;

/// Index entries read for a page that is filtered by both status and type. No index covers both, so the type is
/// checked after the rows are read, and the page may have fewer cases than `limit` although more follow.
const FILTERED_WINDOW: usize = 200;

shared::fields! {
    STARTING_AFTER: Parsed<MedCaseId> = "starting_after",
        Parsed::id("must be a case id (med_…)"),
        Optional, "med_7yajwdvt35gsbahg94yx2nj73v0123456789abcdef",
        "The cursor: the `next_cursor` of the previous page, a case id.";
    STATUS: Word<CaseStatus> = "status", Word::ALL, Optional, "open",
        "Only cases with this status.";
    TYPE: Word<CaseKind> = "type", Word::ALL, Optional, "med",
        "Only cases of this type.";
    CHARGE: Parsed<ChargeId> = "charge_id", CHARGE_ID, Optional, "ch_fe5392dd-e865-8656-a544-24ef3d590c1b",
        "Only cases of this charge.";
    /// The bounds are exclusive, unlike those of other lists.
    CREATED_AFTER: TimeBound = "created_after", TimeBound::AFTER, Optional, "2026-11-01",
        "Only cases created after this time. A date without a time means the first millisecond of that day in São Paulo.";
    CREATED_BEFORE: TimeBound = "created_before", TimeBound::BEFORE, Optional, "2026-12-01",
        "Only cases created before this time. A date without a time means the first millisecond of that day in São Paulo.";
    DEADLINE_BEFORE: TimeBound = "deadline_before", TimeBound::BEFORE, Optional, "2026-12-01",
        "Only open cases whose deadline is before this time, the nearest deadline first, those that have passed included. Excludes all parameters but `sort`, `limit`, `starting_after` and `status=open`.";
    SORT: Word<CaseSort> = "sort", Word::ALL, Optional, "deadline",
        "`deadline`: the open cases, the nearest deadline first, those without a deadline last. Without `limit`, the nearest 200. Of more than 1,000 open cases, the 1,000 that opened first are sorted.";
}

/// An order of the list other than the newest first.
#[derive(Clone, Copy, Debug, Eq, IntoStaticStr, JsonSchema, PartialEq, Serialize, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
#[schemars(rename = "MedCaseSort", description = "An order of a list of cases.")]
pub enum CaseSort {
    /// The nearest deadline first.
    Deadline,
}

domain::named!(CaseSort);

const PAGE_SIZE: Field<Count> = Field {
    text: "The largest number of cases on a page. With both `status` and `type`, a page may be shorter while `has_more` is true.",
    ..LIMIT
};

pub const CASES_QUERY: Definitions = &[
    &STATUS,
    &TYPE,
    &CHARGE,
    &CREATED_AFTER,
    &CREATED_BEFORE,
    &DEADLINE_BEFORE,
    &SORT,
    &PAGE_SIZE,
    &STARTING_AFTER,
];

#[derive(Clone, Debug)]
pub struct CaseFilter {
    limit: usize,
    pub starting_after: Option<MedCaseId>,
    status: Option<CaseStatus>,
    kind: Option<CaseKind>,
    charge: Option<ChargeId>,
    created_after: Option<Timestamp>,
    created_before: Option<Timestamp>,
}

/// A list of open cases, the nearest deadline first.
#[derive(Clone, Copy, Debug)]
pub struct DeadlineFilter {
    pub limit: usize,
    pub starting_after: Option<MedCaseId>,
    /// Exclusive.
    pub before: Option<Timestamp>,
}

/// The two kinds of lists of cases.
#[derive(Clone, Debug)]
pub enum CaseQuery {
    Newest(CaseFilter),
    Nearest(DeadlineFilter),
}

impl CaseQuery {
    /// Reports every failing parameter at once; an unknown parameter fails too.
    pub fn parse(query: &Query) -> Result<Self, Problem> {
        let mut fields = Fields::new();
        query.allow_only(&mut fields, CASES_QUERY);
        let newest = CaseFilter::read(query, &mut fields);
        let before = query.read(&mut fields, &DEADLINE_BEFORE);
        let sort = query.read(&mut fields, &SORT);
        if before.is_none() && sort.is_none() {
            return fields.finish(Some(Self::Newest(newest)));
        }
        let excluded = [
            (STATUS.name, newest.status.is_some_and(|status| status != CaseStatus::Open)),
            (TYPE.name, newest.kind.is_some()),
            (CHARGE.name, newest.charge.is_some()),
            (CREATED_AFTER.name, newest.created_after.is_some()),
            (CREATED_BEFORE.name, newest.created_before.is_some()),
        ];
        for (name, _) in excluded.into_iter().filter(|(_, is_given)| *is_given) {
            fields.reject(
                name,
                "can't be combined with `deadline_before` or `sort`, which list open cases only",
            );
        }
        let limit = query.text(LIMIT.name).map_or(MOST_NEAREST, |_| newest.limit);
        let starting_after = newest.starting_after;
        fields.finish(Some(Self::Nearest(DeadlineFilter { limit, starting_after, before })))
    }

    pub fn starting_after(&self) -> Option<MedCaseId> {
        match self {
            Self::Newest(filter) => filter.starting_after,
            Self::Nearest(filter) => filter.starting_after,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct OpenCase {
    /// `None`: the bank set no deadline.
    pub due: Option<Timestamp>,
    pub id: MedCaseId,
}

impl OpenCase {
    /// Those without a deadline come last.
    fn rank(&self) -> (Timestamp, MedCaseId) {
        (self.due.unwrap_or(Timestamp::MAX), self.id)
    }

    /// The cases after that of a cursor, which may have ended since.
    pub fn after<'a>(cases: &'a [Self], cursor: &MedCase) -> &'a [Self] {
        let cursor = Self { due: cursor.response_deadline, id: cursor.id };
        let next = cases.iter().position(|case| case.id == cursor.id).map(|at| at.saturating_add(1));
        let next = next.unwrap_or_else(|| cases.partition_point(|case| case.rank() <= cursor.rank()));
        cases.get(next..).unwrap_or_default()
    }
}

pub type CasePage = ListPage<MedCase, MedCaseId>;

impl CaseFilter {
    fn read(query: &Query, fields: &mut Fields) -> Self {
        Self {
            limit: query.count(fields, &PAGE_SIZE),
            starting_after: query.read(fields, &STARTING_AFTER),
            charge: query.read(fields, &CHARGE),
            status: query.read(fields, &STATUS),
            kind: query.read(fields, &TYPE),
            created_after: query.read(fields, &CREATED_AFTER),
            created_before: query.read(fields, &CREATED_BEFORE),
        }
    }

    pub fn by_status(status: impl Into<Option<CaseStatus>>, starting_after: Option<MedCaseId>) -> Self {
        Self {
            limit: SHOWN,
            starting_after,
            status: status.into(),
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

    fn page(&self, rows: (Vec<MedCase>, bool)) -> CasePage {
        ListPage::of_matching(rows, self.limit, |case| self.matches(case), |case| case.id)
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

/// [`PageError::UnknownCursor`] when `starting_after` names no case of this scope.
fn own_cursor(
    scope: &Scope,
    starting_after: Option<MedCaseId>,
    cursor: Option<MedCase>,
) -> Result<Option<MedCase>, PageError> {
    let cursor = cursor.filter(|case| case.scope == *scope);
    if starting_after.is_some() && cursor.is_none() {
        return Err(PageError::UnknownCursor("a case of this account and mode"));
    }
    Ok(cursor)
}

impl MedCases {
    /// `cursor` is the case that `starting_after` names, which the caller has read.
    /// [`PageError::UnknownCursor`] when it names no case of this scope.
    pub async fn list(
        &self,
        scope: &Scope,
        filter: &CaseFilter,
        cursor: Option<MedCase>,
    ) -> Result<CasePage, PageError> {
        let cursor = own_cursor(scope, filter.starting_after, cursor)?.map(|case| case.list_sort());
        if let Some(charge) = filter.charge {
            return Ok(self.list_for_charge(scope, charge, filter, cursor.as_deref()).await?);
        }
        // An entry's sort key is a time, '#' and the case's id. '$' sorts after '#', so `from` excludes the
        // entries of the time `created_after`. A time alone sorts before its entries, so `to` excludes those
        // of `created_before`.
        let from =
            filter.created_after.map_or_else(|| "0".to_owned(), |after| format!("{}$", sortable(after)));
        let to = filter.created_before.map_or_else(|| format!("{}$", sortable(Timestamp::MAX)), sortable);
        let window =
            if filter.status.is_some() && filter.kind.is_some() { FILTERED_WINDOW } else { filter.limit };
        let (index, partition) = filter.partition(scope);
        let page = PageRange::newest_first((&from, &to), cursor.as_deref(), window);
        Ok(filter.page(self.store.rows_page((index, &[partition]), page).await?))
    }

    /// The open cases by deadline, in one query: of more than [`MOST_SORTED`] the oldest ones, and one more.
    pub async fn open_by_deadline(&self, scope: &Scope) -> Result<Vec<OpenCase>, StoreError> {
        let partition = MedCase::status_partition(scope, CaseStatus::Open);
        let most = MOST_SORTED.saturating_add(1);
        let entries =
            self.store.list_with(ListIndex::ByStatus, &partition, "response_deadline", most).await?;
        let open = |(sort, due): (String, Option<i64>)| {
            let (_, id) = sort.split_once('#')?;
            let due = due.and_then(|due| Timestamp::from_millis(due).ok());
            Some(OpenCase { due, id: id.parse().ok()? })
        };
        let mut cases: Vec<OpenCase> = entries.into_iter().filter_map(open).collect();
        cases.sort_by_key(OpenCase::rank);
        Ok(cases)
    }

    /// As [`Self::list`], a page of the open cases by deadline. Also returns whether it is the last one, although there
    /// are more than [`MOST_SORTED`].
    pub async fn nearest(
        &self,
        scope: &Scope,
        filter: DeadlineFilter,
        cursor: Option<MedCase>,
    ) -> Result<(CasePage, bool), PageError> {
        let cursor = own_cursor(scope, filter.starting_after, cursor)?;
        let mut open = self.open_by_deadline(scope).await?;
        let is_cut = open.len() > MOST_SORTED;
        if let Some(bound) = filter.before {
            open.retain(|case| case.due.is_some_and(|due| due < bound));
        }
        let left = cursor.map_or(open.as_slice(), |cursor| OpenCase::after(&open, &cursor));
        let (shown, rest) = left.split_at(left.len().min(filter.limit));
        let next_cursor = shown.last().filter(|_| !rest.is_empty()).map(|last| last.id);
        let keys: Vec<Key> = shown.iter().map(|case| MedCase::key_of(case.id)).collect();
        let mut items: Vec<MedCase> = self.store.get_in_order(&keys).await?;
        // The index may be older than the rows.
        items.retain(|case| case.status == CaseStatus::Open);
        Ok((CasePage { items, next_cursor }, is_cut && rest.is_empty()))
    }

    /// A charge's cases are few and share its partition, so all of them are read.
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
        Ok(filter.page((cases, false)))
    }
}
