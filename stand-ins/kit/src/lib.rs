//! What the stand-ins of acquirers share: connections, the clock, the sending of notifications, faults, and rows
//! with their file.
//!
//! It knows no acquirer, and uses no other crate of the workspace.

mod books;
mod faults;
mod journal;
mod server;
mod table;

pub use books::{Books, Persistent};
pub use faults::{Faults, changed};
pub use server::{Clock, Host, Reply, Running, StandIn, reply, set_header};
pub use table::{Row, Table};
