//! Prints lists: a table on a terminal, otherwise one JSON object a line.

use std::fmt::Display;
use std::io::Write;

use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::table::table;
use crate::target::Stack;
use crate::{Result, json_line, print_line};

/// A printed object. Its fields are printed in this order.
#[derive(Debug, Default)]
pub(crate) struct Record(pub(crate) Vec<(&'static str, Value)>);

impl Record {
    pub(crate) fn and(mut self, more: Self) -> Self {
        self.0.extend(more.0);
        self
    }
}

impl Serialize for Record {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// An object with the fields of another one behind its own.
#[derive(Debug, Serialize)]
pub(crate) struct With<T, M = Record> {
    #[serde(flatten)]
    pub(crate) object: T,
    #[serde(flatten)]
    pub(crate) more: M,
}

macro_rules! record {
    ($($name:ident: $value:expr),* $(,)?) => {
        $crate::output::Record(vec![$((stringify!($name), serde_json::json!($value))),*])
    };
}
pub(crate) use record;

pub(crate) fn print_list<T: Serialize>(
    stack: &Stack,
    what: &str,
    rows: impl IntoIterator<Item = T>,
) -> Result<()> {
    let rows: Vec<String> = rows.into_iter().map(|row| json_line(&row)).collect::<Result<_, _>>()?;
    if rows.is_empty() {
        writeln!(std::io::stderr(), "no {what} found")?;
    }
    let lines = if stack.prints_tables {
        let (_, columns) = console::Term::stdout().size();
        table(&rows, columns.into())?
    } else {
        rows
    };
    Ok(lines.iter().try_for_each(|line| print_line(line))?)
}

/// Prints each field that differs, with both values, to stderr.
pub(crate) fn print_changes(before: &Value, after: &Value) -> Result<()> {
    let mut changes = Vec::new();
    add_changes("", before, after, &mut changes);
    if changes.is_empty() {
        changes.push("nothing changed".to_owned());
    }
    Ok(writeln!(std::io::stderr(), "{}", changes.join("\n"))?)
}

fn add_changes(path: &str, before: &Value, after: &Value, changes: &mut Vec<String>) {
    let mut add = |name: &dyn Display, before: Option<&Value>, after: Option<&Value>| {
        let path = if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
        add_changes(&path, before.unwrap_or(&Value::Null), after.unwrap_or(&Value::Null), changes);
    };
    match (before, after) {
        _ if before == after || path == "updated_at" => {}
        (Value::Object(before), Value::Object(after)) => {
            let added = after.keys().filter(|name| !before.contains_key(*name));
            before.keys().chain(added).for_each(|name| add(name, before.get(name), after.get(name)));
        }
        (Value::Array(before), Value::Array(after)) if before.iter().chain(after).any(Value::is_object) => {
            (0..before.len().max(after.len())).for_each(|n| add(&n, before.get(n), after.get(n)));
        }
        _ => changes.push(format!("{path}: {before} → {after}")),
    }
}

/// Says how the list continues, if there is a next page.
pub(crate) fn print_next(what: &str, after: Option<impl Display>) -> Result<()> {
    if let Some(after) = after {
        writeln!(std::io::stderr(), "more {what} follow: --starting-after {after}")?;
    }
    Ok(())
}

/// Returns the error message for a change that may or may not have been made.
pub(crate) fn unknown_outcome(error: &impl Display) -> String {
    format!(
        "{error}\nThe outcome is unknown. Run the same command again: its reference makes the change at most once."
    )
}
