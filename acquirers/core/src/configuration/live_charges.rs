//! The stop of new live charges of all accounts. Its row is in the table of secrets, so that one request reads it
//! together with an account's acquirer.

use serde::{Deserialize, Serialize};

use domain::audit::{Action, Operator};
use domain::ids::AccountId;
use domain::row::{Key, Row};
use domain::time::Timestamp;

use super::repository::{AccountAcquirers, SettingsError};
use shared::audit;
use shared::store::{CommitOutcome, StoreError, Write};

/// The row that stops new live charges. Without the row, they are not stopped.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct LiveChargesStop {
    pub actor: String,
    pub reason: String,
    #[serde(with = "domain::time::millis")]
    pub at: Timestamp,
}

impl LiveChargesStop {
    pub(super) fn the_key() -> Key {
        Key { pk: "acquirer#stop".to_owned(), sk: "stop".to_owned() }
    }
}

impl Row for LiveChargesStop {
    fn key(&self) -> Key {
        Self::the_key()
    }
}

impl AccountAcquirers {
    pub async fn live_charges_stop(&self) -> Result<Option<LiveChargesStop>, StoreError> {
        self.secrets.get(&LiveChargesStop::the_key()).await
    }

    /// Stops new live charges of all accounts. Returns the earlier stop if there is one.
    pub async fn stop_live_charges(
        &self,
        by: &Operator,
        now: Timestamp,
    ) -> Result<LiveChargesStop, SettingsError> {
        let stop = LiveChargesStop { actor: by.actor.clone(), reason: by.reason.clone(), at: now };
        let audit = audit::by_operator(by, AccountId::STACK, Action::StopLiveCharges, "all accounts", now)?;
        let insert = Write::insert(&stop)?.in_table(self.secrets.table());
        match self.state.commit(vec![insert, Write::audit(&audit)]).await? {
            CommitOutcome::Done => Ok(stop),
            // If a concurrent call ended the earlier stop meanwhile, the caller repeats the command.
            CommitOutcome::Conflict { .. } => {
                let changed = || StoreError::Unavailable("the stop was changed at the same time".to_owned());
                Ok(self.live_charges_stop().await?.ok_or_else(changed)?)
            }
        }
    }

    /// Permits new live charges again. Returns `false` if they were not stopped.
    pub async fn resume_live_charges(&self, by: &Operator, now: Timestamp) -> Result<bool, SettingsError> {
        let audit = audit::by_operator(by, AccountId::STACK, Action::ResumeLiveCharges, "all accounts", now)?;
        let remove = Write::remove_existing(&LiveChargesStop::the_key()).in_table(self.secrets.table());
        let outcome = self.state.commit(vec![remove, Write::audit(&audit)]).await?;
        Ok(matches!(outcome, CommitOutcome::Done))
    }
}
