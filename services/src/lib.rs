//! Use cases: operations that span several modules, which do not depend on this one.
#![cfg_attr(
    test,
    allow(
        clippy::arithmetic_side_effects,
        clippy::needless_pass_by_value,
        clippy::too_many_lines,
        reason = "a test that fails may panic"
    )
)]

mod account_settings;
mod bank_payments;
mod bank_returns;
mod charge_cancellation;
mod charge_creation;
#[cfg(test)]
#[allow(dead_code, reason = "tests of other crates use the rest")]
#[path = "../../domain/src/charge/testing.rs"]
mod charge_testing;
mod charge_timeline;
mod day_summary;
mod erasure;
mod errors;
mod ledger_verification;
mod payment_list;
mod receipts;
pub mod reconciliation;
mod remote_charges;
mod search;
mod set_aside_items;
#[cfg(test)]
mod tests;

pub use account_settings::{change_account_settings, raise_shards};
pub use bank_payments::{BankPayments, PixHint};
pub use bank_returns::{ReturnStep, Returns};
pub use charge_cancellation::{ChargeCancellation, cancel_charge};
pub use charge_creation::{
    ChargeCreation, CreateChargeError, IdempotencyNamespace, LEASE_SECONDS, OfLink, create_charge,
};
pub use charge_timeline::{
    CaseEvent, ChargeRows, ChargeTimeline, TIMELINE_QUERY, TimelineEntry, TimelineFact, TimelineKind,
    TimelinePage, TimelinePart, TimelineView, charge_timeline,
};
pub use day_summary::{DayMoney, DaySummary, EndpointTrouble, WaitingDisputes, day_summary};
pub use erasure::{ErasureOutcome, erase_customer};
pub use ledger_verification::{verify_ledger, verify_newest};
pub use payment_list::{
    PAYMENTS_QUERY, PaymentFilter, PaymentList, PaymentListView, PaymentPage, too_many_to_sort,
};
pub use receipts::{Applied, ReceiptError, Receipts, check_returnable};
pub use remote_charges::{Followed, RemoteCharges};
pub use search::{Located, SearchHit, SearchQuery, SearchResult, locate, search};
pub use set_aside_items::{SetAsideError, SetAsideItems};
