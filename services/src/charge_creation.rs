//! For a test key, the sandbox makes the payment code or other data that the payer needs, and one conditional
//! write stores the charge. If the sandbox simulates an acquirer that needs more time, the charge is stored as
//! pending, and `acquirer-worker` finalises it.
//!
//! A live charge is stored as pending first, with a lease. The holder of the lease creates it at its acquirer and
//! updates the row. If the holder dies, or the acquirer does not answer, the same request or the scheduler takes
//! the lease and first asks the acquirer whether it has the charge. So a charge is created once.

use std::time::{Duration, Instant};

use domain::account::AccountSettings;
use domain::charge::{Artefacts, Charge, Funds, StoredCharge, TransactionStatus, transition};
use domain::ids::ChargeId;
use domain::payment_link::{NoPlace, PaymentLink};
use domain::source_address::SourceAddress;
use domain::time::Timestamp;

use acquirer_core::{AcquirerError, Connections, Legs};
use money::charge::request::NewCharge;
use money::charge::{ChargeError, Charges};
use money::payment_link::PaymentLinks;
use shared::auth::Caller;
use shared::clock::Clock;
use shared::config::PublicUrls;
use shared::http::Created;
use shared::store::{Inserted, StoreError};

/// Equal keys in different namespaces name different charges.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum IdempotencyNamespace {
    /// `/v1/charges` and `/v1/pix/charges`.
    Charges,
    /// `/v1/payments`.
    Payments,
    /// The forms of payment links.
    Links,
}

impl IdempotencyNamespace {
    fn as_str(self) -> &'static str {
        match self {
            Self::Charges => "charges",
            Self::Payments => "payments",
            Self::Links => "links",
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum CreateChargeError {
    #[error("the idempotency key was used with another body")]
    IdempotencyKeyReused,
    #[error("new live charges are stopped")]
    LiveChargesStopped,
    #[error(transparent)]
    Acquirer(#[from] AcquirerError),
    #[error(transparent)]
    Charge(#[from] ChargeError),
    #[error(transparent)]
    Link(#[from] NoPlace),
}

impl From<StoreError> for CreateChargeError {
    fn from(error: StoreError) -> Self {
        Self::Charge(error.into())
    }
}

/// In seconds: longer than the time limit of a function that holds a lease.
pub const LEASE_SECONDS: i64 = 30;

/// With all attempts.
const CREATE_TIME: Duration = Duration::from_secs(10);
const WAIT_FOR_HOLDER: Duration = Duration::from_secs(5);
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug)]
pub struct ChargeCreation<'a> {
    pub charges: &'a Charges,
    pub connections: &'a Connections,
    pub public_urls: &'a PublicUrls,
    pub clock: &'a Clock,
    /// `None`: a merchant makes the charge.
    pub link: Option<OfLink<'a>>,
}

/// The payment link at which a payer makes a charge.
#[derive(Clone, Copy, Debug)]
pub struct OfLink<'a> {
    pub links: &'a PaymentLinks,
    pub link: &'a PaymentLink,
    pub source: &'a SourceAddress,
}

/// A replay of the idempotency key returns the stored charge.
pub async fn create_charge(
    creation: ChargeCreation<'_>,
    caller: &Caller,
    (namespace, idempotency_key): (IdempotencyNamespace, &str),
    request: NewCharge,
    now: Timestamp,
) -> Result<Created<Charge>, CreateChargeError> {
    let (legs, is_stopped) = creation.connections.for_new(&caller.scope, &request.methods).await?;
    let id = ChargeId::derive(&caller.salt, caller.scope.mode, namespace.as_str(), idempotency_key);
    let charge = Charge {
        id,
        scope: caller.scope,
        shards: caller.settings.shards.new_charges,
        status: TransactionStatus::WaitingPayment,
        version: 1,
        amount: request.amount,
        currency: request.currency,
        methods: request.methods,
        customer: request.customer,
        expected_payer: request.expected_payer,
        metadata: request.metadata,
        acquirer: legs.own().name(),
        connection: None,
        elsewhere: Vec::new(),
        lease_until: None,
        unread_since: None,
        artefacts: Artefacts::default(),
        ended_legs: Vec::new(),
        pix_expires_in_seconds: request.pix_expires_in_seconds,
        payment_details: request.payment_details,
        request_hash: request.hash,
        request_id: caller.request_id.clone(),
        created_at: now,
        updated_at: now,
        applied_payment: None,
        settlement: None,
        funds: Funds::default(),
        costs: Vec::new(),
        returned: Vec::new(),
        unapplied: Vec::new(),
        failure: None,
        unconfirmed: None,
        last_decline: None,
        reviewed: None,
        disputes: None,
        past: None,
        actor: None,
        created_by: Some(caller.by.clone()),
        link: creation.link.map(|of| of.link.id),
    };
    legs.check(&charge)?;
    if legs.own().name().is_remote() {
        // Boxed, because its future is large, and charges of test keys do not need it.
        return Box::pin(creation.create_remotely((&legs, is_stopped), caller, charge, now)).await;
    }
    let charge = if legs.create_later(&charge) {
        Charge { status: TransactionStatus::Pending, ..charge }
    } else {
        let (settings, urls) = (&caller.settings, creation.public_urls);
        let created = legs.create(&charge, settings, urls, (true, now), CREATE_TIME).await;
        transition::created_as(charge, created.map_err(AcquirerError::from)?)
    };
    let inserted = match creation.link {
        Some(of) => of.insert(&charge, now).await?,
        None => creation.charges.insert(&charge).await?,
    };
    match inserted {
        Inserted::New => Ok(Created::New(charge)),
        Inserted::Existing(stored) => Ok(Created::Replayed(replayed(stored, &charge, now)?)),
    }
}

fn replayed(stored: StoredCharge, charge: &Charge, now: Timestamp) -> Result<Charge, CreateChargeError> {
    let stored = stored.read_at(now);
    if stored.request_hash == charge.request_hash {
        Ok(stored)
    } else {
        Err(CreateChargeError::IdempotencyKeyReused)
    }
}

impl OfLink<'_> {
    async fn insert(
        &self,
        charge: &Charge,
        now: Timestamp,
    ) -> Result<Inserted<StoredCharge>, CreateChargeError> {
        Ok(self.links.insert_charge(self.link, charge, self.source, now).await??)
    }
}

impl ChargeCreation<'_> {
    async fn create_remotely(
        &self,
        (legs, is_stopped): (&Legs, bool),
        caller: &Caller,
        charge: Charge,
        now: Timestamp,
    ) -> Result<Created<Charge>, CreateChargeError> {
        let pending = Charge {
            status: TransactionStatus::Pending,
            connection: legs.own().id(),
            elsewhere: legs.elsewhere(),
            lease_until: now.plus_seconds(LEASE_SECONDS).ok(),
            ..charge
        };
        let limits = caller.settings.velocity;
        let inserted = if is_stopped {
            let stored = self.charges.find(Some(pending.id)).await?;
            Inserted::Existing(stored.ok_or(CreateChargeError::LiveChargesStopped)?)
        } else if let Some(of) = self.link {
            of.insert(&pending, now).await?
        } else {
            self.charges.insert_guarded(&pending, limits, now).await?
        };
        match inserted {
            Inserted::New => {
                let created = self.finalise_remotely((legs, true), &caller.settings, pending, CREATE_TIME);
                Ok(Created::New(Box::pin(created).await?))
            }
            Inserted::Existing(stored) => {
                let stored = replayed(stored, &pending, now)?;
                // The account's connections may have changed since.
                let legs = self.connections.of_charge(&stored).await?;
                Ok(Created::Replayed(Box::pin(self.finish_pending(&legs, caller, stored)).await?))
            }
        }
    }

    /// If no caller holds the lease, takes it and creates the charge.
    async fn finish_pending(
        &self,
        legs: &Legs,
        caller: &Caller,
        stored: Charge,
    ) -> Result<Charge, CreateChargeError> {
        let started_at = Instant::now();
        let mut charge = stored;
        loop {
            if charge.status != TransactionStatus::Pending {
                return Ok(charge);
            }
            let now = self.clock.now();
            if !charge.is_leased(now)
                && let Some(leased) = self.charges.lease(&charge, LEASE_SECONDS, now).await?
            {
                let settings = &caller.settings;
                let created = self.finalise_remotely((legs, false), settings, leased, CREATE_TIME);
                return Box::pin(created).await;
            }
            if started_at.elapsed() >= WAIT_FOR_HOLDER {
                return Err(AcquirerError::Busy.into());
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
            charge = self.charges.get_existing(charge.id).await?.read_at(self.clock.now());
        }
    }

    /// Creates a charge whose lease the caller holds. After a failure the lease ends, so that a retry need not wait for
    /// it. `is_first`: no earlier attempt can have reached the acquirer. `limit`: of all attempts.
    pub async fn finalise_remotely(
        &self,
        (legs, is_first): (&Legs, bool),
        settings: &AccountSettings,
        leased: Charge,
        limit: Duration,
    ) -> Result<Charge, CreateChargeError> {
        let when = (is_first, self.clock.now());
        let created = legs.create(&leased, settings, self.public_urls, when, limit).await;
        for connection in legs.connections() {
            self.connections.note_clock(connection).await;
        }
        match created {
            Ok(finalised) => Ok(self.charges.finalise(leased, finalised, self.clock.now()).await?),
            Err(error) => {
                if let Err(failed) = self.charges.release_lease(&leased, self.clock.now()).await {
                    tracing::warn!(charge = %leased.id, %failed, "a lease was not released; it ends by itself");
                }
                Err(AcquirerError::from(error).into())
            }
        }
    }
}
