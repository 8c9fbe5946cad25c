//! Ids of accounts and dashboard users, and the tenant scope (account and mode).

use std::fmt;
use std::str::FromStr;

use super::IdError;
use super::define::{decode_80_bits, digest, encode_80_bits, first_80_bits, id_traits, prefixed_id};
use crate::base32;
use crate::calendar::Day;
use crate::text::{serde_as_text, text_schema};

/// An API key cannot access data of the other mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// Sandbox data; no money moves.
    Test,
    /// Production data; real money moves.
    Live,
}

impl Mode {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Test => "test",
            Self::Live => "live",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Mode {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        match text {
            "test" => Ok(Self::Test),
            "live" => Ok(Self::Live),
            _ => Err(IdError { expected: "test or live" }),
        }
    }
}

serde_as_text!(Mode);
text_schema!(Mode, "`test`: sandbox, no money moves. `live`: production.", { "enum": ["test", "live"] });

/// The id of a merchant's account: `acc_` and 16 characters of the [`base32`] alphabet, which includes the hex
/// digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountId(u128);

impl AccountId {
    /// All accounts, in audit rows of actions that concern the whole stack. Ids are random, so no account has
    /// this one.
    pub const STACK: Self = Self(0);

    /// Creates the id of a new account from 80 random bits.
    pub fn new(random: [u8; 10]) -> Self {
        Self(first_80_bits(&random))
    }

    /// Checks whether the account's turn is on this day, which each account has once in seven days.
    pub fn has_turn_on(self, day: Day) -> bool {
        let turn = u64::try_from(self.0.checked_rem(7).unwrap_or_default()).unwrap_or_default();
        day.number().rem_euclid(7).unsigned_abs() == turn
    }
}

prefixed_id!(AccountId, "acc_", "acc_ and 16 lower-case letters and digits", encode_80_bits, decode_80_bits);

/// The tenant that owns data: an account in one mode. In row keys: `acc_0123456789abcdef:test`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    pub account: AccountId,
    pub mode: Mode,
}

/// Data that belongs to one scope. Only callers of that scope may see it.
pub trait Scoped {
    /// Returns the scope that owns the data.
    fn scope(&self) -> Scope;
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.account, self.mode)
    }
}

impl FromStr for Scope {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let expected = IdError { expected: "an account id, a colon, and test or live" };
        let (account, mode) = text.split_once(':').ok_or(expected)?;
        Ok(Self { account: account.parse()?, mode: mode.parse()? })
    }
}

/// The id of a dashboard user: `usr_` and a hash of the email address. So one address belongs to one user, and
/// the row can be read by id or by address without an index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserId(u128);

impl UserId {
    /// Derives the id from an email address. The address is lower-cased first.
    pub fn from_email(email: &str) -> Self {
        let hash = digest("user", &[email.to_lowercase().as_bytes()]);
        let (bits, _) = hash.split_first_chunk().unwrap_or((&[0; 16], &[]));
        Self(u128::from_be_bytes(*bits))
    }
}

prefixed_id!(UserId, "usr_", "usr_ and 26 lower-case letters and digits", base32::encode, base32::decode);

id_traits!(Scope);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_id_has_sixteen_base32_characters() {
        for text in ["acc_0123456789abcdef", "acc_zzzzzzzzzzzzzzzz"] {
            assert_eq!(text.parse::<AccountId>().unwrap().to_string(), text);
        }
        assert_eq!(AccountId::new([0; 10]).to_string(), "acc_0000000000000000");
        assert_eq!(AccountId::new([255; 10]).to_string(), "acc_zzzzzzzzzzzzzzzz");
        for text in ["acc_", "acc_0123456789abcde", "acc_0123456789abcdef0", "acc_0123456789ABCDEF"] {
            assert!(text.parse::<AccountId>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_scope_is_an_account_and_a_mode() {
        let scope: Scope = "acc_0123456789abcdef:live".parse().unwrap();
        assert_eq!(scope.mode, Mode::Live);
        assert_eq!(scope.to_string(), "acc_0123456789abcdef:live");
        for text in ["acc_0123456789abcdef", "acc_0123456789abcdef:LIVE", "acc_0123456789abcdef:live:"] {
            assert!(text.parse::<Scope>().is_err(), "{text}");
        }
    }
}
