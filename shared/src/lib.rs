//! What the functions have in common: the domain's types and rules, and the technical ground under them.

pub mod webhook;
