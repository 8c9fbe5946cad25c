//! The dossier of a dispute, for a lawyer or a bank: a PDF in Portuguese, as the service's other documents are. A page
//! and a route of the API have it, because this function may read all that a timeline needs.

use artefacts::pdf::{Part, report_pdf};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use domain::charge::Charge;
use domain::ids::{MedCaseId, Mode};
use domain::med::MedCase;
use domain::payment_method::PaymentMethod;
use domain::pt_br::format_second;
use domain::time::Timestamp;
use money::extract::CallerOwned;
use money::med::evidence::Evidence;
use pages::forms::Need;
use pages::{Language, Word, masked_payer, money, without_documents};
use services::TimelineKind::{Delivery, Refund};
use services::{ChargeRows, ChargeTimeline, TimelineEntry, TimelineKind, TimelinePart, charge_timeline};
use shared::http::{IdPath, Problem, Result};

use crate::Uses;
use crate::charges::{description, own_rows, paid_word};
use crate::disputes::{kind_name, outcome_name};
use crate::states::{State as _, of_charge};
use crate::translations::{case_reason, details_of, words_of};
use crate::visit::Visitor;
use crate::words as w;

pub(crate) async fn show(visitor: Visitor, IdPath(id): IdPath<MedCaseId>) -> Result<Response> {
    let unknown = || Problem::NotFound { what: "MED case" };
    let id = id.ok_or_else(unknown)?;
    let rows = async |visitor: &Visitor| own_rows(visitor, Some(id.charge()), "MED case").await;
    let (visit, rows) = visitor.enter(rows).await?;
    let (page, (timeline, files)) = visit
        .load(async |visit| {
            let timeline = Box::pin(charge_timeline(&visit.app.store, rows, TimelinePart::Newest, visit.now));
            Ok(tokio::try_join!(timeline, Box::pin(visit.app.evidence.for_case(id)))?)
        })
        .await?;
    if !page.may(Need::Dossier) {
        return Err(Problem::RoleRequired { role: "ADMIN" });
    }
    let case = timeline.cases.iter().find(|case| case.id == id).ok_or_else(unknown)?;
    Ok(document((&page.session.account.settings.merchant_name, page.now), case, &timeline, &files))
}

/// `GET /v1/med/cases/{id}/dossier` and its alias.
pub(crate) async fn of_api(
    CallerOwned { app, caller, found: case, now }: CallerOwned<Uses, MedCase>,
) -> Result<Response> {
    let unknown = || Problem::NotFound { what: "MED case" };
    let rows = ChargeRows::read(&app.store, case.id.charge()).await?.ok_or_else(unknown)?;
    let timeline = Box::pin(charge_timeline(&app.store, rows, TimelinePart::Newest, now));
    let (timeline, files) = tokio::try_join!(timeline, Box::pin(app.evidence.for_case(case.id)))?;
    Ok(document((&caller.settings.merchant_name, now), &case, &timeline, &files))
}

fn document(
    made: (&str, Timestamp),
    case: &MedCase,
    timeline: &ChargeTimeline,
    files: &[Evidence],
) -> Response {
    let notice = (case.scope.mode == Mode::Test)
        .then_some("DOCUMENTO DE TESTE: simulado no ambiente de testes, sem dinheiro.");
    let title = format!("{}: {}", w::DOSSIER.pt, money(case.amount.minor(), case.currency));
    let pdf = report_pdf(&title, notice, &parts(made, case, timeline, files));
    let headers = [
        (CONTENT_TYPE, "application/pdf".to_owned()),
        (CONTENT_DISPOSITION, format!("attachment; filename=\"dossie-{}.pdf\"", case.id)),
    ];
    (headers, pdf).into_response()
}

/// A value without text is left out. Documents are masked, as on the pages: only a form that is audited shows one.
fn value(name: Word, text: Option<String>) -> Option<Part> {
    text.filter(|text| !text.is_empty()).map(|text| Part::Value(name.pt, without_documents(&text)))
}

fn parts(
    (merchant_name, now): (&str, Timestamp),
    case: &MedCase,
    timeline: &ChargeTimeline,
    files: &[Evidence],
) -> Vec<Part> {
    let mut parts = vec![
        Part::Value(w::MERCHANT.pt, merchant_name.to_owned()),
        Part::Value(w::MADE_ON.pt, format!("{} {}", format_second(now), w::ZONE.pt)),
        Part::Heading(w::KIND_CASE.pt),
    ];
    let case_values = [
        (w::KIND_CASE, Some(case.id.to_string())),
        (w::KIND, Some(kind_name(case.kind).pt.to_owned())),
        (w::STATE, Some(case.status.shown().1.pt.to_owned())),
        (w::AMOUNT, Some(money(case.amount.minor(), case.currency))),
        (w::REASON, case.reason.as_deref().map(|reason| case_reason(Language::Portuguese, reason))),
        (w::CREATED_ON, Some(format_second(case.created_at))),
        (w::ANSWER_BY, case.response_deadline.map(format_second)),
        (w::APPEALED_ON, case.appealed_at.map(format_second)),
        (w::ENDED_ON, case.closed_at.map(format_second)),
        (w::OUTCOME, case.money_outcome.map(|outcome| outcome_name(outcome).pt.to_owned())),
    ];
    parts.extend(case_values.into_iter().filter_map(|(name, text)| value(name, text)));
    parts.push(Part::Heading(w::CHARGE.pt));
    parts.extend(charge_values(&timeline.charge));
    for (heading, text) in [(w::APPEAL, &case.appeal_reason), (w::APPEAL_DRAFT, &case.appeal_draft)] {
        if let Some(text) = text {
            parts.extend([Part::Heading(heading.pt), Part::Text(without_documents(text))]);
        }
    }
    parts.push(Part::Heading(w::EVIDENCE.pt));
    parts.extend(files.iter().flat_map(|evidence| {
        let (file, id) = (&evidence.file, evidence.id);
        let name = without_documents(file.name.as_str());
        let text = format!("{name} ({}, {} bytes, {id})", file.mime_type.as_str(), file.size);
        let text = Part::Text(format!("{}  {text}", format_second(evidence.uploaded_at)));
        // Not masked: a hash can look like a document.
        [text, Part::Value("SHA-256", evidence.sha256.clone())]
    }));
    if files.is_empty() {
        parts.push(Part::Text(w::NO_FILES.pt.to_owned()));
    }
    let sections = [
        (w::TIMELINE, timeline_entries(timeline, |kind| !matches!(kind, Refund | Delivery))),
        (w::REFUNDS, timeline_entries(timeline, |kind| kind == Refund)),
        (w::DELIVERIES, timeline_entries(timeline, |kind| kind == Delivery)),
    ];
    for (heading, entries) in sections.into_iter().filter(|(_, entries)| !entries.is_empty()) {
        parts.push(Part::Heading(heading.pt));
        parts.extend(entries);
    }
    if !timeline.is_complete {
        parts.push(Part::Text(w::PARTIAL.pt.to_owned()));
    }
    parts
}

fn timeline_entries(timeline: &ChargeTimeline, is_of: fn(TimelineKind) -> bool) -> Vec<Part> {
    let entry = |entry: &TimelineEntry| {
        let (kind, state) = words_of(&timeline.charge, entry);
        let state = state.map_or(entry.state.as_str(), |(_, word)| word.pt);
        let amount = entry.amount.map(|minor| money(minor, timeline.charge.currency));
        let more = [entry.id.clone(), details_of(Language::Portuguese, entry)];
        let text = [Some(format!("{}: {state}", kind.pt)), amount].into_iter().chain(more).flatten();
        let text = text.collect::<Vec<_>>().join(" · ");
        Part::Text(without_documents(&format!("{}  {text}", format_second(entry.at))))
    };
    timeline.merchants_entries().filter(|entry| is_of(entry.what)).map(entry).collect()
}

fn charge_values(charge: &Charge) -> impl Iterator<Item = Part> {
    let paid = charge.applied_payment.as_ref();
    let customer = &charge.customer;
    let by_pix = paid.filter(|paid| paid.method == PaymentMethod::Pix);
    let values = [
        (w::CHARGE, Some(charge.id.to_string())),
        (w::ORDER, charge.metadata.order_number()),
        (w::DESCRIPTION, description(charge)),
        (w::AMOUNT, Some(money(charge.amount.minor(), charge.currency))),
        (w::METHOD, Some(w::of_method(charge.method()).pt.to_owned())),
        (w::STATE, Some(of_charge(charge).1.pt.to_owned())),
        (w::CREATED, Some(format_second(charge.created_at))),
        (paid_word(charge), paid.map(|paid| format_second(paid.paid_at))),
        (w::END_TO_END_ID, by_pix.map(|paid| paid.payment_id.to_string())),
        (w::CUSTOMER, customer.name.clone()),
        (w::DOCUMENT, masked_payer(charge)),
        (w::EMAIL, customer.email.clone()),
        (w::PHONE, customer.phone.clone()),
    ];
    values.into_iter().filter_map(|(name, text)| value(name, text))
}
