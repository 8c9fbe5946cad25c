//! Notifications of banks: a bank posts the Pix that it received, and an adapter posts notices of MED
//! infractions. The path contains the account and a secret token.
//!
//! A notification of Pix is only a hint. This module stores which Pix it names, and `acquirer-worker` reads each of
//! them back from the bank. So nothing that a sender writes into a notification reaches the ledger. All rows
//! are stored before the response, so a bank that receives 200 need not repeat the notification. If storing
//! fails, the bank receives 503 and repeats it, and a repeated Pix changes nothing.

mod authentication;
mod bad_item;
mod items;
mod limit;
mod med;
mod pix;
mod signed;
#[cfg(test)]
mod tests;

use acquirer_core::AcquirerQueue;
use acquirer_core::configuration::AccountAcquirers;
use axum::Router;
use axum::routing::post;
use money::charge::Charges;
use money::med::MedCases;
use shared::clock::Clock;
use shared::config::{ConfigError, Vars, required};
use shared::http::{Origin, with_middleware};
use shared::store::{Aws, Store};

/// The largest body of a notification, in bytes: 1 MiB. A bank sends many Pix in one notification.
const MAX_BODY_BYTES: usize = 1_048_576;

#[derive(Clone, Debug)]
pub struct BankNotifications {
    store: Store,
    acquirers: AccountAcquirers,
    cases: MedCases,
    charges: Charges,
    queue: AcquirerQueue,
    clock: Clock,
}

impl BankNotifications {
    pub fn from_vars(aws: &Aws, clock: Clock, var: Vars<'_>) -> Result<Self, ConfigError> {
        let store = Store::new(aws.dynamodb(), required(var, "TABLE_NAME")?);
        Ok(Self {
            acquirers: AccountAcquirers::from_vars(aws, store.clone(), var)?,
            cases: MedCases::new(store.clone()),
            charges: Charges::new(store.clone()),
            queue: AcquirerQueue::new(aws.sqs(), required(var, "ACQUIRER_QUEUE_URL")?),
            store,
            clock,
        })
    }
}

/// Builds the routes of banks' notifications and of MED notices. Some banks append `/pix` to the registered
/// URL, so both paths exist.
pub fn router(bank: BankNotifications) -> Router {
    let routes = Router::new()
        .route("/v1/acquirer-events/{account}/{token}", post(pix::receive))
        .route("/v1/acquirer-events/{account}/{token}/pix", post(pix::receive))
        .route("/v1/acquirer-events/{account}/{token}/med", post(med::receive))
        .route("/v1/acquirer-events/{account}/{token}/hosted", post(signed::receive))
        .with_state(bank);
    // Banks connect to hosts of their own, which no CDN serves.
    with_middleware(routes, Origin::default())
}
