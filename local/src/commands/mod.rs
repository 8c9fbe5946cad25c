//! The developer's commands, `cargo run -- listen`, `cargo run -- trigger` and `cargo run -- verify`.
//! All but `verify` use a running service.

pub mod listen;
pub mod running;
pub mod trigger;
pub mod verify;

pub use running::Running;
