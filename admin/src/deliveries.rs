//! `admin deliveries`: lists webhook deliveries, and resends those that failed, as `POST /v1/webhooks/endpoints/{id}/recoveries` does for
//! a merchant.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::time::Duration;

use clap::Subcommand;
use domain::audit::Action;
use domain::charge::{Charge, StoredCharge};
use domain::ids::{ChargeId, DeliveryId, EndpointId, Scope};
use domain::time::Timestamp;
use effects::webhook::WebhookError;
use effects::webhook::delivery::{Deliveries, Delivery, DeliveryFilter, DeliveryStatus, DeliveryView};
use effects::webhook::endpoint::Endpoints;
use effects::webhook::recovery::{NewRecovery, Recoverable, Recoveries, Recovery, RecoveryStatus};
use shared::{audit, random};

use crate::enum_parser::enum_parser;
use crate::output::{With, print_list, print_next, record};
use crate::target::Stack;
use crate::{CommandOutcome, OperatorArguments, PeriodArguments, Result, ScopeArguments, print, print_json};

/// The pause before a recovery that another worker runs is read again.
const POLL: Duration = Duration::from_millis(500);

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// List the webhook deliveries of an account in a mode, newest first
    ///
    /// Reads 100 of the days of the period at a time, so a page of hours may be short.
    List {
        #[command(flatten)]
        scope: ScopeArguments,
        /// List only deliveries with this status
        #[arg(long, value_parser = enum_parser::<DeliveryStatus>())]
        status: Option<DeliveryStatus>,
        /// List only deliveries to this endpoint (wh_…)
        #[arg(long)]
        endpoint: Option<EndpointId>,
        #[command(flatten)]
        period: PeriodArguments,
        /// Continue after this delivery, the last one of the previous page (wd_…)
        #[arg(long)]
        starting_after: Option<DeliveryId>,
    },
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
        /// Also make the next attempt of PENDING deliveries now; `deliveries list --status pending` shows when it is due
        #[arg(long)]
        pending: bool,
        #[command(flatten)]
        operator: OperatorArguments,
    },
}

pub(crate) async fn run(stack: &Stack, command: Command) -> Result<CommandOutcome> {
    let (scope, since, endpoint, (cancelled, pending), operator) = match command {
        Command::List { scope, status, endpoint, period, starting_after } => {
            list(stack, scope, (status, endpoint), (period, starting_after)).await?;
            return Ok(CommandOutcome::Succeeded);
        }
        Command::Redrive { scope, since, endpoint, cancelled, pending, operator } => {
            (scope, since, endpoint, (cancelled, pending), operator)
        }
    };
    let scope = stack.existing_scope(scope).await?;
    let now = stack.clock.now();
    if since > now {
        return Err(format!("--since {since} is in the future: it is now {now}").into());
    }
    let receivers: Vec<Option<EndpointId>> = if let Some(id) = endpoint {
        vec![Some(existing_endpoint(stack, &scope, id).await?)]
    } else {
        let all = Endpoints::new(stack.store.clone())
            .list(&scope)
            .await?
            .into_iter()
            .map(|endpoint| Some(endpoint.id));
        all.chain([None]).collect()
    };
    let mut statuses = vec![Recoverable::Failed];
    statuses.extend(cancelled.then_some(Recoverable::Cancelled));
    statuses.extend(pending.then_some(Recoverable::Pending));
    let all = NewRecovery::of_failed(now);
    let request = NewRecovery { since: since.max(all.since), statuses, ..all };
    let (recoveries, mut found, mut waiting) = (Recoveries::new(stack.store.clone()), Vec::new(), 0_u64);
    for receiver in receivers {
        let name = format!("{:032x}", u128::from_le_bytes(random::bytes()?));
        let recovery = Recovery::new((scope, receiver, None), &name, request.clone(), now);
        if !pending {
            let of_pending = NewRecovery { statuses: vec![Recoverable::Pending], ..request.clone() };
            let of_pending = Recovery::new((scope, receiver, None), &name, of_pending, now);
            waiting = waiting.saturating_add(recoveries.count(of_pending, now).await?);
        }
        let count = recoveries.count(recovery.clone(), now).await?;
        found.extend((count > 0).then_some((recovery, count)));
    }
    let deliveries: u64 = found.iter().map(|(_, count)| count).sum();
    if !stack.is_dry_run && deliveries > 0 {
        // The audit row is written before the first resend. So every resend has an actor and a reason, even
        // if the command fails.
        let subject = endpoint.map_or_else(|| scope.to_string(), |endpoint| endpoint.to_string());
        let (by, account) = (stack.operator(&operator), scope.account);
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
    if waiting > 0 {
        writeln!(
            std::io::stderr(),
            "{waiting} deliveries wait for their next attempt: --pending makes it now"
        )?;
    }
    Ok(CommandOutcome::of(refused > 0))
}

async fn existing_endpoint(stack: &Stack, scope: &Scope, id: EndpointId) -> Result<EndpointId> {
    let found = Endpoints::new(stack.store.clone()).find(scope, id).await;
    Ok(found.map(|found| found.id).map_err(|error| match error {
        WebhookError::NoEndpoint => format!("{scope} has no endpoint {id}"),
        other => other.to_string(),
    })?)
}

async fn list(
    stack: &Stack,
    scope: ScopeArguments,
    (status, endpoint): (Option<DeliveryStatus>, Option<EndpointId>),
    (period, starting_after): (PeriodArguments, Option<DeliveryId>),
) -> Result<()> {
    let (scope, now) = (stack.existing_scope(scope).await?, stack.clock.now());
    if let Some(id) = endpoint {
        existing_endpoint(stack, &scope, id).await?;
    }
    if let Some(since) = period.since.filter(|since| *since > now) {
        return Err(format!("--since {since} is in the future: it is now {now}").into());
    }
    let filter = DeliveryFilter::parse(&period.query(&[
        ("status", status.map(|status| status.as_str().to_owned())),
        ("endpointId", endpoint.map(|id| id.to_string())),
        ("starting_after", starting_after.map(|id| id.to_string())),
    ]))?;
    let scope = stack.accounts.sharded_scope(&scope).await?;
    let page = Deliveries::new(stack.store.clone()).list(&scope, &filter, now).await?;
    let in_period = page.deliveries().filter(|(delivery, _)| period.contains(delivery.dated_at()));
    let in_period: Vec<(&Delivery, Option<ChargeId>)> = in_period.collect();
    let charges: BTreeSet<ChargeId> = in_period.iter().filter_map(|(_, charge)| *charge).collect();
    let charges = stack.charges.find_all(&charges.into_iter().collect::<Vec<_>>()).await?;
    let charges: BTreeMap<ChargeId, &Charge> =
        charges.iter().map(StoredCharge::as_stored).map(|charge| (charge.id, charge)).collect();
    let rows = in_period.into_iter().map(|(delivery, charge)| {
        let order = charge.and_then(|id| charges.get(&id)?.metadata.order_number());
        With { object: DeliveryView::new(delivery, None), more: record! { charge: charge, order: order } }
    });
    print_list(stack, "deliveries", rows)?;
    print_next("deliveries", page.next())
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
