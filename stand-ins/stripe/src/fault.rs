use serde_json::{Value, json};

/// The ways in which the stand-in fails. `docs/laptop.md` describes them.
const KINDS: &str = "timeout lost_answer slow http_500 stored_500 stored_500_after_write http_402 rate_limit lock_timeout key_expired no_permission lost_notification duplicate_notification late_notification malformed_entry reordered_notification refund_pending refund_requires_action refund_fails broken_voucher";

/// Faults that have not occurred: kind, what it occurs on, and how often. It occurs on everything that starts with this
/// text: a method and path such as `POST /v1/refunds`, or the type of a notification's event.
#[derive(Debug, Default)]
pub(crate) struct Faults(Vec<(&'static str, String, i64)>);

impl Faults {
    /// An error lists the known kinds.
    pub(crate) fn inject(&mut self, kind: &str, on: &str, count: i64) -> Result<(), String> {
        let known = KINDS.split(' ').find(|known| *known == kind);
        let kind = known.ok_or_else(|| format!("unknown fault kind {kind:?}; use one of: {KINDS}"))?;
        self.0.push((kind, on.to_owned(), count));
        Ok(())
    }

    /// True if the fault occurs now. Uses up one occurrence.
    pub(crate) fn take(&mut self, kind: &str, what: &str) -> bool {
        let mut faults = self.0.iter_mut();
        let found =
            faults.find(|(known, on, left)| *known == kind && *left > 0 && what.starts_with(on.as_str()));
        found.map(|(_, _, left)| *left = left.saturating_sub(1)).is_some()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns what has not occurred yet.
    pub(crate) fn pending(&self) -> Value {
        let pending = self.0.iter().filter(|(_, _, left)| *left > 0);
        pending.map(|(kind, on, left)| json!({"kind": kind, "on": on, "count": left})).collect()
    }
}
