//! Payments: the request that creates a charge, and the responses that show one, in the wire format of
//! `/v1/payments` (contract: Payments).

pub mod request;
pub mod view;
