//! Tests of the bank over HTTP. Every answer and every callback is validated against the Central Bank's
//! document.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::format_push_string,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::too_many_lines,
    clippy::unwrap_used,
    reason = "a test that fails may panic"
)]

mod books;
mod callbacks;
mod charges;
mod faults;
mod profiles;
#[allow(dead_code, reason = "the tests of the stand-in of Stripe use the rest")]
mod receiver;
mod returns;
mod schema;
mod support;
