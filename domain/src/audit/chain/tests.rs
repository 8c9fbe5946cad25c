use serde_json::json;

use super::*;
use crate::audit::{Action, Operator};

fn account() -> AccountId {
    "acc_0w3ge1r70w3ge1r7".parse().unwrap()
}

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(1_795_262_400_000 + ms).unwrap()
}

fn audit(number: u8, ms: i64) -> Audit {
    let operator = Operator {
        actor: "ana".to_owned(),
        reason: "a test, with é and \"quotes\"".to_owned(),
        ..Operator::default()
    };
    let id = (AuditId::new(at(ms), [number; 10]), at(ms));
    Audit::by_operator(&operator, account(), id, Action::ReplayEvents, number)
}

/// A row as it is stored, with the hash of its attributes.
fn stored(audit: &Audit, sort_key: &str) -> Attributes {
    let mut row: Attributes = serde_json::from_value(serde_json::to_value(audit).unwrap()).unwrap();
    row.insert("pk".to_owned(), json!(partition(&account())));
    row.insert("sk".to_owned(), json!(sort_key));
    row.insert(HASH.to_owned(), json!(hash_of(&row)));
    row
}

fn rehashed(mut row: Attributes) -> Attributes {
    row.insert(HASH.to_owned(), json!(hash_of(&row)));
    row
}

fn sort_key(row: &Attributes) -> String {
    row["sk"].as_str().unwrap().to_owned()
}

fn hash(row: &Attributes) -> String {
    row[HASH].as_str().unwrap().to_owned()
}

/// The rows of a chain of this length.
fn chain(length: u8) -> Vec<Attributes> {
    let mut rows: Vec<Attributes> = Vec::new();
    for number in 1..=length {
        let previous = rows.last().map_or_else(|| Head::of_empty_chain(&account()).hash, hash);
        let sequence = u64::from(number);
        let link =
            Link { sequence, written_at: at(sequence.try_into().unwrap()), previous, hash: String::new() };
        let audit = Audit { link: Some(link), ..audit(number, 0) };
        rows.push(stored(&audit, &key_of(&account(), sequence).sk));
    }
    rows
}

fn verify_after(rows: &[Attributes], expected: Option<Head>) -> ChainReport {
    let mut check = ChainCheck::new(account(), expected);
    let mut rows = rows.to_vec();
    rows.sort_by_key(sort_key);
    for row in &rows {
        check.add(&sort_key(row), row);
    }
    check.finish()
}

fn faults(rows: &[Attributes]) -> Vec<String> {
    verify_after(rows, None).faults.iter().map(ToString::to_string).collect()
}

#[test]
fn an_unbroken_chain_has_no_faults() {
    let mut rows = chain(12);
    // The store adds this attribute to rows that it writes outside of a transaction.
    rows[3].insert("put_id".to_owned(), json!("0123456789abcdef"));
    let report = verify_after(&rows, None);
    assert_eq!((report.rows, report.faults.len()), (12, 0), "{report:?}");
    assert_eq!(report.head, Head { sequence: 12, hash: hash(&rows[11]) });
    let empty = verify_after(&[], None);
    assert_eq!((empty.head.sequence, empty.rows, empty.faults.len()), (0, 0, 0));
}

#[test]
fn the_hash_is_that_of_the_sorted_attributes_as_json() {
    let row = stored(&audit(1, 0), "sk");
    let id = audit(1, 0).id;
    let text = format!(
        r#"{{"account":"acc_0w3ge1r70w3ge1r7","action":"events.replay","actor":"ana","at":1795262400000,"id":"{id}","pk":"audit#acc_0w3ge1r70w3ge1r7","reason":"a test, with é and \"quotes\"","sk":"sk","subject":"1"}}"#
    );
    assert_eq!(hash_of(&row), hex::encode(Sha256::digest(text)));
    assert_eq!(
        Head::of_empty_chain(&account()).hash,
        hex::encode(Sha256::digest("audit#acc_0w3ge1r70w3ge1r7"))
    );
}

#[test]
fn a_change_of_any_attribute_is_found() {
    let rows = chain(5);
    for name in rows[2].keys().filter(|name| *name != "sk") {
        for value in [json!("another"), json!(1_795_262_400_999_i64)] {
            let mut changed = rows.clone();
            changed[2].insert(name.clone(), value.clone());
            assert!(!faults(&changed).is_empty(), "{name} {value}");
        }
        let mut changed = rows.clone();
        changed[2].remove(name);
        assert!(!faults(&changed).is_empty(), "{name}");
    }
    let mut changed = rows.clone();
    changed[2].insert("more".to_owned(), json!(true));
    assert_eq!(faults(&changed), ["the row 3 was changed: its hash is not that of its attributes"]);
    changed[2] = rehashed(changed[2].clone());
    assert_eq!(
        faults(&changed),
        ["the row 4 does not contain the hash of the row before it: one of the two was replaced"]
    );
}

#[test]
fn a_removed_row_is_found_except_at_the_end() {
    let rows = chain(5);
    let without = |removed: &[usize]| -> Vec<Attributes> {
        rows.iter()
            .enumerate()
            .filter(|(index, _)| !removed.contains(index))
            .map(|(_, row)| row.clone())
            .collect()
    };
    assert_eq!(faults(&without(&[2])), ["the rows 3 to 3 are missing"]);
    assert_eq!(faults(&without(&[0, 1])), ["the rows 1 to 2 are missing"]);
    assert_eq!(faults(&without(&[1, 3])), ["the rows 2 to 2 are missing", "the rows 4 to 4 are missing"]);
    // The removal of the newest rows is found with the head of an earlier verification.
    let head = verify_after(&rows, None).head;
    assert_eq!(faults(&without(&[3, 4])), [""; 0]);
    let cut = verify_after(&without(&[3, 4]), Some(head.clone()));
    assert_eq!(cut.faults, [ChainFault::Cut { found: 3, expected: 5 }]);
    assert_eq!(verify_after(&rows, Some(head.clone())).faults, []);
    assert_eq!(verify_after(&chain(9), Some(head)).faults, []);
}

#[test]
fn exchanged_inserted_and_renumbered_rows_are_found() {
    let rows = chain(5);
    let with_key_of = |row: &Attributes, other: &Attributes| {
        let mut row = row.clone();
        row.insert("sk".to_owned(), other["sk"].clone());
        row
    };
    let mut exchanged = rows.clone();
    exchanged[1] = with_key_of(&rows[2], &rows[1]);
    exchanged[2] = with_key_of(&rows[1], &rows[2]);
    assert_eq!(faults(&exchanged).len(), 5, "{:?}", faults(&exchanged));
    // A row inserted at the place of another one, with the later rows moved by one place.
    let mut inserted = rows[..2].to_vec();
    inserted.push(with_key_of(&stored(&audit(9, 0), ""), &rows[2]));
    inserted.extend(rows[2..4].iter().zip(&rows[3..]).map(|(row, place)| with_key_of(row, place)));
    assert!(faults(&inserted).len() >= 3, "{:?}", faults(&inserted));
    // A row whose sort key is between two rows.
    for sort_key in ["seq_00000000000000000002x", "seq_2", "seq_0000000000000000002", "other"] {
        let mut inserted = rows.clone();
        inserted.push(stored(&audit(9, 0), sort_key));
        assert_eq!(
            faults(&inserted),
            [format!("the row {sort_key} is not an audit row: its sort key is not one of the chain")]
        );
    }
}

#[test]
fn a_rewritten_chain_is_found_with_an_earlier_head() {
    let head = verify_after(&chain(5), None).head;
    let mut rows = chain(7);
    rows[1].insert("reason".to_owned(), json!("another reason"));
    rows[1] = rehashed(rows[1].clone());
    for index in 2..rows.len() {
        let previous = hash(&rows[index - 1]);
        rows[index].insert("previous".to_owned(), json!(previous));
        rows[index] = rehashed(rows[index].clone());
    }
    assert_eq!(faults(&rows), [""; 0]);
    assert_eq!(verify_after(&rows, Some(head)).faults, [ChainFault::Rewritten(5)]);
}

#[test]
fn a_repeated_id_is_found() {
    let mut rows = chain(3);
    let id = rows[0]["id"].clone();
    rows[2].insert("id".to_owned(), id);
    rows[2] = rehashed(rows[2].clone());
    assert_eq!(faults(&rows), ["the row 3 repeats the id of the row 1"]);
}

#[test]
fn a_sort_key_has_twenty_digits() {
    let key = key_of(&account(), u64::MAX);
    assert_eq!((key.sk.as_str(), sequence_of(&key.sk)), ("seq_18446744073709551615", Some(u64::MAX)));
    assert_eq!(sequence_of(&key_of(&account(), 7).sk), Some(7));
    for other in ["seq_7", "seq_+0000000000000000007", "aud_00000000000000000007", "seq_99999999999999999999"]
    {
        assert_eq!(sequence_of(other), None, "{other}");
    }
    assert!(SORT_KEYS.0 < key.sk.as_str() && key.sk.as_str() < SORT_KEYS.1);
}
