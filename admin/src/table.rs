//! Lays out JSON objects as a table. The tests of the commands include this file, so it uses no other module.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Lays out JSON objects as the lines of a table, with the fields as columns in their order. Leaves out fields
/// that have no single value, and columns without any value: `--json` prints these too.
pub(crate) fn table(rows: &[String]) -> Result<Vec<String>, serde_json::Error> {
    let rows: Vec<TableRow> = rows.iter().map(|row| serde_json::from_str(row)).collect::<Result<_, _>>()?;
    let mut columns: Vec<(&str, usize)> = Vec::new();
    for (name, cell) in rows.iter().flat_map(|row| &row.0) {
        let width = cell.chars().count().max(name.chars().count());
        match columns.iter_mut().find(|(known, _)| known == name) {
            Some((_, widest)) => *widest = width.max(*widest),
            None => columns.push((name, width)),
        }
    }
    let line = |cell: &dyn Fn(&str) -> String| {
        let cells: Vec<String> =
            columns.iter().map(|(name, width)| format!("{:width$}", cell(name), width = *width)).collect();
        cells.join("  ").trim_end().to_owned()
    };
    let head = (!columns.is_empty()).then(|| line(&|name| name.to_uppercase()));
    let of_row = |row: &TableRow| {
        let cell = |name: &str| row.0.iter().find(|(known, _)| known == name).map(|(_, cell)| cell.clone());
        line(&|name| cell(name).unwrap_or_default())
    };
    Ok(head.into_iter().chain(rows.iter().map(of_row)).collect())
}

/// The fields of a JSON object that have a single value, in their order. A terminal interprets control
/// characters, so they are replaced.
struct TableRow(Vec<(String, String)>);

impl<'de> Deserialize<'de> for TableRow {
    fn deserialize<D: Deserializer<'de>>(row: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = TableRow;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<TableRow, M::Error> {
                let mut cells = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, Value>()? {
                    let cell = match value {
                        Value::String(text) => text.replace(char::is_control, "\u{fffd}"),
                        Value::Bool(_) | Value::Number(_) => value.to_string(),
                        Value::Null | Value::Array(_) | Value::Object(_) => continue,
                    };
                    cells.push((name, cell));
                }
                Ok(TableRow(cells))
            }
        }
        row.deserialize_map(Fields)
    }
}
