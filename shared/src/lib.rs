//! What the functions have in common: the domain's types and rules, and the technical ground under them.

pub mod acquirer;
pub mod base32;
pub mod ids;

pub mod money;
pub mod tax_id;
mod text;
pub mod time;
