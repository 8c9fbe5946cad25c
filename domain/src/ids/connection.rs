//! The id of a bank connection.

use super::define::{decode_80_bits, digest, encode_80_bits, first_80_bits, prefixed_id};

/// The id of a bank connection: `con_` and a hash of name, base URL and client id when the connection was first
/// set. It stays when they change. Accounts that begin with the same ones share a connection, with its limits
/// and its sweep.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(u128);

impl ConnectionId {
    /// Derives the id from the name, the base URL of the bank's API and the OAuth 2 client id.
    pub fn derive(name: &str, base_url: &str, client_id: &str) -> Self {
        Self(first_80_bits(&digest("connection", &[name, base_url, client_id].map(str::as_bytes))))
    }
}

prefixed_id!(
    ConnectionId,
    "con_",
    "con_ and 16 lower-case letters and digits",
    encode_80_bits,
    decode_80_bits
);

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
    }
}
