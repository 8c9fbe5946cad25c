//! Signs and posts webhook deliveries. [`worker`] runs the steps of one attempt; [`sender`] sends its HTTP request.

pub mod sender;
pub mod worker;
