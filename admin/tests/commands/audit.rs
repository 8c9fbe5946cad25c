//! Tests of `admin audit verify`.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Value, json};

use crate::{AdminFixture, text};

impl AdminFixture {
    /// Verifies audit rows. Returns whether the command found no faults, its output and the lines' objects.
    async fn verify_audit(&self, arguments: &[&str]) -> (bool, String, Vec<Value>) {
        let output = self.run(&[&["audit", "verify"], arguments].concat()).await;
        let lines = text(&output.stdout);
        assert!([Some(0), Some(1)].contains(&output.status.code()), "{output:?}");
        let objects = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        (output.status.success(), lines, objects)
    }

    /// Removes the row of a chain with this sequence number, as no function of the service does.
    async fn remove_audit_row(&self, account: &str, sequence: u64) {
        let client = local::sdk::dynamodb(&self.stack.endpoints.dynamodb_url);
        let delete = client.delete_item().table_name("StateTable");
        delete.set_key(Some(key_of(account, sequence))).send().await.unwrap();
    }

    /// Changes a setting of an account four times. Each change appends an audit row.
    async fn append_four_audit_rows(&self, account: &str) {
        for limit in ["500", "501", "502", "503"] {
            self.set_rate_limit(account, limit).await;
        }
    }

    async fn set_rate_limit(&self, account: &str, limit: &str) {
        let set = ["accounts", "set-rate-limit", account, "--per-minute", limit, "--reason", "agreed"];
        self.object(&set).await;
    }
}

fn key_of(account: &str, sequence: u64) -> HashMap<String, AttributeValue> {
    [("pk", format!("audit#{account}")), ("sk", format!("seq_{sequence:020}"))]
        .map(|(name, value)| (name.to_owned(), AttributeValue::S(value)))
        .into()
}

#[tokio::test]
async fn an_operator_verifies_the_audit_of_one_account_or_of_all() {
    let service = AdminFixture::start().await;
    let account = service.account();
    service.append_four_audit_rows(&account).await;
    let newest = &service.audit(&account).await[0];
    let (_, _, reports) = service.verify_audit(&[&account]).await;
    let head = json!({"sequence": newest["sequence"], "hash": newest["hash"]});
    let rows = newest["sequence"].as_u64().unwrap();
    let expected = json!({"account": account, "rows": rows, "head": head, "faults": []});
    assert_eq!(reports, [expected]);

    let (is_unbroken, earlier, reports) = service.verify_audit(&["--all"]).await;
    assert!(is_unbroken && reports.len() == 2, "{earlier}");
    let file = service.ready_file.with_extension("audit");
    std::fs::write(&file, &earlier).unwrap();
    let expect = ["--all", "--expect", file.to_str().unwrap()];
    service.set_rate_limit(&account, "600").await;
    assert!(service.verify_audit(&expect).await.0);

    // The newest rows are removed.
    service.remove_audit_row(&account, rows + 1).await;
    service.remove_audit_row(&account, rows).await;
    assert!(service.verify_audit(&["--all"]).await.0);
    let (is_unbroken, _, reports) = service.verify_audit(&expect).await;
    let faults = |reports: &[Value]| {
        let report = reports.iter().find(|report| report["account"] == account).unwrap();
        report["faults"].clone()
    };
    let cut = format!(
        "the chain ends at the row {}, but the row {rows} was seen earlier: the newest rows were removed",
        rows - 1
    );
    assert_eq!((is_unbroken, faults(&reports)), (false, json!([cut])));

    // A row in the middle is removed.
    service.remove_audit_row(&account, rows - 2).await;
    let (is_unbroken, _, reports) = service.verify_audit(&[&account]).await;
    let missing = format!("the rows {0} to {0} are missing", rows - 2);
    assert_eq!((is_unbroken, faults(&reports)), (false, json!([missing])));

    let without = service.failure(&["audit", "verify"]).await;
    assert!(without.contains("required arguments"), "{without}");
    let both = service.failure(&["audit", "verify", &account, "--all"]).await;
    assert!(both.contains("cannot be used with"), "{both}");
    std::fs::write(&file, "no JSON").unwrap();
    let unreadable = service.failure(&["audit", "verify", "--all", "--expect", file.to_str().unwrap()]).await;
    assert!(unreadable.contains("can't be read: expected ident"), "{unreadable}");
    std::fs::remove_file(&file).unwrap();
}
