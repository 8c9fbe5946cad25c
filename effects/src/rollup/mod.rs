//! Rollups: sums of a scope's charges by day and currency and in total, and the statistics computed from
//! them. [`domain::rollup`] computes the numbers that a change of a charge adds to these sums.
//!
//! # Each change counts once
//!
//! 1. The row of a change's events has the numbers that the change adds to the sums
//!    ([`Event::counted`](crate::webhook::event::Event::counted)). So a change needs no write of its own to be
//!    counted.
//! 2. [`shared::checkpoint`] adds the numbers of these rows to the sums. A reader adds those of the rows that the
//!    sums do not contain yet.
//! 3. The checkpoint may have passed the id of a row that is inserted late. Therefore such a row has no
//!    numbers, and the transaction that inserts it adds them to the sums. If the row exists already, the change
//!    is counted.

mod repository;
pub mod view;

pub use repository::{Checkpoint, DayRow, Rollups, folded_scope};
