//! The common interface of acquirers.
//!
//! A [`Connector`] calls one acquirer with the credentials of one account, and says what it answered. It writes no
//! rows and decides nothing: [`domain::snapshot::next_step`] compares a [`Snapshot`] with what is recorded. Leases,
//! the queue of reads, the sweep behind a watermark, routing and retired connections are the caller's.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub mod setting;

pub use acquirer_http::{ClientSettingsError, Now, Priority};
use async_trait::async_trait;
use domain::account::AccountSettings;
use domain::acquirer::{AcquirerName, Capabilities, OddObject, RefundCapabilities};
use domain::backoff::Backoff;
use domain::charge::transition::Finalised;
use domain::charge::{Charge, FailureReason, IncomingPayment};
use domain::ids::{AccountId, AcquirerPaymentId, ChargeId, ConnectionId};
use domain::money::{Currency, MinorUnits};
use domain::payment_method::PaymentMethod;
use domain::refund::{Refund, RefundFailure, RefundOutcome};
use domain::snapshot::Snapshot;
use domain::time::Timestamp;
use domain::work::WorkFailure;
use secrecy::SecretString;
use serde_json::{Map, Value};

use crate::setting::{AcquirerUrl, InvalidSetting};

pub type Result<T, E = KitError> = std::result::Result<T, E>;

/// How long the service tries to create a charge at an acquirer that does not answer, in milliseconds: 10
/// minutes. Then the charge is refused, so that it does not stay pending forever.
pub const FINALISE_TIMEOUT_MS: i64 = 600_000;

/// The refusal of a charge that its acquirer did not finalise in time. By then the payer has probably left; the
/// merchant sees the failure and can create a new charge.
pub const NOT_FINALISED_IN_TIME: Finalised = Finalised::Refused(FailureReason::AcquirerUnavailable);

/// The pauses between two polls of a refund or return.
const POLLS: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_mins(15) };

/// Returns when a refund or return that was requested at `since` is polled again.
pub fn next_poll(since: Timestamp, now: Timestamp) -> Timestamp {
    POLLS.next_poll(since, now)
}

/// How long a refund or return that an acquirer refuses as invalid is requested again, in seconds: five minutes. A bank
/// may refuse a devolução of a Pix that it has just received.
const REFUSED_SECONDS: i64 = 5 * 60;

/// Returns the end of the time in which a refusal is not final.
pub fn refused_until(requested_at: Timestamp) -> Timestamp {
    requested_at.saturating_plus_seconds(REFUSED_SECONDS)
}

/// A kind of acquirers: the settings that only it has, with its credentials and its client.
pub trait Kind: KindOfAcquirer + Clone {
    type Credentials: KindCredentials;
    /// Clones share connections, limits and the circuit breaker.
    type Client: Clone;

    /// Adds what no operator chooses: what was seen at the acquirer, and what is registered there. `before`: the settings
    /// before this change, if they were of this kind. `is_same_url`: the base URL stays.
    #[must_use]
    fn knowing(self, before: Option<&Self>, is_same_url: bool) -> Self;

    fn open(
        &self,
        credentials: &Self::Credentials,
        at: (&AcquirerUrl, u32),
        now: Now,
    ) -> Result<Self::Client, ClientSettingsError>;

    fn connectors(&self, client: Self::Client, of: ConnectionOf<'_>) -> Connectors;
}

/// Whose connection it is.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionOf<'a> {
    pub account: AccountId,
    pub connection: ConnectionId,
    pub base_url: &'a AcquirerUrl,
}

/// The connectors of one connection.
#[derive(Clone, Debug)]
pub struct Connectors {
    pub main: Arc<dyn Connector>,
    /// Those of methods that have one of their own.
    pub of_methods: Vec<(PaymentMethod, Arc<dyn Connector>)>,
}

impl Connectors {
    pub fn one(connector: impl Connector) -> Self {
        Self { main: Arc::new(connector), of_methods: Vec::new() }
    }
}

/// A notification that an acquirer signed.
pub struct Signed<'a> {
    /// Returns a header, if it is visible ASCII.
    pub header: &'a dyn Fn(&str) -> Option<&'a str>,
    pub body: &'a [u8],
    /// The signing secrets of the connection: two while one is changed.
    pub secrets: &'a [SecretString],
    pub base_url: &'a AcquirerUrl,
    pub now: Timestamp,
}

/// What a signed notification names. It proves nothing: what it names is read at the acquirer.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Notified {
    /// Its id there, for logs.
    pub id: String,
    /// It is of another account there, or about test objects.
    pub is_foreign: bool,
    pub charge: Option<ChargeId>,
    /// A payment of the charge, if the charge itself is not named.
    pub payment: Option<AcquirerPaymentId>,
    /// A refund or dispute changed.
    pub is_contested: bool,
}

/// Why a notification is refused. The texts do not repeat its content.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NotVerified {
    #[error("acquirers of this kind sign no notifications")]
    Unsigned,
    #[error("{0}")]
    Refused(String),
}

/// The settings of a connection that only acquirers of one kind have.
pub trait KindOfAcquirer {
    /// Checks the signature of a notification.
    fn verify(&self, _signed: &Signed<'_>) -> Result<Notified, NotVerified> {
        Err(NotVerified::Unsigned)
    }

    /// Where the acquirer's id of the registered URL for notifications is kept. `None`: acquirers of this kind have none.
    fn webhook_endpoint(&mut self) -> Option<&mut Option<String>> {
        None
    }

    /// [`Self::view`] for audit rows, which are stored for ever.
    fn audit_view(&self) -> Value {
        self.view()
    }

    /// The client or account there, by which a new connection is named.
    fn client(&self) -> &str;

    /// What receives the payments: after its change, notifications come to another URL.
    fn receiver(&self) -> String;

    /// The methods of new charges that go to the connection.
    fn methods(&self) -> &[PaymentMethod];

    /// Checks the values that depend on each other.
    fn check(&self, base_url: &AcquirerUrl) -> std::result::Result<(), InvalidSetting>;

    /// What a client depends on, beside the base URL.
    fn of_client(&self) -> Value;

    /// The settings for operators, as an object.
    fn view(&self) -> Value;
}

/// The credentials of a connection, which only the functions that call its acquirer may read.
pub trait KindCredentials {
    /// Checks the values that depend on each other, if any do.
    fn check(&self) -> std::result::Result<(), InvalidSetting> {
        Ok(())
    }

    /// The credentials for operators, as an object with fingerprints instead of secrets.
    fn view(&self) -> Value;
}

/// An acquirer with the credentials of one account.
///
/// # Errors
///
/// After [`KitError::Unavailable`], a request may have been executed. The caller repeats it with the same charge, and the
/// connector finds what the first one made. A refund or return is read first, and requested only if it is not found.
#[async_trait]
pub trait Connector: Any + fmt::Debug + Send + Sync {
    /// What the rows of its charges have.
    fn name(&self) -> AcquirerName;

    /// What it takes by a method in a currency. `None`: it does not take the method.
    fn capabilities(&self, method: PaymentMethod, currency: Currency) -> Option<Capabilities>;

    fn refund_capabilities(&self) -> RefundCapabilities;

    /// Whether it takes so long to create a charge that the merchant is answered before. Only the sandbox simulates it.
    fn creates_later(&self, _charge: &Charge) -> bool {
        false
    }

    /// Creates a pending charge, or finds the one that an earlier call created.
    async fn create(&self, new: NewCharge<'_>) -> Result<Finalised>;

    /// Reads a charge. `None`: the acquirer does not know it. Unless `is_whole`, refunds and disputes may be left out if
    /// the answer shows none.
    async fn read(&self, charge: &Charge, is_whole: bool) -> Result<Option<Snapshot>>;

    /// Closes a charge, so that it can't be paid any more, and reads it. It may be paid or closed already.
    /// `None`: the acquirer does not know it.
    async fn close(&self, charge: &Charge, priority: Priority) -> Result<Option<Snapshot>>;

    /// Reads the progress of a refund. `None`: the acquirer does not know it, so it can be requested.
    async fn find_refund(&self, _refund: &Refund, _now: Timestamp) -> Result<Option<RefundAnswer>> {
        not_done_here()
    }

    /// Sends the one request of a refund that its row names ([`Refund::spent_requests`]). The caller has its lease, and
    /// has read that the acquirer does not know it. `paid_at`: when the refunded payment was received.
    async fn request_refund(
        &self,
        _refund: &Refund,
        _paid_at: Timestamp,
        _now: Timestamp,
    ) -> Result<RefundAnswer> {
        not_done_here()
    }

    /// Reads the progress of the return of a payment that was not credited, by the id of the attempt. `None`: the
    /// acquirer does not know the attempt, so it can be requested.
    async fn find_return(
        &self,
        _payment: &IncomingPayment,
        _attempt: &str,
        _now: Timestamp,
    ) -> Result<Option<ReturnProgress>> {
        not_done_here()
    }

    /// Sends the one request of an attempt to return a payment. The caller has its lease, and has read that the acquirer
    /// does not know the attempt.
    async fn request_return(
        &self,
        _payment: &IncomingPayment,
        _attempt: &str,
        _now: Timestamp,
    ) -> Result<ReturnProgress> {
        not_done_here()
    }

    /// Lists the charges that changed since a time. `cursor`: [`Changes::next`] of the page before.
    async fn changes(&self, _since: Timestamp, _cursor: Option<&str>) -> Result<Changes> {
        not_done_here()
    }

    /// Lists the movements of the account's balance that were created in a period, for the reconciliation.
    async fn movements(&self, _period: (Timestamp, Timestamp), _cursor: Option<&str>) -> Result<Movements> {
        not_done_here()
    }

    /// Why a file can't be sent as evidence, by its type and its length in bytes. `None`: it can be sent.
    fn refuses_evidence(&self, _mime_type: &str, _bytes: u64) -> Option<&'static str> {
        Some("the acquirer takes no evidence")
    }

    /// The names of the fields of evidence that take a file, one each; the first takes any file.
    fn evidence_fields(&self) -> &'static [&'static str] {
        &[]
    }

    /// Uploads evidence for a dispute, and submits it to the payer's bank. It is refused if some was submitted before.
    /// After [`KitError::Spent`], the caller stores that another request is spent, and calls it again.
    /// Returns the dispute's status there.
    async fn submit_evidence(&self, _dispute: &str, _evidence: DisputeEvidence) -> Result<String> {
        not_done_here()
    }

    /// The status of a charge at the acquirer, without any document or name. `None`: the acquirer does not know it.
    async fn status(&self, _charge: &Charge) -> Result<Option<ProviderStatus>> {
        not_done_here()
    }
}

fn not_done_here<T>() -> Result<T> {
    Err(KitError::Invalid(
        "this acquirer does not do it, or each connection of a charge by itself".to_owned(),
    ))
}

/// Turns an object that can't be used into a snapshot from which nothing follows.
pub fn read_as_odd(read: Result<Option<Snapshot>>) -> Result<Option<Snapshot>> {
    match read {
        Err(KitError::Odd(odd)) => Ok(Some(Snapshot::of_odd(odd))),
        read => read,
    }
}

#[derive(Clone, Copy, Debug)]
pub struct NewCharge<'a> {
    pub charge: &'a Charge,
    /// Those of its account.
    pub settings: &'a AccountSettings,
    /// Where the acquirer's page sends the payer afterwards.
    pub return_url: &'a str,
    /// The URL in the payment code of the sandbox, without the scheme (API Pix: location).
    pub pix_location: &'a str,
    pub now: Timestamp,
    /// No earlier attempt can have reached the acquirer.
    pub is_first: bool,
}

/// A page of changes.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Changes {
    /// The charges that changed, each once.
    pub charges: Vec<ChargeId>,
    /// Changes that can't be read.
    pub odd: Vec<OddObject>,
    /// Those of which a refund or dispute changed.
    pub whole: BTreeSet<ChargeId>,
    /// The charges that the list shows as paid by this payment, or as ended (`None`). A charge that is not open here needs
    /// no read, if no other payment paid it.
    pub ended: BTreeMap<ChargeId, Option<AcquirerPaymentId>>,
    /// The charges that the list shows as open and unpaid. Only one that is being paid here needs a read, because what
    /// paid it was replaced.
    pub unpaid: BTreeSet<ChargeId>,
    /// `None`: this is the last page.
    pub next: Option<String>,
}

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct DisputeEvidence {
    /// The merchant's words.
    pub text: Option<String>,
    pub files: Vec<EvidenceToSend>,
    /// That of the case.
    pub spent_submissions: u32,
}

/// A file of evidence.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EvidenceToSend {
    /// Which evidence it is: one of [`Connector::evidence_fields`].
    pub field: String,
    /// Its name, in visible ASCII. The same name and content is uploaded once.
    pub name: String,
    /// Such as `application/pdf`.
    pub mime_type: &'static str,
    pub content: Vec<u8>,
}

/// A page of movements.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Movements {
    pub movements: Vec<Movement>,
    /// Movements that can't be read.
    pub odd: Vec<OddObject>,
    /// `None`: this is the last page.
    pub next: Option<String>,
}

/// A movement of an account's balance at an acquirer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Movement {
    /// Its id at the acquirer.
    pub id: String,
    /// The payment, if it credits one. `None`: another movement, such as a refund or the acquirer's own fee.
    pub payment: Option<AcquirerPaymentId>,
    /// The charge of this service that it belongs to. `None`: none.
    pub charge: Option<ChargeId>,
    /// In minor units; negative: a debit.
    pub amount: MinorUnits,
    /// What the acquirer charged for it, in minor units.
    pub fee: MinorUnits,
    /// That of the balance.
    pub currency: Option<Currency>,
}

/// Why an acquirer could not be asked. The texts contain no document and no secret. They are for logs: a merchant
/// sees no provider's words.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum KitError {
    /// The outcome is unknown.
    #[error("the acquirer did not answer: {0}")]
    Unavailable(String),
    /// It limits requests (429). The request was not executed.
    #[error("the acquirer limits requests: retry after {} s", .0.as_secs_f32().ceil())]
    Limited(Duration),
    /// A defect of the service: the validation should have refused the request.
    #[error("the acquirer can't represent the request: {0}")]
    Invalid(String),
    /// It can't issue a requested payment method. The merchant sees this text.
    #[error("`paymentMethods`: {} can't be issued: {reason}. Remove it.", method.as_str())]
    MethodUnavailable { method: PaymentMethod, reason: String },
    /// An object of the acquirer can't be used, and a repetition does not help. It must be set aside.
    #[error("an object of the acquirer can't be used: {0}")]
    Odd(OddObject),
    /// The acquirer repeats a stored failure, and will never execute this request. The next one must be another.
    #[error("the acquirer repeats a stored failure: {0}")]
    Spent(String),
}

impl WorkFailure for KitError {
    fn is_outside(&self) -> bool {
        !matches!(self, Self::Invalid(_) | Self::MethodUnavailable { .. } | Self::Odd(_))
    }

    fn odd(&self) -> Option<&OddObject> {
        if let Self::Odd(odd) = self { Some(odd) } else { None }
    }
}

/// A request of a refund or return was not accepted, or its outcome is not known.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RequestAgain {
    /// When the acquirer is read again. If it does not know the refund or return, it is requested again.
    pub at: Timestamp,
    /// The acquirer stored a failure for this request and repeats it, so it will never execute this request. The next one
    /// must be another.
    pub is_spent: bool,
}

/// How far a refund has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RefundProgress {
    /// The refund is still in progress. The acquirer must be polled again at this time.
    PollAgainAt(Timestamp),
    RequestAgain(RequestAgain),
    /// The refund is still in progress, and the acquirer will send a notification. Because it may be lost, the
    /// scheduler polls again from time to time.
    Waiting,
    /// The acquirer refuses the request as invalid, and a read shows that it does not know the refund. If it still
    /// does so at this time, the refund fails.
    RefusedUntil(Timestamp),
    Ended(RefundOutcome),
}

/// What an acquirer said about the end of a refund.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RefundEnd {
    pub id: Option<String>,
    /// Why the refund failed.
    pub reason: Option<RefundFailure>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RefundAnswer {
    pub progress: RefundProgress,
    /// The acquirer's id of the refund, and its reason if the refund failed or is refused.
    pub said: RefundEnd,
}

impl RefundAnswer {
    pub fn new(progress: RefundProgress, id: Option<String>, reason: Option<RefundFailure>) -> Self {
        Self { progress, said: RefundEnd { id, reason } }
    }
}

/// How far the return of a payment has come.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ReturnProgress {
    /// The acquirer executes it. Poll again at this time.
    PollAgainAt(Timestamp),
    RequestAgain(RequestAgain),
    /// The acquirer refuses this attempt as invalid, and a read shows that it does not know it. If it still does so at
    /// this time, no attempt is possible.
    RefusedUntil(Timestamp),
    /// The payer has the money. The acquirer's id of the return.
    Returned(Option<String>),
    /// The payer has the money by other returns, which this service did not request, such as by MED. If they returned
    /// only a part, this service requested the rest.
    ReturnedByBank,
    NotRealised,
    Impossible,
}

/// The status of a charge at its acquirer.
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderStatus {
    /// The kind of acquirer, as merchants see it.
    pub provider: &'static str,
    pub transaction_id: String,
    pub status: String,
    /// The acquirer's response, without fields that may contain a document or a name.
    pub raw_response: Map<String, Value>,
}
