//! The part of the state that survives a restart: all tables and the serial number, but no token and no
//! fault.

use serde::{Deserialize, Serialize};
use stand_in_kit::Row;

use super::State;
use super::timers::{Callback, Timer};
use super::webhooks::Webhook;
use crate::cob::Cob;
use crate::pix::{Pix, PixOut};

/// What one operation changed, as the books store it. Tables without a change are left out.
#[derive(Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Changes {
    #[serde(skip_serializing_if = "Option::is_none")]
    serial: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cobs: Vec<Row<(usize, String), Cob>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pix: Vec<Row<String, Pix>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pix_out: Vec<Row<(usize, String), PixOut>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    webhooks: Vec<Row<String, Webhook>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    timers: Vec<Row<(i64, u64), Timer>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    outbox: Vec<Row<u64, Callback>>,
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl State {
    pub(crate) fn take_changes(&mut self) -> Changes {
        // Every field is named, so that a new one can't be forgotten.
        let Self {
            serial,
            saved_serial,
            cobs,
            pix,
            pix_out,
            webhooks,
            timers,
            outbox,
            // Not saved. `unsent` follows from the outbox.
            seed: _,
            behaviour: _,
            clients: _,
            faults: _,
            tokens: _,
            unsent: _,
        } = self;
        let is_new = serial != saved_serial;
        *saved_serial = *serial;
        Changes {
            serial: is_new.then_some(*serial),
            cobs: cobs.take_changes(),
            pix: pix.take_changes(),
            pix_out: pix_out.take_changes(),
            webhooks: webhooks.take_changes(),
            timers: timers.take_changes(),
            outbox: outbox.take_changes(),
        }
    }

    /// Restores changes that were saved, in the order in which they were saved. They count as changes, so that those
    /// that are taken next lead from an empty state to this one.
    pub(crate) fn restore(&mut self, saved: Changes) {
        if let Some(serial) = saved.serial {
            self.serial = serial;
        }
        self.cobs.restore(saved.cobs);
        self.pix.restore(saved.pix);
        self.pix_out.restore(saved.pix_out);
        self.webhooks.restore(saved.webhooks);
        self.timers.restore(saved.timers);
        self.outbox.restore(saved.outbox);
        // A callback that was being sent is sent again: its answer is unknown.
        self.unsent = self.outbox.keys().copied().collect();
    }
}
