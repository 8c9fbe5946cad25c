//! A simulation: random steps of merchants, payers and operators with two accounts, while calls fail, functions
//! are killed, and records and messages arrive late, twice and out of order. At the end, the service is
//! compared with a [`model`] that shares no code with it.
//!
//! All decisions follow from a seed and the number of a step. So leaving out a step leaves the others as they
//! are, and a failing story can be shortened. Ids and times differ between two runs of a seed.

pub mod model;
pub mod plan;
pub mod pump;
mod rows;
pub mod run;
