//! The domain layer: types, rules and state machines, without I/O. Callers pass in the time, ids and
//! randomness.
#![cfg_attr(
    test,
    allow(clippy::arithmetic_side_effects, clippy::needless_pass_by_value, reason = "of tests")
)]

extern crate self as domain;

pub mod account;
pub mod acquirer;
pub mod actor;
pub mod audit;
pub mod backoff;
pub mod base32;
pub mod calendar;
pub mod charge;
pub mod ids;
pub mod masking;
pub mod med;
pub mod money;
pub mod payment_link;
pub mod payment_method;
pub mod payout;
pub mod pix_key;
pub mod proposal;
pub mod pt_br;
pub mod reference;
pub mod refund;
pub mod report;
pub mod request_id;
pub mod retention;
pub mod rollup;
pub mod row;
pub mod shard;
pub mod snapshot;
pub mod source_address;
pub mod tax_id;
pub mod text;
pub mod time;
pub mod url_policy;
pub mod vocabulary;
pub mod wallet;
pub mod webhook;
pub mod work;

pub use hex;
