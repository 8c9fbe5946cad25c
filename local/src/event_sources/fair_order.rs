//! The order in which a queue's messages are passed on, as in an SQS fair queue: messages of quiet groups
//! come before those of noisy ones, otherwise the oldest comes first. A noisy group is only less preferred:
//! without messages of others, its messages are passed on at once.
//!
//! AWS documents two measures for a noisy group: its share of the messages in flight, and its recent share of
//! the time of the consumers. Only the first is imitated, because the period of the second is not documented.

use std::collections::{BTreeMap, HashMap, VecDeque};

/// A group is noisy if it has at least this number of messages in flight…
const NOISY_IN_FLIGHT: usize = 30;
/// …and more than this part of all messages in flight: 10 %.
const NOISY_SHARE: usize = 10;

/// The messages that wait, in fair order. `T` is a message.
pub(super) struct FairOrder<T> {
    groups: HashMap<String, Group<T>>,
    /// The group of each oldest message of a group, by the number of the message.
    oldest: BTreeMap<u64, String>,
    next_number: u64,
    waiting: usize,
    in_flight: usize,
}

struct Group<T> {
    waiting: VecDeque<(u64, T)>,
    in_flight: usize,
}

impl<T> FairOrder<T> {
    pub(super) fn new() -> Self {
        Self { groups: HashMap::new(), oldest: BTreeMap::new(), next_number: 0, waiting: 0, in_flight: 0 }
    }

    /// Returns the number of messages that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Adds a message that was received.
    pub(super) fn push(&mut self, group: &str, message: T) {
        let number = self.next_number;
        self.next_number = number.saturating_add(1);
        let entry = self
            .groups
            .entry(group.to_owned())
            .or_insert_with(|| Group { waiting: VecDeque::new(), in_flight: 0 });
        if entry.waiting.is_empty() {
            self.oldest.insert(number, group.to_owned());
        }
        entry.waiting.push_back((number, message));
        self.waiting = self.waiting.saturating_add(1);
    }

    /// Takes the next messages, with their groups. They are in flight until [`Self::ended`].
    pub(super) fn take(&mut self, most: usize) -> Vec<(String, T)> {
        let mut taken = Vec::new();
        while taken.len() < most {
            let Some(next) = self.take_one() else { break };
            taken.push(next);
        }
        taken
    }

    fn take_one(&mut self) -> Option<(String, T)> {
        let quiet = self.oldest.iter().find(|(_, group)| !self.is_noisy(group));
        let (number, name) = quiet.or_else(|| self.oldest.first_key_value())?;
        let (number, name) = (*number, name.clone());
        self.oldest.remove(&number);
        let group = self.groups.get_mut(&name)?;
        let (_, message) = group.waiting.pop_front()?;
        group.in_flight = group.in_flight.saturating_add(1);
        if let Some((next, _)) = group.waiting.front() {
            self.oldest.insert(*next, name.clone());
        }
        self.waiting = self.waiting.saturating_sub(1);
        self.in_flight = self.in_flight.saturating_add(1);
        Some((name, message))
    }

    /// Records that a message of this group is no longer in flight.
    pub(super) fn ended(&mut self, name: &str) {
        self.in_flight = self.in_flight.saturating_sub(1);
        let Some(group) = self.groups.get_mut(name) else { return };
        group.in_flight = group.in_flight.saturating_sub(1);
        if group.in_flight == 0 && group.waiting.is_empty() {
            self.groups.remove(name);
        }
    }

    /// Returns the messages that wait, in no particular order.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.groups.values_mut().flat_map(|group| group.waiting.iter_mut().map(|(_, message)| message))
    }

    fn is_noisy(&self, name: &str) -> bool {
        let in_flight = self.groups.get(name).map_or(0, |group| group.in_flight);
        in_flight >= NOISY_IN_FLIGHT && in_flight.saturating_mul(NOISY_SHARE) > self.in_flight
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(order: &mut FairOrder<u32>, most: usize) -> Vec<(String, u32)> {
        order.take(most)
    }

    #[test]
    fn messages_are_taken_in_the_order_of_their_arrival() {
        let mut order = FairOrder::new();
        for (group, message) in [("a", 1), ("b", 2), ("a", 3), ("", 4)] {
            order.push(group, message);
        }
        let messages: Vec<u32> = taken(&mut order, 3).into_iter().map(|(_, message)| message).collect();
        assert_eq!((messages, order.waiting()), (vec![1, 2, 3], 1));
    }

    #[test]
    fn quiet_groups_come_before_a_group_with_30_messages_in_flight() {
        let mut order = FairOrder::new();
        for message in 0..40 {
            order.push("noisy", message);
        }
        assert_eq!(taken(&mut order, 29).len(), 29);
        order.push("quiet", 100);
        assert_eq!(taken(&mut order, 1), [("noisy".to_owned(), 29)]);
        assert_eq!(taken(&mut order, 2), [("quiet".to_owned(), 100), ("noisy".to_owned(), 30)]);
        order.ended("noisy");
        order.ended("noisy");
        order.push("quiet", 101);
        assert_eq!(taken(&mut order, 1), [("noisy".to_owned(), 31)], "with 29 in flight, it is quiet");
    }

    #[test]
    fn a_group_with_a_tenth_of_all_messages_in_flight_is_quiet() {
        let mut order = FairOrder::new();
        for message in 0..30 {
            order.push("large", message);
        }
        for message in 0..270 {
            order.push(&format!("other-{}", message % 20), message);
        }
        assert_eq!(taken(&mut order, 300).len(), 300);
        order.push("large", 30);
        order.push("new", 1);
        assert_eq!(taken(&mut order, 1), [("large".to_owned(), 30)]);
    }

    #[test]
    fn groups_without_messages_are_forgotten() {
        let mut order = FairOrder::new();
        order.push("a", 1);
        let (group, _) = taken(&mut order, 10).remove(0);
        assert_eq!(order.groups.len(), 1);
        order.ended(&group);
        assert!(order.groups.is_empty() && order.oldest.is_empty());
    }
}
