//! Signs and posts webhook deliveries. [`worker`] runs a delivery attempt, and [`sender`] sends its HTTP
//! request.

pub mod sender;
pub mod worker;
