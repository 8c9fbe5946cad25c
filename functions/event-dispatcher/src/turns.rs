//! Keeps the changes of one account from delaying those of the others in a batch: the accounts take turns, and the
//! rest of a throttled account's changes is not attempted.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use domain::ids::Scope;
use shared::store::StoreError;

use crate::Change;

impl Change {
    /// The scope of the changed row. `None`: the change has no events.
    fn scope(&self) -> Option<Scope> {
        self.events.first().map(|event| event.scope)
    }
}

/// Sorts changes so that the scopes take turns: first one change of each scope, then another of each. The changes of
/// a scope stay in order.
pub(crate) fn in_turns(changes: Vec<Change>) -> Vec<Change> {
    let mut turns: HashMap<Option<Scope>, usize> = HashMap::new();
    let mut numbered: Vec<(usize, Change)> = changes
        .into_iter()
        .map(|change| {
            let turn = turns.entry(change.scope()).or_default();
            *turn = turn.saturating_add(1);
            (*turn, change)
        })
        .collect();
    numbered.sort_by_key(|(turn, _)| *turn);
    numbered.into_iter().map(|(_, change)| change).collect()
}

/// The scopes of a batch whose partitions DynamoDB throttles. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct ThrottledScopes(Arc<Mutex<HashSet<Scope>>>);

impl ThrottledScopes {
    /// Returns an error if a change of the same scope was throttled.
    pub(crate) fn check(&self, change: &Change) -> Result<(), StoreError> {
        let scopes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if change.scope().is_some_and(|scope| scopes.contains(&scope)) {
            return Err(StoreError::Throttled("another change of the account was throttled".to_owned()));
        }
        Ok(())
    }

    pub(crate) fn record<T>(&self, change: &Change, outcome: &Result<T, StoreError>) {
        if let (Some(scope), Err(StoreError::Throttled(_))) = (change.scope(), outcome) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(scope);
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::ids::Mode;
    use shared::webhook::event::Event;

    use super::*;
    use crate::tests::charges::waiting;

    fn change(mode: Mode, number: &str) -> Change {
        let charge = waiting();
        let charge = domain::charge::Charge { scope: Scope { mode, ..charge.scope }, ..charge };
        let urls = shared::config::PublicUrls::new("https://pay.example").unwrap();
        let events = Event::of_charge(None, &charge, &urls).unwrap().into_iter().collect();
        Change { number: number.to_owned(), events, resend: None, charge_version: 1 }
    }

    #[test]
    fn the_scopes_of_a_batch_take_turns() {
        let live = ["1", "2", "3"].map(|number| change(Mode::Live, number));
        let test = ["4", "5", "6"].map(|number| change(Mode::Test, number));
        let changes = live.into_iter().chain(test).collect();
        let order: Vec<String> = in_turns(changes).into_iter().map(|change| change.number).collect();
        assert_eq!(order, ["1", "4", "2", "5", "3", "6"]);
    }

    #[test]
    fn after_a_throttled_change_the_others_of_its_scope_are_not_attempted() {
        let throttled = ThrottledScopes::default();
        let (first, other) = (change(Mode::Live, "1"), change(Mode::Test, "2"));
        throttled.record::<()>(&first, &Err(StoreError::Unavailable(String::new())));
        throttled.check(&first).unwrap();
        throttled.record::<()>(&first, &Err(StoreError::Throttled(String::new())));
        assert!(matches!(throttled.check(&change(Mode::Live, "3")), Err(StoreError::Throttled(_))));
        throttled.check(&other).unwrap();
    }
}
