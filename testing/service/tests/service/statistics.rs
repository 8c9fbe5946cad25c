//! Tests of `GET /v1/payments/stats` and `GET /v1/payments/metrics`.

use serde_json::{Value, json};

use crate::support::{Service, eventually, id};

async fn payment(service: &Service, key: &str, amount: i64, currency: &str, method: &str) -> Value {
    let body =
        json!({"amount": amount, "currency": currency, "paymentMethods": [method], "idempotencyKey": key});
    service.post("/v1/payments", &body).await.expect(201)
}

#[tokio::test]
async fn stats_of_an_account_without_payments_are_zeros() {
    let service = Service::start().await;
    let stats = service.get("/v1/payments/stats").await.expect(200);
    let points = stats["dailyVolume"].as_array().unwrap();
    // Seven business days and at least one weekend.
    assert!((9..=20).contains(&points.len()), "{stats}");
    assert!(points.iter().all(|point| point["currencies"] == json!({})));
    let mut rest = stats.clone();
    rest.as_object_mut().unwrap().remove("dailyVolume");
    assert_eq!(
        rest,
        json!({
            "totalTransactions": 0, "paidTransactions": 0, "todayTransactions": 0, "successRate": 0,
            "volumeByCurrency": [], "todayVolumeByCurrency": {}, "methodBreakdown": [],
        })
    );
    let metrics = service.get("/v1/payments/metrics?days=366&currency=BRL").await.expect(200);
    assert_eq!((&metrics["days"], &metrics["currency"]), (&json!(366), &json!("BRL")));
    assert_eq!(metrics["hourly"].as_array().unwrap().len(), 24);
    let longest = service.get("/v1/payments/stats?days=36500").await.expect(200);
    assert_eq!(longest["dailyVolume"].as_array().unwrap().len(), 366);
    assert_eq!((&metrics["averageTicket"], &metrics["conversionRate"]), (&Value::Null, &json!(0.0)));
}

#[tokio::test]
async fn payments_count_on_the_day_of_their_creation_in_sao_paulo() {
    let service = Service::start().await;
    // A Thursday, one minute before midnight in São Paulo. The next day is a business day.
    let at: domain::time::Timestamp = "2099-03-06T02:59:00Z".parse().unwrap();
    service.stack.clock.advance(at.millis_since(service.stack.clock.now()));
    let late = payment(&service, "key-1", 1000, "BRL", "PIX").await;
    payment(&service, "key-2", 5000, "BRL", "PIX").await;
    service.stack.clock.advance(120_000);
    let early = payment(&service, "key-3", 250, "EUR", "CREDIT_CARD").await;
    service.sandbox(&late, "pay", &json!({})).await;
    service.sandbox(&early, "pay", &json!({})).await;
    let stats = eventually("the three payments are counted", async || {
        let stats = service.get("/v1/payments/stats?days=2").await.expect(200);
        let is_counted = stats["totalTransactions"] == 3 && stats["paidTransactions"] == 2;
        is_counted.then_some(stats)
    })
    .await;
    assert_eq!(
        stats,
        json!({
            "totalTransactions": 3, "paidTransactions": 2, "todayTransactions": 1, "successRate": 67,
            "volumeByCurrency": [{"currency": "BRL", "volume": 1000, "count": 1}, {"currency": "EUR", "volume": 250, "count": 1}],
            "todayVolumeByCurrency": {"EUR": 250},
            "dailyVolume": [
                {"date": "2099-03-05", "currencies": {"BRL": 1000}},
                {"date": "2099-03-06", "currencies": {"EUR": 250}},
            ],
            "methodBreakdown": [{"method": "PIX", "volume": 1000, "count": 1}, {"method": "CREDIT_CARD", "volume": 250, "count": 1}],
        })
    );
    let today = service.get("/v1/payments/stats?days=1").await.expect(200);
    assert_eq!((&today["totalTransactions"], &today["todayTransactions"]), (&json!(1), &json!(1)));

    let metrics = service.get("/v1/payments/metrics?days=2&currency=BRL").await.expect(200);
    assert_eq!(
        metrics["funnel"],
        json!({"created": 2, "attempted": 1, "paid": 1, "failed": 0, "expired": 0, "cancelled": 0, "refunded": 0, "disputed": 0})
    );
    assert_eq!(metrics["conversionRate"], json!(0.5));
    assert_eq!(metrics["averageTicket"], 1000);
    let time_to_pay = metrics["averageTimeToPaySeconds"].as_i64().unwrap();
    assert!((120..130).contains(&time_to_pay), "{time_to_pay}");
    assert_eq!(metrics["hourly"][23], json!({"hour": 23, "created": 2, "paid": 0}));
    assert_eq!(metrics["hourly"][0], json!({"hour": 0, "created": 0, "paid": 1}));
    let all = service.get("/v1/payments/metrics?days=2").await.expect(200);
    assert_eq!((&all["currency"], &all["averageTicket"]), (&Value::Null, &Value::Null));
}

#[tokio::test]
async fn the_funnel_counts_the_outcomes_of_payments() {
    let service = Service::start().await;
    for what in ["fail", "expire", "pay"] {
        let charge = service.charge().await;
        service.sandbox(&charge, what, &json!({})).await;
    }
    let cancelled = service.charge().await;
    service.post(&format!("/v1/payments/{}/cancel", id(&cancelled)), &json!({})).await.expect(200);
    let locked = service.charge_locked_to_payer().await;
    service.sandbox(&locked, "pay", &json!({"payer_tax_id": "25524893033"})).await;
    let expected = json!({"created": 5, "attempted": 3, "paid": 1, "failed": 1, "expired": 1, "cancelled": 1, "refunded": 1, "disputed": 0});
    eventually("the funnel counts all five payments", async || {
        let metrics = service.get("/v1/payments/metrics").await.expect(200);
        (metrics["funnel"] == expected).then_some(())
    })
    .await;
}
