//! Signs and posts webhook deliveries: `worker` has the steps of one delivery, `sender` the network.

pub mod sender;
pub mod worker;
