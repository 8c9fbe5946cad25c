//! The dashboard's form that shows a payer's document, which all pages mask. The audit says who saw it.

use crate::{App, MemberForm};
use axum::Router;
use axum::middleware::from_fn;
use axum::response::Response;
use axum::routing::post;
use domain::audit::Action;
use domain::ids::ChargeId;
use maud::html;
use pages::forms::{Need, answer};
use pages::{copy_button, errors_as_pages, words as w};
use shared::audit;
use shared::http::{IdPath, Problem, Result};

pub(crate) fn routes() -> Router<App> {
    Router::new().route("/dashboard/charges/{id}/document", post(reveal)).layer(from_fn(errors_as_pages))
}

/// The row of the audit is stored before the document is shown. It names the charge, never the document.
async fn reveal(IdPath(id): IdPath<ChargeId>, member: MemberForm) -> Result<Response> {
    let charge = member.charge(id).await?;
    let charge = charge.as_stored();
    let path = format!("/dashboard/charges/{}", charge.id);
    if let Err(problem) = member.require(Need::Admin) {
        return answer(Err(problem), &path);
    }
    let document = charge.payer().ok_or(Problem::NotFound { what: "document of this charge" })?;
    let MemberForm { app, caller, language, now, .. } = &member;
    let row = caller.audit(Action::RevealDocument(caller.scope.mode), charge.id, *now)?;
    audit::append(app.charges.store(), &row).await?;
    let main = html! {
        h1 { (language.say(w::DOCUMENT)) }
        section.card {
            (pages::alert(pages::Tone::Warn, &html! { (language.say(w::REVEALED)) }))
            pre tabindex="0" { code #document { (document) } }
            div.actions {
                (copy_button(*language, w::COPY, document))
                a.btn.quiet href=(&path) { (language.say(w::BACK)) }
            }
        }
    };
    Ok(member.page(w::DOCUMENT, main, &path))
}
