//! Runs the whole service on one machine.
//!
//! This crate replaces the AWS services of a deployed stack: tables, queues and buckets ([`embedded`], [`provision`]),
//! the HTTP API ([`gateway`]), the function runtime ([`lambda`]) and the event sources ([`event_sources`]). It reads
//! the resources and their connections from the template that is deployed ([`template`]), so that nothing is declared
//! twice. It contains no business rules: the functions do.
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
pub mod event_sources;
pub mod filter;
pub mod functions;
pub mod gateway;
pub mod guard;
pub mod http;
pub mod lambda;
pub mod provision;
pub mod sdk;
pub mod seed;
pub mod shutdown;
pub mod stack;
pub mod template;
pub mod wire;

pub use error::{Error, Result};
