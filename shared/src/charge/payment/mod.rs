//! A charge in the transaction wire format (contract: Payments): what a client sends, and what it reads.

pub mod request;
pub mod view;
