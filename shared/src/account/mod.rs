//! Accounts and their users. The account's type is in [`domain::account`].

mod link;
mod logo;
pub mod password;
mod repository;
mod user;

pub use domain::account::Role;
pub use link::{Invite, LinkToken, MAX_INVITES, MailedLink, PasswordReset};
pub use logo::{Logos, MAX_LOGO_BYTES};
pub use repository::{AccountError, Accounts};
pub(crate) use user::USER;
pub use user::{By, Team, TokenGeneration, User, UserChange, UserError, Users};
