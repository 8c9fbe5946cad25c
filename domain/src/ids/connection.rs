//! The id of a bank connection.

use std::fmt;
use std::str::FromStr;

use super::IdError;
use super::define::{digest, first_80_bits, id_traits};
use crate::base32;

/// The id of a bank connection: `con_` and a hash of name, base URL and client id when the connection was first
/// set. It stays when they change. Accounts that begin with the same ones share a connection, with its limits
/// and its sweep.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId([u8; Self::LEN]);

impl ConnectionId {
    const PREFIX: &str = "con_";
    const LEN: usize = 16;
    const EXPECTED: IdError = IdError { expected: "con_ and 16 lower-case letters and digits" };

    /// Derives the id from the name, the base URL of the bank's API and the OAuth 2 client id.
    pub fn derive(name: &str, base_url: &str, client_id: &str) -> Self {
        let hash = digest("connection", &[name, base_url, client_id].map(str::as_bytes));
        let mut characters = [0; Self::LEN];
        let mut rest = first_80_bits(&hash);
        for character in characters.iter_mut().rev() {
            *character = base32::character_of(rest);
            rest >>= 5;
        }
        Self(characters)
    }
}

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::PREFIX)?;
        f.write_str(std::str::from_utf8(&self.0).unwrap_or_default())
    }
}

impl FromStr for ConnectionId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let characters = text.strip_prefix(Self::PREFIX).ok_or(Self::EXPECTED)?;
        let characters: [u8; Self::LEN] = characters.as_bytes().try_into().map_err(|_| Self::EXPECTED)?;
        if characters.iter().all(|character| base32::is_character(*character)) {
            Ok(Self(characters))
        } else {
            Err(Self::EXPECTED)
        }
    }
}

id_traits!(ConnectionId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_id_depends_on_name_base_url_and_client_id() {
        let id = ConnectionId::derive("pix", "https://pix.example.com/v2", "loja");
        insta::assert_snapshot!(id, @"con_2pm78ntt1992z9hv");
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_ne!(id, ConnectionId::derive("pix", "https://pix.example.com/v2l", "oja"));
        assert_ne!(id, ConnectionId::derive("other", "https://pix.example.com/v2", "loja"));
        for text in ["", "con_", "con_0123456789abcde!", "con_0123456789ABCDEF", "acc_0123456789abcdef"] {
            assert_eq!(text.parse::<ConnectionId>(), Err(ConnectionId::EXPECTED), "{text}");
        }
    }
}
