//! Reads and writes reports. Each change of a status is one transaction with the number of the scope's reports that are
//! being made.

use domain::actor::ActorId;
use domain::calendar::Day;
use domain::ids::{ReportId, Scope};
use domain::report::{MAX_A_DAY, MAX_RUNNING, Report, ReportStatus};
use domain::row::{Key, Row as _};
use domain::time::{SECONDS_A_DAY, Timestamp};

use crate::report::ReportFiles;
use crate::report::request::{NewReport, ReportPage, require_format};
use shared::auth::Caller;
use shared::http::{Created, Problem};
use shared::store::{
    CommitOutcome, ListIndex, ListPage, PageError, PageRange, Plan, RowUpdate, StoreError, Write, number,
};

/// The places of the writes of a creation.
const REPORT_WRITE: usize = 0;
const RUNNING_WRITE: usize = 1;

/// When to try again while reports are being made, in seconds. Most take less.
const RETRY_AFTER_SECONDS: i64 = 30;

/// In seconds.
const DAY_KEPT_SECONDS: i64 = 2 * SECONDS_A_DAY;

const COUNTER: &str = "n";

shared::store::repository!(Reports);

fn limits(scope: &Scope, of: &str) -> Key {
    Key { pk: format!("report-limits#{scope}"), sk: of.to_owned() }
}

fn running(scope: &Scope, by: i64) -> RowUpdate {
    RowUpdate::of(limits(scope, "running")).add(COUNTER, number(by))
}

impl Reports {
    /// 429 `rate_limited` while the scope has two reports in progress, or after 50 in a day. 422 if the format does not
    /// fit the type or the currency.
    pub async fn create(
        &self,
        caller: &Caller,
        key: &str,
        request: NewReport,
        now: Timestamp,
    ) -> Result<Created<Report>, Problem> {
        let NewReport { spec, hash } = request;
        require_format(spec.kind, spec.format, spec.currency)?;
        let (scope, id) = (caller.scope, ReportId::derive(&caller.salt, caller.scope.mode, key));
        let notify = if let ActorId::Member(user) = &caller.by { Some(*user) } else { None };
        let report = Report::new(id, scope, spec, (hash, notify), now);
        let day = Day::of(now);
        let below = |most: i64| number(most.saturating_sub(1));
        let of_day = RowUpdate::of(limits(&scope, &day.to_string()))
            .add(COUNTER, number(1))
            .set("ttl", number(day.starts_at().saturating_plus_seconds(DAY_KEPT_SECONDS).seconds()))
            .when_absent_or(COUNTER, "<=", below(MAX_A_DAY));
        let writes = vec![
            Write::insert(&report)?,
            Write::update(running(&scope, 1).when_absent_or(COUNTER, "<=", below(MAX_RUNNING))),
            Write::update(of_day),
        ];
        match self.store.commit(writes).await? {
            CommitOutcome::Done => Ok(Created::New(report)),
            CommitOutcome::Conflict { at } if at.contains(&REPORT_WRITE) => {
                let stored = self.find(&scope, Some(id)).await?.ok_or(Problem::Busy)?;
                let is_same = stored.request_hash == report.request_hash;
                if is_same { Ok(Created::Replayed(stored)) } else { Err(Problem::IdempotencyKeyReused) }
            }
            CommitOutcome::Conflict { at } if at.contains(&RUNNING_WRITE) => Err(Problem::TooManyReports {
                limit: MAX_RUNNING,
                period: "at once",
                retry_after_seconds: RETRY_AFTER_SECONDS,
            }),
            CommitOutcome::Conflict { .. } => Err(Problem::TooManyReports {
                limit: MAX_A_DAY,
                period: "in a day in São Paulo",
                retry_after_seconds: day.plus_days(1).starts_at().seconds().saturating_sub(now.seconds()),
            }),
        }
    }

    /// The writes that insert the report of a schedule, which no limit refuses.
    pub fn scheduled(report: &Report) -> Result<Vec<Write>, StoreError> {
        Ok(vec![Write::insert(report)?, Write::update(running(&report.scope, 1))])
    }

    pub async fn find(&self, scope: &Scope, id: Option<ReportId>) -> Result<Option<Report>, StoreError> {
        self.store.find(id.map(|id| Report::key_of(scope, id))).await
    }

    /// 404 without a report of the scope with this id.
    pub async fn get(&self, scope: &Scope, id: Option<ReportId>) -> Result<Report, Problem> {
        self.find(scope, id).await?.ok_or(Problem::NotFound { what: "report" })
    }

    /// Newest first.
    pub async fn list(
        &self,
        scope: &Scope,
        page: ReportPage,
    ) -> Result<ListPage<Report, ReportId>, PageError> {
        let cursor = match page.starting_after {
            Some(id) => {
                let found = self.find(scope, Some(id)).await?;
                Some(found.ok_or(PageError::UnknownCursor("a report of this account and mode"))?.list_sort())
            }
            None => None,
        };
        let partitions = [Report::list_partition(scope)];
        let range = PageRange::newest_first(("0", "~"), cursor.as_deref(), page.limit);
        let rows = self.store.rows_page((ListIndex::All, &partitions), range).await?;
        Ok(ListPage::of_matching(rows, page.limit, |_| true, |report: &Report| report.id))
    }

    /// Writes the row of a claim. `false`: another worker has claimed the report, or it was deleted.
    pub async fn claim(&self, claimed: &Report) -> Result<bool, StoreError> {
        let read = claimed.version.saturating_sub(1);
        Ok(self.store.commit(vec![Write::replace(claimed, read)?]).await? == CommitOutcome::Done)
    }

    /// Writes the row of a report that is ready or has failed. `false` as for [`Self::claim`].
    pub async fn end(&self, ended: &Report) -> Result<bool, StoreError> {
        let replace = Write::replace(ended, ended.version.saturating_sub(1))?;
        let writes = vec![replace, Write::update(running(&ended.scope, -1))];
        Ok(self.store.commit(writes).await? == CommitOutcome::Done)
    }

    /// Deletes the file, then the row. A report that is being made is deleted too: its worker finds no row.
    pub async fn delete(
        &self,
        files: &ReportFiles,
        scope: &Scope,
        id: Option<ReportId>,
    ) -> Result<(), Problem> {
        let missing = || Problem::NotFound { what: "report" };
        let id = id.ok_or_else(missing)?;
        let report = self.get(scope, Some(id)).await?;
        if report.status == ReportStatus::Ready {
            files.delete(&report).await?;
        }
        let plan = |report: Option<Report>| {
            let report = report.ok_or_else(missing)?;
            let version = i64::try_from(report.version).unwrap_or(i64::MAX);
            let mut writes = vec![Write::remove(report.key(), "version", version)];
            if report.status == ReportStatus::Pending {
                writes.push(Write::update(running(scope, -1)));
            }
            Ok(Plan::Commit(writes, ()))
        };
        self.store.update("a report", &Report::key_of(scope, id), plan).await
    }
}
