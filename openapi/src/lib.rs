//! The description of the HTTP API, and the pages that are generated from it.

pub mod responses;
