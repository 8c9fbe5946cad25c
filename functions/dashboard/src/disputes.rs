//! Disputes: MED cases and chargebacks.

use axum::response::{IntoResponse as _, Redirect, Response};
use domain::charge::Charge;
use domain::ids::{EvidenceId, MedCaseId};
use domain::med::{AppealReason, CaseKind, CaseStatus, MedCase, MoneyOutcome};
use domain::time::Timestamp;
use domain::vocabulary::Vocabulary;
use maud::{Markup, html};
use money::med::evidence::{Evidence, EvidenceRow, MAX_BYTES, MimeType};
use money::med::{CaseFilter, DeadlineFilter, SHOWN};
use pages::forms::Need;
use pages::{Cell, Tone, Word, alert, copy_button, facts, money, tag, time, without_documents};
use shared::http::{IdPair, IdPath, Problem, Result};

use crate::account::NOTICES;
use crate::charges::{description, of_rows, order, paid_word, title, titles};
use crate::states::{State as _, charge_tag};
use crate::translations::case_reason;
use crate::visit::{Page, Visitor};
use crate::words as w;

const PATH: &str = "/dashboard/disputes";

const SECONDS_AN_HOUR: i64 = 3_600;

const HOURS_A_DAY: i64 = 24;

/// The id of the form that has the text of the appeal.
const APPEAL_FORM: &str = "appeal";

/// Hours before the deadline from which it is marked.
const URGENT_HOURS: i64 = 48;

pub(crate) async fn list(visitor: Visitor) -> Result<Response> {
    let query = visitor.query();
    let status = query.text("status").and_then(CaseStatus::named).unwrap_or(CaseStatus::Open);
    let after: Option<MedCaseId> = query.text("starting_after").and_then(|id| id.parse().ok());
    let filter = CaseFilter::by_status(status, after);
    let (visit, cursor) = visitor.enter(async |visitor| Ok(visitor.app.cases.find(after).await?)).await?;
    let (page, (found, is_cut, charges)) = visit
        .load(async |visit| {
            let (cases, scope) = (&visit.app.cases, visit.scope());
            let (found, is_cut) = if status == CaseStatus::Open {
                let by_deadline = DeadlineFilter { limit: SHOWN, starting_after: None, before: None };
                let cursor = cursor.filter(|cursor| cursor.scope == scope);
                cases.nearest(&scope, by_deadline, cursor).await?
            } else {
                (cases.list(&scope, &filter, cursor).await?, false)
            };
            let charges = of_rows(&visit.app.store, found.items.iter().map(|case| case.id.charge())).await?;
            Ok((found, is_cut, charges))
        })
        .await?;
    let (cases, next, titles) = (found.items, found.next_cursor, titles(&page, &charges));
    let name: &str = status.into();
    let next = next.map(|id| format!("{PATH}?status={name}&starting_after={id}"));
    let rows = cases.iter().map(|case| {
        vec![
            case.response_deadline.map(|due| deadline(&page, due, case.status == CaseStatus::Open)).unwrap_or_default(),
            html! {
                a href={ (PATH) "/" (case.id) } dir="auto" {
                    (page.say(kind_name(case.kind))) " · "
                    @match titles.get(&case.id.charge()) { Some(title) => (title), None => (time(case.created_at)) }
                }
            },
            case.status.tag(page.language),
            html! { (money(case.amount.minor(), case.currency)) },
            html! { @if let Some(reason) = &case.reason { (case_reason(page.language, reason)) } },
        ]
    });
    let choices = CaseStatus::vocabulary().into_iter().map(|(name, each)| (name, page.say(each.shown().1)));
    let main = html! {
        h1 { (page.say(w::DISPUTES)) }
        (pages::chips(page.say(w::STATE), (PATH, "status"), name, choices))
        div #list data-refresh="10" {
            @if cases.is_empty() { (page.empty(w::NO_DISPUTES, Some((NOTICES, w::NOTICES)))) } @else {
                section.card {
                    (page.table(w::DISPUTES, &[
                        (Cell::Time, w::ANSWER_BY),
                        (Cell::Main, w::KIND_CASE),
                        (Cell::State, w::STATE),
                        (Cell::Amount, w::AMOUNT),
                        (Cell::Other, w::REASON),
                    ], rows.collect()))
                }
            }
            @if is_cut { p.soft { (page.say(w::MORE_DISPUTES)) } }
            (page.paging(if status == CaseStatus::Open { (w::EARLIER, w::LATER) } else { (w::NEWER, w::OLDER) }, next))
        }
    };
    Ok(page.render(page.say(w::DISPUTES), &main))
}

/// The deadline, and the time that is left while an answer is possible.
pub(crate) fn deadline(page: &Page, due: Timestamp, is_open: bool) -> Markup {
    let hours = due.seconds().saturating_sub(page.now.seconds()).div_euclid(SECONDS_AN_HOUR);
    let left = |word, count: i64| page.language.fill(word, &[&count.to_string()]);
    html! {
        (time(due))
        @if is_open {
            " "
            @if due < page.now { (tag(Tone::Bad, page.say(w::OVERDUE))) }
            @else if hours < URGENT_HOURS { (tag(Tone::Warn, &left(w::HOURS_LEFT, hours))) }
            @else { (tag(Tone::Calm, &left(w::DAYS_LEFT, hours.div_euclid(HOURS_A_DAY)))) }
        }
    }
}

pages::words! { ,
    STEPS = "Etapas da disputa", "Steps of the dispute", "Etapas de la disputa";
    YOUR_ANSWER = "Sua resposta", "Your answer", "Su respuesta";
    NOT_APPEALED = "Sem contestação", "Not appealed", "Sin apelación";
    ANALYSIS_OF_BANKS = "Análise dos bancos", "Analysis by the banks", "Análisis de los bancos";
    ANALYSIS = "Análise do banco do cartão", "Analysis by the card's bank", "Análisis del banco de la tarjeta";
    DECISION = "Decisão", "Decision", "Decisión";
}

pages::translate! {
    pub(crate) fn outcome_name(MoneyOutcome) {
        MoneyOutcome::RefundedToMerchant = "O dinheiro voltou ao saldo", "The money is back in the balance", "El dinero volvió al saldo";
        MoneyOutcome::ClosedWithoutRefund = "Encerrada sem devolução à loja", "Closed without the money for the shop", "Cerrada sin devolución a la tienda";
        MoneyOutcome::Lost = "O dinheiro foi para o pagador", "The money went to the payer", "El dinero fue al pagador";
    }
    pub(crate) fn kind_name(CaseKind) {
        CaseKind::Med = "Disputa de Pix (MED)", "Pix dispute (MED)", "Disputa de Pix (MED)";
        CaseKind::Chargeback = "Disputa de cartão (chargeback)", "Card dispute (chargeback)", "Disputa de tarjeta (contracargo)";
        CaseKind::Dispute = "Disputa", "Dispute", "Disputa";
        CaseKind::Fraud = "Suspeita de fraude", "Report of fraud", "Sospecha de fraude";
    }
}

/// What became of the money that the case moved.
fn moved_word(case: &MedCase) -> Word {
    match case.money_outcome {
        _ if !case.status.is_over() => w::RETAINED,
        Some(MoneyOutcome::RefundedToMerchant) => w::BACK_IN_BALANCE,
        Some(MoneyOutcome::Lost | MoneyOutcome::ClosedWithoutRefund) | None => w::GIVEN_UP,
    }
}

async fn own_case(visitor: &Visitor, id: Option<MedCaseId>) -> Result<MedCase> {
    let case = visitor.app.cases.find(id).await?;
    case.filter(|case| case.scope == visitor.scope()).ok_or(Problem::NotFound { what: "MED case" })
}

/// Leads to the signed URL of a file. The page has no such URL, because they expire within minutes.
pub(crate) async fn file(
    visitor: Visitor,
    IdPair(id, file): IdPair<MedCaseId, EvidenceId>,
) -> Result<Response> {
    let (visit, found) = visitor
        .enter(async |visitor| {
            own_case(visitor, id).await?;
            Ok(visitor.app.evidence.find(id.zip(file)).await?)
        })
        .await?;
    let (_page, url) = visit
        .load(async |visit| {
            let Some(EvidenceRow::Confirmed(evidence)) = found else {
                return Err(Problem::NotFound { what: "evidence of this case" });
            };
            Ok(visit.app.evidence.files.view_url(&evidence, visit.now).await?)
        })
        .await?;
    Ok(Redirect::to(&url).into_response())
}

pub(crate) async fn show(visitor: Visitor, IdPath(id): IdPath<MedCaseId>) -> Result<Response> {
    let (visit, case) = visitor.enter(async |visitor| own_case(visitor, id).await).await?;
    let (page, (charge, files)) = visit
        .load(async |visit| {
            let charge = Box::pin(visit.app.charges.find(Some(case.id.charge())));
            let files = Box::pin(visit.app.evidence.for_case(case.id));
            let (charge, files) = tokio::try_join!(charge, files)?;
            Ok((charge.map(|charge| charge.read_at(visit.now)), files))
        })
        .await?;
    let may_attach = !case.status.is_over() && !case.is_past_deadline(page.now);
    let heading = format!("{} {}", page.say(kind_name(case.kind)), money(case.amount.minor(), case.currency));
    let outcome = case.money_outcome.map(outcome_name);
    let name_of_charge =
        charge.as_ref().map_or_else(|| case.id.charge().to_string(), |charge| title(&page, charge));
    let refresh = case.closed_at.is_none().then_some("10");
    let text = |text: Option<String>| html! { @if let Some(text) = text { span dir="auto" { (without_documents(&text)) } } };
    let main = html! {
        p.crumb { a href=(PATH) { (page.say(w::DISPUTES)) } " / " (page.say(kind_name(case.kind))) }
        div #case data-refresh=[refresh] {
            h1 { (heading) " " (case.status.tag(page.language)) }
            (steps(&page, &case))
            @if let Some(due) = case.response_deadline.filter(|_| case.status == CaseStatus::Open) {
                (alert(Tone::Warn, &html! {
                    p { strong { (page.say(w::ANSWER_BY)) } " " (deadline(&page, due, true)) " " (page.say(w::ZONE)) }
                    @if case.is_past_deadline(page.now) { p { (page.say(w::PAST_DEADLINE)) } }
                }))
            }
        }
        div.actions {
            @if page.may(Need::Dossier) { a.btn.quiet href={ (PATH) "/" (case.id) "/dossier" } download { (page.say(w::DOSSIER_PDF)) } }
            @else { (page.submit((w::DOSSIER_PDF, ""), Need::Dossier)) }
            (copy_button(page.language, w::COPY_ID, &case.id.to_string()))
        }
        div.two {
            div {
                section.card {
                    h2 { (page.say(w::EVIDENCE)) }
                    @if may_attach { p { (page.say(w::HELPS)) @if let Some(more) = helps(&case, charge.as_ref()) { " " (page.say(more)) } } }
                    div #files data-refresh=[refresh] { (file_list(&page, &case, &files)) }
                    @if may_attach { (upload(&page, &case)) }
                }
                (answer(&page, &case))
            }
            // The forms are outside of the parts that are replaced, so that a text that is being written stays.
            div #data data-refresh=[refresh] {
                section.card {
                    h2 { (page.say(w::DATA)) }
                    (facts(vec![
                        ("Id", html! { code { (case.id) } }),
                        (page.say(w::CHARGE), html! { a href={ "/dashboard/charges/" (case.id.charge()) } dir="auto" { (name_of_charge) } }),
                        (page.say(w::AMOUNT), html! { (money(case.amount.minor(), case.currency)) }),
                        (page.say(moved_word(&case)), if case.moved.is_zero() { html! {} } else { html! { (money(case.moved.get(), case.currency)) } }),
                        (page.say(w::REASON), html! { @if let Some(reason) = &case.reason { (case_reason(page.language, reason)) } }),
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
                            (page.say(w::ORDER), text(order(&charge))),
                            (page.say(w::CUSTOMER), text(charge.customer_name(page.session.user.role))),
                            (page.say(w::DESCRIPTION), text(description(&charge))),
                            (page.say(w::EMAIL), text(charge.customer.email.clone())),
                            (page.say(w::AMOUNT), html! { (money(charge.amount.minor(), charge.currency)) }),
                            (page.say(w::STATE), charge_tag(&charge, page.language)),
                            (page.say(w::METHOD), html! { (page.say(w::of_method(charge.method()))) }),
                            (page.say(w::CREATED), time(charge.created_at)),
                            (page.say(paid_word(&charge)), charge.applied_payment.as_ref().map(|paid| time(paid.paid_at)).unwrap_or_default()),
                        ]))
                    }
                }
            }
        }
    };
    let response = page.render(&heading, &main);
    if !may_attach {
        return Ok(response);
    }
    let storage = page.app.evidence.files.origin(page.now).await?;
    Ok(pages::connecting_to(response, &storage))
}

/// How far the case has come: what was done, what is next, and how it ended.
fn steps(page: &Page, case: &MedCase) -> Markup {
    let due = case.response_deadline.map(time);
    let (answered, is_over) = (case.appealed_at.is_some(), case.status.is_over());
    let answer = match (case.appealed_at, due) {
        (Some(at), _) => html! { (page.say(w::APPEALED_ON)) " " (time(at)) },
        (None, _) if is_over => html! { (page.say(NOT_APPEALED)) },
        (None, Some(due)) => html! { (page.say(w::ANSWER_BY)) " " (due) },
        (None, None) => html! { (page.say(YOUR_ANSWER)) },
    };
    let end = html! {
        @if let Some(at) = case.closed_at {
            (page.say(w::ENDED_ON)) " " (time(at))
            @if let Some(outcome) = case.money_outcome { ": " (page.say(outcome_name(outcome))) }
        } @else { (page.say(DECISION)) }
    };
    let analysis =
        html! { (page.say(if case.kind == CaseKind::Med { ANALYSIS_OF_BANKS } else { ANALYSIS })) };
    let opened = html! { (page.say(w::CASE_OPENED)) " " (time(case.created_at)) };
    let now = match (is_over, answered) {
        (true, _) => 3,
        (false, true) => 2,
        (false, false) => 1,
    };
    html! {
        ol.line aria-label=(page.say(STEPS)) {
            @for (number, step) in [opened, answer, analysis, end].into_iter().enumerate() {
                li.soft[number > now].done[number < now || is_over] aria-current=[(number == now).then_some("step")] {
                    @if number == now { strong { (step) } } @else { (step) }
                }
            }
        }
    }
}

fn file_list(page: &Page, case: &MedCase, files: &[Evidence]) -> Markup {
    let may_remove = case.status == CaseStatus::Open && page.shows(Need::Admin);
    let rows = files.iter().map(|evidence| {
        let path = format!("{PATH}/{}/evidence/{}", case.id, evidence.id);
        let kilobytes = evidence.file.size.div_ceil(1024);
        let (name, remove) = (without_documents(evidence.file.name.as_str()), format!("{path}/remove"));
        vec![
            html! {
                a href=(path) dir="auto" { (name) }
                @if may_remove {
                    " "
                    // With the form of the appeal, so that its text is kept.
                    @if page.may(Need::Admin) && !case.is_past_deadline(page.now) {
                        button.quiet.sm form=(APPEAL_FORM) formaction=(remove) formnovalidate aria-label={ (page.say(w::REMOVE)) " " (name) } { (page.say(w::REMOVE)) }
                    } @else { (page.button(&remove, (w::REMOVE, "quiet sm"), Need::Admin, &html! {})) }
                }
            },
            html! { (kilobytes) " KB" },
            time(evidence.uploaded_at),
        ]
    });
    let columns = [(Cell::Main, w::FILE), (Cell::Amount, w::SIZE), (Cell::Time, w::WHEN)];
    html! {
        @if files.is_empty() { p.soft { (page.say(w::NO_FILES)) } }
        @else { (page.table(w::EVIDENCE, &columns, rows.collect())) }
    }
}

/// The script uploads to the storage, because the body of a form can't have the size of a file.
fn upload(page: &Page, case: &MedCase) -> Markup {
    let types: Vec<&str> = MimeType::vocabulary().into_iter().map(|(name, _)| name).collect();
    html! {
        @if page.may(Need::Admin) {
            p.soft data-noscript { (page.say(w::NEEDS_SCRIPT)) }
            form.drop hidden data-upload={ (PATH) "/" (case.id) "/evidence" } data-max=(MAX_BYTES)
                data-type=(page.say(w::UPLOAD_TYPE)) data-size=(page.say(w::UPLOAD_SIZE))
                data-sending=(page.say(w::UPLOADING)) data-done=(page.say(w::UPLOADED)) data-failed=(page.say(w::UPLOAD_FAILED)) {
                (page.mode_field())
                label for="file" { (page.say(w::ATTACH)) }
                input #file type="file" multiple accept=(types.join(",")) aria-describedby="files-rule";
                p #files-rule.sm.soft { (page.say(w::ATTACH_RULE)) }
                progress hidden max="1" aria-label=(page.say(w::ATTACH)) {}
                p role="status" {}
            }
        } @else if page.shows(Need::Admin) {
            p.soft { (page.say(w::ATTACH)) " (" (page.say(w::NEEDS_ADMIN)) ")" }
        }
    }
}

/// Which evidence helps, by what the payer alleges (docs/guide/med.md). The charge knows the alleged method of the
/// case that opened last.
fn helps(case: &MedCase, charge: Option<&Charge>) -> Option<Word> {
    let latest = charge.and_then(|charge| charge.disputes.as_ref()).filter(|latest| latest.case == case.id);
    match latest.and_then(|disputes| disputes.latest.method.as_deref()) {
        Some("scam") => Some(w::HELPS_SCAM),
        Some("unauthorized" | "invasion" | "coercion") => Some(w::HELPS_UNAUTHORIZED),
        _ if case.kind == CaseKind::Fraud => Some(w::HELPS_UNAUTHORIZED),
        _ => None,
    }
}

/// The forms that answer the case: they end with its deadline, but for the acceptance.
fn answer(page: &Page, case: &MedCase) -> Markup {
    if case.status != CaseStatus::Open {
        return html! {};
    }
    if !page.shows(Need::Admin) {
        return html! {
            @if let Some(draft) = &case.appeal_draft {
                section.card { h2 { (page.say(w::APPEAL_DRAFT)) } p.soft dir="auto" { (without_documents(draft)) } }
            }
        };
    }
    let action = |name: &str| format!("{PATH}/{}/{name}", case.id);
    let (least, most) = AppealReason::CHARS;
    let may = page.may(Need::Admin);
    html! {
        @if !case.is_past_deadline(page.now) {
            section.card {
                h2 { (page.say(w::APPEAL)) }
                // A draft may have documents, so only who may send it sees it whole.
                @if let Some(draft) = case.appeal_draft.as_deref().filter(|_| !may) {
                    p.soft dir="auto" { (without_documents(draft)) }
                }
                form.fields id=(APPEAL_FORM) method="post" action=(action("appeal")) {
                    (page.mode_field())
                    div {
                        label for="reason" { (page.say(w::APPEAL_TEXT)) }
                        textarea #reason name="reason" rows="8" required minlength=(least) maxlength=(most) aria-describedby="once" {
                            // The browser drops the first line break of a field.
                            "\n" (case.appeal_draft.as_deref().filter(|_| may).unwrap_or_default())
                        }
                    }
                    p #once.sm.soft { (page.say(w::APPEAL_ONCE)) }
                    div.actions {
                        (page.submit((w::DO_APPEAL, ""), Need::Admin))
                        @if may { button.quiet name="draft" value="1" formnovalidate { (page.say(w::SAVE_DRAFT)) } }
                        @else { (page.submit((w::SAVE_DRAFT, ""), Need::Admin)) }
                    }
                }
            }
        }
        details.card {
            summary { (page.say(w::ACCEPT_LOSS)) }
            p { (page.say(w::ACCEPT_MEANS)) }
            form.row method="post" action=(action("accept")) {
                (page.mode_field())
                div.f {
                    label for="amount" { (page.language.fill(w::TYPE_AMOUNT, &[&money(case.amount.minor(), case.currency)])) }
                    input #amount name="amount" inputmode="decimal" autocomplete="off" required;
                }
                (page.submit((w::ACCEPT_LOSS, "danger"), Need::Admin))
            }
        }
    }
}
