//! `admin refunds`: lists refunds, and ends a refund whose Pix its bank has lost.

use clap::Subcommand;
use domain::acquirer::AcquirerName;
use domain::ids::{PostingId, RefundId};
use domain::money::Currency;
use domain::refund::Refund;
use domain::row::Key;
use domain::wallet::{PostingKind, RefundStrategy};
use money::refund::{RefundView, Refunds};
use money::wallet::statement::{StatementFilter, StatementFormat};
use shared::http::Query;

use crate::ledger::currency;
use crate::output::{print_list, print_next, record};
use crate::target::Stack;
use crate::{OperatorArguments, PeriodArguments, Result, ScopeArguments, print_json};

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// List the refunds of an account in a mode, newest first
    ///
    /// They are those among 100 movements of the statement of a currency, so a page may be short.
    List {
        #[command(flatten)]
        scope: ScopeArguments,
        #[command(flatten)]
        period: PeriodArguments,
        /// The currency of the wallet
        #[arg(long, default_value = "BRL", value_parser = currency)]
        currency: Currency,
        /// Continue after this movement (mv_…)
        #[arg(long)]
        starting_after: Option<PostingId>,
    },
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
    let (id, operator) = match command {
        Command::List { scope, period, currency, starting_after } => {
            let query = period.query(&[
                ("currency", Some(currency.to_string())),
                ("starting_after", starting_after.map(|id| id.to_string())),
            ]);
            return list(stack, scope, &query).await;
        }
        Command::Fail { refund, operator } => (refund, operator),
    };
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
    let failed = Box::pin(refunds.fail_lost(refund, &stack.operator(&operator), now)).await?;
    print_json(&record! { refund: failed.id, status: failed.status, amount: failed.share.gross })
}

async fn list(stack: &Stack, scope: ScopeArguments, query: &Query) -> Result<()> {
    let filter = StatementFilter::parse(query, StatementFormat::Json)?;
    let scope = stack.accounts.sharded_scope(&stack.existing_scope(scope).await?).await?;
    let page = stack.wallets.statement(&scope, &filter).await?;
    let requested = page.items.iter().filter(|posting| posting.kind == PostingKind::Refund);
    let ids = requested.filter_map(|posting| posting.subject.refund);
    let keys: Vec<Key> = ids.map(Refund::key_of).collect();
    let refunds: Vec<Refund> = stack.store.get_in_order(&keys).await?;
    print_list(stack, "refunds", refunds.iter().map(RefundView::new))?;
    print_next("movements", page.next_cursor)
}
