//! Wallets in the store: the counters that balances are read from, statements, and the check of both against the
//! postings. The ledger's rules are in [`domain::wallet`].

pub mod counters;
mod repository;
pub mod statement;
pub mod verify;
pub mod view;

pub use repository::{Adjusted, Adjustment, Covered, CreditsRead, WalletError, Wallets};
