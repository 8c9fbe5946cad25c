//! Reads the state table's stream and carries out the actions that follow from each change: it inserts events
//! and their deliveries, queues messages, updates the rollups, and writes audit rows.
//!
//! The change of a charge, refund, MED case or payout, or a resend request, is published in one invocation: the
//! rows of its events and deliveries are inserted, then a message for each delivery is queued (`publish`). If the
//! process dies in between, the record is repeated. The ids of events and deliveries are derived from the change
//! or request, so a repeated record inserts nothing twice. A duplicate message finds the delivery claimed or done.
//!
//! A delivery that is listed from the start is inserted by a request, by a resend, or late. Its own record comes
//! through the stream and queues its message.
//!
//! Each action of a batch is attempted, whichever others fail. A failed record has one of three fates, by its
//! cause (`quarantine`): one that can't be read is set aside at once, with an alarm; one of a throttled account is
//! postponed; Lambda repeats all others for 12 hours. If the process dies, Lambda splits the batch and passes both
//! parts on again.
//!
//! The removal of a row leads to no action.

mod figures;
mod lookups;
mod publish;
mod quarantine;
mod remembered;
pub mod replay;
mod rollups;
mod sales;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::time::Duration;

use acquirer_core::{AcquirerMessage, AcquirerQueue};
use aws_lambda_events::dynamodb::{Event as StreamEvent, EventRecord};
use aws_lambda_events::streams::{DynamoDbBatchItemFailure, DynamoDbEventResponse};
use domain::account::SalesEmails;
use domain::acquirer::{AcquirerName, ReportedPix};
use domain::audit::{self, Audit};
use domain::charge::{Charge, IncomingPayment, Lookups, StoredCharge, TransactionStatus};
use domain::ids::{AccountId, ResendId, Scope};
use domain::med::MedCase;
use domain::payment_link::LinkPayment;
use domain::payout::Payout;
use domain::refund::{Refund, RefundStatus};
use domain::report::{Report, ReportStatus};
use domain::row::Key;
use effects::audit_trail;
use effects::email::{Email, EmailQueue, SalesMinute};
use effects::webhook::delivery::{Delivery, DeliveryStatus};
use effects::webhook::endpoint::Endpoint;
use effects::webhook::event::Event;
use effects::webhook::queue::{CountQueue, DeliveryMessage, DeliveryQueues};
use effects::webhook::resend::Resend;
use money::payment_link::PaymentLinks;
use money::report::{ReportMessage, ReportQueue};
use serde_json::Value;
use shared::clock::Clock;
use shared::config::{ConfigError, PublicUrls, Vars, required};
use shared::queue::{Message, Queue};
use shared::store::{Aws, Store, StoreError, from_item};
use shared::{WorkError, WorkResult, concurrently};

use self::figures::Figure;
pub use self::lookups::Salts;
use self::publish::{Change, ScopeWork};
use self::quarantine::Cause;
pub use self::remembered::{NewDeliveries, RememberedScopes};

/// The `task` in the input of the schedule that replays postponed records (`template.yaml`).
const REPLAY_POSTPONED: &str = "replay-postponed";

/// The most accounts whose audit rows are appended concurrently.
const CONCURRENT_ACCOUNTS: usize = 16;

#[derive(Clone, Debug)]
pub struct Dispatcher {
    pub store: Store,
    pub queues: DeliveryQueues,
    pub counts: CountQueue,
    pub acquirers: AcquirerQueue,
    pub emails: EmailQueue,
    pub reports: ReportQueue,
    pub s3: aws_sdk_s3::Client,
    pub bucket: String,
    pub clock: Clock,
    pub public_urls: PublicUrls,
    pub med_outcome_notices: bool,
    pub due_folds: RememberedScopes,
    /// The scopes that are noted to have new deliveries in this period.
    pub noted_scopes: RememberedScopes,
    pub new_deliveries: NewDeliveries,
    /// Scopes whose deliveries are counted within seconds.
    pub due_counts: RememberedScopes,
    /// Scopes whose emails about the sales of this minute are queued.
    pub mailed_sales: RememberedScopes,
    pub salts: Salts,
}

/// A record whose action failed: its sequence number, and the cause.
type FailedRecord = (String, Cause);

#[derive(Default)]
struct StreamActions {
    events: Vec<Event>,
    /// The resend request that the events are published for; `None`: they are published for the first time.
    resend: Option<ResendId>,
    /// The delivery to start, which was listed when it was inserted.
    delivery: Option<DeliveryMessage>,
    acquirer: Option<AcquirerMessage>,
    email: Option<Email>,
    sale: Option<SalesMinute>,
    report: Option<ReportMessage>,
    /// The audit row of an API key's action, or of an endpoint that was switched off.
    audit: Option<Box<Audit>>,
    /// The business figure to add to the metrics.
    figure: Option<Figure>,
    /// The values by which the new charge is found.
    lookups: Option<Lookups>,
    /// The payment to add to the totals of its payment link.
    link: Option<LinkPayment>,
}

impl Dispatcher {
    /// Reads `TABLE_NAME`, `DELIVERY_QUEUE_URL`, `TEST_DELIVERY_QUEUE_URL`, `COUNT_QUEUE_URL`, `ACQUIRER_QUEUE_URL`,
    /// `MAIL_QUEUE_URL`, `REPORT_QUEUE_URL`, `FAILED_RECORDS_BUCKET`, `CHECKOUT_BASE_URL` and `MED_OUTCOME_NOTICES` (`off`: the
    /// outcome of MED cases is neither published nor mailed).
    pub fn from_vars(aws: &Aws, clock: Clock, var: Vars<'_>) -> Result<Self, ConfigError> {
        Ok(Self {
            store: Store::for_stream(aws, required(var, "TABLE_NAME")?),
            queues: DeliveryQueues::from_vars(&aws.sqs(), var)?,
            counts: CountQueue::new(aws.sqs(), required(var, "COUNT_QUEUE_URL")?),
            acquirers: AcquirerQueue::new(aws.sqs(), required(var, "ACQUIRER_QUEUE_URL")?),
            emails: EmailQueue::new(aws.sqs(), required(var, "MAIL_QUEUE_URL")?),
            reports: ReportQueue::new(aws.sqs(), required(var, "REPORT_QUEUE_URL")?),
            s3: aws.s3(),
            bucket: required(var, "FAILED_RECORDS_BUCKET")?,
            clock,
            public_urls: PublicUrls::new(&required(var, "CHECKOUT_BASE_URL")?)?,
            med_outcome_notices: required(var, "MED_OUTCOME_NOTICES")? != "off",
            due_folds: RememberedScopes::default(),
            noted_scopes: RememberedScopes::default(),
            new_deliveries: NewDeliveries::default(),
            due_counts: RememberedScopes::default(),
            mailed_sales: RememberedScopes::default(),
            salts: Salts::default(),
        })
    }

    /// Processes a batch of the stream, or the event of the function's schedule.
    /// Errors: When the event is neither, or the postponed records can't be listed.
    pub async fn handle(&self, event: Value) -> WorkResult<DynamoDbEventResponse> {
        if event.get("task").and_then(Value::as_str) == Some(REPLAY_POSTPONED) {
            Box::pin(self.replay_postponed()).await?;
            return Ok(DynamoDbEventResponse::default());
        }
        Ok(self.handle_batch(serde_json::from_value(event)?).await)
    }

    /// Processes the records of a batch concurrently. Their order does not matter, because the keys or ids of
    /// all rows are derived from the changes.
    ///
    /// A record that is set aside or postponed counts as done. Returns the first record that must be retried.
    /// Lambda then passes on the batch again from that record.
    async fn handle_batch(&self, batch: StreamEvent) -> DynamoDbEventResponse {
        let failures = self.work_on(&batch.records, false).await;
        let failed = self.set_aside_unreadable(&batch.records, &failures).await;
        let retried = self.postpone_throttled(failed).await.into_iter().map(sequence_number);
        let mut response = DynamoDbEventResponse::default();
        // Sequence numbers are decimal numbers of different lengths, so a longer one is greater.
        if let Some(first) = retried.min_by_key(|number| (number.len(), number.clone())) {
            let mut failure = DynamoDbBatchItemFailure::default();
            failure.item_identifier = Some(first);
            response.batch_item_failures.push(failure);
        }
        response
    }

    /// Carries out the actions of records. Returns the records that failed, by sequence number.
    async fn work_on(&self, records: &[EventRecord], is_replay: bool) -> HashMap<String, Cause> {
        let mut scopes: HashMap<Scope, ScopeWork> = HashMap::new();
        let (mut acquirers, mut emails, mut reports) = (Vec::new(), Vec::new(), Vec::new());
        let (mut audits, mut new_lookups, mut linked) = (Vec::new(), Vec::new(), Vec::new());
        let mut sales = Vec::new();
        let mut failures = Vec::new();
        for record in records {
            let sequence_number = sequence_number(record);
            let number = || sequence_number.clone();
            match self.read(record) {
                Ok(actions) => {
                    let StreamActions { events, resend, delivery, acquirer, email, audit, .. } = actions;
                    let StreamActions { report, figure, lookups, link, sale, .. } = actions;
                    if let Some(scope) = events.first().map(|event| event.scope) {
                        let change = Change { number: number(), events, resend };
                        scopes.entry(scope).or_default().changes.push(change);
                    }
                    if let Some(message) = delivery {
                        scopes.entry(message.scope).or_default().deliveries.push((number(), message));
                    }
                    acquirers.extend(acquirer.map(|message| (number(), message)));
                    emails.extend(email.map(|message| (number(), message)));
                    reports.extend(report.map(|message| (number(), message)));
                    audits.extend(audit.map(|audit| (number(), *audit)));
                    new_lookups.extend(lookups.map(|lookups| (number(), lookups)));
                    linked.extend(link.map(|payment| (number(), payment)));
                    sales.extend(sale.map(|minute| (number(), minute)));
                    // The first pass of a record that is replayed has counted it.
                    figure.into_iter().filter(|_| !is_replay).for_each(Figure::write);
                }
                // A newer version wrote the row. Its functions will process the record.
                Err(WorkError::Store(StoreError::Unavailable(error))) => {
                    tracing::warn!(sequence_number, error, "a stream record waits for a newer version");
                    failures.push((sequence_number, Cause::Unavailable));
                }
                Err(error) => {
                    tracing::error!(sequence_number, %error, "can't read a stream record");
                    failures.push((sequence_number, Cause::Permanent));
                }
            }
        }
        let now = self.clock.now();
        let (to_acquirers, mailed, reported, published, audited, found, counted, sold) = tokio::join!(
            send(&self.acquirers, &acquirers, |_| Duration::ZERO),
            send(&self.emails, &emails, |email| email.delay(now)),
            send(&self.reports, &reports, |_| Duration::ZERO),
            self.publish_all(scopes),
            self.record_all(audits),
            self.insert_lookups(new_lookups),
            self.count_link_payments(linked),
            self.mail_sales(sales)
        );
        failures.extend([to_acquirers, mailed, reported, published, audited, found, counted, sold].concat());
        worst_causes(failures)
    }

    /// Adds payments to the totals of their links, each once. Returns the records that failed.
    async fn count_link_payments(&self, payments: Vec<(String, LinkPayment)>) -> Vec<FailedRecord> {
        let (links, mut failed) = (PaymentLinks::new(self.store.clone()), Vec::new());
        for (number, payment) in payments {
            if let Err(error) = links.record(&payment).await {
                let cause = Cause::from(&error);
                if cause != Cause::Throttled {
                    tracing::error!(link = %payment.link, %error, "can't count a payment of a payment link");
                }
                failed.push((number, cause));
            }
        }
        failed
    }

    /// Appends audit rows, unless they exist, those of some accounts concurrently. Returns those that failed.
    async fn record_all(&self, audits: Vec<(String, Audit)>) -> Vec<FailedRecord> {
        let mut by_account: HashMap<AccountId, (Vec<String>, Vec<Audit>)> = HashMap::new();
        for (sequence_number, audit) in audits {
            let (numbers, rows) = by_account.entry(audit.account).or_default();
            numbers.push(sequence_number);
            rows.push(audit);
        }
        let work = concurrently(CONCURRENT_ACCOUNTS, by_account, |(account, (numbers, rows))| {
            let (store, now) = (self.store.clone(), self.clock.now());
            async move { (account, numbers, shared::audit::append_derived(&store, &account, &rows, now).await) }
        });
        let mut failed = Vec::new();
        for (account, numbers, written) in work.await {
            if let Err(error) = written {
                let cause = Cause::from(&error);
                if cause != Cause::Throttled {
                    tracing::error!(%account, %error, "can't append the audit rows of an account");
                }
                failed.extend(numbers.into_iter().map(|number| (number, cause)));
            }
        }
        failed
    }

    /// Parses a record and returns the actions that follow. These depend on the record and the configuration
    /// alone, so a repeated record leads to the same actions.
    fn read(&self, record: &EventRecord) -> WorkResult<StreamActions> {
        let image = &record.change.new_image;
        if record.event_name == "REMOVE" {
            return Ok(StreamActions::default());
        }
        let attribute = |name: &str| match image.inner().get(name) {
            Some(serde_dynamo::AttributeValue::S(text)) => text.clone(),
            _ => String::new(),
        };
        let key = Key { pk: attribute("pk"), sk: attribute("sk") };
        let is_new = record.event_name == "INSERT";
        if Charge::is_at(&key) {
            let (old, new): (Option<StoredCharge>, StoredCharge) = before_and_after(record)?;
            let (old, new) = (old.as_ref().map(StoredCharge::as_stored), new.as_stored());
            return Ok(StreamActions {
                events: Event::of_charge(old, new, &self.public_urls)?.into_iter().collect(),
                acquirer: message_of_charge(old, new),
                audit: audit_trail::for_charge(old, new).map(Box::new),
                figure: Figure::of_charge(old, new),
                lookups: Lookups::of(new).filter(|_| is_new),
                link: LinkPayment::of(old, new),
                sale: SalesMinute::of(old, new),
                ..StreamActions::default()
            });
        }
        if Refund::is_at(&key) {
            let (old, new): (Option<Refund>, Refund) = before_and_after(record)?;
            return Ok(StreamActions {
                events: Event::of_refund(old.as_ref(), &new)?.into_iter().collect(),
                acquirer: message_of_refund(old.as_ref(), &new),
                audit: audit_trail::for_refund(&new).map(Box::new),
                email: Email::for_refund(old.as_ref(), &new),
                figure: Figure::of_refund(old.as_ref(), &new),
                ..StreamActions::default()
            });
        }
        if MedCase::is_at(&key) {
            let (old, new): (Option<MedCase>, MedCase) = before_and_after(record)?;
            let event = Event::of_case(old.as_ref(), &new, self.med_outcome_notices)?;
            let email = Email::for_case(&new, event.as_ref());
            let events = event.into_iter().collect();
            let audit = audit_trail::for_case(old.as_ref(), &new).map(Box::new);
            let figure = Figure::of_case(old.as_ref(), &new);
            return Ok(StreamActions { events, email, audit, figure, ..StreamActions::default() });
        }
        if Endpoint::is_at(&key) {
            let (old, new): (Option<Endpoint>, Endpoint) = before_and_after(record)?;
            return Ok(StreamActions {
                email: Email::for_endpoint(old.as_ref(), &new),
                audit: audit_trail::for_endpoint(old.as_ref(), &new).map(Box::new),
                ..StreamActions::default()
            });
        }
        if IncomingPayment::is_at(&key) {
            let (old, new): (Option<IncomingPayment>, IncomingPayment) = before_and_after(record)?;
            let attempt_of = |payment: &IncomingPayment| payment.open_return().map(|back| back.attempt);
            let is_requested =
                attempt_of(&new).is_some() && old.as_ref().and_then(attempt_of) != attempt_of(&new);
            let message = AcquirerMessage::Return { scope: new.scope, payment: new.payment_id, refusals: 0 };
            let acquirer = is_requested.then_some(message);
            return Ok(StreamActions { acquirer, ..StreamActions::default() });
        }
        if ReportedPix::is_at(&key) {
            let (old, new): (Option<ReportedPix>, ReportedPix) = before_and_after(record)?;
            let is_reported = match old {
                None => new.is_read_back_at_once(),
                Some(old) => new.is_reported_again_since(&old),
            };
            return Ok(StreamActions {
                acquirer: is_reported.then_some(AcquirerMessage::ReadBack(new.end_to_end_id)),
                ..StreamActions::default()
            });
        }
        if Payout::is_at(&key) {
            let (old, new): (Option<Payout>, Payout) = before_and_after(record)?;
            let events = Event::of_payout(old.as_ref(), &new)?.into_iter().collect();
            return Ok(StreamActions { events, ..StreamActions::default() });
        }
        if Report::is_at(&key) {
            return actions_of_report(record);
        }
        if SalesEmails::is_at(&key) {
            return actions_of_sales_emails(record);
        }
        if audit::is_at(&key) && is_new {
            let email = Email::for_access(&row(image)?);
            return Ok(StreamActions { email, ..StreamActions::default() });
        }
        if Resend::is_at(&key) && is_new {
            let resend: Resend = row(image)?;
            let events = resend.events(&self.public_urls)?;
            return Ok(StreamActions { events, resend: Some(resend.id), ..StreamActions::default() });
        }
        if Delivery::is_at(&key) && is_new {
            let delivery: Delivery = row(image)?;
            let starts = delivery.status == DeliveryStatus::Pending && delivery.listed;
            let delivery = starts.then(|| DeliveryMessage::of(&delivery));
            return Ok(StreamActions { delivery, ..StreamActions::default() });
        }
        Ok(StreamActions::default())
    }
}

fn actions_of_report(record: &EventRecord) -> WorkResult<StreamActions> {
    let (old, new): (Option<Report>, Report) = before_and_after(record)?;
    let starts = old.is_none() && new.status == ReportStatus::Pending;
    Ok(StreamActions {
        events: Event::of_report(old.as_ref(), &new)?.into_iter().collect(),
        email: Email::for_report(old.as_ref(), &new),
        report: starts.then_some(ReportMessage { scope: new.scope, report: new.id }),
        ..StreamActions::default()
    })
}

fn actions_of_sales_emails(record: &EventRecord) -> WorkResult<StreamActions> {
    let (old, new): (Option<SalesEmails>, SalesEmails) = before_and_after(record)?;
    Ok(StreamActions { email: Email::for_summary(old.as_ref(), &new), ..StreamActions::default() })
}

/// Sends messages. Returns those that were not sent.
async fn send<M: Message + Clone>(
    queue: &Queue<M>,
    messages: &[(String, M)],
    delay_of: impl Fn(&M) -> Duration,
) -> Vec<FailedRecord> {
    let bodies: Vec<M> = messages.iter().map(|(_, message)| message.clone()).collect();
    // Boxed, because the future of a request takes kilobytes, and four run concurrently.
    match Box::pin(queue.send_after(&bodies, delay_of)).await {
        Ok(refused) => {
            let refused = refused.into_iter().filter_map(|index| messages.get(index));
            refused.map(|(number, _)| (number.clone(), Cause::Unavailable)).collect()
        }
        Err(error) => {
            tracing::error!(%error, "can't send messages to a queue");
            messages.iter().map(|(number, _)| (number.clone(), Cause::Unavailable)).collect()
        }
    }
}

fn worst_causes(failures: Vec<FailedRecord>) -> HashMap<String, Cause> {
    let mut worst = HashMap::new();
    for (number, cause) in failures {
        let known = worst.entry(number).or_insert(cause);
        *known = cause.max(*known);
    }
    worst
}

fn sequence_number(record: &EventRecord) -> String {
    record.change.sequence_number.clone().unwrap_or_default()
}

fn before_and_after<T: serde::de::DeserializeOwned>(
    record: &EventRecord,
) -> Result<(Option<T>, T), StoreError> {
    let old = &record.change.old_image;
    let old = if old.inner().is_empty() { None } else { Some(row(old)?) };
    Ok((old, row(&record.change.new_image)?))
}

fn row<T: serde::de::DeserializeOwned>(image: &serde_dynamo::Item) -> Result<T, StoreError> {
    from_item(image.clone().into())
}

/// The message that creates a charge, or its other legs, or closes them.
fn message_of_charge(old: Option<&Charge>, new: &Charge) -> Option<AcquirerMessage> {
    let Some(old) = old else {
        // The request that inserted a charge with a lease creates it at its acquirers itself. If that request dies, the
        // scheduler takes over.
        let waits = new.status == TransactionStatus::Pending && new.lease_until.is_none();
        return waits.then_some(AcquirerMessage::Finalise(new.id));
    };
    let is_news = |news: fn(&Charge) -> bool| news(new) && !news(old);
    let lacks_legs = |charge: &Charge| charge.can_expire() && charge.lacks_legs();
    (is_news(Charge::is_paid_by_one_of_several) || is_news(lacks_legs))
        .then_some(AcquirerMessage::Read(new.id))
}

/// A refund that fails at the end causes no event at its acquirer, and while it was in progress, the fees of its charge
/// were not posted: the charge is read again.
fn message_of_refund(old: Option<&Refund>, new: &Refund) -> Option<AcquirerMessage> {
    let Some(old) = old else { return Some(AcquirerMessage::Refund { id: new.id, refusals: 0 }) };
    let has_failed = new.status == RefundStatus::Failed && old.status != RefundStatus::Failed;
    (has_failed && new.acquirer == AcquirerName::Hosted).then(|| AcquirerMessage::ReadWhole(new.id.charge()))
}
