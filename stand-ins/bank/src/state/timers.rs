use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::State;
use crate::fault::FaultKind;
use crate::pix::MedNature;

/// The delay of a callback. The tests require less than a second.
const CALLBACK_DELAY_MS: i64 = 200;
/// The time until a devolução or a Pix out is final. The tests require less than two seconds.
pub(super) const SETTLEMENT_DELAY_MS: i64 = 1_500;
const LATE_CALLBACK_MS: i64 = 30 * 60_000;
/// The pauses after each attempt of a callback that failed. After the last attempt the bank drops the
/// callback.
const RETRY_DELAYS_MS: [i64; 6] = [1_000, 5_000, 30_000, 120_000, 600_000, 3_600_000];

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub(crate) enum Timer {
    Callback { end_to_end_id: String, attempt: usize },
    SettleDevolucao { end_to_end_id: String, id: String },
    SettlePixOut { client: usize, id: String },
    ReturnByMed { end_to_end_id: String },
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub(crate) struct Callback {
    pub(crate) url: String,
    pix: Vec<Value>,
    end_to_end_ids: Vec<String>,
    attempt: usize,
}

impl Callback {
    pub(crate) fn body(&self) -> Value {
        json!({"pix": self.pix})
    }
}

impl State {
    pub(super) fn schedule(&mut self, due_ms: i64, timer: Timer) {
        let serial = self.next_serial();
        self.tables.timers.insert((due_ms, serial), timer);
    }

    /// Schedules the callback of a Pix. The faults of notifications apply.
    pub(super) fn schedule_callback(&mut self, end_to_end_id: &str, now_ms: i64) {
        let is_reported = self.tables.pix.get(end_to_end_id).is_some_and(|pix| {
            pix.txid.is_some() || pix.cob.is_some() || self.behaviour.notifies_without_txid
        });
        if !is_reported || self.faults.take(FaultKind::LostNotification) {
            return;
        }
        let copies = if self.faults.take(FaultKind::DuplicateNotification) { 2 } else { 1 };
        let is_late = self.faults.take(FaultKind::LateNotification);
        let due_ms = now_ms.saturating_add(if is_late { LATE_CALLBACK_MS } else { CALLBACK_DELAY_MS });
        for _ in 0..copies {
            self.schedule(due_ms, Timer::Callback { end_to_end_id: end_to_end_id.to_owned(), attempt: 0 });
        }
    }

    /// Removes a callback that was sent. If it failed, schedules the next attempt.
    pub(crate) fn end_callback(&mut self, now_ms: i64, number: u64, is_accepted: bool) {
        let Some(callback) = self.tables.outbox.remove(&number).filter(|_| !is_accepted) else {
            return;
        };
        if let Some(delay_ms) = RETRY_DELAYS_MS.get(callback.attempt) {
            let attempt = callback.attempt.saturating_add(1);
            for end_to_end_id in callback.end_to_end_ids {
                self.schedule(now_ms.saturating_add(*delay_ms), Timer::Callback { end_to_end_id, attempt });
            }
        }
    }

    /// Executes all timers that are due. Each takes effect at the time for which it was scheduled.
    pub(crate) fn run_timers(&mut self, now_ms: i64) {
        while let Some(((due_ms, _), timer)) =
            self.tables.timers.remove_first_if(|(due_ms, _)| *due_ms <= now_ms)
        {
            match timer {
                Timer::Callback { end_to_end_id, attempt } => self.enqueue_callback(end_to_end_id, attempt),
                Timer::SettleDevolucao { end_to_end_id, id } => {
                    if let Some(item) = self
                        .tables
                        .pix
                        .get_mut(&end_to_end_id)
                        .and_then(|pix| pix.returns.iter_mut().find(|item| item.transfer.id == id))
                    {
                        item.transfer.settle(due_ms);
                        self.schedule_callback(&end_to_end_id, due_ms);
                    }
                }
                Timer::SettlePixOut { client, id } => {
                    if let Some(item) = self.tables.pix_out.get_mut(&(client, id)) {
                        item.transfer.settle(due_ms);
                    }
                }
                Timer::ReturnByMed { end_to_end_id } => {
                    // A devolução by the receiver may have left nothing to return.
                    let _ = self.return_by_med(due_ms, &end_to_end_id, None, MedNature::Fraud);
                }
            }
        }
    }

    fn enqueue_callback(&mut self, end_to_end_id: String, attempt: usize) {
        let Some(pix) = self.tables.pix.get(&end_to_end_id) else {
            return;
        };
        let Some(webhook) = self.tables.webhooks.get(&pix.key) else {
            return;
        };
        let url = callback_url(&webhook.url, self.behaviour.callback_suffix);
        let pix = pix.json(self.behaviour);
        let has_room = |last: &Callback| {
            last.url == url && last.attempt == attempt && last.pix.len() < self.behaviour.callback_max_pix
        };
        let last = self.unsent.back().copied();
        let last = last.filter(|number| self.tables.outbox.get(number).is_some_and(has_room));
        if let Some(last) = last.and_then(|number| self.tables.outbox.get_mut(&number)) {
            last.pix.push(pix);
            last.end_to_end_ids.push(end_to_end_id);
            return;
        }
        let number = self.tables.outbox.keys().next_back().map_or(1, |last| last.saturating_add(1));
        let callback = Callback { url, pix: vec![pix], end_to_end_ids: vec![end_to_end_id], attempt };
        self.tables.outbox.insert(number, callback);
        self.unsent.push_back(number);
    }
}

/// Appends the suffix to the path of a registered URL. A query string stays at the end.
fn callback_url(registered: &str, suffix: &str) -> String {
    let (path, query) =
        registered.split_once('?').map_or((registered, None), |(path, query)| (path, Some(query)));
    let path = if suffix.is_empty() { path } else { path.trim_end_matches('/') };
    match query {
        None => format!("{path}{suffix}"),
        Some(query) => format!("{path}{suffix}?{query}"),
    }
}
