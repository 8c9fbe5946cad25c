//! `admin refunds`: ends a refund whose Pix its bank has lost.

use clap::Subcommand;
use domain::acquirer::AcquirerName;
use domain::ids::RefundId;
use domain::wallet::RefundStrategy;
use money::refund::Refunds;

use crate::output::record;
use crate::target::Stack;
use crate::{OperatorArguments, Result, print_json};

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Fail an unfinished live refund whose Pix its bank has lost, and return its money to the wallet
    ///
    /// Only for refunds by devolução. Refused while the bank has the devolução or the Pix.
    Fail {
        /// The refund (re_…)
        refund: RefundId,
        #[command(flatten)]
        operator: OperatorArguments,
    },
}

pub(crate) async fn run(stack: &Stack, command: Command) -> Result<()> {
    let Command::Fail { refund: id, operator } = command;
    let (refunds, now) = (Refunds::new(stack.store.clone()), stack.clock.now());
    let refund = refunds.find(Some(id)).await?.ok_or_else(|| format!("there is no refund {id}"))?;
    let is_devolution = refund.share.strategy == RefundStrategy::Devolution;
    if refund.acquirer != AcquirerName::Pix || !is_devolution || refund.is_done() {
        return Err("only an unfinished live refund by devolução can be failed".into());
    }
    if refund.is_leased(now) {
        return Err("the service is requesting this refund; try again in two minutes".into());
    }
    let connection = stack.connections()?.at(refund.scope.account, refund.connection).await?;
    if connection.pix()?.knows_devolution(&refund).await? {
        return Err("the bank has the devolução or the Pix of this refund; the service ends it".into());
    }
    let failed = Box::pin(refunds.fail_lost(refund, &operator.operator(), now)).await?;
    print_json(&record! { refund: failed.id, status: failed.status, amount: failed.share.gross })
}
