//! Runs the whole payment service on one machine. This page is also the front page of the code's
//! documentation.
//!
//! # The crates in reading order
//!
//! `docs/architecture.md` shows the flows, and which file to change for a task. In the code, read the lower
//! layers first. A crate uses only crates of the layers before it.
//!
//! 1. `artefacts` encodes the artefacts of a payment: BR Code, QR code, boleto, Multibanco reference, PDF.
//! 2. [`domain`] defines charges, refunds, wallets and the other business objects with their rules, without
//!    I/O. Begin with [`domain::charge::transition`], the state machine of a charge. Then read
//!    [`domain::wallet`], the double-entry ledger, and [`domain::webhook::event_rules`], which lists the
//!    events of each change.
//! 3. [`shared`] connects the rules to HTTP, DynamoDB, SQS and S3. [`shared::extract`] authenticates a
//!    request, [`shared::store`] writes and reads rows. On it stand `acquirer-core`, which finds the acquirer of a
//!    charge, [`money`], which reads and writes charges and the ledger, `effects`, which derives events and
//!    deliveries from changes, and [`services`], the use cases that involve several business objects.
//! 4. Each function is a crate. [`charges`], [`payments`], [`wallets`], [`med`], [`webhooks`], [`reports`],
//!    [`api_keys`], [`checkout`] and [`acquirer_events`] serve HTTP routes. [`event_dispatcher`] processes the stream of
//!    changed rows. [`webhook_worker`], [`acquirer_worker`], [`mailer`] and [`reports_worker`] process queues. [`scheduler`]
//!    processes due rows each minute, [`ledger_verifier`] verifies the ledgers once a day.
//! 5. `local`, this crate, runs all functions. `admin` is the operators' command.
//!
//! [`bank`] is a server of the Central Bank's API Pix. It uses none of these crates. `local` starts it.
//!
//! # This crate
//!
//! This crate replaces the AWS services of a deployed stack: tables, queues and buckets ([`embedded`],
//! [`provision`]), the HTTP API (`gateway`), the function runtime ([`lambda`]) and the event sources
//! ([`event_sources`]). It reads the resources and their connections from the deployed template
//! ([`template`]), so that nothing is declared twice. It contains no business rules. The module [`deployed`]
//! serves the API of a stack in an AWS emulator.
#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test that fails may panic"))]

mod acquirer_seed;
pub mod commands;
mod contents;
pub mod deployed;
pub mod embedded;
mod error;
pub mod event_sources;
pub mod files;
pub mod filter;
pub mod fronts;
pub mod functions;
mod gateway;
pub mod guard;
pub mod http;
pub mod lambda;
mod local_bank;
mod local_cards;
pub mod local_routes;
pub mod other_acquirers;
pub mod provision;
pub mod sdk;
pub mod seed;
pub mod stack;
mod stored_port;
pub mod template;
pub mod wire;

pub use error::{Context, Error, Result};
