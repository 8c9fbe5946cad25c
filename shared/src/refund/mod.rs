//! Refunds outside their rules: what clients send and read, reads and writes, limits for third parties. The rules are in
//! [`domain::refund`].

mod error;
mod repository;
mod request;
#[cfg(test)]
mod tests;
pub mod third_party;
mod view;

pub use error::RefundError;
pub use repository::Refunds;
pub use request::NewRefund;
pub use view::RefundView;
