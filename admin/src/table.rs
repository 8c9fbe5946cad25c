//! Lays out JSON objects as a table. The tests of the commands include this file, so it uses no other module.

use domain::pt_br::brasilia_time;
use domain::time::Timestamp;
use indexmap::IndexMap;
use serde_json::Value;

/// Lays out JSON objects as the lines of a table, with the fields as columns in their order. Leaves out fields
/// that have no single value, and columns without any value: `--json` prints these too. A table that is wider than
/// the terminal is printed as a block of lines for each object.
pub(crate) fn table(rows: &[String], terminal: usize) -> Result<Vec<String>, serde_json::Error> {
    let rows: Vec<IndexMap<String, Value>> =
        rows.iter().map(|row| serde_json::from_str(row)).collect::<Result<_, _>>()?;
    let mut columns: IndexMap<&str, usize> = IndexMap::new();
    for (name, value) in rows.iter().flatten() {
        if let Some(cell) = cell(value) {
            let widest = columns.entry(name).or_insert_with(|| name.chars().count());
            *widest = cell.chars().count().max(*widest);
        }
    }
    let width = columns.values().fold(0, |sum: usize, width| sum.saturating_add(*width).saturating_add(2));
    if width.saturating_sub(2) > terminal {
        let longest = columns.keys().map(|name| name.chars().count()).max().unwrap_or_default();
        let block = |row: &IndexMap<String, Value>| {
            let cells = row.iter().filter_map(|(name, value)| Some((name.to_uppercase(), cell(value)?)));
            let lines = cells.map(|(name, text)| format!("{name:longest$}  {text}"));
            lines.chain([String::new()]).collect::<Vec<_>>()
        };
        return Ok(rows.iter().flat_map(block).collect());
    }
    let line = |text: &dyn Fn(&str) -> String| {
        let cells: Vec<String> =
            columns.iter().map(|(name, width)| format!("{:width$}", text(name), width = *width)).collect();
        cells.join("  ").trim_end().to_owned()
    };
    let head = (!columns.is_empty()).then(|| line(&str::to_uppercase));
    let of_row =
        |row: &IndexMap<String, Value>| line(&|name| row.get(name).and_then(cell).unwrap_or_default());
    Ok(head.into_iter().chain(rows.iter().map(of_row)).collect())
}

/// The text of a single value. A terminal interprets control characters, so they are replaced.
fn cell(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(match text.strip_suffix('Z').and(text.parse::<Timestamp>().ok()) {
            // As clocks in São Paulo show it, with the zone, so that it can be pasted into `--since`.
            Some(at) => brasilia_time(at).format("%Y-%m-%dT%H:%M:%S-03:00").to_string(),
            None => text.replace(char::is_control, "\u{fffd}"),
        }),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
