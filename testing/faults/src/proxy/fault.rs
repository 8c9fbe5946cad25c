//! Which requests the injected faults affect.

use std::collections::VecDeque;

use crate::fault::Fault;

/// The injected faults.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// Each affects one request of its operation.
    pub(super) queue: VecDeque<(String, Fault)>,
    pub(super) lasting: Option<LastingFault>,
}

/// Affects requests until the next reset.
#[derive(Debug)]
pub(super) struct LastingFault {
    /// `None`: all operations.
    pub(super) operation: Option<String>,
    /// The body contains this text. Empty: any body.
    pub(super) text: String,
    /// One in so many of these requests fails.
    pub(super) period: usize,
    /// How many of these requests there were.
    pub(super) requests: usize,
    pub(super) fault: Fault,
}

impl Faults {
    /// A queued fault takes precedence over the other, and is removed from the queue.
    pub(super) fn next_for(&mut self, operation: &str, body: &[u8]) -> Option<Fault> {
        let index = self.queue.iter().position(|(queued, _)| *queued == operation);
        let queued = index.and_then(|index| self.queue.remove(index)).map(|(_, fault)| fault);
        let lasting = self.lasting.as_mut().filter(|lasting| {
            lasting.operation.as_deref().is_none_or(|affected| affected == operation)
                && String::from_utf8_lossy(body).contains(&lasting.text)
        });
        let lasting = lasting.and_then(|lasting| {
            lasting.requests = lasting.requests.saturating_add(1);
            lasting.requests.is_multiple_of(lasting.period).then_some(lasting.fault)
        });
        queued.or(lasting)
    }
}
