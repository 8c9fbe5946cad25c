//! Tests of the commands about a connection to Stripe.

use serde_json::{Value, json};

use super::{AdminFixture, text};

const WHY: [&str; 2] = ["--reason", "cards"];

/// Returns how many URLs for notifications are registered.
fn registered(service: &AdminFixture) -> usize {
    let (_, books) = service.stack.cards.control("GET", "/books", &json!({}));
    books.to_string().matches(r#""object":"webhook_endpoint""#).count()
}

#[tokio::test]
async fn a_connection_to_stripe_is_set_checked_rotated_and_forgotten() {
    let service = AdminFixture::start().await;
    let account = service.stack.seed.other.id.to_string();
    let url = service.stack.cards.url().to_owned();
    let set = async |key: &str, more: &[&str]| {
        let command = ["accounts", "set-acquirer", &account, "stripe", "--name", "two", "--base-url", &url];
        let rest = ["--files-url", &url, "--methods", "CREDIT_CARD"];
        service.run_with(&[&command[..], &rest, &WHY, more].concat(), key).await
    };
    let without_fees = set(&service.stack.seed.card_key, &[]).await;
    assert!(text(&without_fees.stderr).contains("--fees-on-refund"), "{without_fees:?}");
    let keep = ["--fees-on-refund", "keep"];
    let refused = set("sk_live_unknown", &keep).await;
    assert!(text(&refused.stderr).contains("nothing was changed"), "{refused:?}");
    assert!(!text(&refused.stderr).contains("sk_live_unknown"), "{refused:?}");

    let before = registered(&service);
    let done = set(&service.stack.seed.card_key, &keep).await;
    assert!(done.status.success(), "{done:?}");
    let shown: Value = serde_json::from_str(text(&done.stdout).lines().last().unwrap()).unwrap();
    assert_eq!((&shown["kind"], &shown["methods"]), (&json!("stripe"), &json!(["credit_card"])), "{shown}");
    assert!(!shown.to_string().contains(&service.stack.seed.card_key), "{shown}");
    assert_eq!(registered(&service), before + 1);
    let account_of = service.object(&["accounts", "show", &account]).await;
    assert!(account_of.to_string().contains("keep"), "{account_of}");
    // The same settings change nothing.
    assert!(set(&service.stack.seed.card_key, &keep).await.status.success());
    assert_eq!(registered(&service), before + 1);

    let checks = service.objects(&["accounts", "check-acquirer", &account, "--name", "two"]).await;
    let results: Vec<(&str, &str)> = checks
        .iter()
        .map(|line| (line["check"].as_str().unwrap(), line["result"].as_str().unwrap()))
        .collect();
    assert_eq!(results, [("key", "ok"), ("account", "ok"), ("webhook", "ok"), ("clock", "ok")], "{checks:?}");

    let rotate = [&["accounts", "rotate-callback-token", &account][..], &WHY].concat();
    let rotated = service.object(&rotate).await;
    assert_ne!(rotated["webhook_endpoint"], shown["webhook_endpoint"], "{rotated}");
    assert_eq!(registered(&service), before + 1, "the former URL is removed");

    let removed = service.object(&[&["accounts", "remove-acquirer", &account][..], &WHY].concat()).await;
    let connection = removed["connection"].as_str().unwrap();
    let forget = [&["accounts", "forget-acquirer", &account, connection][..], &WHY].concat();
    service.object(&forget).await;
    assert_eq!(registered(&service), before);
}
