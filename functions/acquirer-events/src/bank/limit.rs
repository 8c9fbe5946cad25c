//! Limits the notifications of an account that name no charge of it. Each of them costs a request to the
//! bank, and the sweep of the bank's list finds every Pix anyway.

use std::ops::Range;

use domain::ids::AccountId;
use domain::time::Timestamp;
use shared::request_limit::Window;
use shared::store::{Store, StoreError};

pub(super) const MAX_UNKNOWN_PER_HOUR: i64 = 600;

/// The period of the limit, in seconds. Periods are clock hours.
const HOUR_SECONDS: i64 = 3_600;

const COUNTER: &str = "unknown";

/// Counts `count` unknown notifications. Returns the numbers, from 0, of those that are within the limit of the
/// hour. When an hour's limit is exceeded for the first time, it is logged as an error.
///
/// The notifications of a request that fails later remain counted, so a repeated request counts again.
pub(super) async fn take(
    store: &Store,
    account: &AccountId,
    count: usize,
    now: Timestamp,
) -> Result<Range<u32>, StoreError> {
    if count == 0 {
        return Ok(0..0);
    }
    let hour = Window::of(now, HOUR_SECONDS);
    let added = i64::try_from(count).unwrap_or(i64::MAX);
    let total = hour.add(store, format!("notifications#{account}"), (COUNTER, added), None).await?;
    let before = total.unwrap_or(i64::MAX).saturating_sub(added);
    let left = MAX_UNKNOWN_PER_HOUR.saturating_sub(before).clamp(0, added);
    if left < added && before <= MAX_UNKNOWN_PER_HOUR {
        tracing::error!(
            %account,
            "more than {MAX_UNKNOWN_PER_HOUR} notifications of this hour name no charge; the others are skipped, and the sweep finds their Pix"
        );
    }
    let number = |number: i64| u32::try_from(number).unwrap_or(u32::MAX);
    Ok(number(before)..number(before.saturating_add(left)))
}
