//! Tests of `admin audit verify`.

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Value, json};

use crate::{AdminFixture, fields, lines, text};

impl AdminFixture {
    /// Verifies audit rows. Returns whether the command found no faults, its output and the lines' objects.
    async fn verify_audit(&self, arguments: &str) -> (bool, String, Vec<Value>) {
        let output = self.run(&format!("audit verify {arguments}")).await;
        assert!([Some(0), Some(1)].contains(&output.status.code()), "{output:?}");
        (output.status.success(), text(&output.stdout), lines(&output))
    }

    /// Removes the row of a chain with this sequence number, as no function of the service does.
    async fn remove_audit_row(&self, account: &str, sequence: u64) {
        let client = local::sdk::dynamodb(&self.stack.endpoints.dynamodb_url);
        let delete = client.delete_item().table_name("StateTable");
        let delete = delete.key("pk", AttributeValue::S(format!("audit#{account}")));
        delete.key("sk", AttributeValue::S(format!("seq_{sequence:020}"))).send().await.unwrap();
    }

    /// Appends an audit row.
    async fn set_rate_limit(&self, account: &str, limit: u16) {
        self.change(&format!("accounts set-rate-limit {account} --per-minute {limit}")).await;
    }
}

#[tokio::test]
async fn an_operator_verifies_the_audit_of_one_account_or_of_all() {
    let service = AdminFixture::start().await;
    let account = service.account();
    for limit in 500..504 {
        service.set_rate_limit(&account, limit).await;
    }
    let newest = &service.audit(&account).await[0];
    let (_, _, reports) = service.verify_audit(&account).await;
    let head = json!({"sequence": newest["sequence"], "hash": newest["hash"]});
    let rows = newest["sequence"].as_u64().unwrap();
    let expected = json!({"account": account, "rows": rows, "head": head, "faults": []});
    assert_eq!(reports, [expected]);

    let (is_unbroken, earlier, reports) = service.verify_audit("--all").await;
    assert!(is_unbroken && reports.len() == 2, "{earlier}");
    let expect = format!("--all --expect {}", service.file("audit", earlier));
    service.set_rate_limit(&account, 600).await;
    assert!(service.verify_audit(&expect).await.0);

    // The newest rows are removed.
    service.remove_audit_row(&account, rows + 1).await;
    service.remove_audit_row(&account, rows).await;
    assert!(service.verify_audit("--all").await.0);
    let (is_unbroken, _, reports) = service.verify_audit(&expect).await;
    let faults = |reports: &[Value]| {
        let report = reports.iter().find(|report| report["account"] == account).unwrap();
        fields(report, &["faults"])
    };
    let cut = format!(
        "the chain ends at the row {}, but the row {rows} was seen earlier: the newest rows were removed",
        rows - 1
    );
    assert_eq!((is_unbroken, faults(&reports)), (false, json!([[cut]])));

    // A row in the middle is removed.
    service.remove_audit_row(&account, rows - 2).await;
    let (is_unbroken, _, reports) = service.verify_audit(&account).await;
    let missing = format!("the rows {0} to {0} are missing", rows - 2);
    assert_eq!((is_unbroken, faults(&reports)), (false, json!([[missing]])));

    service.refuses("audit verify", "required arguments").await;
    service.refuses(&format!("audit verify {account} --all"), "cannot be used with").await;
    service.file("audit", b"no JSON");
    service.refuses(&format!("audit verify {expect}"), "can't be read: expected ident").await;
    let empty = format!("audit verify --all --expect {}", service.file("empty", ""));
    service.refuses(&empty, "has no line of an earlier verification").await;
}
