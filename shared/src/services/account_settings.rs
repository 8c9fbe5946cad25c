//! The settings of an account, and the copies of them that its API keys' rows carry.

use domain::account::{Account, AccountSettings};
use domain::audit::Operator;
use domain::ids::AccountId;
use domain::time::Timestamp;

use crate::account::{AccountRefused, Accounts};
use crate::api_key::ApiKeys;

/// Changes an account's settings, with an audit row, and then each of its keys' copies. Called again with the same change, it
/// updates the keys that an interrupted call left behind.
///
/// # Errors
///
/// When there is no such account, or the database does not answer.
pub async fn change_account_settings(
    (accounts, api_keys): (&Accounts, &ApiKeys),
    id: &AccountId,
    action: &str,
    change: impl Fn(&mut AccountSettings),
    operator: &Operator,
    now: Timestamp,
) -> Result<Account, AccountRefused> {
    let changed = accounts.change_settings(id, action, change, operator, now).await?;
    for key in api_keys.of_account(id).await? {
        api_keys.set_settings(&key.fingerprint, &changed).await?;
    }
    Ok(changed)
}
