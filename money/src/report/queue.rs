//! The queue of reports to make. A message only names a report; the worker reads the row.

use domain::ids::{ReportId, Scope};
use serde::{Deserialize, Serialize};

use shared::queue::{Message, Queue};

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ReportMessage {
    pub scope: Scope,
    pub report: ReportId,
}

pub type ReportQueue = Queue<ReportMessage>;

impl Message for ReportMessage {
    /// The message group is the scope, so that the reports of one do not delay those of others.
    fn group(&self) -> String {
        self.scope.to_string()
    }
}
