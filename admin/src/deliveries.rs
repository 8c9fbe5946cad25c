//! `admin deliveries`: makes webhooks due again that were given up, as a merchant does one by one.

use std::error::Error;

use clap::Subcommand;
use domain::ids::{DeliveryId, EndpointId, ResendId};
use domain::time::Timestamp;
use domain::webhook::event_type::EventType;
use serde::Serialize;
use shared::webhook::WebhookError;
use shared::webhook::delivery::Delivery;
use shared::webhook::redrive::Redrive;
use shared::webhook::resend::Resends;
use shared::{audit, random};

use crate::target::Stack;
use crate::{Done, OperatorArguments, ScopeArguments, announce, print, print_json, progress_bar};

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Make FAILED deliveries anew; what was delivered or is on its way since is left alone
    Redrive {
        #[command(flatten)]
        scope: ScopeArguments,
        /// Of events from then on: 2026-11-21 (the day begins in UTC), or 2026-11-21T10:00:00-03:00
        #[arg(long, value_parser = Timestamp::parse_ceil)]
        since: Timestamp,
        /// To this endpoint alone (wh_…)
        #[arg(long)]
        endpoint: Option<EndpointId>,
        /// CANCELLED ones too, of an endpoint that its merchant set to INACTIVE and that is ACTIVE again
        #[arg(long)]
        cancelled: bool,
        /// Only say which
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        operator: OperatorArguments,
    },
}

/// A delivery, as it is printed.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RedriveView {
    delivery: DeliveryId,
    endpoint_id: Option<EndpointId>,
    event_type: EventType,
    last_error: Option<String>,
    resent_as: Option<DeliveryId>,
    refused: Option<String>,
}

pub(crate) async fn run(stack: &Stack, command: Command) -> Result<Done, Box<dyn Error>> {
    let Command::Redrive { scope, since, endpoint, cancelled, dry_run, operator } = command;
    let account = stack.account(&scope.account).await?.id;
    announce(stack);
    let redrive = Redrive { scope: scope.scope(), since, endpoint, cancelled };
    let (deliveries, deleted) = redrive.deliveries(&stack.store, stack.clock.now()).await?;
    if !dry_run && !deliveries.is_empty() {
        // Before the first of them: what is done is never without its actor and reason.
        let subject = endpoint.map_or_else(|| redrive.scope.to_string(), |endpoint| endpoint.to_string());
        let audit = audit::by_operator(
            &operator.operator(),
            account,
            "deliveries.redrive",
            subject,
            stack.clock.now(),
        )?;
        let what = format!("{}: {} deliveries since {}", redrive.scope, deliveries.len(), since.to_iso());
        let _made = stack.store.insert(&audit.with(what)).await?;
    }
    let bar = progress_bar(deliveries.len(), "deliveries")?;
    let (mut made, mut refused): (usize, usize) = (0, 0);
    for delivery in &deliveries {
        let again = if dry_run { Ok(None) } else { resend(stack, delivery).await?.map(Some) };
        match &again {
            Ok(Some(_)) => made = made.saturating_add(1),
            Ok(None) => {}
            Err(_) => refused = refused.saturating_add(1),
        }
        bar.suspend(|| print_json(&view(delivery, again)))?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    print(&format!("{} deliveries, {made} made anew, {refused} refused", deliveries.len()))?;
    if deleted > 0 {
        print(&format!("{deleted} to endpoints that are deleted were left out"))?;
    }
    Ok(if refused == 0 { Done::Well } else { Done::FoundFault })
}

/// The new delivery, or why there can be none.
async fn resend(stack: &Stack, delivery: &Delivery) -> Result<Result<DeliveryId, String>, Box<dyn Error>> {
    let now = stack.clock.now();
    let resend = ResendId::new(now, random::bytes()?);
    let resends = Resends::new(stack.store.clone());
    match resends.of_delivery(&delivery.scope, Some(delivery.id), resend, now).await {
        Ok((made, _body)) => Ok(Ok(made.id)),
        Err(
            refused @ (WebhookError::EventNotKept
            | WebhookError::EndpointInactive
            | WebhookError::EndpointDeleted
            | WebhookError::NoDelivery),
        ) => Ok(Err(refused.to_string())),
        Err(error) => {
            Err(format!("{error}\nRun the same command again: what is on its way is left alone.").into())
        }
    }
}

fn view(delivery: &Delivery, again: Result<Option<DeliveryId>, String>) -> RedriveView {
    let (resent_as, refused) = match again {
        Ok(resent_as) => (resent_as, None),
        Err(why) => (None, Some(why)),
    };
    RedriveView {
        delivery: delivery.id,
        endpoint_id: delivery.endpoint,
        event_type: delivery.event_type,
        last_error: delivery.last_error.clone(),
        resent_as,
        refused,
    }
}
