//! The wire formats of lists and of numbers.

use schemars::JsonSchema;
use serde::Serialize;

/// A page of a list, newest first.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "{T}List")]
pub struct ListView<T, C> {
    /// Always `list`.
    #[schemars(extend("const" = "list"))]
    object: &'static str,
    /// The objects of the page.
    data: Vec<T>,
    /// Whether there are more objects after this page.
    has_more: bool,
    /// The `starting_after` of the next page. `null` on the last page.
    next_cursor: Option<C>,
}

impl<T, C> ListView<T, C> {
    /// Creates the page. `next_cursor`: `None` on the last one.
    pub fn new(data: Vec<T>, next_cursor: Option<C>) -> Self {
        Self { object: "list", data, has_more: next_cursor.is_some(), next_cursor }
    }
}

/// A list without pages.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "{T}List")]
pub struct WholeListView<T> {
    /// All objects of the list.
    pub data: Vec<T>,
}

/// A number of objects or a sum, at least 0. Its description is that of the field.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[schemars(inline)]
#[serde(transparent)]
pub struct NonNegative(#[schemars(range(min = 0))] pub i64);
