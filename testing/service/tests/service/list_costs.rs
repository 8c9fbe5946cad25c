//! Tests that the cost of lists and statistics does not grow with the account.

use std::time::Duration;

use domain::charge::{Charge, StoredCharge};
use domain::ids::ChargeId;
use faults::proxy::Report;
use serde_json::{Value, json};

use crate::seeding::seed;
use crate::support::{Service, id};

/// The latency of each DynamoDB request. It is long enough that concurrent requests overlap.
const LATENCY: Duration = Duration::from_millis(100);

/// Starts a service with `payments` payments over 40 days. Three are refused and none is past its expiry.
async fn service_with_payments(payments: usize) -> Service {
    let service = Service::without_event_sources().await;
    let first = service.new_charge(&json!({"amount": 1000, "expires_in": 86_400})).await;
    let key = Charge::key_of(ChargeId::parse_any(id(&first)).unwrap());
    let template: StoredCharge = service.store().get(&key).await.unwrap().unwrap();
    let client = service.dynamodb();
    service.delete_row(&key.pk, &key.sk).await;
    seed(&client, template.as_stored(), payments, 40, &[1, payments / 2, payments - 2]).await;
    service
}

async fn cost(service: &Service, path: &str) -> (Value, Report) {
    let (answer, report) = service.cost(service.get(path)).await;
    (answer.expect(200), report)
}

const LISTS: [&str; 5] = [
    "/v1/payments",
    "/v1/payments?limit=100&page=40",
    "/v1/payments?sortOrder=asc&limit=100",
    "/v1/payments?status=REFUSED",
    "/v1/payments?status=WAITING_PAYMENT&limit=100&page=40",
];

const STATISTICS: [&str; 3] =
    ["/v1/payments/stats?days=7", "/v1/payments/metrics?days=366", "/v1/payments/stats?days=366"];

#[tokio::test]
async fn pages_and_statistics_cost_the_same_for_100_and_5000_payments() {
    let (few, many) = (service_with_payments(100).await, service_with_payments(5_000).await);
    for service in [&few, &many] {
        service.proxy().set_min_latency(LATENCY);
    }
    for path in LISTS.into_iter().chain(STATISTICS) {
        let ((_, few), (_, many)) = tokio::join!(cost(&few, path), cost(&many, path));
        let is_list = LISTS.contains(&path);
        for report in [&few, &many] {
            let (requests, sequential) = if is_list { (5, 3) } else { (3, 3) };
            assert!(
                report.requests() <= requests && report.sequential_requests <= sequential,
                "{path}: {report:?}"
            );
        }
        // A page beyond the end reads no rows, which saves one request. The total of a long list takes one more:
        // the changes after the checkpoint of the statistics.
        let is_beyond = path.contains("page=40");
        let is_long = is_list && path != "/v1/payments?status=REFUSED";
        let more = usize::from(is_beyond) + usize::from(is_long);
        assert_eq!(few.requests() + more, many.requests(), "{path}: {few:?} {many:?}");
    }
    // A page after a cursor costs the same at both ends of the list.
    let newest = many.get("/v1/payments?limit=100").await.expect(200);
    let oldest = many.get("/v1/payments?limit=100&sortOrder=asc").await.expect(200);
    for page in [&newest, &oldest] {
        let cursor = page["data"][99]["id"].as_str().unwrap();
        let (page, report) = cost(&many, &format!("/v1/payments?starting_after={cursor}&limit=50")).await;
        assert_eq!((page["data"].as_array().unwrap().len(), &page["total"]), (50, &json!(5_000)));
        assert!(report.requests() <= 6 && report.sequential_requests <= 3, "{report:?}");
    }
}

#[tokio::test]
async fn a_list_of_more_than_1000_payments_has_an_exact_total_and_is_not_sorted() {
    let service = service_with_payments(1_003).await;
    let total = async |query: &str| {
        let page = service.get(&format!("/v1/payments?{query}")).await.expect(200);
        (page["total"].as_u64().unwrap(), page["data"].as_array().unwrap().len())
    };
    assert_eq!(total("").await, (1_003, 20));
    assert_eq!(total("status=WAITING_PAYMENT&limit=100").await, (1_000, 100));
    assert_eq!(total("status=REFUSED").await, (3, 3));
    assert_eq!(total("limit=100&page=11").await, (1_003, 3));
    assert_eq!(total("limit=100&page=12").await, (1_003, 0));

    // The range covers whole days and a part of a day at each end.
    let all = service.get("/v1/payments?limit=100&page=1").await.expect(200);
    let newest = all["data"][10]["createdAt"].as_str().unwrap();
    let oldest = service.get("/v1/payments?limit=100&sortOrder=asc").await.expect(200);
    let oldest = oldest["data"][10]["createdAt"].as_str().unwrap();
    assert_eq!(total(&format!("startDate={oldest}")).await, (993, 20));
    assert_eq!(total(&format!("endDate={newest}")).await, (993, 20));
    assert_eq!(total(&format!("startDate={oldest}&endDate={newest}")).await, (983, 20));
    assert_eq!(
        total(&format!("startDate={oldest}&endDate={newest}&status=WAITING_PAYMENT")).await,
        (982, 20)
    );
    let path = format!("/v1/payments?startDate={oldest}&endDate={newest}");
    let (_, report) = cost(&service, &path).await;
    assert!(report.requests() <= 7 && report.sequential_requests <= 3, "{report:?}");

    let refused = service.get("/v1/payments?sortBy=amount").await;
    assert_eq!(
        (refused.problem(), refused.params()),
        ((400, "invalid_request_error", "invalid_request"), vec!["sortBy"])
    );
    let message = refused.body["error"]["message"].as_str().unwrap();
    assert!(message.contains("1000") && message.contains("startDate"), "{message}");
    let sorted = service.get("/v1/payments?sortBy=amount&status=WAITING_PAYMENT&limit=100").await.expect(200);
    assert_eq!((&sorted["total"], sorted["data"].as_array().unwrap().len()), (&json!(1_000), 100));
}
