//! Wallets: counters, statements, adjustments, releases of held money, and the verification of the counters
//! against the postings. The ledger's rules are in [`domain::wallet`].

pub mod counters;
pub(crate) mod day_limit;
mod repository;
mod sales;
pub mod statement;
pub mod verify;
pub mod view;

pub use day_limit::OverLimit;
pub use repository::{Adjustment, AdjustmentOutcome, CachedCredits, DebitPlan, Wallets};
pub use sales::Sales;
