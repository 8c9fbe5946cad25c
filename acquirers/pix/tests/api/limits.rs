//! 429 and the rate limit.

use std::time::Duration;

use api_pix::{ApiError, Priority};
use bank::{FaultKind, Profile};

use crate::proxy::Substitute;
use crate::support::{World, new_cob, txid};

fn limited(seconds: u64) -> ApiError {
    ApiError::TooManyRequests { retry_after: Duration::from_secs(seconds) }
}

#[tokio::test]
async fn after_a_429_background_requests_wait_and_others_are_sent() {
    let world = World::start().await;
    let background = world.client.at(Priority::Background);
    world.fault(FaultKind::Http429, 1);
    assert_eq!(background.get_cob(&txid(1)).await, Err(limited(2)));
    let sent = world.sent();
    world.advance_s(1);
    assert_eq!(background.get_cob(&txid(1)).await, Err(limited(1)));
    assert_eq!(world.sent(), sent);
    assert!(world.client.put_cob(&txid(1), &new_cob()).await.is_ok());
    assert!(world.client.at(Priority::Settle).get_cob(&txid(1)).await.is_ok());
    world.advance_s(1);
    assert!(background.get_cob(&txid(1)).await.unwrap().is_some());
}

#[tokio::test]
async fn retry_after_is_a_number_or_a_date_of_at_most_a_minute() {
    for (value, seconds) in [
        (Some("30"), 30),
        (Some("3600"), 60),
        (Some("0"), 0),
        // The clock of the tests is at 12:00:00.
        (Some("Sun, 22 Nov 2026 12:00:45 GMT"), 45),
        (Some("Sun, 22 Nov 2026 14:00:00 GMT"), 60),
        (Some("Sun, 22 Nov 2026 11:00:00 GMT"), 0),
        // Without a value that can be read, it is a second.
        (Some("soon"), 1),
        (Some("-5"), 1),
        (None, 1),
    ] {
        let world = World::start().await;
        let headers = value.map(|value| ("retry-after", value.to_owned())).into_iter().collect();
        world.proxy.substitute(Substitute::Answer(429, headers, "".into()));
        assert_eq!(world.client.get_cob(&txid(1)).await, Err(limited(seconds)), "{value:?}");
        let background = world.client.at(Priority::Background);
        if seconds > 0 {
            world.advance_s(i64::try_from(seconds).unwrap() - 1);
            assert_eq!(background.get_cob(&txid(1)).await, Err(limited(1)));
            world.advance_s(1);
        }
        assert_eq!(background.get_cob(&txid(1)).await, Ok(None));
    }
}

#[tokio::test]
async fn a_shorter_pause_does_not_replace_a_longer_one() {
    let world = World::start().await;
    for seconds in [30, 5] {
        let headers = vec![("retry-after", format!("{seconds}"))];
        world.proxy.substitute(Substitute::Answer(429, headers, "".into()));
        let settling = world.client.at(Priority::Settle);
        assert_eq!(settling.get_cob(&txid(1)).await, Err(limited(seconds)));
    }
    let background = world.client.at(Priority::Background);
    assert_eq!(background.get_cob(&txid(1)).await, Err(limited(30)));
    assert_eq!(world.client.get_cob(&txid(1)).await, Ok(None), "no request of a merchant was limited");
}

#[tokio::test]
async fn clones_share_the_rate_limit_and_a_request_without_room_is_not_sent() {
    let world = World::start_with(Profile::Complete, |settings| settings.requests_per_second = Some(1)).await;
    world.client.get_cob(&txid(1)).await.unwrap();
    let hasty = world.client.with_deadline(Duration::from_millis(50));
    for priority in [Priority::Create, Priority::Settle, Priority::Background] {
        let outcome = hasty.at(priority).get_cob(&txid(1)).await;
        assert!(matches!(outcome, Err(ApiError::TooManyRequests { .. })), "{outcome:?}");
    }
    assert_eq!(world.sent(), 1);
    // The limit of the connection is not a 429 of the bank: it causes no pause.
    assert_eq!(world.client.at(Priority::Background).get_cob(&txid(1)).await, Ok(None));
}
