//! Accounts and their users. The account's type is in [`domain::account`].

mod logo;
pub mod password;
mod repository;
mod user;

pub use logo::{Logos, MAX_LOGO_BYTES};
pub use repository::{AccountError, Accounts};
pub(crate) use user::USER;
pub use user::{Role, TokenGeneration, User, UserChange, UserError, Users};
