//! The limit of what operators pay out and correct of a live account in a day.

use domain::audit::Operator;
use domain::calendar::Day;
use domain::ids::{Mode, Scope};
use domain::money::Currency;
use domain::row::Key;
use domain::time::Timestamp;
use shared::day_sum::DaySum;
use shared::store::{Store, StoreError, Write};

/// A change would move more than an operator may in a day.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "operators have moved {moved} of this account today, of {most} that one person may move in a day (minor units); \
     --over-limit moves more"
)]
pub struct OverLimit {
    pub moved: i64,
    pub most: u64,
}

/// Plans the write that counts an operator's change of `minor` units of money, for its transaction. It fails if another
/// change comes first and both together exceed the limit. There is none in test mode, where nothing is money, and for who
/// is no operator of the service.
pub(crate) async fn plan(
    store: &Store,
    (scope, currency, minor): (&Scope, Currency, u64),
    operator: &Operator,
    now: Timestamp,
) -> Result<Result<Option<Write>, OverLimit>, StoreError> {
    let Some(most) = operator.most_a_day.filter(|_| scope.mode == Mode::Live) else { return Ok(Ok(None)) };
    let (day, minor) = (Day::of(now), i64::try_from(minor).unwrap_or(i64::MAX));
    let key = Key { pk: format!("operators-day#{scope}"), sk: format!("{day}#{currency}") };
    let sum = DaySum { key, attribute: "moved", day };
    let (moved, limit) = (sum.read(store).await?, i64::try_from(most).unwrap_or(i64::MAX));
    let is_within = moved.saturating_add(minor) <= limit;
    let counted = sum.add_up_to(minor, limit).filter(|_| is_within);
    Ok(counted.map(Some).ok_or(OverLimit { moved, most }))
}
