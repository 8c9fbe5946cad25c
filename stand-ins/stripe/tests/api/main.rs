//! Tests of the stand-in over HTTP. `.ci/stripe_stand_in.py` validates its answers against Stripe's document.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::too_many_lines,
    clippy::unwrap_used,
    reason = "a test that fails may panic"
)]

mod disputes;
mod faults;
mod idempotency;
mod notifications;
mod page;
mod payments;
#[allow(dead_code, reason = "the tests of the bank use the rest")]
#[path = "../../../bank/tests/api/receiver.rs"]
mod receiver;
mod refunds;
mod restart;
mod support;
mod vouchers;
