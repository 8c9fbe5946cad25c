//! Signs and posts one webhook delivery.

pub mod sender;
