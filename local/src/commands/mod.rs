//! The developer's commands, `cargo run -- listen` and `cargo run -- trigger`. They use a running service.

pub mod listen;
pub mod running;
pub mod trigger;

pub use running::Running;
