//! The file of the rows.

use btcpay_stand_in::{BtcPay, Options};
use serde_json::json;

use crate::support::{KEY, Receiver, STORE, World};

#[tokio::test]
async fn a_restart_restores_everything_but_faults_and_queues() {
    let file = std::env::temp_dir().join(format!("btcpay-{}-restart.jsonl", std::process::id()));
    let _ = std::fs::remove_file(&file);
    let world = World::start_in(Some(file.clone()), STORE).await;
    let receiver = Receiver::start().await;
    receiver.answer(503);
    world.register(&receiver).await;
    let id = world.invoice("a", json!({})).await;
    let other = world.invoice("b", json!({})).await;
    world.control("/pay", json!({"invoice": id}));
    receiver.types(1).await;
    world.wait_unsent(4).await;
    world.fault("http_500", "");
    let before = world.books();
    world.btcpay.stop().await;
    // A kill cut off the last line.
    let mut text = std::fs::read(&file).unwrap();
    text.extend(b"[[[");
    std::fs::write(&file, text).unwrap();

    let world = World::start_in(Some(file.clone()), STORE).await;
    let after = world.books();
    let same_origin = |books: &serde_json::Value| {
        let mut invoices = books["invoices"].clone();
        for invoice in invoices.as_array_mut().unwrap() {
            invoice["checkoutLink"] = json!("");
        }
        (invoices, books["webhooks"].clone())
    };
    assert_eq!(same_origin(&after), same_origin(&before));
    assert_eq!(after["unsent_notifications"], 0);
    receiver.answer(200);
    world.control("/confirm", json!({"invoice": id}));
    assert_eq!(receiver.types(3).await[1..], ["InvoicePaymentSettled", "InvoiceSettled"]);
    world.advance_s(900);
    assert_eq!(world.status(&other).await, "Expired None");
    let third = world.invoice("c", json!({})).await;
    assert!(third != id && third != other);
    world.btcpay.reset().unwrap();
    assert_eq!(world.books()["invoices"], json!([]));
    world.btcpay.stop().await;
    let world = World::start_in(Some(file.clone()), STORE).await;
    assert_eq!((&world.books()["invoices"], &world.books()["webhooks"]), (&json!([]), &json!({})));
    drop(world);
    for (line, store) in [("2\n", STORE), ("[\"btcpay-stand-in 1\",\"store-1\"]\n", "store-2")] {
        std::fs::write(&file, line).unwrap();
        let options = Options::new(std::sync::Arc::new(|| 0), KEY, store);
        let refused = BtcPay::start(Options { file: Some(file.clone()), ..options }).await;
        assert!(refused.err().unwrap().to_string().contains("another version"));
    }
    std::fs::remove_file(&file).unwrap();
}
