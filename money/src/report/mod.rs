//! Reports and their schedules: requests, responses, reads and writes, and the URLs of the files. The rules are in
//! [`domain::report`]; `functions/reports-worker` makes the files.

mod files;
mod queue;
mod repository;
pub mod request;
mod schedule;
mod view;

pub use files::ReportFiles;
pub use queue::{ReportMessage, ReportQueue};
pub use repository::Reports;
pub use schedule::ReportSchedules;
pub use view::{DeletedReportView, ReportListView, ReportScheduleListView, ReportScheduleView, ReportView};
