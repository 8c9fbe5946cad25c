//! How far an acquirer's times are from the service's clock.

use std::time::UNIX_EPOCH;

use domain::time::Timestamp;

/// Returns [`offset_seconds`] of a `Date` header. `None`: it can't be read.
pub fn date_offset_seconds(date: &str, times: (Timestamp, Timestamp)) -> Option<i64> {
    let reported = httpdate::parse_http_date(date).ok()?.duration_since(UNIX_EPOCH).ok()?;
    let reported = Timestamp::from_millis(i64::try_from(reported.as_millis()).ok()?).ok()?;
    Some(offset_seconds(reported, times))
}

/// Returns the whole seconds by which an acquirer's time is outside the period from the request to its answer.
pub fn offset_seconds(reported: Timestamp, (sent_at, received_at): (Timestamp, Timestamp)) -> i64 {
    let millis = reported.millis_since(reported.min(received_at).max(sent_at));
    // Rounded to the nearest second, but up to a second before the request counts as none: a `Date` header has
    // whole seconds.
    if (-999..=0).contains(&millis) { 0 } else { millis.saturating_add(500).div_euclid(1_000) }
}
