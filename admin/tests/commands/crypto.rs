//! Tests of the commands about payments by crypto, at a stand-in of BTCPay Server.

use local::stack::Options;
use serde_json::{Value, json};

use crate::{AdminFixture, Merchant, eventually, fields, raw_id};

#[tokio::test]
async fn an_excess_by_crypto_stays_in_the_merchants_own_wallet() {
    let service = AdminFixture::start_with(Options { other_acquirers: true, ..Options::in_memory() }).await;
    let (merchant, account) = (Merchant::live(&service), service.account());
    // R$ 54.000,00 is 0.1 BTC at the stand-in's price.
    let body = json!({"amount": 5_400_000, "paymentMethods": ["CRYPTO"], "idempotencyKey": "crypto-0001"});
    let charge = merchant.post("/v1/payments", body).await;
    let until = async |status: &str| {
        let path = format!("/v1/payments/{}", raw_id(&charge));
        eventually(status, async || (merchant.get(&path).await["status"] == status).then_some(())).await;
    };
    until("WAITING_PAYMENT").await;
    let order = format!("ch_{}", raw_id(&charge));
    let payment = json!({"order_id": order, "amount": "0.15000000", "confirmed": true});
    let btcpay = &service.stack.others.as_ref().unwrap().btcpay;
    assert!(btcpay.control("POST", "/pay", &payment).0 < 300);
    until("PAID").await;

    let list = format!("receipts list --account {account}");
    let excess = eventually("the excess waits for an operator", async || {
        service.objects(&list).await.into_iter().next()
    })
    .await;
    let names = ["method", "amount", "state", "charge"];
    assert_eq!(fields(&excess, &names), json!(["crypto", 2_700_000, "unmatched", order]));
    let decide = |command: &str| {
        let payment = excess["end_to_end_id"].as_str().unwrap();
        format!("receipts {command} {payment} --account {account} --reason agreed")
    };
    service.refuses(&decide("return"), "is in the merchant's own wallet").await;
    service.object(&format!("{} --dry-run", decide("credit"))).await;
    assert_eq!(service.object(&list).await, excess, "a dry run changes nothing");
    let credited = service.object(&decide("credit")).await;
    assert_eq!(fields(&credited, &names), json!(["crypto", 2_700_000, "applied", order]));
    assert!(service.objects(&list).await.is_empty());
    service.refuses(&decide("credit"), "an operator has decided about it").await;
    let row = service.audit(&account).await.remove(0);
    assert_eq!(fields(&row, &["action", "subject"]), json!(["receipt.credit", excess["end_to_end_id"]]));
    let wallets = merchant.get("/v1/wallets").await;
    let is_own = |wallet: &&Value| wallet["walletType"] == "SELF_CUSTODY";
    assert_eq!(wallets.as_array().unwrap().iter().find(is_own).unwrap()["balance"], 8_100_000);
    service.verify_ledger("live").await;
}
