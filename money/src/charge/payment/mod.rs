//! The wire format of `/v1/payments`.

pub mod request;
pub mod view;
