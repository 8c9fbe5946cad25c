//! The id of the HTTP request that created a row, as rows and log lines contain it.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::base32;

/// The client's `X-Request-Id`, or the id that the service generated. A row passes it on to its events, so that
/// one search of the logs finds the request, its events and their deliveries. Only
/// the timeline of a charge shows the id of an earlier request: no other response and no webhook does.
///
/// A client chooses the text. So special characters are escaped, and it is cut to [`Self::MAX_BYTES`]. Rows
/// store a UUID, and a generated id, in 27 bytes, so that a typical charge's row stays within a kilobyte.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(from = "String", into = "String")]
pub struct StoredRequestId(Box<str>);

/// The first character of the stored form; base32 follows, for `=` the text.
const UUID: char = 'u';

const GENERATED: char = 'r';

const TEXT: char = '=';

const GENERATED_PREFIX: &str = "req_";

impl StoredRequestId {
    /// The most bytes of an id. A UUID with a prefix and a W3C `traceparent` fit.
    pub const MAX_BYTES: usize = 64;

    /// Escapes and cuts an id.
    pub fn new(id: &str) -> Self {
        let mut text = String::with_capacity(id.len().min(Self::MAX_BYTES));
        for character in id.escape_debug() {
            if text.len().saturating_add(character.len_utf8()) > Self::MAX_BYTES {
                break;
            }
            text.push(character);
        }
        Self(text.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn usual_uuid(text: &str) -> Option<u128> {
    let uuid = Uuid::try_parse(text).ok()?;
    (uuid.hyphenated().to_string() == text).then(|| uuid.as_u128())
}

fn decoded(text: &str) -> Option<Uuid> {
    base32::decode(text).map(Uuid::from_u128)
}

impl From<StoredRequestId> for String {
    fn from(id: StoredRequestId) -> Self {
        let (prefix, uuid) = match id.0.strip_prefix(GENERATED_PREFIX) {
            Some(uuid) => (GENERATED, uuid),
            None => (UUID, &*id.0),
        };
        match usual_uuid(uuid) {
            Some(value) => format!("{prefix}{}", base32::encode(value)),
            None => format!("{TEXT}{}", id.0),
        }
    }
}

impl From<String> for StoredRequestId {
    fn from(stored: String) -> Self {
        let uuid = |prefix| stored.strip_prefix(prefix).and_then(decoded);
        let text = if let Some(uuid) = uuid(UUID) {
            uuid.to_string()
        } else if let Some(uuid) = uuid(GENERATED) {
            format!("{GENERATED_PREFIX}{uuid}")
        } else {
            stored.strip_prefix(TEXT).unwrap_or(&stored).to_owned()
        };
        Self(text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_characters_are_escaped_and_long_ids_are_cut() {
        let stored = |id: &str| StoredRequestId::new(id).as_str().to_owned();
        assert_eq!(stored("order-17 é"), "order-17 é");
        assert_eq!(stored("a\u{202e}\"\u{2028}"), r#"a\u{202e}\"\u{2028}"#);
        assert_eq!(stored(&"x".repeat(512)), "x".repeat(64));
        assert_eq!(stored(&"é".repeat(256)), "é".repeat(32));
        assert_eq!(stored(&format!("{}é", "x".repeat(63))), "x".repeat(63));
    }

    #[test]
    fn a_stored_id_is_read_as_it_was_and_uuids_are_short() {
        const ID: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";
        for (id, bytes) in [
            (ID.to_owned(), 27),
            (format!("req_{ID}"), 27),
            (ID.to_uppercase(), 37),
            (format!("req_{}", ID.to_uppercase()), 41),
            ("order-17/attempt-1".to_owned(), 19),
            ("u".to_owned(), 2),
            (format!("u{}", base32::encode(7)), 28),
            ("=".to_owned(), 2),
        ] {
            let written: String = StoredRequestId::new(&id).into();
            assert_eq!(written.len(), bytes, "{written}");
            assert_eq!(StoredRequestId::from(written).as_str(), id);
        }
    }
}
