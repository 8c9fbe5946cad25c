//! Reads and writes accounts and their users, and verifies the users' passwords. The account's type is in
//! [`domain::account`].

pub mod password;
mod repository;
mod user;

pub use repository::{AccountError, Accounts};
pub use user::{Role, TokenGeneration, User, UserChange, UserError, Users};
