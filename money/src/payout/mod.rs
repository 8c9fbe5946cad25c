//! Payouts, and the keys to which owners request them. The types and their state machines are in [`domain::payout`].

mod book_again;
mod keys;
mod repository;
#[cfg(test)]
#[path = "../../../domain/src/payout/testing.rs"]
pub mod testing;
mod view;

pub use keys::{PayoutKeyError, PayoutKeys};
pub use repository::{PAGE_SIZE, PayoutError, Payouts};
pub use view::PayoutView;
