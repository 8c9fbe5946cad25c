//! The state of the bank and the rules that change it. No I/O, and no clock: the time is an argument.
//!
//! What must survive a restart is in [`Tables`], which record their changes. The caller takes the changes of
//! each operation and saves them.

mod cobs;
mod payments;
mod returns;
mod saved;
mod timers;
mod tokens;
mod webhooks;

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Value, json};

use crate::Client;
use crate::cob::Person;
use crate::fault::Faults;
use crate::pix::{Devolucao, PixOut};
use crate::problem::Problem;
use crate::profile::Behaviour;
use crate::values::rfc3339;

pub use payments::{Paid, PayError, PayRequest, Payer, ReportedTxid};
pub use returns::MedError;
pub(crate) use timers::Callback;

use saved::Tables;
use tokens::Token;

pub(crate) type Result<T> = std::result::Result<T, Problem>;

/// What a client requests, at a time in Unix milliseconds.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    pub(crate) now_ms: i64,
    pub(crate) client: usize,
}

pub(crate) struct State {
    seed: u64,
    behaviour: &'static Behaviour,
    clients: Vec<Client>,
    pub(crate) faults: Faults,
    serial: u64,
    /// The serial number when the changes were last taken.
    saved_serial: u64,
    tokens: BTreeMap<String, Token>,
    tables: Tables,
    /// The callbacks in the outbox that are not being sent yet, in order.
    unsent: VecDeque<u64>,
}

impl State {
    pub(crate) fn new(seed: u64, behaviour: &'static Behaviour, clients: Vec<Client>) -> Self {
        Self {
            seed,
            behaviour,
            clients,
            faults: Faults::default(),
            serial: 0,
            saved_serial: 0,
            tokens: BTreeMap::new(),
            tables: Tables::default(),
            unsent: VecDeque::new(),
        }
    }

    /// Returns a state without rows, tokens and faults. It continues the serial number, so that no id repeats.
    pub(crate) fn emptied(&self) -> Self {
        let new = Self::new(self.seed, self.behaviour, self.clients.clone());
        Self { serial: self.serial, ..new }
    }

    /// Returns the time as the bank writes it in cobs and Pix, by its clock. Both are in Unix milliseconds.
    pub(crate) fn time(&self, clock_ms: i64) -> i64 {
        clock_ms.saturating_add(self.behaviour.times_ahead_s.saturating_mul(1_000))
    }

    /// Returns the clients' ids. Rows refer to a client by its place.
    pub(crate) fn client_ids(&self) -> impl Iterator<Item = &String> {
        self.clients.iter().map(|client| &client.client_id)
    }

    fn next_serial(&mut self) -> u64 {
        self.serial = self.serial.saturating_add(1);
        self.serial
    }

    /// Returns all cobs, Pix and Pix out. Shows the payer and cob of a Pix in every profile, and includes Pix
    /// that are not visible yet.
    pub(crate) fn snapshot(&self) -> Value {
        let pix: Vec<Value> = self
            .tables
            .pix
            .values()
            .map(|pix| {
                json!({
                    "endToEndId": pix.end_to_end_id,
                    "txid": pix.txid,
                    "cob": pix.cob,
                    "chave": pix.key,
                    "valor": pix.amount.to_string(),
                    "horario": rfc3339(pix.at_ms),
                    "pagador": pix.payer.as_ref().map(Person::json),
                    "devolucoes": pix.returns.iter().map(Devolucao::json).collect::<Vec<_>>(),
                })
            })
            .collect();
        let cobs: Vec<Value> = self.tables.cobs.values().map(|cob| Value::Object(cob.json())).collect();
        let pix_out: Vec<Value> = self.tables.pix_out.values().map(PixOut::json).collect();
        json!({"cobs": cobs, "pix": pix, "pixOut": pix_out})
    }
}
