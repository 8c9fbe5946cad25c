//! The wire formats of reports and of their schedules.

use domain::calendar::Day;
use domain::ids::{ReportId, ReportScheduleId};
use domain::money::Currency;
use domain::report::{
    Report, ReportBasis, ReportDelimiter, ReportFailure, ReportFormat, ReportInterval, ReportKind,
    ReportLocale, ReportSchedule, ReportStatus,
};
use domain::time::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use shared::http::{ListView, WholeListView};

/// A file about a period.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "Report")]
pub struct ReportView {
    /// The report's id.
    id: ReportId,
    /// Always `report`.
    #[schemars(extend("const" = "report"))]
    object: &'static str,
    /// What the report lists.
    #[serde(rename = "type")]
    kind: ReportKind,
    /// The format of the file.
    format: ReportFormat,
    /// The first day of the period.
    from: Day,
    /// The last day of the period.
    to: Day,
    /// The time by which payments belong to the period.
    by: ReportBasis,
    /// The currency of the file.
    currency: Currency,
    /// How a CSV file writes numbers and dates.
    locale: ReportLocale,
    /// The character between the cells of a CSV file.
    delimiter: ReportDelimiter,
    /// The status of the report.
    status: ReportStatus,
    /// The lines of the file, without heading and balances. `null` until it is ready.
    rows: Option<u64>,
    /// Why there is no file. `null` unless the report failed.
    failure: Option<ReportFailure>,
    /// The URL of the file, valid for 5 minutes. `null` until the report is ready, in lists and in events: read the
    /// report for a new one.
    #[schemars(extend("format" = "uri"))]
    url: Option<String>,
    /// The schedule that asked for the report. `null` if none did.
    schedule_id: Option<ReportScheduleId>,
    /// When the report was asked for. A report of today ends here.
    created_at: Timestamp,
    /// When the file was ready. `null` until then.
    ready_at: Option<Timestamp>,
    /// When the file is deleted: 90 days after it was ready. `null` until then.
    expires_at: Option<Timestamp>,
}

impl ReportView {
    /// `url`: of the file.
    pub fn new(report: &Report, url: Option<String>) -> Self {
        let is_ready = report.status == ReportStatus::Ready;
        let spec = &report.spec;
        Self {
            id: report.id,
            object: "report",
            kind: spec.kind,
            format: spec.format,
            from: spec.from,
            to: spec.to,
            by: spec.by,
            currency: spec.currency,
            locale: spec.locale,
            delimiter: spec.delimiter(),
            status: report.status,
            rows: report.lines,
            failure: report.failure,
            url,
            schedule_id: report.schedule,
            created_at: report.created_at,
            ready_at: is_ready.then_some(report.updated_at),
            expires_at: is_ready.then(|| report.expires_at()),
        }
    }
}

/// A page of the list of reports.
pub type ReportListView = ListView<ReportView, ReportId>;

/// All schedules of reports of the account in a mode.
pub type ReportScheduleListView<'a> = WholeListView<ReportScheduleView<'a>>;

/// The confirmation that a report or a schedule was deleted.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "DeletedReport")]
pub struct DeletedReportView {
    /// Always `true`.
    #[schemars(extend("const" = true))]
    pub deleted: bool,
}

/// A schedule that asks for reports.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "ReportSchedule")]
pub struct ReportScheduleView<'a> {
    /// The schedule's id.
    id: ReportScheduleId,
    /// Always `report_schedule`.
    #[schemars(extend("const" = "report_schedule"))]
    object: &'static str,
    /// How often.
    interval: ReportInterval,
    /// What the reports list.
    #[serde(rename = "type")]
    kind: ReportKind,
    /// The format of the files.
    format: ReportFormat,
    /// The currency of the files.
    currency: Currency,
    /// How a CSV file writes numbers and dates.
    locale: ReportLocale,
    /// The member who gets an e-mail with a link. `null`: no e-mail is sent.
    email: Option<&'a str>,
    /// The day on which the next report is made, by 06:00 in São Paulo.
    next_on: Day,
    /// When the schedule was made.
    created_at: Timestamp,
}

impl<'a> ReportScheduleView<'a> {
    pub fn new(schedule: &'a ReportSchedule) -> Self {
        Self {
            id: schedule.id,
            object: "report_schedule",
            interval: schedule.interval,
            kind: schedule.kind,
            format: schedule.format,
            currency: schedule.currency,
            locale: schedule.locale,
            email: schedule.email.as_deref(),
            next_on: schedule.next_on,
            created_at: schedule.created_at,
        }
    }
}
