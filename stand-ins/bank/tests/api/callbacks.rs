//! The registration of callback URLs, and callbacks.

use bank::{FaultKind, PayRequest, Profile, ReportedTxid};
use serde_json::json;

use crate::support::{KEY, Receiver, World, eventually, txid};

#[tokio::test]
async fn a_callback_url_is_registered_shown_and_removed() {
    let world = World::start().await;
    let path = format!("/webhook/{KEY}");
    world.api.get(&path).await.expect(404);
    world.api.register_webhook("https://loja.example/a").await;
    world.api.register_webhook("https://loja.example/b").await;
    let shown = world.api.get(&path).await.expect(200);
    assert_eq!(
        shown,
        json!({
            "webhookUrl": "https://loja.example/b",
            "chave": KEY,
            "cnpj": "12ABC34501DE35",
            "criacao": "2026-11-22T12:00:00.000Z",
        })
    );
    world.api.call("DELETE", &path, None).await.expect(204);
    world.api.get(&path).await.expect(404);
    world.api.call("DELETE", &path, None).await.expect(404);
    for url in ["loja", "ftp://loja.example"] {
        let refused = world.api.put(&path, &json!({"webhookUrl": url})).await.expect(400);
        assert_eq!(refused["violacoes"][0]["propriedade"], "webhook.webhookUrl");
    }
    let phone = "/webhook/%2B5511999990000";
    world.api.put(phone, &json!({"webhookUrl": "https://loja.example/c"})).await.expect(200);
    assert_eq!(world.api.get(phone).await.expect(200)["chave"], "+5511999990000");
}

#[tokio::test]
async fn a_payment_is_reported_within_a_second() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    world.api.register_webhook(&format!("{}/?a=1", receiver.url)).await;
    let end_to_end_id = world.paid_cob(1).await;
    world.advance_ms(1_000);
    let callbacks = receiver.callbacks(1).await;
    assert_eq!(callbacks[0], world.api.get(&format!("/pix/{end_to_end_id}")).await.expect(200));
    assert_eq!(receiver.received()[0].path, "/hooks/pix?a=1");
}

#[tokio::test]
async fn a_callback_is_retried_until_it_is_accepted() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    world.api.register_webhook(&receiver.url).await;
    receiver.answer(503);
    world.paid_cob(1).await;
    for attempt in 1..=3 {
        // The next attempt is scheduled after the answer to the previous one, so the clock moves until it
        // arrives.
        eventually("the next attempt arrives", async || {
            world.advance_ms(1_000);
            (receiver.received().len() >= attempt).then_some(())
        })
        .await;
    }
    receiver.answer(200);
    let attempts = eventually("the accepted attempt arrives", async || {
        world.advance_ms(1_000);
        let attempts = receiver.received().len();
        (attempts > 3).then_some(attempts)
    })
    .await;
    let callbacks = receiver.callbacks(attempts).await;
    assert!(callbacks.iter().all(|callback| callback == &callbacks[0]));

    // If the first payment had further callbacks, they would be due before that of the second.
    world.paid_cob(2).await;
    world.advance_ms(7_200_000);
    assert_eq!(receiver.callbacks(attempts + 1).await[attempts]["txid"], txid(2));
}

#[tokio::test]
async fn faults_lose_duplicate_and_delay_callbacks() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    world.api.register_webhook(&receiver.url).await;

    world.fault(FaultKind::LostNotification);
    world.paid_cob(1).await;
    world.fault(FaultKind::LateNotification);
    world.paid_cob(2).await;
    world.fault(FaultKind::DuplicateNotification);
    world.paid_cob(3).await;
    world.advance_ms(1_799_999);
    let first = receiver.callbacks(2).await;
    assert_eq!([&first[0]["txid"], &first[1]["txid"]], [&json!(txid(3)), &json!(txid(3))]);
    world.advance_ms(1);
    assert_eq!(receiver.callbacks(3).await[2]["txid"], txid(2));
}

#[tokio::test]
async fn a_pix_without_cob_and_txid_is_reported_only_where_the_profile_says_so() {
    for (profile, expected) in [
        (Profile::Complete, vec![json!(txid(1))]),
        (Profile::AccountHeader, vec![json!(null), json!(txid(1))]),
    ] {
        let world = World::start_as(profile).await;
        let receiver = Receiver::start().await;
        world.api.register_webhook(&receiver.url).await;
        world.api.create_cob(1).await;
        let request =
            PayRequest { txid: txid(1), reported_txid: ReportedTxid::Missing, ..PayRequest::default() };
        world.bank.pay(&request).unwrap();
        world.advance_ms(1_000);
        // Waits for the callback of this payment, so that it arrives before that of the next payment.
        if expected.len() > 1 {
            receiver.callbacks(1).await;
        }
        world.pay(1);
        world.advance_ms(1_000);
        let txids: Vec<_> =
            receiver.callbacks(expected.len()).await.iter().map(|pix| pix["txid"].clone()).collect();
        assert_eq!(txids, expected);
    }
}
