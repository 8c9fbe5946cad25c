//! What a test changes: behaviour, and faults.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Returns the behaviour with the fields that the changes name replaced.
/// Errors: When a field is unknown or of another type.
pub fn changed<T: Serialize + DeserializeOwned>(behaviour: &T, changes: &Value) -> serde_json::Result<T> {
    let mut fields = serde_json::to_value(behaviour)?;
    if let (Value::Object(fields), Value::Object(changes)) = (&mut fields, changes) {
        fields.extend(changes.clone());
    }
    serde_json::from_value(fields)
}

/// Faults that have not occurred: kind, what it occurs on, and how often. It occurs on everything that starts with this
/// text: a method and path such as `POST /v1/refunds`, or the type of a notification's event.
#[derive(Debug, Default)]
pub struct Faults(Vec<(&'static str, String, i64)>);

impl Faults {
    /// Adds a fault of the known kinds, which have spaces between them. An error lists them.
    pub fn inject(&mut self, kinds: &'static str, kind: &str, on: &str, count: i64) -> Result<(), String> {
        let known = kinds.split(' ').find(|known| *known == kind);
        let kind = known.ok_or_else(|| format!("unknown fault kind {kind:?}; use one of: {kinds}"))?;
        self.0.push((kind, on.to_owned(), count));
        Ok(())
    }

    /// True if the fault occurs now. Uses up one occurrence.
    pub fn take(&mut self, kind: &str, what: &str) -> bool {
        let mut faults = self.0.iter_mut();
        let found =
            faults.find(|(known, on, left)| *known == kind && *left > 0 && what.starts_with(on.as_str()));
        found.map(|(_, _, left)| *left = left.saturating_sub(1)).is_some()
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns what has not occurred yet.
    pub fn pending(&self) -> Value {
        let pending = self.0.iter().filter(|(_, _, left)| *left > 0);
        pending.map(|(kind, on, left)| json!({"kind": kind, "on": on, "count": left})).collect()
    }
}
