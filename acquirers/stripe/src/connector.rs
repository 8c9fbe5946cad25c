//! Charges by card, each on a hosted page of its own.

use std::collections::BTreeSet;

use acquirer_http::SendError;
use acquirer_kit::{
    Changes, Connector, DisputeEvidence, EvidenceToSend, KitError, Movement, Movements,
    NOT_FINALISED_IN_TIME, NewCharge, Priority, ProviderStatus, RefundAnswer, RefundProgress, RequestAgain,
    Result, ReturnProgress, next_poll, read_as_odd, refused_until,
};
use async_trait::async_trait;
use domain::acquirer::{AcquirerName, Capabilities, Charged, OddObject, RefundCapabilities};
use domain::charge::transition::{Finalised, Payment};
use domain::charge::{Artefacts, Card, Charge, FailureReason, HostedPage, IncomingPayment};
use domain::ids::{AcquirerPaymentId, ChargeId};
use domain::med::{CaseKind, Decision, Taken};
use domain::money::{Amount, Currency, MinorUnits};
use domain::payment_method::PaymentMethod;
use domain::refund::{Refund, RefundFailure, RefundOutcome};
use domain::snapshot::{
    MovedObject, RemoteDispute, RemoteMovement, RemotePayment, RemoteRefund, RemoteState, Snapshot,
};
use domain::time::Timestamp;
use serde_json::{Map, Value};

use crate::client::Client;
use crate::error::{ApiError, Remedy};
use crate::objects::{
    self, BalanceTransaction, CheckoutSession, DeclinedPayment, Dispute, DisputeStatus, Expandable, Hidden,
    Metadata, Page, PaymentIntent, PaymentIntentStatus, PaymentStatus, RefundStatus, Resource, SessionStatus,
};
use crate::requests::{ListQuery, NewSession, capabilities};
use crate::verify::{Event, EventObject};

/// The types of events that can change a charge: for the list of events, which takes 20 at most, and for webhook
/// endpoints.
pub const EVENT_TYPES: [&str; 20] = [
    "checkout.session.completed",
    "checkout.session.async_payment_succeeded",
    "checkout.session.async_payment_failed",
    "checkout.session.expired",
    "payment_intent.succeeded",
    "payment_intent.payment_failed",
    "payment_intent.processing",
    "payment_intent.requires_action",
    "payment_intent.canceled",
    "charge.succeeded",
    "charge.updated",
    "charge.refunded",
    "refund.created",
    "refund.updated",
    "refund.failed",
    "charge.dispute.created",
    "charge.dispute.updated",
    "charge.dispute.closed",
    "charge.dispute.funds_withdrawn",
    "charge.dispute.funds_reinstated",
];

/// How long a page can be paid after the charge was created, in seconds: 23 hours. Stripe allows 24 hours after the
/// request, so the service's clock may be ahead by an hour. It follows from the charge alone, because a repeated request
/// must be equal.
const PAGE_SECONDS: i64 = 23 * 60 * 60;

/// The parameters of a session that follow from the charge. A refusal of another one is the connection's.
const OF_CHARGE: [&str; 6] = [
    "line_items",
    "success_url",
    "cancel_url",
    "metadata",
    "client_reference_id",
    "payment_intent_data[metadata]",
];

/// How far Stripe's clock may be behind when a session is looked for, in seconds.
const CLOCK_SECONDS: i64 = 300;

/// How long after the end of its page a payer's authentication may still end, in seconds. A payment after that is
/// returned.
const AUTHENTICATION_SECONDS: i64 = 60 * 60;

/// The most pages of a list that are read.
const MAX_PAGES: u32 = 500;

/// The most movements that a dispute lists. Others are found by their source.
const LISTED_BY_DISPUTE: usize = 2;

/// The longest name of an item on a page, in characters.
const MAX_NAME_CHARS: usize = 250;

/// The names in the metadata of a refund: of one that a merchant requested, and of the return of money that no
/// merchant has.
const REFUND: &str = "refund";
const RETURN: &str = "return";

/// Reasons of cancellations that a person requested. Stripe gives other reasons when it cancels a payment itself.
const CANCELED_ELSEWHERE: [&str; 4] = ["abandoned", "duplicate", "fraudulent", "requested_by_customer"];

/// Why a session or payment is set aside.
const OTHER_OWNER: &str = "it is of another charge or mode";

/// What a list of refunds shows of each one's movement.
const REFUND_MOVEMENT: &[&str] = &["data.balance_transaction"];

/// The largest file of evidence, in bytes.
const MAX_EVIDENCE_BYTES: u64 = 5_242_880;

/// The fields of evidence that take a file. The first takes any.
const EVIDENCE_FIELDS: [&str; 9] = [
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

/// The connector of one account.
#[derive(Clone, Debug)]
pub struct StripeConnector {
    client: Client,
}

/// What became of a request to refund.
enum Requested {
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

impl StripeConnector {
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    fn at(&self, priority: Priority) -> Self {
        Self { client: self.client.at(priority) }
    }

    /// Returns the charge that an object belongs to. It is in the object's metadata, or in those of the payment that the
    /// object names. `None`: another system made the object, or the payment is odd.
    async fn charge_of_object(
        &self,
        object: &EventObject,
        odd: &mut Vec<OddObject>,
    ) -> Result<Option<ChargeId>> {
        let named = charge_in(&object.metadata);
        let (None, Some(id)) = (named, &object.payment_intent) else { return Ok(named) };
        let intent = unless_odd(self.retrieve::<PaymentIntent>(id).await, odd)?.flatten();
        Ok(intent.and_then(|intent| charge_in(&intent.metadata)))
    }

    /// Reads an object. `None`: Stripe does not know it.
    async fn retrieve<T: Resource>(&self, id: &str) -> Result<Option<T>> {
        match self.client.retrieve(id).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.remedy() == Remedy::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads all pages of a list, the oldest object first. `odd`: gets the entries that can't be read.
    async fn all<T: Resource + Send>(&self, query: ListQuery<'_>, odd: &mut Vec<Value>) -> Result<Vec<T>> {
        let (mut all, mut after) = (Vec::new(), None::<String>);
        for _ in 0..MAX_PAGES {
            let page: Page<T> = self.client.list(ListQuery { after: after.as_deref(), ..query }).await?;
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
    async fn all_but<T: Resource + Send>(&self, query: ListQuery<'_>, name: &str) -> Result<Vec<T>> {
        let mut odd = Vec::new();
        let all = self.all(query, &mut odd).await?;
        let has_name = odd.iter().any(|entry| entry.to_string().contains(name));
        if has_name { Err(unavailable("an entry of a list is not as documented")) } else { Ok(all) }
    }

    /// Finds the session of a charge after a lost answer: one that was paid before one that can be.
    async fn find(&self, charge: &Charge) -> Result<Option<CheckoutSession>> {
        let id = charge.id.to_string();
        let sessions: Vec<CheckoutSession> = self.all_but(since(charge), &id).await?;
        let is_its = |session: &CheckoutSession| {
            session.client_reference_id.as_ref() == Some(&id)
                && self.is_its(charge, session.livemode, &session.metadata)
        };
        Ok(sessions.into_iter().filter(is_its).max_by_key(|session| match session.status {
            Some(SessionStatus::Complete) => 2,
            Some(SessionStatus::Open) => 1,
            _ => 0,
        }))
    }

    async fn session_of(&self, charge: &Charge) -> Result<Option<CheckoutSession>> {
        let page = charge.artefacts.card.as_ref().and_then(|card| card.page.as_ref());
        let id = match page {
            Some(page) => Some(page.id.clone()),
            None => self.find(charge).await?.map(|session| session.id),
        };
        let Some(id) = id else { return Ok(None) };
        let session = self.retrieve(&id).await?;
        session.map(|session| self.checked(charge, session)).transpose()
    }

    fn checked(&self, charge: &Charge, session: CheckoutSession) -> Result<CheckoutSession> {
        let is_its = self.is_its(charge, session.livemode, &session.metadata);
        if is_its { Ok(session) } else { Err(odd(&session.id, OTHER_OWNER)) }
    }

    fn is_its(&self, charge: &Charge, livemode: bool, metadata: &Hidden<Metadata>) -> bool {
        livemode == self.client.is_live() && charge_in(metadata) == Some(charge.id)
    }

    /// Returns the payment of a session. `None`: the payer has not tried to pay.
    async fn intent_of(&self, charge: &Charge, session: &CheckoutSession) -> Result<Option<PaymentIntent>> {
        let intent = match &session.payment_intent {
            Some(Expandable::Object(intent)) => Some((**intent).clone()),
            Some(Expandable::Id(id)) => self.retrieve(id).await?,
            // A session that expired may have lost the payment that was confirmed at the same time.
            None if session.payment_status == PaymentStatus::Paid => {
                let id = charge.id.to_string();
                let intents: Vec<PaymentIntent> = self.all_but(since(charge), &id).await?;
                let is_its = |intent: &&PaymentIntent| {
                    intent.status == PaymentIntentStatus::Succeeded
                        && charge_in(&intent.metadata) == Some(charge.id)
                };
                let found = intents.iter().find(is_its).map(|intent| intent.id.clone());
                let id = found.ok_or_else(|| unavailable("a paid session has no payment"))?;
                self.retrieve(&id).await?
            }
            None => None,
        };
        match intent {
            Some(intent) if !self.is_its(charge, intent.livemode, &intent.metadata) => {
                Err(odd(&intent.id, OTHER_OWNER))
            }
            Some(intent) if !is_in(charge, &intent.currency) => {
                Err(odd(&intent.id, "it is in another currency"))
            }
            intent => Ok(intent),
        }
    }

    /// Returns the state of a charge. Stripe does not say who ended a session. One that ended before its time
    /// counts as ended by this service. If a person ended it in Stripe's dashboard, the charge expires when its time is
    /// over.
    fn state(&self, session: &CheckoutSession, intent: Option<&PaymentIntent>) -> Result<RemoteState> {
        use PaymentIntentStatus as Intent;
        use SessionStatus::{Complete, Expired, Open};

        let late = self.client.now().seconds().saturating_sub(session.expires_at);
        let ended = if late >= 0 { RemoteState::Expired } else { RemoteState::ClosedByUs };
        let is_expired = session.status == Some(Expired);
        let why = intent.and_then(|intent| intent.cancellation_reason.as_deref());
        let was_canceled_elsewhere = why.is_some_and(|why| CANCELED_ELSEWHERE.contains(&why));
        Ok(match (intent.map(|intent| &intent.status), &session.status) {
            (Some(Intent::Succeeded), _) => RemoteState::Paid,
            (Some(Intent::Canceled), _) if !is_expired || was_canceled_elsewhere => {
                RemoteState::ClosedByAcquirer(FailureReason::CancelledAtAcquirer)
            }
            // The payer may authenticate after the page's time, but not after this service closed it.
            (Some(Intent::RequiresAction), _)
                if is_expired && !(0..=AUTHENTICATION_SECONDS).contains(&late) =>
            {
                ended
            }
            (Some(Intent::RequiresAction | Intent::Processing | Intent::RequiresCapture), _) => {
                RemoteState::InProgress
            }
            (Some(Intent::Other(_)), _) => return Err(odd(&session.id, "its payment has an unknown status")),
            (_, Some(Expired)) => ended,
            (_, Some(Open)) => RemoteState::Open,
            (Some(_), Some(Complete)) => {
                let last = intent.and_then(|intent| intent.last_payment_error.as_ref());
                RemoteState::ClosedByAcquirer(last.map_or(FailureReason::CardDeclined, decline))
            }
            _ => return Err(odd(&session.id, "it has an unknown status")),
        })
    }

    async fn look(&self, charge: &Charge, closes: bool, is_whole: bool) -> Result<Option<Snapshot>> {
        let Some(mut session) = self.session_of(charge).await? else { return Ok(None) };
        let mut is_ours = false;
        if closes {
            let intent = session.payment_intent.as_ref().map(|intent| Expandable::Id(intent.id().to_owned()));
            (session, is_ours) = self.expire(charge, session).await?;
            // A session that ends may lose its payment, which may be in progress.
            session.payment_intent = session.payment_intent.or(intent);
        }
        let mut snapshot = self.snapshot(charge, &session, is_whole).await?;
        if is_ours && snapshot.state == RemoteState::Expired {
            snapshot.state = RemoteState::ClosedByUs;
        }
        Ok(Some(snapshot))
    }

    /// Refunds and disputes are left out if the payment shows none, unless the whole is to be read.
    async fn snapshot(&self, charge: &Charge, session: &CheckoutSession, is_whole: bool) -> Result<Snapshot> {
        let intent = self.intent_of(charge, session).await?;
        let mut snapshot = Snapshot::of(self.state(session, intent.as_ref())?);
        let Some(intent) = intent else { return Ok(snapshot) };
        if snapshot.state != RemoteState::Paid {
            snapshot.last_decline = intent.last_payment_error.as_ref().map(decline);
            return Ok(snapshot);
        }
        let (id, paid) = (payment_id(&intent)?, payment(charge, &intent)?);
        snapshot.payments.push(paid);
        if let Some(moved) = balance_transaction(&intent) {
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
        Ok(snapshot)
    }

    /// The refunds of a payment. It fails if one that contains `name` can't be read.
    async fn refunds(&self, payment: &str, name: &str) -> Result<Vec<objects::Refund>> {
        self.all_but(ListQuery { payment_intent: Some(payment), ..ListQuery::default() }, name).await
    }

    /// The movements of the balance for an object.
    async fn moved_by(&self, source: &str, odd: &mut Vec<Value>) -> Result<Vec<BalanceTransaction>> {
        self.all(ListQuery { source: Some(source), ..ListQuery::default() }, odd).await
    }

    /// Creates the session of a charge. After a stored failure, looks for it and uses a second key. The key needs no
    /// number in the row, as refunds have: a session moves no money, and only the one whose URL is in the row can be paid.
    async fn create_session(
        &self,
        charge: &Charge,
        new: &NewSession,
    ) -> Result<Result<CheckoutSession, Finalised>> {
        let key = format!("charge-{}", charge.id);
        let mut last = None;
        for key in [key.clone(), format!("{key}-2")] {
            let error = match self.client.create_session(new, &key).await {
                Ok(session) => return self.checked(charge, session).map(Ok),
                Err(error) => error,
            };
            match error.remedy() {
                Remedy::Final if is_of_charge(&error) => return Ok(Err(refused(&error))),
                Remedy::Final => {
                    tracing::error!(
                        %error,
                        "the acquirer refuses every charge of the connection; run `admin accounts check-acquirer`"
                    );
                    return Err(unavailable("it refuses the charges of the connection"));
                }
                Remedy::FindThenNewKey => {
                    if let Some(session) = self.find(charge).await? {
                        return Ok(Ok(session));
                    }
                    last = Some(error);
                }
                _ => return Err(error.into()),
            }
        }
        Err(last.map_or_else(|| unavailable("no key is left"), KitError::from))
    }

    /// Ends an open session, and reads it. `true`: this request ended it.
    async fn expire(&self, charge: &Charge, session: CheckoutSession) -> Result<(CheckoutSession, bool)> {
        if session.status != Some(SessionStatus::Open) {
            return Ok((session, false));
        }
        // A session ends once, whatever the key. With a constant one, Stripe would repeat that a payment was in progress.
        let key = format!("close-{}-{}", session.id, self.client.now().millis());
        match self.client.expire_session(&session.id, &key).await {
            Ok(session) => Ok((self.checked(charge, session)?, true)),
            Err(error) if matches!(error.remedy(), Remedy::Final | Remedy::FindThenNewKey) => {
                let session = self.retrieve(&session.id).await?;
                let session = session.ok_or_else(|| unavailable("a session is gone"))?;
                Ok((self.checked(charge, session)?, false))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Requests a refund with one key. The caller has read that Stripe has none with this name in its metadata: a key is
    /// valid for 24 hours only, so it can't prevent a second refund after that.
    async fn request(
        &self,
        payment: &str,
        amount: Amount,
        (kind, name, key): (&str, &str, &str),
        charge: Option<ChargeId>,
    ) -> Result<Requested> {
        let of_refund = (kind.to_owned(), name.to_owned());
        let of_charge = charge.map(|charge| ("charge".to_owned(), charge.to_string()));
        let metadata: Metadata = [of_refund].into_iter().chain(of_charge).collect();
        let error = match self.client.create_refund(payment, amount, &metadata, key).await {
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
            if id.starts_with("re_") { self.retrieve(&id).await? } else { None };
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
}

#[async_trait]
impl Connector for StripeConnector {
    fn name(&self) -> AcquirerName {
        AcquirerName::Hosted
    }

    fn capabilities(&self, method: PaymentMethod, currency: Currency) -> Option<Capabilities> {
        (method == PaymentMethod::CreditCard).then(|| capabilities(currency))
    }

    fn refund_capabilities(&self) -> RefundCapabilities {
        RefundCapabilities { methods: &[PaymentMethod::CreditCard], cashout: false }
    }

    async fn create(&self, new: NewCharge<'_>) -> Result<Finalised> {
        let charge = new.charge;
        let found = if new.is_first { None } else { self.find(charge).await? };
        let session = match found {
            Some(session) => session,
            None => match self.create_session(charge, &new_session(&new)).await? {
                Ok(session) => session,
                Err(refused) => return Ok(refused),
            },
        };
        if session.status == Some(SessionStatus::Expired) {
            return Ok(NOT_FINALISED_IN_TIME);
        }
        // A session that is complete has no URL: there is nothing to pay.
        let expires_at = time(&session.id, session.expires_at)?;
        let url = session.url.map_or_else(|| new.return_url.to_owned(), |Hidden(url)| url);
        let card = Card {
            page: Some(HostedPage { id: session.id, url }),
            return_url: charge.return_url(),
            expires_at,
        };
        Ok(Finalised::Made(Box::new(Artefacts { card: Some(card), ..Artefacts::default() })))
    }

    async fn read(&self, charge: &Charge, is_whole: bool) -> Result<Option<Snapshot>> {
        read_as_odd(self.look(charge, false, is_whole).await)
    }

    async fn close(&self, charge: &Charge, priority: Priority) -> Result<Option<Snapshot>> {
        read_as_odd(self.at(priority).look(charge, true, false).await)
    }

    async fn find_refund(&self, refund: &Refund, now: Timestamp) -> Result<Option<RefundAnswer>> {
        let at = self.at(Priority::Settle);
        let poll_again = RefundProgress::PollAgainAt(next_poll(refund.created_at, now));
        if let Some(id) = &refund.requested_at_bank {
            let known: Option<objects::Refund> = at.retrieve(id).await?;
            return Ok(Some(known.map_or_else(
                || RefundAnswer::new(poll_again, None, None),
                |it| of_refund(&it, poll_again),
            )));
        }
        let name = refund.id.to_string();
        let known = named(at.refunds(refund.payment.as_str(), &name).await?, &name);
        Ok(known.map(|known| of_refund(&known, poll_again)))
    }

    async fn request_refund(
        &self,
        refund: &Refund,
        _paid_at: Timestamp,
        now: Timestamp,
    ) -> Result<RefundAnswer> {
        let name = refund.id.to_string();
        let key = numbered(format!("refund-{name}"), refund.spent_requests);
        let (payment, amount) = (refund.payment.as_str(), refund.share.gross);
        let (settle, charge) = (self.at(Priority::Settle), Some(refund.id.charge()));
        let at = next_poll(refund.created_at, now);
        Ok(match settle.request(payment, amount, (REFUND, &name, &key), charge).await? {
            Requested::Known(known) => of_refund(&known, RefundProgress::PollAgainAt(at)),
            Requested::Refused(reason) => RefundAnswer::new(
                RefundProgress::RefusedUntil(refused_until(refund.created_at)),
                None,
                Some(reason),
            ),
            Requested::Later { is_spent } => {
                RefundAnswer::new(RefundProgress::RequestAgain(RequestAgain { at, is_spent }), None, None)
            }
        })
    }

    async fn find_return(
        &self,
        payment: &IncomingPayment,
        attempt: &str,
        now: Timestamp,
    ) -> Result<Option<ReturnProgress>> {
        Ok(match self.at(Priority::Settle).return_of(payment, attempt, now).await? {
            Returned::Known(progress) => Some(progress),
            Returned::Rest(..) => None,
        })
    }

    async fn request_return(
        &self,
        payment: &IncomingPayment,
        attempt: &str,
        now: Timestamp,
    ) -> Result<ReturnProgress> {
        let settle = self.at(Priority::Settle);
        let (id, rest) = match settle.return_of(payment, attempt, now).await? {
            Returned::Known(progress) => return Ok(progress),
            Returned::Rest(id, rest) => (id, rest),
        };
        let at = next_poll(payment.recorded_at, now);
        let key = format!("refund-{attempt}");
        Ok(match settle.request(&id, rest, (RETURN, attempt, &key), payment.charge_id()).await? {
            Requested::Known(known) => return_progress(&known, payment, ReturnProgress::PollAgainAt(at)),
            Requested::Refused(_) => ReturnProgress::RefusedUntil(refused_until(payment.first_recorded())),
            Requested::Later { is_spent } => ReturnProgress::RequestAgain(RequestAgain { at, is_spent }),
        })
    }

    /// Lists the newest change first, because Stripe does: a caller moves its watermark only after the last page.
    /// Stripe keeps changes for 30 days.
    async fn changes(&self, since: Timestamp, cursor: Option<&str>) -> Result<Changes> {
        let at = self.at(Priority::Background);
        let created_from = Some(since.seconds());
        let query = ListQuery { types: &EVENT_TYPES, created_from, after: cursor, ..ListQuery::default() };
        let page: Page<Event> = at.client.list(query).await?;
        let (mut changes, mut asked) = (Changes::default(), BTreeSet::new());
        changes.next = page.next_cursor().map(str::to_owned);
        changes.odd.extend(page.odd.iter().map(undocumented));
        for event in &page.data {
            let object = &event.object;
            if charge_in(&object.metadata).is_none() && !asked.insert(object.payment_intent.as_deref()) {
                continue;
            }
            let charge = at.charge_of_object(object, &mut changes.odd).await?;
            changes.whole.extend(charge.filter(|_| object.is_contested));
            let new = charge.filter(|charge| !changes.charges.contains(charge));
            changes.charges.extend(new);
        }
        Ok(changes)
    }

    async fn movements(&self, period: (Timestamp, Timestamp), cursor: Option<&str>) -> Result<Movements> {
        let at = self.at(Priority::Background);
        let (from, to) = (period.0.seconds(), period.1.seconds());
        let (created_from, created_to, expand) = (Some(from), Some(to), &["data.source"][..]);
        let query = ListQuery { created_from, created_to, expand, after: cursor, ..ListQuery::default() };
        let page: Page<BalanceTransaction> = at.client.list(query).await?;
        let next = page.next_cursor().map(str::to_owned);
        let (mut movements, mut odd) = (Vec::new(), page.odd.iter().map(undocumented).collect());
        for moved in page.data {
            let source = moved.source.unwrap_or_default();
            let is_payment = source.kind == "charge" && moved.amount > 0;
            let payment = source.payment_intent.as_ref().filter(|_| is_payment);
            movements.push(Movement {
                id: moved.id,
                payment: payment.and_then(|id| id.parse().ok()),
                charge: at.charge_of_object(&source, &mut odd).await?,
                amount: MinorUnits::new(moved.amount),
                fee: MinorUnits::new(moved.fee),
                currency: Currency::parse(&moved.currency.to_ascii_uppercase()).ok(),
            });
        }
        Ok(Movements { movements, odd, next })
    }

    fn refuses_evidence(&self, mime_type: &str, bytes: u64) -> Option<&'static str> {
        if !["application/pdf", "image/jpeg", "image/png"].contains(&mime_type) {
            return Some("the acquirer takes PDF, JPEG and PNG only");
        }
        (bytes > MAX_EVIDENCE_BYTES).then_some("the acquirer takes at most 5 MB")
    }

    fn evidence_fields(&self) -> &'static [&'static str] {
        &EVIDENCE_FIELDS
    }

    async fn submit_evidence(&self, dispute: &str, evidence: DisputeEvidence) -> Result<String> {
        let at = self.at(Priority::Settle);
        let known: Dispute = at.client.retrieve(dispute).await?;
        if known.evidence_details.submission_count > 0 {
            return Err(KitError::Invalid("evidence was submitted before".to_owned()));
        }
        let (mut fields, spent) = (Vec::<(String, String)>::new(), evidence.spent_submissions);
        fields.extend(evidence.text.map(|text| ("uncategorized_text".to_owned(), text)));
        for EvidenceToSend { field, name, mime_type, content } in evidence.files {
            let key = numbered(format!("evidence-{name}"), spent);
            let file = at.client.upload_file(&name, mime_type, &content, &key).await?;
            fields.push((field, file.id));
        }
        let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (&**name, &**value)).collect();
        let key = numbered(format!("evidence-of-{dispute}"), spent);
        let dispute = at.client.update_dispute(dispute, &fields, true, &key).await?;
        let status = serde_json::to_value(&dispute.status).unwrap_or_default();
        Ok(status.as_str().unwrap_or_default().to_owned())
    }

    async fn status(&self, charge: &Charge) -> Result<Option<ProviderStatus>> {
        let Some(session) = self.session_of(charge).await? else { return Ok(None) };
        let intent = self.intent_of(charge, &session).await?;
        let status = match self.state(&session, intent.as_ref())? {
            RemoteState::Open => "open",
            RemoteState::InProgress => "in_progress",
            RemoteState::Expired => "expired",
            RemoteState::ClosedByUs | RemoteState::ClosedByAcquirer(_) => "closed",
            RemoteState::Paid => "paid",
        };
        let amount = intent.as_ref().map(|intent| intent.amount).or(session.amount_total);
        let raw_response: Map<String, Value> = [
            ("amount", amount.into()),
            ("currency", charge.currency.as_str().into()),
            ("status", status.into()),
        ]
        .into_iter()
        .map(|(name, value): (&str, Value)| (name.to_owned(), value))
        .collect();
        let transaction_id = intent.map_or_else(|| charge.id.txid(), |intent| intent.id);
        Ok(Some(ProviderStatus { provider: "card", transaction_id, status: status.to_owned(), raw_response }))
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
fn unless_odd<T>(read: Result<T>, aside: &mut Vec<OddObject>) -> Result<Option<T>> {
    match read {
        Err(KitError::Odd(odd)) => {
            aside.push(odd);
            Ok(None)
        }
        read => read.map(Some),
    }
}

fn undocumented(entry: &Value) -> OddObject {
    OddObject::new(objects::id_of(entry), "an entry of a list is not as documented")
}

fn odd(id: &str, why: &str) -> KitError {
    KitError::Odd(OddObject::new(id, why))
}

fn unavailable(why: &str) -> KitError {
    KitError::Unavailable(why.to_owned())
}

/// Returns the idempotency key of a request after so many that are spent.
fn numbered(key: String, spent: u32) -> String {
    if spent == 0 { key } else { format!("{key}-{}", spent.saturating_add(1)) }
}

fn charge_in(metadata: &Hidden<Metadata>) -> Option<ChargeId> {
    metadata.0.get("charge")?.parse().ok()
}

/// The objects that may belong to a charge.
fn since(charge: &Charge) -> ListQuery<'static> {
    let created_from = Some(charge.created_at.seconds().saturating_sub(CLOCK_SECONDS));
    ListQuery { created_from, ..ListQuery::default() }
}

fn new_session(new: &NewCharge<'_>) -> NewSession {
    let charge = new.charge;
    let name = charge.metadata.text("description").unwrap_or_default();
    let name: String = name.trim().chars().take(MAX_NAME_CHARS).collect();
    let id = charge.id.to_string();
    NewSession {
        amount: charge.amount,
        currency: charge.currency,
        product_name: Hidden(if name.is_empty() { "Pagamento".to_owned() } else { name }),
        success_url: Hidden(new.return_url.to_owned()),
        cancel_url: Hidden(new.return_url.to_owned()),
        expires_at: charge.created_at.seconds().saturating_add(PAGE_SECONDS),
        client_reference_id: id.clone(),
        metadata: Metadata::from([("charge".to_owned(), id)]),
    }
}

/// Whether a final refusal concerns the charge. One that concerns time, currency or account would meet the next charge,
/// too.
fn is_of_charge(error: &ApiError) -> bool {
    let ApiError::Answered { problem, .. } = error else { return true };
    let is_amount = ["amount_too_small", "amount_too_large"].contains(&&*problem.code);
    let is_own =
        OF_CHARGE.iter().any(|own| problem.param.starts_with(own)) && !problem.param.contains("currency");
    is_amount || is_own || problem.kind == "card_error"
}

fn refused(error: &ApiError) -> Finalised {
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

/// A lost or stolen card, and a suspicion of fraud, look like any other decline. Otherwise a thief could find them out
/// by trying.
fn decline(last: &DeclinedPayment) -> FailureReason {
    let code = last.decline_code.as_deref().or(last.code.as_deref()).unwrap_or_default();
    match (last.code.as_deref(), code) {
        (Some("payment_intent_authentication_failure"), _) | (_, "authentication_required") => {
            FailureReason::AuthenticationFailed
        }
        (_, "insufficient_funds") => FailureReason::InsufficientFunds,
        (_, "expired_card" | "invalid_expiry_month" | "invalid_expiry_year") => FailureReason::ExpiredCard,
        (_, "incorrect_cvc" | "invalid_cvc") => FailureReason::IncorrectCvc,
        (_, "incorrect_number" | "invalid_number") => FailureReason::IncorrectNumber,
        (_, "card_not_supported" | "currency_not_supported" | "transaction_not_allowed") => {
            FailureReason::CardNotSupported
        }
        (_, "processing_error" | "issuer_not_available" | "try_again_later") => {
            FailureReason::ProcessingError
        }
        _ => FailureReason::CardDeclined,
    }
}

fn time(id: &str, seconds: i64) -> Result<Timestamp> {
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

fn payment(charge: &Charge, intent: &PaymentIntent) -> Result<RemotePayment> {
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
        method: PaymentMethod::CreditCard,
        amount: amount(&intent.id, intent.amount_received)?,
        payer_document: None,
        paid_at: time(&intent.id, tried.created)?,
        // Stripe accepts no payment on a page that has ended.
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

fn named(refunds: Vec<objects::Refund>, name: &str) -> Option<Box<objects::Refund>> {
    refunds.into_iter().find(|refund| is_named(refund, name)).map(Box::new)
}

fn of_refund(known: &objects::Refund, poll_again: RefundProgress) -> RefundAnswer {
    let progress = outcome(known).map_or(poll_again, RefundProgress::Ended);
    RefundAnswer::new(progress, Some(known.id.clone()), failure_reason(known))
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

fn outcome(refund: &objects::Refund) -> Option<RefundOutcome> {
    match refund.status {
        Some(RefundStatus::Succeeded) => Some(RefundOutcome::Refunded),
        Some(RefundStatus::Failed | RefundStatus::Canceled) => Some(RefundOutcome::Failed),
        _ => None,
    }
}

fn failure_reason(refund: &objects::Refund) -> Option<RefundFailure> {
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
