//! Prints lists: a table on a terminal, otherwise one JSON object a line.

use std::fmt::Display;
use std::io::Write;

use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::table::table;
use crate::target::Stack;
use crate::{Result, print};

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
    let rows: Vec<String> =
        rows.into_iter().map(|row| serde_json::to_string(&row)).collect::<Result<_, _>>()?;
    if rows.is_empty() {
        writeln!(std::io::stderr(), "no {what} found")?;
    }
    let lines = if stack.prints_tables {
        let (_, columns) = console::Term::stdout().size();
        table(&rows, columns.into())?
    } else {
        rows
    };
    Ok(lines.iter().try_for_each(|line| print(line))?)
}

/// Says how the list continues, if there is a next page.
pub(crate) fn print_next(what: &str, after: Option<impl Display>) -> Result<()> {
    if let Some(after) = after {
        writeln!(std::io::stderr(), "more {what} follow: --starting-after {after}")?;
    }
    Ok(())
}
