//! Tests of the client against the bank for tests, through a proxy that validates each request against the
//! Central Bank's document.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::too_many_lines,
    clippy::unwrap_used,
    reason = "a test that fails may panic"
)]

mod breaker;
mod certificates;
mod faults;
mod fuzzing;
mod limits;
mod logs;
mod mutation;
mod operations;
mod parsing;
mod privacy;
mod proxy;
mod requests;
#[allow(dead_code, reason = "the tests of the bank use the rest")]
#[path = "../../../../stand-ins/bank/tests/api/schema.rs"]
mod schema;
mod support;
mod tls;
mod tokens;
mod transport;
