//! `admin deliveries`: resends webhook deliveries that failed. The route
//! `POST /v1/webhooks/deliveries/{id}/resend` does the same for a single delivery.

use clap::Subcommand;
use domain::audit::Action;
use domain::ids::{DeliveryId, EndpointId, ResendId};
use domain::time::Timestamp;
use effects::webhook::WebhookError;
use effects::webhook::delivery::Delivery;
use effects::webhook::endpoint::Endpoints;
use effects::webhook::redrive::Redrive;
use effects::webhook::resend::Resends;
use shared::{audit, random};

use crate::output::record;
use crate::target::Stack;
use crate::{CommandOutcome, OperatorArguments, Result, ScopeArguments, print, print_json, progress_bar};

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Resend FAILED deliveries as new deliveries
    ///
    /// Skips events that another delivery has already delivered to the same endpoint, and events whose latest
    /// delivery to that endpoint is PENDING or PROCESSING.
    Redrive {
        #[command(flatten)]
        scope: ScopeArguments,
        /// Earliest time of the events: 2026-11-21 (midnight in São Paulo), or 2026-11-21T10:00:00-03:00
        #[arg(long, value_parser = Timestamp::parse_ceil)]
        since: Timestamp,
        /// Resend only to this endpoint (wh_…)
        #[arg(long)]
        endpoint: Option<EndpointId>,
        /// Also resend deliveries that were CANCELLED when the merchant set the endpoint to INACTIVE, if the
        /// endpoint is now ACTIVE
        #[arg(long)]
        cancelled: bool,
        /// List the deliveries without resending them
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        operator: OperatorArguments,
    },
}

pub(crate) async fn run(stack: &Stack, command: Command) -> Result<CommandOutcome> {
    let Command::Redrive { scope, since, endpoint, cancelled, dry_run, operator } = command;
    let redrive = Redrive { scope: stack.existing_scope(scope).await?, since, endpoint, cancelled };
    let now = stack.clock.now();
    if since > now {
        return Err(format!("--since {since} is in the future: it is now {now}").into());
    }
    if let Some(id) = endpoint {
        let found = Endpoints::new(stack.store.clone()).find(&redrive.scope, id).await;
        found.map_err(|error| match error {
            WebhookError::NoEndpoint => format!("{} has no endpoint {id}", redrive.scope),
            other => other.to_string(),
        })?;
    }
    let (deliveries, deleted) = redrive.deliveries(&stack.store, now).await?;
    if !dry_run && !deliveries.is_empty() {
        // The audit row is written before the first resend. So every resend has an actor and a reason, even
        // if the command fails.
        let subject = endpoint.map_or_else(|| redrive.scope.to_string(), |endpoint| endpoint.to_string());
        let (by, account) = (operator.operator(), redrive.scope.account);
        let (scope, deliveries) = (redrive.scope, deliveries.len());
        let action = Action::RedriveDeliveries { scope, deliveries, since };
        let audit = audit::by_operator(&by, account, action, subject, now)?;
        audit::append(&stack.store, &audit).await?;
    }
    let bar = progress_bar(deliveries.len(), "deliveries")?;
    let (mut resent, mut refused): (usize, usize) = (0, 0);
    for delivery in bar.wrap_iter(deliveries.iter()) {
        let outcome = if dry_run { Ok(None) } else { resend(stack, delivery).await?.map(Some) };
        match &outcome {
            Ok(Some(_)) => resent = resent.saturating_add(1),
            Ok(None) => {}
            Err(_) => refused = refused.saturating_add(1),
        }
        let printed = record! {
            delivery: delivery.id,
            endpointId: delivery.endpoint,
            eventType: delivery.event_type,
            lastError: delivery.error(),
            resentAs: outcome.as_ref().ok(),
            refused: outcome.as_ref().err(),
        };
        bar.suspend(|| print_json(&printed))?;
    }
    print(&format!("{} deliveries, {resent} resent, {refused} refused", deliveries.len()))?;
    if deleted > 0 {
        print(&format!("{deleted} skipped, because their endpoints are deleted"))?;
    }
    Ok(CommandOutcome::of(refused > 0))
}

/// Returns the id of the new delivery, or the reason of a refusal.
async fn resend(stack: &Stack, delivery: &Delivery) -> Result<Result<DeliveryId, String>> {
    let now = stack.clock.now();
    let resend = ResendId::new(now, random::bytes()?);
    let resends = Resends::new(stack.store.clone());
    match resends.resend_delivery(&delivery.scope, Some(delivery.id), resend, now).await {
        Ok((delivery, _body)) => Ok(Ok(delivery.id)),
        Err(
            refused @ (WebhookError::EventNotKept
            | WebhookError::EndpointInactive
            | WebhookError::EndpointDeleted
            | WebhookError::NoDelivery),
        ) => Ok(Err(refused.to_string())),
        Err(error) => {
            Err(format!("{error}\nRun the same command again: it skips deliveries that were already resent.")
                .into())
        }
    }
}
