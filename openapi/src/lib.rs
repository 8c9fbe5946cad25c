//! The description of the HTTP API, and the pages that are generated from it.

mod document;
mod responses;
pub mod site;

pub use document::{CDN_REQUIRED, document, routes};
