//! Disputes: MED cases and chargebacks.

use axum::extract::Path;
use axum::response::Response;
use domain::ids::MedCaseId;
use domain::med::{CaseKind, CaseStatus, MedCase, MoneyOutcome};
use domain::time::Timestamp;
use domain::vocabulary::Vocabulary;
use maud::{Markup, html};
use pages::{
    Cell, Tone, Word, copy_button, empty, facts, money, next_page, table, tag, time, without_documents,
};
use shared::http::Problem;
use shared::med::CaseFilter;

use crate::states::State as _;
use crate::visit::{Page, Visitor};
use crate::words as w;

const PATH: &str = "/dashboard/disputes";

const SECONDS_AN_HOUR: i64 = 3_600;

/// Hours before the deadline from which it is marked.
const URGENT_HOURS: i64 = 48;

pub(crate) async fn list(visitor: Visitor) -> Result<Response, Problem> {
    let query = visitor.query();
    let status = query.text("status").and_then(CaseStatus::named).unwrap_or(CaseStatus::Open);
    let after: Option<MedCaseId> = query.text("starting_after").and_then(|id| id.parse().ok());
    let filter = CaseFilter::by_status(Some(status), after);
    let (visit, cursor) =
        visitor.enter(async |visitor| Ok(visitor.pages.app.cases.find(after).await?)).await?;
    let (page, found) = visit
        .load(async |visit| {
            Ok(visit.visitor.pages.app.cases.list(&visit.scope().scope, &filter, cursor).await?)
        })
        .await?;
    let name: &str = status.into();
    let next = found.next_cursor.map(|id| format!("{PATH}?status={name}&starting_after={id}"));
    let mut cases = found.items;
    if status == CaseStatus::Open {
        cases.sort_by_key(|case| case.response_deadline.unwrap_or(Timestamp::MAX));
    }
    let rows = cases.iter().map(|case| {
        vec![
            case.response_deadline.map(|due| deadline(&page, case, due)).unwrap_or_default(),
            html! { a href={ (PATH) "/" (case.id) } { (page.say(kind_name(case.kind))) " · " (time(case.created_at)) } },
            case.status.tag(page.language),
            html! { (money(case.amount.minor(), case.currency)) },
            html! { (without_documents(case.reason.as_deref().unwrap_or_default())) },
        ]
    });
    let choices = CaseStatus::vocabulary().into_iter().map(|(name, each)| (name, page.say(each.shown().1)));
    let main = html! {
        h1 { (page.say(w::DISPUTES)) }
        (pages::chips(page.say(w::STATE), (PATH, "status"), name, choices))
        div #list data-refresh="10" {
            @if cases.is_empty() { (empty(page.say(w::NO_DISPUTES), None)) } @else {
                section.card {
                    (table(page.say(w::DISPUTES), &[
                        (Cell::Time, page.say(w::ANSWER_BY)),
                        (Cell::Main, page.say(w::KIND_CASE)),
                        (Cell::State, page.say(w::STATE)),
                        (Cell::Amount, page.say(w::AMOUNT)),
                        (Cell::Other, page.say(w::REASON)),
                    ], rows.collect()))
                }
            }
            (next_page(page.language, w::OLDER, next))
        }
    };
    Ok(page.render(page.say(w::DISPUTES), &main))
}

/// The deadline, and the hours that are left while an answer is possible.
fn deadline(page: &Page, case: &MedCase, due: Timestamp) -> Markup {
    let hours = due.seconds().saturating_sub(page.now().seconds()).div_euclid(SECONDS_AN_HOUR);
    html! {
        (time(due))
        @if case.status == CaseStatus::Open {
            " "
            @if hours < 0 { (tag(Tone::Bad, page.say(w::OVERDUE))) }
            @else if hours < URGENT_HOURS { (tag(Tone::Warn, &page.language.fill(w::HOURS_LEFT, &[&hours.to_string()]))) }
        }
    }
}

fn kind_name(kind: CaseKind) -> Word {
    match kind {
        CaseKind::Med => w::CASE_MED,
        CaseKind::Chargeback => w::CASE_CHARGEBACK,
        CaseKind::Dispute => w::KIND_CASE,
        CaseKind::Fraud => w::CASE_FRAUD,
    }
}

pub(crate) async fn show(visitor: Visitor, Path(id): Path<String>) -> Result<Response, Problem> {
    let id: Option<MedCaseId> = id.parse().ok();
    let (visit, case) = visitor
        .enter(async |visitor| {
            let case = visitor.pages.app.cases.find(id).await?;
            case.filter(|case| case.scope == visitor.scope()).ok_or(Problem::NotFound { what: "MED case" })
        })
        .await?;
    let (page, charge) = visit
        .load(async |visit| {
            let app = &visit.visitor.pages.app;
            Ok(app
                .charges
                .find(Some(case.id.charge()))
                .await?
                .map(|charge| charge.read_at(visit.visitor.now)))
        })
        .await?;
    let heading = format!("{} {}", page.say(kind_name(case.kind)), money(case.amount.minor(), case.currency));
    let outcome = case.money_outcome.map(|outcome| match outcome {
        MoneyOutcome::RefundedToMerchant => w::OUTCOME_MERCHANT,
        MoneyOutcome::ClosedWithoutRefund => w::OUTCOME_NO_REFUND,
        MoneyOutcome::Lost => w::OUTCOME_LOST,
    });
    let main = html! {
        p.crumb { a href=(PATH) { (page.say(w::DISPUTES)) } " / " (page.say(kind_name(case.kind))) }
        div #case data-refresh=[case.closed_at.is_none().then_some("10")] {
            h1 { (heading) " " (case.status.tag(page.language)) }
            @if let Some(due) = case.response_deadline.filter(|_| case.status == CaseStatus::Open) {
                div.alert.warn { strong { (page.say(w::ANSWER_BY)) } " " (deadline(&page, &case, due)) }
            }
            div.actions { (copy_button(page.language, w::COPY_ID, &case.id.to_string())) }
            div.two {
                section.card {
                    h2 { (page.say(w::DATA)) }
                    (facts(vec![
                        ("Id", html! { code { (case.id) } }),
                        (page.say(w::CHARGE), html! { a href={ "/dashboard/charges/" (case.id.charge()) } { (case.id.charge()) } }),
                        (page.say(w::AMOUNT), html! { (money(case.amount.minor(), case.currency)) }),
                        (page.say(w::RETAINED), if case.moved.is_zero() { html! {} } else { html! { (money(case.moved.get(), case.currency)) } }),
                        (page.say(w::REASON), html! { (without_documents(case.reason.as_deref().unwrap_or_default())) }),
                        (page.say(w::CREATED_ON), time(case.created_at)),
                        (page.say(w::ANSWER_BY), case.response_deadline.map(time).unwrap_or_default()),
                        (page.say(w::EVIDENCE), html! { (case.evidence_count) }),
                        (page.say(w::APPEALED_ON), case.appealed_at.map(time).unwrap_or_default()),
                        (page.say(w::APPEAL), html! { (without_documents(case.appeal_reason.as_deref().unwrap_or_default())) }),
                        (page.say(w::ENDED_ON), case.closed_at.map(time).unwrap_or_default()),
                        (page.say(w::OUTCOME), html! { @if let Some(outcome) = outcome { (page.say(outcome)) } }),
                    ]))
                }
                @if let Some(charge) = charge {
                    section.card {
                        h2 { (page.say(w::CHARGE)) }
                        (facts(vec![
                            (page.say(w::AMOUNT), html! { (money(charge.amount.minor(), charge.currency)) }),
                            (page.say(w::STATE), charge.status.tag(page.language)),
                            (page.say(w::METHOD), html! { (charge.method().facts().name) }),
                            (page.say(w::CREATED), time(charge.created_at)),
                            (page.say(w::PAID), charge.applied_payment.as_ref().map(|paid| time(paid.paid_at)).unwrap_or_default()),
                        ]))
                    }
                }
            }
        }
    };
    Ok(page.render(&heading, &main))
}
