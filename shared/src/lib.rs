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
pub mod audit_trail;
pub mod auth;
pub mod base32;
pub mod calendar;
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
pub mod payment_method;
pub mod payout;
pub mod pix_key;
pub mod pt_br;
pub mod queue;
pub mod random;
pub mod refund;
pub mod retention;
pub mod rollup;
pub mod row;
pub mod services;
pub mod source_address;
pub mod store;
pub mod tax_id;
pub mod text;
pub mod time;
pub mod url_policy;
pub mod wallet;
pub mod webhook;
