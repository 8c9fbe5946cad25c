//! `admin med notices`: lists the notices of MED infractions whose Pix was not credited within 24 hours,
//! processes one once its Pix is credited, or dismisses it.

use std::io::Write;

use clap::{Args, Subcommand};
use domain::ids::AccountId;
use domain::med::{MedNotice, NoticeStatus};
use money::med::ContestedPix;

use super::print;
use crate::output::{Record, print_list, record};
use crate::target::Stack;
use crate::{OperatorArguments, Result, print_json};

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// List the notices that wait for an operator, newest first, 100 at a time
    ///
    /// A notice waits for an operator when its Pix was not credited to a charge of its account within 24
    /// hours.
    List {
        /// List only the notices of this account (acc_…)
        #[arg(long)]
        account: Option<AccountId>,
        /// Continue after this notice of the account, the last one of the previous page (`notice_id`)
        #[arg(long, requires = "account", value_parser = notice_id)]
        starting_after: Option<String>,
    },
    /// Show one notice, and where its Pix is
    Show(NoticeArguments),
    /// Process a notice whose Pix is credited meanwhile, and print its case
    ///
    /// Repeating the command changes nothing.
    Retry {
        #[command(flatten)]
        notice: NoticeArguments,
        #[command(flatten)]
        operator: OperatorArguments,
    },
    /// Dismiss a notice whose Pix is not credited, so that it is never processed
    ///
    /// Repeating the command changes nothing.
    Dismiss {
        #[command(flatten)]
        notice: NoticeArguments,
        #[command(flatten)]
        operator: OperatorArguments,
    },
}

/// A notice of an account
#[derive(Args, Debug)]
pub(crate) struct NoticeArguments {
    /// The notice (`notice_id`)
    #[arg(value_parser = notice_id)]
    id: String,
    /// The account (acc_…)
    #[arg(long)]
    account: AccountId,
}

/// The longest `notice_id`, in characters.
const MAX_NOTICE_ID_CHARS: usize = 64;

/// The adapter chose it, so its characters are not checked.
fn notice_id(text: &str) -> Result<String, String> {
    if (1..=MAX_NOTICE_ID_CHARS).contains(&text.chars().count()) {
        Ok(text.to_owned())
    } else {
        Err(format!("must be 1 to {MAX_NOTICE_ID_CHARS} characters"))
    }
}

fn printed(notice: &MedNotice) -> Record {
    let state = match notice.status {
        // The service still retries it.
        NoticeStatus::Waiting => "waiting",
        NoticeStatus::Unmatched if notice.dismissed_at.is_some() => "dismissed",
        NoticeStatus::Unmatched => "unmatched",
        NoticeStatus::Processed => "processed",
    };
    record! {
        notice_id: notice.notice_id,
        account: notice.account,
        connection: notice.connection,
        state: state,
        infraction_id: notice.infraction_id,
        infraction_status: notice.infraction_status,
        end_to_end_id: notice.end_to_end_id,
        amount: notice.amount,
        situation: notice.situation,
        reason: notice.reason,
        response_deadline: notice.response_deadline,
        reported_at: notice.reported_at,
        received_at: notice.received_at,
        dismissed_at: notice.dismissed_at,
        case: notice.case,
    }
}

fn printed_pix(pix: &ContestedPix) -> Record {
    match pix {
        ContestedPix::Unknown => record! { state: "unknown" },
        ContestedPix::Unconfirmed => record! { state: "unconfirmed" },
        ContestedPix::OtherAccount(account) => record! { state: "other_account", account: account },
        ContestedPix::Unmatched => record! { state: "unmatched" },
        ContestedPix::HeldForReview(charge) => record! { state: "held_for_review", charge: charge },
        ContestedPix::Returned(charge) => record! { state: "returned", charge: charge },
        ContestedPix::Credited(charge) => record! { state: "credited", charge: charge.as_stored().id },
    }
}

pub(crate) async fn run(stack: &Stack, command: Command) -> Result<()> {
    let (cases, now) = (&stack.cases, stack.clock.now());
    match command {
        Command::List { account, starting_after } => list(stack, account, starting_after).await,
        Command::Show(NoticeArguments { id, account }) => {
            let account = stack.existing_account(&account).await?.id;
            let notice = cases.get_notice(&account, &id).await?;
            let pix = printed_pix(&cases.contested_pix(&notice).await?);
            print_json(&printed(&notice).and(record! { pix: pix }))
        }
        Command::Retry { notice: NoticeArguments { id, account }, operator } => {
            let account = stack.existing_account(&account).await?.id;
            let case = cases.retry_notice(&account, &id, &stack.operator(&operator), now).await?;
            match cases.find(Some(case)).await? {
                Some(case) => print(&case),
                // A dry run opens no case.
                None => print_json(&record! { notice_id: id, case: case }),
            }
        }
        Command::Dismiss { notice: NoticeArguments { id, account }, operator } => {
            let account = stack.existing_account(&account).await?.id;
            let dismissed = cases.dismiss_notice(&account, &id, &stack.operator(&operator), now).await?;
            print_json(&printed(&dismissed))
        }
    }
}

async fn list(stack: &Stack, account: Option<AccountId>, starting_after: Option<String>) -> Result<()> {
    let account = match account {
        Some(account) => Some(stack.existing_account(&account).await?.id),
        None => None,
    };
    let cursor = match account.zip(starting_after) {
        Some((account, id)) => Some(stack.cases.get_notice(&account, &id).await?),
        None => None,
    };
    let (notices, has_more) = stack.cases.unmatched_notices(account.as_ref(), cursor.as_ref()).await?;
    // The index may still list a notice that was just processed or dismissed.
    let waiting = notices.iter().filter(|notice| notice.waits_for_operator());
    print_list(stack, "notices", waiting.map(printed))?;
    match (account, notices.last().filter(|_| has_more)) {
        (Some(_), Some(last)) => {
            // An adapter chooses the id, so it may contain characters that a shell interprets.
            writeln!(
                std::io::stderr(),
                "more notices follow: --starting-after with the `notice_id` {:?}",
                last.notice_id
            )?;
        }
        (None, Some(_)) => {
            writeln!(std::io::stderr(), "older notices follow: name an account with --account")?;
        }
        (_, None) => {}
    }
    Ok(())
}
