//! Remembers which scopes have a row that this process need not write again. Without it, each batch of records writes
//! that row once more for each account.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use domain::ids::Scope;
use domain::time::Timestamp;

/// Scopes, each until a time. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct RememberedScopes(Arc<Mutex<HashMap<Scope, Timestamp>>>);

impl RememberedScopes {
    pub(crate) fn contains(&self, scope: &Scope, now: Timestamp) -> bool {
        let scopes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        scopes.get(scope).is_some_and(|until| now < *until)
    }

    pub(crate) fn add(&self, scope: Scope, until: Timestamp, now: Timestamp) {
        let mut scopes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        scopes.retain(|_, until| now < *until);
        scopes.insert(scope, until);
    }
}

/// How many new deliveries of a minute make a count due. Readers read the rows of somewhat more that are not counted.
const COUNTED_AT_ONCE: usize = 32;

/// Numbers of new deliveries, each since a time of the last minute. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct NewDeliveries(Arc<Mutex<HashMap<Scope, (Timestamp, usize)>>>);

impl NewDeliveries {
    /// Adds new deliveries of a scope. Returns whether they are so many that they must be counted.
    pub(crate) fn add(&self, scope: Scope, more: usize, now: Timestamp) -> bool {
        let mut numbers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        numbers.retain(|_, (since, _)| now.millis_since(*since) < 60_000);
        let (_, number) = numbers.entry(scope).or_insert((now, 0));
        *number = number.saturating_add(more);
        *number >= COUNTED_AT_ONCE
    }

    /// Begins again, because the deliveries of a scope will be counted.
    pub(crate) fn reset(&self, scope: &Scope) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(scope);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::charges::at;
    use crate::tests::scopes;

    #[test]
    fn the_deliveries_of_a_minute_are_counted_when_they_are_many() {
        let [one, other] = scopes();
        let numbers = NewDeliveries::default();
        assert!(!numbers.add(one, 31, at(0)) && !numbers.add(other, 31, at(59)));
        assert!(!numbers.add(one, 31, at(60)), "a minute later");
        assert!(numbers.add(one, 1, at(61)) && numbers.add(one, 1, at(61)));
        numbers.reset(&one);
        assert!(!numbers.add(one, 1, at(61)));
        assert!(numbers.add(other, 1, at(61)));
    }

    #[test]
    fn a_scope_is_remembered_until_its_time() {
        let [one, other] = scopes();
        let remembered = RememberedScopes::default();
        assert!(!remembered.contains(&one, at(0)));
        remembered.add(one, at(60), at(0));
        assert!(remembered.contains(&one, at(59)) && !remembered.contains(&other, at(59)));
        assert!(!remembered.contains(&one, at(60)));
        remembered.add(other, at(90), at(59));
        assert!(remembered.contains(&one, at(59)), "both are remembered");
        remembered.add(other, at(90), at(60));
        assert_eq!(remembered.0.lock().unwrap().len(), 1, "the first has ended");
    }
}
