//! Charges. The type and its state machine are in [`domain::charge`]. `/v1/charges` and `/v1/payments` show the
//! same object in different wire formats, as a charge and as a payment.

mod card_return;
mod error;
pub mod list;
pub mod payment;
mod repository;
pub mod request;
mod simulation;
#[cfg(test)]
#[path = "../../../domain/src/charge/testing.rs"]
pub mod testing;
pub mod velocity;
pub mod view;

pub use card_return::Seen;
pub use error::ChargeError;
pub use list::{CHARGES_QUERY, ChargeFilter, ChargePage};
pub use repository::{Charges, WritePlan, lost_cob_ends_at, recorded_payment_writes};
