//! Tokens: sharing, renewal, and refusal.

use api_pix::{ApiError, ApiProblem, Client, Priority, TokenAuthentication};
use bank::{FaultKind, Profile};
use serde_json::json;
use tokio::task::JoinSet;

use crate::proxy::Substitute;
use crate::support::{SECRET, World, new_cob, txid};

/// Reads a cob `count` times at once. Returns the outcomes.
async fn concurrently(world: &World, count: usize) -> Vec<Result<(), ApiError>> {
    let mut reads = JoinSet::new();
    for _ in 0..count {
        let client = world.client.clone();
        reads.spawn(async move { client.get_cob(&txid(1)).await.map(drop) });
    }
    reads.join_all().await
}

#[tokio::test]
async fn fifty_concurrent_requests_share_one_token() {
    let world = World::start().await;
    assert_eq!(concurrently(&world, 50).await, vec![Ok(()); 50]);
    assert_eq!((world.tokens(), world.sent()), (1, 50));
}

#[tokio::test]
async fn concurrent_requests_share_the_error_of_the_token() {
    let world = World::start().await;
    world.proxy.substitute_token(Substitute::empty(503));
    let failed = ApiError::Server { status: 503, problem: ApiProblem::default() };
    assert_eq!(concurrently(&world, 50).await, vec![Err(failed); 50]);
    assert_eq!((world.tokens(), world.sent()), (1, 0));
    // It is one failure, so it does not open the circuit breaker.
    assert_eq!(world.client.get_cob(&txid(1)).await, Ok(None));
}

#[tokio::test]
async fn the_next_request_fetches_when_the_one_that_fetched_was_cancelled() {
    let world = World::start().await;
    world.proxy.substitute_token(Substitute::Hold);
    let first = world.client.clone();
    let first = tokio::spawn(async move { first.get_cob(&txid(1)).await });
    crate::support::eventually("the token is requested", || world.tokens() == 1).await;
    first.abort();
    assert_eq!(world.client.get_cob(&txid(1)).await, Ok(None));
    assert_eq!(world.tokens(), 2);
}

#[tokio::test]
async fn a_token_is_renewed_a_minute_before_its_end() {
    // Its tokens live 300 s.
    let world = World::start_as(Profile::Minimal).await;
    for (seconds, tokens) in [(0, 1), (239, 1), (1, 2), (239, 2), (1, 3)] {
        world.advance_s(seconds);
        world.client.get_cob(&txid(1)).await.unwrap();
        assert_eq!(world.tokens(), tokens, "after {seconds} s more");
    }
    assert!(world.proxy.api_requests().iter().all(|request| request.header("authorization").is_some()));
}

#[tokio::test]
async fn a_token_that_lives_less_than_two_minutes_is_renewed_at_half_of_its_life() {
    for (expires_in, seconds) in [
        (json!(100), 50),
        (json!("100"), 50),
        (json!(119), 59),
        (json!(120), 60),
        // Without a life that can be read, it is 300 s.
        (json!(null), 240),
        (json!(-1), 240),
    ] {
        let world = World::start().await;
        let real = issue_token(&world).await;
        world.proxy.substitute_token(Substitute::json(
            200,
            &json!({"access_token": real, "expires_in": expires_in}),
        ));
        for (advance, tokens) in [(0, 2), (seconds - 1, 2), (2, 3)] {
            world.advance_s(advance);
            world.client.get_cob(&txid(1)).await.unwrap();
            assert_eq!(world.tokens(), tokens, "{expires_in}: after {advance} s more");
        }
    }
}

/// Returns a token that the bank issued to another client object.
async fn issue_token(world: &World) -> String {
    let other = Client::new(&world.settings, world.now()).unwrap();
    other.get_cob(&txid(1)).await.unwrap();
    let request = world.proxy.api_requests().pop().unwrap();
    request.header("authorization").unwrap().strip_prefix("Bearer ").unwrap().to_owned()
}

#[tokio::test]
async fn an_expired_token_is_replaced_and_the_request_repeated() {
    for profile in Profile::ALL {
        let world = World::start_as(*profile).await;
        world.cob(1).await;
        world.fault(FaultKind::TokenExpired, 1);
        assert!(world.client.get_cob(&txid(1)).await.unwrap().is_some());
        assert_eq!((world.tokens(), world.sent()), (2, 3));
    }
}

#[tokio::test]
async fn a_401_leads_to_one_new_token_and_one_more_try() {
    let world = World::start().await;
    world.fault(FaultKind::Http401, 1);
    assert_eq!(world.client.get_cob(&txid(1)).await, Ok(None));
    assert_eq!((world.tokens(), world.sent()), (2, 2));

    world.fault(FaultKind::Http401, 2);
    let error = world.client.put_cob(&txid(1), &new_cob()).await.unwrap_err();
    assert!(matches!(error, ApiError::Unauthorized { status: 401, .. }), "{error}");
    assert!(error.needs_operator());
    assert_eq!((world.tokens(), world.sent()), (3, 4));
    // The newest token is used again.
    assert_eq!(world.client.get_cob(&txid(1)).await, Ok(None));
    assert_eq!(world.tokens(), 3);
}

#[tokio::test]
async fn requests_that_got_a_401_with_the_same_token_share_its_replacement() {
    let world = World::start().await;
    world.cob(1).await;
    world.fault(FaultKind::TokenExpired, 1);
    assert_eq!(concurrently(&world, 20).await, vec![Ok(()); 20]);
    assert_eq!(world.tokens(), 2);
}

#[tokio::test]
async fn wrong_credentials_need_an_operator() {
    for profile in Profile::ALL {
        let world = World::start_with(*profile, |settings| {
            settings.client_secret = "wrong".to_owned().into();
        })
        .await;
        let error = world.client.get_cob(&txid(1)).await.unwrap_err();
        assert!(error.needs_operator() && matches!(error, ApiError::Unauthorized { .. }), "{error}");
        assert_eq!(world.sent(), 0);
    }
}

#[tokio::test]
async fn an_error_of_the_token_endpoint_never_looks_like_one_of_the_object() {
    let problem = ApiProblem { kind: "invalid_client".to_owned(), ..ApiProblem::default() };
    let unauthorized = |status| ApiError::Unauthorized { status, problem: problem.clone() };
    for (status, expected) in [
        (400, unauthorized(400)),
        (401, unauthorized(401)),
        (403, ApiError::Forbidden(problem.clone())),
        (404, unauthorized(404)),
        (408, ApiError::RequestTimeout),
        (422, unauthorized(422)),
        (500, ApiError::Server { status: 500, problem: problem.clone() }),
        (302, ApiError::Malformed("the token endpoint answered 302".to_owned())),
    ] {
        let world = World::start().await;
        world.proxy.substitute_token(Substitute::json(status, &json!({"error": "invalid_client"})));
        assert_eq!(world.client.get_cob(&txid(1)).await, Err(expected), "{status}");
    }
}

#[tokio::test]
async fn a_token_that_can_not_be_read_is_an_error() {
    for body in [json!({}), json!({"access_token": 5}), json!({"access_token": "a\nb"}), json!([])] {
        let world = World::start().await;
        world.proxy.substitute_token(Substitute::json(200, &body));
        let error = world.client.get_cob(&txid(1)).await.unwrap_err();
        assert!(matches!(error, ApiError::Malformed(_)), "{body}: {error}");
    }
}

#[tokio::test]
async fn a_429_of_the_token_endpoint_lets_requests_wait_unless_they_settle() {
    let world = World::start().await;
    world.proxy.substitute_token(Substitute::Answer(429, vec![("retry-after", "7".to_owned())], "".into()));
    let limited = ApiError::TooManyRequests { retry_after: std::time::Duration::from_secs(7) };
    assert_eq!(world.client.get_cob(&txid(1)).await, Err(limited.clone()));
    let background = world.client.at(Priority::Background);
    for waiting in [&background, &world.client] {
        assert_eq!(waiting.get_cob(&txid(1)).await, Err(limited.clone()));
    }
    assert_eq!(world.tokens(), 1);
    assert_eq!(world.client.at(Priority::Settle).get_cob(&txid(1)).await, Ok(None));
}

#[tokio::test]
async fn the_token_request_has_the_scope_and_the_credentials_in_the_chosen_place() {
    let world = World::start_with(Profile::Complete, |settings| {
        settings.scope = Some("cob.read cob.write".to_owned());
    })
    .await;
    world.client.get_cob(&txid(1)).await.unwrap();
    let request = &world.proxy.token_requests()[0];
    assert_eq!(request.body, "grant_type=client_credentials&scope=cob.read+cob.write");
    assert!(request.header("authorization").unwrap().starts_with("Basic "));
    // The token is not allowed to read Pix.
    let unknown = crate::support::id("E9999900420261122120000000000099");
    let refused = world.client.get_pix(&unknown).await;
    assert!(matches!(refused, Err(ApiError::Forbidden(_))), "{refused:?}");

    let world = World::start_as(Profile::AccountHeader).await;
    assert_eq!(world.settings.token_authentication, TokenAuthentication::Body);
    world.client.get_cob(&txid(1)).await.unwrap();
    let request = &world.proxy.token_requests()[0];
    let expected = format!("grant_type=client_credentials&client_id=client-1&client_secret={SECRET}");
    assert_eq!((request.body.as_str(), request.header("authorization")), (Some(expected.as_str()), None));
}
