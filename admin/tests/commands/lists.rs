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
        (format!("review list --account {account} --mode live"), "no charges found"),
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
