//! The part of the state that survives a restart: all tables and the serial number, but no token and no
//! fault.

use std::io;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stand_in_kit::{Row, Table};

use super::State;
use super::timers::{Callback, Timer};
use super::webhooks::Webhook;
use crate::cob::Cob;
use crate::pix::{Pix, PixOut};

/// The format of the lines. A file with another format is refused.
const FORMAT: u32 = 1;

/// The first line. Rows refer to clients by their place in this list.
#[derive(Deserialize)]
struct Header {
    format: u32,
    clients: Vec<String>,
}

/// Defines the tables, and what one operation changes in them.
macro_rules! tables {
    ($($(#[$doc:meta])* $name:ident: $key:ty => $row:ty,)*) => {
        #[derive(Default)]
        pub(crate) struct Tables {
            $($(#[$doc])* pub(super) $name: Table<$key, $row>,)*
        }

        /// Tables without a change are left out.
        #[derive(Default, PartialEq, Deserialize, Serialize)]
        #[serde(default, deny_unknown_fields)]
        pub(crate) struct Changes {
            #[serde(skip_serializing_if = "Option::is_none")]
            serial: Option<u64>,
            $(#[serde(skip_serializing_if = "Vec::is_empty")] $name: Vec<Row<$key, $row>>,)*
        }

        impl Tables {
            fn take_changes(&mut self, serial: Option<u64>) -> Changes {
                Changes { serial, $($name: self.$name.take_changes(),)* }
            }

            fn restore(&mut self, saved: Changes) {
                $(self.$name.restore(saved.$name);)*
            }
        }
    };
}

tables! {
    /// By client and txid.
    cobs: (usize, String) => Cob,
    /// By end-to-end id.
    pix: String => Pix,
    /// By client and id.
    pix_out: (usize, String) => PixOut,
    /// By key.
    webhooks: String => Webhook,
    /// By time and serial number.
    timers: (i64, u64) => Timer,
    /// Callbacks that are due and not answered yet, by number.
    outbox: u64 => Callback,
}

impl stand_in_kit::Persistent for State {
    type Changes = Changes;
    type Delivery = (u64, Callback);

    fn header(&self) -> Value {
        json!({"format": FORMAT, "clients": self.client_ids().collect::<Vec<_>>()})
    }

    fn check_header(&self, line: &[u8]) -> io::Result<()> {
        let invalid = |reason: String| Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        let header: Header = serde_json::from_slice(line)?;
        if header.format != FORMAT {
            return invalid("another version of the bank wrote the books".to_owned());
        }
        let mut clients = self.client_ids();
        if header.clients.iter().all(|known| clients.next() == Some(known)) {
            return Ok(());
        }
        let known = header.clients.join(", ");
        invalid(format!(
            "the books are those of the clients {known}; only further clients can be added at the end"
        ))
    }

    fn take_changes(&mut self) -> Changes {
        let serial = (self.serial != self.saved_serial).then_some(self.serial);
        self.saved_serial = self.serial;
        self.tables.take_changes(serial)
    }

    fn restore(&mut self, saved: Changes) {
        self.serial = saved.serial.unwrap_or(self.serial);
        self.tables.restore(saved);
        // A callback that was being sent is sent again: its answer is unknown.
        self.unsent = self.tables.outbox.keys().copied().collect();
    }

    fn advance_to(&mut self, now_ms: i64) {
        self.run_timers(self.time(now_ms));
    }

    fn is_idle(&self) -> bool {
        self.tables.timers.is_empty() && self.unsent.is_empty()
    }

    fn next_delivery(&mut self) -> Option<(u64, Callback)> {
        let number = self.unsent.pop_front()?;
        self.tables.outbox.get(&number).map(|callback| (number, callback.clone()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use stand_in_kit::Host;

    use super::*;
    use crate::profile::Profile;

    #[test]
    fn nothing_is_changed_after_the_end() {
        let state = State::new(0, Profile::Complete.behaviour(), Vec::new());
        let host = Host::open(state, None, Arc::new(|| 0)).unwrap();
        assert_eq!(host.change(|_, now_ms| now_ms).unwrap(), 0);
        host.books().close();
        let mut is_executed = false;
        assert!(host.change(|_, _| is_executed = true).is_err());
        assert!(!is_executed);
    }
}
