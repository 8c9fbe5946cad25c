//! Tests of `admin charges find` and `admin charges show`. Those of the dashboard and of the API check which objects a
//! search finds, and which entries a timeline has.

use serde_json::{Value, json};

use super::*;

const MARIA: &str = "29537995593";

#[tokio::test]
async fn a_charge_of_any_account_is_found_and_shown_with_what_only_operators_see() {
    let service = AdminFixture::start().await;
    let merchant = Merchant::of(&service);
    let customer = json!({"name": "Maria Souza", "document": MARIA, "email": "maria@example.com"});
    let body = json!({"amount": 1000, "customer": customer, "metadata": {"order_id": "4711"}});
    let charge = merchant.post("/v1/pix/charges", body).await;
    let paid = merchant.sandbox(&charge, "pay", json!({"payer_tax_id": MARIA, "payer_name": "Maria"})).await;
    merchant.sandbox(&charge, "pay", json!({"amount": 500})).await;
    let (account, other) = (service.account(), service.stack.seed.other.id.to_string());
    let (charge, payment) = (id(&charge), paid["settlement"]["end_to_end_id"].as_str().unwrap());
    eventually("the lookup of the order is written", async || {
        (service.objects("charges find 4711").await.len() == 1).then_some(())
    })
    .await;
    for by in [
        payment,
        charge,
        MARIA,
        &format!("295.379.955-93 --account {account} --mode test"),
        "4711",
        "MARIA@example.com --mode test",
        "'R$ 10,00'",
        "'maria souza'",
    ] {
        let found = service.objects(&format!("charges find {by}")).await;
        let [found] = found.as_slice() else { panic!("{by}: {found:?}") };
        assert_eq!(
            fields(found, &["charge", "status", "account", "mode", "customer_document"]),
            json!([charge, "PAID", account, "test", "***.379.955-**"]),
            "{by}"
        );
        assert!(!found.to_string().contains(MARIA) && !found.to_string().contains("Souza"), "{found}");
    }
    for by in [
        "E0000000020261121150000000000009",
        "25524893033",
        "4712",
        "'Maria Silva'",
        &format!("{charge} --mode live"),
        &format!("{charge} --account {other}"),
        &format!("4711 --account {other}"),
        &format!("{payment} --account {other}"),
    ] {
        let output = service.run(&format!("charges find {by}")).await;
        assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
        assert!(text(&output.stderr).contains("no charges found"), "{output:?}");
    }
    let endpoint = merchant.register_endpoint("http://127.0.0.1:9/hook", "charge.paid").await;
    let found = service.object(&format!("charges find {}", id(&endpoint))).await;
    assert_eq!(fields(&found, &["what", "id"]), json!(["endpoint", endpoint["id"]]));
    service.refuses("charges find", "<QUERY>").await;
    service.refuses("charges find ' '", "the query must be 1 to 254 characters").await;
    service.refuses("charges show ch_00000000-0000-8000-8000-000000000000", "there is no charge").await;

    let shown = eventually("the second payment is returned", async || {
        let shown = service.objects(&format!("charges show {charge}")).await;
        shown.iter().any(|entry| entry["state"] == "return returned").then_some(shown)
    })
    .await;
    let (head, entries) = shown.split_first().unwrap();
    assert_eq!(
        fields(head, &["charge", "status", "customer_document"]),
        json!([charge, "PAID", "***.379.955-**"])
    );
    let of = |what: &str| -> Vec<&Value> { entries.iter().filter(|entry| entry["what"] == what).collect() };
    assert!(of("payment")[0]["details"].as_str().unwrap().contains("***.379.955-**"), "{entries:?}");
    assert!(of("payment")[1]["details"].as_str().unwrap().contains("second_payment"), "{entries:?}");
    // The API does not show the movements of other ledger accounts than those of the merchant's wallet.
    let postings: Vec<&Value> = of("posting").iter().map(|posting| &posting["state"]).collect();
    assert_eq!(postings, ["settlement", "unapplied_receipt"]);
    assert!(!json!(shown).to_string().contains(MARIA), "{shown:?}");
}
