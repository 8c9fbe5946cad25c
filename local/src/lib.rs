//! The whole service on one machine.
//!
//! Here live the parts that AWS plays elsewhere: the tables, queues and buckets ([`embedded`], [`provision`]), the
//! HTTP API ([`gateway`]), the function runtime ([`lambda`]) and the event sources ([`pumps`]). What they create and
//! connect is read from the template that is deployed ([`template`]), so that nothing is declared twice. What the
//! service does lives in the functions; nothing here knows a charge from a webhook.
#![cfg_attr(
    test,
    allow(
        clippy::arithmetic_side_effects,
        clippy::needless_pass_by_value,
        clippy::too_many_lines,
        reason = "a test that fails may panic"
    )
)]

pub mod commands;
pub mod embedded;
pub mod error;
pub mod filter;
pub mod functions;
pub mod gateway;
pub mod guard;
pub mod http;
pub mod lambda;
pub mod provision;
pub mod pumps;
pub mod sdk;
pub mod seed;
pub mod shutdown;
pub mod stack;
pub mod template;
pub mod wire;

pub use error::{Error, Result};
