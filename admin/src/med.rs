//! `admin med`: lists, confirms and decides MED cases, and manages their evidence. The module [`notices`] has
//! `admin med notices`.
//!
//! Commands print a case as the merchant's API shows it, plus three fields for operators: `scope`, `moved`
//! and `unconfirmed`.

mod forward;
mod notices;

use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use domain::ids::{EvidenceId, MedCaseId, Scope};
use domain::med::{CaseStatus, Decision, MedCase};
use domain::time::Timestamp;
use money::med::evidence::{EvidenceView, MAX_BYTES};
use money::med::{CaseFilter, CaseView, DeadlineFilter, MOST_NEAREST, MOST_SORTED};

use crate::enum_parser::{enum_parser, enum_parser_with_help};
use crate::output::{With, print_list, print_next, record};
use crate::target::Stack;
use crate::{OperatorArguments, Result, ScopeArguments, print_json};

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// List the cases of an account in a mode, newest first, 100 at a time
    List {
        #[command(flatten)]
        scope: ScopeArguments,
        /// List only cases with this status
        #[arg(long, value_parser = enum_parser::<CaseStatus>())]
        status: Option<CaseStatus>,
        /// Print only the page's cases that await confirmation, because their amount differs from the
        /// charge's
        #[arg(long)]
        unconfirmed: bool,
        /// Continue after this case, the last one of the previous page (med_…)
        #[arg(long)]
        starting_after: Option<MedCaseId>,
        /// List the open cases whose deadline is not over and comes within this time, such as 24h or 2d, the nearest
        /// first, at most 200
        #[arg(long, value_name = "TIME", value_parser = parse_time, conflicts_with_all = ["status", "starting_after"])]
        deadline_within: Option<i64>,
    },
    /// Show one case
    Show {
        /// The case (med_…)
        id: MedCaseId,
    },
    /// Confirm a case whose amount differs from the charge's; the wallet then retains the case's amount
    Confirm(CaseArguments),
    /// Record the decision on a case, which ends it
    Decide {
        #[command(flatten)]
        case: CaseArguments,
        /// The decision, which also determines whether the merchant or the payer has the money
        #[arg(long, value_parser = enum_parser_with_help(describe))]
        decision: Decision,
    },
    /// Request evidence from the merchant
    RequestEvidence(CaseArguments),
    /// Show what evidence of a dispute can be sent to the payer's bank, and with --submit send it, once
    ///
    /// The appeal's text and one file for each field of evidence are sent. Without --file, the only file that can be
    /// sent is `uncategorized_file`.
    Forward {
        #[command(flatten)]
        case: CaseArguments,
        /// The field of a file, such as `mev_…=shipping_documentation`; of the files, only those named are sent
        #[arg(long, value_name = "FILE=FIELD", value_parser = parse_field)]
        file: Vec<(EvidenceId, String)>,
        /// Send it. The bank accepts no more afterwards
        #[arg(long)]
        submit: bool,
    },
    /// List and add evidence files of a case
    #[command(subcommand)]
    Evidence(EvidenceCommand),
    /// List, retry and dismiss notices of infractions whose Pix was not credited
    #[command(subcommand)]
    Notices(notices::Command),
}

impl Command {
    /// Whether it moves money, or no other command undoes it.
    pub(crate) fn is_final(&self) -> bool {
        matches!(
            self,
            Self::Confirm(_)
                | Self::Forward { submit: true, .. }
                | Self::Decide { .. }
                | Self::Notices(notices::Command::Retry { .. } | notices::Command::Dismiss { .. })
        )
    }
}

/// A case that a command changes
#[derive(Args, Debug)]
pub(crate) struct CaseArguments {
    /// The case (med_…)
    id: MedCaseId,
    #[command(flatten)]
    operator: OperatorArguments,
}

#[derive(Subcommand, Debug)]
pub(crate) enum EvidenceCommand {
    /// List a case's files, newest first, each with a link that works for five minutes
    List {
        /// The case (med_…)
        case: MedCaseId,
    },
    /// Add a file to an open or appealed case: PNG, JPEG, WebP, GIF or PDF, at most 10 MB
    Add {
        /// The case (med_…)
        case: MedCaseId,
        /// Path of the file
        file: PathBuf,
        #[command(flatten)]
        operator: OperatorArguments,
    },
}

fn parse_field(text: &str) -> Result<(EvidenceId, String), String> {
    let (id, field) = text.split_once('=').ok_or("must be FILE=FIELD")?;
    Ok((id.parse().map_err(|_| "must begin with the id of a file")?, field.to_owned()))
}

/// Seconds from hours or days.
fn parse_time(text: &str) -> Result<i64, &'static str> {
    let seconds = |count: &str, each: i64| Some(i64::from(count.parse::<u16>().ok()?).saturating_mul(each));
    let of_hours = text.strip_suffix('h').and_then(|hours| seconds(hours, 3_600));
    let of_days = || text.strip_suffix('d').and_then(|days| seconds(days, 24 * 3_600));
    of_hours.or_else(of_days).ok_or("must be hours or days, such as 24h or 2d")
}

fn describe(decision: Decision) -> &'static str {
    match decision {
        Decision::Merchant => "The merchant has the money: the claim was rejected",
        Decision::Payer => "The payer has the money: the claim was upheld",
        Decision::Withdrawn => "The merchant has the money: the payer withdrew the claim",
        Decision::ClosedWithoutRefund => {
            "The payer has the money: the case was closed without a decision on the claim"
        }
    }
}

fn printed(case: &MedCase) -> With<CaseView<'_>> {
    let more = record! { scope: case.scope, moved: case.moved, unconfirmed: case.unconfirmed };
    With { object: CaseView::new(case), more }
}

pub(crate) fn print(case: &MedCase) -> Result<()> {
    print_json(&printed(case))
}

pub(crate) async fn run(stack: &Stack, command: Command) -> Result<()> {
    let now = stack.clock.now();
    let case = match command {
        Command::List { scope, status, unconfirmed, starting_after, deadline_within } => {
            let scope = stack.existing_scope(scope).await?;
            if let Some(seconds) = deadline_within {
                return list_urgent(stack, &scope, now.saturating_plus_seconds(seconds), unconfirmed).await;
            }
            let filter = CaseFilter::by_status(status, starting_after);
            return list(stack, &scope, &filter, unconfirmed).await;
        }
        Command::Show { id } => find(stack, id).await?,
        Command::Confirm(CaseArguments { id, operator }) => {
            let case = find(stack, id).await?;
            if !case.unconfirmed {
                return Err("the case does not await confirmation".into());
            }
            stack.cases.confirm(case, &stack.operator(&operator), now).await?
        }
        Command::Decide { case: CaseArguments { id, operator }, decision } => {
            let case = find(stack, id).await?;
            let case = stack.cases.decide(case, decision, Some(&stack.operator(&operator)), now).await?;
            // Repeating the same decision has no effect and succeeds. A different decision fails, because the
            // case has ended.
            if !case.ended_by(decision) {
                return Err(already_over(&case).into());
            }
            case
        }
        Command::RequestEvidence(CaseArguments { id, operator }) => {
            let case = find_ongoing(stack, id).await?;
            stack.cases.request_evidence(case, Some(&stack.operator(&operator)), now).await?
        }
        Command::Forward { case: CaseArguments { id, operator }, file, submit } => {
            let case = find(stack, id).await?;
            let by = submit.then(|| stack.operator(&operator));
            return Box::pin(forward::run(stack, case, &file, by)).await;
        }
        Command::Evidence(command) => return evidence(stack, command).await,
        Command::Notices(command) => return notices::run(stack, command).await,
    };
    print(&case)
}

async fn list(stack: &Stack, scope: &Scope, filter: &CaseFilter, unconfirmed: bool) -> Result<()> {
    let cursor = stack.cases.find(filter.starting_after).await?;
    let page = stack.cases.list(scope, filter, cursor).await?;
    let wanted = page.items.iter().filter(|case| case.unconfirmed || !unconfirmed);
    print_list(stack, "cases", wanted.map(printed))?;
    print_next("cases", page.next_cursor)
}

async fn list_urgent(stack: &Stack, scope: &Scope, before: Timestamp, unconfirmed: bool) -> Result<()> {
    let filter = DeadlineFilter { limit: MOST_SORTED, starting_after: None, before: Some(before) };
    let (page, is_cut) = stack.cases.nearest(scope, filter, None).await?;
    let now = stack.clock.now();
    let wanted = page.items.iter().filter(|case| !case.is_past_deadline(now));
    let wanted = wanted.filter(|case| case.unconfirmed || !unconfirmed).take(MOST_NEAREST);
    print_list(stack, "cases", wanted.map(printed))?;
    if is_cut {
        let text =
            format!("the account has more than {MOST_SORTED} open cases; the newest ones are not listed");
        writeln!(std::io::stderr(), "{text}")?;
    }
    Ok(())
}

async fn evidence(stack: &Stack, command: EvidenceCommand) -> Result<()> {
    let now = stack.clock.now();
    let evidence = stack.evidence()?;
    let listed = match command {
        EvidenceCommand::List { case } => evidence.for_case(find(stack, case).await?.id).await?,
        EvidenceCommand::Add { case, file, operator } => {
            let (name, bytes) = read(&file)?;
            let case = find(stack, case).await?;
            let added = evidence.add(case, (&name, bytes), &stack.operator(&operator), now).await;
            vec![added?]
        }
    };
    let mut views = Vec::new();
    for item in &listed {
        views.push(EvidenceView::signed(item, &evidence.files, now).await?);
    }
    print_list(stack, "files", views)
}

/// Reads at most one byte more than the limit, so that the check of the length rejects a longer file.
fn read(path: &Path) -> Result<(String, Vec<u8>)> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(|| failed(&"has no name"))?;
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| failed(&error))?;
    file.take(u64::from(MAX_BYTES).saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|error| failed(&error))?;
    Ok((name.to_owned(), bytes))
}

pub(crate) async fn find(stack: &Stack, id: MedCaseId) -> Result<MedCase> {
    stack.cases.find(Some(id)).await?.ok_or_else(|| format!("there is no case {id}").into())
}

async fn find_ongoing(stack: &Stack, id: MedCaseId) -> Result<MedCase> {
    let case = find(stack, id).await?;
    if case.status.is_over() {
        return Err(already_over(&case).into());
    }
    Ok(case)
}

fn already_over(case: &MedCase) -> String {
    format!("the case is already {}", case.status.as_str())
}
