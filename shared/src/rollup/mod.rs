//! Rollups: daily sums of a scope's charges, and the statistics computed from them. [`domain::rollup`] defines what
//! each change of a charge adds.

mod repository;
pub mod view;

pub use repository::{DayRow, Rollups};
