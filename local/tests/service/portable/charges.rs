//! The routes of the function `charges`.

use serde_json::{Value, json};

use super::{Portable, Routes, unique};
use crate::support::{Answer, id};

pub(super) const ROUTES: &Routes = &[
    ("POST /v1/charges", &[201, 400, 401, 403, 409, 422]),
    ("POST /v1/pix/charges", &[201, 400, 401, 403, 409, 422]),
    ("GET /v1/charges", &[200, 400, 401]),
    ("GET /v1/charges/{id}", &[200, 400, 401, 404]),
];

/// The most live charges of one customer in ten minutes.
const MOST_FOR_ONE_CUSTOMER: usize = 10;

#[tokio::test]
async fn charges_answer_with_every_status() {
    let service = Portable::start().await;
    let live_key = service.ready("/live_api_key");
    for route in ["POST /v1/charges", "POST /v1/pix/charges"] {
        let create = async |key: &str, idempotency_key: &str, more: Value| -> Answer {
            let mut body = json!({"amount": 1990, "payment_method": "pix"});
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let call = service.call(route).key(key).header("idempotency-key", idempotency_key);
            call.json(&body).send().await
        };
        let test_key = service.client.key();
        let order = unique();
        let charge = create(&test_key, &order, json!({})).await.expect(201);
        assert_eq!((&charge["status"], &charge["amount"]), (&json!("pending"), &json!(1990)));
        assert!(charge["pix"]["br_code"].as_str().unwrap().starts_with("000201"), "{charge}");
        let replayed = create(&test_key, &order, json!({})).await;
        assert_eq!(replayed.header("idempotent-replayed"), Some("true"));
        assert_eq!(id(&replayed.expect(201)), id(&charge));
        let conflict = create(&test_key, &order, json!({"amount": 1})).await;
        assert_eq!(conflict.problem(), (409, "conflict_error", "idempotency_key_reused"));
        let invalid = create(&test_key, &unique(), json!({"amount": 0})).await;
        assert_eq!(invalid.problem(), (400, "invalid_request_error", "invalid_amount"));

        let read = service.call("GET /v1/charges/{id}").id(id(&charge)).send().await.expect(200);
        assert_eq!(read, charge);
        let list = service.call("GET /v1/charges").query("limit=100").send().await.expect(200);
        let listed: Vec<&str> = list["data"].as_array().unwrap().iter().map(id).collect();
        assert!(listed.contains(&id(&charge)), "{listed:?}");

        // The other account has no bank.
        let other_key = service.ready("/other_account/live_api_key");
        let refused = create(&other_key, &unique(), json!({})).await;
        assert_eq!(refused.problem(), (422, "invalid_request_error", "unprocessable_entity"));
        let customer = json!({"customer": {"document": "29537995593", "name": "Maria"}});
        let mut answer = create(&live_key, &unique(), customer.clone()).await;
        for _ in 0..MOST_FOR_ONE_CUSTOMER {
            if answer.status == 403 {
                break;
            }
            answer.expect(201);
            answer = create(&live_key, &unique(), customer.clone()).await;
        }
        assert_eq!(answer.problem(), (403, "permission_error", "fraud.customer_velocity_exceeded"));
        // A charge of another customer is created at the bank.
        let customer = json!({"customer": {"document": "25524893033", "name": "Joao"}});
        let live = create(&live_key, &unique(), customer).await.expect(201);
        assert!(live["pix"]["br_code"].is_string(), "{live}");
    }
    let charge = service.charge().await;
    service.refuse(ROUTES, |_| id(&charge).to_owned()).await;
    service.check_statuses(ROUTES);
}
