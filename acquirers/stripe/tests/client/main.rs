//! Tests of the client against a small server whose answers the test chooses.
//!
//! `objects.json` has three forms of each object: only what is required, all that can be null is null, and all fields.
//! They are made from Stripe's OpenAPI document, version 2026-05-27.dahlia (MIT licence). The stand-in of Stripe, with
//! which the tests of the connector and of the service run, checks the client's requests.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::too_many_lines,
    clippy::unwrap_used,
    reason = "a test that fails may panic"
)]

mod document;
mod errors;
mod fuzzing;
#[path = "../../../pix/tests/api/logs.rs"]
mod logs;
#[path = "../../../pix/tests/api/mutation.rs"]
mod mutation;
mod objects;
mod operations;
mod privacy;
mod server;
mod signatures;
