//! Recoveries: everything that did not reach an endpoint is sent again.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use crate::dashboard::Browser;
use crate::support::{Answer, Listener, Service, eventually, id};

const HOUR: i64 = 60 * 60;

fn path(endpoint: &Value) -> String {
    format!("/v1/webhooks/endpoints/{}/recoveries", id(endpoint))
}

async fn recover(service: &Service, endpoint: &Value, key: &str, body: &Value) -> Answer {
    service.post_as(&service.key(), &path(endpoint), body, &[("idempotency-key", key)]).await
}

/// Waits until a recovery has ended.
async fn ended(service: &Service, endpoint: &Value, recovery: &Value) -> Value {
    let path = format!("{}/{}", path(endpoint), id(recovery));
    eventually("the recovery ends", async || {
        let read = service.get(&path).await.expect(200);
        (read["status"] != "running").then_some(read)
    })
    .await
}

async fn count(service: &Service, query: &str) -> usize {
    service.deliveries(query).await.len()
}

/// Advances the clock until the deliveries have no attempts left.
async fn exhaust(service: &Service, deliveries: usize) {
    // A pause of the endpoint may put an attempt off.
    for _ in 0..40 {
        service.advance_seconds(15 * HOUR).await;
        eventually("the attempts end", async || {
            let now = service.stack.clock.now().to_iso();
            let open = count(service, "&status=PROCESSING").await;
            let pending = service.deliveries("&status=PENDING").await;
            let is_due = |it: &&Value| it["nextRetryAt"].as_str().is_none_or(|at| at <= now.as_str());
            (open + pending.iter().filter(is_due).count() == 0).then_some(())
        })
        .await;
        if count(service, "&status=FAILED").await == deliveries {
            return;
        }
    }
    panic!("not all have failed");
}

#[tokio::test]
async fn everything_that_failed_is_sent_again_once() {
    let service = Service::start().await;
    let (listener, is_up) = Listener::down().await;
    let endpoint = service.register_endpoint(&listener.url, &["charge.created"]).await;
    for _ in 0..3 {
        service.charge().await;
    }
    exhaust(&service, 3).await;
    is_up.store(true, Ordering::SeqCst);
    let since = "2026-01-01";
    let refused = recover(&service, &endpoint, "recover-01", &json!({"since": since})).await;
    assert_eq!((refused.code(), refused.params()), ("invalid_request", vec!["since"]), "too old");
    let now = service.stack.clock.now();
    let since = now.plus_seconds(-30 * 24 * HOUR).unwrap().to_iso();

    let dry = recover(&service, &endpoint, "recover-02", &json!({"since": since, "dry_run": true})).await;
    let dry = ended(&service, &endpoint, &dry.expect(202)).await;
    assert_eq!((&dry["found"], &dry["queued"]), (&json!(3), &json!(0)));
    assert_eq!(count(&service, "").await, 3);

    let body = json!({"since": since});
    let first = recover(&service, &endpoint, "recover-03", &body).await.expect(202);
    let done = ended(&service, &endpoint, &first).await;
    assert_eq!(
        (&done["status"], &done["found"], &done["queued"]),
        (&json!("completed"), &json!(3), &json!(3))
    );
    eventually("all are delivered", async || (count(&service, "&status=DELIVERED").await == 3).then_some(()))
        .await;
    let replayed = recover(&service, &endpoint, "recover-03", &body).await;
    assert_eq!(replayed.header("idempotent-replayed"), Some("true"));
    assert_eq!(replayed.expect(202), done);
    let other = recover(&service, &endpoint, "recover-03", &json!({"since": since, "missing": true})).await;
    assert_eq!(other.code(), "idempotency_key_reused");

    let again = recover(&service, &endpoint, "recover-04", &body).await.expect(202);
    let again = ended(&service, &endpoint, &again).await;
    assert_eq!(again["found"], 0, "all were delivered meanwhile");
    assert_eq!(count(&service, "").await, 6);
    let list = service.get(&path(&endpoint)).await.expect(200);
    let ids: Vec<&Value> = list["data"].as_array().unwrap().iter().map(|one| &one["id"]).collect();
    assert_eq!(ids, [&again["id"], &done["id"], &dry["id"]]);
}

#[tokio::test]
async fn pending_deliveries_are_attempted_now_and_missing_events_are_sent() {
    let service = Service::start().await;
    service.charge().await;
    let (listener, is_up) = Listener::down().await;
    let endpoint = service.register_endpoint(&listener.url, &["charge.created"]).await;
    service.charge().await;
    // After the fifth attempt, the next one follows eight minutes later.
    for (attempts, seconds) in [(1, 40), (2, 80), (3, 160), (4, 320), (5, 0)] {
        eventually("the attempt fails", async || {
            let waiting = service.deliveries("&status=PENDING").await.into_iter().next()?;
            (waiting["attempts"] == attempts).then_some(())
        })
        .await;
        service.advance_seconds(seconds).await;
    }
    is_up.store(true, Ordering::SeqCst);
    let since = service.stack.clock.now().plus_seconds(-24 * HOUR).unwrap().to_iso();
    let body = json!({"since": since, "statuses": ["PENDING"], "missing": true});
    let recovery = recover(&service, &endpoint, "recover-01", &body).await.expect(202);
    let done = ended(&service, &endpoint, &recovery).await;
    assert_eq!((&done["found"], &done["queued"]), (&json!(2), &json!(2)), "{done}");
    eventually("both are delivered", async || {
        (count(&service, "&status=DELIVERED").await == 2).then_some(())
    })
    .await;
    assert_eq!(count(&service, "").await, 2, "the pending one got no second delivery");
    let body = json!({"since": since, "missing": true});
    let again = recover(&service, &endpoint, "recover-02", &body).await.expect(202);
    assert_eq!(ended(&service, &endpoint, &again).await["found"], 0);
}

#[tokio::test]
async fn one_recovery_of_an_active_endpoint_runs_at_a_time_and_can_be_cancelled() {
    let service = Service::without_event_sources().await;
    let endpoint = service.register_endpoint("https://shop.example.com/hook", &["charge.created"]).await;
    let since = service.stack.clock.now().to_iso();
    let body = json!({"since": since});
    let running = recover(&service, &endpoint, "recover-01", &body).await.expect(202);
    assert_eq!((&running["status"], &running["object"]), (&json!("running"), &json!("recovery")));
    let second = recover(&service, &endpoint, "recover-02", &body).await;
    assert_eq!((second.status.as_u16(), second.code()), (409, "recovery_in_progress"));
    let cancel = format!("{}/{}/cancel", path(&endpoint), id(&running));
    for _ in 0..2 {
        assert_eq!(service.post(&cancel, &json!({})).await.expect(200)["status"], "cancelled");
    }
    recover(&service, &endpoint, "recover-03", &body).await.expect(202);
    service
        .patch(&format!("/v1/webhooks/endpoints/{}", id(&endpoint)), &json!({"status": "INACTIVE"}))
        .await
        .expect(200);
    let inactive = recover(&service, &endpoint, "recover-04", &body).await;
    assert_eq!((inactive.status.as_u16(), inactive.code()), (422, "endpoint_inactive"));
    let keyless = service.post(&path(&endpoint), &body).await;
    assert_eq!((keyless.code(), keyless.params()), ("invalid_request", vec!["Idempotency-Key"]));
    let unknown = service.get(&format!("{}/rc_0000000000k8f2hq6d4v0n7e3a", path(&endpoint))).await;
    assert_eq!(unknown.status, 404);
}

#[tokio::test]
async fn a_member_recovers_an_endpoint_on_its_page() {
    let service = Service::start().await;
    let (listener, is_up) = Listener::down().await;
    let endpoint = service.register_endpoint(&listener.url, &["charge.created"]).await;
    service.charge().await;
    exhaust(&service, 1).await;
    // One has failed for good, and one waits for its next attempt.
    service.charge().await;
    eventually("one waits", async || {
        let waiting = service.deliveries("&status=PENDING").await.into_iter().next()?;
        waiting["nextRetryAt"].is_string().then_some(())
    })
    .await;
    is_up.store(true, Ordering::SeqCst);
    let page = format!("/dashboard/webhooks/{}", id(&endpoint));
    let browser = Browser::owner(&service).await;
    browser.submit(&page, "Reenviar tudo o que não chegou", &[]).await;
    let done = eventually("the recovery ends", async || {
        let page = browser.page(&page).await;
        page.contains("Concluída").then_some(page)
    })
    .await;
    assert!(done.contains("2 / 2"), "{done}");
    eventually("both are delivered", async || {
        (count(&service, "&status=DELIVERED").await == 2).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_repeated_step_creates_no_second_delivery() {
    use effects::webhook::recovery::{NewRecovery, Recoveries, Recovery};
    let service = Service::start().await;
    let (listener, _is_up) = Listener::down().await;
    let endpoint = service.register_endpoint(&listener.url, &["charge.created"]).await;
    service.charge().await;
    exhaust(&service, 1).await;
    let (now, recoveries) = (service.stack.clock.now(), Recoveries::new(service.store()));
    let at = (service.scope(), id(&endpoint).parse().ok(), None);
    // Due later than the scheduler looks, so that this test runs the steps.
    let later = now.plus_seconds(HOUR).unwrap();
    let recovery = Recovery::new(at, "one", NewRecovery::of_failed(now), later);
    recoveries.request(recovery.clone()).await.unwrap();
    // As after a crash between the deliveries and the position of the first run.
    assert!(recoveries.run_step(recovery.clone(), now).await.unwrap().is_none());
    assert!(recoveries.run_step(recovery.clone(), now).await.unwrap().is_none());
    assert_eq!(count(&service, "").await, 2);
    let ended = recoveries.find(&service.scope(), (recovery.endpoint, Some(recovery.id))).await.unwrap();
    assert_eq!((ended.found, ended.queued), (1, 1));
    assert_eq!(recoveries.count(recovery, now).await.unwrap(), 1, "the repeated step counts the same");
}
