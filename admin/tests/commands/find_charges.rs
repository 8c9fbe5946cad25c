//! Tests of `admin charges find` and `admin charges show`.

use serde_json::{Value, json};

use super::*;

const MARIA: &str = "29537995593";

/// A test charge that was paid, paid again, and partly refunded, with an endpoint that got its events.
struct History {
    service: AdminFixture,
    charge: String,
    end_to_end_id: String,
    txid: String,
    refund: String,
    delivery: String,
}

impl History {
    async fn start() -> Self {
        let (service, shop) = (AdminFixture::start().await, MerchantServer::start().await);
        shop.up.store(true, Ordering::SeqCst);
        let merchant = Merchant::of(&service);
        merchant.register_endpoint(&shop.url, "charge.paid").await;
        let customer = json!({"name": "Maria Souza", "document": MARIA, "email": "maria@example.com"});
        let body = json!({"amount": 1000, "customer": customer, "metadata": {"order_id": "4711"}});
        let charge = merchant.post("/v1/pix/charges", body).await;
        let pay = json!({"payer_tax_id": MARIA, "payer_name": "Maria Souza"});
        let paid = merchant.sandbox(&charge, "pay", pay).await;
        merchant.sandbox(&charge, "pay", json!({"amount": 500})).await;
        let refund = json!({"amount": 300, "idempotencyKey": "refund-0001"});
        let refund = merchant.post(&format!("/v1/payments/{}/refund", raw_id(&charge)), refund).await;
        let delivered = async |number: usize| {
            eventually("delivered", async || {
                let delivered = merchant.deliveries("&status=DELIVERED").await;
                (delivered.len() == number).then_some(delivered)
            })
            .await
        };
        let first = delivered(1).await.remove(0);
        merchant.post(&format!("/v1/webhooks/deliveries/{}/resend", id(&first)), json!(null)).await;
        delivered(2).await;
        let text_of = |value: &Value| value.as_str().unwrap().to_owned();
        Self {
            end_to_end_id: text_of(&paid["settlement"]["end_to_end_id"]),
            txid: text_of(&paid["pix"]["txid"]),
            refund: text_of(&refund["id"]),
            delivery: text_of(&first["id"]),
            charge: text_of(&charge["id"]),
            service,
        }
    }
}

#[tokio::test]
async fn a_charge_is_found_by_its_ids_and_by_the_customers_document() {
    let History { service, charge, end_to_end_id, txid, refund, delivery } = History::start().await;
    let found = service.object(&format!("charges find {delivery}")).await;
    assert_eq!(fields(&found, &["what", "id"]), json!(["delivery", delivery]));
    let raw = charge.strip_prefix("ch_").unwrap();
    let account = service.account();
    for by in [
        &[end_to_end_id.as_str()][..],
        &[&txid],
        &[&txid.to_uppercase()],
        &[&charge],
        &[raw],
        &[&refund],
        &[MARIA],
        &["295.379.955-93", "--account", &account, "--mode", "test"],
        &["4711"],
        &["MARIA@example.com", "--mode", "test"],
        &["R$ 10,00"],
    ] {
        let found = service.objects(&[&["charges", "find"], by].concat()).await;
        let [found] = found.as_slice() else { panic!("{by:?}: {found:?}") };
        assert_eq!(
            fields(found, &["charge", "status", "account", "mode", "customer_document"]),
            json!([charge, "PAID", account, "test", "***.379.955-**"]),
            "{by:?}"
        );
        assert!(!found.to_string().contains(MARIA) && !found.to_string().contains("Souza"), "{found}");
    }
    let other = service.stack.seed.other.id.to_string();
    for by in [
        &["E0000000020261121150000000000009"][..],
        &["25524893033"],
        &["4712"],
        &["Maria Souza"],
        &[&charge, "--mode", "live"],
        &[&charge, "--account", &other],
        &["4711", "--account", &other],
        &[&end_to_end_id, "--account", &other],
    ] {
        let output = service.run(&[&["charges", "find"], by].concat()).await;
        assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
        assert!(text(&output.stderr).contains("no charges found"), "{output:?}");
    }
    service.refuses("charges find", "<QUERY>").await;
    service.refuses(&["charges", "find", " "], "the query must be 1 to 254 characters").await;
    service.refuses("charges show ch_00000000-0000-8000-8000-000000000000", "there is no charge").await;
}

#[tokio::test]
async fn a_charges_timeline_has_states_payments_refunds_postings_events_and_each_delivery() {
    let History { service, charge, end_to_end_id, refund, .. } = History::start().await;
    let ended = eventually("the refund", async || {
        let shown = service.objects(&format!("charges show {charge}")).await;
        let is_end = |entry: &Value| entry["what"] == "refund" && entry["state"] == "REFUNDED";
        shown.iter().any(is_end).then_some(shown)
    });
    let shown = ended.await;
    let (head, entries) = shown.split_first().unwrap();
    assert_eq!(fields(head, &["charge", "status"]), json!([charge, "PAID"]));
    let of = |what: &str| -> Vec<&Value> { entries.iter().filter(|entry| entry["what"] == what).collect() };
    let states =
        |what: &str| -> Vec<&str> { of(what).iter().map(|entry| entry["state"].as_str().unwrap()).collect() };
    assert_eq!(states("status"), ["WAITING_PAYMENT", "PAID"]);
    assert!(of("status")[0]["request_id"].is_string());
    assert_eq!(states("payment"), ["accepted", "return returned"]);
    assert_eq!(of("payment")[0]["id"], end_to_end_id);
    assert!(of("payment")[1]["details"].as_str().unwrap().contains("second_payment"), "{entries:?}");
    assert_eq!(states("refund"), ["PENDING", "IN_PROGRESS", "REFUNDED"]);
    assert_eq!(fields(of("refund")[0], &["id", "amount"]), json!([refund, 300]));
    assert!(of("refund")[0]["by"].as_str().unwrap().starts_with("key_"), "{entries:?}");
    assert_eq!(states("posting"), ["settlement", "unapplied_receipt", "refund", "refund_completed"]);
    assert!(states("event").contains(&"charge.paid") && states("event").contains(&"payment.refunded"));
    assert_eq!(states("delivery"), ["DELIVERED"; 2], "a resend is a delivery of its own");
    let times: Vec<&str> = entries.iter().map(|entry| entry["at"].as_str().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
    let printed = json!(shown).to_string();
    assert!(!printed.contains(MARIA) && printed.contains("***.379.955-**"), "{printed}");
}
