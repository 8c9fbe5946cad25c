//! `admin notifications`: lists the items of banks' notifications that can't be parsed and were set aside, and
//! removes each after an operator has examined it.

use std::io::Write;

use clap::{Args, Subcommand};
use domain::acquirer::SetAsideItem;
use domain::ids::{AccountId, EndToEndId};
use services::SetAsideItems;

use crate::output::{Record, print_list, print_next, record};
use crate::receipts::printed_pix;
use crate::target::Stack;
use crate::{OperatorArguments, Result, print_json};

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// List the items that were set aside, 100 at a time
    ///
    /// Without an account, prints the latest items of all accounts, newest first. With an account, prints its
    /// items by ascending id.
    List {
        /// The account (acc_…)
        #[arg(long)]
        account: Option<AccountId>,
        /// Continue after this item, the last one of the previous page (64 hex digits)
        #[arg(long, requires = "account", value_parser = item_id)]
        starting_after: Option<String>,
    },
    /// Show one item
    Show(ItemArguments),
    /// Remove an item that was examined
    Resolve {
        #[command(flatten)]
        item: ItemArguments,
        /// Also read this Pix back from the account's bank, as if the notification had named it (end-to-end
        /// id)
        #[arg(long, value_name = "END_TO_END_ID")]
        read_back: Option<EndToEndId>,
        #[command(flatten)]
        operator: OperatorArguments,
    },
}

/// An item of an account
#[derive(Args, Debug)]
pub(crate) struct ItemArguments {
    /// The item (64 hex digits)
    #[arg(value_parser = item_id)]
    id: String,
    /// The account (acc_…)
    #[arg(long)]
    account: AccountId,
}

/// Parses the id of an item: a SHA-256 hash in lower-case hex.
fn item_id(text: &str) -> Result<String, &'static str> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if text.len() == 64 && text.bytes().all(is_digit) {
        Ok(text.to_owned())
    } else {
        Err("must be 64 hex digits in lower case")
    }
}

fn printed(item: &SetAsideItem) -> Record {
    let SetAsideItem { account, connection, sha256, item, received_at } = item;
    record! { id: sha256, account: account, connection: connection, received_at: received_at, item: item }
}

pub(crate) async fn run(stack: &Stack, command: Command) -> Result<()> {
    let items = SetAsideItems::new(stack.store.clone());
    match command {
        Command::List { account: None, .. } => {
            let (latest, has_more) = items.latest().await?;
            print_all(stack, &latest)?;
            if has_more {
                writeln!(std::io::stderr(), "older items follow: name an account with --account")?;
            }
            Ok(())
        }
        Command::List { account: Some(account), starting_after } => {
            let account = stack.existing_account(&account).await?.id;
            let (page, has_more) = items.of_account(&account, starting_after.as_deref()).await?;
            print_all(stack, &page)?;
            print_next("items", page.last().filter(|_| has_more).map(|last| &last.sha256))
        }
        Command::Show(ItemArguments { id, account }) => {
            let account = stack.existing_account(&account).await?.id;
            print_json(&printed(&items.get(&account, &id).await?))
        }
        Command::Resolve { item: ItemArguments { id, account }, read_back, operator } => {
            let account = stack.existing_account(&account).await?.id;
            let (operator, now) = (stack.operator(&operator), stack.clock.now());
            let (item, pix) = items.resolve(&account, &id, read_back.as_ref(), &operator, now).await?;
            // As the Pix was known before.
            let read_back = pix.as_ref().map(printed_pix);
            print_json(&printed(&item).and(record! { read_back: read_back }))
        }
    }
}

fn print_all(stack: &Stack, items: &[SetAsideItem]) -> Result<()> {
    print_list(stack, "items", items.iter().map(printed))
}
