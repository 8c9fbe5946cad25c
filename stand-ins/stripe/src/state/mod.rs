//! The state of the stand-in and the rules that change it. No I/O but the file of the rows: the time is a field.
//!
//! Objects are stored as the API shows them. Fields whose names start with `_` are never shown.

mod balance;
mod disputes;
mod events;
mod intents;
mod payments;
mod refunds;
mod sessions;

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::io;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stand_in_kit::{Faults, Table};

use crate::behaviour::Behaviour;
use crate::error::ApiError;
use crate::form::Params;
use crate::routes::Route;
use crate::values::{at, int, merge, object, sha256, text};

pub(crate) use events::Delivery;

pub(crate) type Result<T> = std::result::Result<T, ApiError>;

pub(crate) const API_VERSION: &str = "2026-05-27.dahlia";

/// The first line of the file. A file with another one is refused.
const FORMAT: &str = "stripe-stand-in 1";

const DAY_S: i64 = 86_400;
/// The key of the row with the account.
pub(crate) const ACCOUNT: &str = "account/";
/// The key of the last serial number.
const SERIAL: &str = "serial/";

/// The lists of the books, with the starts of the objects' ids.
const BOOKS: &str = "sessions=cs_live_ payment_intents=pi_ charges=ch_|py_ refunds=re_|pyr_ disputes=d balance_transactions=txn_ files=file_";

/// Work that becomes due.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Timer {
    ExpireSession(String),
    EndIntent(String),
    Settle(String),
    AddBalanceTransaction(String),
    ForgetKey(String),
    Notify {
        event: String,
        endpoint: String,
        attempt: usize,
        /// True: it is sent earlier if another notification was accepted.
        is_held: bool,
    },
}

pub(crate) struct State {
    /// Rows by key. Objects have their ids as keys; keys of other rows contain a `/`.
    pub(crate) rows: Table<String, Value>,
    pub(crate) faults: Faults,
    pub(crate) behaviour: Behaviour,
    /// Unix seconds.
    pub(crate) now: i64,
    /// The API request that is executed, as its events name it.
    pub(crate) request: Value,
    /// The `Idempotency-Key`s of requests that are not answered yet, with the time when they are.
    pub(crate) in_use: BTreeMap<String, i64>,
    /// How many API requests there were since the start.
    pub(crate) requests: u64,
    /// The same by route.
    pub(crate) requests_by_route: BTreeMap<String, u64>,
    /// The origin of the payer's pages.
    origin: String,
    /// Of the account at its start. The ids of two accounts differ by it.
    country: String,
    /// The notifications in the outbox that are not being sent yet, in order.
    unsent: VecDeque<String>,
}

impl State {
    pub(crate) fn new(behaviour: Behaviour, origin: String, country: &str) -> Self {
        let mut rows = Table::default();
        rows.insert(ACCOUNT.to_owned(), account_in(&object("account", json!({})), country));
        Self {
            rows,
            faults: Faults::default(),
            behaviour,
            now: 0,
            request: Value::Null,
            in_use: BTreeMap::new(),
            requests: 0,
            requests_by_route: BTreeMap::new(),
            origin,
            country: country.to_owned(),
            unsent: VecDeque::new(),
        }
    }

    /// Removes all objects and faults. The serial number stays too, so that no id repeats.
    pub(crate) fn empty(&mut self) {
        self.faults.clear();
        self.unsent.clear();
        let kept = [ACCOUNT, SERIAL].map(|key| (key.to_owned(), self.rows.get(key).cloned()));
        self.rows = Table::default();
        self.rows.restore(kept);
    }

    fn next_serial(&mut self) -> i64 {
        let serial = self.rows.get(SERIAL).and_then(Value::as_i64).unwrap_or_default().saturating_add(1);
        self.rows.insert(SERIAL.to_owned(), serial.into());
        serial
    }

    /// Returns a new id of 10 digits and a part that looks random, so that ids have the order of their creation.
    fn new_id(&mut self, prefix: &str, random: usize) -> String {
        let serial = self.next_serial();
        let digest = sha256(format!("{prefix} {serial} {}", self.country).as_bytes());
        format!("{prefix}{serial:010}{}", digest.get(..random).unwrap_or_default())
    }

    fn put(&mut self, object: Value) {
        let id = text(&object, "id").to_owned();
        self.rows.insert(id, object);
    }

    fn patch(&mut self, id: &str, changes: Value) {
        if let Some(object) = self.rows.get_mut(id) {
            merge(object, changes);
        }
    }

    /// Returns an object with its fields that are not shown. Null if it does not exist.
    pub(crate) fn object(&self, id: &str) -> Value {
        self.rows.get(id).cloned().unwrap_or_default()
    }

    pub(crate) fn existing(&self, prefix: &str, param: &str, noun: &str, id: &str) -> Result<Value> {
        let object = self.object(id);
        let has_prefix = prefix.split('|').any(|prefix| id.starts_with(prefix));
        let is_found = has_prefix && !id.contains('/') && !object.is_null();
        if is_found { Ok(object) } else { Err(ApiError::not_found(param, noun, id)) }
    }

    /// Returns an object as the API shows it now. Null if it does not exist.
    pub(crate) fn view(&self, id: &str) -> Value {
        self.shown(&self.object(id))
    }

    fn shown(&self, object: &Value) -> Value {
        let mut object = object.clone();
        if text(&object, "object") == "balance_transaction" && int(&object, "available_on") <= self.now {
            merge(&mut object, json!({"status": "available"}));
        }
        if let Some(fields) = object.as_object_mut() {
            fields.retain(|name, _| !name.starts_with('_'));
        }
        object
    }

    /// Returns the objects whose ids have one of the prefixes, which `|` separates. Those of a prefix are the oldest
    /// first, with their fields that are not shown.
    pub(crate) fn objects(&self, prefixes: &str) -> impl DoubleEndedIterator<Item = &Value> {
        prefixes.split('|').flat_map(|prefix| self.rows.with_prefix(prefix)).map(|(_, object)| object)
    }

    /// Replaces ids by their objects at the paths of `expand`.
    pub(crate) fn expand(&self, value: &mut Value, params: &Params) -> Result<()> {
        for path in params.items("/expand").iter().filter_map(Value::as_str) {
            let names: Vec<&str> = path.split('.').collect();
            if names.len() > 4 || !self.expand_at(value, &names) {
                let message = format!("This property cannot be expanded ({path}).");
                return Err(ApiError::invalid("expand", "", message));
            }
        }
        Ok(())
    }

    fn expand_at(&self, value: &mut Value, names: &[&str]) -> bool {
        if let Some(items) = value.as_array_mut() {
            return items.iter_mut().all(|item| self.expand_at(item, names));
        }
        let Some((first, rest)) = names.split_first() else {
            return !text(value, "object").is_empty();
        };
        match value.get_mut(first) {
            Some(Value::Null) => true,
            Some(child) => {
                if let Some(id) = child.as_str() {
                    *child = self.view(id);
                }
                self.expand_at(child, rest)
            }
            None => false,
        }
    }

    /// Returns a page of the objects of a route, newest first.
    pub(crate) fn list(&self, route: &Route, params: &Params) -> Result<Value> {
        let limit = usize::try_from(params.int("/limit").unwrap_or(10)).unwrap_or_default();
        if !(1..=100).contains(&limit) || params.items("/types").len() > 20 {
            let message = "`limit` must be between 1 and 100, and `types` may have at most 20 items.";
            return Err(ApiError::invalid("limit", "parameter_invalid_integer", message));
        }
        let order = |object: &Value| (int(object, "created"), text(object, "id").to_owned());
        let before = match params.text("/starting_after") {
            Some(id) => Some(order(&self.existing(route.prefix, "starting_after", route.noun, id)?)),
            None => None,
        };
        let mut found: Vec<&Value> = self
            .objects(route.prefix)
            .filter(|object| before.as_ref().is_none_or(|before| order(object) < *before))
            .filter(|object| self.is_listed(object, params))
            .collect();
        found.sort_by_cached_key(|object| Reverse(order(object)));
        let data: Vec<Value> = found.iter().take(limit).map(|object| self.shown(object)).collect();
        Ok(json!({"object": "list", "url": route.path, "has_more": found.len() > limit, "data": data}))
    }

    fn is_listed(&self, object: &Value, params: &Params) -> bool {
        let created = int(object, "created");
        let bound = |place: &str, holds: fn(&i64, &i64) -> bool| {
            params.int(place).is_none_or(|bound| holds(&created, &bound))
        };
        let is_in_period = bound("/created", i64::eq)
            && bound("/created/gt", i64::gt)
            && bound("/created/gte", i64::ge)
            && bound("/created/lt", i64::lt)
            && bound("/created/lte", i64::le);
        let names = ["charge", "currency", "payment_intent", "source", "status", "type"];
        // A session whose `payment_intent` was cleared is still found by it.
        let is_equal = names.iter().all(|name| {
            params.text(&format!("/{name}")).is_none_or(|wanted| {
                text(object, name) == wanted || text(object, &format!("_{name}")) == wanted
            })
        });
        let types = params.items("/types");
        let is_done = params.flag("/delivery_success");
        let is_event = text(object, "object") != "event"
            || (created > self.now.saturating_sub(DAY_S.saturating_mul(30))
                && (types.is_empty() || types.iter().any(|name| name == text(object, "type")))
                && is_done.is_none_or(|done| done == (int(object, "pending_webhooks") == 0)));
        is_in_period && is_equal && is_event
    }

    fn schedule(&mut self, delay_s: i64, timer: &Timer) {
        let (due, serial) = (self.now.saturating_add(delay_s), self.next_serial());
        self.rows.insert(format!("timer/{due:012}/{serial:012}"), json!(timer));
    }

    /// Executes all timers that are due, each at its time, then sets the time.
    fn run_timers(&mut self, now: i64) {
        while let Some((due, key)) = self.first_timer().filter(|(due, _)| *due <= now) {
            self.now = self.now.max(due);
            match self.rows.remove(&key).and_then(|row| serde_json::from_value(row).ok()) {
                Some(Timer::ExpireSession(id)) => self.expire_by_time(&id),
                Some(Timer::EndIntent(id)) => self.end_by_time(&id),
                Some(Timer::Settle(id)) => self.settle(&id),
                Some(Timer::AddBalanceTransaction(id)) => {
                    self.settle_charge(&id);
                    self.emit("charge.updated", &id);
                }
                Some(Timer::ForgetKey(key)) => drop(self.rows.remove(&key)),
                Some(Timer::Notify { event, endpoint, attempt, .. }) => {
                    self.enqueue(&event, &endpoint, attempt);
                }
                None => {}
            }
        }
        self.now = now;
    }

    fn first_timer(&self) -> Option<(i64, String)> {
        let (key, _) = self.rows.with_prefix("timer/").next()?;
        Some((key.split('/').nth(1)?.parse().ok()?, key.clone()))
    }

    /// Stores the answer of a request with an `Idempotency-Key` for a day.
    pub(crate) fn store_answer(&mut self, key: &str, answer: Value) {
        self.rows.insert(format!("key/{key}"), answer);
        self.schedule(DAY_S, &Timer::ForgetKey(format!("key/{key}")));
    }

    /// Returns all objects but events by kind, with the fields that are not shown but the endpoints' secrets.
    pub(crate) fn books(&self) -> Value {
        let mut books =
            json!({"account": self.object(ACCOUNT), "unsent_notifications": self.pending_notifications()});
        for (name, prefix) in BOOKS.split(' ').filter_map(|book| book.split_once('=')) {
            merge(&mut books, json!({name: self.objects(prefix).collect::<Vec<&Value>>()}));
        }
        let endpoints: Vec<Value> = self.objects("we_").map(|endpoint| self.shown(endpoint)).collect();
        merge(&mut books, json!({"webhook_endpoints": endpoints}));
        books
    }
}

/// Moves an account to a country, whose methods it then takes. Boleto is Brazil's, and Multibanco and MB WAY are not.
pub(crate) fn account_in(account: &Value, country: &str) -> Value {
    let is_active = |is_taken| if is_taken { "active" } else { "inactive" };
    let (mut account, is_brazil) = (account.clone(), country == "BR");
    let currency = if is_brazil { "brl" } else { "eur" };
    let mut capabilities = at(&account, "/capabilities");
    let of_country = json!({
        "boleto_payments": is_active(is_brazil), "mb_way_payments": is_active(!is_brazil),
        "multibanco_payments": is_active(!is_brazil),
    });
    merge(&mut capabilities, of_country);
    merge(
        &mut account,
        json!({"country": country, "default_currency": currency, "capabilities": capabilities}),
    );
    account
}

impl stand_in_kit::Persistent for State {
    type Changes = BTreeMap<String, Option<Value>>;
    type Delivery = Delivery;

    fn header(&self) -> Value {
        FORMAT.into()
    }

    fn check_header(&self, line: &[u8]) -> io::Result<()> {
        if String::from_utf8_lossy(line).trim_matches('"') == FORMAT {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, "another version of the stand-in wrote it"))
    }

    fn take_changes(&mut self) -> Self::Changes {
        self.rows.take_changes().into_iter().collect()
    }

    fn restore(&mut self, saved: Self::Changes) {
        self.rows.restore(saved);
        // A notification that was being sent is sent again: its answer is unknown.
        self.unsent = self.rows.with_prefix("outbox/").map(|(key, _)| key.clone()).collect();
    }

    fn advance_to(&mut self, now_ms: i64) {
        self.run_timers(now_ms.div_euclid(1_000));
    }

    fn is_idle(&self) -> bool {
        self.unsent.is_empty() && self.first_timer().is_none()
    }

    fn next_delivery(&mut self) -> Option<Delivery> {
        self.next_notification()
    }
}
