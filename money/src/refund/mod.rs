//! Refunds. The type and its state machine are in [`domain::refund`].

mod error;
mod repository;
mod request;
#[cfg(test)]
mod tests;
pub mod third_party;
mod view;

pub use error::RefundError;
pub use repository::{MadeThere, Refunds};
pub use request::{NewRefund, REFUND_BODY, refusal, safe_strategy};
pub use view::{RefundListView, RefundObject, RefundView};
