//! What the stand-ins of acquirers share: connections, the clock, the sending of notifications, and rows with their
//! file.
//!
//! It knows no acquirer, and uses no other crate of the workspace.

mod journal;
mod server;
mod table;

pub use journal::Journal;
pub use server::{Books, Clock, Host, Reply, StandIn, Tasks, reply, set_header};
pub use table::{Row, Table};
