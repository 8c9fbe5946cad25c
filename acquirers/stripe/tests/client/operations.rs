//! The requests of the operations, and what is read from their answers.

use std::collections::BTreeMap;

use domain::money::{Amount, Currency};
use serde_json::{Value, json};
use stripe_client::{
    API_VERSION, ApiError, CheckoutSession, Hidden, ListQuery, Metadata, NewIntent, NewSession, Refund,
    has_same_unit,
};

use crate::document::object;
use crate::server::{KEY, Recorded, Reply, World};

pub(crate) fn new_session() -> NewSession {
    NewSession {
        amount: Amount::parse(1_050).unwrap(),
        currency: Currency::BRL,
        product_name: Hidden("Pedido 1 & mais".to_owned()),
        success_url: Hidden("https://pay.example.com/checkout/1?from=card".to_owned()),
        cancel_url: Hidden("https://pay.example.com/checkout/1".to_owned()),
        expires_at: 1_795_435_200,
        client_reference_id: "1".to_owned(),
        metadata: metadata(),
    }
}

pub(crate) fn new_intent() -> NewIntent {
    NewIntent {
        amount: Amount::parse(1_050).unwrap(),
        currency: Currency::BRL,
        method_type: "boleto",
        payer: Hidden(vec![
            ("[boleto][tax_id]", "29537995593".to_owned()),
            ("[billing_details][email]", "maria@example.com".to_owned()),
        ]),
        expires_after_days: Some(3),
        metadata: metadata(),
    }
}

pub(crate) fn metadata() -> Metadata {
    BTreeMap::from([("charge".to_owned(), "ch_42".to_owned()), ("try".to_owned(), "1".to_owned())])
}

fn full(name: &str) -> Value {
    object(name, "full")
}

fn parameters(request: &Recorded) -> Vec<String> {
    request.parameters().into_iter().map(|(name, value)| format!("{name}={value}")).collect()
}

#[tokio::test]
async fn a_session_is_created_for_one_payment_by_card_in_the_currency_of_the_charge() {
    let world = World::start().await;
    world.reply(Reply::json(200, &full("checkout.session")));
    let session = world.client.create_session(&new_session(), "charge-42-1").await.unwrap();
    assert_eq!(session.id, "cs_live_a1");
    assert_eq!(session.url, Some(Hidden("https://example.com/x".to_owned())));
    let request = world.last_request();
    assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/v1/checkout/sessions"));
    for (header, value) in [
        ("authorization", format!("Bearer {KEY}").as_str()),
        ("stripe-version", API_VERSION),
        ("idempotency-key", "charge-42-1"),
        ("content-type", "application/x-www-form-urlencoded"),
        ("accept", "application/json"),
    ] {
        assert_eq!(request.header(header), Some(value), "{header}");
    }
    assert_eq!(
        parameters(&request),
        [
            "mode=payment",
            "payment_method_types[0]=card",
            "line_items[0][price_data][currency]=brl",
            "line_items[0][price_data][unit_amount]=1050",
            "line_items[0][price_data][product_data][name]=Pedido 1 & mais",
            "line_items[0][quantity]=1",
            "payment_intent_data[capture_method]=automatic",
            "payment_intent_data[metadata][charge]=ch_42",
            "payment_intent_data[metadata][try]=1",
            "metadata[charge]=ch_42",
            "metadata[try]=1",
            "client_reference_id=1",
            "adaptive_pricing[enabled]=false",
            "allow_promotion_codes=false",
            "wallet_options[link][display]=never",
            "success_url=https://pay.example.com/checkout/1?from=card",
            "cancel_url=https://pay.example.com/checkout/1",
            "expires_at=1795435200",
        ]
    );
}

#[tokio::test]
async fn a_payment_is_confirmed_when_it_is_created_and_canceled_by_its_id() {
    let world = World::start().await;
    world.reply(Reply::json(200, &full("payment_intent")));
    let intent = world.client.create_intent(&new_intent(), "charge-42-boleto").await.unwrap();
    let action = intent.next_action.unwrap();
    let (boleto, voucher) =
        (action.boleto_display_details.unwrap(), action.multibanco_display_details.unwrap());
    assert_eq!((boleto.number.unwrap().len(), boleto.expires_at), (47, Some(1_795_348_800)));
    assert_eq!((voucher.entity.as_deref(), voucher.reference.as_deref()), (Some("12345"), Some("123456789")));
    let request = world.last_request();
    assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/v1/payment_intents"));
    assert_eq!(request.header("idempotency-key"), Some("charge-42-boleto"));
    assert_eq!(
        parameters(&request),
        [
            "amount=1050",
            "currency=brl",
            "confirm=true",
            "capture_method=automatic",
            "payment_method_types[0]=boleto",
            "payment_method_data[type]=boleto",
            "payment_method_data[boleto][tax_id]=29537995593",
            "payment_method_data[billing_details][email]=maria@example.com",
            "payment_method_options[boleto][expires_after_days]=3",
            "metadata[charge]=ch_42",
            "metadata[try]=1",
        ]
    );
    world.reply(Reply::json(200, &full("payment_intent")));
    world.client.cancel_intent(&intent.id, "close").await.unwrap();
    let request = world.last_request();
    assert_eq!(request.path, format!("/v1/payment_intents/{}/cancel", intent.id));
    assert_eq!(parameters(&request), ["expand[0]=latest_charge.balance_transaction"]);
    assert!(world.client.cancel_intent("pi/1", "close").await.is_err());
}

#[tokio::test]
async fn a_repeated_request_has_the_same_bytes() {
    let world = World::start().await;
    for _ in 0..2 {
        world.reply(Reply::json(200, &full("checkout.session")));
        world.client.create_session(&new_session(), "charge-42-1").await.unwrap();
        world.reply(Reply::json(200, &full("file")));
        world.client.upload_file("evidence.pdf", "application/pdf", b"%PDF-1.7", "file-1").await.unwrap();
        world.advance_s(3_600);
    }
    let requests = world.requests();
    assert_eq!(requests[0].body, requests[2].body);
    assert_eq!(requests[1].body, requests[3].body);
    assert_eq!(requests[1].header("content-type"), requests[3].header("content-type"));
}

#[tokio::test]
async fn an_amount_is_never_converted() {
    let world = World::start().await;
    let amount = |minor: i64| Amount::parse(minor).unwrap();
    let currency = |code: &str| Currency::parse(code).unwrap();
    for (code, minor, is_same) in [
        ("JPY", 500, true),
        ("KRW", 1, true),
        ("USD", 999_999_999_999, true),
        ("HUF", 101, true),
        ("TWD", 101, true),
        ("KWD", 1_230, true),
        ("KWD", 1_234, false),
        ("LYD", 1_230, false),
        ("IQD", 1_230, false),
        ("ISK", 500, false),
        ("UGX", 500, false),
        ("MGA", 500, false),
    ] {
        let (amount, currency) = (amount(minor), currency(code));
        assert_eq!(has_same_unit(amount, currency), is_same, "{code}");
        let sent = world.requests().len();
        let new = NewSession { amount, currency, ..new_session() };
        if is_same {
            world.reply(Reply::json(200, &full("checkout.session")));
            world.client.create_session(&new, "key").await.unwrap();
            let parameter = format!("line_items[0][price_data][unit_amount]={minor}");
            assert!(parameters(&world.last_request()).contains(&parameter), "{code}");
        } else {
            let outcome = world.client.create_session(&new, "key").await;
            assert_eq!(outcome, Err(ApiError::InvalidRequest("the amount is another number at Stripe")));
            assert_eq!(world.requests().len(), sent);
        }
    }
}

#[tokio::test]
async fn a_session_is_read_with_its_payment_and_the_fee_by_one_request() {
    let world = World::start().await;
    let mut charge = full("charge");
    charge["balance_transaction"] = full("balance_transaction");
    let mut payment = full("payment_intent");
    payment["latest_charge"] = charge;
    payment["status"] = "succeeded".into();
    let mut session = full("checkout.session");
    session["payment_intent"] = payment;
    session["payment_status"] = "paid".into();
    for path in ["/v1/checkout/sessions/cs_live_a1", "/v1/checkout/sessions/cs_live_a1/expire"] {
        world.reply(Reply::json(200, &session));
        let read = if path.ends_with("expire") {
            world.client.expire_session("cs_live_a1", "close-1").await.unwrap()
        } else {
            world.client.retrieve::<CheckoutSession>("cs_live_a1").await.unwrap()
        };
        let payment = read.payment_intent.as_ref().unwrap();
        assert_eq!(payment.id(), "pi_1");
        let charge = payment.object().unwrap().latest_charge.as_ref().unwrap();
        assert_eq!(charge.id(), "ch_1");
        let fee = charge.object().unwrap().balance_transaction.as_ref().unwrap().object().unwrap().fee;
        assert_eq!(fee, 1_000);
        let request = world.last_request();
        assert_eq!(request.path.split('?').next(), Some(path));
        let expanded = "expand[0]=payment_intent.latest_charge.balance_transaction";
        assert_eq!(parameters(&request), [expanded]);
    }
}

#[tokio::test]
async fn an_empty_page_that_others_follow_is_malformed() {
    let world = World::start().await;
    world.reply(Reply::json(200, &json!({"object": "list", "url": "/v1/x", "has_more": true, "data": []})));
    // A loop over pages would not end.
    let outcome = world.client.list::<Refund>(ListQuery::default()).await;
    assert!(matches!(outcome, Err(ApiError::Malformed(_))), "{outcome:?}");
}

#[tokio::test]
async fn evidence_is_uploaded_and_submitted() {
    let world = World::start().await;
    let content = [0, 1, 13, 10, 45, 45, 255];
    world.reply(Reply::json(200, &full("file")));
    let file = world.client.upload_file("recibo.png", "image/png", &content, "file-1").await.unwrap();
    let request = world.last_request();
    assert_eq!(request.path, "/v1/files");
    let boundary = request.header("content-type").unwrap().split_once("boundary=").unwrap().1;
    let head = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\ndispute_evidence\r\n\
         --{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"recibo.png\"\r\n\
         Content-Type: image/png\r\n\r\n"
    );
    let end = format!("\r\n--{boundary}--\r\n");
    assert_eq!(request.body, [head.as_bytes(), &content, end.as_bytes()].concat());

    world.reply(Reply::json(200, &full("dispute")));
    let evidence = [("uncategorized_file", file.id.as_str()), ("uncategorized_text", "Entregue em 3/11")];
    world.client.update_dispute("du_1", &evidence, true, "evidence-1").await.unwrap();
    let request = world.last_request();
    assert_eq!(request.path, "/v1/disputes/du_1");
    let expected = [
        "evidence[uncategorized_file]=file_1",
        "evidence[uncategorized_text]=Entregue em 3/11",
        "submit=true",
    ];
    assert_eq!(parameters(&request), expected);
    for name in ["a\".png", "a\r\nb.png", "recibo é.png"] {
        let outcome = world.client.upload_file(name, "image/png", &content, "file-2").await;
        assert!(matches!(outcome, Err(ApiError::InvalidRequest(_))), "{name}: {outcome:?}");
    }
}

#[tokio::test]
async fn a_webhook_endpoint_is_pinned_to_the_version_and_its_removal_can_be_repeated() {
    let world = World::start().await;
    let mut endpoint = full("webhook_endpoint");
    endpoint["secret"] = "whsec_1".into();
    world.reply(Reply::json(200, &endpoint));
    let url = Hidden("https://api.example.com/v1/acquirer-events/acc/token/stripe".to_owned());
    let events = ["charge.refunded", "checkout.session.expired"];
    let created = world.client.create_webhook_endpoint(&url, &events, "endpoint-1").await.unwrap();
    assert_eq!(created.secret, Some(Hidden("whsec_1".to_owned())));
    let expected = [
        "url=https://api.example.com/v1/acquirer-events/acc/token/stripe",
        &format!("api_version={API_VERSION}"),
        "enabled_events[0]=charge.refunded",
        "enabled_events[1]=checkout.session.expired",
    ];
    assert_eq!(parameters(&world.last_request()), expected);
    world.reply(Reply::json(200, &json!({"id": "we_1", "object": "webhook_endpoint", "deleted": true})));
    world.client.delete_webhook_endpoint("we_1").await.unwrap();
    let request = world.last_request();
    assert_eq!((request.method.as_str(), request.path.as_str()), ("DELETE", "/v1/webhook_endpoints/we_1?"));
    world.reply(Reply::error(404, "invalid_request_error", "resource_missing"));
    world.client.delete_webhook_endpoint("we_1").await.unwrap();
}

#[tokio::test]
async fn an_answer_of_another_object_is_malformed() {
    let world = World::start().await;
    world.reply(Reply::json(200, &full("refund")));
    let outcome = world.client.retrieve::<Refund>("re_2").await;
    assert_eq!(outcome, Err(ApiError::Malformed("`id` must be that of the request".to_owned())));
}

#[tokio::test]
async fn an_id_or_key_that_would_change_the_request_is_not_sent() {
    let world = World::start().await;
    for id in ["", "re_1/x", "re_1?x", "..", "é", &"a".repeat(256)] {
        let outcome = world.client.retrieve::<Refund>(id).await;
        assert!(matches!(outcome, Err(ApiError::InvalidRequest(_))), "{id}: {outcome:?}");
        let outcome = world.client.expire_session(id, "key").await;
        assert!(matches!(outcome, Err(ApiError::InvalidRequest(_))), "{id}: {outcome:?}");
    }
    for key in ["", "a b", "a\r\nb", "é", &"a".repeat(256)] {
        let outcome = world.client.create_session(&new_session(), key).await;
        assert!(matches!(outcome, Err(ApiError::InvalidRequest(_))), "{key}: {outcome:?}");
    }
    assert_eq!(world.requests().len(), 0);
}
