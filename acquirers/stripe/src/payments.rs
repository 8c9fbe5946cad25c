//! Payments at Stripe and what follows from them, whatever the method: fees, refunds, returns, disputes and movements of
//! the balance.

use acquirer_http::SendError;
use acquirer_kit::{
    DisputeEvidence, EvidenceToSend, KitError, ProviderStatus, RequestAgain, Result, ReturnProgress,
    next_poll, refused_until,
};
use domain::acquirer::{Charged, OddObject};
use domain::charge::transition::{Finalised, Payment};
use domain::charge::{Charge, FailureReason, IncomingPayment};
use domain::ids::{AcquirerPaymentId, ChargeId};
use domain::med::{CaseKind, Decision, Taken};
use domain::money::{Amount, Currency, MinorUnits};
use domain::payment_method::PaymentMethod;
use domain::refund::{RefundFailure, RefundOutcome};
use domain::snapshot::{
    MovedObject, RemoteDispute, RemoteMovement, RemotePayment, RemoteRefund, RemoteState, Snapshot,
};
use domain::time::Timestamp;
use serde_json::{Map, Value};

use crate::client::Client;
use crate::error::{ApiError, Remedy};
use crate::objects::{
    self, BalanceTransaction, Dispute, DisputeStatus, Expandable, Hidden, Metadata, Page, PaymentIntent,
    RefundStatus, Resource,
};
use crate::requests::ListQuery;

/// The most pages of a list that are read.
const MAX_PAGES: u32 = 500;

/// The most movements that a dispute lists. Others are found by their source.
const LISTED_BY_DISPUTE: usize = 2;

/// The names in the metadata of a refund: of one that a merchant requested, and of the return of money that no
/// merchant has.
pub(crate) const REFUND: &str = "refund";

const RETURN: &str = "return";

/// The name in the metadata of a payment by another method than card.
pub(crate) const METHOD: &str = "method";

/// How the ids of refunds begin: of payments by card, and by other methods.
const REFUND_IDS: [&str; 2] = ["re_", "pyr_"];

/// What a list of refunds shows of each one's movement.
const REFUND_MOVEMENT: &[&str] = &["data.balance_transaction"];

/// The largest file of evidence, in bytes.
const MAX_EVIDENCE_BYTES: u64 = 5_242_880;

/// The fields of evidence that take a file. The first takes any.
pub(crate) const EVIDENCE_FIELDS: [&str; 9] = [
    "uncategorized_file",
    "cancellation_policy",
    "customer_communication",
    "customer_signature",
    "duplicate_charge_documentation",
    "receipt",
    "refund_policy",
    "service_documentation",
    "shipping_documentation",
];

/// How far Stripe's clock may be behind when a session is looked for, in seconds.
const CLOCK_SECONDS: i64 = 300;

/// Why a session or payment is set aside.
pub(crate) const OTHER_OWNER: &str = "it is of another charge or mode";

/// What became of a request to refund.
pub(crate) enum Requested {
    Known(Box<objects::Refund>),
    /// It was refused, and Stripe does not know it.
    Refused(RefundFailure),
    /// It may have been executed, or will be accepted later.
    Later {
        is_spent: bool,
    },
}

/// What is known of the return of a payment.
enum Returned {
    Known(ReturnProgress),
    /// This rest of the payment with this id is to be returned.
    Rest(String, Amount),
}

impl Client {
    /// Reads an object. `None`: Stripe does not know it.
    pub(crate) async fn known<T: Resource>(&self, id: &str) -> Result<Option<T>> {
        match self.retrieve(id).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.remedy() == Remedy::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns what a request to end a session or payment left there. `true`: the request ended it. `gone`: the error if
    /// Stripe does not know it.
    pub(crate) async fn after_close<T: Resource>(
        &self,
        id: &str,
        closed: Result<T, ApiError>,
        gone: &str,
    ) -> Result<(T, bool)> {
        match closed {
            Ok(object) => Ok((object, true)),
            Err(error) if matches!(error.remedy(), Remedy::Final | Remedy::FindThenNewKey) => {
                Ok((self.known(id).await?.ok_or_else(|| unavailable(gone))?, false))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Reads all pages of a list, the oldest object first. `odd`: gets the entries that can't be read.
    async fn all<T: Resource + Send>(&self, query: ListQuery<'_>, odd: &mut Vec<Value>) -> Result<Vec<T>> {
        let (mut all, mut after) = (Vec::new(), None::<String>);
        for _ in 0..MAX_PAGES {
            let page: Page<T> = self.list(ListQuery { after: after.as_deref(), ..query }).await?;
            after = page.next_cursor().map(str::to_owned);
            all.extend(page.data);
            odd.extend(page.odd);
            if after.is_none() {
                all.reverse();
                return Ok(all);
            }
        }
        Err(unavailable("a list has too many pages"))
    }

    /// As [`Self::all`]. An entry that can't be read and contains `name` is an error, because it may be what the caller
    /// must not make twice.
    pub(crate) async fn all_but<T: Resource + Send>(
        &self,
        query: ListQuery<'_>,
        name: &str,
    ) -> Result<Vec<T>> {
        let mut odd = Vec::new();
        let all = self.all(query, &mut odd).await?;
        let has_name = odd.iter().any(|entry| entry.to_string().contains(name));
        if has_name { Err(unavailable("an entry of a list is not as documented")) } else { Ok(all) }
    }

    pub(crate) fn is_its(&self, charge: &Charge, livemode: bool, metadata: &Hidden<Metadata>) -> bool {
        livemode == self.is_live() && charge_in(metadata) == Some(charge.id)
    }

    /// Checks that a payment is the charge's.
    pub(crate) fn checked_intent(&self, charge: &Charge, intent: PaymentIntent) -> Result<PaymentIntent> {
        if !self.is_its(charge, intent.livemode, &intent.metadata) {
            return Err(odd(&intent.id, OTHER_OWNER));
        }
        if !is_in(charge, &intent.currency) {
            return Err(odd(&intent.id, "it is in another currency"));
        }
        Ok(intent)
    }

    /// Adds a payment that succeeded, with what follows from it. Refunds and disputes are left out if the payment shows
    /// none, unless the whole is to be read.
    pub(crate) async fn add_payment(
        &self,
        snapshot: &mut Snapshot,
        charge: &Charge,
        method: PaymentMethod,
        intent: &PaymentIntent,
        is_whole: bool,
    ) -> Result<()> {
        let (id, paid) = (payment_id(intent)?, payment(charge, method, intent)?);
        snapshot.payments.push(paid);
        if let Some(moved) = balance_transaction(intent) {
            let gross = MinorUnits::new(intent.amount_received);
            snapshot.movements.push(movement(charge, &id, MovedObject::Payment, moved, gross)?);
        }
        let tried = intent.latest_charge.as_ref().and_then(Expandable::object);
        let query = ListQuery { payment_intent: Some(&intent.id), ..ListQuery::default() };
        let mut entries = Vec::new();
        if is_whole || tried.is_some_and(|tried| tried.amount_refunded > 0) {
            let expanded = ListQuery { expand: REFUND_MOVEMENT, ..query };
            for refund in self.all::<objects::Refund>(expanded, &mut entries).await? {
                let moved = match (&refund.balance_transaction, &refund.failure_balance_transaction) {
                    (Some(Expandable::Object(moved)), None) => vec![(**moved).clone()],
                    (None, None) => Vec::new(),
                    _ => self.moved_by(&refund.id, &mut entries).await?,
                };
                let read = remote_refund(charge, &id, refund, &moved);
                if let Some((remote, movements)) = unless_odd(read, &mut snapshot.odd)? {
                    snapshot.refunds.extend(remote);
                    snapshot.movements.extend(movements);
                }
            }
        }
        if is_whole || tried.is_some_and(|tried| tried.disputed) {
            for mut dispute in self.all::<Dispute>(query, &mut entries).await? {
                if dispute.balance_transactions.len() >= LISTED_BY_DISPUTE {
                    dispute.balance_transactions = self.moved_by(&dispute.id, &mut entries).await?;
                }
                let read = remote_dispute(charge, &id, dispute);
                if let Some((remote, movements)) = unless_odd(read, &mut snapshot.odd)? {
                    snapshot.disputes.push(remote);
                    snapshot.movements.extend(movements);
                }
            }
        }
        snapshot.odd.extend(entries.iter().map(undocumented));
        Ok(())
    }

    /// The refunds of a payment. It fails if one that contains `name` can't be read.
    pub(crate) async fn refunds(&self, payment: &str, name: &str) -> Result<Vec<objects::Refund>> {
        self.all_but(ListQuery { payment_intent: Some(payment), ..ListQuery::default() }, name).await
    }

    /// The movements of the balance for an object.
    async fn moved_by(&self, source: &str, odd: &mut Vec<Value>) -> Result<Vec<BalanceTransaction>> {
        self.all(ListQuery { source: Some(source), ..ListQuery::default() }, odd).await
    }

    /// Requests a refund with one key. The caller has read that Stripe has none with this name in its metadata: a key is
    /// valid for 24 hours only, so it can't prevent a second refund after that.
    pub(crate) async fn request(
        &self,
        payment: &str,
        amount: Amount,
        (kind, name, key): (&str, &str, &str),
        charge: Option<ChargeId>,
    ) -> Result<Requested> {
        let of_refund = (kind.to_owned(), name.to_owned());
        let of_charge = charge.map(|charge| ("charge".to_owned(), charge.to_string()));
        let metadata: Metadata = [of_refund].into_iter().chain(of_charge).collect();
        let error = match self.create_refund(payment, amount, &metadata, key).await {
            Ok(refund) => return Ok(Requested::Known(Box::new(refund))),
            Err(error) => error,
        };
        match error.remedy() {
            Remedy::Final => {
                tracing::warn!(refund = name, %error, "a refund is refused");
                let known = named(self.refunds(payment, name).await?, name);
                return Ok(known.map_or(Requested::Refused(refund_refusal(&error)), Requested::Known));
            }
            remedy if error.needs_operator() || remedy == Remedy::NotFound => {
                tracing::error!(refund = name, %error, "a refund can't be requested");
            }
            _ => tracing::warn!(refund = name, %error, "a refund is not accepted yet"),
        }
        Ok(Requested::Later { is_spent: error.is_spent() })
    }

    async fn return_of(&self, payment: &IncomingPayment, attempt: &str, now: Timestamp) -> Result<Returned> {
        let poll_again = ReturnProgress::PollAgainAt(next_poll(payment.recorded_at, now));
        let id = payment.payment_id.to_string();
        // A refund that came back has its own id. The payment that it refunds has other refunds, too.
        let came_back: Option<objects::Refund> =
            if REFUND_IDS.iter().any(|start| id.starts_with(start)) { self.known(&id).await? } else { None };
        let is_whole = came_back.is_none();
        let id = came_back.and_then(|refund| refund.payment_intent).unwrap_or(id);
        // All their amounts count.
        let refunds = self.refunds(&id, "").await?;
        if let Some(known) = refunds.iter().find(|refund| is_named(refund, attempt)) {
            return Ok(Returned::Known(return_progress(known, payment, poll_again)));
        }
        let counts = |refund: &&objects::Refund| is_whole && outcome(refund) != Some(RefundOutcome::Failed);
        let others: Vec<&objects::Refund> = refunds.iter().filter(counts).collect();
        let by_others = others.iter().fold(0_i64, |sum, refund| sum.saturating_add(refund.amount));
        let are_ended = others.iter().all(|refund| outcome(refund).is_some());
        Ok(match Amount::parse(payment.amount.minor().saturating_sub(by_others)) {
            _ if !are_ended => Returned::Known(poll_again),
            Err(_nothing_left) => Returned::Known(ReturnProgress::ReturnedByBank),
            Ok(rest) => Returned::Rest(id, rest),
        })
    }

    pub(crate) async fn find_return(
        &self,
        payment: &IncomingPayment,
        attempt: &str,
        now: Timestamp,
    ) -> Result<Option<ReturnProgress>> {
        Ok(match self.return_of(payment, attempt, now).await? {
            Returned::Known(progress) => Some(progress),
            Returned::Rest(..) => None,
        })
    }

    pub(crate) async fn request_return(
        &self,
        payment: &IncomingPayment,
        attempt: &str,
        now: Timestamp,
    ) -> Result<ReturnProgress> {
        let (id, rest) = match self.return_of(payment, attempt, now).await? {
            Returned::Known(progress) => return Ok(progress),
            Returned::Rest(id, rest) => (id, rest),
        };
        let at = next_poll(payment.recorded_at, now);
        let key = format!("refund-{attempt}");
        Ok(match self.request(&id, rest, (RETURN, attempt, &key), payment.charge_id()).await? {
            Requested::Known(known) => return_progress(&known, payment, ReturnProgress::PollAgainAt(at)),
            Requested::Refused(_) => ReturnProgress::RefusedUntil(refused_until(payment.first_recorded())),
            Requested::Later { is_spent } => ReturnProgress::RequestAgain(RequestAgain { at, is_spent }),
        })
    }

    pub(crate) async fn submit_evidence(&self, dispute: &str, evidence: DisputeEvidence) -> Result<String> {
        let known: Dispute = self.retrieve(dispute).await?;
        if known.evidence_details.submission_count > 0 {
            return Err(KitError::Invalid("evidence was submitted before".to_owned()));
        }
        let (mut fields, spent) = (Vec::<(String, String)>::new(), evidence.spent_submissions);
        fields.extend(evidence.text.map(|text| ("uncategorized_text".to_owned(), text)));
        for EvidenceToSend { field, name, mime_type, content } in evidence.files {
            let key = numbered(format!("evidence-{name}"), spent);
            let file = self.upload_file(&name, mime_type, &content, &key).await?;
            fields.push((field, file.id));
        }
        let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (&**name, &**value)).collect();
        let key = numbered(format!("evidence-of-{dispute}"), spent);
        let dispute = self.update_dispute(dispute, &fields, true, &key).await?;
        let status = serde_json::to_value(&dispute.status).unwrap_or_default();
        Ok(status.as_str().unwrap_or_default().to_owned())
    }
}

impl From<ApiError> for KitError {
    fn from(error: ApiError) -> Self {
        if error.needs_operator() {
            tracing::error!(
                %error,
                "the acquirer does not accept the connection; run `admin accounts check-acquirer`"
            );
        }
        match (&error, error.remedy()) {
            (ApiError::Send(SendError::TooManyRequests { retry_after }), _) => Self::Limited(*retry_after),
            (ApiError::Odd(odd), _) => Self::Odd(odd.clone()),
            (_, Remedy::Final) => Self::Invalid(error.to_string()),
            _ if error.is_spent() => Self::Spent(error.to_string()),
            _ => Self::Unavailable(error.to_string()),
        }
    }
}

/// `None`: it is set aside.
pub(crate) fn unless_odd<T>(read: Result<T>, aside: &mut Vec<OddObject>) -> Result<Option<T>> {
    match read {
        Err(KitError::Odd(odd)) => {
            aside.push(odd);
            Ok(None)
        }
        read => read.map(Some),
    }
}

pub(crate) fn undocumented(entry: &Value) -> OddObject {
    OddObject::new(objects::id_of(entry), "an entry of a list is not as documented")
}

pub(crate) fn odd(id: &str, why: &str) -> KitError {
    KitError::Odd(OddObject::new(id, why))
}

pub(crate) fn unavailable(why: &str) -> KitError {
    KitError::Unavailable(why.to_owned())
}

/// Returns the idempotency key of a request after so many that are spent.
pub(crate) fn numbered(key: String, spent: u32) -> String {
    if spent == 0 { key } else { format!("{key}-{}", spent.saturating_add(1)) }
}

pub(crate) fn charge_in(metadata: &Hidden<Metadata>) -> Option<ChargeId> {
    metadata.0.get("charge")?.parse().ok()
}

/// The objects that may belong to a charge.
pub(crate) fn since(charge: &Charge) -> ListQuery<'static> {
    let created_from = Some(charge.created_at.seconds().saturating_sub(CLOCK_SECONDS));
    ListQuery { created_from, ..ListQuery::default() }
}

/// Creates the session or payment of a charge. After a stored failure, looks for it and uses a second key. The key needs
/// no number in the row, as refunds have: what is created moves no money, and a payer can pay only what is in the row.
/// `of_charge`: the parameters that follow from the charge. The inner error is a refusal.
pub(crate) async fn created<T, Creation, Search>(
    (key, of_charge): (&str, &[&str]),
    create: impl Fn(String) -> Creation,
    find: impl Fn() -> Search,
) -> Result<Result<T, ApiError>>
where
    Creation: Future<Output = Result<Result<T>, ApiError>>,
    Search: Future<Output = Result<Option<T>>>,
{
    let mut last = None;
    for key in [key.to_owned(), format!("{key}-2")] {
        let error = match create(key).await {
            Ok(created) => return created.map(Ok),
            Err(error) => error,
        };
        match not_created(error, of_charge)? {
            NotCreated::Refused(error) => return Ok(Err(error)),
            NotCreated::Spent(error) => {
                if let Some(found) = find().await? {
                    return Ok(Ok(found));
                }
                last = Some(error);
            }
        }
    }
    Err(last.map_or_else(|| unavailable("no key is left"), KitError::from))
}

/// Why a charge was not created.
enum NotCreated {
    /// It is refused, and would be again.
    Refused(ApiError),
    /// The idempotency key is spent: the charge may exist. If it does not, another key is needed.
    Spent(ApiError),
}

/// Classifies the failure of a creation. `of_charge`: the parameters that follow from the charge.
fn not_created(error: ApiError, of_charge: &[&str]) -> Result<NotCreated> {
    match error.remedy() {
        Remedy::Final if is_of_charge(&error, of_charge) => Ok(NotCreated::Refused(error)),
        Remedy::Final => {
            tracing::error!(
                %error,
                "the acquirer refuses every charge of the connection; run `admin accounts check-acquirer`"
            );
            Err(unavailable("it refuses the charges of the connection"))
        }
        Remedy::FindThenNewKey => Ok(NotCreated::Spent(error)),
        _ => Err(error.into()),
    }
}

/// The status of a charge at Stripe, as merchants see it.
pub(crate) fn provider_status(
    provider: &'static str,
    (charge, transaction_id): (&Charge, String),
    (amount, state): (Option<i64>, &RemoteState),
) -> ProviderStatus {
    let status = match state {
        RemoteState::Open => "open",
        RemoteState::InProgress => "in_progress",
        RemoteState::Expired => "expired",
        RemoteState::ClosedByUs | RemoteState::ClosedByAcquirer(_) => "closed",
        RemoteState::Paid => "paid",
    };
    let raw_response: Map<String, Value> =
        [("amount", amount.into()), ("currency", charge.currency.as_str().into()), ("status", status.into())]
            .into_iter()
            .map(|(name, value): (&str, Value)| (name.to_owned(), value))
            .collect();
    ProviderStatus { provider, transaction_id, status: status.to_owned(), raw_response }
}

/// Whether a final refusal concerns the charge. One that concerns time, currency or account would meet the next charge,
/// too.
fn is_of_charge(error: &ApiError, of_charge: &[&str]) -> bool {
    let ApiError::Answered { problem, .. } = error else { return true };
    let is_amount = ["amount_too_small", "amount_too_large"].contains(&&*problem.code);
    let is_own =
        of_charge.iter().any(|own| problem.param.starts_with(own)) && !problem.param.contains("currency");
    is_amount || is_own || problem.kind == "card_error"
}

pub(crate) fn refused(error: &ApiError) -> Finalised {
    tracing::warn!(%error, "the acquirer refuses a charge");
    Finalised::Refused(match error {
        ApiError::Answered { problem, .. } if problem.code == "amount_too_small" => {
            FailureReason::AmountTooSmall
        }
        ApiError::Answered { problem, .. } if problem.code == "amount_too_large" => {
            FailureReason::AmountTooLarge
        }
        _ => FailureReason::AcquirerRefused,
    })
}

pub(crate) fn time(id: &str, seconds: i64) -> Result<Timestamp> {
    Timestamp::from_millis(seconds.saturating_mul(1_000)).map_err(|_| odd(id, "a time is out of range"))
}

fn amount(id: &str, minor: i64) -> Result<Amount> {
    Amount::parse(minor).map_err(|_| odd(id, "an amount is out of range"))
}

fn is_in(charge: &Charge, currency: &str) -> bool {
    currency.eq_ignore_ascii_case(charge.currency.as_str())
}

fn payment_id(intent: &PaymentIntent) -> Result<AcquirerPaymentId> {
    intent.id.parse().map_err(|_| odd(&intent.id, "it has an odd id"))
}

fn payment(charge: &Charge, method: PaymentMethod, intent: &PaymentIntent) -> Result<RemotePayment> {
    let tried = intent.latest_charge.as_ref().and_then(Expandable::object);
    let tried = tried.ok_or_else(|| odd(&intent.id, "it has no charge"))?;
    // If the balance has another currency, the plan's fee is taken.
    let moved = balance_transaction(intent).filter(|moved| is_in(charge, &moved.currency));
    let charged = |moved: &BalanceTransaction| -> Result<Charged> {
        let available_at = time(&moved.id, moved.available_on)?;
        Ok(Charged { fee: MinorUnits::new(moved.fee), available_at })
    };
    let payment = Payment {
        id: payment_id(intent)?,
        method,
        amount: amount(&intent.id, intent.amount_received)?,
        payer_document: None,
        paid_at: time(&intent.id, tried.created)?,
        // Stripe accepts no payment on a page that has ended, and confirms what a bank accepted in time.
        is_in_time: true,
        charged: moved.map(charged).transpose()?,
    };
    Ok(RemotePayment { payment, lacks_fee: tried.balance_transaction.is_none() })
}

/// `None`: Stripe does not know the fee yet.
fn balance_transaction(intent: &PaymentIntent) -> Option<&BalanceTransaction> {
    let tried = intent.latest_charge.as_ref().and_then(Expandable::object)?;
    tried.balance_transaction.as_ref().and_then(Expandable::object)
}

/// `gross`: its amount in the charge's currency, if the balance has another one.
fn movement(
    charge: &Charge,
    payment: &AcquirerPaymentId,
    object: MovedObject,
    moved: &BalanceTransaction,
    gross: MinorUnits,
) -> Result<RemoteMovement> {
    let currency = Currency::parse(&moved.currency.to_ascii_uppercase())
        .map_err(|_| odd(&moved.id, "it has an unknown currency"))?;
    let settled = MinorUnits::new(moved.amount);
    Ok(RemoteMovement {
        id: moved.id.clone(),
        payment: payment.clone(),
        object,
        gross: if currency == charge.currency { settled } else { gross },
        settled,
        fee: MinorUnits::new(moved.fee),
        currency,
    })
}

fn dispute_movements(
    charge: &Charge,
    payment: &AcquirerPaymentId,
    dispute: &Dispute,
) -> Result<Vec<RemoteMovement>> {
    let listed = &dispute.balance_transactions;
    let withdrawn = listed.iter().map(|moved| moved.amount).find(|amount| *amount < 0).unwrap_or(-1);
    // In another currency, a part is known only by its share of the first debit. A dispute that was won gives all back,
    // at another rate.
    let gross = |moved: &BalanceTransaction| {
        let base = if dispute.status == DisputeStatus::Won {
            moved.amount.saturating_abs()
        } else {
            withdrawn.saturating_neg()
        };
        let share = i128::from(dispute.amount).saturating_mul(moved.amount.into());
        MinorUnits::new(i64::try_from(share.checked_div(base.into()).unwrap_or_default()).unwrap_or_default())
    };
    let object = || MovedObject::Dispute(dispute.id.clone());
    listed.iter().map(|moved| movement(charge, payment, object(), moved, gross(moved))).collect()
}

/// A refund with its movements, of which a credit is that of its failure. A return is none of the charge's refunds.
fn remote_refund(
    charge: &Charge,
    payment: &AcquirerPaymentId,
    refund: objects::Refund,
    moved: &[BalanceTransaction],
) -> Result<(Option<RemoteRefund>, Vec<RemoteMovement>)> {
    let is_return = refund.metadata.0.contains_key(RETURN);
    let movements = moved.iter().map(|moved| {
        let object = match (is_return, moved.amount > 0) {
            (true, _) => MovedObject::Return,
            (false, true) => MovedObject::RefundFailure(refund.id.clone()),
            (false, false) => MovedObject::Refund(refund.id.clone()),
        };
        let gross = MinorUnits::new(refund.amount.saturating_mul(moved.amount.signum()));
        movement(charge, payment, object, moved, gross)
    });
    let movements = movements.collect::<Result<_>>()?;
    if is_return {
        return Ok((None, movements));
    }
    if !is_in(charge, &refund.currency) {
        return Err(odd(&refund.id, "it is in another currency than its payment"));
    }
    let remote = RemoteRefund {
        payment: payment.clone(),
        ours: refund.metadata.0.get(REFUND).and_then(|name| name.parse().ok()),
        amount: amount(&refund.id, refund.amount)?,
        outcome: outcome(&refund),
        reason: failure_reason(&refund),
        id: refund.id,
    };
    Ok((Some(remote), movements))
}

fn is_named(refund: &objects::Refund, name: &str) -> bool {
    [REFUND, RETURN].iter().any(|kind| refund.metadata.0.get(*kind).is_some_and(|known| known == name))
}

pub(crate) fn named(refunds: Vec<objects::Refund>, name: &str) -> Option<Box<objects::Refund>> {
    refunds.into_iter().find(|refund| is_named(refund, name)).map(Box::new)
}

fn return_progress(
    known: &objects::Refund,
    payment: &IncomingPayment,
    poll_again: ReturnProgress,
) -> ReturnProgress {
    match outcome(known) {
        None => poll_again,
        Some(RefundOutcome::Failed) => ReturnProgress::NotRealised,
        Some(RefundOutcome::Refunded) if known.amount < payment.amount.minor() => {
            ReturnProgress::ReturnedByBank
        }
        Some(RefundOutcome::Refunded) => ReturnProgress::Returned(Some(known.id.clone())),
    }
}

pub(crate) fn outcome(refund: &objects::Refund) -> Option<RefundOutcome> {
    match refund.status {
        Some(RefundStatus::Succeeded) => Some(RefundOutcome::Refunded),
        Some(RefundStatus::Failed | RefundStatus::Canceled) => Some(RefundOutcome::Failed),
        _ => None,
    }
}

pub(crate) fn failure_reason(refund: &objects::Refund) -> Option<RefundFailure> {
    let is_failed = outcome(refund) == Some(RefundOutcome::Failed);
    is_failed.then_some(match refund.failure_reason.as_deref() {
        Some("lost_or_stolen_card" | "expired_or_canceled_card") => RefundFailure::CardNotValid,
        Some("declined") => RefundFailure::IssuerDeclined,
        Some("insufficient_funds") => RefundFailure::BalanceTooLow,
        Some("charge_for_pending_refund_disputed") => RefundFailure::DisputedBefore,
        Some("merchant_request") => RefundFailure::CancelledAtAcquirer,
        _ => RefundFailure::NotExecuted,
    })
}

fn refund_refusal(error: &ApiError) -> RefundFailure {
    let ApiError::Answered { problem, .. } = error else { return RefundFailure::NotRequestable };
    match &*problem.code {
        "charge_already_refunded" => RefundFailure::AlreadyRefunded,
        "charge_disputed" => RefundFailure::Disputed,
        "balance_insufficient" | "insufficient_funds" => RefundFailure::BalanceTooLow,
        _ => RefundFailure::RefusedByAcquirer,
    }
}

fn remote_dispute(
    charge: &Charge,
    payment: &AcquirerPaymentId,
    dispute: Dispute,
) -> Result<(RemoteDispute, Vec<RemoteMovement>)> {
    use DisputeStatus as Status;

    let is_inquiry = matches!(
        dispute.status,
        Status::WarningNeedsResponse | Status::WarningUnderReview | Status::WarningClosed
    );
    let decision = match &dispute.status {
        Status::Won | Status::WarningClosed => Some(Decision::Merchant),
        Status::Lost => Some(Decision::Payer),
        Status::Prevented | Status::Other(_) => {
            return Err(odd(&dispute.id, "it was prevented, or has an unknown status"));
        }
        _ => None,
    };
    if !is_in(charge, &dispute.currency) {
        return Err(odd(&dispute.id, "it is in another currency than its payment"));
    }
    let moved = dispute_movements(charge, payment, &dispute)?;
    let remote = RemoteDispute {
        kind: if is_inquiry { CaseKind::Dispute } else { CaseKind::Chargeback },
        reason: Some(dispute.reason).filter(|reason| !reason.is_empty()),
        amount: amount(&dispute.id, dispute.amount)?,
        due_by: dispute.evidence_details.due_by.map(|due_by| time(&dispute.id, due_by)).transpose()?,
        decision,
        taken: decision.and_then(|decision| taken(decision, &moved)),
        payment: payment.clone(),
        id: dispute.id,
    };
    Ok((remote, moved))
}

/// `None`: a movement that must follow from the decision is not listed yet.
fn taken(decision: Decision, moved: &[RemoteMovement]) -> Option<Taken> {
    let is_back = moved.is_empty() || moved.iter().any(|moved| moved.gross.is_positive());
    let is_listed = if decision == Decision::Payer { !moved.is_empty() } else { is_back };
    let sum = MinorUnits::checked_sum(moved.iter().map(|moved| moved.gross)).ok()?;
    let minor = sum.checked_neg().ok()?;
    is_listed.then_some(Taken { minor, movements: u32::try_from(moved.len()).ok()? })
}

pub(crate) fn refuses_evidence(mime_type: &str, bytes: u64) -> Option<&'static str> {
    if !["application/pdf", "image/jpeg", "image/png"].contains(&mime_type) {
        return Some("the acquirer takes PDF, JPEG and PNG only");
    }
    (bytes > MAX_EVIDENCE_BYTES).then_some("the acquirer takes at most 5 MB")
}
