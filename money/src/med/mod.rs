//! MED cases. The type and its state machine are in [`domain::med`].

mod bank;
mod error;
pub mod evidence;
mod list;
mod notice;
mod operator_notices;
mod repository;
pub mod request;
mod view;

pub use bank::BankMedReturn;
pub use error::{CaseError, EvidenceError};
pub use list::{
    CASES_QUERY, CaseFilter, CasePage, CaseQuery, DeadlineFilter, MOST_NEAREST, MOST_SORTED, OpenCase, SHOWN,
};
pub use notice::{ContestedPix, NoticeOutcome};
pub use operator_notices::NoticeError;
pub use repository::MedCases;
pub use view::{CaseListView, CaseView, ResolvedView, case_list};
