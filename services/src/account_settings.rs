//! An account's settings, and their copies in the rows of its API keys, because authentication reads only
//! those.

use domain::account::{Account, AccountSettings};
use domain::audit::{Action, Changed, Operator};
use domain::ids::AccountId;
use domain::shard::ShardCount;
use domain::time::Timestamp;

use shared::account::{AccountError, Accounts};
use shared::api_key::ApiKeys;

/// Writes the account's row, then the copy in each API key's row. After an interruption, the same change
/// updates the remaining keys.
pub async fn change_account_settings(
    (accounts, api_keys): (&Accounts, &ApiKeys),
    id: &AccountId,
    action: fn(Changed) -> Action,
    change: impl Fn(&mut AccountSettings),
    operator: &Operator,
    now: Timestamp,
) -> Result<Account, AccountError> {
    let changed = accounts.change(id, action, |of| &mut of.settings, change, operator, now).await?;
    for key in api_keys.list(id).await? {
        api_keys.copy_settings_to_key(&key.fingerprint, &changed).await?;
    }
    Ok(changed)
}

/// Raises an account's number of shards. An equal number updates the remaining keys after an interrupted call.
/// Readers get the number first, and new charges when all keys have it. So no reader leaves out a shard that
/// has rows.
pub async fn raise_shards(
    (accounts, api_keys): (&Accounts, &ApiKeys),
    id: &AccountId,
    shards: ShardCount,
    operator: &Operator,
    now: Timestamp,
) -> Result<Account, AccountError> {
    let present = accounts.find(id).await?.ok_or(AccountError::NotFound)?.settings.shards.read;
    if shards < present {
        return Err(AccountError::FewerShards { present: present.get() });
    }
    // The greater number wins over a concurrent call.
    let read = |settings: &mut AccountSettings| settings.shards.read = settings.shards.read.max(shards);
    let new_charges = |settings: &mut AccountSettings| {
        settings.shards.new_charges = settings.shards.new_charges.max(shards);
    };
    let tables = (accounts, api_keys);
    change_account_settings(tables, id, Action::SetShardsRead, read, operator, now).await?;
    change_account_settings(tables, id, Action::SetShards, new_charges, operator, now).await
}
