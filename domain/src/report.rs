//! Reports: files with the movements, payments, refunds, payouts, MED cases or fees of a period, which a worker makes
//! for a merchant. And their schedules.
//!
//! A report is `pending` until a worker has made its file. A worker claims it by a lease; one that crashes leaves it to
//! the next, which makes the whole file again under another name.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::calendar::Day;
use crate::ids::{AccountId, Mode, ReportId, ReportScheduleId, Scope, UserId};
use crate::money::Currency;
use crate::row::{Indexes, Key, Row, sortable};
use crate::time::Timestamp;

/// The most days of a report: a leap year.
pub const MAX_DAYS: u64 = 366;

/// How long a file is kept, in days. The bucket's lifecycle rule (template.yaml) deletes it.
pub const KEPT_DAYS: i64 = 90;

/// The most reports of a scope that are being made at once.
pub const MAX_RUNNING: i64 = 2;

/// The most reports that a scope can ask for in a day.
pub const MAX_A_DAY: i64 = 50;

/// The most schedules of an account.
pub const MAX_SCHEDULES: i64 = 5;

/// How long a lease lasts, in seconds: longer than the time limit of the worker (15 minutes).
const LEASE_SECONDS: i64 = 16 * 60;

/// When a report is due whose message was lost, in seconds.
const FIRST_DUE_SECONDS: i64 = 120;

/// After so many attempts, a report fails. Each is a worker that crashed, or whose database or bucket did not answer.
const MAX_ATTEMPTS: u32 = 5;

/// When the scheduler makes the reports of a schedule, in seconds of the day in São Paulo: 02:00 and up to two hours later.
const SCHEDULE_SECONDS: (i64, i64) = (2 * 60 * 60, 2 * 60 * 60);

/// Defines the vocabularies of requests, rows and responses: the name of the schema and its description, then the words.
macro_rules! vocabularies {
    ($($(#[$meta:meta])* enum $Name:ident = $schema:literal, $about:literal {
        $($(#[$of_variant:meta])* $Variant:ident),+
    })+) => {$(
        $(#[$meta])*
        #[derive(
            Clone, Copy, Debug, Deserialize, Eq, IntoStaticStr, JsonSchema, PartialEq, Serialize, VariantArray,
        )]
        #[serde(rename_all = "snake_case")]
        #[strum(serialize_all = "snake_case")]
        #[schemars(rename = $schema)]
        #[doc = $about]
        pub enum $Name { $($(#[$of_variant])* $Variant),+ }

        crate::named!($Name);
    )+};
}

vocabularies! {
    enum ReportKind = "ReportType", "What a report lists." {
        /// The movements of the wallet, with the opening and the closing balance.
        Statement,
        /// Charges.
        Payments,
        /// Refunds that were requested.
        Refunds,
        /// Payouts.
        Payouts,
        /// MED cases.
        MedCases,
        /// Movements with a fee.
        Fees
    }

    enum ReportFormat = "ReportFormat", "The format of a report's file." {
        Csv,
        Xlsx,
        Ofx,
        Pdf,
        Json
    }

    #[derive(Default)]
    enum ReportBasis = "ReportBasis", "The time by which payments belong to the period." {
        /// When the charge was created.
        #[default]
        Created,
        /// When the payment was credited.
        Paid
    }

    #[derive(Default)]
    enum ReportLocale = "ReportLocale", "How the numbers and dates of a CSV file are written." {
        /// Decimal points, dates of ISO 8601, commas between cells.
        #[default]
        #[serde(rename = "en")]
        #[strum(serialize = "en")]
        English,
        /// As Excel in Brazil reads them: decimal commas, `21/11/2026`, semicolons between cells, and a byte order mark.
        #[serde(rename = "pt-BR")]
        #[strum(serialize = "pt-BR")]
        Portuguese
    }

    enum ReportDelimiter = "ReportDelimiter", "The character between two cells of a CSV file." {
        #[serde(rename = ",")]
        #[strum(serialize = ",")]
        Comma,
        #[serde(rename = ";")]
        #[strum(serialize = ";")]
        Semicolon,
        #[serde(rename = "|")]
        #[strum(serialize = "|")]
        Bar,
        #[serde(rename = "tab")]
        #[strum(serialize = "tab")]
        Tab
    }

    enum ReportStatus = "ReportStatus", "The status of a report." {
        /// The file is being made.
        Pending,
        /// The file can be downloaded.
        Ready,
        /// There is no file; `failure` says why.
        Failed
    }

    enum ReportFailure = "ReportFailure", "Why a report has no file." {
        /// The period has more lines than the format allows: choose a shorter period, or CSV.
        TooManyLines,
        /// Opening balance and movements do not add up to the closing balance. Operators are alarmed.
        BalanceMismatch,
        /// The service could not make the file. Ask for the report again.
        InternalError
    }

    enum ReportInterval = "ReportInterval", "How often a schedule asks for a report." {
        /// Each day, for the day before.
        Daily,
        /// Each Monday, for the week before.
        Weekly,
        /// On the first day of a month, for the month before.
        Monthly
    }
}

impl ReportFormat {
    /// Whether it is a bank statement, which has no other type.
    pub fn is_statement_only(self) -> bool {
        match self {
            Self::Ofx | Self::Pdf => true,
            Self::Csv | Self::Xlsx | Self::Json => false,
        }
    }

    /// The most lines of a file. `None`: the worker's time is the limit.
    pub fn max_lines(self) -> Option<u64> {
        match self {
            // A sheet of Excel has 1,048,576 rows.
            Self::Xlsx => Some(1_000_000),
            // About 400 pages.
            Self::Pdf => Some(20_000),
            Self::Csv | Self::Ofx | Self::Json => None,
        }
    }

    pub fn media_type(self) -> &'static str {
        match self {
            Self::Csv => "text/csv; charset=utf-8",
            Self::Xlsx => "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
            Self::Ofx => "application/x-ofx",
            Self::Pdf => "application/pdf",
            Self::Json => "application/json",
        }
    }
}

impl ReportDelimiter {
    pub fn byte(self) -> u8 {
        match self {
            Self::Comma => b',',
            Self::Semicolon => b';',
            Self::Bar => b'|',
            Self::Tab => b'\t',
        }
    }
}

/// What a report contains and how it is written.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ReportSpec {
    pub kind: ReportKind,
    pub format: ReportFormat,
    /// The first day in São Paulo.
    pub from: Day,
    /// The last day.
    pub to: Day,
    #[serde(default)]
    pub by: ReportBasis,
    pub currency: Currency,
    #[serde(default)]
    pub locale: ReportLocale,
    /// `None`: that of the locale.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delimiter: Option<ReportDelimiter>,
}

impl ReportSpec {
    pub fn delimiter(&self) -> ReportDelimiter {
        self.delimiter.unwrap_or(match self.locale {
            ReportLocale::English => ReportDelimiter::Comma,
            ReportLocale::Portuguese => ReportDelimiter::Semicolon,
        })
    }

    /// The name under which a browser stores the file.
    pub fn file_name(&self) -> String {
        let Self { kind, from, to, format, .. } = self;
        format!("{}-{from}-{to}.{}", kind.as_str().replace('_', "-"), format.as_str())
    }
}

/// The row of a report.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Report {
    pub id: ReportId,
    pub scope: Scope,
    pub spec: ReportSpec,
    /// Hash of the request, which distinguishes a replay from another request with the same idempotency key.
    pub request_hash: String,
    pub status: ReportStatus,
    /// The member who gets an e-mail when the file is ready.
    pub notify: Option<UserId>,
    /// The schedule that asked for the report.
    pub schedule: Option<ReportScheduleId>,
    /// How often a worker has claimed the report. The name of the file contains it.
    #[serde(default)]
    pub attempts: u32,
    /// Until then, only the worker that wrote this may make the file.
    #[serde(default, with = "domain::time::millis_option")]
    pub leased_until: Option<Timestamp>,
    /// The lines of the file.
    pub lines: Option<u64>,
    pub failure: Option<ReportFailure>,
    #[serde(with = "domain::time::millis")]
    pub created_at: Timestamp,
    /// When the status changed last.
    #[serde(with = "domain::time::millis")]
    pub updated_at: Timestamp,
    pub version: u64,
}

/// The outcome of a claim.
#[derive(Clone, Debug, PartialEq)]
pub enum ReportClaim {
    /// The row to write. The claim succeeds only if that write succeeds.
    Claimed(Box<Report>),
    /// Another worker makes the file.
    Leased,
    /// Too many attempts: the row to write, which has failed.
    Exhausted(Box<Report>),
    Ended,
}

impl Report {
    pub fn new(
        id: ReportId,
        scope: Scope,
        spec: ReportSpec,
        (request_hash, notify): (String, Option<UserId>),
        now: Timestamp,
    ) -> Self {
        Self {
            id,
            scope,
            spec,
            request_hash,
            status: ReportStatus::Pending,
            notify,
            schedule: None,
            attempts: 0,
            leased_until: None,
            lines: None,
            failure: None,
            created_at: now,
            updated_at: now,
            version: 1,
        }
    }

    pub fn key_of(scope: &Scope, id: ReportId) -> Key {
        Key { pk: Self::list_partition(scope), sk: id.to_string() }
    }

    pub fn is_at(key: &Key) -> bool {
        key.pk.starts_with("reports#")
    }

    /// The partition of a scope's reports in the table and in the `list` index.
    pub fn list_partition(scope: &Scope) -> String {
        format!("reports#{scope}")
    }

    pub fn list_sort(&self) -> String {
        format!("{}#{}", sortable(self.created_at), self.id)
    }

    /// The last moment that the report covers: not after it was asked for.
    pub fn ends_at(&self) -> Timestamp {
        self.spec.to.ends_at().min(self.created_at)
    }

    /// When the file is deleted.
    pub fn expires_at(&self) -> Timestamp {
        self.updated_at.saturating_plus_seconds(KEPT_DAYS.saturating_mul(crate::time::SECONDS_A_DAY))
    }

    /// The name of the attempt's file in the bucket. A worker whose lease has ended can't overwrite a later one's.
    pub fn object(&self) -> String {
        format!("reports/{}/{}/{}/{}", self.scope.account, self.scope.mode, self.id, self.attempts)
    }

    pub fn claimed(&self, now: Timestamp) -> ReportClaim {
        match (self.status, self.leased_until) {
            (ReportStatus::Ready | ReportStatus::Failed, _) => ReportClaim::Ended,
            (ReportStatus::Pending, Some(until)) if until > now => ReportClaim::Leased,
            (ReportStatus::Pending, _) if self.attempts >= MAX_ATTEMPTS => {
                ReportClaim::Exhausted(Box::new(self.failed(ReportFailure::InternalError, now)))
            }
            (ReportStatus::Pending, _) => ReportClaim::Claimed(Box::new(Self {
                attempts: self.attempts.saturating_add(1),
                leased_until: Some(now.saturating_plus_seconds(LEASE_SECONDS)),
                version: self.version.saturating_add(1),
                ..self.clone()
            })),
        }
    }

    #[must_use]
    pub fn ready(&self, lines: u64, now: Timestamp) -> Self {
        Self { lines: Some(lines), ..self.ended(ReportStatus::Ready, now) }
    }

    #[must_use]
    pub fn failed(&self, failure: ReportFailure, now: Timestamp) -> Self {
        Self { failure: Some(failure), ..self.ended(ReportStatus::Failed, now) }
    }

    fn ended(&self, status: ReportStatus, now: Timestamp) -> Self {
        let version = self.version.saturating_add(1);
        Self { status, leased_until: None, updated_at: now, version, ..self.clone() }
    }

    /// Ends the lease, so that the file is made again at `at`.
    #[must_use]
    pub fn again(&self, at: Timestamp) -> Self {
        Self { leased_until: Some(at), version: self.version.saturating_add(1), ..self.clone() }
    }
}

impl Row for Report {
    fn key(&self) -> Key {
        Self::key_of(&self.scope, self.id)
    }

    fn indexes(&self) -> Indexes {
        let first_due = self.created_at.saturating_plus_seconds(FIRST_DUE_SECONDS);
        Indexes {
            list: Some((Self::list_partition(&self.scope), self.list_sort())),
            due: (self.status == ReportStatus::Pending).then(|| self.leased_until.unwrap_or(first_due)),
            ..Indexes::default()
        }
    }

    fn removable_at(&self) -> Option<Timestamp> {
        Some(self.expires_at())
    }
}

impl ReportInterval {
    /// The next first day of a period after `day`.
    fn next_after(self, day: Day) -> Day {
        match self {
            Self::Daily => day.plus_days(1),
            Self::Weekly => day.next_monday(),
            Self::Monthly => day.next_month(),
        }
    }

    /// The period before the day on which the next one begins.
    fn before(self, begins: Day) -> (Day, Day) {
        let last = begins.minus_days(1);
        let first = match self {
            Self::Daily => last,
            Self::Weekly => begins.minus_days(7),
            Self::Monthly => last.month_start(),
        };
        (first, last)
    }
}

/// The row of a schedule, without the period of its reports.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ReportSchedule {
    pub id: ReportScheduleId,
    pub scope: Scope,
    pub interval: ReportInterval,
    pub kind: ReportKind,
    pub format: ReportFormat,
    pub currency: Currency,
    pub locale: ReportLocale,
    /// The member who gets an e-mail with a link to each report.
    pub notify: Option<UserId>,
    /// The address of that member, when the schedule was made.
    pub email: Option<String>,
    /// The day of the next report, which is about the period before it.
    pub next_on: Day,
    #[serde(with = "domain::time::millis")]
    pub created_at: Timestamp,
    pub version: u64,
}

impl ReportSchedule {
    /// `next_on` is the first day of a period that begins after now.
    pub fn first_day(interval: ReportInterval, now: Timestamp) -> Day {
        interval.next_after(Day::of(now))
    }

    pub fn key_of(account: &AccountId, mode: Mode, id: ReportScheduleId) -> Key {
        Key { pk: Self::partition(account), sk: format!("{mode}#{id}") }
    }

    pub fn is_at(key: &Key) -> bool {
        key.pk.starts_with("report-schedules#") && key.sk.contains("#rps_")
    }

    pub fn partition(account: &AccountId) -> String {
        format!("report-schedules#{account}")
    }

    /// The row that counts the schedules of an account.
    pub fn count_key(account: &AccountId) -> Key {
        Key { pk: Self::partition(account), sk: "count".to_owned() }
    }

    fn due_at(&self) -> Timestamp {
        let (from, spread) = SCHEDULE_SECONDS;
        self.next_on.starts_at().saturating_plus_seconds(from.saturating_add(self.id.spread(spread)))
    }

    /// The report that is due, and the schedule after it. Periods that an outage left out are skipped, except the last.
    pub fn run(&self, now: Timestamp) -> Option<(Report, Self)> {
        if now < self.due_at() {
            return None;
        }
        let mut begins = self.next_on;
        let mut next_on = self.interval.next_after(begins);
        while next_on.starts_at() <= now && next_on > begins {
            begins = next_on;
            next_on = self.interval.next_after(begins);
        }
        let (from, to) = self.interval.before(begins);
        let spec = ReportSpec {
            kind: self.kind,
            format: self.format,
            from,
            to,
            by: ReportBasis::default(),
            currency: self.currency,
            locale: self.locale,
            delimiter: None,
        };
        let id = ReportId::of_schedule(self.id, begins.starts_at());
        let report = Report::new(id, self.scope, spec, (String::new(), self.notify), now);
        let next = Self { next_on, version: self.version.saturating_add(1), ..self.clone() };
        Some((Report { schedule: Some(self.id), ..report }, next))
    }
}

impl Row for ReportSchedule {
    fn key(&self) -> Key {
        Self::key_of(&self.scope.account, self.scope.mode, self.id)
    }

    fn indexes(&self) -> Indexes {
        Indexes { due: Some(self.due_at()), ..Indexes::default() }
    }
}

/// The merchant's money at the end of a month: all postings up to then.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct MonthEnd {
    pub scope: Scope,
    pub currency: Currency,
    /// The first day after the month.
    pub before: Day,
    pub balance: crate::money::MinorUnits,
}

/// How long after its end a month is closed, in seconds. An operator's correction may have a time up to a day before it
/// is posted, and other postings are written up to a minute after theirs.
const CLOSED_AFTER_SECONDS: i64 = 24 * 60 * 60 + 10 * 60;

impl MonthEnd {
    pub fn partition(scope: &Scope) -> String {
        format!("month-ends#{scope}")
    }

    pub fn sort(currency: Currency, before: Day) -> String {
        format!("{currency}#{before}")
    }

    /// Whether no posting of the time before this day is still to come.
    pub fn is_closed(before: Day, now: Timestamp) -> bool {
        now > before.starts_at().saturating_plus_seconds(CLOSED_AFTER_SECONDS)
    }
}

impl Row for MonthEnd {
    fn key(&self) -> Key {
        Key { pk: Self::partition(&self.scope), sk: Self::sort(self.currency, self.before) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn day(text: &str) -> Day {
        text.parse().unwrap()
    }

    fn schedule(interval: ReportInterval, now: Timestamp) -> ReportSchedule {
        ReportSchedule {
            id: ReportScheduleId::new(now, [7; 10]),
            scope: "acc_0123456789abcdef:test".parse().unwrap(),
            interval,
            kind: ReportKind::Statement,
            format: ReportFormat::Csv,
            currency: Currency::BRL,
            locale: ReportLocale::Portuguese,
            notify: None,
            email: None,
            next_on: ReportSchedule::first_day(interval, now),
            created_at: now,
            version: 1,
        }
    }

    #[test]
    fn a_schedule_makes_the_report_of_the_period_before_by_six_in_the_morning() {
        // A Saturday.
        let now = at("2026-11-21T12:00:00Z");
        for (interval, expected, next) in [
            (ReportInterval::Daily, ("2026-11-21", "2026-11-21"), "2026-11-23"),
            (ReportInterval::Weekly, ("2026-11-16", "2026-11-22"), "2026-11-30"),
            (ReportInterval::Monthly, ("2026-11-01", "2026-11-30"), "2027-01-01"),
        ] {
            let schedule = schedule(interval, now);
            assert_eq!(schedule.run(schedule.next_on.starts_at()), None);
            // 06:00 in São Paulo.
            let morning = schedule.next_on.starts_at().plus_seconds(6 * 60 * 60).unwrap();
            let (report, after) = schedule.run(morning).unwrap();
            assert_eq!((report.spec.from, report.spec.to), (day(expected.0), day(expected.1)));
            assert_eq!((after.next_on, after.run(morning)), (day(next), None));
            assert_eq!(
                schedule.run(morning).unwrap().0.id,
                report.id,
                "a repeated run makes the same report"
            );
        }
    }

    #[test]
    fn a_schedule_makes_only_the_last_report_after_an_outage() {
        let schedule = schedule(ReportInterval::Daily, at("2026-11-21T12:00:00Z"));
        let (report, after) = schedule.run(at("2026-11-26T12:00:00Z")).unwrap();
        assert_eq!((report.spec.to, after.next_on), (day("2026-11-25"), day("2026-11-27")));
    }

    #[test]
    fn a_report_is_claimed_by_one_worker_and_fails_after_five() {
        let now = at("2026-11-21T12:00:00Z");
        let (mut report, _) = schedule(ReportInterval::Daily, at("2026-11-20T12:00:00Z")).run(now).unwrap();
        assert_eq!(report.indexes().due, Some(at("2026-11-21T12:02:00Z")));
        let mut now = now;
        let mut objects = std::collections::BTreeSet::new();
        for _ in 0..MAX_ATTEMPTS {
            let ReportClaim::Claimed(claimed) = report.claimed(now) else { panic!("{report:?}") };
            assert_eq!(claimed.claimed(now), ReportClaim::Leased);
            assert_eq!(claimed.indexes().due, claimed.leased_until, "the scheduler finds a lost one");
            assert!(objects.insert(claimed.object()), "an attempt can't overwrite another's file");
            now = claimed.leased_until.unwrap();
            report = *claimed;
        }
        let ReportClaim::Exhausted(failed) = report.claimed(now) else { panic!("{report:?}") };
        assert_eq!(
            (failed.status, failed.failure),
            (ReportStatus::Failed, Some(ReportFailure::InternalError))
        );
        for ended in [*failed, report.ready(7, now)] {
            assert_eq!((ended.claimed(now), ended.indexes().due), (ReportClaim::Ended, None));
        }
    }

    #[test]
    fn a_month_is_closed_a_day_after_its_end() {
        for (now, expected) in [("2026-12-02T03:00:00Z", false), ("2026-12-02T03:11:00Z", true)] {
            assert_eq!(MonthEnd::is_closed(day("2026-12-01"), at(now)), expected, "{now}");
        }
    }
}
