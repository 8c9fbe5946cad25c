//! The newest deliveries of a scope, which each page reads together with the counts.

use domain::ids::DeliveryId;

use super::counts::LoadedCounts;
use super::log::after;
use super::page::{ById, FoundDelivery, by_id};

/// The counts of a scope and its newest deliveries.
pub(super) struct Newest {
    pub(super) loaded: LoadedCounts,
    /// All deliveries from the newest one on, newest first. They have rows if an earlier version wrote these.
    pub(super) found: Vec<FoundDelivery>,
    /// The last id that was read; `None`: all deliveries that are shown were read.
    pub(super) read_to: Option<DeliveryId>,
    /// The lowest id that lists show.
    pub(super) first_shown: DeliveryId,
    /// Whether the scope has rows of an earlier version, which are not in the log.
    pub(super) has_former: bool,
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

    /// Whether no count has this delivery, which was read from the log or from a row of an earlier version. That
    /// version counted listed deliveries also before the checkpoint passed them.
    pub(super) fn is_uncounted(&self, found: &FoundDelivery) -> bool {
        found.in_list.unwrap_or(Some(found.id) > self.loaded.counts.checkpoint)
    }

    /// Returns the uncounted deliveries: those of the status list (`listed`), those after the checkpoint, and
    /// `rest`, which were read later. A row replaces the entry of the same delivery, because the index may be
    /// behind its table.
    pub(super) fn uncounted(&self, rest: Vec<FoundDelivery>, listed: Vec<FoundDelivery>) -> ById {
        let is_uncounted = |found: &&FoundDelivery| self.is_uncounted(found);
        let of_log = self.found.iter().filter(is_uncounted).cloned().chain(rest);
        let (rows, entries): (Vec<_>, Vec<_>) = of_log.partition(|found| found.row.is_some());
        by_id(entries.into_iter().chain(listed).chain(rows))
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

    fn row(seconds: i64, status: DeliveryStatus) -> FoundDelivery {
        FoundDelivery::of_row(Delivery { id: id(seconds), status, ..delivery(&[endpoint()], at(0)) })
    }

    /// An entry in the log (`None`) or in the status list.
    fn entry(seconds: i64, status: Option<DeliveryStatus>) -> FoundDelivery {
        FoundDelivery { status, row: None, ..row(seconds, DeliveryStatus::Pending) }
    }

    fn newest(checkpoint: Option<i64>, found: Vec<FoundDelivery>, read_to: Option<i64>) -> Newest {
        let mut loaded = LoadedCounts::new(endpoint().scope);
        loaded.counts.checkpoint = checkpoint.map(id);
        Newest { loaded, found, read_to: read_to.map(id), first_shown: id(2), has_former: false }
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
    fn a_delivery_is_uncounted_after_the_checkpoint_and_in_the_status_list() {
        let newest = newest(Some(4), Vec::new(), None);
        for (in_list, seconds, is_uncounted) in [
            (None, 5, true),
            (None, 4, false),
            (None, 3, false),
            (Some(true), 3, true),
            (Some(false), 5, false),
        ] {
            let found = FoundDelivery { in_list, ..entry(seconds, None) };
            assert_eq!(newest.is_uncounted(&found), is_uncounted, "{in_list:?} {seconds}");
        }
    }

    #[test]
    fn of_the_uncounted_deliveries_a_row_replaces_an_entry_of_the_list_and_this_one_of_the_log() {
        let (pending, failed, delivered) =
            (DeliveryStatus::Pending, DeliveryStatus::Failed, DeliveryStatus::Delivered);
        let of_log = vec![row(9, delivered), entry(8, None), entry(5, None), entry(3, None)];
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
                (id(9), Some(delivered)),
            ]
        );
    }
}
