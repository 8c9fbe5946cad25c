//! Payouts in the store. The rules are in [`domain::payout`].

mod repository;
mod view;

pub use repository::{LISTED, PayoutRefused, Payouts};
pub use view::PayoutView;
