//! `admin restore repeat-payouts`: books payouts and operators' corrections again that a restore lost.

use std::collections::{BTreeMap, BTreeSet};

use domain::audit::{Action, Sum};
use domain::ids::{AccountId, PayoutId, PostingId, Scope};
use domain::payout::Payout;
use domain::reference::{Reference, Referenced, UsedReference};
use domain::row::Key;
use domain::shard::Shard;
use domain::time::Timestamp;
use domain::wallet::Posting;
use money::payout::PayoutError;
use shared::audit;
use shared::store::{Store, from_item};

use super::FormerArguments;
use crate::output::{Record, record, unknown_outcome};
use crate::target::Stack;
use crate::{CommandOutcome, OperatorArguments, Result, print_json};

/// It was absent, or in an earlier state, and is now as in the former table.
const BOOKED: &str = "booked";
/// The restored table has it.
const EXISTS: &str = "exists";
/// The restored table has something else in its place.
const REFUSED: &str = "refused";

pub(super) async fn run(
    stack: &Stack,
    former: &FormerArguments,
    only: Option<AccountId>,
    operator: &OperatorArguments,
) -> Result<CommandOutcome> {
    let (former, accounts, from) = former.open(stack, only).await?;
    let (operator, now, mut states) = (stack.operator(operator), stack.clock.now(), Vec::new());
    for account in accounts {
        let (payouts, corrections) = movements(&former, &account, from).await?;
        let has_any = !(payouts.is_empty() && corrections.is_empty());
        if has_any && stack.accounts.find(&account).await?.is_none() {
            let why = "the restored table has no such account";
            print_json(&record! { account: account, state: REFUSED, why: why })?;
            states.push(REFUSED);
            continue;
        }
        for payout in payouts {
            let Payout { scope, id, reference, currency, amount, status, created_at, .. } = &payout;
            let line = record! {
                scope: scope, id: id, reference: reference, currency: currency, minor: amount, status: status,
                created_at: created_at,
            };
            states.push(print_booked(line, stack.payouts.book_again(&payout, &operator, now).await)?);
        }
        for (reference, posting) in corrections {
            let Posting { scope, id, currency, amount, at, .. } = &posting;
            let line = record! {
                scope: scope, id: id, reference: reference, currency: currency, minor: amount, created_at: at,
            };
            let booked = stack.wallets.book_again(&reference, &posting, &operator, now).await;
            states.push(print_booked(line, booked)?);
        }
    }
    let count = |state: &str| states.iter().filter(|other| **other == state).count();
    print_json(&record! { booked: count(BOOKED), exists: count(EXISTS), refused: count(REFUSED) })?;
    Ok(CommandOutcome::of(count(REFUSED) > 0))
}

fn print_booked(line: Record, booked: Result<bool, PayoutError>) -> Result<&'static str> {
    let (state, why) = match booked {
        Ok(true) => (BOOKED, None),
        Ok(false) => (EXISTS, None),
        Err(PayoutError::Store(error)) => return Err(unknown_outcome(&error).into()),
        Err(refused) => (REFUSED, Some(refused.to_string())),
    };
    print_json(&line.and(record! { state: state, why: why }))?;
    Ok(state)
}

/// Reads the payouts and the corrections that an account's audit rows since a time name, each by the time in its id.
async fn movements(
    former: &Store,
    account: &AccountId,
    from: Timestamp,
) -> Result<(Vec<Payout>, Vec<(Reference, Posting)>)> {
    let (mut payouts, mut adjusted) = (BTreeSet::new(), BTreeMap::<PostingId, Sum>::new());
    for row in audit::since(former, account, from).await? {
        if let Action::CreatePayout(sum)
        | Action::SettlePayout(sum)
        | Action::FailPayout(sum)
        | Action::AdjustLedger(sum)
        | Action::BookAgain(sum) = row.action
        {
            let payout: Option<PayoutId> = row.subject.parse().ok();
            payouts.extend(payout);
            if payout.is_none() {
                adjusted.insert(row.subject.parse()?, sum);
            }
        }
    }
    let payouts: Vec<Key> = payouts.into_iter().map(Payout::key_of).collect();
    let (payouts, mut corrections) = (former.get_in_order(&payouts).await?, Vec::new());
    if !adjusted.is_empty() {
        let mut references = references(former, account).await?;
        for (id, Sum { mode, currency, .. }) in adjusted {
            let ledger = (&Scope { account: *account, mode }, Shard::FIRST);
            let posting = former.get(&Posting::key_of(ledger, currency, id, true)).await?;
            let found = references.remove(&id).zip(posting);
            corrections
                .push(found.ok_or_else(|| format!("the former table lacks rows of the correction {id}"))?);
        }
    }
    Ok((payouts, corrections))
}

/// Reads the references of all corrections of an account.
async fn references(former: &Store, account: &AccountId) -> Result<BTreeMap<PostingId, Reference>> {
    let used = former.partition(&UsedReference::partition(account)).await?.into_iter();
    let used: Vec<UsedReference> = used.map(from_item).collect::<Result<_, _>>()?;
    let of_correction = |UsedReference { reference, of, .. }| match of {
        Referenced::Correction(id) => Some((id, reference)),
        Referenced::Payout(_) => None,
    };
    Ok(used.into_iter().filter_map(of_correction).collect())
}
