//! Rollups in the store, and the statistics that are read from them. What a change of a charge adds is in
//! [`domain::rollup`].

mod repository;
pub mod view;

pub use repository::{DayRow, Rollups};
