//! Tests of `GET /v1/charges`.

use domain::charge::{Charge, StoredCharge};
use domain::ids::{ChargeId, Mode};
use money::charge::Charges;
use serde_json::{Value, json};
use shared::store::{Item, to_item};

use crate::seeding::write;
use crate::support::{Service, eventually, id, ids};

async fn all_pages(service: &Service, query: &str) -> Vec<String> {
    let charges = service.all_pages(&format!("/v1/charges?{query}")).await;
    charges.iter().map(|charge| id(charge).to_owned()).collect()
}

#[tokio::test]
async fn pages_list_every_charge_once_newest_first() {
    let service = Service::start().await;
    let mut created = Vec::new();
    for _ in 0..30 {
        created.push(id(&service.charge().await).to_owned());
        // Distinct creation times define the expected order.
        service.stack.clock.advance(1);
    }
    created.reverse();
    let first = service.get("/v1/charges").await.expect(200);
    assert_eq!(
        (first["object"].as_str(), ids(&first).len(), &first["has_more"]),
        (Some("list"), 25, &json!(true))
    );
    assert_eq!(first["next_cursor"], created[24]);
    for limit in [1, 7, 10, 30, 100] {
        assert_eq!(all_pages(&service, &format!("limit={limit}")).await, created, "limit {limit}");
    }
    let after_last = service.get(&format!("/v1/charges?starting_after={}", created[29])).await.expect(200);
    assert_eq!(after_last, json!({"object": "list", "data": [], "has_more": false, "next_cursor": null}));
}

#[tokio::test]
async fn filters_apply_alone_and_combined() {
    let service = Service::start().await;
    let maria = json!({"amount": 1000, "customer": {"document": "29537995593"}});
    let loja = json!({"amount": 1000, "customer": {"document": "12ABC34501DE35"}});
    let mut charges = Vec::new();
    for body in [&maria, &loja, &maria, &loja, &json!({"amount": 1000})] {
        charges.push(service.new_charge(body).await);
        service.stack.clock.advance(10);
    }
    service.sandbox(&charges[0], "pay", &json!({})).await;
    service.sandbox(&charges[1], "pay", &json!({})).await;
    service.sandbox(&charges[2], "fail", &json!({})).await;
    service.sandbox(&charges[3], "expire", &json!({})).await;
    let nth = |numbers: &[usize]| -> Vec<String> {
        numbers.iter().map(|number| id(&charges[*number]).to_owned()).collect()
    };
    let at = |number: usize| charges[number]["created_at"].as_str().unwrap();
    let cases: Vec<(String, Vec<String>)> = vec![
        ("status=paid".to_owned(), nth(&[1, 0])),
        ("status=failed".to_owned(), nth(&[2])),
        ("status=expired".to_owned(), nth(&[3])),
        ("status=pending".to_owned(), nth(&[4])),
        ("status=processing".to_owned(), nth(&[])),
        ("status=cancelled".to_owned(), nth(&[])),
        ("status=refunded".to_owned(), nth(&[])),
        ("status=disputed".to_owned(), nth(&[])),
        ("customer_id=29537995593".to_owned(), nth(&[2, 0])),
        ("customer_id=12ABC34501DE35&status=paid".to_owned(), nth(&[1])),
        ("customer_id=25524893033".to_owned(), nth(&[])),
        (format!("created_after={}", at(2)), nth(&[4, 3, 2])),
        (format!("created_before={}", at(2)), nth(&[2, 1, 0])),
        (format!("created_after={}&created_before={}", at(1), at(3)), nth(&[3, 2, 1])),
        (format!("created_after={}&status=paid", at(1)), nth(&[1])),
        (format!("created_after={}&created_before={}", at(3), at(1)), nth(&[])),
        (format!("created_before={}&customer_id=29537995593", at(1)), nth(&[0])),
    ];
    for (query, expected) in cases {
        assert_eq!(all_pages(&service, &format!("limit=1&{query}")).await, expected, "{query}");
        assert_eq!(ids(&service.get(&format!("/v1/charges?{query}")).await.expect(200)), expected, "{query}");
    }
}

#[tokio::test]
async fn a_charge_is_found_by_its_order_number_email_payment_txid_and_amount() {
    let service = Service::start().await;
    let body = |amount: i64, metadata: Value, email: Option<&str>| json!({"amount": amount, "metadata": metadata, "customer": {"name": "Maria", "email": email}});
    let mut charges = Vec::new();
    for body in [
        body(1000, json!({"order_id": "4711"}), Some("maria@example.com")),
        body(2000, json!({"orderId": 4711}), Some("Maria@Example.com")),
        body(1000, json!({"pedido": "4712"}), Some("ana@example.com")),
        body(1000, json!({"order": "4713"}), None),
    ] {
        charges.push(service.new_charge(&body).await);
        service.stack.clock.advance(10);
    }
    service.sandbox(&charges[0], "pay", &json!({"end_to_end_id": "E00000000202611211000abcdefghijk"})).await;
    // Not the charge's amount, so the payment goes back.
    let wrong = json!({"amount": 1, "end_to_end_id": "E00000000202611211000abcdefghijl"});
    service.sandbox(&charges[1], "pay", &wrong).await;
    let same = body(1000, json!({"order_id": "4711"}), Some("maria@example.com"));
    service.other_account().new_charge("order-of-other-account", &same).await;
    let other = &service.stack.seed.other.test_api_key;
    eventually("the lookup rows are written", async || {
        let others = service.get_as(other, "/v1/charges?order_id=4711").await.expect(200);
        let mut is_complete = ids(&others).len() == 1;
        for (query, count) in [
            ("order_id=4711", 2),
            ("order_id=4712", 1),
            ("order_id=4713", 1),
            ("customer_email=maria%40example.com", 2),
            ("customer_email=ana%40example.com", 1),
        ] {
            let found = service.get(&format!("/v1/charges?{query}")).await.expect(200);
            is_complete &= ids(&found).len() == count;
        }
        is_complete.then_some(())
    })
    .await;
    let nth = |numbers: &[usize]| -> Vec<String> {
        numbers.iter().map(|number| id(&charges[*number]).to_owned()).collect()
    };
    let txid = |number: usize| charges[number]["pix"]["txid"].as_str().unwrap().to_owned();
    let at = |number: usize| charges[number]["created_at"].as_str().unwrap();
    for (query, expected) in [
        ("order_id=4711".to_owned(), nth(&[1, 0])),
        ("order_id=%204711%20".to_owned(), nth(&[1, 0])),
        ("order_id=4713".to_owned(), nth(&[3])),
        ("order_id=471".to_owned(), nth(&[])),
        ("customer_email=MARIA%40example.com".to_owned(), nth(&[1, 0])),
        ("customer_email=ana%40example.com".to_owned(), nth(&[2])),
        ("order_id=4711&customer_email=ana%40example.com".to_owned(), nth(&[])),
        ("order_id=4711&customer_email=maria%40example.com".to_owned(), nth(&[1, 0])),
        ("order_id=4711&status=paid".to_owned(), nth(&[0])),
        ("order_id=4711&amount=2000".to_owned(), nth(&[1])),
        (format!("order_id=4711&created_after={}", at(1)), nth(&[1])),
        (format!("order_id=4711&created_before={}", at(0)), nth(&[0])),
        ("end_to_end_id=E00000000202611211000abcdefghijk".to_owned(), nth(&[0])),
        ("end_to_end_id=E00000000202611211000abcdefghijl".to_owned(), nth(&[1])),
        ("end_to_end_id=E00000000202611211000abcdefghijm".to_owned(), nth(&[])),
        ("end_to_end_id=E00000000202611211000abcdefghijk&status=pending".to_owned(), nth(&[])),
        (format!("txid={}", txid(2)), nth(&[2])),
        (format!("txid={}", txid(2).to_uppercase()), nth(&[2])),
        (format!("txid={}&order_id=4712", txid(2)), nth(&[2])),
        (format!("txid={}&order_id=4711", txid(2)), nth(&[])),
        (format!("txid={}&created_after={}", txid(2), at(3)), nth(&[])),
        ("amount=1000".to_owned(), nth(&[3, 2, 0])),
        ("amount=1000&status=pending".to_owned(), nth(&[3, 2])),
        ("amount=3000".to_owned(), nth(&[])),
    ] {
        assert_eq!(all_pages(&service, &format!("limit=1&{query}")).await, expected, "{query}");
        assert_eq!(ids(&service.get(&format!("/v1/charges?{query}")).await.expect(200)), expected, "{query}");
        let after = format!("/v1/charges?{query}&starting_after={}", id(&charges[0]));
        assert_eq!(ids(&service.get(&after).await.expect(200)), nth(&[]), "{query}");
    }
    // Neither another account nor the other mode finds a charge.
    let live = &service.stack.seed.first.live_api_key;
    for query in [
        "order_id=4712".to_owned(),
        "customer_email=ana%40example.com".to_owned(),
        "end_to_end_id=E00000000202611211000abcdefghijk".to_owned(),
        format!("txid={}", txid(2)),
    ] {
        for key in [other, live] {
            let page = service.get_as(key, &format!("/v1/charges?{query}")).await.expect(200);
            assert_eq!(page["data"], json!([]), "{query}");
        }
    }
}

/// Without its inline QR code, a listed charge equals the charge. Past its expiry, neither list has it as pending.
#[tokio::test]
async fn a_listed_charge_equals_the_charge_and_is_not_pending_past_its_expiry() {
    let service = Service::start().await;
    let mut charge = service.new_charge(&json!({"amount": 1000, "expires_in": 60})).await;
    let page = service.get("/v1/charges").await.expect(200);
    charge["pix"].as_object_mut().unwrap().remove("qr_code_base64");
    assert_eq!(page["data"], json!([charge]));
    service.stack.clock.advance(60_001);
    assert_eq!(service.get_charge(&charge).await["status"], "expired");
    for waiting in [
        "/v1/charges?status=pending",
        "/v1/payments?status=WAITING_PAYMENT",
        "/v1/payments?status=WAITING_PAYMENT&sortBy=amount",
    ] {
        assert_eq!(service.get(waiting).await.expect(200)["data"], json!([]), "{waiting}");
    }
    assert_eq!(service.get("/v1/charges").await.expect(200)["data"][0]["status"], "expired");
    assert_eq!(service.get("/v1/payments").await.expect(200)["data"][0]["status"], "EXPIRED");
    eventually("the scheduler persists the expiry", async || {
        let page = service.get("/v1/charges?status=expired").await.expect(200);
        let payments = service.get("/v1/payments?status=EXPIRED").await.expect(200);
        (ids(&page) == [id(&charge)] && payments["total"] == 1).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_page_of_held_charges_has_a_cursor_only_if_more_follow() {
    let service = Service::without_event_sources().await;
    let held = service.charge_locked_to_payer().await;
    service.sandbox(&held, "pay", &json!({"payer_tax_id": null})).await;
    let charges = Charges::new(service.store());
    let held = charges.find(id(&held).parse().ok()).await.unwrap().unwrap();
    let (held, scope) = (held.as_stored(), service.sharded(&service.scope()).await);
    let copy = |number: usize| Charge {
        id: ChargeId::derive(b"held", Mode::Test, "held", &number.to_string()),
        ..held.clone()
    };
    let client = service.dynamodb();
    let rows: Vec<Item> = (1..100).map(|number| to_item(&copy(number)).unwrap()).collect();
    write(&client, &rows).await;
    let page = async |cursor: Option<&StoredCharge>| {
        charges.held_for_review(&scope, cursor, service.stack.clock.now()).await.unwrap()
    };
    let all = page(None).await;
    assert_eq!((all.items.len(), all.next_cursor), (100, None));
    write(&client, &[to_item(&copy(100)).unwrap()]).await;
    let first = page(None).await;
    let last = first.items.last().unwrap().id;
    assert_eq!((first.items.len(), first.next_cursor), (100, Some(last)));
    let cursor = charges.find(Some(last)).await.unwrap().unwrap();
    let second = page(Some(&cursor)).await;
    assert_eq!((second.items.len(), second.next_cursor), (1, None));
    // The list has all of them, although they were created in the same millisecond.
    assert_eq!(all_pages(&service, "limit=30").await.len(), 101);
}
