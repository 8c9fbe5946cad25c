//! The dashboard's forms that play the payer and the payer's bank in test mode.

use crate::{App, MemberForm};
use axum::Router;
use axum::middleware::from_fn;
use axum::response::Response;
use axum::routing::post;
use domain::charge::StoredCharge;
use domain::charge::transition::Command;
use domain::ids::ChargeId;
use money::med::request::case_notification;
use pages::errors_as_pages;
use pages::forms::{Need, answer};
use shared::http::{IdPath, JsonObject, Problem, Result};

use crate::simulation::{Simulated, Simulation, command};

/// The time that payers' banks give for the answer to a dispute.
const DEADLINE_SECONDS: i64 = 7 * 24 * 60 * 60;

pub(crate) fn routes() -> Router<App> {
    Router::new().route("/dashboard/charges/{id}/simulate", post(simulate)).layer(from_fn(errors_as_pages))
}

async fn simulate(IdPath(id): IdPath<ChargeId>, member: MemberForm) -> Result<Response> {
    member.require_role(Need::Member)?;
    member.require_test()?;
    let charge = member.charge(id).await?;
    let path = format!("/dashboard/charges/{}", charge.as_stored().id);
    let done = Box::pin(simulated(&member, charge)).await;
    answer(done.map(|()| path.clone()), &path)
}

/// A simulation that the charge's state no longer allows changes nothing, because the page shows that state.
async fn simulated(member: &MemberForm, stored: StoredCharge) -> Result<()> {
    let MemberForm { app, form, now, .. } = member;
    let charge = stored.clone().read_at(*now);
    let outcome = match form.text("outcome") {
        Some("paid") => Simulated::Paid,
        Some("declined") => Simulated::Declined,
        Some("expired") => {
            let at = stored.as_stored().expires_at().min(*now);
            app.charges.apply(stored, &Command::Expire { at }, *now).await?;
            return Ok(());
        }
        // The charge has one dispute of this name, also if the form is sent twice.
        Some("disputed") => {
            let mut notification = case_notification(&JsonObject::new())?;
            notification.response_deadline = Some(now.saturating_plus_seconds(DEADLINE_SECONDS));
            app.cases.open(stored, "dashboard", &notification, *now).await?;
            return Ok(());
        }
        _ => return Err(Problem::field("outcome", "must be paid, declined, expired or disputed")),
    };
    let simulation = Simulation { outcome, method: None };
    if let Some(command) = command(app, &charge, simulation, *now).await? {
        app.charges.apply(stored, &command, *now).await?;
    }
    Ok(())
}
