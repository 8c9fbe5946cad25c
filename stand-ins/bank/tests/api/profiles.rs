//! The differences between the profiles.

use bank::{Profile, TokenAuthentication};
use serde_json::json;

use crate::schema::assert_callback;
use crate::support::{KEY, PERIOD, Receiver, World, cob, eventually, txid};

fn path(number: u32) -> String {
    format!("/cob/{}", txid(number))
}

#[tokio::test]
async fn every_profile_serves_a_charge_from_creation_to_return() {
    for profile in Profile::ALL {
        let behaviour = profile.behaviour();
        let world = World::start_as(*profile).await;
        let receiver = Receiver::start().await;
        world.api.register_webhook(&receiver.url).await;
        let tests = usize::from(behaviour.tests_webhook_url);
        assert_eq!(receiver.received().len(), tests, "{}", profile.name());

        let created = world.api.create_cob(1).await;
        assert_eq!(created.get("pixCopiaECola").is_some(), behaviour.shows_copia_e_cola);
        let end_to_end_id = world.pay(1).end_to_end_id;
        let pix = world.api.get(&format!("/pix/{end_to_end_id}")).await.expect(200);
        assert_eq!(pix.get("pagador").is_some(), behaviour.shows_payer);
        assert_eq!(pix.get("chave").is_some(), behaviour.shows_key);
        world.advance_ms(1_000);
        let sent = eventually("the callback arrives", async || {
            Some(receiver.received()).filter(|received| received.len() > tests)
        })
        .await;
        assert_eq!(sent[tests].path, format!("/hooks{}", behaviour.callback_suffix));
        assert_eq!(sent[tests].json(), json!({"pix": [pix]}));

        let devolucao = format!("/pix/{end_to_end_id}/devolucao/r1");
        world.api.put(&devolucao, &json!({"valor": "10.00"})).await.expect(201);
        world.advance_ms(2_000);
        assert_eq!(world.api.get(&devolucao).await.expect(200)["status"], "DEVOLVIDO");
        assert_eq!(world.list("").await.len(), 1);
        world.api.get(&format!("/cob?{PERIOD}")).await.expect(200);

        world.advance_ms(behaviour.token_lifetime_s * 1_000);
        world.api.get(&path(1)).await.expect(401);
    }
}

#[tokio::test]
async fn the_other_style_of_token_request_is_refused() {
    for profile in Profile::ALL {
        let world = World::start_with(|options| options.profile = *profile).await;
        let other = match profile.behaviour().token_authentication {
            TokenAuthentication::Basic => TokenAuthentication::Body,
            TokenAuthentication::Body => TokenAuthentication::Basic,
        };
        world.api.request_token(other).await.expect(401);
    }
}

#[tokio::test]
async fn an_active_cob_can_be_put_again_only_where_the_profile_says_so() {
    for (profile, status) in [(Profile::Complete, 201), (Profile::AppKey, 400)] {
        let world = World::start_as(profile).await;
        world.api.create_cob(1).await;
        world.api.put(&path(1), &cob()).await.expect(status);
    }
}

#[tokio::test]
async fn a_list_covers_at_most_the_period_of_the_profile() {
    let world = World::start_as(Profile::AppKey).await;
    world.api.get("/pix?inicio=2026-11-01T00:00:00Z&fim=2026-11-06T00:00:00Z").await.expect(200);
    world.api.get("/pix?inicio=2026-11-01T00:00:00Z&fim=2026-11-06T00:00:01Z").await.expect(400);
}

#[tokio::test]
async fn the_minimal_profile_tests_a_callback_url_before_it_registers_it() {
    let world = World::start_as(Profile::Minimal).await;
    let receiver = Receiver::start().await;
    let webhook = format!("/webhook/{KEY}");
    receiver.answer(401);
    world.api.put(&webhook, &json!({"webhookUrl": receiver.url})).await.expect(400);
    world.api.get(&webhook).await.expect(404);
    receiver.answer(200);
    world.api.register_webhook(&receiver.url).await;
    assert!(
        receiver
            .received()
            .iter()
            .all(|posted| posted.path == "/hooks" && posted.json().get("pix").is_none())
    );

    let authorization = format!("Bearer {}", world.api.token);
    let url = format!("{}{webhook}", world.bank.url());
    let body = json!({"webhookUrl": receiver.url}).to_string();
    let headers = [("authorization", authorization.as_str())];
    let (answer, _) = world.api.send("PUT", &url, &headers, body).await;
    answer.expect(400);
}

#[tokio::test]
async fn one_callback_can_have_several_pix_that_are_due_together() {
    let world = World::start_as(Profile::AccountHeader).await;
    let receiver = Receiver::start().await;
    world.api.register_webhook(&receiver.url).await;
    receiver.answer(500);
    for number in 1..=3 {
        world.paid_cob(number).await;
    }
    world.advance_ms(1_000);
    eventually("the callback arrives", async || (!receiver.received().is_empty()).then_some(())).await;
    receiver.answer(200);
    let requests = eventually("all Pix arrive again", async || {
        world.advance_ms(1_000);
        let requests = receiver.received();
        let pix: usize = requests.iter().map(|posted| posted.json()["pix"].as_array().unwrap().len()).sum();
        (pix >= 6).then_some(requests)
    })
    .await;
    for posted in &requests {
        assert_callback(&posted.json());
    }
    assert_eq!(requests.len(), 2, "{requests:#?}");
}

#[tokio::test]
async fn a_br_code_with_an_amount_follows_each_revision() {
    let world = World::start_as(Profile::AccountHeader).await;
    let created = world.api.create_cob(1).await;
    assert!(created["pixCopiaECola"].as_str().unwrap().contains("5303986540510.005802BR"), "{created}");
    let revised = world.api.patch(&path(1), &json!({"valor": {"original": "1.50"}})).await.expect(200);
    assert!(revised["pixCopiaECola"].as_str().unwrap().contains("530398654041.505802BR"), "{revised}");
}
