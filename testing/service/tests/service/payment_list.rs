//! Tests of `GET /v1/payments`.

use serde_json::{Value, json};

use crate::support::{Service, eventually, id, ids, raw_id};

async fn list(service: &Service, query: &str) -> Value {
    service.get(&format!("/v1/payments?{query}")).await.expect(200)
}

/// Creates payments and charges 10 ms apart. Returns their ids, oldest first.
async fn create_payments(service: &Service, count: usize) -> Vec<String> {
    let mut created = Vec::new();
    for number in 0..count {
        if number % 3 == 0 {
            created.push(raw_id(&service.charge().await).to_owned());
        } else {
            let body = json!({"amount": 1000 + number, "paymentMethods": ["PIX"], "idempotencyKey": format!("key-{number}")});
            created.push(id(&service.post("/v1/payments", &body).await.expect(201)).to_owned());
        }
        service.stack.clock.advance(10);
    }
    created
}

#[tokio::test]
async fn numbered_pages_and_cursors_list_all_payments_with_the_total() {
    let service = Service::start().await;
    let mut created = create_payments(&service, 25).await;
    let oldest_first = list(&service, "sortOrder=asc&limit=100").await;
    assert_eq!(ids(&oldest_first), created);
    created.reverse();
    let first = list(&service, "").await;
    assert_eq!(
        (ids(&first), &first["total"], &first["page"], &first["limit"]),
        (created[..20].to_vec(), &json!(25), &json!(1), &json!(20))
    );
    let second = list(&service, "page=2").await;
    assert_eq!(
        (ids(&second), &second["total"], &second["page"]),
        (created[20..].to_vec(), &json!(25), &json!(2))
    );
    let beyond = list(&service, "page=3").await;
    assert_eq!((&beyond["data"], &beyond["total"]), (&json!([]), &json!(25)));
    for (page, expected) in created.chunks(7).enumerate() {
        let query = format!("limit=7&page={}&sortBy=createdAt&sortOrder=desc", page + 1);
        assert_eq!(ids(&list(&service, &query).await), expected);
    }
    // Cursors page through all payments in both orders.
    created.reverse();
    for order in ["asc", "desc"] {
        let mut listed = Vec::new();
        let mut page = list(&service, &format!("limit=5&sortOrder={order}")).await;
        assert_eq!(page["page"], 1);
        loop {
            listed.extend(ids(&page));
            let Some(cursor) = page["next_cursor"].as_str() else { break };
            assert_eq!(page["has_more"], true);
            page = list(&service, &format!("limit=5&sortOrder={order}&starting_after={cursor}")).await;
            assert_eq!(page["page"], Value::Null);
        }
        assert_eq!(
            (&listed, &page["has_more"], &page["next_cursor"]),
            (&created, &json!(false), &Value::Null),
            "{order}"
        );
        created.reverse();
    }
    // A cursor is an id in any spelling. Its payment need not match the filters.
    let at = |number: usize| format!("starting_after=ch_{}", created[number]);
    assert_eq!(
        ids(&list(&service, &format!("{}&limit=2", at(3))).await),
        [created[2].as_str(), created[1].as_str()]
    );
    assert_eq!(ids(&list(&service, &format!("{}&status=PAID", at(3))).await), Vec::<String>::new());
    let last_page = list(&service, &at(0)).await;
    assert_eq!((&last_page["data"], &last_page["has_more"]), (&json!([]), &json!(false)));
    let before_all = list(&service, &format!("{}&endDate=2020-01-01", at(3))).await;
    assert_eq!((&before_all["data"], &before_all["total"]), (&json!([]), &json!(0)));
    eventually("the total counts all payments", async || {
        (list(&service, &at(3)).await["total"] == 25).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_list_item_equals_the_response_of_get_and_another_scopes_list_is_empty() {
    let service = Service::start().await;
    let charge = service.new_charge(&json!({"amount": 1000, "description": "Pedido 1"})).await;
    service.sandbox(&charge, "pay", &json!({})).await;
    let page = list(&service, "").await;
    let payment = service.get(&format!("/v1/payments/{}", id(&charge))).await.expect(200);
    assert!(payment["pixQrCode"].is_string());
    assert_eq!(page["data"], json!([payment]));
    let empty =
        json!({"data": [], "total": 0, "page": 1, "limit": 20, "has_more": false, "next_cursor": null});
    for query in [
        "",
        "status=PAID",
        "sortBy=amount",
        "startDate=2026-01-02&endDate=2026-01-01",
        "startDate=2026-01-01",
    ] {
        for client in [service.live_client(), service.other_account()] {
            let list = client.get(&format!("/v1/payments?{query}")).await.expect(200);
            assert_eq!(list, empty, "{query}");
        }
    }
}

#[tokio::test]
async fn filters_apply_to_the_list_and_its_total() {
    let service = Service::start().await;
    let mut charges = Vec::new();
    for what in ["pay", "fail", "pay", "expire", ""] {
        let charge = service.charge().await;
        if !what.is_empty() {
            service.sandbox(&charge, what, &json!({})).await;
        }
        charges.push(charge);
        service.stack.clock.advance(10);
    }
    let nth = |numbers: &[usize]| -> Vec<String> {
        numbers.iter().map(|number| raw_id(&charges[*number]).to_owned()).collect()
    };
    let at = |number: usize| charges[number]["created_at"].as_str().unwrap();
    let cases = [
        ("status=PAID".to_owned(), nth(&[2, 0])),
        ("status=PAID&sortOrder=asc".to_owned(), nth(&[0, 2])),
        ("status=REFUSED".to_owned(), nth(&[1])),
        ("status=EXPIRED".to_owned(), nth(&[3])),
        ("status=WAITING_PAYMENT".to_owned(), nth(&[4])),
        ("status=CHARGEBACK".to_owned(), nth(&[])),
        (format!("startDate={}", at(2)), nth(&[4, 3, 2])),
        (format!("endDate={}", at(2)), nth(&[2, 1, 0])),
        (format!("startDate={}&endDate={}", at(1), at(3)), nth(&[3, 2, 1])),
        (format!("startDate={}&status=PAID", at(1)), nth(&[2])),
        (format!("endDate={}&status=PAID&sortBy=id", at(1)), nth(&[0])),
        (format!("startDate={}&sortBy=amount&sortOrder=asc", at(3)), nth(&[3, 4])),
    ];
    for (query, expected) in cases {
        let page = list(&service, &query).await;
        assert_eq!((ids(&page), &page["total"]), (expected.clone(), &json!(expected.len())), "{query}");
    }
}

#[tokio::test]
async fn pages_after_5000_payments_and_cursors_with_page_or_sort_by_or_of_another_scope_are_refused() {
    let service = Service::start().await;
    for query in ["page=252", "limit=100&page=52"] {
        let far = service.get(&format!("/v1/payments?{query}")).await;
        assert_eq!((far.problem().0, far.params()), (400, vec!["page"]), "{query}");
        let message = far.body["error"]["details"][0]["message"].as_str().unwrap();
        assert!(message.contains("starting_after") && message.contains("startDate"), "{far:?}");
    }
    list(&service, "page=251").await;
    list(&service, "limit=1&page=5001").await;
    let payment = raw_id(&service.charge().await).to_owned();
    let cursor = format!("starting_after={payment}");
    for query in [
        format!("{cursor}&page=2"),
        format!("{cursor}&sortBy=amount"),
        format!("{cursor}&page=1&sortBy=status"),
        "starting_after=00000000-0000-8000-8000-000000000000".to_owned(),
    ] {
        let answer = service.get(&format!("/v1/payments?{query}")).await;
        assert_eq!((answer.problem().0, answer.params()), (400, vec!["starting_after"]), "{query}");
    }
    let offset = service.get(&format!("/v1/payments?{cursor}&offset=5")).await;
    assert_eq!(offset.params(), ["offset"]);
    list(&service, &format!("{cursor}&sortBy=createdAt")).await;
    let seed = &service.stack.seed;
    for key in [&seed.first.live_api_key, &seed.other.test_api_key] {
        let answer = service.get_as(key, &format!("/v1/payments?{cursor}")).await;
        assert_eq!((answer.problem().0, answer.params()), (400, vec!["starting_after"]));
    }
}
