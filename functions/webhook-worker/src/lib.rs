//! Signs and posts webhook deliveries. [`worker`] runs a delivery attempt, and [`sender`] sends its HTTP
//! request. `admission` limits the attempts in flight.

mod admission;
pub mod sender;
pub mod worker;
