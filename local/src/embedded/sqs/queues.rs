//! The queues and their messages, in memory. No I/O and no clock: the caller passes the time in milliseconds.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

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

/// Why a request is refused: the shape of the error, and its message.
#[derive(Debug)]
pub(super) struct Failure(pub(super) &'static str, pub(super) String);

impl Failure {
    pub(super) fn missing(name: &str) -> Self {
        Self("MissingParameter", format!("The request must contain the parameter {name}."))
    }

    pub(super) fn no_queue() -> Self {
        Self("QueueDoesNotExist", "The queue does not exist.".to_owned())
    }

    fn not_in_flight() -> Self {
        Self("MessageNotInflight", "The message referred to isn't in flight.".to_owned())
    }
}

type Result<T> = std::result::Result<T, Failure>;

#[derive(Clone, Debug)]
pub(super) struct Message {
    number: u64,
    pub(super) id: String,
    pub(super) body: String,
    pub(super) group: Option<String>,
    /// When it was sent, in milliseconds.
    pub(super) sent_at: i64,
    /// When it becomes visible, in milliseconds.
    visible_at: i64,
    pub(super) receives: u32,
}

impl Message {
    pub(super) fn receipt_handle(&self) -> String {
        format!("{}-{}-{}", self.number, self.receives, self.id)
    }
}

fn number_in(handle: &str) -> Result<u64> {
    let number = handle.split_once('-').and_then(|(number, _)| number.parse().ok());
    number.ok_or_else(|| Failure("ReceiptHandleIsInvalid", "The input receipt handle is invalid.".to_owned()))
}

pub(super) struct Draft {
    pub(super) id: String,
    pub(super) body: String,
    pub(super) group: Option<String>,
    /// In seconds; `None`: the delay of the queue.
    pub(super) delay: Option<i64>,
}

#[derive(Debug, Default)]
struct Queue {
    attributes: BTreeMap<String, String>,
    messages: BTreeMap<u64, Message>,
    order: BTreeSet<(i64, u64)>,
}

impl Queue {
    fn number_of(&self, name: &str) -> i64 {
        let set = self.attributes.get(name).map(String::as_str);
        let default = || DEFAULTS.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        set.or_else(default).and_then(|value| value.parse().ok()).unwrap_or_default()
    }

    /// Returns the name of the dead-letter queue, and after how many receives messages move there.
    fn redrive(&self) -> Option<(String, u32)> {
        let policy: Value = serde_json::from_str(self.attributes.get("RedrivePolicy")?).ok()?;
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

#[derive(Debug, Default)]
pub(super) struct Queues {
    by_name: BTreeMap<String, Queue>,
    next_number: u64,
}

impl Queues {
    /// Creates a queue, unless it exists with the same attributes.
    pub(super) fn create(&mut self, name: &str, attributes: &BTreeMap<String, String>) -> Result<()> {
        match self.by_name.get(name) {
            Some(existing) if existing.attributes != *attributes => {
                let text =
                    "A queue already exists with the same name and a different value for an attribute.";
                Err(Failure("QueueNameExists", text.to_owned()))
            }
            Some(_) => Ok(()),
            None => {
                let queue = Queue { attributes: attributes.clone(), ..Queue::default() };
                self.by_name.insert(name.to_owned(), queue);
                Ok(())
            }
        }
    }

    pub(super) fn attributes(&mut self, name: &str, now: i64) -> Result<BTreeMap<String, String>> {
        self.expire(name, now)?;
        let queue = self.queue(name)?;
        let mut attributes: BTreeMap<String, String> =
            DEFAULTS.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        attributes.extend(queue.attributes.clone());
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
        ]);
        Ok(attributes)
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.by_name.keys().cloned().collect()
    }

    pub(super) fn check(&mut self, name: &str) -> Result<()> {
        self.queue(name).map(|_queue| ())
    }

    pub(super) fn send(&mut self, name: &str, draft: Draft, now: i64) -> Result<()> {
        let number = self.next_number;
        let queue = self.queue(name)?;
        let delay = draft.delay.unwrap_or_else(|| queue.number_of(DELAY));
        queue.put(Message {
            number,
            id: draft.id,
            body: draft.body,
            group: draft.group,
            sent_at: now,
            visible_at: now.saturating_add(delay.saturating_mul(1_000)),
            receives: 0,
        });
        self.next_number = number.saturating_add(1);
        Ok(())
    }

    /// `hidden`: for how long they are hidden, in seconds; `None`: the visibility timeout of the queue.
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
        let (mut received, mut dead) = (Vec::new(), Vec::new());
        while received.len() < most
            && let Some((_, number)) = queue.order.first().copied().filter(|(at, _)| *at <= now)
            && let Some(mut message) = queue.remove(number)
        {
            if redrive.as_ref().is_some_and(|(_, most)| message.receives >= *most) {
                message.visible_at = now;
                dead.push(message);
                continue;
            }
            message.receives = message.receives.saturating_add(1);
            message.visible_at = visible_at;
            received.push(message);
        }
        for message in &received {
            queue.put(message.clone());
        }
        if let Some((dead_letters, _)) = redrive {
            let dead_letters = self.queue(&dead_letters)?;
            for message in dead {
                dead_letters.put(message);
            }
        }
        Ok(received)
    }

    pub(super) fn delete(&mut self, name: &str, handle: &str) -> Result<()> {
        let queue = self.queue(name)?;
        let number = number_in(handle)?;
        if queue.messages.get(&number).is_some_and(|message| message.receipt_handle() == handle) {
            queue.remove(number);
        }
        Ok(())
    }

    /// Hides a received message for some seconds from now on.
    pub(super) fn hide(&mut self, name: &str, handle: &str, seconds: i64, now: i64) -> Result<()> {
        let queue = self.queue(name)?;
        let number = number_in(handle)?;
        let is_in_flight =
            |message: &&Message| message.receipt_handle() == handle && message.visible_at > now;
        queue.messages.get(&number).filter(is_in_flight).ok_or_else(Failure::not_in_flight)?;
        let message = queue.remove(number).ok_or_else(Failure::not_in_flight)?;
        queue.put(Message { visible_at: now.saturating_add(seconds.saturating_mul(1_000)), ..message });
        Ok(())
    }

    pub(super) fn purge(&mut self, name: &str) -> Result<()> {
        let queue = self.queue(name)?;
        queue.order.clear();
        queue.messages.clear();
        Ok(())
    }

    /// Whether the queue has messages that become visible later, without a request.
    pub(super) fn has_hidden(&mut self, name: &str, now: i64) -> Result<bool> {
        Ok(self.queue(name)?.order.last().is_some_and(|(at, _)| *at > now))
    }

    fn expire(&mut self, name: &str, now: i64) -> Result<()> {
        let queue = self.queue(name)?;
        let kept_since = now.saturating_sub(queue.number_of(RETENTION).saturating_mul(1_000));
        while let Some((number, _)) = queue.messages.first_key_value().filter(|(_, m)| m.sent_at < kept_since)
        {
            let number = *number;
            queue.remove(number);
        }
        Ok(())
    }

    fn queue(&mut self, name: &str) -> Result<&mut Queue> {
        self.by_name.get_mut(name).ok_or_else(Failure::no_queue)
    }
}
