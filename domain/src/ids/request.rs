//! Ids of requests in the log of requests.

use uuid::Uuid;

use super::IdText;
use super::define::{digest, prefixed_id};
use crate::text::text_schema;
use crate::time::Timestamp;

/// The service's id of a request: `req_<uuid>`. It is the `X-Request-Id` of the response unless the client sent one.
///
/// If the client did, the first 64 bits are a hash of the client's id, and the time follows. So all requests with one
/// id of a client share a partition, in which they are sorted by time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LoggedRequestId(Uuid);

impl LoggedRequestId {
    /// The id of a request with an id of the client's. The time fits its bits until the year 4199. `random`: for two
    /// requests in one millisecond.
    pub fn of_client(client_id: &str, at: Timestamp, random: [u8; 2]) -> Self {
        let hash = digest("request", &[client_id.as_bytes()]);
        let [_, _, time @ ..] = at.millis().to_be_bytes();
        let mut bytes = [0; 16];
        for (byte, value) in bytes.iter_mut().zip(hash.iter().take(8).chain(&time).chain(&random)) {
            *byte = *value;
        }
        Self(uuid::Builder::from_custom_bytes(bytes).into_uuid())
    }

    /// The part of the id that all requests with the client's id share: 16 hex digits.
    pub fn group(&self) -> String {
        self.0.simple().to_string().chars().take(16).collect()
    }

    /// The group of requests with an id of a client.
    pub fn group_of(client_id: &str) -> String {
        Self::of_client(client_id, Timestamp::MIN, [0; 2]).group()
    }
}

/// An id has one spelling.
fn canonical(text: &str) -> Option<Uuid> {
    Uuid::try_parse(text).ok().filter(|id| id.hyphenated().to_string() == text)
}

prefixed_id!(LoggedRequestId, "req_", "req_ and a lower-case UUID", Uuid::hyphenated, canonical);
impl IdText for LoggedRequestId {
    const CHARS: usize = 40;
    const PATTERN: &'static str = "^req_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$";
}

text_schema!(LoggedRequestId, "The service's id of a request: `req_` and a UUID.", { "pattern": LoggedRequestId::PATTERN });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_with_one_id_of_a_client_share_a_group_and_sort_by_time() {
        let at = |millis| Timestamp::from_millis(millis).unwrap();
        let ids: Vec<String> = [(1, [9, 9]), (1_795_341_600_000, [0, 1]), (1_795_341_600_001, [0, 0])]
            .map(|(millis, random)| LoggedRequestId::of_client("order-1", at(millis), random))
            .into_iter()
            .map(|id| {
                assert_eq!(id.group(), LoggedRequestId::group_of("order-1"));
                id.to_string()
            })
            .collect();
        assert!(ids.is_sorted(), "{ids:?}");
        assert_ne!(LoggedRequestId::group_of("order-1"), LoggedRequestId::group_of("order-2"));
        let text = ids.last().unwrap();
        assert_eq!(text.parse::<LoggedRequestId>().unwrap().to_string(), *text);
        assert!(text.to_uppercase().parse::<LoggedRequestId>().is_err());
    }
}
