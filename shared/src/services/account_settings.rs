//! Changes an account's settings, and the copies of them in the rows of its API keys. A key's row contains a
//! copy, because authentication reads only that row.

use domain::account::{Account, AccountSettings};
use domain::audit::Operator;
use domain::ids::AccountId;
use domain::time::Timestamp;

use crate::account::{AccountError, Accounts};
use crate::api_key::ApiKeys;

/// Changes an account's settings and writes an audit row. Then updates the copy in each API key's row. If the
/// call was interrupted, repeating the same change updates the remaining keys.
///
/// # Errors
///
/// When the account does not exist, or the database does not answer.
pub async fn change_account_settings(
    (accounts, api_keys): (&Accounts, &ApiKeys),
    id: &AccountId,
    action: &str,
    change: impl Fn(&mut AccountSettings),
    operator: &Operator,
    now: Timestamp,
) -> Result<Account, AccountError> {
    let changed = accounts.change_settings(id, action, change, operator, now).await?;
    for key in api_keys.list(id).await? {
        api_keys.copy_settings_to_key(&key.fingerprint, &changed).await?;
    }
    Ok(changed)
}
