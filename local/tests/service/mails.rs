//! E-mails to an account's contact (contract: MED events): each told once, to whoever wants it, and nothing waits
//! for a mail that fails.

use std::path::PathBuf;

use aws_sdk_sqs::types::QueueAttributeName;
use domain::account::Contact;
use domain::ids::{ChargeId, MedCaseId, Mode, Scope};
use domain::med::MedCase;
use domain::time::Timestamp;
use local::stack::Options;
use local::template::queue_url;
use mail_parser::MessageParser;
use serde_json::{Value, json};
use shared::account::Accounts;
use shared::email::{About, Claim, Email, Emails, Sending};
use shared::store::{Write, from_item};
use shared::webhook::delivery::AttemptOutcome;
use shared::webhook::endpoint::Endpoints;

use crate::budgets::dispatch;
use crate::support::{Listener, Service, eventually, id, operator};

const DAY: i64 = 24 * 60 * 60;

/// A directory of mails of its own.
struct Mails(PathBuf);

impl Drop for Mails {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A mail as its recipient reads it.
#[derive(Debug)]
struct Read {
    from: String,
    to: String,
    subject: String,
    text: String,
    headers: Vec<String>,
}

impl Mails {
    fn new() -> Self {
        Self(std::env::temp_dir().join(format!("mails-{}", uuid::Uuid::new_v4())))
    }

    /// What came so far, the oldest first.
    fn all(&self) -> Vec<Read> {
        let Ok(files) = std::fs::read_dir(&self.0) else { return Vec::new() };
        let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
        files.retain(|file| file.extension().is_some_and(|extension| extension == "eml"));
        files.sort();
        files.iter().map(|file| read(&std::fs::read(file).unwrap())).collect()
    }

    async fn received(&self, count: usize) -> Vec<Read> {
        eventually("the mails", async || Some(self.all()).filter(|mails| mails.len() >= count)).await
    }

    /// From now on no mail can be put there.
    fn block(&self) {
        std::fs::write(&self.0, "not a directory").unwrap();
    }

    fn unblock(&self) {
        std::fs::remove_file(&self.0).unwrap();
    }

    fn options(&self) -> Options {
        Options { mails: Some(self.0.clone()), ..Options::in_memory() }
    }
}

fn read(bytes: &[u8]) -> Read {
    let mail = MessageParser::default().parse(bytes).unwrap();
    let only = |addresses: Option<&mail_parser::Address<'_>>| {
        let addresses: Vec<&str> = addresses.unwrap().iter().filter_map(|one| one.address()).collect();
        let [address] = addresses.as_slice() else { panic!("{addresses:?}") };
        (*address).to_owned()
    };
    Read {
        from: only(mail.from()),
        to: only(mail.to()),
        subject: mail.subject().unwrap().to_owned(),
        text: mail.body_text(0).unwrap().replace("\r\n", "\n"),
        headers: mail.headers_raw().map(|(name, _)| name.to_owned()).collect(),
    }
}

impl Service {
    /// A service where a test hands over what the stream and the queue have.
    async fn by_hand(mails: &Mails) -> Self {
        Self::with(Options { event_sources: false, ..mails.options() }).await
    }

    fn mail_queue(&self, name: &str) -> (aws_sdk_sqs::Client, String) {
        let url = &self.stack.endpoints.sqs_url;
        (local::sdk::sqs(url), queue_url(url, name))
    }

    /// What the queue of emails has now, taken out of it.
    pub(crate) async fn emails(&self) -> Vec<String> {
        let (sqs, url) = self.mail_queue("MailQueue");
        let mut bodies = Vec::new();
        loop {
            let got = sqs.receive_message().queue_url(&url).max_number_of_messages(10).send().await.unwrap();
            if got.messages().is_empty() {
                return bodies;
            }
            for message in got.messages() {
                bodies.push(message.body().unwrap().to_owned());
                let handle = message.receipt_handle().unwrap();
                sqs.delete_message().queue_url(&url).receipt_handle(handle).send().await.unwrap();
            }
        }
    }

    /// Hands a message to the mailer; says whether it was done.
    pub(crate) async fn tell(&self, body: &str) -> bool {
        let mailer = self.stack.functions.get("MailerFunction").unwrap().clone();
        let record = json!({"messageId": "m", "body": body, "eventSource": "aws:sqs"});
        let answer = mailer(json!({ "Records": [record] })).await.unwrap();
        answer["batchItemFailures"] == json!([])
    }

    /// Hands the whole stream over, and then what it put onto the queue.
    async fn tell_all(&self) {
        dispatch(self).await;
        for body in self.emails().await {
            assert!(self.tell(&body).await, "{body}");
        }
    }

    async fn contact(&self, change: impl Fn(&mut Contact)) {
        let accounts = Accounts::new(self.store());
        let (account, now) = (self.scope().account, self.stack.clock.now());
        accounts.change_contact(&account, "test", change, &operator(), now).await.unwrap();
    }

    /// What is noted of the first account's emails.
    async fn noted(&self) -> Vec<Value> {
        let rows = self.rows(&format!("notices#{}", self.scope().account), "ntc_").await;
        let rows: Vec<Sending> = rows.into_iter().map(|row| from_item(row).unwrap()).collect();
        rows.iter().map(|row| serde_json::to_value(row).unwrap()).collect()
    }
}

#[tokio::test]
async fn a_case_is_told_when_it_opens_and_when_it_is_over() {
    let mails = Mails::new();
    let service = Service::with(mails.options()).await;
    let charge = service
        .charge_of(&json!({"amount": 123_456, "customer": {"name": "Maria", "document": "29537995593"}}))
        .await;
    service.sandbox(&charge, "pay", &json!({"payer_tax_id": "29537995593", "payer_name": "Maria"})).await;
    let email = json!({"reason": "Golpe, 29537995593", "response_deadline": "2026-12-01T00:00:00Z"});
    let case = service.open_case(&charge, email).await;
    let opened = mails.received(1).await.remove(0);
    let owner = &service.stack.seed.first.owner_email;
    assert_eq!((opened.from.as_str(), &opened.to), ("avisos@pagamentos.example", owner));
    assert_eq!(
        opened.subject,
        "[teste] Caso aberto: contestação de Pix (MED) de R$ 1.234,56, responder até 30/11/2026 às 21:00"
    );
    for said in ["Olá, Loja Exemplo.", "R$ 1.234,56 saiu do seu saldo", id(&case), id(&charge), "/appeal"] {
        assert!(opened.text.contains(said), "{said}: {}", opened.text);
    }

    service.answer_case(&case, "appeal", json!({"reason": "Entregue em 3 de novembro"})).await.expect(200);
    service.decide_case(&case, "merchant").await.expect(200);
    let resolved = mails.received(2).await.remove(1);
    assert_eq!(
        resolved.subject,
        "[teste] Caso encerrado, a seu favor: contestação de Pix (MED) de R$ 1.234,56"
    );
    assert!(resolved.text.contains("R$ 1.234,56, que estava retido, voltou ao seu saldo disponível."));
    // No payer's document, no key.
    for mail in mails.all() {
        let whole = format!("{mail:?}");
        assert!(!whole.contains("29537995593") && !whole.contains("ak_test_"), "{whole}");
    }
    // Nothing is left to be told, and each was told once.
    eventually("an empty queue", async || {
        let (sqs, url) = service.mail_queue("MailQueue");
        let counts = sqs.get_queue_attributes().queue_url(url).attribute_names(QueueAttributeName::All);
        let counts = counts.send().await.unwrap().attributes.unwrap();
        let waiting = ["", "Delayed", "NotVisible"]
            .map(|which| counts.get(&format!("ApproximateNumberOfMessages{which}").as_str().into()).cloned());
        waiting.iter().all(|count| count.as_deref().unwrap_or("0") == "0").then_some(())
    })
    .await;
    assert_eq!(mails.all().len(), 2);
    let noted = service.noted().await;
    assert!(noted.len() == 2 && noted.iter().all(|row| row["sent_at"].is_i64()), "{noted:?}");
}

#[tokio::test]
async fn a_live_case_is_told_without_the_mark_of_a_test() {
    let mails = Mails::new();
    let service = Service::by_hand(&mails).await;
    let paid = service.paid_charge(1000).await;
    let test = service.open_case(&paid, json!({})).await;
    let id: MedCaseId = id(&test).parse().unwrap();
    let case: MedCase = service.store().get(&MedCase::key_of(id)).await.unwrap().unwrap();
    // No acquirer makes live cases yet.
    let scope = Scope { mode: Mode::Live, ..case.scope };
    let live =
        MedCase { id: MedCaseId::derive(ChargeId::derive(b"s", Mode::Live, "x", "y"), "1"), scope, ..case };
    let _written = service.store().commit(vec![Write::insert(&live).unwrap()]).await.unwrap();
    service.tell_all().await;
    let subjects: Vec<bool> = mails.all().iter().map(|mail| mail.subject.starts_with("[teste] ")).collect();
    assert_eq!(subjects.iter().filter(|is_test| **is_test).count(), 1);
    assert_eq!(subjects.len(), 2);
}

#[tokio::test]
async fn a_change_or_message_that_comes_again_is_told_once() {
    let mails = Mails::new();
    let service = Service::by_hand(&mails).await;
    let charge = service.paid_charge(1000).await;
    let case = service.open_case(&charge, json!({})).await;
    service.answer_case(&case, "accept", json!({})).await.expect(200);
    // The stream is handed over three times, and each of its messages twice.
    for _ in 0..3 {
        dispatch(&service).await;
        let messages = service.emails().await;
        assert_eq!(messages.len(), 2, "one for the opening, one for the end: {messages:?}");
        for body in messages.iter().chain(&messages) {
            assert!(service.tell(body).await);
        }
    }
    let subjects: Vec<String> = mails.all().into_iter().map(|mail| mail.subject).collect();
    assert_eq!(
        subjects,
        [
            "[teste] Caso aberto: contestação de Pix (MED) de R$ 10,00",
            "[teste] Caso encerrado, com perda: contestação de Pix (MED) de R$ 10,00"
        ]
    );
}

#[tokio::test]
async fn messages_at_once_send_one_mail() {
    let mails = Mails::new();
    let service = Service::by_hand(&mails).await;
    let charge = service.paid_charge(1000).await;
    service.open_case(&charge, json!({})).await;
    dispatch(&service).await;
    let message = service.emails().await.remove(0);
    let tell = || service.tell(&message);
    assert_eq!(tokio::join!(tell(), tell(), tell(), tell(), tell()), (true, true, true, true, true));
    assert_eq!(mails.all().len(), 1);
    // Those that met another's claim come again when it would have ended, and find that the mail was sent.
    service.stack.clock.advance(61_000);
    assert!(service.tell(&message).await);
    assert_eq!(mails.all().len(), 1);
}

#[tokio::test]
async fn a_mail_whose_worker_died_is_sent_when_its_lease_ends() {
    let mails = Mails::new();
    let service = Service::by_hand(&mails).await;
    let charge = service.paid_charge(1000).await;
    service.open_case(&charge, json!({})).await;
    dispatch(&service).await;
    let message = service.emails().await.remove(0);
    // What a worker does first, and then nothing any more.
    let email: Email = serde_json::from_str(&message).unwrap();
    let emails = Emails::new(service.store());
    let claimed = emails.claim(&email, 7, service.stack.clock.now()).await.unwrap();
    assert!(matches!(claimed, Claim::Claimed(_)));
    assert!(service.tell(&message).await, "it is left to another message");
    assert!(mails.all().is_empty());
    let (sqs, url) = service.mail_queue("MailQueue");
    let delayed = QueueAttributeName::ApproximateNumberOfMessagesDelayed;
    let counts =
        sqs.get_queue_attributes().queue_url(url).attribute_names(delayed.clone()).send().await.unwrap();
    assert_eq!(counts.attributes.unwrap()[&delayed], "1", "which comes when the lease is over");
    service.stack.clock.advance(61_000);
    assert!(service.tell(&message).await);
    assert_eq!((mails.all().len(), &service.noted().await[0]["attempts"]), (1, &json!(2)));
}

#[tokio::test]
async fn nobody_is_told_who_has_no_address_or_wants_no_mail() {
    let mails = Mails::new();
    let service = Service::by_hand(&mails).await;
    let address = service.stack.seed.first.owner_email.parse().unwrap();
    service.contact(|contact| contact.mail_off = true).await;
    service.open_case(&service.paid_charge(1000).await, json!({})).await;
    service.tell_all().await;
    service.contact(|contact| *contact = Contact::default()).await;
    service.open_case(&service.paid_charge(1000).await, json!({})).await;
    service.tell_all().await;
    assert!(mails.all().is_empty() && service.noted().await.is_empty());
    // Where neither holds any more, what comes next is told.
    service.contact(|contact| contact.address = Some(Clone::clone(&address))).await;
    service.emails().await;
    let case = service.open_case(&service.paid_charge(1000).await, json!({})).await;
    dispatch(&service).await;
    for body in service.emails().await.iter().filter(|body| body.contains(id(&case))) {
        assert!(service.tell(body).await);
    }
    assert_eq!(mails.all().len(), 1);
}

#[tokio::test]
async fn a_stack_sends_what_its_parameters_let_it_send() {
    let mails = Mails::new();
    for (parameter, value, expected) in [("MailFrom", "", 0), ("MedOutcomeNotices", "off", 1)] {
        let parameters = [(parameter.to_owned(), value.to_owned())].into();
        let service = Service::with(Options { event_sources: false, parameters, ..mails.options() }).await;
        let case = service.open_case(&service.paid_charge(1000).await, json!({})).await;
        service.decide_case(&case, "payer").await.expect(200);
        service.tell_all().await;
        assert_eq!(mails.all().len(), expected, "{parameter}");
    }
    assert!(mails.all()[0].subject.starts_with("[teste] Caso aberto"));
}

#[tokio::test]
async fn a_mail_that_fails_holds_nothing_up_and_goes_when_it_can() {
    let mails = Mails::new();
    mails.block();
    let service = Service::with(mails.options()).await;
    let listener = Listener::start().await;
    service.register(&listener.url, &["med_case.created", "med.resolved"]).await;
    let case = service.open_case(&service.paid_charge(1000).await, json!({})).await;
    let attempts = async |least: i64| {
        eventually("failed attempts", async || {
            let noted = service.noted().await;
            noted.iter().any(|row| row["attempts"].as_i64() >= Some(least)).then_some(())
        })
        .await;
    };
    attempts(1).await;
    // The case goes on, and is told by webhook.
    service.decide_case(&case, "merchant").await.expect(200);
    listener.event("med.resolved").await;
    assert_eq!(service.get("/v1/wallets/balance").await.expect(200)["available"], 1000);
    attempts(2).await;
    mails.unblock();
    let subjects: Vec<String> = mails.received(2).await.into_iter().map(|mail| mail.subject).collect();
    assert!(subjects.iter().any(|subject| subject.contains("Caso aberto")), "{subjects:?}");
    assert!(subjects.iter().any(|subject| subject.contains("a seu favor")), "{subjects:?}");
}

#[tokio::test]
async fn a_mail_that_keeps_failing_goes_to_the_dead_letter_queue_and_can_be_sent_from_there() {
    let mails = Mails::new();
    mails.block();
    let service = Service::by_hand(&mails).await;
    service.open_case(&service.paid_charge(1000).await, json!({})).await;
    dispatch(&service).await;
    let (sqs, url) = service.mail_queue("MailQueue");
    let mut attempts = 0;
    loop {
        let got = sqs.receive_message().queue_url(&url).send().await.unwrap();
        let Some(message) = got.messages().first() else { break };
        assert!(!service.tell(message.body().unwrap()).await);
        attempts += 1;
        let again = sqs.change_message_visibility().queue_url(&url).visibility_timeout(0);
        again.receipt_handle(message.receipt_handle().unwrap()).send().await.unwrap();
    }
    assert_eq!(attempts, 5);
    let (sqs, url) = service.mail_queue("MailDeadLetterQueue");
    let dead = sqs.receive_message().queue_url(&url).send().await.unwrap();
    let dead = dead.messages()[0].body().unwrap().to_owned();
    assert_eq!(service.noted().await[0]["attempts"], 5);
    mails.unblock();
    assert!(service.tell(&dead).await);
    assert_eq!(mails.all().len(), 1);
}

#[tokio::test]
async fn an_endpoint_that_was_switched_off_is_told_once() {
    let mails = Mails::new();
    let service = Service::by_hand(&mails).await;
    let made = service.register("https://shop.example.com/hook?token=s3cret", &["charge.created"]).await;
    let endpoint_id = id(&made).parse().unwrap();
    let endpoints = Endpoints::new(service.store());
    let begun = service.stack.clock.now();
    let error = || "answered 502".to_owned();
    let failed = AttemptOutcome::Retry {
        status_code: Some(502),
        error: error(),
        response_body: None,
        next_attempt_at: begun,
    };
    let given_up = AttemptOutcome::Exhausted { status_code: Some(502), error: error(), response_body: None };
    let note = async |end: &AttemptOutcome, began: Timestamp, now: Timestamp| {
        let endpoint = endpoints.find(&service.scope(), endpoint_id).await.unwrap();
        endpoints.note(&endpoint, (end, began), now).await.unwrap();
    };
    let after = |days: i64| begun.plus_seconds(days * DAY).unwrap();
    note(&failed, begun, begun).await;
    service.tell_all().await;
    assert!(mails.all().is_empty(), "it only fails");
    service.stack.clock.advance(5 * DAY * 1_000);
    note(&given_up, after(2), after(5)).await;
    for _ in 0..2 {
        service.tell_all().await;
    }
    let told = mails.all();
    let [mail] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!(mail.subject, "[teste] Endpoint de webhooks desativado: shop.example.com");
    assert!(mail.text.contains(id(&made)) && mail.text.contains("answered 502"), "{}", mail.text);
    assert!(!mail.text.contains("s3cret") && !mail.text.contains(made["secret"].as_str().unwrap()));
    // What its merchant does to it is told by no mail, nor is what was before told again.
    let path = format!("/v1/webhooks/endpoints/{}", id(&made));
    service.patch(&path, &json!({"events": ["charge.paid"]})).await.expect(200);
    service.tell_all().await;
    assert_eq!(mails.all().len(), 1);
    service.patch(&path, &json!({"status": "ACTIVE"})).await.expect(200);
    service.tell_all().await;
    assert_eq!(mails.all().len(), 1);
    // Another outage is another email.
    note(&failed, after(6), after(6)).await;
    service.stack.clock.advance(6 * DAY * 1_000);
    note(&given_up, after(8), after(11)).await;
    service.tell_all().await;
    assert_eq!(mails.all().len(), 2);
    let abouts = service.noted().await;
    assert_eq!(abouts.len(), 2, "{abouts:?}");
}

#[tokio::test]
async fn an_endpoint_that_was_switched_on_again_before_its_mail_went_is_not_told_of() {
    let mails = Mails::new();
    let service = Service::by_hand(&mails).await;
    let made = service.register("https://shop.example.com/hook", &["charge.created"]).await;
    let about = About::EndpointDisabled(id(&made).parse().unwrap());
    let email = Email { scope: service.scope(), about, version: 2, at: service.stack.clock.now() };
    assert!(service.tell(&serde_json::to_string(&email).unwrap()).await);
    service.delete(&format!("/v1/webhooks/endpoints/{}", id(&made))).await.expect(200);
    assert!(service.tell(&serde_json::to_string(&email).unwrap()).await);
    assert!(mails.all().is_empty());
}

#[tokio::test]
async fn no_text_of_a_merchant_or_payer_adds_a_header() {
    let mails = Mails::new();
    let service = Service::by_hand(&mails).await;
    let evil = "Loja\r\nBcc: eva@outra.example\r\n\r\nOutro corpo";
    service.open_case(&service.paid_charge(1000).await, json!({"reason": "Golpe"})).await;
    service.change_settings(|settings| evil.clone_into(&mut settings.merchant_name)).await;
    let charge = service
        .charge_of(&json!({"amount": 1000, "description": evil, "customer": {"name": "Bcc: eva@outra.example"}, "metadata": {"a": evil}}))
        .await;
    service.sandbox(&charge, "pay", &json!({"payer_name": evil})).await;
    let case = service.open_case(&charge, json!({ "reason": evil })).await;
    service.answer_case(&case, "appeal", json!({ "reason": evil })).await.expect(200);
    service.decide_case(&case, "payer").await.expect(200);
    service.tell_all().await;
    let told = mails.all();
    assert_eq!(told.len(), 3);
    for mail in told {
        assert_eq!(mail.to, service.stack.seed.first.owner_email);
        assert_eq!(
            mail.headers,
            [
                "From",
                "To",
                "Subject",
                "Date",
                "Message-ID",
                "Auto-Submitted",
                "MIME-Version",
                "Content-Type",
                "Content-Transfer-Encoding"
            ]
        );
        assert!(!mail.text.contains("\nBcc") && !mail.text.contains("\nOutro corpo"), "{}", mail.text);
    }
}

#[tokio::test]
async fn a_tests_mail_is_five_requests_and_three_write_units() {
    let mails = Mails::new();
    let service = Service::with(Options { fault_proxy: true, event_sources: false, ..mails.options() }).await;
    let proxy = service.stack.fault_proxy.as_ref().unwrap();
    let charge = service.paid_charge(1000).await;
    proxy.reset();
    let case = service.open_case(&charge, json!({})).await;
    dispatch(&service).await;
    let message = service.emails().await.remove(0);
    proxy.reset();
    assert!(service.tell(&message).await);
    let report = proxy.report();
    assert!(report.requests() <= 5 && report.one_after_another <= 4, "{report:?}");
    assert!(report.write_units <= 3.0 && report.read_units <= 2.0, "{report:?}");
    assert_eq!(mails.all().len(), 1);
    assert!(mails.all()[0].text.contains(id(&case)));
}

#[tokio::test]
async fn tests_have_a_hundred_mails_a_day_so_that_live_notices_always_go() {
    let mails = Mails::new();
    let service = Service::with(mails.options()).await;
    let emails = Emails::new(service.store());
    let now = service.stack.clock.now();
    for _ in 0..99 {
        assert!(emails.take_test_mail(&service.scope(), now).await.unwrap());
    }
    let first = service.open_case(&service.paid_charge(1000).await, json!({})).await;
    assert!(mails.received(1).await[0].text.contains(id(&first)));
    service.open_case(&service.paid_charge(1000).await, json!({})).await;
    eventually("the second is noted, though it was not sent", async || {
        (service.noted().await.iter().filter(|noted| noted["sent_at"].is_number()).count() == 2).then_some(())
    })
    .await;
    assert_eq!(mails.all().len(), 1);
    service.advance(DAY).await;
    let tomorrow = service.open_case(&service.paid_charge(1000).await, json!({})).await;
    assert!(mails.received(2).await[1].text.contains(id(&tomorrow)));
}

#[tokio::test]
async fn a_new_destination_of_refunds_is_told_once_and_masked() {
    let mails = Mails::new();
    let service = Service::by_hand(&mails).await;
    let (payer, other) = ("29537995593", "maria.souza@example.com");
    let charge = service.charge_of(&json!({"amount": 1000})).await;
    service.sandbox(&charge, "pay", &json!({"payer_tax_id": payer})).await;
    let path = format!("/v1/payments/{}/refund", id(&charge).trim_start_matches("ch_"));
    let refund = async |number: u8, destination: Option<&str>| {
        let body = json!({
            "idempotencyKey": format!("refund-{number:02}"), "amount": 123, "destinationKey": destination,
        });
        service.post(&path, &body).await.expect(201)
    };
    // A refund to the payer sends no mail, whether its key is named or not.
    refund(1, None).await;
    refund(2, Some(payer)).await;
    service.tell_all().await;
    assert!(mails.all().is_empty());

    let first = refund(3, Some(other)).await;
    refund(4, Some(other)).await;
    for _ in 0..2 {
        service.tell_all().await;
    }
    let [mail] = mails.all().try_into().unwrap();
    assert_eq!(mail.subject, "[teste] Estorno para uma nova chave Pix: m***@e***.com");
    for said in ["Chave Pix: m***@e***.com", "Valor: R$ 1,23", id(&charge), "revogue as suas chaves de API"] {
        assert!(mail.text.contains(said), "{said}: {}", mail.text);
    }
    // The queue may hand over either of the two first.
    assert!(mail.text.contains("re_") && id(&first).starts_with("re_"));
    assert!(!format!("{mail:?}").contains(other), "{mail:?}");

    refund(5, Some("25524893033")).await;
    service.tell_all().await;
    assert_eq!(mails.all().len(), 2);
    // A key that was first used while mails were off stays known.
    service.contact(|contact| contact.mail_off = true).await;
    refund(6, Some("+5511987654321")).await;
    service.tell_all().await;
    service.contact(|contact| contact.mail_off = false).await;
    let last = refund(7, Some("+5511987654321")).await;
    dispatch(&service).await;
    let messages = service.emails().await;
    let of_last: Vec<&String> = messages.iter().filter(|body| body.contains(id(&last))).collect();
    assert_eq!(of_last.len(), 1);
    assert!(service.tell(of_last[0]).await);
    assert_eq!(mails.all().len(), 2);
}
