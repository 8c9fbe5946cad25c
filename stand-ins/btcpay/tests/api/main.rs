//! Tests of the stand-in over HTTP. `.ci/btcpay_stand_in.py` validates its answers against BTCPay Server's document.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::too_many_lines,
    clippy::unwrap_used,
    reason = "a test that fails may panic"
)]

mod faults;
mod invoices;
mod payments;
#[allow(dead_code, reason = "the tests of the bank use the rest")]
#[path = "../../../bank/tests/api/receiver.rs"]
mod receiver;
mod restart;
mod support;
mod webhooks;
