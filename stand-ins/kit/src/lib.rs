//! What the stand-ins of acquirers share: connections, the clock, the sending of notifications, and the file of the
//! books.
//!
//! It knows no acquirer, and uses no other crate of the workspace.

mod journal;
mod server;

pub use journal::Journal;
pub use server::{Books, Clock, Host, Reply, StandIn, Tasks, reply, set_header};
