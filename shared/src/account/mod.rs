//! Accounts and their users in the store, and the users' passwords. What an account is stands in [`domain::account`].

pub mod password;
mod repository;
mod user;

pub use repository::{AccountRefused, Accounts};
pub use user::{Role, TokenGeneration, User, UserChange, UserRefused, Users};
