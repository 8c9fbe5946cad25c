//! `admin deliveries`: resends webhook deliveries that failed, as `POST /v1/webhooks/endpoints/{id}/recoveries` does for
//! a merchant.

use std::time::Duration;

use clap::Subcommand;
use domain::audit::Action;
use domain::ids::EndpointId;
use domain::time::Timestamp;
use effects::webhook::WebhookError;
use effects::webhook::endpoint::Endpoints;
use effects::webhook::recovery::{NewRecovery, Recoverable, Recoveries, Recovery, RecoveryStatus};
use shared::{audit, random};

use crate::output::record;
use crate::target::Stack;
use crate::{CommandOutcome, OperatorArguments, Result, ScopeArguments, print, print_json};

/// The pause before a recovery that another worker runs is read again.
const POLL: Duration = Duration::from_millis(500);

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
        #[command(flatten)]
        operator: OperatorArguments,
    },
}

pub(crate) async fn run(stack: &Stack, command: Command) -> Result<CommandOutcome> {
    let Command::Redrive { scope, since, endpoint, cancelled, operator } = command;
    let scope = stack.existing_scope(scope).await?;
    let (now, endpoints) = (stack.clock.now(), Endpoints::new(stack.store.clone()));
    if since > now {
        return Err(format!("--since {since} is in the future: it is now {now}").into());
    }
    let receivers: Vec<Option<EndpointId>> = if let Some(id) = endpoint {
        let found = endpoints.find(&scope, id).await.map_err(|error| match error {
            WebhookError::NoEndpoint => format!("{scope} has no endpoint {id}"),
            other => other.to_string(),
        })?;
        vec![Some(found.id)]
    } else {
        let all = endpoints.list(&scope).await?.into_iter().map(|endpoint| Some(endpoint.id));
        all.chain([None]).collect()
    };
    let mut statuses = vec![Recoverable::Failed];
    statuses.extend(cancelled.then_some(Recoverable::Cancelled));
    let all = NewRecovery::of_failed(now);
    let request = NewRecovery { since: since.max(all.since), statuses, ..all };
    let (recoveries, mut found) = (Recoveries::new(stack.store.clone()), Vec::new());
    for receiver in receivers {
        let name = format!("{:032x}", u128::from_le_bytes(random::bytes()?));
        let recovery = Recovery::new((scope, receiver, None), &name, request.clone(), now);
        let count = recoveries.count(recovery.clone(), now).await?;
        found.extend((count > 0).then_some((recovery, count)));
    }
    let deliveries: u64 = found.iter().map(|(_, count)| count).sum();
    if !stack.is_dry_run && deliveries > 0 {
        // The audit row is written before the first resend. So every resend has an actor and a reason, even
        // if the command fails.
        let subject = endpoint.map_or_else(|| scope.to_string(), |endpoint| endpoint.to_string());
        let (by, account) = (operator.operator(), scope.account);
        let deliveries = usize::try_from(deliveries).unwrap_or(usize::MAX);
        let action = Action::RedriveDeliveries { scope, deliveries, since };
        let audit = audit::by_operator(&by, account, action, subject, now)?;
        audit::append(&stack.store, &audit).await?;
    }
    let (mut resent, mut refused): (u64, usize) = (0, 0);
    for (recovery, count) in found {
        let endpoint = recovery.endpoint;
        let outcome = if stack.is_dry_run {
            Ok(None)
        } else {
            recovered(stack, &recoveries, recovery).await?.map(Some)
        };
        match &outcome {
            Ok(Some(ended)) => resent = resent.saturating_add(ended.queued),
            Ok(None) => {}
            Err(_) => refused = refused.saturating_add(1),
        }
        print_json(&record! {
            endpointId: endpoint,
            found: count,
            recovery: outcome.as_ref().ok().and_then(|ended| Some(ended.as_ref()?.id)),
            queued: outcome.as_ref().ok().and_then(|ended| Some(ended.as_ref()?.queued)),
            refused: outcome.as_ref().err(),
        })?;
    }
    print(&format!("{deliveries} deliveries, {resent} resent"))?;
    Ok(CommandOutcome::of(refused > 0))
}

/// Runs a recovery to its end, beside the scheduler. The error is the reason of a refusal.
async fn recovered(
    stack: &Stack,
    recoveries: &Recoveries,
    recovery: Recovery,
) -> Result<Result<Recovery, String>> {
    let key = Recovery::key_of(&recovery.scope, recovery.id);
    match recoveries.request(recovery).await {
        Ok(_) => {}
        Err(refused @ WebhookError::RecoveryInProgress) => return Ok(Err(refused.to_string())),
        Err(error) => return Err(error.into()),
    }
    loop {
        let row = stack.store.get::<Recovery>(&key).await?.ok_or("the recovery's row is gone")?;
        if row.status != RecoveryStatus::Running {
            return Ok(Ok(row));
        }
        if recoveries.run_step(row, stack.clock.now()).await?.is_none() {
            // It has ended, or the scheduler runs it.
            tokio::time::sleep(POLL).await;
        }
    }
}
