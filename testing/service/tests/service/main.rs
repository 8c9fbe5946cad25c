//! Tests of the whole service over HTTP: the gateway, the functions and the embedded DynamoDB, SQS and S3.
//! Each test starts its own service, so tests share no state.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::ignored_unit_patterns,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::too_many_lines,
    clippy::unreachable,
    clippy::unwrap_used,
    reason = "a test that fails may panic"
)]

mod abandonment;
mod alarms;
mod api_keys;
mod audit;
mod audit_chain;
mod auth;
mod bank;
mod bank_books;
mod bank_clocks;
mod bank_faults;
mod bank_med;
mod bank_notifications;
mod bank_proxy;
mod bank_refusals;
mod bank_returns;
mod brand;
mod budgets;
mod cards;
mod charge_list;
mod charges;
mod commands;
mod contention;
mod crypto;
mod dashboard;
mod dashboard_crawl;
mod dashboard_disputes;
mod dashboard_forms;
mod dashboard_health;
mod dashboard_limit;
mod dashboard_payouts;
mod dashboard_roles;
mod dashboard_search;
mod dashboard_security;
mod dashboard_team;
mod delivery_list;
mod description;
mod emails;
mod error_messages;
mod event_log;
mod every_route;
mod evidence;
mod failures;
mod fairness;
mod fuzzing;
mod invocations;
mod lambda_processes;
mod ledger_verification;
mod list_costs;
mod list_dates;
mod live_charges;
mod local_routes;
mod log_in;
mod lost_messages;
mod med;
mod med_deadlines;
mod metrics;
mod origin;
mod payment_links;
mod payment_list;
mod payments;
mod policies;
mod recoveries;
mod refunds;
mod reports;
mod request_log;
mod requests;
mod reset;
mod restart;
mod rollups;
mod row_compatibility;
mod sales_emails;
mod seeding;
mod set_aside;
mod settlement;
mod shards;
mod simulation;
mod smoke;
mod statistics;
mod stream_filter;
mod support;
mod sweep;
mod throttling;
mod timeline;
mod unit_costs;
mod velocity;
mod vouchers;
mod wallets;
mod webhook_attempts;
mod webhook_endpoints;
mod webhook_resends;
mod webhook_secrets;
mod webhooks;
