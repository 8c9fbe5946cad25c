//! Payments: a charge in the transaction wire format (contract: Payments), as request and response.

pub mod request;
pub mod view;
