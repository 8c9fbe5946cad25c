//! Lists: tables for people, JSON lines for programs.

#[path = "../../src/table.rs"]
mod table;

use table::table;

use super::*;

#[test]
fn a_table_has_the_fields_with_a_single_value_in_their_order_and_no_empty_column() {
    let rows = [
        r#"{"id":"ch_1","amount":1000,"status":"PAID","reason":null,"terms":[1],"held":false}"#,
        r#"{"id":"ch_20","amount":5,"status":"EXPIRED\u001b[2J","reason":null,"note":"ç"}"#,
    ];
    let at = r#"{"created_at":"2026-11-21T02:00:00.123Z","note":"Z"}"#.to_owned();
    assert_eq!(table(&[at], 80).unwrap()[1], "2026-11-20T23:00:00-03:00  Z");
    let rows = rows.map(str::to_owned);
    let lines = table(&rows, 39).unwrap();
    assert_eq!(
        lines,
        [
            "ID     AMOUNT  STATUS       HELD   NOTE",
            "ch_1   1000    PAID         false",
            "ch_20  5       EXPIRED\u{fffd}[2J         ç",
        ]
    );
    assert!(table(&[], 80).unwrap().is_empty());
    let block = ["ID      ch_1", "AMOUNT  1000", "STATUS  PAID", "HELD    false", ""];
    assert_eq!(table(&rows, 38).unwrap()[..5], block, "the table is too wide");
}

#[test]
fn without_the_variable_user_the_error_says_how_to_name_the_operator() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_admin"));
    let output = command.args(words("live-charges stop --reason x")).env_remove("USER").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let message = text(&output.stderr);
    assert!(message.contains("--actor ana") && message.contains("export USER=ana"), "{message}");
}

#[tokio::test]
async fn a_list_names_its_stack_and_says_if_nothing_was_found() {
    let service = AdminFixture::start().await;
    let (account, other) = (service.account(), service.stack.seed.other.id);
    for (list, nothing) in [
        (format!("users list {other}"), ""),
        (format!("keys list {account}"), ""),
        ("accounts list".to_owned(), ""),
        (format!("med list --account {account} --mode live"), "no cases found"),
        (format!("med list --account {account} --mode test --deadline-within 24h"), "no cases found"),
        (format!("payouts list --account {account} --mode live"), "no payouts found"),
        ("payouts list --all --status pending".to_owned(), "no payouts found"),
        ("payouts keys".to_owned(), "no payout keys found"),
        (format!("review list --account {account} --mode live"), "no charges found"),
        (format!("charges list --account {account} --mode live"), "no charges found"),
        (format!("refunds list --account {account} --mode live"), "no refunds found"),
        (format!("deliveries list --account {account} --mode live"), "no deliveries found"),
        (format!("endpoints list --account {account} --mode live"), "no endpoints found"),
        ("accounts find nobody".to_owned(), "no accounts found"),
        (format!("receipts list --account {account}"), "no payments found"),
        ("med notices list".to_owned(), "no notices found"),
        ("notifications list".to_owned(), "no items found"),
    ] {
        let output = service.run(&list).await;
        let messages = text(&output.stderr);
        assert!(output.status.success() && messages.contains(&service.stack.base_url), "{output:?}");
        assert_eq!(messages.lines().skip(1).collect::<Vec<_>>().join(" "), nothing, "{list}");
        assert_eq!(output.stdout.is_empty(), !nothing.is_empty(), "{list}");
        let json = service.run(&format!("{list} --json")).await;
        assert_eq!(json.stdout, output.stdout, "a pipe gets JSON lines: {list}");
    }
}

#[tokio::test]
async fn support_lists_what_a_merchant_has_by_time_and_status() {
    let service = AdminFixture::start().await;
    let merchant = Merchant::of(&service);
    let account = service.account();
    let endpoint = merchant.register_endpoint("http://127.0.0.1:9/hook", "charge.created").await;
    let before = service.stack.clock.now().to_iso();
    let charge = merchant.charge().await;
    merchant.advance(60).await;
    let after = service.stack.clock.now().to_iso();
    let later = merchant.charge().await;
    let list = async |what: &str, more: &str| {
        service.objects(&format!("{what} list --account {account} --mode test {more}")).await
    };
    let ids = |rows: &[Value]| rows.iter().map(|row| row["charge"].clone()).collect::<Vec<_>>();
    assert_eq!(ids(&list("charges", "").await), [later["id"].clone(), charge["id"].clone()]);
    let first = format!("--since {before} --until {after}");
    assert_eq!(ids(&list("charges", &first).await), [charge["id"].clone()]);
    let rest = format!("--status pending --starting-after {}", id(&later));
    assert_eq!(ids(&list("charges", &rest).await), [charge["id"].clone()]);
    assert!(list("charges", "--status paid").await.is_empty());

    assert_eq!(id(&list("endpoints", "").await[0]), id(&endpoint));
    eventually("both deliveries are listed", async || {
        (list("deliveries", "").await.len() == 2).then_some(())
    })
    .await;
    let to_it = format!("{first} --endpoint {}", id(&endpoint));
    let deliveries = list("deliveries", &to_it).await;
    assert_eq!(deliveries.len(), 1, "{deliveries:?}");
    assert_eq!(deliveries[0]["eventType"], "charge.created");
    assert_eq!(deliveries[0]["charge"], charge["id"], "{deliveries:?}");
    assert!(list("deliveries", "--status delivered").await.is_empty());
    let deliveries = format!("deliveries list --account {account} --mode test");
    let unknown = format!("{deliveries} --endpoint wh_00000000000000000000000000");
    service.refuses(&unknown, "has no endpoint wh_").await;
    service.refuses(&format!("{deliveries} --since 2100-01-01"), "in the future").await;

    merchant.sandbox(&charge, "pay", json!({})).await;
    let path = format!("/v1/payments/{}/refund", raw_id(&charge));
    let refund = merchant.post(&path, json!({"amount": 400, "idempotencyKey": "refund-0001"})).await;
    assert_eq!(id(&list("refunds", "").await[0]), id(&refund));
    let shown = service.object(&format!("accounts show {account}")).await;
    let name = shown["merchant_name"].as_str().unwrap();
    let part = name.chars().skip(1).take(5).collect::<String>().to_uppercase();
    let found = service.objects(&format!("accounts find '{part}'")).await;
    assert!(found.iter().any(|found| found["id"] == *account), "{found:?}");
}
