//! Callbacks.

use bank::{PayRequest, Profile, ReportedTxid};
use serde_json::json;

use crate::support::{Receiver, World, eventually, txid};

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
