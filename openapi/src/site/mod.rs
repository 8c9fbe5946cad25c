//! The documentation for merchants: the guide of `docs/guide` with its samples of `docs/samples`, and the
//! reference of all routes from the description of the API.
//!
//! `guide` and `reference` build the same list of `Block`s for all formats. `html` writes it as pages, and
//! `markdown` as one text. `llms` writes an index for language models.

mod block;
mod description;
mod guide;
mod html;
mod llms;
mod markdown;
mod reference;

use serde_json::Value;

use description::Description;

#[derive(Clone, Debug)]
pub struct File {
    pub path: &'static str,
    pub content: String,
}

pub fn files(document: &Value) -> [File; 4] {
    let description = Description::new(document);
    let blocks = [guide::blocks(), reference::blocks(description)].concat();
    // An object of strings, numbers and lists can always be serialised.
    let json = serde_json::to_string_pretty(document).unwrap_or_default();
    [
        File { path: "docs/openapi.json", content: format!("{json}\n") },
        File { path: "docs/site/index.html", content: html::site(description, &blocks) },
        File { path: "docs/site/docs.md", content: markdown::page(description, &blocks) },
        File { path: "docs/site/llms.txt", content: llms::index(description) },
    ]
}

#[cfg(test)]
mod tests;
