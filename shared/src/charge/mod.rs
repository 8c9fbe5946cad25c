//! Charges: request validation, wire formats, lists, reads and writes, and the velocity guard. The type and its state
//! machine are in [`domain::charge`].
//!
//! A charge and a payment are the same object; the two surfaces differ only in their wire format.

mod error;
pub(crate) mod list;
mod path;
pub mod payment;
mod repository;
pub mod request;
#[cfg(test)]
#[path = "../../../domain/src/charge/testing.rs"]
pub(crate) mod testing;
pub mod velocity;
pub mod view;

pub use error::ChargeError;
pub use list::{ChargeFilter, ChargePage};
pub use path::ChargePath;
pub use repository::Charges;
