//! Payouts. The type and its state machine are in [`domain::payout`].

mod repository;
#[cfg(test)]
#[path = "../../../domain/src/payout/testing.rs"]
pub mod testing;
mod view;

pub use repository::{PAGE_SIZE, PayoutError, Payouts};
pub use view::PayoutView;
