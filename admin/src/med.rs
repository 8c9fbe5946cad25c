//! `admin med`: payers' claims to have payments back, and what merchants and operators say to them. Each command prints the case
//! as the merchant reads it, with what only operators see.

use std::error::Error;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use clap::Subcommand;
use domain::ids::{MedCaseId, Scope};
use domain::med::{CaseStatus, Decision, MedCase};
use serde::Serialize;
use shared::med::evidence::{EvidenceView, MAX_BYTES};
use shared::med::{CaseFilter, CaseView};

use crate::target::Stack;
use crate::word::{explained, word};
use crate::{OperatorArguments, ScopeArguments, announce, print_json};

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// A scope's cases, newest first, 100 at once
    List {
        #[command(flatten)]
        scope: ScopeArguments,
        /// open, appealed, accepted, rejected or closed
        #[arg(long, value_parser = word::<CaseStatus>())]
        status: Option<CaseStatus>,
        /// Of the 100, those that claim another amount than their charge's and wait to be confirmed
        #[arg(long)]
        unconfirmed: bool,
        /// The last case of the page before (med_…)
        #[arg(long)]
        starting_after: Option<MedCaseId>,
    },
    /// One case
    Show {
        /// The case (med_…)
        id: MedCaseId,
    },
    /// Confirm a case that claims another amount than its charge's: what it claims is retained
    Confirm {
        /// The case (med_…)
        id: MedCaseId,
        #[command(flatten)]
        operator: OperatorArguments,
    },
    /// End a case
    Decide {
        /// The case (med_…)
        id: MedCaseId,
        /// Who has the money now
        #[arg(long, value_parser = explained(outcome))]
        decision: Decision,
        #[command(flatten)]
        operator: OperatorArguments,
    },
    /// Ask the merchant for evidence
    RequestEvidence {
        /// The case (med_…)
        id: MedCaseId,
        #[command(flatten)]
        operator: OperatorArguments,
    },
    /// What was sent to prove a side of a case
    #[command(subcommand)]
    Evidence(EvidenceCommand),
}

#[derive(Subcommand, Debug)]
pub(crate) enum EvidenceCommand {
    /// A case's files, newest first, each with a link for five minutes
    List {
        /// The case (med_…)
        case: MedCaseId,
    },
    /// Add a file to a case that is not over: PNG, JPEG, WebP, GIF or PDF, of at most 10 MB
    Add {
        /// The case (med_…)
        case: MedCaseId,
        /// The file
        file: PathBuf,
        #[command(flatten)]
        operator: OperatorArguments,
    },
}

/// What a decision means, for the help.
fn outcome(decision: Decision) -> &'static str {
    match decision {
        Decision::Merchant => "The merchant: the payer's claim did not succeed",
        Decision::Payer => "The payer",
        Decision::Withdrawn => "The merchant: the payer withdrew the claim",
        Decision::ClosedWithoutRefund => "The payer, without a decision on the claim",
    }
}

/// A case, as it is printed.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    case: CaseView<'a>,
    scope: Scope,
    moved: i64,
    unconfirmed: bool,
}

fn print(case: &MedCase) -> Result<(), Box<dyn Error>> {
    let (scope, moved, unconfirmed) = (case.scope, case.moved.get(), case.unconfirmed);
    print_json(&Shown { case: CaseView::new(case), scope, moved, unconfirmed })
}

pub(crate) async fn run(stack: &Stack, command: Command) -> Result<(), Box<dyn Error>> {
    let now = stack.clock.now();
    let case = match command {
        Command::List { scope, status, unconfirmed, starting_after } => {
            stack.account(&scope.account).await?;
            let filter = CaseFilter::latest(status, starting_after);
            return list(stack, scope, &filter, unconfirmed).await;
        }
        Command::Show { id } => find(stack, id).await?,
        Command::Confirm { id, operator } => {
            let case = find(stack, id).await?;
            if !case.unconfirmed {
                return Err("the case claims nothing that waits to be confirmed".into());
            }
            announce(stack);
            stack.cases.confirm(case, &operator.operator(), now).await?
        }
        Command::Decide { id, decision, operator } => {
            let case = find(stack, id).await?;
            announce(stack);
            let (decision, operator) = (decision, operator.operator());
            let case = stack.cases.decide(case, decision, Some(&operator), now).await?;
            // Told again, it is done; another decision came too late.
            if !case.ended_by(decision) {
                return Err(already(&case).into());
            }
            case
        }
        Command::RequestEvidence { id, operator } => {
            let case = not_over(stack, id).await?;
            announce(stack);
            stack.cases.request_evidence(case, Some(&operator.operator()), now).await?
        }
        Command::Evidence(command) => return evidence(stack, command).await,
    };
    print(&case)
}

async fn list(
    stack: &Stack,
    scope: ScopeArguments,
    filter: &CaseFilter,
    unconfirmed: bool,
) -> Result<(), Box<dyn Error>> {
    let cursor = stack.cases.find(filter.starting_after).await?;
    let page = stack.cases.list(&scope.scope(), filter, cursor).await?;
    for case in page.cases.iter().filter(|case| case.unconfirmed || !unconfirmed) {
        print(case)?;
    }
    if let Some(next) = page.next_cursor {
        writeln!(std::io::stderr(), "there is more: --starting-after {next}")?;
    }
    Ok(())
}

async fn evidence(stack: &Stack, command: EvidenceCommand) -> Result<(), Box<dyn Error>> {
    let now = stack.clock.now();
    let evidence = stack.evidence()?;
    let listed = match command {
        EvidenceCommand::List { case } => evidence.of_case(find(stack, case).await?.id).await?,
        EvidenceCommand::Add { case, file, operator } => {
            let (name, bytes) = read(&file)?;
            let case = find(stack, case).await?;
            announce(stack);
            let added = evidence.add(case, (&name, bytes), &operator.operator(), now).await;
            vec![added?]
        }
    };
    for one in &listed {
        print_json(&EvidenceView::signed(one, &evidence.files, now).await?)?;
    }
    Ok(())
}

/// A file's name and its content, no more of it than shows that it is too long.
fn read(path: &Path) -> Result<(String, Vec<u8>), Box<dyn Error>> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(|| failed(&"has no name"))?;
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| failed(&error))?;
    file.take(u64::from(MAX_BYTES).saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|error| failed(&error))?;
    Ok((name.to_owned(), bytes))
}

async fn find(stack: &Stack, id: MedCaseId) -> Result<MedCase, Box<dyn Error>> {
    stack.cases.find(Some(id)).await?.ok_or_else(|| format!("there is no case {id}").into())
}

async fn not_over(stack: &Stack, id: MedCaseId) -> Result<MedCase, Box<dyn Error>> {
    let case = find(stack, id).await?;
    if case.status.is_over() {
        return Err(already(&case).into());
    }
    Ok(case)
}

fn already(case: &MedCase) -> String {
    format!("the case is {} already", case.status.as_str())
}
