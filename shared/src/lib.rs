//! What all functions stand on. Read first: [`app`] (the state of an HTTP function), [`extract`] (authentication in
//! handlers), [`http`] (validation and errors) and [`store`] (access to the state table).
//!
//! The nouns that money moves through are in the crate `money`, what follows a change in `effects`, and use cases that
//! span several nouns in `services`. The business rules, which need no I/O, are in [`domain`].
#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test that fails may panic"))]

pub mod account;
pub mod api_key;
pub mod app;
pub mod audit;
pub mod auth;
pub mod checkpoint;
pub mod clock;
mod concurrently;
pub mod config;
pub mod day_sum;
mod entry_point;
pub mod errors;
pub mod extract;
pub mod http;
pub mod language;
pub mod log;
pub mod metrics;
pub mod object_store;
pub mod product;
pub mod queue;
pub mod random;
pub mod request_limit;
pub mod request_log;
pub mod store;
mod work_error;

pub use concurrently::concurrently;
pub use work_error::{WorkError, WorkResult};

/// The allocator of the deployed functions. It needs fewer instructions than the system's allocator, and about
/// 6 MB more memory.
pub use mimalloc::MiMalloc as Allocator;
