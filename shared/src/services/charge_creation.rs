//! Creates a charge. The acquirer makes the payment code or other data that the payer needs. Then one
//! conditional write stores the charge. If the acquirer needs more time, the charge is stored as pending, and
//! `acquirer-worker` finalises it.

use domain::charge::{Artefacts, Charge, Funds, TransactionStatus, transition};
use domain::ids::{ChargeId, Mode};
use domain::time::Timestamp;

use crate::acquirer::{AcquirerError, Acquirers};
use crate::auth::Caller;
use crate::charge::request::NewCharge;
use crate::charge::{ChargeError, Charges};
use crate::config::PublicUrls;
use crate::http::Created;
use crate::store::{Inserted, StoreError};

/// The namespace of an idempotency key. Equal keys in different namespaces name different charges.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum IdempotencyNamespace {
    /// The keys of `/v1/charges` and `/v1/pix/charges`.
    Charges,
    /// The keys of `/v1/payments`.
    Payments,
}

impl IdempotencyNamespace {
    fn as_str(self) -> &'static str {
        match self {
            Self::Charges => "charges",
            Self::Payments => "payments",
        }
    }
}

/// Why a charge was not created.
#[derive(Debug, thiserror::Error)]
pub enum CreateChargeError {
    /// The idempotency key was used with a different body.
    #[error("the idempotency key was used with another body")]
    IdempotencyKeyReused,
    /// No acquirer is configured, or the acquirer failed.
    #[error(transparent)]
    Acquirer(#[from] AcquirerError),
    /// A velocity limit is reached, or DynamoDB failed.
    #[error(transparent)]
    Charge(#[from] ChargeError),
}

impl From<StoreError> for CreateChargeError {
    fn from(error: StoreError) -> Self {
        Self::Charge(error.into())
    }
}

/// Creates a charge, or returns the stored charge when the request is a replay of its idempotency key.
///
/// # Errors
///
/// See [`CreateChargeError`].
pub async fn create_charge(
    (charges, acquirers): (&Charges, &Acquirers),
    caller: &Caller,
    (namespace, idempotency_key): (IdempotencyNamespace, &str),
    request: NewCharge,
    public_urls: &PublicUrls,
    now: Timestamp,
) -> Result<Created<Charge>, CreateChargeError> {
    let acquirer = acquirers.for_new_charges(&caller.scope)?;
    let id = ChargeId::derive(&caller.salt, caller.scope.mode, namespace.as_str(), idempotency_key);
    let charge = Charge {
        id,
        scope: caller.scope,
        status: TransactionStatus::WaitingPayment,
        version: 1,
        amount: request.amount,
        currency: request.currency,
        methods: request.methods,
        customer: request.customer,
        expected_payer: request.expected_payer,
        metadata: request.metadata,
        acquirer: acquirer.name(),
        artefacts: Artefacts::default(),
        pix_expires_in_seconds: request.pix_expires_in_seconds,
        payment_details: request.payment_details,
        request_hash: request.hash,
        created_at: now,
        updated_at: now,
        applied_payment: None,
        settlement: None,
        funds: Funds::default(),
        failure: None,
        reviewed: None,
        disputes: None,
        past: None,
        actor: None,
    };
    let charge = if acquirer.finalises_asynchronously(&charge) {
        Charge { status: TransactionStatus::Pending, ..charge }
    } else {
        let finalised = acquirer.finalise(&charge, &caller.settings, public_urls, now).await?;
        transition::created_as(charge, finalised)
    };
    let inserted = match charge.scope.mode {
        Mode::Test => charges.insert(&charge).await?,
        Mode::Live => charges.insert_guarded(&charge, caller.settings.velocity, now).await?,
    };
    match inserted {
        Inserted::New => Ok(Created::New(charge)),
        Inserted::Existing(stored) => match stored.read_at(now) {
            stored if stored.request_hash == charge.request_hash => Ok(Created::Replayed(stored)),
            _ => Err(CreateChargeError::IdempotencyKeyReused),
        },
    }
}
