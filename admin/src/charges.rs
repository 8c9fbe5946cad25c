//! `admin charges`: ends a charge whose cob its bank has lost.

use std::error::Error;

use clap::Subcommand;
use domain::acquirer::AcquirerName;
use domain::ids::ChargeId;
use serde::Serialize;
use shared::acquirer::Banks;
use shared::charge::lost_cob_ends_at;

use crate::target::Stack;
use crate::{OperatorArguments, print_json};

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Expire an overdue live charge whose cob its bank has lost
    ///
    /// Possible from a day after the charge's expiry. Refused while the bank has the cob, or a Pix with its
    /// txid.
    Expire {
        /// The charge (ch_…)
        charge: ChargeId,
        #[command(flatten)]
        operator: OperatorArguments,
    },
}

/// The printed form of a charge.
#[derive(Serialize)]
struct PrintedCharge {
    charge: ChargeId,
    status: &'static str,
}

pub(crate) async fn run(stack: &Stack, command: Command) -> Result<(), Box<dyn Error>> {
    let Command::Expire { charge: id, operator } = command;
    let now = stack.clock.now();
    let stored = stack.charges.find(Some(id)).await?.ok_or_else(|| format!("there is no charge {id}"))?;
    let charge = stored.clone().read_at(now);
    if charge.acquirer != AcquirerName::Pix || !charge.can_expire() {
        return Err("only an open live charge can be expired".into());
    }
    let ends_at = lost_cob_ends_at(charge.expires_at());
    if now < ends_at {
        return Err(format!("the charge can be expired from {ends_at} on, a day after its expiry").into());
    }
    let banks = Banks::new(stack.acquirers()?.clone(), stack.clock.clone());
    let bank = banks.at(charge.scope.account, charge.connection).await?;
    if bank.knows_charge(&charge, now).await? {
        return Err("the bank has the cob of this charge, or a Pix with its txid; the service ends it".into());
    }
    let expired = stack.charges.expire_lost(stored, &operator.operator(), now).await?;
    print_json(&PrintedCharge { charge: expired.id, status: expired.status.as_str() })
}
