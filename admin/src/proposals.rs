//! `admin proposals`: commands that one operator proposes with `--propose`, and another approves. The row has the command's
//! words; the contents of the files that it reads are in the table of secrets until the proposal ends.

use std::collections::BTreeMap;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Subcommand, ValueHint};
use domain::hex;
use domain::ids::ProposalId;
use domain::proposal::{Person, Proposal, ProposalError, ProposalStatus, ProposedFile};
use domain::row::{Key, Row};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use shared::random;
use shared::store::{CommitOutcome, ListIndex, PageRange, Plan, Store, StoreError, Write};

use crate::output::{Record, print_list, print_next, record};
use crate::target::Stack;
use crate::{
    Arguments, Command as AnyCommand, CommandOutcome, OperatorArguments, Result, StackCommand, print_json,
};

const PAGE: usize = 100;

/// The most bytes of a file that a proposal takes along. A row has at most 400 KB.
const MAX_FILE_BYTES: usize = 64 * 1024;

/// The options that are not a part of the proposed command, and whether they have a value.
const NOT_PROPOSED: [(&str, bool); 11] = [
    ("--table", true),
    ("--api-keys-table", true),
    ("--secrets-table", true),
    ("--bucket", true),
    ("--stack", true),
    ("--ready-file", true),
    ("--actor", true),
    ("--json", false),
    ("--propose", false),
    ("--alone", false),
    ("--break-glass", false),
];

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// List the proposals, newest first, 100 at a time
    List {
        /// Print only the page's proposals that can be approved
        #[arg(long)]
        open: bool,
        /// Continue after this proposal, the last one of the previous page (pr_…)
        #[arg(long)]
        starting_after: Option<ProposalId>,
    },
    /// Show one proposal
    Show {
        /// The proposal (pr_…)
        id: ProposalId,
    },
    /// Run a proposed command, as a second person
    ///
    /// It is checked again. If it fails, approve it again within 24 hours of the proposal: a payout or a correction is made
    /// at most once, by its reference.
    Approve {
        /// The proposal (pr_…)
        id: ProposalId,
        #[command(flatten)]
        operator: OperatorArguments,
    },
    /// Reject a proposal before anybody approves it
    Reject {
        /// The proposal (pr_…)
        id: ProposalId,
        #[command(flatten)]
        operator: OperatorArguments,
    },
}

/// The contents of a proposal's files, by path. Its table is that of secrets.
#[derive(Debug, Deserialize, Serialize)]
struct Contents {
    id: ProposalId,
    contents: BTreeMap<String, String>,
}

impl Contents {
    fn key_of(id: ProposalId) -> Key {
        Key { pk: format!("proposal#{id}"), sk: "contents".to_owned() }
    }
}

impl Row for Contents {
    fn key(&self) -> Key {
        Self::key_of(self.id)
    }
}

/// What the command line proposes.
#[derive(Debug)]
pub(crate) struct Proposed {
    words: Vec<String>,
    files: Vec<String>,
    actor: String,
}

impl Proposed {
    /// `words`: those of the command line behind the program's name.
    pub(crate) fn new(words: impl Iterator<Item = String>, matches: &ArgMatches) -> Result<Self> {
        let (mut kept, mut words) = (Vec::new(), words);
        while let Some(word) = words.next() {
            let of = |(name, _): &&(&str, bool)| word.split('=').next() == Some(*name);
            match NOT_PROPOSED.iter().find(of) {
                None => kept.push(word),
                Some((_, true)) if !word.contains('=') => drop(words.next()),
                Some(_) => {}
            }
        }
        let (mut files, mut actor) = (Vec::new(), None);
        collect(&Arguments::command(), matches, &mut files, &mut actor);
        if files.iter().any(|file| file == "-") {
            return Err("name the file of the secret: a proposal can't take standard input along".into());
        }
        Ok(Self { words: kept, files, actor: actor.ok_or("the command has no actor")? })
    }
}

/// Collects the files that the arguments name, alone or as `NAME=FILE`, and the actor.
fn collect(
    command: &clap::Command,
    matches: &ArgMatches,
    files: &mut Vec<String>,
    actor: &mut Option<String>,
) {
    for argument in command.get_arguments().filter(|argument| !argument.is_global_set()) {
        let values = matches.try_get_raw(argument.get_id().as_str()).ok().flatten().into_iter().flatten();
        let mut values = values.map(|value| value.to_string_lossy().into_owned());
        match argument.get_value_hint() {
            ValueHint::AnyPath => files.extend(values),
            ValueHint::FilePath => {
                files.extend(values.filter_map(|named| Some(named.split_once('=')?.1.to_owned())));
            }
            _ if argument.get_id() == "actor" => *actor = values.next(),
            _ => {}
        }
    }
    if let Some((name, inner)) = matches.subcommand()
        && let Some(command) = command.find_subcommand(name)
    {
        collect(command, inner, files, actor);
    }
}

/// Writes the contents of the files, then the proposal.
pub(crate) async fn propose(stack: &Stack, proposed: Proposed) -> Result<CommandOutcome> {
    let Proposed { words, files, actor } = proposed;
    let (now, mut contents) = (stack.clock.now(), BTreeMap::new());
    for path in files {
        let content = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        if content.len() > MAX_FILE_BYTES {
            return Err(format!("{path} has more than {MAX_FILE_BYTES} bytes").into());
        }
        contents.insert(path, content);
    }
    let fingerprint = |content: &String| {
        let digest = hex::encode(Sha256::digest(content));
        digest.get(..16).unwrap_or_default().to_owned()
    };
    let proposed_files = contents
        .iter()
        .map(|(path, content)| ProposedFile { path: path.clone(), fingerprint: fingerprint(content) });
    let id = ProposalId::new(now, random::bytes()?);
    let proposal = Proposal {
        id,
        words,
        files: proposed_files.collect(),
        proposer: Person { name: actor, identity: stack.identity.clone() },
        status: ProposalStatus::Open,
        decider: None,
        because: None,
        created_at: now,
        updated_at: now,
        version: 1,
    };
    if !contents.is_empty() {
        commit(secrets(stack)?, vec![Write::insert(&Contents { id, contents })?]).await?;
    }
    commit(&stack.store, vec![Write::insert(&proposal)?]).await?;
    print_json(&printed(stack, &proposal))?;
    Ok(CommandOutcome::Succeeded)
}

async fn commit(store: &Store, writes: Vec<Write>) -> Result<()> {
    match store.commit(writes).await? {
        CommitOutcome::Done => Ok(()),
        CommitOutcome::Conflict { .. } => Err("another proposal has this id: propose it again".into()),
    }
}

fn secrets(stack: &Stack) -> Result<&Store> {
    stack.secrets.as_ref().ok_or_else(|| crate::target::NO_SECRETS_TABLE.into())
}

pub(crate) async fn run(stack: &Stack, command: Command) -> Result<CommandOutcome> {
    match command {
        Command::List { open, starting_after } => list(stack, open, starting_after).await?,
        Command::Show { id } => print_json(&printed(stack, &find(stack, id).await?))?,
        Command::Approve { id, operator } => return Box::pin(approve(stack, id, &operator)).await,
        Command::Reject { id, operator } => {
            let (by, now) = (stack.person(&operator), stack.clock.now());
            let rejected =
                update(stack, id, |proposal| proposal.rejected(&by, &operator.reason, now)).await?;
            forget(stack, &rejected).await?;
            print_json(&printed(stack, &rejected))?;
        }
    }
    Ok(CommandOutcome::Succeeded)
}

async fn approve(stack: &Stack, id: ProposalId, operator: &OperatorArguments) -> Result<CommandOutcome> {
    let (by, now) = (stack.person(operator), stack.clock.now());
    let proposal = find(stack, id).await?;
    let command = parsed(&proposal, &operator.actor)?;
    proposal.approved(&by, now)?;
    let contents = if proposal.files.is_empty() {
        BTreeMap::new()
    } else {
        let found: Option<Contents> = secrets(stack)?.get(&Contents::key_of(id)).await?;
        found.ok_or("the contents of the proposal's files are gone: propose it again")?.contents
    };
    let approved = update(stack, id, |proposal| proposal.approved(&by, now)).await?;
    let mut approving = stack.clone();
    let (proposer, reason) = (&approved.proposer.name, &operator.reason);
    approving.approved = Some(format!("{id}, proposed by {proposer}, approved because {reason}"));
    approving.brought = contents.into_iter().map(|(path, content)| (path.into(), content)).collect();
    let outcome = Box::pin(crate::run_on(&approving, command)).await;
    if matches!(outcome, Ok(CommandOutcome::Succeeded)) {
        let done = update(stack, id, |proposal| Ok(proposal.done(&by, stack.clock.now()))).await?;
        forget(stack, &done).await?;
    } else {
        // Others may approve it, or end it. What was done in part is done once, by its reference.
        update(stack, id, |proposal| Ok(proposal.failed(&by, stack.clock.now()))).await?;
    }
    outcome
}

/// The command of a proposal, whose actor is who approves.
fn parsed(proposal: &Proposal, actor: &str) -> Result<StackCommand> {
    let words = ["admin"].into_iter().chain(proposal.words.iter().map(String::as_str));
    let matches = Arguments::command().try_get_matches_from(words.chain(["--actor", actor]))?;
    match Arguments::from_arg_matches(&matches)?.command {
        AnyCommand::OnStack(command) if command.second_person().is_some() => Ok(command),
        _ => Err("the proposal is of no command that two persons decide".into()),
    }
}

async fn find(stack: &Stack, id: ProposalId) -> Result<Proposal> {
    let found: Option<Proposal> = stack.store.get(&Proposal::key_of(id)).await?;
    found.ok_or_else(|| format!("there is no proposal {id}").into())
}

async fn update(
    stack: &Stack,
    id: ProposalId,
    change: impl Fn(&Proposal) -> Result<Proposal, ProposalError>,
) -> Result<Proposal> {
    let plan = |stored: Option<Proposal>| {
        let stored = stored.ok_or_else(|| format!("there is no proposal {id}"))?;
        let next = change(&stored)?;
        Ok::<_, Box<dyn std::error::Error>>(Plan::Commit(vec![Write::replace(&next, stored.version)?], next))
    };
    stack.store.update("a proposal", &Proposal::key_of(id), plan).await
}

/// Removes the contents of a proposal's files.
async fn forget(stack: &Stack, proposal: &Proposal) -> Result<()> {
    if proposal.files.is_empty() {
        return Ok(());
    }
    let removed = secrets(stack)?.commit(vec![Write::remove_any(Contents::key_of(proposal.id))]).await;
    removed.map(drop).map_err(|error: StoreError| error.into())
}

/// Also removes the contents of files whose proposals have lapsed.
async fn list(stack: &Stack, open: bool, after: Option<ProposalId>) -> Result<()> {
    let after = after.map(|id| id.to_string());
    let page = PageRange::newest_first(("pr_", "pr_~"), after.as_deref(), PAGE);
    let partition = [Proposal::list_partition()];
    let (found, has_more): (Vec<Proposal>, bool) =
        stack.store.rows_page((ListIndex::All, &partition), page).await?;
    let now = stack.clock.now();
    let may_have_contents =
        |each: &&Proposal| !matches!(each.status, ProposalStatus::Done | ProposalStatus::Rejected);
    for lapsed in found.iter().filter(|each| each.lapses_at() <= now).filter(may_have_contents) {
        forget(stack, lapsed).await?;
    }
    let wanted = |proposal: &&Proposal| !open || proposal.status_at(now) == ProposalStatus::Open;
    print_list(stack, "proposals", found.iter().filter(wanted).map(|each| printed(stack, each)))?;
    print_next("proposals", found.last().filter(|_| has_more).map(|last| last.id))
}

fn printed(stack: &Stack, proposal: &Proposal) -> Record {
    record! {
        id: proposal.id,
        status: proposal.status_at(stack.clock.now()),
        command: line_of(&proposal.words),
        proposer: proposal.proposer,
        decider: proposal.decider,
        because: proposal.because,
        files: proposal.files,
        created_at: proposal.created_at,
        lapses_at: proposal.lapses_at(),
    }
}

/// The words as a shell reads them.
fn line_of(words: &[String]) -> String {
    let is_plain = |word: &str| {
        !word.is_empty() && word.chars().all(|char| char.is_alphanumeric() || "_-./:=@,+%".contains(char))
    };
    let quoted = words
        .iter()
        .map(|word| if is_plain(word) { word.clone() } else { format!("'{}'", word.replace('\'', r"'\''")) });
    quoted.collect::<Vec<_>>().join(" ")
}
