//! Validates the requests that ask for a report or make a schedule.

use domain::calendar::Day;
use domain::ids::{ReportId, ReportScheduleId, Scope, UserId};
use domain::money::Currency;
use domain::report::{
    MAX_DAYS, ReportBasis, ReportDelimiter, ReportFormat, ReportInterval, ReportKind, ReportLocale,
    ReportSchedule, ReportSpec,
};
use domain::time::Timestamp;
use domain::wallet::PRIMARY_CURRENCY;

use crate::charge::request::canonical_hash;
use shared::http::field::{BodyFields, CURRENCY_CODE, Definitions, EMAIL, LIMIT, Parsed, Refined, Word};
use shared::http::{Fields, JsonObject, Problem, Query};

const DAY: Parsed<Day> = Parsed {
    format: Some("date"),
    ..Parsed::of(
        (10, 10),
        Some("^[0-9]{4}-[0-9]{2}-[0-9]{2}$"),
        |text| text.parse().ok().filter(|day: &Day| day.to_string() == text),
        "must be a day in São Paulo, such as 2026-11-21",
    )
};

shared::fields! {
    TYPE: Word<ReportKind> = "type", Word::ALL, Required, "payments",
        "What the report lists: `statement` the movements of the wallet with the balance after each, `payments` charges, `refunds`, `payouts`, `med_cases`, or `fees` the movements with a fee.";
    FORMAT: Word<ReportFormat> = "format", Word::ALL, Required, "csv",
        "The format of the file. `ofx` and `pdf` are only for a `statement`. `xlsx` has at most 1,000,000 lines, `pdf` 20,000.";
    FROM: Parsed<Day> = "from", DAY, Required, "2026-11-01",
        "The first day of the period in São Paulo.";
    TO: Parsed<Day> = "to", DAY, Required, "2026-11-30",
        "The last day of the period in São Paulo: today at the latest, and at most 366 days with the first. A report of today ends when it is asked for.";
    BY: Word<ReportBasis> = "by", Word::ALL, DefaultsTo("created"), "paid",
        "Only for `payments`: whether the period is that of the charges' creation or that of their payment.";
    CURRENCY: Parsed<Currency> = "currency", CURRENCY_CODE, DefaultsTo("BRL"), "BRL",
        "The currency: a file has one.";
    LOCALE: Word<ReportLocale> = "locale", Word::ALL, DefaultsTo("en"), "pt-BR",
        "How a CSV file writes numbers and dates. `pt-BR`: decimal commas, semicolons between cells and a byte order mark, as Excel in Brazil opens them.";
    DELIMITER: Word<ReportDelimiter> = "delimiter", Word::ALL, Optional, ";",
        "The character between the cells of a CSV file. The default is `,`, or `;` with the locale `pt-BR`.";
    INTERVAL: Word<ReportInterval> = "interval", Word::ALL, Required, "monthly",
        "`daily` reports the day before, `weekly` on Mondays the week before, `monthly` on the first day of a month the month before. Each is made by 06:00 in São Paulo.";
    MEMBER: Refined<String> = "email", EMAIL, Optional, "contador@loja.example",
        "The address of a member of the account, who gets an e-mail with a link to each report.";
    STARTING_AFTER: Parsed<ReportId> = "starting_after", Parsed::id("must be a report id (rp_…)"),
        Optional, "rp_01kb5cpq4t0000000000000000",
        "The cursor: the `next_cursor` of the previous page, a report id.";
}

pub const REPORT_BODY: BodyFields =
    BodyFields::strict(&[&TYPE, &FORMAT, &FROM, &TO, &BY, &CURRENCY, &LOCALE, &DELIMITER]);

pub const REPORT_SCHEDULE_BODY: BodyFields =
    BodyFields::strict(&[&INTERVAL, &TYPE, &FORMAT, &CURRENCY, &LOCALE, &MEMBER]);

pub const REPORTS_QUERY: Definitions = &[&LIMIT, &STARTING_AFTER];

/// A valid request for a report, whose type, format and currency may still not go together.
#[derive(Clone, Debug)]
pub struct NewReport {
    pub spec: ReportSpec,
    /// Of the body as it was sent.
    pub hash: String,
}

impl NewReport {
    /// Adds every failing field to `fields`.
    pub fn from_body(fields: &mut Fields, body: &JsonObject, now: Timestamp) -> Option<Self> {
        let root = fields.body(body, REPORT_BODY);
        let has_basis = root.has_value(&BY);
        let (kind, format) = (fields.read(&root, &TYPE), fields.read(&root, &FORMAT));
        let (from, to) = (fields.read(&root, &FROM), fields.read(&root, &TO));
        let (by, currency) = (fields.read(&root, &BY), fields.read(&root, &CURRENCY));
        let (locale, delimiter) = (fields.read(&root, &LOCALE), fields.read(&root, &DELIMITER));
        let (kind, format, from, to) = (kind?, format?, from?, to?);
        if to < from {
            fields.reject(TO.name, "must not be before `from`");
        } else if from.days_until(to) >= MAX_DAYS {
            let rule = format!("must be at most {MAX_DAYS} days with `from`; ask for several reports");
            fields.reject(TO.name, rule);
        } else if to > Day::of(now) {
            fields.reject(TO.name, "must not be after today in São Paulo");
        }
        if has_basis && kind != ReportKind::Payments {
            fields.reject(BY.name, "applies only to the type payments; leave it out");
        }
        let (by, locale) = (by.unwrap_or_default(), locale.unwrap_or_default());
        let currency = currency.unwrap_or(PRIMARY_CURRENCY);
        let spec = ReportSpec { kind, format, from, to, by, currency, locale, delimiter };
        Some(Self { spec, hash: canonical_hash(body.clone()) })
    }

    /// Reports every failing field at once.
    pub fn parse(body: &JsonObject, now: Timestamp) -> Result<Self, Problem> {
        let mut fields = Fields::new();
        let parsed = Self::from_body(&mut fields, body, now);
        fields.finish(parsed)
    }
}

/// 422 if no file of this format has reports of this type or currency.
pub(crate) fn require_format(
    kind: ReportKind,
    format: ReportFormat,
    currency: Currency,
) -> Result<(), Problem> {
    if format.is_statement_only() && kind != ReportKind::Statement {
        let message =
            format!("`format` {} is only for the type statement; use csv, xlsx or json.", format.as_str());
        return Err(Problem::UnprocessableField { param: FORMAT.name, message });
    }
    if format == ReportFormat::Ofx && currency != Currency::BRL {
        let message = "`currency` must be BRL in an OFX file; use csv, xlsx, pdf or json.".to_owned();
        return Err(Problem::UnprocessableField { param: CURRENCY.name, message });
    }
    Ok(())
}

/// A valid request for a schedule.
#[derive(Clone, Debug)]
pub struct NewSchedule {
    pub(crate) interval: ReportInterval,
    pub(crate) kind: ReportKind,
    pub(crate) format: ReportFormat,
    pub(crate) currency: Currency,
    pub(crate) locale: ReportLocale,
    pub(crate) email: Option<String>,
}

impl NewSchedule {
    /// Reports every failing field at once.
    pub fn parse(body: &JsonObject) -> Result<Self, Problem> {
        let mut fields = Fields::new();
        let root = fields.body(body, REPORT_SCHEDULE_BODY);
        let (interval, kind) = (fields.read(&root, &INTERVAL), fields.read(&root, &TYPE));
        let format = fields.read(&root, &FORMAT);
        let (currency, locale) = (fields.read(&root, &CURRENCY), fields.read(&root, &LOCALE));
        let email = fields.read(&root, &MEMBER);
        let parsed = interval.zip(kind).zip(format).map(|((interval, kind), format)| Self {
            interval,
            kind,
            format,
            currency: currency.unwrap_or(PRIMARY_CURRENCY),
            locale: locale.unwrap_or_default(),
            email,
        });
        fields.finish(parsed)
    }

    /// The row of the schedule. `notify`: the member with its address.
    pub(crate) fn row(
        self,
        id: ReportScheduleId,
        scope: Scope,
        notify: Option<UserId>,
        now: Timestamp,
    ) -> ReportSchedule {
        let Self { interval, kind, format, currency, locale, email } = self;
        let next_on = ReportSchedule::first_day(interval, now);
        ReportSchedule {
            id,
            scope,
            interval,
            kind,
            format,
            currency,
            locale,
            notify,
            email,
            next_on,
            created_at: now,
            version: 1,
        }
    }
}

/// A page of the list of reports.
#[derive(Clone, Copy, Debug)]
pub struct ReportPage {
    pub limit: usize,
    pub starting_after: Option<ReportId>,
}

impl ReportPage {
    /// Reports every failing parameter at once.
    pub fn parse(query: &Query) -> Result<Self, Problem> {
        let mut fields = Fields::new();
        query.allow_only(&mut fields, REPORTS_QUERY);
        let page = Self {
            limit: query.count(&mut fields, &LIMIT),
            starting_after: query.read(&mut fields, &STARTING_AFTER),
        };
        fields.finish(Some(page))
    }
}
