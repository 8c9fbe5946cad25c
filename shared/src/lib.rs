//! What the functions have in common: the domain's types and rules, and the technical ground under them.
#![cfg_attr(
    test,
    allow(
        clippy::arithmetic_side_effects,
        clippy::needless_pass_by_value,
        clippy::too_many_lines,
        reason = "a test that fails may panic"
    )
)]

pub mod account;
pub mod acquirer;
pub mod api_key;
pub mod app;
pub mod audit;
pub mod auth;
pub mod base32;
pub mod charge;
pub mod clock;
pub mod config;
pub mod hex;
pub mod http;
pub mod ids;
pub mod log;
pub mod med;
pub mod money;
pub mod notice;
pub mod payout;
pub mod pix_key;
pub mod pt_br;
pub mod queue;
pub mod random;
pub mod refund;
pub mod rollup;
pub mod store;
pub mod tax_id;
pub mod text;
pub mod time;
pub mod wallet;
pub mod webhook;
