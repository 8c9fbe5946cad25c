//! The file of the rows.

use serde_json::json;
use stripe_stand_in::Behaviour;

use crate::support::{Receiver, World, eventually, register, session};

#[tokio::test]
async fn a_restart_restores_everything_but_faults() {
    let file = std::env::temp_dir().join(format!("stripe-{}-restart.jsonl", std::process::id()));
    let _ = std::fs::remove_file(&file);
    let start = async || World::start_in(Some(file.clone()), Behaviour::default()).await;
    let world = start().await;
    let receiver = Receiver::start().await;
    register(&world, &receiver, &["checkout.session.completed"]).await;
    receiver.answer(503);
    let create = async |world: &World| {
        let answer = world.api.try_post("/v1/checkout/sessions", &session("ch_1"), "k1").await;
        answer.unwrap().expect(200)
    };
    let created = create(&world).await;
    world.control("/pay", json!({"session": created["id"]}));
    receiver.types(1).await;
    let books = |world: &World| world.stripe.control("GET", "/books", &json!({})).1;
    eventually("the failure is noted", async || (books(&world)["unsent_notifications"] == 1).then_some(()))
        .await;
    world.fault("http_500", "");
    let before = books(&world);
    world.stripe.stop().await;
    // A kill cut off the last line.
    let mut text = std::fs::read(&file).unwrap();
    text.extend(b"{\"serial\":9");
    std::fs::write(&file, text).unwrap();

    let world = start().await;
    assert_eq!(books(&world), before);
    assert_eq!(create(&world).await["id"], created["id"]);
    let other = world.session("ch_2").await;
    assert_ne!(other["id"], created["id"]);
    receiver.answer(200);
    world.advance_s(5);
    receiver.types(2).await;
    world.stripe.reset().unwrap();
    assert_eq!(books(&world)["sessions"], json!([]));
    assert_eq!(books(&world)["account"], before["account"]);
    world.stripe.stop().await;
    let world = start().await;
    assert_eq!(books(&world)["sessions"], json!([]));
    drop(world);
    std::fs::write(&file, "2\n").unwrap();
    let options = stripe_stand_in::Options::new(std::sync::Arc::new(|| 0), "sk_live_1");
    let refused =
        stripe_stand_in::Stripe::start(stripe_stand_in::Options { file: Some(file.clone()), ..options });
    assert!(refused.await.err().unwrap().to_string().contains("another version"));
    std::fs::remove_file(&file).unwrap();
}
