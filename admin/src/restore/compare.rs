//! `admin restore compare`: compares an account's rows with those in a copy of the state table, and copies single rows from
//! it.
//!
//! Both tables are read page by page in the order of their keys, so an account of any size fits in memory.

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use domain::account::Account;
use domain::audit::Action;
use domain::audit::chain::{self, Attributes};
use domain::ids::{AccountId, Mode, Scope};
use domain::row::Key;
use domain::shard::{ShardCount, ShardedScope};
use domain::wallet::Posting;
use money::wallet::counters;
use serde_json::Value;
use shared::account::Accounts;
use shared::audit;
use shared::concurrently;
use shared::store::{
    CommitOutcome, Item, ListIndex, Order, PageRange, RowUpdate, Store, StoreError, Write, from_item,
    integer, number, text,
};

use super::other_table;
use crate::output::{Record, record};
use crate::target::Stack;
use crate::{CommandOutcome, OperatorArguments, Result, print_json, short_text};

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Name of the copy of the state table, restored beside it
    #[arg(long, value_name = "TABLE")]
    from: String,
    /// The account (acc_…)
    #[arg(long)]
    account: AccountId,
    /// Only rows of this mode, and those of both modes: test or live [default: both]
    #[arg(long)]
    mode: Option<Mode>,
    /// Instead, copy this row from the copy, if `hash` is still what the comparison printed; can be repeated
    #[arg(long, num_args = 3, value_names = ["PK", "SK", "HASH"], requires_all = ["actor", "reason"])]
    copy_row: Vec<String>,
    /// Name of the operator, recorded in the audit row; required where the variable USER is not set
    #[arg(long, env = "USER", value_parser = short_text)]
    actor: Option<String>,
    /// Reason for the change, recorded in the audit row
    #[arg(long, value_parser = short_text, requires = "copy_row")]
    reason: Option<String>,
}

impl Arguments {
    pub(crate) fn copies(&self) -> bool {
        !self.copy_row.is_empty()
    }
}

const ROWS_PER_READ: usize = 100;

/// The most partitions that are compared at a time.
const CONCURRENT: usize = 16;

/// The attributes whose texts are states and names of the service, not of persons.
const SHOWN: [&str; 11] =
    ["account", "acquirer", "currency", "id", "kind", "list_pk", "method", "mode", "role", "state", "status"];

/// The attributes of charges, refunds and MED cases that other rows must agree with.
const OF_MONEY: &str = "amount costs currency disputes funds lost lost_later money_outcome moved movements receipt \
                        release_on returned reviewed scope settlement share shards status tranches unconfirmed";

/// Returns the attributes of a row that its copy must not change, because other rows or tables must agree with them.
/// Errors: Rows of this kind can't be copied.
fn kept(key: &Key) -> Result<&'static str> {
    let instead = match (kind(key), key.sk.as_str()) {
        ("charge", sk) if sk == "charge" || sk.starts_with("refund#") || sk.starts_with("case#") => {
            return Ok(OF_MONEY);
        }
        ("account", _) => return Ok("settings.shards"),
        ("user", "user") => return Ok("account password_hash password_set_at second_factor_at tokens"),
        ("endpoints", _) => return Ok("secret_version"),
        ("payment-link", "link") => return Ok("scope"),
        ("wallet" | "ledger", _) => {
            "a balance is the sum of its postings: see Mend a difference in docs/operations/ledger.md"
        }
        ("payout" | "payout-requests" | "reference", _) => "use `payouts` and `restore repeat-payouts`",
        ("receipts", _) => "use `receipts`",
        ("audit", _) => "the audit can only be appended to",
        _ => "other rows depend on it",
    };
    Err(format!("{} {}: a row of this kind can't be copied: {instead}", key.pk, key.sk).into())
}

/// The present table, and the copy.
#[derive(Clone)]
struct Tables {
    here: Store,
    copy: Store,
}

/// A row as it is in both tables.
struct Pair {
    key: Key,
    here: Option<Attributes>,
    copy: Option<Attributes>,
}

pub(super) async fn run(stack: &Stack, arguments: Arguments) -> Result<CommandOutcome> {
    let Arguments { from, account, mode, copy_row, actor, reason } = arguments;
    let tables = Tables { here: stack.store.clone(), copy: other_table(stack, &from)? };
    let shards = tables.shards(&account).await?;
    if let Some((actor, reason)) = actor.zip(reason) {
        let operator = OperatorArguments { actor, reason };
        for named in copy_row.chunks_exact(3) {
            if let [pk, sk, hash] = named {
                let key = Key { pk: pk.clone(), sk: sk.clone() };
                copy(stack, &tables, (account, key), hash, &operator).await?;
            }
        }
        return Ok(CommandOutcome::Succeeded);
    }
    let modes = mode.map_or_else(|| vec![Mode::Test, Mode::Live], |mode| vec![mode]);
    let scopes = modes.into_iter().map(|mode| ShardedScope { scope: Scope { account, mode }, shards });
    let (partitions, lists) = places(&account, &scopes.collect::<Vec<_>>());
    for partition in partitions {
        let mut after = Some(String::new());
        while let Some(from) = after {
            let (pairs, next) = tables.differing(&partition, &from).await?;
            pairs.iter().try_for_each(|pair| print_json(&pair.printed()))?;
            after = next;
        }
    }
    for list in lists {
        let mut after = Some(String::new());
        while let Some(from) = after {
            let (partitions, next) = tables.listed(&list, &from).await?;
            let compared = concurrently(CONCURRENT, partitions, |partition| {
                let tables = tables.clone();
                async move { tables.all_differing(&partition).await }
            });
            for pairs in compared.await {
                pairs?.iter().try_for_each(|pair| print_json(&pair.printed()))?;
            }
            after = next;
        }
    }
    Ok(CommandOutcome::Succeeded)
}

/// Returns the partitions of an account's rows, then the lists whose entries name one each.
fn places(account: &AccountId, scopes: &[ShardedScope]) -> (Vec<String>, Vec<String>) {
    let of_account =
        ["account", "acquirer", "payout-key", "sales-emails", "report-schedules", "reference", "med-notice"];
    let mut partitions: Vec<String> = of_account.iter().map(|name| format!("{name}#{account}")).collect();
    let mut lists = vec![format!("users#{account}")];
    for ShardedScope { scope, shards } in scopes {
        let of_scope = ["endpoints", "destinations", "payout-requests", "reports", "month-ends"];
        partitions.extend(of_scope.iter().map(|name| format!("{name}#{scope}")));
        partitions.extend(shards.shards().map(|shard| counters::partition(scope, shard)));
        partitions.extend(shards.shards().map(|shard| Posting::partition(scope, shard)));
        let of_payments = ShardCount::MAX.shards();
        partitions.extend(of_payments.map(|shard| shard.partition(format!("receipts#{scope}"))));
        lists.extend([format!("payouts#{scope}"), format!("payment-links#{scope}")]);
        lists.extend(shards.shards().map(|shard| shard.partition(format!("charges#{scope}"))));
    }
    (partitions, lists)
}

impl Tables {
    /// Returns the greatest number of shards that the account has in one of the tables.
    async fn shards(&self, account: &AccountId) -> Result<ShardCount> {
        let find = async |store: &Store| Accounts::new(store.clone()).find(account).await;
        let found = [find(&self.here).await?, find(&self.copy).await?];
        let shards = found.iter().flatten().map(|account: &Account| account.settings.shards.read).max();
        shards.ok_or_else(|| format!("neither table has an account {account}").into())
    }

    /// Returns the rows of a partition's page that differ, and the sort key at which the page ended; `None`: it is the last
    /// one.
    async fn differing(
        &self,
        partition: &str,
        after: &str,
    ) -> Result<(Vec<Pair>, Option<String>), StoreError> {
        let (partitions, page) = ([partition.to_owned()], page_after(after));
        let here = self.here.items_page(&partitions, page).await?;
        let copy = self.copy.items_page(&partitions, page).await?;
        let (rows, next) = paired([here, copy], |item| text(item, "sk"));
        let pair = |(sk, rows)| Pair::of(Key { pk: partition.to_owned(), sk }, rows);
        let pairs = rows.into_iter().map(pair).collect::<Result<Vec<_>, _>>()?;
        Ok((pairs.into_iter().filter(|pair| pair.here != pair.copy).collect(), next))
    }

    /// Like [`Self::differing`], of all pages of a small partition.
    async fn all_differing(&self, partition: &str) -> Result<Vec<Pair>, StoreError> {
        let (mut all, mut after) = (Vec::new(), Some(String::new()));
        while let Some(from) = after {
            let (pairs, next) = self.differing(partition, &from).await?;
            all.extend(pairs);
            after = next;
        }
        Ok(all)
    }

    /// Returns the partitions that a page of a list names in one of the tables, and where the page ended.
    async fn listed(
        &self,
        list: &str,
        after: &str,
    ) -> Result<(BTreeSet<String>, Option<String>), StoreError> {
        let (lists, page) = ([list.to_owned()], page_after(after));
        let here = self.here.entries_page((ListIndex::All, &lists), page).await?;
        let copy = self.copy.entries_page((ListIndex::All, &lists), page).await?;
        let (entries, next) = paired([here, copy], |entry| Some(entry.sort.clone()));
        Ok((entries.into_values().flatten().flatten().map(|entry| entry.key.pk).collect(), next))
    }
}

/// `after`: the sort key at which the previous page ended; empty: it is the first one.
fn page_after(after: &str) -> PageRange<'_> {
    let after = Some(after).filter(|after| !after.is_empty());
    PageRange { range: (" ", "\u{10ffff}"), order: Order::OldestFirst, after, limit: ROWS_PER_READ }
}

/// Pairs the entries of a page of each table up to the last sort key that both pages have reached. Returns that key, unless
/// both lists end.
fn paired<T>(
    pages: [(Vec<T>, bool); 2],
    sort: impl Fn(&T) -> Option<String>,
) -> (BTreeMap<String, [Option<T>; 2]>, Option<String>) {
    let last = |(entries, has_more): &(Vec<T>, bool)| entries.last().filter(|_| *has_more).and_then(&sort);
    let end = pages.iter().filter_map(last).min();
    let mut pairs: BTreeMap<String, [Option<T>; 2]> = BTreeMap::new();
    for (table, (entries, _)) in pages.into_iter().enumerate() {
        for entry in entries {
            let key = sort(&entry).filter(|key| end.as_ref().is_none_or(|end| key <= end));
            let pair = key.map(|key| pairs.entry(key).or_insert([None, None]));
            if let Some(place) = pair.and_then(|pair| pair.get_mut(table)) {
                *place = Some(entry);
            }
        }
    }
    (pairs, end)
}

impl Pair {
    fn of(key: Key, rows: [Option<Item>; 2]) -> Result<Self, StoreError> {
        let [here, copy] = rows.map(|row| row.map(from_item::<Attributes>).transpose());
        let mut pair = Self { key, here: here?, copy: copy? };
        // It is random for each write.
        [&mut pair.here, &mut pair.copy].into_iter().flatten().for_each(|row| drop(row.remove("put_id")));
        Ok(pair)
    }

    /// Identifies the content of the present row.
    fn hash(&self) -> String {
        let hash = self.here.as_ref().map(chain::hash_of);
        hash.and_then(|hash| hash.get(..16).map(str::to_owned)).unwrap_or_else(|| "absent".to_owned())
    }

    /// The attributes that differ, with both values.
    fn changes(&self) -> BTreeMap<String, [Value; 2]> {
        let mut changes = BTreeMap::new();
        if let (Some(here), Some(copy)) = (&self.here, &self.copy) {
            let object = |attributes: &Attributes| attributes.clone().into_iter().collect::<Value>();
            add_changes("", &object(here), &object(copy), &mut changes);
        }
        changes
    }

    fn printed(&self) -> Record {
        let state = match (&self.here, &self.copy) {
            (_, None) => "only_here",
            (None, Some(_)) => "only_in_copy",
            (Some(_), Some(_)) => "differs",
        };
        let Key { pk, sk } = &self.key;
        record! { state: state, kind: kind(&self.key), pk: pk, sk: sk, hash: self.hash(), changes: self.changes() }
    }
}

/// The kind of a row in `docs/data-model.md`.
fn kind(key: &Key) -> &str {
    key.pk.split('#').next().unwrap_or_default()
}

fn add_changes(path: &str, here: &Value, copy: &Value, changes: &mut BTreeMap<String, [Value; 2]>) {
    match (here, copy) {
        _ if here == copy => {}
        (Value::Object(in_here), Value::Object(in_copy)) => {
            for name in in_here.keys().chain(in_copy.keys()) {
                let inner = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                let [here, copy] = [in_here, in_copy].map(|object| object.get(name).unwrap_or(&Value::Null));
                add_changes(&inner, here, copy, changes);
            }
        }
        _ => {
            let name = path.rsplit('.').next().unwrap_or_default();
            changes.insert(path.to_owned(), [masked(name, here), masked(name, copy)]);
        }
    }
}

/// Hides texts and lists, which may be secret or personal.
fn masked(name: &str, value: &Value) -> Value {
    match value {
        Value::Number(_) | Value::Bool(_) | Value::Null => value.clone(),
        Value::String(_) if SHOWN.contains(&name) => value.clone(),
        Value::String(_) | Value::Array(_) | Value::Object(_) => "hidden".into(),
    }
}

/// Replaces a row as it is in the copy. Its version increases, so that no caller that has read the present row
/// overwrites it.
async fn copy(
    stack: &Stack,
    tables: &Tables,
    (account, key): (AccountId, Key),
    hash: &str,
    operator: &OperatorArguments,
) -> Result<()> {
    let kept = kept(&key)?;
    let refused = |why: &str| Err(format!("{} {}: {why}", key.pk, key.sk).into());
    let (here, copied) = (tables.here.get_item(&key).await?, tables.copy.get_item(&key).await?);
    // The insert of a row would cause events, and requests to acquirers.
    let (Some(here), Some(mut copied)) = (here, copied) else {
        return refused("only a row of both tables can be copied");
    };
    let owner = text(&copied, "scope").or_else(|| text(&copied, "account"));
    let owner = owner.or_else(|| key.pk.split('#').nth(1).map(str::to_owned)).unwrap_or_default();
    if !owner.starts_with(&account.to_string()) {
        return refused(&format!("the row is not of the account {account}"));
    }
    let pair = Pair::of(key.clone(), [Some(here.clone()), Some(copied.clone())])?;
    if pair.here == pair.copy {
        return print_json(&record! { state: "equal", pk: key.pk, sk: key.sk });
    }
    if pair.hash() != hash {
        return refused("the row has changed since it was compared: compare it again");
    }
    let changes = pair.changes();
    let of_others = |path: &&String| {
        kept.split(' ').any(|name| path.split('.').zip(name.split('.')).all(|(a, b)| a == b))
    };
    if let Some(path) = changes.keys().find(of_others) {
        return refused(&format!("{path} differs, and other rows must agree with it"));
    }
    if let Some(version) = integer(&here, "version") {
        copied.insert("version".to_owned(), number(version.saturating_add(1)));
    }
    copied.retain(|name, _| name != "pk" && name != "sk");
    let mut update = RowUpdate::of(key.clone());
    for (name, value) in here.iter().filter(|(name, _)| *name != "pk" && *name != "sk") {
        update = update.when(name, "=", value.clone());
        update = if copied.contains_key(name) { update } else { update.remove(name) };
    }
    update = update.set_all(copied);
    let (operator, now) = (stack.operator(operator), stack.clock.now());
    let action = Action::CopyRow { from: tables.copy.table().to_owned() };
    let audit = audit::by_operator(&operator, account, action, format!("{} {}", key.pk, key.sk), now)?;
    if tables.here.commit(vec![Write::update(update), Write::audit(&audit)]).await? != CommitOutcome::Done {
        return refused("the row was changed meanwhile: compare it again");
    }
    // The API keys have copies of the settings.
    if key == Account::key_of(&account) && !stack.is_dry_run {
        let copied = stack.existing_account(&account).await?;
        for api_key in stack.api_keys.list(&account).await? {
            stack.api_keys.copy_settings_to_key(&api_key.fingerprint, &copied).await?;
        }
    }
    print_json(&record! { state: "copied", pk: key.pk, sk: key.sk, changes: changes })
}
