//! Rollups: sums of a scope's charges by day and currency and in total, and the statistics computed from
//! them. [`domain::rollup`] computes the numbers that a change of a charge adds to these sums.

mod repository;
pub mod view;

pub use repository::{DayRow, Rollups};
