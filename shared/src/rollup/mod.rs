//! Rollups: sums of a scope's charges by day and currency and in total, and the statistics computed from
//! them. [`domain::rollup`] computes the numbers that a change of a charge adds to these sums.
//!
//! # Each change counts once
//!
//! 1. The row of a change's events has the numbers that the change adds to the sums
//!    ([`Event::counted`](crate::webhook::event::Event::counted)). So a change needs no write of its own to be
//!    counted.
//! 2. The *checkpoint* is the id of an event row. The sums contain the numbers of all rows up to it. The
//!    scheduler advances the checkpoint and adds the numbers of the rows that it passes, in one transaction.
//!    See `fold`. A reader adds the numbers of the rows after the checkpoint.
//! 3. The checkpoint may have passed the id of a row that is inserted late. Therefore such a row has no
//!    numbers, and the dispatcher adds them to the sums itself, in a transaction that also inserts a marker
//!    for the change. If the marker exists already, the change was counted before.
//!
//! Which of the two ways counts a change is decided once, by the insert of the row.
//!
//! # How far statistics lag
//!
//! A reader reads at most 1 MB of rows of each shard after the checkpoint, about a thousand changes. So
//! statistics contain every published change, unless a shard has more than about a thousand changes within five
//! minutes. Then they lag by up to five minutes.

mod fold;
mod repository;
pub mod view;

pub use fold::scope_of as folded_scope;
pub use repository::{Checkpoint, DayRow, LateChange, Rollups};
