//! The newest deliveries of a scope, which each page reads together with the counts.

use domain::ids::DeliveryId;

use super::counts::LoadedCounts;
use super::log::after;
use super::page::{ById, FoundDelivery, by_id};

/// The counts of a scope and its newest deliveries.
pub(super) struct Newest {
    pub(super) loaded: LoadedCounts,
    /// All deliveries from the newest one on, newest first.
    pub(super) found: Vec<FoundDelivery>,
    /// The last id that was read; `None`: all deliveries that are shown were read.
    pub(super) read_to: Option<DeliveryId>,
    /// The lowest id that lists show.
    pub(super) first_shown: DeliveryId,
}

impl Newest {
    /// Whether all deliveries that are shown were read.
    pub(super) fn is_whole(&self) -> bool {
        self.read_to.is_none()
    }

    /// Returns the last id that was read, if older deliveries after the checkpoint were not read; `None`: all
    /// deliveries after the checkpoint were read.
    pub(super) fn unread_after_checkpoint(&self) -> Option<DeliveryId> {
        self.read_to.filter(|read_to| *read_to > self.uncounted_from())
    }

    /// Returns the lowest id that a shown delivery after the checkpoint can have.
    pub(super) fn uncounted_from(&self) -> DeliveryId {
        after(self.loaded.counts.checkpoint).0.max(self.first_shown)
    }

    /// Whether no count has this delivery, which was read from the log.
    pub(super) fn is_uncounted(&self, found: &FoundDelivery) -> bool {
        Some(found.id) > self.loaded.counts.checkpoint
    }

    /// Returns the uncounted deliveries: those of the status list (`listed`), those after the checkpoint, and
    /// `rest`, which were read later. An entry of the status list replaces that of the log, which has no status.
    pub(super) fn uncounted(&self, rest: Vec<FoundDelivery>, listed: Vec<FoundDelivery>) -> ById {
        let is_uncounted = |found: &&FoundDelivery| self.is_uncounted(found);
        by_id(self.found.iter().filter(is_uncounted).cloned().chain(rest).chain(listed))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::delivery;
    use super::super::{Delivery, DeliveryStatus};
    use super::*;
    use crate::charge::testing::at;
    use crate::webhook::endpoint::testing::endpoint;

    fn id(seconds: i64) -> DeliveryId {
        DeliveryId::first_at(at(seconds))
    }

    /// An entry in the log (`None`) or in the status list.
    fn entry(seconds: i64, status: Option<DeliveryStatus>) -> FoundDelivery {
        let delivery = Delivery { id: id(seconds), ..delivery(&[endpoint()], at(0)) };
        FoundDelivery { status, row: None, ..FoundDelivery::of_row(delivery) }
    }

    fn newest(checkpoint: Option<i64>, found: Vec<FoundDelivery>, read_to: Option<i64>) -> Newest {
        let mut loaded = LoadedCounts::new(endpoint().scope);
        loaded.counts.checkpoint = checkpoint.map(id);
        Newest { loaded, found, read_to: read_to.map(id), first_shown: id(2) }
    }

    #[test]
    fn deliveries_after_the_checkpoint_or_the_first_shown_one_are_unread_if_the_read_ended_before() {
        for (checkpoint, read_to, is_unread) in [
            (Some(4), None, false),
            (Some(4), Some(9), true),
            (Some(4), Some(4), false),
            (Some(4), Some(3), false),
            (None, Some(3), true),
            (None, Some(2), false),
            (Some(1), Some(2), false),
        ] {
            let newest = newest(checkpoint, Vec::new(), read_to);
            let unread = newest.unread_after_checkpoint();
            assert_eq!(unread, read_to.map(id).filter(|_| is_unread), "{checkpoint:?} {read_to:?}");
            assert_eq!(newest.is_whole(), read_to.is_none());
        }
    }

    #[test]
    fn the_uncounted_deliveries_are_those_after_the_checkpoint_and_those_of_the_status_list() {
        let (pending, failed) = (DeliveryStatus::Pending, DeliveryStatus::Failed);
        let of_log = vec![entry(9, None), entry(8, None), entry(5, None), entry(4, None), entry(3, None)];
        let newest = newest(Some(4), of_log, None);
        let listed = vec![entry(9, Some(pending)), entry(5, Some(failed)), entry(1, Some(failed))];
        let uncounted = newest.uncounted(vec![entry(6, None)], listed);
        let statuses: Vec<_> = uncounted.iter().map(|(id, found)| (*id, found.status)).collect();
        assert_eq!(
            statuses,
            [
                (id(1), Some(failed)),
                (id(5), Some(failed)),
                (id(6), None),
                (id(8), None),
                (id(9), Some(pending)),
            ]
        );
    }
}
