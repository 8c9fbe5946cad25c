//! What follows a change of a row: events and their deliveries ([`webhook`]), statistics ([`rollup`]), e-mails, notes
//! for the dashboard, and the audit trail. The table's stream drives all of it.
#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test that fails may panic"))]

pub mod audit_trail;
#[cfg(test)]
#[allow(dead_code, reason = "tests of other crates use the rest")]
#[path = "../../domain/src/charge/testing.rs"]
mod charge_testing;
pub mod email;
mod errors;
pub mod notes;
pub mod rollup;
pub mod webhook;
