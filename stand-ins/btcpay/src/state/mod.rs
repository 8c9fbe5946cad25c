//! The state of the stand-in and the rules that change it. No I/O but the file of the rows: the time is a field.

mod invoice;
mod invoices;
mod webhooks;

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use stand_in_kit::{Faults, Row, Table};

use crate::behaviour::Behaviour;
use crate::decimal;
use crate::error::ApiError;
use crate::requests::Webhook;
pub(crate) use invoice::{Invoice, Status};
pub(crate) use webhooks::Delivery;
use webhooks::Queue;

pub(crate) type Result<T> = std::result::Result<T, ApiError>;

/// The ways in which the stand-in fails. `docs/laptop.md` describes them.
pub(crate) const KINDS: &str = "timeout lost_answer http_500 rate_limit lost_notification";
/// The payment method of the store: a bitcoin transaction.
pub(crate) const ON_CHAIN: &str = "BTC-CHAIN";

#[derive(Default)]
pub(crate) struct State {
    invoices: Table<String, Invoice>,
    webhooks: Table<String, Webhook>,
    /// The last serial number, in a row without name.
    serial: Table<String, u64>,
    /// When invoices expire and when their monitoring ends, in Unix milliseconds.
    timers: BTreeSet<(i64, String)>,
    /// What is not delivered yet, by webhook. The file does not have it.
    queues: BTreeMap<String, Queue>,
    pub(crate) faults: Faults,
    pub(crate) behaviour: Behaviour,
    pub(crate) now_ms: i64,
    pub(crate) api_key: String,
    pub(crate) store_id: String,
    /// The origin of the pages that invoices name.
    origin: String,
    /// How many API requests there were since the start, by route.
    pub(crate) requests_by_route: BTreeMap<&'static str, u64>,
}

impl State {
    pub(crate) fn new(behaviour: Behaviour, origin: String, api_key: String, store_id: String) -> Self {
        Self { behaviour, api_key, store_id, origin, ..Self::default() }
    }

    /// Removes all invoices, webhooks and faults. The serial number stays, so that no id repeats.
    pub(crate) fn empty(&mut self) {
        self.invoices = Table::default();
        self.webhooks = Table::default();
        self.timers.clear();
        self.queues.clear();
        self.faults.clear();
        // All rows must count as changed.
        self.next_serial();
    }

    fn next_serial(&mut self) -> u64 {
        let serial = self.serial.get("").copied().unwrap_or_default().saturating_add(1);
        self.serial.insert(String::new(), serial);
        serial
    }

    /// Returns a hash of a name and the store's id.
    fn hash(&self, name: &str) -> [u8; 32] {
        Sha256::digest(format!("{} {name}", self.store_id)).into()
    }

    /// Returns a new id of 22 characters in base58, as those of BTCPay Server.
    fn new_id(&mut self, kind: &str) -> String {
        let serial = self.next_serial();
        let hash = self.hash(&format!("{kind} {serial}"));
        bs58::encode(hash).into_string().chars().take(22).collect()
    }

    /// Returns the invoices, with what the API does not show, the sums by currency, and what waits to be delivered.
    pub(crate) fn books(&self) -> Value {
        let mut sums: BTreeMap<&str, (i128, i128)> = BTreeMap::new();
        for invoice in self.invoices.values().filter(|invoice| invoice.status == Status::Settled) {
            let (amount, paid) = sums.entry(&invoice.currency).or_default();
            *amount = amount.saturating_add(invoice.amount);
            *paid = paid.saturating_add(invoice.paid());
        }
        let sums = sums.into_iter().map(|(currency, (amount, paid))| {
            let amount = decimal::text(amount, decimal::places(currency));
            (currency, json!({"amount": amount, "paid_btc": decimal::btc(paid)}))
        });
        let settled: BTreeMap<&str, Value> = sums.collect();
        let invoices: Vec<Value> = self.newest_first().iter().rev().map(|row| self.book(row)).collect();
        json!({
            "store": self.store_id, "invoices": invoices, "settled_by_currency": settled,
            "webhooks": self.webhooks.iter().collect::<BTreeMap<_, _>>(),
            "unsent_notifications": self.unsent(), "webhook_queues": self.queues,
        })
    }
}

impl stand_in_kit::Persistent for State {
    type Changes = (Vec<Row<String, u64>>, Vec<Row<String, Invoice>>, Vec<Row<String, Webhook>>);
    type Delivery = Delivery;

    fn header(&self) -> Value {
        json!(["btcpay-stand-in 1", self.store_id])
    }

    fn check_header(&self, line: &[u8]) -> io::Result<()> {
        if serde_json::from_slice::<Value>(line).is_ok_and(|header| header == self.header()) {
            return Ok(());
        }
        Err(io::Error::other("another version of the stand-in or another store wrote it"))
    }

    fn take_changes(&mut self) -> Self::Changes {
        (self.serial.take_changes(), self.invoices.take_changes(), self.webhooks.take_changes())
    }

    fn restore(&mut self, (serial, invoices, webhooks): Self::Changes) {
        let timers = invoices.iter().filter_map(|(_, invoice)| Some(invoice.as_ref()?.timers()));
        self.timers.extend(timers.flatten());
        self.serial.restore(serial);
        self.invoices.restore(invoices);
        self.webhooks.restore(webhooks);
    }

    fn advance_to(&mut self, now_ms: i64) {
        while let Some((due_ms, id)) = self.timers.first().filter(|(due_ms, _)| *due_ms <= now_ms).cloned() {
            self.timers.pop_first();
            self.now_ms = self.now_ms.max(due_ms);
            self.watch(&id);
        }
        self.now_ms = now_ms;
    }

    fn is_idle(&self) -> bool {
        self.timers.is_empty() && self.unsent() == 0
    }

    fn next_delivery(&mut self) -> Option<Delivery> {
        self.next_webhook()
    }
}
