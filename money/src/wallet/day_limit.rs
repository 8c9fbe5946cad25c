//! The limit of what operators pay out and correct of a live account in a day.

use domain::audit::Operator;
use domain::calendar::Day;
use domain::ids::{Mode, Scope};
use domain::money::Currency;
use domain::row::Key;
use domain::time::{SECONDS_A_DAY, Timestamp};
use shared::store::{RowUpdate, Store, StoreError, Write, integer, number};

/// The row's sum, in minor units.
const MOVED: &str = "moved";

/// How long a day's row is kept, in seconds.
const KEPT_SECONDS: i64 = 2 * SECONDS_A_DAY;

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

fn key(scope: &Scope, currency: Currency, day: Day) -> Key {
    Key { pk: format!("operators-day#{scope}"), sk: format!("{day}#{currency}") }
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
    let ttl = day.starts_at().saturating_plus_seconds(KEPT_SECONDS).seconds();
    let key = key(scope, currency, day);
    let update = RowUpdate::of(key.clone()).add(MOVED, number(minor)).set("ttl", number(ttl));
    let left = i64::try_from(most).unwrap_or(i64::MAX).saturating_sub(minor);
    let moved = store.get_item(&key).await?.and_then(|row| integer(&row, MOVED)).unwrap_or_default();
    if moved > left {
        return Ok(Err(OverLimit { moved, most }));
    }
    Ok(Ok(Some(Write::update(update.when_absent_or(MOVED, "<=", number(left))))))
}
