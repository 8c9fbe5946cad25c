//! Charges outside their rules: what clients send and read, lists, reads and writes, the velocity guard. The rules are in
//! [`domain::charge`].
//!
//! Charges and payments are the same object; the surfaces differ in their wire format alone.

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
