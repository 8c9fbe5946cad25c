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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::charges::at;
    use crate::tests::scopes;

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
