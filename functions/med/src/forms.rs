//! The dashboard's forms that answer a case.

use crate::{App, MemberForm, upload_ticket};
use axum::Router;
use axum::http::StatusCode;
use axum::middleware::from_fn;
use axum::response::Response;
use axum::routing::post;
use domain::ids::{EvidenceId, MedCaseId};
use domain::med::{AppealReason, CaseStatus, MedCase};
use money::med::CaseError;
use money::med::request::appeal_reason;
use pages::forms::{Need, answer, body, done_as, invalid_amount, minor_units};
use pages::{CONFIRMED, SentForm, Word, errors_as_pages};
use serde_json::json;
use shared::http::{IdPair, IdPath, Problem, Result};

pages::words! { ,
    APPEAL = "Contestar", "Appeal", "Apelar";
    APPEAL_ASK = "Enviar a contestação? Depois de enviada, o texto não pode ser mudado. Arquivos anexados: {}.", "Send the appeal? Its text can't be changed afterwards. Attached files: {}.", "¿Enviar la apelación? Después de enviada, el texto no puede cambiarse. Archivos adjuntos: {}.";
    REMOVE_FILE = "Remover o arquivo", "Remove the file", "Quitar el archivo";
    REMOVE_FILE_ASK = "Remover este arquivo? O texto da contestação fica salvo.", "Remove this file? The text of the appeal is kept.", "¿Quitar este archivo? El texto de la apelación queda guardado.";
}

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/dashboard/disputes/{id}/appeal", post(appeal))
        .route("/dashboard/disputes/{id}/accept", post(accept))
        .route("/dashboard/disputes/{id}/evidence", post(announce_file))
        .route("/dashboard/disputes/{id}/evidence/{file}/complete", post(complete_file))
        .route("/dashboard/disputes/{id}/evidence/{file}/remove", post(remove_file))
        .layer(from_fn(errors_as_pages))
}

/// The case with an id, and its page. 404 for a case of another account or mode.
async fn own_case(member: &MemberForm, id: Option<MedCaseId>) -> Result<(MedCase, String)> {
    let found = member.app.cases.find(id).await?;
    let found = found.filter(|case| case.scope == member.caller.scope);
    let case = found.ok_or(Problem::NotFound { what: "MED case" })?;
    let page = format!("/dashboard/disputes/{}", case.id);
    Ok((case, page))
}

fn require_open(case: &MedCase) -> Result<()> {
    let text = || "The case is no longer open. It can't be answered.".to_owned();
    if case.status == CaseStatus::Open { Ok(()) } else { Err(Problem::Unprocessable(text())) }
}

fn require_before_deadline(case: &MedCase, member: &MemberForm) -> Result<()> {
    let text = || "The deadline has passed. The payer's bank decides without an answer.".to_owned();
    if case.is_past_deadline(member.now) { Err(Problem::Unprocessable(text())) } else { Ok(()) }
}

/// Sends the appeal after a question, or only stores its text. The text of an appeal that is asked about or refused is
/// stored too, so that it need not be written again.
async fn appeal(IdPath(id): IdPath<MedCaseId>, member: MemberForm) -> Result<Response> {
    member.require_role(Need::Admin)?;
    let (case, page) = own_case(&member, id).await?;
    let id = case.id;
    // A browser sends a line break as two characters, which would count twice.
    let text = member.form.text("reason").unwrap_or_default().replace("\r\n", "\n");
    let is_draft = member.form.text("draft").is_some();
    let is_asked = member.form.text(CONFIRMED).is_none() && may_send(&member, &case, &text).is_ok();
    if is_draft || is_asked {
        member.app.cases.save_draft(id, &text, member.now).await?;
    }
    if is_draft {
        return Ok(done_as("disputes-draft", &page));
    }
    if is_asked {
        let files = case.evidence_count.to_string();
        return ask(&member, &format!("{page}/appeal"), &page, (APPEAL, APPEAL_ASK, &files));
    }
    let mut sent = Box::pin(send(&member, case, &text)).await;
    if sent.is_err() {
        // A form that is sent twice is answered alike.
        let stored = member.app.cases.find(Some(id)).await?.and_then(|case| case.appeal_reason);
        sent = if stored.as_deref() == Some(text.as_str()) { Ok(()) } else { sent };
    }
    if sent.is_err() {
        member.app.cases.save_draft(id, &text, member.now).await?;
    }
    answer(sent.map(|()| page.clone()), &page)
}

fn ask(
    member: &MemberForm,
    action: &str,
    page: &str,
    (title, question, value): (Word, Word, &str),
) -> Result<Response> {
    let sent = SentForm::typed(action, &member.typed);
    let sent = sent.ok_or_else(|| Problem::field("idempotency_key", "must be that of the page's form"))?;
    member.asking((title, page), &sent, |form| form.language.fill(question, &[value]))
}

fn may_send(member: &MemberForm, case: &MedCase, text: &str) -> Result<AppealReason> {
    member.require(Need::Admin)?;
    require_open(case)?;
    require_before_deadline(case, member)?;
    appeal_reason(&body(json!({ "reason": text }))?)
}

async fn send(member: &MemberForm, case: MedCase, text: &str) -> Result<()> {
    let reason = may_send(member, &case, text)?;
    member.app.cases.appeal(case, &reason, &member.caller, member.now).await?;
    Ok(())
}

async fn accept(IdPath(id): IdPath<MedCaseId>, member: MemberForm) -> Result<Response> {
    let (case, page) = own_case(&member, id).await?;
    let accepted = Box::pin(accepted(&member, case)).await;
    answer(accepted.map(|()| page.clone()), &page)
}

/// The loss is final, so the member types its amount.
async fn accepted(member: &MemberForm, case: MedCase) -> Result<()> {
    member.require(Need::Admin)?;
    // A form that is sent twice is answered alike.
    if case.status != CaseStatus::Accepted {
        require_open(&case)?;
    }
    let typed = minor_units(member.form.text("amount").unwrap_or_default(), case.currency)?;
    if typed != case.amount.minor() {
        return Err(invalid_amount());
    }
    match member.app.cases.accept(case, &member.caller, member.now).await {
        Err(CaseError::NotOpen(CaseStatus::Accepted)) => Ok(()),
        accepted => Ok(accepted.map(drop)?),
    }
}

/// Answers the page's script with the same ticket as the API.
async fn announce_file(IdPath(id): IdPath<MedCaseId>, member: MemberForm) -> Result<Response> {
    member.require_role(Need::Admin)?;
    let (case, _) = own_case(&member, id).await?;
    require_before_deadline(&case, &member)?;
    let text = |name| member.form.text(name);
    let file = body(json!({
        "file_name": text("file_name"),
        "file_size": text("file_size").and_then(|size| size.parse::<i64>().ok()),
        "mime_type": text("mime_type"),
    }))?;
    upload_ticket(&member.app.evidence, &case, &file, member.now).await
}

async fn complete_file(
    IdPair(id, file): IdPair<MedCaseId, EvidenceId>,
    member: MemberForm,
) -> Result<StatusCode> {
    member.require_role(Need::Admin)?;
    let (case, _) = own_case(&member, id).await?;
    let found = member.app.evidence.find(file.map(|file| (case.id, file))).await?;
    let found = found.ok_or(Problem::NotFound { what: "evidence of this case" })?;
    Box::pin(member.app.evidence.complete(case, found, Some(&member.caller), member.now)).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn remove_file(
    IdPair(id, file): IdPair<MedCaseId, EvidenceId>,
    member: MemberForm,
) -> Result<Response> {
    member.require_role(Need::Admin)?;
    let (case, page) = own_case(&member, id).await?;
    let file = file.ok_or(Problem::NotFound { what: "evidence of this case" })?;
    if member.form.text(CONFIRMED).is_none() {
        // The button belongs to the form of the appeal.
        if let Some(text) = member.typed.text("reason") {
            member.app.cases.save_draft(case.id, &text.replace("\r\n", "\n"), member.now).await?;
        }
        let path = format!("{page}/evidence/{file}/remove");
        return ask(&member, &path, &page, (REMOVE_FILE, REMOVE_FILE_ASK, ""));
    }
    let removed = Box::pin(member.app.evidence.remove(case.id, file, &member.caller, member.now)).await;
    answer(removed.map(|()| page.clone()).map_err(Problem::from), &page)
}
