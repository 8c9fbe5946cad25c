//! Reports: asking for one, those that there are, and their schedules.

use axum::response::{IntoResponse as _, Redirect, Response};
use domain::calendar::Day;
use domain::ids::ReportId;
use domain::money::Currency;
use domain::pt_br;
use domain::report::{
    Report, ReportBasis, ReportFailure, ReportFormat, ReportInterval, ReportKind, ReportSchedule,
    ReportStatus,
};
use domain::vocabulary::Vocabulary;
use maud::{Markup, html};
use money::report::request::ReportPage;
use pages::forms::Need;
use pages::{Cell, Word, time};
use shared::http::{IdPath, Problem, Query, Result};

use crate::states::State as _;
use crate::visit::{Page, Visitor};
use crate::words as w;

pub(crate) const PATH: &str = "/dashboard/reports";

/// Reports on a page.
const SHOWN: usize = 25;

pub(crate) async fn list(visitor: Visitor) -> Result<Response> {
    let query = visitor.query();
    let after = query.text("starting_after").and_then(|id| id.parse::<ReportId>().ok());
    let (page, (found, schedules)) = visitor
        .load(async |visit| {
            let scope = visit.scope();
            let part = ReportPage { limit: SHOWN, starting_after: after };
            let (found, schedules) = tokio::join!(
                Box::pin(visit.app.reports.list(&scope, part)),
                Box::pin(visit.app.report_schedules.list(&scope.account, scope.mode)),
            );
            Ok((found?, schedules?))
        })
        .await?;
    let next = found.next_cursor.map(|id| format!("{PATH}?starting_after={id}"));
    let rows = found.items.iter().map(|report| row(&page, report)).collect();
    let columns =
        [(Cell::Time, w::WHEN), (Cell::Main, w::REPORT), (Cell::Other, w::LINES), (Cell::State, w::STATE)];
    let main = html! {
        h1 { (page.say(w::REPORTS)) }
        section.card #new { h2 { (page.say(w::NEW_REPORT)) } (form(&page, &query)) }
        div #list data-refresh="10" { (page.list((w::REPORTS, &columns), rows, (w::NO_REPORTS, Some(("#new", w::NEW_REPORT))), next)) }
        section.card {
            h2 { (page.say(w::SCHEDULES)) }
            p.soft { (page.say(w::SCHEDULES_MEAN)) }
            (scheduled(&page, &schedules))
            (schedule_form(&page))
        }
    };
    Ok(page.render(page.say(w::REPORTS), &main))
}

/// Leads to the file.
pub(crate) async fn file(IdPath(id): IdPath<ReportId>, visitor: Visitor) -> Result<Response> {
    let (_, url) = visitor
        .load(async |visit| {
            let report = visit.app.reports.get(&visit.scope(), id).await?;
            if report.status != ReportStatus::Ready {
                return Err(Problem::NotFound { what: "report" });
            }
            Ok(visit.app.report_files.url(&report, visit.now).await?)
        })
        .await?;
    Ok(Redirect::to(&url).into_response())
}

fn row(page: &Page, report: &Report) -> Vec<Markup> {
    let spec = &report.spec;
    let [from, to] = [spec.from, spec.to].map(pt_br::format_day);
    vec![
        time(report.created_at),
        html! {
            @let name = format!("{} {from} – {to}", page.say(name_of(spec.kind)));
            @if report.status == ReportStatus::Ready {
                a href={ (PATH) "/" (report.id) "/file" } { (name) }
            } @else { (name) }
            " " span.soft { (spec.format.as_str()) " " (spec.currency) }
            @if let Some(failure) = report.failure { " " span.soft { (page.say(why(failure))) } }
            " " (page.confirmed(&format!("{PATH}/{}/delete", report.id), (w::REMOVE, "quiet sm"), Need::Member, w::REMOVE_REPORT_ASK))
        },
        html! { @if let Some(lines) = report.lines { (lines) } },
        report.status.tag(page.language),
    ]
}

/// The link beside a list: to the form, filled in with the days and the currency of the list.
pub(crate) fn link(page: &Page, kind: ReportKind, query: &Query) -> Markup {
    let known = query.only(|name| matches!(name, "created_after" | "created_before" | "currency"));
    html! { a href={ (PATH) "?" (known.with("type", kind.as_str())) } { (page.say(w::EXPORT)) } }
}

/// A choice with its label. `form` keeps the ids of the page's two forms apart.
fn choice<T: Vocabulary>(
    page: &Page,
    (form, name, chosen): (&str, &str, Option<&str>),
    label: Word,
    word: fn(T) -> Word,
) -> Markup {
    let values = T::vocabulary().into_iter().map(|(value, each)| (value, page.say(word(each))));
    pages::choice(page.say(label), (&format!("{form}{name}"), name), chosen.unwrap_or_default(), values)
}

fn currency(page: &Page, form: &str, typed: Option<&str>) -> Markup {
    html! {
        div.f {
            label for={ (form) "currency" } { (page.say(w::CURRENCY)) }
            input id={ (form) "currency" } name="currency" size="3" maxlength="3" required value=(typed.unwrap_or(Currency::BRL.as_str()));
        }
    }
}

fn form(page: &Page, query: &Query) -> Markup {
    let today = Day::of(page.now);
    let day = |name| query.text(name).and_then(|day| day.parse::<Day>().ok());
    let from = day("created_after").unwrap_or(today.month_start());
    let to = day("created_before").unwrap_or(today);
    html! {
        form.row method="post" action=(PATH) {
            (page.mode_field())
            (choice(page, ("", "type", query.text("type")), w::REPORT, name_of))
            (choice(page, ("", "format", None), w::FORMAT, format_name))
            div.f { label for="from" { (page.say(w::FROM)) } input #from name="from" type="date" required value=(from); }
            div.f { label for="to" { (page.say(w::TO)) } input #to name="to" type="date" required value=(to); }
            (currency(page, "", query.text("currency")))
            (choice(page, ("", "by", None), w::PAYMENTS_BY, basis_name))
            (page.submit((w::ASK_FOR_REPORT, ""), Need::Viewer))
        }
    }
}

fn scheduled(page: &Page, schedules: &[ReportSchedule]) -> Markup {
    let row = |schedule: &ReportSchedule| {
        vec![
            html! { (page.say(name_of(schedule.kind))) " " span.soft { (schedule.format.as_str()) } },
            html! { (page.say(interval_name(schedule.interval))) },
            html! { @if let Some(email) = &schedule.email { (email) } },
            html! { (pt_br::format_day(schedule.next_on)) },
            page.confirmed(
                &format!("{PATH}/schedules/{}/delete", schedule.id),
                (w::STOP, "quiet sm"),
                Need::Member,
                w::REMOVE_SCHEDULE_ASK,
            ),
        ]
    };
    let columns = [
        (Cell::Main, w::REPORT),
        (Cell::Other, w::WHEN),
        (Cell::Other, w::EMAIL),
        (Cell::Other, w::NEXT_REPORT),
        (Cell::State, w::ACTION),
    ];
    html! { @if !schedules.is_empty() { (page.table(w::SCHEDULES, &columns, schedules.iter().map(row).collect())) } }
}

fn schedule_form(page: &Page) -> Markup {
    if !page.shows(Need::Member) {
        return html! {};
    }
    html! {
        form.row method="post" action={ (PATH) "/schedules" } {
            (page.mode_field())
            (choice(page, ("schedule-", "interval", None), w::WHEN, interval_name))
            (choice(page, ("schedule-", "type", None), w::REPORT, name_of))
            (choice(page, ("schedule-", "format", None), w::FORMAT, format_name))
            (currency(page, "schedule-", None))
            (page.submit((w::SCHEDULE, "quiet"), Need::Member))
        }
    }
}

pages::translate! {
    fn name_of(ReportKind) {
        ReportKind::Statement = "Extrato", "Statement", "Extracto";
        ReportKind::Payments = "Pagamentos", "Payments", "Pagos";
        ReportKind::Refunds = "Devoluções e estornos", "Refunds", "Devoluciones y reembolsos";
        ReportKind::Payouts = "Repasses", "Payouts", "Retiros";
        ReportKind::MedCases = "Disputas", "Disputes", "Disputas";
        ReportKind::Fees = "Tarifas", "Fees", "Comisiones";
    }
    fn format_name(ReportFormat) {
        ReportFormat::Csv = "CSV (Excel)", "CSV (Excel)", "CSV (Excel)";
        ReportFormat::Xlsx = "XLSX", "XLSX", "XLSX";
        ReportFormat::Ofx = "OFX (só extrato)", "OFX (statement alone)", "OFX (solo extracto)";
        ReportFormat::Pdf = "PDF (só extrato)", "PDF (statement alone)", "PDF (solo extracto)";
        ReportFormat::Json = "JSON", "JSON", "JSON";
    }
    fn basis_name(ReportBasis) {
        ReportBasis::Created = "Data de criação", "Date of creation", "Fecha de creación";
        ReportBasis::Paid = "Data do pagamento", "Date of payment", "Fecha del pago";
    }
    fn interval_name(ReportInterval) {
        ReportInterval::Daily = "Todo dia", "Each day", "Cada día";
        ReportInterval::Weekly = "Toda segunda-feira", "Each Monday", "Cada lunes";
        ReportInterval::Monthly = "Todo dia 1º", "On the first of each month", "El primero de cada mes";
    }
    fn why(ReportFailure) {
        ReportFailure::TooManyLines = "Linhas demais para o formato: escolha um período menor ou CSV.", "Too many rows for the format: choose a shorter period or CSV.", "Demasiadas filas para el formato: elija un período menor o CSV.";
        ReportFailure::BalanceMismatch = "Os saldos não conferem. O suporte foi avisado.", "The balances do not agree. Your operator was informed.", "Los saldos no coinciden. Su operador fue avisado.";
        ReportFailure::InternalError = "O arquivo não pôde ser feito. Peça de novo.", "The file could not be made. Ask for it again.", "El archivo no pudo hacerse. Pídalo de nuevo.";
    }
}
