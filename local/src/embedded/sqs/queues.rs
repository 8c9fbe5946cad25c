//! The queues and their messages. No I/O but that of the journal, and no clock: the caller passes the time in
//! milliseconds.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::journal::{Change, Journal};

/// The attributes of a queue that was created without them, as on AWS.
const DEFAULTS: [(&str, &str); 5] = [
    (DELAY, "0"),
    ("MaximumMessageSize", "1048576"),
    (RETENTION, "345600"),
    ("ReceiveMessageWaitTimeSeconds", "0"),
    (VISIBILITY, "30"),
];

const DELAY: &str = "DelaySeconds";
const RETENTION: &str = "MessageRetentionPeriod";
const VISIBILITY: &str = "VisibilityTimeout";

/// Why a request failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The queue does not exist.
    NoQueue,
    /// A queue with this name and other attributes exists.
    OtherAttributes,
    /// The receipt handle is not one of this queue.
    Handle,
    /// The message is not in flight.
    NotInFlight,
    /// The journal could not be written.
    Io(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

type Result<T> = std::result::Result<T, Failure>;

/// A message.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Message {
    /// Unique in all queues. A message that was sent later has a higher number.
    pub(super) number: u64,
    pub(super) id: String,
    pub(super) body: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) group: Option<String>,
    /// The message attributes of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) attributes: Option<Value>,
    /// When it was sent, in milliseconds.
    pub(super) sent_at: i64,
    /// When it becomes visible, in milliseconds.
    pub(super) visible_at: i64,
    #[serde(default)]
    pub(super) receives: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) first_received_at: Option<i64>,
}

impl Message {
    /// Returns the handle of the last receipt.
    pub(super) fn receipt_handle(&self) -> String {
        format!("{}-{}-{}", self.number, self.receives, self.id)
    }
}

/// Returns the number of the message in a receipt handle.
fn number_in(handle: &str) -> Result<u64> {
    let number = handle.split_once('-').and_then(|(number, _)| number.parse().ok());
    number.ok_or(Failure::Handle)
}

/// A message to send.
pub(super) struct Draft {
    pub(super) id: String,
    pub(super) body: String,
    pub(super) group: Option<String>,
    pub(super) attributes: Option<Value>,
    /// In seconds; `None`: the delay of the queue.
    pub(super) delay: Option<i64>,
}

/// A queue.
#[derive(Debug, Default)]
struct Queue {
    /// `None`: the journal has messages of the queue, and it was not created since the start.
    attributes: Option<BTreeMap<String, String>>,
    created_at: i64,
    messages: BTreeMap<u64, Message>,
    /// The time at which each message becomes or became visible, with its number.
    order: BTreeSet<(i64, u64)>,
}

impl Queue {
    fn number_of(&self, name: &str) -> i64 {
        let set = self.attributes.as_ref().and_then(|attributes| attributes.get(name)).map(String::as_str);
        let default = || DEFAULTS.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        set.or_else(default).and_then(|value| value.parse().ok()).unwrap_or_default()
    }

    /// Returns the name of the dead-letter queue, and after how many receives messages move there.
    fn redrive(&self) -> Option<(String, u32)> {
        let policy: Value = serde_json::from_str(self.attributes.as_ref()?.get("RedrivePolicy")?).ok()?;
        let name = policy.get("deadLetterTargetArn")?.as_str()?.rsplit(':').next()?.to_owned();
        let most = policy.get("maxReceiveCount")?;
        let most = most.as_u64().or_else(|| most.as_str()?.parse().ok())?;
        Some((name, u32::try_from(most).ok()?))
    }

    fn put(&mut self, message: Message) {
        self.order.insert((message.visible_at, message.number));
        self.messages.insert(message.number, message);
    }

    fn remove(&mut self, number: u64) -> Option<Message> {
        let message = self.messages.remove(&number)?;
        self.order.remove(&(message.visible_at, number));
        Some(message)
    }
}

/// All queues.
#[derive(Debug)]
pub(super) struct Queues {
    by_name: BTreeMap<String, Queue>,
    next_number: u64,
    journal: Journal,
}

impl Queues {
    /// Returns no queues, which are in memory.
    pub(super) fn in_memory() -> Self {
        Self { by_name: BTreeMap::new(), next_number: 0, journal: Journal::in_memory() }
    }

    /// Reads the messages of a journal, and rewrites it with those that are left. Messages that were received are
    /// visible again, because their receivers were in the process that ended.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut queues = Self::in_memory();
        let mut queue_of: BTreeMap<u64, String> = BTreeMap::new();
        for change in Journal::read(path)? {
            match change {
                Change::Put { queue, message } => {
                    let number = message.number;
                    queues.next_number = queues.next_number.max(number.saturating_add(1));
                    if let Some(former) = queue_of.insert(number, queue.clone())
                        && let Some(former) = queues.by_name.get_mut(&former)
                    {
                        former.remove(number);
                    }
                    queues.by_name.entry(queue).or_default().put(message);
                }
                Change::Hidden { number, visible_at, receives, first_received_at } => {
                    let queue = queue_of.get(&number).and_then(|name| queues.by_name.get_mut(name));
                    if let Some(queue) = queue
                        && let Some(message) = queue.remove(number)
                    {
                        queue.put(Message { visible_at, receives, first_received_at, ..message });
                    }
                }
                Change::Deleted { number } => {
                    if let Some(queue) = queue_of.remove(&number)
                        && let Some(queue) = queues.by_name.get_mut(&queue)
                    {
                        queue.remove(number);
                    }
                }
            }
        }
        for queue in queues.by_name.values_mut() {
            for mut message in std::mem::take(&mut queue.messages).into_values() {
                queue.order.remove(&(message.visible_at, message.number));
                if message.receives > 0 {
                    message.visible_at = message.sent_at;
                }
                queue.put(message);
            }
        }
        let messages = queues
            .by_name
            .iter()
            .flat_map(|(name, queue)| queue.messages.values().map(move |message| (name.as_str(), message)));
        queues.journal = Journal::rewrite(path, messages)?;
        Ok(queues)
    }

    /// Creates a queue, unless it exists with the same attributes.
    pub(super) fn create(
        &mut self,
        name: &str,
        attributes: BTreeMap<String, String>,
        now: i64,
    ) -> Result<()> {
        let queue = self.by_name.entry(name.to_owned()).or_default();
        match &queue.attributes {
            Some(existing) if *existing != attributes => Err(Failure::OtherAttributes),
            Some(_) => Ok(()),
            None => {
                queue.attributes = Some(attributes);
                queue.created_at = now;
                Ok(())
            }
        }
    }

    /// Changes attributes of a queue.
    pub(super) fn set_attributes(&mut self, name: &str, changed: BTreeMap<String, String>) -> Result<()> {
        let queue = self.queue(name)?;
        queue.attributes.get_or_insert_default().extend(changed);
        Ok(())
    }

    /// Returns the attributes of a queue, with its numbers of messages.
    pub(super) fn attributes(&mut self, name: &str, now: i64) -> Result<BTreeMap<String, String>> {
        self.expire(name, now)?;
        let queue = self.queue(name)?;
        let mut attributes: BTreeMap<String, String> =
            DEFAULTS.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        attributes.extend(queue.attributes.clone().unwrap_or_default());
        let (mut visible, mut in_flight, mut delayed) = (0_u64, 0_u64, 0_u64);
        for message in queue.messages.values() {
            let count = match (message.visible_at <= now, message.receives) {
                (true, _) => &mut visible,
                (false, 0) => &mut delayed,
                (false, _) => &mut in_flight,
            };
            *count = count.saturating_add(1);
        }
        attributes.extend([
            ("ApproximateNumberOfMessages".to_owned(), visible.to_string()),
            ("ApproximateNumberOfMessagesDelayed".to_owned(), delayed.to_string()),
            ("ApproximateNumberOfMessagesNotVisible".to_owned(), in_flight.to_string()),
            ("CreatedTimestamp".to_owned(), queue.created_at.div_euclid(1_000).to_string()),
            ("LastModifiedTimestamp".to_owned(), queue.created_at.div_euclid(1_000).to_string()),
        ]);
        Ok(attributes)
    }

    /// Returns the names of the queues.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let created = self.by_name.iter().filter(|(_, queue)| queue.attributes.is_some());
        created.map(|(name, _)| name.as_str())
    }

    /// Checks that a queue exists.
    pub(super) fn check(&mut self, name: &str) -> Result<()> {
        self.queue(name).map(|_queue| ())
    }

    /// Sends messages. Returns the number of changes in the journal that must be synced.
    pub(super) fn send(&mut self, name: &str, drafts: Vec<Draft>, now: i64) -> Result<u64> {
        let default_delay = self.queue(name)?.number_of(DELAY);
        let mut changes = Vec::with_capacity(drafts.len());
        for draft in drafts {
            let delay = draft.delay.unwrap_or(default_delay);
            let message = Message {
                number: self.next_number,
                id: draft.id,
                body: draft.body,
                group: draft.group,
                attributes: draft.attributes,
                sent_at: now,
                visible_at: now.saturating_add(delay.saturating_mul(1_000)),
                receives: 0,
                first_received_at: None,
            };
            self.next_number = self.next_number.saturating_add(1);
            changes.push(Change::Put { queue: name.to_owned(), message });
        }
        let appended = self.journal.append(&changes)?;
        let queue = self.queue(name)?;
        for change in changes {
            if let Change::Put { message, .. } = change {
                queue.put(message);
            }
        }
        Ok(appended)
    }

    /// Receives visible messages, the longest visible first. `hidden`: for how long they are hidden, in seconds;
    /// `None`: the visibility timeout of the queue. Moves messages that were received too often to the
    /// dead-letter queue.
    pub(super) fn receive(
        &mut self,
        name: &str,
        most: usize,
        hidden: Option<i64>,
        now: i64,
    ) -> Result<Vec<Message>> {
        self.expire(name, now)?;
        let queue = self.queue(name)?;
        let hidden = hidden.unwrap_or_else(|| queue.number_of(VISIBILITY));
        let visible_at = now.saturating_add(hidden.saturating_mul(1_000));
        let redrive = queue.redrive();
        let (mut received, mut dead, mut changes) = (Vec::new(), Vec::new(), Vec::new());
        while received.len() < most
            && let Some((_, number)) = queue.order.first().copied().filter(|(at, _)| *at <= now)
            && let Some(mut message) = queue.remove(number)
        {
            if let Some((dead_letters, _)) = redrive.as_ref().filter(|(_, most)| message.receives >= *most) {
                message.visible_at = now;
                changes.push(Change::Put { queue: dead_letters.clone(), message: message.clone() });
                dead.push(message);
                continue;
            }
            message.receives = message.receives.saturating_add(1);
            message.first_received_at.get_or_insert(now);
            message.visible_at = visible_at;
            let Message { number, visible_at, receives, first_received_at, .. } = message;
            changes.push(Change::Hidden { number, visible_at, receives, first_received_at });
            received.push(message);
        }
        for message in &received {
            queue.put(message.clone());
        }
        if let Some((dead_letters, _)) = redrive {
            let dead_letters = self.by_name.entry(dead_letters).or_default();
            for message in dead {
                dead_letters.put(message);
            }
        }
        self.record(&changes);
        Ok(received)
    }

    /// Deletes a received message. A handle of an earlier receipt deletes nothing.
    pub(super) fn delete(&mut self, name: &str, handle: &str) -> Result<()> {
        let queue = self.queue(name)?;
        let number = number_in(handle)?;
        if queue.messages.get(&number).is_some_and(|message| message.receipt_handle() == handle) {
            queue.remove(number);
            self.record(&[Change::Deleted { number }]);
        }
        Ok(())
    }

    /// Hides a received message for some seconds from now on.
    pub(super) fn hide(&mut self, name: &str, handle: &str, seconds: i64, now: i64) -> Result<()> {
        let queue = self.queue(name)?;
        let number = number_in(handle)?;
        let is_in_flight =
            |message: &&Message| message.receipt_handle() == handle && message.visible_at > now;
        queue.messages.get(&number).filter(is_in_flight).ok_or(Failure::NotInFlight)?;
        let message = queue.remove(number).ok_or(Failure::NotInFlight)?;
        let visible_at = now.saturating_add(seconds.saturating_mul(1_000));
        let Message { receives, first_received_at, .. } = message;
        queue.put(Message { visible_at, ..message });
        self.record(&[Change::Hidden { number, visible_at, receives, first_received_at }]);
        Ok(())
    }

    /// Deletes all messages of a queue.
    pub(super) fn purge(&mut self, name: &str) -> Result<()> {
        let queue = self.queue(name)?;
        queue.order.clear();
        let purged = std::mem::take(&mut queue.messages);
        let changes: Vec<Change> = purged.into_keys().map(|number| Change::Deleted { number }).collect();
        self.record(&changes);
        Ok(())
    }

    /// Whether the queue has messages that become visible later, without a request.
    pub(super) fn has_hidden(&mut self, name: &str, now: i64) -> Result<bool> {
        Ok(self.queue(name)?.order.last().is_some_and(|(at, _)| *at > now))
    }

    /// Deletes the messages of a queue whose retention has ended.
    fn expire(&mut self, name: &str, now: i64) -> Result<()> {
        let queue = self.queue(name)?;
        let kept_since = now.saturating_sub(queue.number_of(RETENTION).saturating_mul(1_000));
        let mut changes = Vec::new();
        while let Some((number, _)) = queue.messages.first_key_value().filter(|(_, m)| m.sent_at < kept_since)
        {
            let number = *number;
            queue.remove(number);
            changes.push(Change::Deleted { number });
        }
        self.record(&changes);
        Ok(())
    }

    fn queue(&mut self, name: &str) -> Result<&mut Queue> {
        self.by_name.get_mut(name).filter(|queue| queue.attributes.is_some()).ok_or(Failure::NoQueue)
    }

    /// Appends changes that need no sync. If they are lost, messages are received again.
    fn record(&mut self, changes: &[Change]) {
        if changes.is_empty() {
            return;
        }
        let mut recorded = self.journal.append(changes).map(|_appended| ());
        if self.by_name.values().all(|queue| queue.messages.is_empty()) {
            recorded = recorded.and_then(|()| self.journal.truncate_if_long());
        }
        if let Err(error) = recorded {
            tracing::error!(%error, "the queues' log can't be written; messages may be received again after a restart");
        }
    }
}
