//! Use cases: operations that span several modules, such as charges, wallets and acquirers. Those modules do
//! not depend on this one.

mod account_settings;
mod charge_creation;
mod ledger_verification;
mod payment_list;

pub use account_settings::change_account_settings;
pub use charge_creation::{CreateChargeError, IdempotencyNamespace, create_charge};
pub use ledger_verification::verify_ledger;
pub use payment_list::{PaymentFilter, PaymentList, PaymentListError, PaymentListView, PaymentPage};
