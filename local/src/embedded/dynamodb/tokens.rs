//! The idempotency tokens of recent transactions. Without them, a transaction that a client repeats after a lost
//! response is executed twice.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long a token is remembered, as on AWS.
const RETENTION: Duration = Duration::from_mins(10);
/// The maximum number of remembered tokens. It bounds the memory.
const MAX_TOKENS: usize = 200_000;

#[derive(Default)]
pub(super) struct Tokens {
    hashes: HashMap<String, u64>,
    /// The tokens in the order in which they were added.
    oldest_first: VecDeque<(Instant, String)>,
}

pub(super) enum Seen {
    Never,
    Same,
    WithOtherItems,
}

impl Tokens {
    pub(super) fn find(&mut self, token: &str, items: &Value) -> Seen {
        self.forget_expired(Instant::now());
        match self.hashes.get(token) {
            None => Seen::Never,
            Some(hash) if *hash == hash_of(items) => Seen::Same,
            Some(_) => Seen::WithOtherItems,
        }
    }

    pub(super) fn add(&mut self, token: String, items: &Value) {
        self.hashes.insert(token.clone(), hash_of(items));
        self.oldest_first.push_back((Instant::now(), token));
    }

    fn forget_expired(&mut self, now: Instant) {
        while let Some((added_at, token)) = self.oldest_first.front()
            && (now.duration_since(*added_at) > RETENTION || self.oldest_first.len() > MAX_TOKENS)
        {
            self.hashes.remove(token);
            self.oldest_first.pop_front();
        }
    }
}

/// The order of fields does not matter, because the text of an object is sorted.
fn hash_of(items: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    items.to_string().hash(&mut hasher);
    hasher.finish()
}
