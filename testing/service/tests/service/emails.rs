//! Tests of emails to an account's contact. Here, an email is the service's row and
//! queue message, and a mail is the message that the contact receives. Each email is sent as one mail, if the
//! contact has an address and has not switched mail off. A failing mail delays nothing else.

use std::path::PathBuf;

use aws_sdk_sqs::types::QueueAttributeName;
use domain::account::Contact;
use domain::audit::Action;
use domain::time::Timestamp;
use domain::webhook::failure::AttemptFailure;
use effects::email::{Claim, Email, EmailRecord, EmailTopic, Emails};
use effects::webhook::delivery::{AttemptOutcome, FailedAttempt};
use effects::webhook::endpoint::Endpoints;
use local::stack::Options;
use mail_parser::MessageParser;
use serde_json::{Value, json};
use shared::account::Accounts;
use shared::store::from_item;

use crate::invocations::{dispatch, invoke};
use crate::support::{Listener, Service, eventually, id, operator, wait_until};
use crate::webhooks::endpoint_path;

const DAY: i64 = 24 * 60 * 60;

/// A directory that receives the mails of one test. It is removed on drop.
pub(crate) struct MailDirectory(PathBuf);

impl Drop for MailDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A parsed mail.
#[derive(Debug)]
pub(crate) struct ParsedMail {
    from: String,
    pub(crate) to: String,
    pub(crate) subject: String,
    pub(crate) text: String,
}

impl MailDirectory {
    pub(crate) fn new() -> Self {
        Self(std::env::temp_dir().join(format!("mails-{}", uuid::Uuid::new_v4())))
    }

    /// Returns the mails received so far, oldest first.
    pub(crate) fn all(&self) -> Vec<ParsedMail> {
        let Ok(files) = std::fs::read_dir(&self.0) else { return Vec::new() };
        let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
        files.retain(|file| file.extension().is_some_and(|extension| extension == "eml"));
        files.sort();
        files.iter().map(|file| parse_mail(&std::fs::read(file).unwrap())).collect()
    }

    pub(crate) async fn received(&self, count: usize) -> Vec<ParsedMail> {
        eventually("the mails", async || Some(self.all()).filter(|mails| mails.len() >= count)).await
    }

    /// Creates a file at the directory's path, so that no mail can be written and every attempt fails.
    fn block(&self) {
        std::fs::write(&self.0, "not a directory").unwrap();
    }

    fn unblock(&self) {
        std::fs::remove_file(&self.0).unwrap();
    }

    pub(crate) fn options(&self) -> Options {
        Options { mail_directory: Some(self.0.clone()), ..Options::in_memory() }
    }
}

fn parse_mail(bytes: &[u8]) -> ParsedMail {
    let mail = MessageParser::default().parse(bytes).unwrap();
    let only = |addresses: Option<&mail_parser::Address<'_>>| {
        let addresses: Vec<&str> = addresses.unwrap().iter().filter_map(|one| one.address()).collect();
        let [address] = addresses.as_slice() else { panic!("{addresses:?}") };
        (*address).to_owned()
    };
    ParsedMail {
        from: only(mail.from()),
        to: only(mail.to()),
        subject: mail.subject().unwrap().to_owned(),
        text: mail.body_text(0).unwrap().replace("\r\n", "\n"),
    }
}

impl Service {
    /// Starts a service without event sources. The test itself dispatches the stream and runs the mailer.
    async fn start_without_event_sources(mails: &MailDirectory) -> Self {
        Self::start_with(Options { event_sources: false, ..mails.options() }).await
    }

    /// Opens a case on a new paid charge, and returns the queue message of its email.
    async fn queue_case_email(&self) -> String {
        let charge = self.pay(1000).await;
        self.open_case(&charge, json!({})).await;
        dispatch(&self.stack).await;
        self.take_queued_emails().await.remove(0)
    }

    /// Receives and deletes all messages of the mail queue. Returns their bodies.
    pub(crate) async fn take_queued_emails(&self) -> Vec<String> {
        self.take_messages("MailQueue").await
    }

    /// Invokes the mailer with a message. Returns whether it succeeded.
    pub(crate) async fn run_mailer(&self, body: &str) -> bool {
        let record = json!({"messageId": "m", "body": body, "eventSource": "aws:sqs"});
        let answer = invoke(&self.stack, "MailerFunction", &[record]).await;
        answer["batchItemFailures"] == json!([])
    }

    /// Dispatches the stream, then runs the mailer for each queued message.
    async fn dispatch_and_run_mailer(&self) {
        dispatch(&self.stack).await;
        for body in self.take_queued_emails().await {
            assert!(self.run_mailer(&body).await, "{body}");
        }
    }

    async fn change_contact(&self, change: impl Fn(&mut Contact)) {
        let accounts = Accounts::new(self.store());
        let (account, now) = (self.scope().account, self.stack.clock.now());
        let by = operator();
        let changed = accounts.change(&account, Action::SetContact, |of| &mut of.contact, change, &by, now);
        changed.await.unwrap();
    }

    /// Reads the rows of the first account's emails.
    async fn email_rows(&self) -> Vec<Value> {
        let rows = self.rows(&format!("notices#{}", self.scope().account), "ntc_").await;
        let rows: Vec<EmailRecord> = rows.into_iter().map(|row| from_item(row).unwrap()).collect();
        rows.iter().map(|row| serde_json::to_value(row).unwrap()).collect()
    }
}

#[tokio::test]
async fn the_contact_gets_an_email_when_a_case_opens_and_when_it_ends() {
    let mails = MailDirectory::new();
    let service = Service::start_with(mails.options()).await;
    let charge = service
        .new_charge(&json!({"amount": 123_456, "description": "Camiseta", "metadata": {"order": "1001"}, "customer": {"name": "Maria", "document": "29537995593"}}))
        .await;
    service.sandbox(&charge, "pay", &json!({"payer_tax_id": "29537995593", "payer_name": "Maria"})).await;
    let notification = json!({"reason": "Golpe, 29537995593", "response_deadline": "2099-12-01T00:00:00Z"});
    let case = service.open_case(&charge, notification).await;
    let opened = mails.received(1).await.remove(0);
    let owner = &service.stack.seed.first.owner_email;
    assert_eq!((opened.from.as_str(), &opened.to), ("avisos@pagamentos.example", owner));
    assert_eq!(
        opened.subject,
        "[teste] Disputa aberta: Pix (MED) de R$ 1.234,56, responder até 30/11/2099 às 21:00"
    );
    let about = ["Pedido: 1001", "Cliente: Maria\n", "Descrição: Camiseta\n"];
    for said in
        ["Olá, Loja Exemplo.", "R$ 1.234,56 saiu do seu saldo", id(&case), id(&charge)].iter().chain(&about)
    {
        assert!(opened.text.contains(said), "{said}: {}", opened.text);
    }

    service.answer_case(&case, "appeal", json!({"reason": "Entregue em 3 de novembro"})).await.expect(200);
    service.decide_case(&case, "merchant").await.expect(200);
    let resolved = mails.received(2).await.remove(1);
    assert_eq!(resolved.subject, "[teste] Disputa encerrada, a seu favor: Pix (MED) de R$ 1.234,56");
    assert!(resolved.text.contains("R$ 1.234,56, que estava retido, voltou ao seu saldo disponível."));
    // The mails contain no payer document, no words of the payer, and no API key.
    for mail in mails.all() {
        let whole = format!("{mail:?}");
        for left_out in ["29537995593", "Golpe", "ak_test_"] {
            assert!(!whole.contains(left_out), "{left_out}: {whole}");
        }
    }
}

#[tokio::test]
async fn repeated_records_and_concurrent_messages_send_one_email() {
    let mails = MailDirectory::new();
    let service = Service::start_without_event_sources(&mails).await;
    let charge = service.pay(1000).await;
    let case = service.open_case(&charge, json!({})).await;
    service.answer_case(&case, "accept", json!({})).await.expect(200);
    // The stream is dispatched three times.
    for _ in 0..3 {
        dispatch(&service.stack).await;
        let messages = service.take_queued_emails().await;
        assert_eq!(messages.len(), 2, "one message for the opening and one for the end: {messages:?}");
        for body in &messages {
            let run = || service.run_mailer(body);
            assert_eq!(tokio::join!(run(), run(), run(), run(), run()), (true, true, true, true, true));
        }
        // A message that found another worker's claim is redelivered after the lease.
        service.stack.clock.advance(61_000);
        for body in service.take_queued_emails().await {
            assert!(service.run_mailer(&body).await);
        }
    }
    let subjects: Vec<String> = mails.all().into_iter().map(|mail| mail.subject).collect();
    assert_eq!(
        subjects,
        [
            "[teste] Disputa aberta: Pix (MED) de R$ 10,00",
            "[teste] Disputa encerrada, com perda: Pix (MED) de R$ 10,00"
        ]
    );
}

#[tokio::test]
async fn a_mail_whose_worker_died_is_sent_after_the_lease_expires() {
    let mails = MailDirectory::new();
    let service = Service::start_without_event_sources(&mails).await;
    let message = service.queue_case_email().await;
    // A worker claims the email and then dies.
    let email: Email = serde_json::from_str(&message).unwrap();
    let emails = Emails::new(service.store());
    let claimed = emails.claim(&email, 7, service.stack.clock.now()).await.unwrap();
    assert!(matches!(claimed, Claim::Claimed(_)));
    assert!(service.run_mailer(&message).await, "a message that finds a claim is acknowledged");
    assert!(mails.all().is_empty());
    let (sqs, url) = service.queue("MailQueue");
    let delayed = QueueAttributeName::ApproximateNumberOfMessagesDelayed;
    let counts =
        sqs.get_queue_attributes().queue_url(url).attribute_names(delayed.clone()).send().await.unwrap();
    assert_eq!(counts.attributes.unwrap()[&delayed], "1", "a delayed message retries after the lease");
    service.stack.clock.advance(61_000);
    assert!(service.run_mailer(&message).await);
    assert_eq!((mails.all().len(), &service.email_rows().await[0]["attempts"]), (1, &json!(2)));
}

#[tokio::test]
async fn a_contact_without_an_address_or_with_mail_off_gets_no_email() {
    let mails = MailDirectory::new();
    let service = Service::start_without_event_sources(&mails).await;
    let address = service.stack.seed.first.owner_email.parse().unwrap();
    service.change_contact(|contact| contact.mail_off = true).await;
    service.open_case(&service.pay(1000).await, json!({})).await;
    service.dispatch_and_run_mailer().await;
    service.change_contact(|contact| *contact = Contact::default()).await;
    service.open_case(&service.pay(1000).await, json!({})).await;
    service.dispatch_and_run_mailer().await;
    assert!(mails.all().is_empty() && service.email_rows().await.is_empty());
    // Once the contact has an address and mail is on, later emails are sent.
    service.change_contact(|contact| contact.address = Some(Clone::clone(&address))).await;
    service.take_queued_emails().await;
    let case = service.open_case(&service.pay(1000).await, json!({})).await;
    dispatch(&service.stack).await;
    for body in service.take_queued_emails().await.iter().filter(|body| body.contains(id(&case))) {
        assert!(service.run_mailer(body).await);
    }
    assert_eq!(mails.all().len(), 1);
}

#[tokio::test]
async fn an_empty_mail_from_stops_all_emails_and_med_outcome_notices_off_stops_those_of_outcomes() {
    let mails = MailDirectory::new();
    for (parameter, value, expected) in [("MailFrom", "", 0), ("MedOutcomeNotices", "off", 1)] {
        let parameters = [(parameter.to_owned(), value.to_owned())].into();
        let service =
            Service::start_with(Options { event_sources: false, parameters, ..mails.options() }).await;
        let case = service.open_case(&service.pay(1000).await, json!({})).await;
        service.decide_case(&case, "payer").await.expect(200);
        service.dispatch_and_run_mailer().await;
        assert_eq!(mails.all().len(), expected, "{parameter}");
    }
    assert!(mails.all()[0].subject.starts_with("[teste] Disputa aberta"));
}

#[tokio::test]
async fn an_email_that_cannot_be_sent_is_retried_and_delays_no_case_and_no_webhook() {
    let mails = MailDirectory::new();
    mails.block();
    let service = Service::start_with(mails.options()).await;
    let listener = Listener::start().await;
    service.register_endpoint(&listener.url, &["med_case.created", "med.resolved"]).await;
    let case = service.open_case(&service.pay(1000).await, json!({})).await;
    let attempts = async |at_least: i64| {
        eventually("the mailer has failed attempts", async || {
            let rows = service.email_rows().await;
            rows.iter().any(|row| row["attempts"].as_i64() >= Some(at_least)).then_some(())
        })
        .await;
    };
    attempts(1).await;
    // The case proceeds and its webhook is delivered.
    service.decide_case(&case, "merchant").await.expect(200);
    listener.wait_for_event("med.resolved").await;
    assert_eq!(service.get("/v1/wallets/balance").await.expect(200)["available"], 1000);
    attempts(2).await;
    mails.unblock();
    let subjects: Vec<String> = mails.received(2).await.into_iter().map(|mail| mail.subject).collect();
    assert!(subjects.iter().any(|subject| subject.contains("Disputa aberta")), "{subjects:?}");
    assert!(subjects.iter().any(|subject| subject.contains("a seu favor")), "{subjects:?}");
}

#[tokio::test]
async fn a_mail_that_fails_five_times_goes_to_the_dead_letter_queue_and_can_be_sent_from_it() {
    let mails = MailDirectory::new();
    mails.block();
    let service = Service::start_without_event_sources(&mails).await;
    service.open_case(&service.pay(1000).await, json!({})).await;
    dispatch(&service.stack).await;
    let (sqs, url) = service.queue("MailQueue");
    let mut attempts = 0;
    loop {
        let got = sqs.receive_message().queue_url(&url).send().await.unwrap();
        let Some(message) = got.messages().first() else { break };
        assert!(!service.run_mailer(message.body().unwrap()).await);
        attempts += 1;
        let again = sqs.change_message_visibility().queue_url(&url).visibility_timeout(0);
        again.receipt_handle(message.receipt_handle().unwrap()).send().await.unwrap();
    }
    assert_eq!(attempts, 5);
    let (sqs, url) = service.queue("MailDeadLetterQueue");
    let dead = sqs.receive_message().queue_url(&url).send().await.unwrap();
    let dead = dead.messages()[0].body().unwrap().to_owned();
    assert_eq!(service.email_rows().await[0]["attempts"], 5);
    mails.unblock();
    assert!(service.run_mailer(&dead).await);
    assert_eq!(mails.all().len(), 1);
}

#[tokio::test]
async fn disabling_a_failing_endpoint_sends_one_email() {
    let mails = MailDirectory::new();
    let service = Service::start_without_event_sources(&mails).await;
    let registered =
        service.register_endpoint("https://shop.example.com/hook?token=s3cret", &["charge.created"]).await;
    let endpoint_id = id(&registered).parse().unwrap();
    let endpoints = Endpoints::new(service.store());
    let started_at = service.stack.clock.now();
    let failed = FailedAttempt::without_body(Some(502), AttemptFailure::Answered(502));
    let given_up = AttemptOutcome::Exhausted(failed.clone());
    let failed = AttemptOutcome::Retry { failed, next_attempt_at: started_at };
    let record_outcome = async |end: &AttemptOutcome, began: Timestamp, now: Timestamp| {
        let endpoint = endpoints.find(&service.scope(), endpoint_id).await.unwrap();
        endpoints.record_attempt(&endpoint, (end, began), now).await.unwrap();
    };
    let after = |days: i64| started_at.plus_seconds(days * DAY).unwrap();
    record_outcome(&failed, started_at, started_at).await;
    service.dispatch_and_run_mailer().await;
    assert!(mails.all().is_empty(), "a failing endpoint that is still active sends no email");
    service.stack.clock.advance(5 * DAY * 1_000);
    record_outcome(&given_up, after(2), after(5)).await;
    for _ in 0..2 {
        service.dispatch_and_run_mailer().await;
    }
    let sent = mails.all();
    let [mail] = sent.as_slice() else { panic!("{sent:?}") };
    assert_eq!(mail.subject, "[teste] Endpoint de webhooks desligado: shop.example.com");
    assert!(mail.text.contains(id(&registered)) && mail.text.contains("status HTTP 502"), "{}", mail.text);
    assert!(!mail.text.contains("s3cret") && !mail.text.contains(registered["secret"].as_str().unwrap()));
    // The merchant's own changes send no email, and the earlier email is not sent again.
    let path = endpoint_path(&registered);
    for change in [json!({"events": ["charge.paid"]}), json!({"status": "ACTIVE"})] {
        service.patch(&path, &change).await.expect(200);
        service.dispatch_and_run_mailer().await;
        assert_eq!(mails.all().len(), 1);
    }
    // Another outage sends another email.
    record_outcome(&failed, after(6), after(6)).await;
    service.stack.clock.advance(6 * DAY * 1_000);
    record_outcome(&given_up, after(8), after(11)).await;
    service.dispatch_and_run_mailer().await;
    assert_eq!(mails.all().len(), 2);
    let emails = service.email_rows().await;
    assert_eq!(emails.len(), 2, "{emails:?}");
}

#[tokio::test]
async fn no_email_is_sent_for_an_endpoint_that_is_active_again_or_deleted() {
    let mails = MailDirectory::new();
    let service = Service::start_without_event_sources(&mails).await;
    let registered = service.register_endpoint("https://shop.example.com/hook", &["charge.created"]).await;
    let about = EmailTopic::EndpointDisabled(id(&registered).parse().unwrap());
    let email = Email { scope: service.scope(), about, version: 2, at: service.stack.clock.now() };
    assert!(service.run_mailer(&serde_json::to_string(&email).unwrap()).await);
    service.delete(&endpoint_path(&registered)).await.expect(200);
    assert!(service.run_mailer(&serde_json::to_string(&email).unwrap()).await);
    assert!(mails.all().is_empty());
}

#[tokio::test]
async fn a_mail_in_test_mode_takes_six_requests_and_three_write_units() {
    let mails = MailDirectory::new();
    let service = Service::start_without_event_sources(&mails).await;
    let message = service.queue_case_email().await;
    let (is_sent, report) = service.cost(service.run_mailer(&message)).await;
    assert!(is_sent);
    assert!(report.requests() <= 6 && report.sequential_requests <= 4, "{report:?}");
    assert!(report.write_units <= 3.0 && report.read_units <= 3.0, "{report:?}");
    assert_eq!(mails.all().len(), 1);
}

#[tokio::test]
async fn test_mode_sends_at_most_a_hundred_mails_a_day() {
    let mails = MailDirectory::new();
    let service = Service::start_with(mails.options()).await;
    let emails = Emails::new(service.store());
    let now = service.stack.clock.now();
    for _ in 0..99 {
        assert!(emails.count_test_email(&service.scope(), now).await.unwrap());
    }
    let first = service.open_case(&service.pay(1000).await, json!({})).await;
    assert!(mails.received(1).await[0].text.contains(id(&first)));
    service.open_case(&service.pay(1000).await, json!({})).await;
    wait_until("the second email is recorded as done without a mail", async || {
        service.email_rows().await.iter().filter(|row| row["sent_at"].is_number()).count() == 2
    })
    .await;
    assert_eq!(mails.all().len(), 1);
    service.advance_seconds(DAY).await;
    let tomorrow = service.open_case(&service.pay(1000).await, json!({})).await;
    assert!(mails.received(2).await[1].text.contains(id(&tomorrow)));
}

#[tokio::test]
async fn the_first_refund_to_a_new_pix_key_sends_one_email_with_the_key_masked() {
    let mails = MailDirectory::new();
    let service = Service::start_without_event_sources(&mails).await;
    let (payer, other) = ("29537995593", "maria.souza@example.com");
    let charge = service.new_charge(&json!({"amount": 1000})).await;
    service.sandbox(&charge, "pay", &json!({"payer_tax_id": payer})).await;
    let refund = async |number: u8, destination: Option<&str>| {
        let body = json!({"amount": 123, "destinationKey": destination});
        service.refund(&charge, &format!("refund-{number:02}"), body).await.expect(201)
    };
    // A refund to the payer sends no mail, whether its key is named or not.
    refund(1, None).await;
    refund(2, Some(payer)).await;
    service.dispatch_and_run_mailer().await;
    assert!(mails.all().is_empty());

    let first = refund(3, Some(other)).await;
    refund(4, Some(other)).await;
    for _ in 0..2 {
        service.dispatch_and_run_mailer().await;
    }
    let [mail] = mails.all().try_into().unwrap();
    assert_eq!(mail.subject, "[teste] Devolução para uma nova chave Pix: m***@e***.com");
    for said in ["Chave Pix: m***@e***.com", "Valor: R$ 1,23", id(&charge), "revogue as suas chaves de API"] {
        assert!(mail.text.contains(said), "{said}: {}", mail.text);
    }
    // The mail is about one of the two refunds to the new key. The queue does not preserve their order.
    assert!(mail.text.contains("re_") && id(&first).starts_with("re_"));
    assert!(!format!("{mail:?}").contains(other), "{mail:?}");

    refund(5, Some("25524893033")).await;
    service.dispatch_and_run_mailer().await;
    assert_eq!(mails.all().len(), 2);
    // A key first used while mail was off is no longer new afterwards.
    service.change_contact(|contact| contact.mail_off = true).await;
    refund(6, Some("+5511987654321")).await;
    service.dispatch_and_run_mailer().await;
    service.change_contact(|contact| contact.mail_off = false).await;
    let last = refund(7, Some("+5511987654321")).await;
    dispatch(&service.stack).await;
    let messages = service.take_queued_emails().await;
    let last_messages: Vec<&String> = messages.iter().filter(|body| body.contains(id(&last))).collect();
    assert_eq!(last_messages.len(), 1);
    assert!(service.run_mailer(last_messages[0]).await);
    assert_eq!(mails.all().len(), 2);
}
