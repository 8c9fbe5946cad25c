//! The developer's commands: what `cargo run -- …` does with a service that runs already.

pub mod listen;
pub mod running;
pub mod trigger;

pub use running::Running;
