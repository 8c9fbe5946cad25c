//! Charges by card, each on a hosted page of its own.

use std::collections::BTreeSet;

use acquirer_kit::{
    Changes, Connector, DisputeEvidence, Movement, Movements, NOT_FINALISED_IN_TIME, NewCharge, Priority,
    ProviderStatus, RefundAnswer, RefundProgress, RequestAgain, Result, ReturnProgress, next_poll,
    read_as_odd, refused_until,
};
use async_trait::async_trait;
use domain::acquirer::{AcquirerName, Capabilities, OddObject, RefundCapabilities};
use domain::charge::transition::Finalised;
use domain::charge::{Artefacts, Card, Charge, FailureReason, HostedPage, IncomingPayment};
use domain::ids::ChargeId;
use domain::money::{Currency, MinorUnits};
use domain::payment_method::PaymentMethod;
use domain::refund::Refund;
use domain::snapshot::{RemoteState, Snapshot};
use domain::time::Timestamp;

use crate::client::Client;
use crate::objects::{
    self, BalanceTransaction, CheckoutSession, DeclinedPayment, Expandable, Hidden, Metadata, Page,
    PaymentIntent, PaymentIntentStatus, PaymentStatus, SessionStatus,
};
use crate::payments::{
    EVIDENCE_FIELDS, METHOD, OTHER_OWNER, REFUND, Requested, charge_in, created, failure_reason, named,
    numbered, odd, outcome, provider_status, refused, refuses_evidence, since, time, unavailable,
    undocumented, unless_odd,
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

/// How long after the end of its page a payer's authentication may still end, in seconds. A payment after that is
/// returned.
const AUTHENTICATION_SECONDS: i64 = 60 * 60;

/// The longest name of an item on a page, in characters.
const MAX_NAME_CHARS: usize = 250;

/// Reasons of cancellations that a person requested. Stripe gives other reasons when it cancels a payment itself.
const CANCELED_ELSEWHERE: [&str; 4] = ["abandoned", "duplicate", "fraudulent", "requested_by_customer"];

/// The connector of one account.
#[derive(Clone, Debug)]
pub struct StripeConnector {
    client: Client,
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
        let intent = unless_odd(self.client.known::<PaymentIntent>(id).await, odd)?.flatten();
        Ok(intent.and_then(|intent| charge_in(&intent.metadata)))
    }

    /// Finds the session of a charge after a lost answer: one that was paid before one that can be.
    async fn find(&self, charge: &Charge) -> Result<Option<CheckoutSession>> {
        let id = charge.id.to_string();
        let sessions: Vec<CheckoutSession> = self.client.all_but(since(charge), &id).await?;
        let is_its = |session: &CheckoutSession| {
            session.client_reference_id.as_ref() == Some(&id)
                && self.client.is_its(charge, session.livemode, &session.metadata)
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
        let session = self.client.known(&id).await?;
        session.map(|session| self.checked(charge, session)).transpose()
    }

    fn checked(&self, charge: &Charge, session: CheckoutSession) -> Result<CheckoutSession> {
        let is_its = self.client.is_its(charge, session.livemode, &session.metadata);
        if is_its { Ok(session) } else { Err(odd(&session.id, OTHER_OWNER)) }
    }

    /// Returns the payment of a session. `None`: the payer has not tried to pay.
    async fn intent_of(&self, charge: &Charge, session: &CheckoutSession) -> Result<Option<PaymentIntent>> {
        let intent = match &session.payment_intent {
            Some(Expandable::Object(intent)) => Some((**intent).clone()),
            Some(Expandable::Id(id)) => self.client.known(id).await?,
            // A session that expired may have lost the payment that was confirmed at the same time.
            None if session.payment_status == PaymentStatus::Paid => {
                let id = charge.id.to_string();
                let intents: Vec<PaymentIntent> = self.client.all_but(since(charge), &id).await?;
                let is_its = |intent: &&PaymentIntent| {
                    intent.status == PaymentIntentStatus::Succeeded
                        && charge_in(&intent.metadata) == Some(charge.id)
                        && !intent.metadata.0.contains_key(METHOD)
                };
                let found = intents.iter().find(is_its).map(|intent| intent.id.clone());
                let id = found.ok_or_else(|| unavailable("a paid session has no payment"))?;
                self.client.known(&id).await?
            }
            None => None,
        };
        intent.map(|intent| self.client.checked_intent(charge, intent)).transpose()
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
            snapshot.is_authenticating = intent.status == PaymentIntentStatus::RequiresAction;
            return Ok(snapshot);
        }
        self.client.add_payment(&mut snapshot, charge, PaymentMethod::CreditCard, &intent, is_whole).await?;
        Ok(snapshot)
    }

    async fn create_session(
        &self,
        charge: &Charge,
        new: &NewSession,
    ) -> Result<Result<CheckoutSession, Finalised>> {
        let create = |key: String| async move {
            let session = self.client.create_session(new, &key).await?;
            Ok(self.checked(charge, session))
        };
        let key = format!("charge-{}", charge.id);
        let made = created((&key, &OF_CHARGE), create, || self.find(charge)).await?;
        Ok(made.map_err(|error| refused(&error)))
    }

    /// Ends an open session, and reads it. `true`: this request ended it.
    async fn expire(&self, charge: &Charge, session: CheckoutSession) -> Result<(CheckoutSession, bool)> {
        if session.status != Some(SessionStatus::Open) {
            return Ok((session, false));
        }
        // A session ends once, whatever the key. With a constant one, Stripe would repeat that a payment was in progress.
        let key = format!("close-{}-{}", session.id, self.client.now().millis());
        let closed = self.client.expire_session(&session.id, &key).await;
        let (session, is_ours) = self.client.after_close(&session.id, closed, "a session is gone").await?;
        Ok((self.checked(charge, session)?, is_ours))
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
        // The page is closed there when a shorter life is over: Stripe takes no `expires_at` of less than 30 minutes.
        let lifetime = charge.lifetime_seconds(PAGE_SECONDS);
        let ends_at = charge.created_at.saturating_plus_seconds(lifetime);
        let expires_at = time(&session.id, session.expires_at)?.min(ends_at);
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
        let at = self.client.at(Priority::Settle);
        let poll_again = RefundProgress::PollAgainAt(next_poll(refund.created_at, now));
        if let Some(id) = &refund.requested_at_bank {
            let known: Option<objects::Refund> = at.known(id).await?;
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
        let (settle, charge) = (self.client.at(Priority::Settle), Some(refund.id.charge()));
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
        self.client.at(Priority::Settle).find_return(payment, attempt, now).await
    }

    async fn request_return(
        &self,
        payment: &IncomingPayment,
        attempt: &str,
        now: Timestamp,
    ) -> Result<ReturnProgress> {
        self.client.at(Priority::Settle).request_return(payment, attempt, now).await
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
        refuses_evidence(mime_type, bytes)
    }

    fn evidence_fields(&self) -> &'static [&'static str] {
        &EVIDENCE_FIELDS
    }

    async fn submit_evidence(&self, dispute: &str, evidence: DisputeEvidence) -> Result<String> {
        self.client.at(Priority::Settle).submit_evidence(dispute, evidence).await
    }

    async fn status(&self, charge: &Charge) -> Result<Option<ProviderStatus>> {
        let Some(session) = self.session_of(charge).await? else { return Ok(None) };
        let intent = self.intent_of(charge, &session).await?;
        let state = self.state(&session, intent.as_ref())?;
        let amount = intent.as_ref().map(|intent| intent.amount).or(session.amount_total);
        let transaction_id = intent.map_or_else(|| charge.id.txid(), |intent| intent.id);
        Ok(Some(provider_status("card", (charge, transaction_id), (amount, &state))))
    }
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
        // So that a payer who gives up is asked to pay again at once.
        cancel_url: Hidden(format!("{}&cancelled=1", new.return_url)),
        expires_at: charge.created_at.seconds().saturating_add(PAGE_SECONDS),
        client_reference_id: id.clone(),
        metadata: Metadata::from([("charge".to_owned(), id)]),
    }
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

fn of_refund(known: &objects::Refund, poll_again: RefundProgress) -> RefundAnswer {
    let progress = outcome(known).map_or(poll_again, RefundProgress::Ended);
    RefundAnswer::new(progress, Some(known.id.clone()), failure_reason(known))
}
