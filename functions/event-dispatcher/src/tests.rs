//! Tests of the actions that follow from each kind of stream record. The payloads of events are tested in
//! `effects::webhook`.

use self::payouts::pending;
use domain::charge::RefundParameters;
use domain::charge::transition::{self, IncomingPaymentWrite};
use domain::ids::{ConnectionId, EndToEndId, EndpointId, MedCaseId, Mode, RefundId, UserId};
use domain::med::{CaseKind, CaseNotification, CaseStep};
use domain::money::{Amount, MinorUnits};
use domain::refund::{RefundPlan, RefundStep};
use domain::row::{READ_FORMAT, Row};
use domain::wallet::RefundStrategy;
use domain::webhook::event_type::EventType;
use serde_json::json;
use shared::store::to_item;

use charges::{at, paid, waiting};

use super::*;

#[path = "../../../domain/src/charge/testing.rs"]
pub(crate) mod charges;
#[path = "../../../domain/src/payout/testing.rs"]
mod payouts;

/// A dispatcher whose AWS endpoints don't exist.
pub(crate) fn dispatcher() -> Dispatcher {
    let var = |name: &str| {
        Some(match name {
            "CHECKOUT_BASE_URL" => "https://pay.example.com/checkout".to_owned(),
            name if name.starts_with("AWS_ENDPOINT_URL") => "http://127.0.0.1:9".to_owned(),
            name => format!("some-{name}"),
        })
    };
    Dispatcher::from_vars(&Aws::from_vars(&var).unwrap(), Clock::default(), &var).unwrap()
}

/// The live and the test scope of an account.
pub(crate) fn scopes() -> [Scope; 2] {
    [Mode::Live, Mode::Test].map(|mode| Scope { mode, ..waiting().scope })
}

/// A row in the form in which stream records contain it.
fn image(row: &impl Row) -> Value {
    serde_json::to_value(serde_dynamo::Item::from(to_item(row).unwrap())).unwrap()
}

/// A stream record. `old` or `new` is `null` if the record has no such image.
fn record(name: &str, old: &Value, new: &Value) -> EventRecord {
    let keys = if new.is_null() { old } else { new };
    let record = json!({
        "eventID": "1", "eventName": name, "eventVersion": "1.1", "eventSource": "aws:dynamodb",
        "awsRegion": "sa-east-1", "eventSourceARN": "arn:aws:dynamodb:…",
        "dynamodb": {
            "ApproximateCreationDateTime": 1_795_262_400,
            "Keys": {"pk": keys["pk"], "sk": keys["sk"]}, "OldImage": old, "NewImage": new,
            "SequenceNumber": "111", "SizeBytes": 26, "StreamViewType": "NEW_AND_OLD_IMAGES",
        },
    });
    serde_json::from_value(record).unwrap()
}

fn insert(new: &impl Row) -> EventRecord {
    record("INSERT", &Value::Null, &image(new))
}

fn modify<R: Row>(old: &R, new: &R) -> EventRecord {
    record("MODIFY", &image(old), &image(new))
}

/// The actions that a record leads to, one a line.
fn actions(record: &EventRecord) -> String {
    let StreamActions {
        events,
        resend,
        delivery,
        acquirer,
        email,
        sale,
        report,
        audit,
        figure,
        lookups,
        link,
    } = dispatcher().read(record).unwrap();
    let mut lines = Vec::new();
    for event in events {
        let names: Vec<&str> = event.types().map(EventType::as_str).collect();
        let to = event.webhook_url.map(|url| format!(" to {url}")).unwrap_or_default();
        if !names.is_empty() {
            lines.push(format!("publish {}{to}", names.join(", ")));
        }
        if let Some(counted) = event.counted {
            let sums = |sums: &domain::rollup::Sums| {
                sums.iter().map(|(name, by)| format!("{name} {by:+}")).collect::<Vec<_>>().join(", ")
            };
            let (day, currency, of_all_time) = (counted.day, counted.currency, counted.of_all_time());
            lines.push(format!("count on {day} in {currency}: {}", sums(&counted.sums)));
            for (day, added) in counted.of_days().skip(1) {
                lines.push(format!("count on {day} in {currency}: {}", sums(added)));
            }
            lines.push(format!("count for all time: {}", sums(&of_all_time)));
        }
    }
    lines.extend(resend.map(|resend| format!("resend {resend}")));
    lines.extend(delivery.map(|message| format!("deliver {}", message.body().unwrap())));
    lines.extend(acquirer.map(|message| format!("ask acquirer {}", message.body().unwrap())));
    lines.extend(email.map(|message| format!("mail {}", message.body().unwrap())));
    lines.extend(sale.map(|minute| format!("mail the sales up to {}", minute.ends_at())));
    lines.extend(report.map(|message| format!("report {}", message.body().unwrap())));
    lines.extend(audit.map(|audit| format!("audit {} {}", audit.action.name(), audit.subject)));
    lines.extend(figure.map(|figure| format!("metric {figure:?}")));
    lines.extend(link.map(|payment| format!("count {} in {}", payment.amount.minor(), payment.link)));
    lines.extend(lookups.map(|lookups| format!("{} rows to find it by", lookups.rows(b"salt").count())));
    if lines.is_empty() { "nothing".to_owned() } else { lines.join("\n") }
}

pub(crate) fn refund() -> RefundStep {
    let asked = RefundParameters {
        gross: Some(Amount::parse(400).unwrap()),
        strategy: RefundStrategy::Cashout,
        pix_out_fee: MinorUnits::ZERO,
        merchant_bears_pix_out: false,
        is_held: false,
    };
    let plan = RefundPlan {
        parameters: asked,
        destination: None,
        to_payer: false,
        third_party: false,
        limit: None,
        reason: None,
        request_hash: String::new(),
    };
    Refund::request(RefundId::derive(paid().id, "refund-01"), &paid(), plan, at(100)).unwrap()
}

pub(crate) fn case() -> CaseStep {
    let notification = CaseNotification {
        id: None,
        kind: CaseKind::Med,
        reason: None,
        method: None,
        response_deadline: None,
        amount: None,
        reported_at: None,
    };
    MedCase::open(MedCaseId::derive(paid().id, "1"), &paid(), &notification, at(100)).unwrap()
}

fn endpoint() -> Endpoint {
    let url = "https://shop.example.com/hook".to_owned();
    let id = EndpointId::new(at(0), [7; 10]);
    Endpoint::new(waiting().scope, id, (url, vec![EventType::ChargePaid]), at(0))
}

fn resend() -> Resend {
    Resend { id: ResendId::new(at(120), [7; 10]), charge: paid(), refund: None, at: at(120) }
}

/// The events of a charge that is paid. `webhook_url`: the transaction's `webhookUrl`, if it has one.
fn paid_events(webhook_url: Option<&str>) -> Event {
    let payment_details = webhook_url
        .map(|url| domain::charge::PaymentDetails { customer_id: None, webhook_url: Some(url.to_owned()) });
    let charge = Charge { payment_details, ..paid() };
    Event::of_charge(Some(&waiting()), &charge, &dispatcher().public_urls).unwrap().unwrap()
}

/// The delivery of [`paid_events`].
fn delivery() -> Delivery {
    Delivery::for_event(&paid_events(None), &[endpoint()], at(60)).remove(0)
}

/// A row of each kind that leads to actions.
fn images_of_each_kind() -> [Value; 7] {
    [
        image(&waiting()),
        image(&refund().refund),
        image(&case().case),
        image(&endpoint()),
        image(&pending()),
        image(&resend()),
        image(&delivery()),
    ]
}

#[test]
fn a_new_charge_that_the_acquirer_must_finalise_is_queued_for_it_once() {
    let pending = Charge { status: TransactionStatus::Pending, ..waiting() };
    insta::assert_snapshot!(actions(&insert(&pending)), @r#"
    count on 2026-11-21 in BRL: c9 +1, made +1, s_pe +1
    count for all time: made +1, s_pe +1
    ask acquirer {"finalise":"ch_f4357470-cd8b-8fda-8eac-d58f8e8e59b9"}
    "#);
    let later = transition::next_version(pending.clone(), at(30));
    insta::assert_snapshot!(actions(&modify(&pending, &later)), @"nothing");
    let finalised = transition::next_version(waiting(), at(30));
    insta::assert_snapshot!(actions(&modify(&pending, &finalised)), @"
    publish charge.created, payment.created, payment.status_changed
    count on 2026-11-21 in BRL: s_pe -1, s_wp +1
    count for all time: s_pe -1, s_wp +1
    ");
}

#[test]
fn a_live_sale_and_a_summary_that_is_due_are_mailed() {
    let live = |charge: Charge| Charge { scope: Scope { mode: Mode::Live, ..charge.scope }, ..charge };
    let mailed = "mail the sales up to 2026-11-21T12:02:00.000Z";
    assert!(actions(&modify(&live(waiting()), &live(paid()))).contains(mailed));
    assert!(!actions(&modify(&waiting(), &paid())).contains("mail"));
    let none = SalesEmails::none(waiting().scope.account, UserId::from_email("ana@loja.example"));
    let chosen = none.chosen(true, true, at(0));
    assert_eq!(actions(&insert(&chosen)), "nothing");
    let due = chosen.summarised(at(23 * 60 * 60)).unwrap();
    let email = actions(&modify(&chosen, &due));
    assert!(email.contains(r#""about":{"sales_summary":"usr_"#), "{email}");
    assert!(email.contains(r#""version":2,"at":"2026-11-22T11:00:00.000Z""#), "{email}");
}

#[test]
fn each_attempt_of_a_payments_return_is_queued_for_the_acquirer_once() {
    let connection = ConnectionId::derive("pix", "https://bank.example.com", "client");
    let recorded = transition::unmatched((waiting().scope, connection), &charges::payment(), None, at(70));
    let IncomingPaymentWrite::Insert(unmatched) = recorded.incoming_payment else { panic!("{recorded:?}") };
    assert_eq!(actions(&insert(&unmatched)), "nothing");
    let (returned, _) = unmatched.return_unmatched(at(80)).unwrap();
    let retried = returned.return_retried(at(90)).unwrap();
    for (old, new) in [(&unmatched, &returned), (&returned, &retried)] {
        let actions = actions(&modify(old, new));
        assert!(actions.starts_with(r#"ask acquirer {"return":"#), "{actions}");
    }
    assert!(actions(&insert(&returned)).starts_with("ask acquirer"), "it can be inserted with its return");
    let (completed, _) = retried.return_completed(None, at(100)).unwrap();
    for (old, new) in [(&returned, &returned), (&retried, &completed), (&completed, &completed)] {
        assert_eq!(actions(&modify(old, new)), "nothing");
    }
}

#[test]
fn a_reported_pix_is_read_back_from_the_bank_when_it_is_reported() {
    let connection = ConnectionId::derive("pix", "https://bank.example.com", "client");
    let end_to_end_id = EndToEndId::sandbox(at(60), [1; 8]);
    let account = waiting().scope.account;
    let reported = ReportedPix::notified(end_to_end_id, (connection, account), None, at(60));
    assert!(actions(&insert(&reported)).starts_with(r#"ask acquirer {"read_back":"#));
    let recorded = reported.recorded(account, None);
    let again = recorded.reported_again(at(90));
    assert!(actions(&modify(&recorded, &again)).starts_with("ask acquirer"));
    for (old, new) in [(&reported, &reported), (&reported, &recorded), (&recorded, &recorded)] {
        assert_eq!(actions(&modify(old, new)), "nothing", "{new:?}");
    }
    assert_eq!(actions(&insert(&recorded)), "nothing");
}

#[test]
fn a_delivery_is_started_by_its_record_only_when_it_is_new_and_pending_and_listed() {
    let unlisted = delivery();
    insta::assert_snapshot!(actions(&insert(&unlisted)), @"nothing");
    let new = Delivery { listed: true, ..unlisted };
    insta::assert_snapshot!(actions(&insert(&new)), @r#"deliver {"scope":"acc_0w3ge1r70w3ge1r7:test","delivery":"wd_01m7yzpc30bs685v5a8p6vtrpv","endpoint":"wh_01m7yzmhg00w3ge1r70w3ge1r7","due":true}"#);
    let retried = Delivery { attempts: 1, ..new.clone() };
    insta::assert_snapshot!(actions(&modify(&new, &retried)), @"nothing");
    let cancelled = Delivery { status: DeliveryStatus::Cancelled, ..new };
    insta::assert_snapshot!(actions(&insert(&cancelled)), @"nothing");
}

#[test]
fn the_message_of_a_delivery_to_a_webhook_url_names_no_endpoint() {
    let deliveries =
        Delivery::for_event(&paid_events(Some("https://shop.example.com/own")), &[endpoint()], at(60));
    let new = deliveries.into_iter().find(|delivery| delivery.endpoint.is_none()).unwrap();
    insta::assert_snapshot!(DeliveryMessage::of(&new).body().unwrap(), @r#"{"scope":"acc_0w3ge1r70w3ge1r7:test","delivery":"wd_01m7yzpc30h5wv1waj5yfcxw13","endpoint":null}"#);
}

#[test]
fn the_greatest_cause_of_a_records_failures_counts() {
    let number = |cause| ("1".to_owned(), cause);
    let in_order = [Cause::Permanent, Cause::Throttled, Cause::Unavailable];
    for (index, greater) in in_order.into_iter().enumerate() {
        for lesser in &in_order[..=index] {
            let worst = HashMap::from([number(greater)]);
            assert_eq!(worst_causes(vec![number(greater), number(*lesser)]), worst);
            assert_eq!(worst_causes(vec![number(*lesser), number(greater)]), worst);
        }
    }
}

#[tokio::test]
async fn a_batch_is_retried_from_the_first_record_that_can_not_be_set_aside() {
    let unreadable = |number: &str| {
        let mut unreadable = insert(&waiting());
        unreadable.change.sequence_number = Some(number.to_owned());
        unreadable.change.new_image = serde_json::from_value(json!({
            "pk": {"S": waiting().key().pk}, "sk": {"S": "charge"},
        }))
        .unwrap();
        unreadable
    };
    let batch = json!({"Records": [unreadable("99"), unreadable("100")]});
    let response = dispatcher().handle(batch).await.unwrap();
    insta::assert_snapshot!(serde_json::to_string(&response).unwrap(), @r#"{"batchItemFailures":[{"itemIdentifier":"99"}]}"#);
}

#[test]
fn a_removed_row_leads_to_nothing_whatever_it_was() {
    for old in images_of_each_kind() {
        assert_eq!(actions(&record("REMOVE", &old, &Value::Null)), "nothing", "{}", old["pk"]);
    }
}

#[tokio::test]
async fn a_record_in_the_format_of_a_newer_version_is_retried_and_not_set_aside() {
    let mut newer = image(&waiting());
    newer["format"] = json!({"N": (READ_FORMAT + 1).to_string()});
    let record = record("INSERT", &Value::Null, &newer);
    assert!(matches!(dispatcher().read(&record), Err(WorkError::Store(StoreError::Unavailable(_)))));
    let failures = dispatcher().work_on(&[record], false).await;
    assert_eq!(failures, HashMap::from([("111".to_owned(), Cause::Unavailable)]));
}

#[test]
fn a_row_that_does_not_parse_is_an_error_and_not_skipped() {
    let mut unknown_status = image(&waiting());
    unknown_status["status"] = json!({"S": "UNKNOWN"});
    let new = record("INSERT", &Value::Null, &unknown_status);
    insta::assert_snapshot!(dispatcher().read(&new).err().unwrap(), @"a row can't be read or written: unknown variant `UNKNOWN`, expected one of `PENDING`, `WAITING_PAYMENT`, `PROCESSING`, `PAID`, `APPROVED`, `REFUSED`, `CANCELLED`, `EXPIRED`, `REFUNDED`, `CHARGEBACK`, `DISPUTE`");
    let old = record("MODIFY", &unknown_status, &image(&waiting()));
    assert!(matches!(dispatcher().read(&old), Err(WorkError::Store(StoreError::Corrupt(_)))));
    for image in images_of_each_kind() {
        let only_the_key = json!({"pk": image["pk"], "sk": image["sk"]});
        let read = dispatcher().read(&record("INSERT", &Value::Null, &only_the_key));
        assert!(matches!(read, Err(WorkError::Store(StoreError::Corrupt(_)))), "{only_the_key}");
    }
}

#[tokio::test]
async fn a_batch_whose_records_lead_to_nothing_is_done_without_a_request_to_aws() {
    let event = paid_events(None);
    let batch = json!({"Records": [
        insert(&event),
        modify(&paid(), &transition::next_version(paid(), at(90))),
        record("REMOVE", &image(&waiting()), &Value::Null),
    ]});
    let response = dispatcher().handle(batch).await.unwrap();
    insta::assert_snapshot!(serde_json::to_string(&response).unwrap(), @r#"{"batchItemFailures":[]}"#);
}
