//! The developer's commands, `cargo run -- listen`, `cargo run -- trigger` and `cargo run -- bank`. They use a
//! running service.

pub mod bank_commands;
pub mod listen;
pub mod running;
pub mod trigger;

pub use running::Running;
