//! Writes `target/tmp/permissions.md`, a page that lists each function's permissions.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use faults::iam::Role;

use super::ROLES;
use super::rules::{granted, is_on_rows};

const HEADER: &str = "# Permissions of the functions

Which function may do what, by its role in `template.yaml` (docs/decisions/095-own-roles-by-row.md). The
rows are those of docs/data-model.md. `X/index/y` is the index `y` of the table `X`. Each function may
also write its log.
";

const LOGS: &str = "Logs";
const WRITE_LOG: &str = "logs:CreateLogStream, logs:PutLogEvents";

fn page() -> String {
    let mut page = HEADER.to_owned();
    for (function, role) in ROLES.iter() {
        write!(page, "\n## {function}\n").unwrap();
        let rows = access_to_rows(role);
        if !rows.is_empty() {
            page.push_str("\n| table or index | partition keys | actions |\n| --- | --- | --- |\n");
        }
        // The rows that a function may use alike are one line.
        let mut alike: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
        for ((resource, keys), actions) in rows {
            let actions: Vec<&str> = actions.iter().map(String::as_str).collect();
            alike.entry((resource, actions.join(", "))).or_default().push(keys);
        }
        for ((resource, actions), keys) in alike {
            writeln!(page, "| `{resource}` | {} | {actions} |", keys.join(", ")).unwrap();
        }
        let mut others: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (action, resource, _conditions) in granted(role) {
            others.entry(resource).or_default().push(action);
        }
        assert_eq!(
            others.remove(LOGS).map(|actions| actions.join(", ")).as_deref(),
            Some(WRITE_LOG),
            "{function}"
        );
        if !others.is_empty() {
            page.push_str("\n| other resource | actions |\n| --- | --- |\n");
        }
        for (resource, actions) in others {
            writeln!(page, "| `{resource}` | {} |", actions.join(", ")).unwrap();
        }
    }
    page
}

/// Returns the actions that a role allows on each kind of row. Its keys are the table or index, and the pattern
/// of the partition keys.
fn access_to_rows(role: &Role) -> BTreeMap<(String, String), BTreeSet<String>> {
    let on_rows = role.statements.iter().filter(|statement| is_on_rows(statement)).cloned().collect();
    let mut access: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    for grant in (Role { statements: on_rows }).grants() {
        let keys = grant.keys.map_or_else(|| "any".to_owned(), |keys| format!("`{keys}`"));
        let action = grant.action.trim_start_matches("dynamodb:").to_owned();
        access.entry((grant.resource, keys)).or_default().insert(action);
    }
    access
}

#[test]
fn the_page_of_permissions_shows_each_role() {
    let page = page();
    assert!(ROLES.keys().all(|function| page.contains(&format!("\n## {function}\n\n|"))), "{page}");
    std::fs::write(concat!(env!("CARGO_TARGET_TMPDIR"), "/permissions.md"), page).unwrap();
}
