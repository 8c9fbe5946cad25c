//! Rollups: sums of a scope's charges by day and currency and in total, and the statistics computed from
//! them. [`domain::rollup`] computes the numbers that a change of a charge adds to these sums.
//!
//! # Each change counts once
//!
//! 1. The row of a change's events has the numbers that the change adds to the sums
//!    ([`Event::counted`](crate::webhook::event::Event::counted)). So a change needs no write of its own to be
//!    counted.
//! 2. [`crate::checkpoint`] adds the numbers of these rows to the sums. A reader adds those of the rows that the
//!    sums do not contain yet.
//! 3. The checkpoint may have passed the id of a row that is inserted late. Therefore such a row has no
//!    numbers, and the dispatcher adds them to the sums itself, in a transaction that also inserts a marker
//!    for the change. If the marker exists already, the change was counted before.
//!
//! Which of the two ways counts a change is decided once, by the insert of the row.

mod repository;
pub mod view;

pub use repository::{Checkpoint, DayRow, LateChange, Rollups, folded_scope};
