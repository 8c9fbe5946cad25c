//! The dashboard's forms about reports.

use crate::{App, MemberForm};
use axum::Router;
use axum::middleware::from_fn;
use axum::response::Response;
use axum::routing::post;
use domain::ids::{ReportId, ReportScheduleId};
use money::report::request::{NewReport, NewSchedule};
use pages::errors_as_pages;
use pages::forms::{Need, answer, body};
use serde_json::json;
use shared::http::{IdPath, Result};

const PATH: &str = "/dashboard/reports";

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route(PATH, post(create))
        .route("/dashboard/reports/{id}/delete", post(delete))
        .route("/dashboard/reports/schedules", post(create_schedule))
        .route("/dashboard/reports/schedules/{id}/delete", post(delete_schedule))
        .layer(from_fn(errors_as_pages))
}

/// A form that is sent twice finds the report of its key.
async fn create(member: MemberForm) -> Result<Response> {
    member.require_role(Need::Viewer)?;
    let MemberForm { app, caller, form, now, .. } = &member;
    let created = async {
        let text = |name| form.text(name);
        let request = body(json!({
            "type": text("type"), "format": text("format"), "from": text("from"), "to": text("to"),
            "by": text("by").filter(|_| text("type") == Some("payments")), "currency": text("currency"), "locale": "pt-BR",
        }))?;
        let request = NewReport::parse(&request, *now)?;
        // Keys of members and of programs are apart.
        let key = format!("{} {}", caller.by, text("idempotency_key").unwrap_or_default());
        app.create(caller, &key, request, *now).await?;
        Ok(PATH.to_owned())
    };
    answer(Box::pin(created).await, PATH)
}

async fn delete(IdPath(id): IdPath<ReportId>, member: MemberForm) -> Result<Response> {
    member.require_role(Need::Member)?;
    let MemberForm { app, caller, .. } = &member;
    let delete = Box::pin(app.reports.delete(&app.files, &caller.scope, id));
    let deleted = member.once_alike(&format!("delete#{id:?}"), delete).await?;
    answer(deleted.map(|()| PATH.to_owned()), PATH)
}

/// The member gets the e-mails.
async fn create_schedule(member: MemberForm) -> Result<Response> {
    member.require_role(Need::Member)?;
    let MemberForm { app, caller, form, session, now, .. } = &member;
    let created = async {
        let text = |name| form.text(name);
        let request = body(json!({
            "interval": text("interval"), "type": text("type"), "format": text("format"),
            "currency": text("currency"), "locale": "pt-BR", "email": session.user.email,
        }))?;
        let create = Box::pin(app.schedules.create(caller, NewSchedule::parse(&request)?, *now));
        member.once("schedule", create).await??;
        Ok(PATH.to_owned())
    };
    answer(Box::pin(created).await, PATH)
}

async fn delete_schedule(IdPath(id): IdPath<ReportScheduleId>, member: MemberForm) -> Result<Response> {
    member.require_role(Need::Member)?;
    let delete = Box::pin(member.app.schedules.delete(&member.caller, id));
    let deleted = member.once_alike(&format!("delete#{id:?}"), delete).await?;
    answer(deleted.map(|()| PATH.to_owned()), PATH)
}
