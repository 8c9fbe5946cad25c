//! `admin keys`: lists and revokes an account's API keys. It cannot print a key: the tables store only
//! fingerprints.

use clap::Subcommand;
use domain::ids::{AccountId, ApiKeyId};
use serde_json::json;
use shared::api_key::view::ListedKeyView;

use crate::output::print_list;
use crate::target::Stack;
use crate::{OperatorArguments, Result, print_json};

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// List an account's API keys, newest first
    List {
        /// The account (acc_…)
        account: AccountId,
    },
    /// Revoke an API key permanently: requests with it fail as soon as the command returns
    Revoke {
        /// The account (acc_…)
        account: AccountId,
        /// The key's id (key_…): key_ followed by the fingerprint that request logs show as `key`
        id: ApiKeyId,
        #[command(flatten)]
        operator: OperatorArguments,
    },
}

pub(crate) async fn run(stack: &Stack, command: Command) -> Result<()> {
    match command {
        Command::List { account } => {
            let keys = stack.api_keys.list(&stack.existing_account(&account).await?.id).await?;
            print_list(stack, "keys", keys.iter().map(ListedKeyView::new))
        }
        Command::Revoke { account, id, operator } => {
            let (operator, now) = (stack.operator(&operator), stack.clock.now());
            let revoked = stack.api_keys.revoke(&account, Some(&id), &operator, now).await;
            revoked?;
            print_json(&json!({"id": id, "revoked": true}))
        }
    }
}
