//! The circuit breaker.

use std::time::Duration;

use api_pix::{ApiError, Client, Priority};
use bank::FaultKind;

use crate::proxy::Substitute;
use crate::support::{World, eventually, id, new_cob, txid};

fn assert_status<T: std::fmt::Debug>(outcome: &Result<T, ApiError>, expected: u16) {
    assert!(matches!(outcome, Err(ApiError::Server { status, .. }) if *status == expected), "{outcome:?}");
}

/// Opens the breaker by five failures.
async fn opened() -> World {
    let world = World::start().await;
    world.fault(FaultKind::Http500, 5);
    for _ in 0..5 {
        assert_status(&world.client.get_cob(&txid(1)).await, 500);
    }
    world
}

#[tokio::test]
async fn five_failures_stop_requests_that_do_not_settle_money() {
    let world = opened().await;
    let sent = world.sent();
    for priority in [Priority::Create, Priority::Background] {
        let client = world.client.at(priority);
        assert_eq!(client.put_cob(&txid(1), &new_cob()).await, Err(ApiError::CircuitOpen));
        assert_eq!(client.get_cob(&txid(1)).await, Err(ApiError::CircuitOpen));
    }
    assert_eq!(world.sent(), sent);

    // Requests that settle money are sent, and their success closes the breaker.
    let settle = world.client.at(Priority::Settle);
    let pix = id("E9999900420261122120000000000099");
    world.fault(FaultKind::Http500, 1);
    assert_status(&settle.get_pix(&pix).await, 500);
    assert_eq!(world.client.get_cob(&txid(1)).await, Err(ApiError::CircuitOpen));
    assert_eq!(settle.get_pix(&pix).await, Ok(None));
    assert_eq!(world.client.get_cob(&txid(1)).await, Ok(None));
}

#[tokio::test]
async fn after_ten_seconds_one_probe_decides() {
    let world = opened().await;
    world.advance_s(9);
    assert_eq!(world.client.get_cob(&txid(1)).await, Err(ApiError::CircuitOpen));
    world.advance_s(1);
    world.fault(FaultKind::Http500, 1);
    assert_status(&world.client.get_cob(&txid(1)).await, 500);
    // The probe failed, so the time doubles.
    world.advance_s(19);
    assert_eq!(world.client.get_cob(&txid(1)).await, Err(ApiError::CircuitOpen));
    world.advance_s(1);
    assert_eq!(world.client.get_cob(&txid(1)).await, Ok(None));
    assert_eq!(world.client.at(Priority::Background).get_cob(&txid(1)).await, Ok(None));
}

#[tokio::test]
async fn other_requests_wait_for_the_outcome_of_the_probe_and_a_cancelled_probe_is_replaced() {
    let world = opened().await;
    world.advance_s(10);
    let sent = world.sent();
    world.proxy.substitute(Substitute::Hold);
    let client = world.client.clone();
    let probe = tokio::spawn(async move { client.get_cob(&txid(1)).await });
    eventually("the probe is sent", || world.sent() == sent + 1).await;
    assert_eq!(world.client.get_cob(&txid(1)).await, Err(ApiError::CircuitOpen));
    probe.abort();
    assert!(probe.await.unwrap_err().is_cancelled());
    assert_eq!(world.client.get_cob(&txid(1)).await, Ok(None));
}

#[tokio::test]
async fn clones_share_the_breaker_and_other_clients_do_not() {
    let world = opened().await;
    let clone = world.client.clone().with_deadline(Duration::from_secs(5));
    assert_eq!(clone.get_cob(&txid(1)).await, Err(ApiError::CircuitOpen));
    let other = Client::new(&world.settings, world.now()).unwrap();
    assert_eq!(other.get_cob(&txid(1)).await, Ok(None));
}

#[tokio::test]
async fn refusals_and_429_never_open_the_breaker() {
    let world = World::start().await;
    for status in [400, 403, 404, 408, 409, 422, 429] {
        for _ in 0..6 {
            world.proxy.substitute(Substitute::empty(status));
            let outcome = world.client.remove_cob(&txid(1)).await;
            assert!(!matches!(outcome, Ok(_) | Err(ApiError::CircuitOpen)), "{status}: {outcome:?}");
            // The pause after a 429.
            world.advance_s(1);
        }
    }
    world.fault(FaultKind::Http401, 12);
    for _ in 0..6 {
        let refused = world.client.get_cob(&txid(1)).await;
        assert!(matches!(refused, Err(ApiError::Unauthorized { .. })), "{refused:?}");
    }
    assert_eq!(world.client.get_cob(&txid(1)).await, Ok(None));
}

#[tokio::test]
async fn a_429_between_failures_does_not_restart_their_count() {
    let world = World::start().await;
    for status in [500, 502, 429, 503, 504, 429, 500] {
        world.proxy.substitute(Substitute::empty(status));
        world.client.get_cob(&txid(1)).await.unwrap_err();
        if status == 429 {
            world.advance_s(1);
        }
    }
    assert_eq!(world.client.get_cob(&txid(1)).await, Err(ApiError::CircuitOpen));
}

#[tokio::test]
async fn timeouts_open_the_breaker() {
    let world = World::start().await;
    world.client.get_cob(&txid(1)).await.unwrap();
    world.fault(FaultKind::Timeout, 5);
    let hasty = world.client.with_deadline(Duration::from_millis(100));
    for _ in 0..5 {
        assert_eq!(hasty.get_cob(&txid(1)).await, Err(ApiError::Timeout));
    }
    assert_eq!(hasty.get_cob(&txid(1)).await, Err(ApiError::CircuitOpen));
}

#[tokio::test]
async fn failed_connections_and_failed_token_requests_open_the_breaker() {
    let world = World::start().await;
    let mut settings = world.settings.clone();
    // Nothing listens there: the port was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    settings.token_url = format!("http://{free}/oauth/token");
    let client = Client::new(&settings, world.now()).unwrap();
    for _ in 0..5 {
        assert_eq!(
            client.get_cob(&txid(1)).await,
            Err(ApiError::Connection("connection refused".to_owned()))
        );
    }
    assert_eq!(client.get_cob(&txid(1)).await, Err(ApiError::CircuitOpen));

    for _ in 0..5 {
        world.proxy.substitute_token(Substitute::empty(502));
        assert_status(&world.client.get_cob(&txid(1)).await, 502);
    }
    assert_eq!(world.client.get_cob(&txid(1)).await, Err(ApiError::CircuitOpen));
}
