//! Notes the scopes with new deliveries, so that the scheduler finds those whose message was lost
//! ([`shared::notes`]).

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use domain::ids::Scope;
use shared::notes::Period;
use shared::webhook::delivery::Deliveries;
use shared::webhook::queue::DeliveryMessage;

use crate::quarantine::Cause;
use crate::{Dispatcher, Failure};

/// The scopes that this process has noted in the present period. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct NotedScopes(Arc<Mutex<Option<ScopesOfPeriod>>>);

type ScopesOfPeriod = (Period, HashSet<Scope>);

impl NotedScopes {
    fn contains(&self, scope: &Scope, period: Period) -> bool {
        let noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        noted.as_ref().is_some_and(|(of, scopes)| *of == period && scopes.contains(scope))
    }

    fn add(&self, scope: Scope, period: Period) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (of, scopes) = noted.get_or_insert_with(|| (period, HashSet::new()));
        if *of != period {
            *of = period;
            scopes.clear();
        }
        scopes.insert(scope);
    }
}

impl Dispatcher {
    /// Notes the scopes of new deliveries, unless this process has noted them in this period. Returns the
    /// records whose scope was not noted. The stream repeats them, because otherwise only their messages
    /// would start these deliveries.
    pub(crate) async fn note_new(&self, new: &[(String, DeliveryMessage)]) -> Vec<Failure> {
        let period = Period::of(self.clock.now());
        let mut by_scope: HashMap<Scope, Vec<&String>> = HashMap::new();
        for (number, message) in new {
            // A delivery in the due index needs no note.
            if !message.due && !self.noted_scopes.contains(&message.scope, period) {
                by_scope.entry(message.scope).or_default().push(number);
            }
        }
        let deliveries = Deliveries::new(self.store.clone());
        let mut failures = Vec::new();
        for (scope, numbers) in by_scope {
            match deliveries.note_new(&scope, period).await {
                Ok(()) => self.noted_scopes.add(scope, period),
                Err(error) => {
                    tracing::error!(%scope, %error, "can't note that a scope has new deliveries");
                    let cause = Cause::from(&error);
                    failures.extend(numbers.into_iter().map(|number| (number.clone(), cause)));
                }
            }
        }
        failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::charges::at;
    use crate::tests::scopes;

    #[test]
    fn a_noted_scope_is_remembered_in_its_period() {
        let [one, other] = scopes();
        let (now, later) = (Period::of(at(0)), Period::of(at(24 * 60 * 60)));
        let noted = NotedScopes::default();
        assert!(!noted.contains(&one, now));
        noted.add(one, now);
        assert!(noted.contains(&one, now) && !noted.contains(&other, now) && !noted.contains(&one, later));
        noted.add(other, now);
        assert!(noted.contains(&one, now) && noted.contains(&other, now));
        noted.add(other, later);
        assert!(
            noted.contains(&other, later) && !noted.contains(&one, later) && !noted.contains(&other, now)
        );
    }
}
