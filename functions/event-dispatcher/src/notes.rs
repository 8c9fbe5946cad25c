//! Notes the scopes with new deliveries, so that the scheduler finds those whose message was lost
//! ([`shared::notes`]).

use std::collections::HashSet;
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
    /// Notes that a scope has new deliveries, unless this process has noted it in this period. Returns the
    /// records of the deliveries if the note failed. The stream repeats them, because otherwise only their
    /// messages would start these deliveries.
    pub(crate) async fn note_new(&self, scope: Scope, new: &[(String, DeliveryMessage)]) -> Vec<Failure> {
        let period = Period::of(self.clock.now());
        // A delivery in the due index needs no note.
        let undue: Vec<&String> =
            new.iter().filter(|(_, message)| !message.due).map(|(number, _)| number).collect();
        if undue.is_empty() || self.noted_scopes.contains(&scope, period) {
            return Vec::new();
        }
        match Deliveries::new(self.store.clone()).note_new(&scope, period).await {
            Ok(()) => {
                self.noted_scopes.add(scope, period);
                Vec::new()
            }
            Err(error) => {
                tracing::error!(%scope, %error, "can't note that a scope has new deliveries");
                let cause = Cause::from(&error);
                undue.into_iter().map(|number| (number.clone(), cause)).collect()
            }
        }
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
