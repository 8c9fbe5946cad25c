//! MED cases outside their rules: what clients send and read, lists, reads and writes, evidence. The rules are in
//! [`domain::med`].

mod error;
pub mod evidence;
mod list;
mod repository;
pub mod request;
mod view;

pub use error::{CaseError, EvidenceError};
pub use list::{CaseFilter, CasePage};
pub use repository::MedCases;
pub use view::{CaseListView, CaseView, ResolvedView};
