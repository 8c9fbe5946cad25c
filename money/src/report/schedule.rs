//! Reads and writes the schedules of reports.

use domain::ids::{AccountId, Mode, ReportScheduleId, UserId};
use domain::report::{MAX_SCHEDULES, ReportSchedule};
use domain::row::Row as _;
use domain::time::Timestamp;

use crate::report::Reports;
use crate::report::request::{NewSchedule, require_format};
use shared::account::Users;
use shared::auth::Caller;
use shared::http::Problem;
use shared::random;
use shared::store::{CommitOutcome, DueRow, RowUpdate, StoreError, Write, number};

const COUNTER: &str = "n";

shared::store::repository!(ReportSchedules);

fn count(account: &AccountId, by: i64) -> RowUpdate {
    RowUpdate::of(ReportSchedule::count_key(account)).add(COUNTER, number(by))
}

impl ReportSchedules {
    /// 422 if the address is no member's, or the account has five schedules.
    pub async fn create(
        &self,
        caller: &Caller,
        request: NewSchedule,
        now: Timestamp,
    ) -> Result<ReportSchedule, Problem> {
        require_format(request.kind, request.format, request.currency)?;
        let account = caller.scope.account;
        let notify = match &request.email {
            Some(email) => {
                let user = Users::new(self.store.clone()).find(&UserId::from_email(email)).await?;
                let member = user.filter(|user| user.account == account).map(|user| user.id);
                let message = || "`email` must be the address of a member of the account.".to_owned();
                Some(
                    member
                        .ok_or_else(|| Problem::UnprocessableField { param: "email", message: message() })?,
                )
            }
            None => None,
        };
        let schedule = request.row(ReportScheduleId::new(now, random::bytes()?), caller.scope, notify, now);
        let most = number(MAX_SCHEDULES.saturating_sub(1));
        let counted = count(&account, 1).when_absent_or(COUNTER, "<=", most);
        let writes = vec![Write::insert(&schedule)?, Write::update(counted)];
        let message =
            || format!("An account can have {MAX_SCHEDULES} schedules of reports. Delete one first.");
        self.store.commit(writes).await?.done_or(Problem::Unprocessable(message()))?;
        Ok(schedule)
    }

    /// The oldest first; at most five in both modes.
    pub async fn list(&self, account: &AccountId, mode: Mode) -> Result<Vec<ReportSchedule>, StoreError> {
        self.store.rows_of_prefix(&ReportSchedule::partition(account), &format!("{mode}#")).await
    }

    pub async fn delete(&self, caller: &Caller, id: Option<ReportScheduleId>) -> Result<(), Problem> {
        let missing = || Problem::NotFound { what: "schedule of reports" };
        let key = id.map(|id| ReportSchedule::key_of(&caller.scope.account, caller.scope.mode, id));
        let writes = vec![
            Write::remove_existing(&key.ok_or_else(missing)?),
            Write::update(count(&caller.scope.account, -1)),
        ];
        self.store.commit(writes).await?.done_or(missing())
    }

    /// Inserts the report of a schedule that is due, and moves the schedule to the next period, in one transaction.
    pub async fn run(&self, due: &DueRow, now: Timestamp) -> Result<(), StoreError> {
        let Some(schedule) = self.store.get::<ReportSchedule>(&due.key).await? else { return Ok(()) };
        let Some((report, next)) = schedule.run(now) else { return Ok(()) };
        let mut writes = Reports::scheduled(&report)?;
        writes.push(Write::replace(&next, schedule.version)?);
        match self.store.commit(writes).await? {
            CommitOutcome::Done => Ok(()),
            // Another run was first, or the merchant deleted the schedule.
            CommitOutcome::Conflict { .. } => {
                tracing::info!(schedule = %schedule.id, key = ?schedule.key(), "a schedule of reports was run by another");
                Ok(())
            }
        }
    }
}
