//! Tests of emails about live sales to the users who are subscribed: after a sale, and in the morning.

use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use bank::PayRequest;
use domain::calendar::Day;
use domain::ids::{ChargeId, Mode, UserId};
use domain::pt_br;
use local::stack::Options;
use serde_json::{Value, json};
use shared::account::{UserChange, Users};

use crate::bank_med::credit;
use crate::dashboard::Browser;
use crate::emails::{MailDirectory, ParsedMail};
use crate::invocations::{count_messages, dispatch};
use crate::live_charges::{Live, MARIA};
use crate::support::{Listener, Service, advance_until, eventually, id, operator, wait_until};

const SETTINGS: &str = "/dashboard/settings";
const DONE: &str = "/dashboard/settings?done";
const EACH_SALE: &str = "A cada venda (no máximo um e-mail por minuto, com todas as vendas dele)";
const SUMMARY: &str = "Um resumo às 8h da manhã (horário de Brasília): vendas e devoluções da véspera, disputas que esperam resposta e falhas na entrega ao seu sistema";

const HOUR: i64 = 60 * 60;

/// Two minutes and a half: the minute of a sale, and the wait for its last posting.
const UNTIL_MAILED: i64 = 160;

impl Browser<'_> {
    /// Ticks or clears a box of the form in the settings.
    async fn choose(&self, name: &str, is_chosen: bool) {
        let typed = [(name, if is_chosen { "on" } else { "" })];
        assert_eq!(self.submit(SETTINGS, "Salvar a escolha", &typed).await, DONE);
    }
}

impl MailDirectory {
    /// Waits for this number of mails whose subjects have one of these beginnings. Returns them.
    async fn received_of(&self, beginnings: &[&str], count: usize) -> Vec<ParsedMail> {
        eventually("the mails about sales", async || {
            let is_found = |mail: &ParsedMail| beginnings.iter().any(|start| mail.subject.starts_with(start));
            let found: Vec<_> = self.all().into_iter().filter(is_found).collect();
            (found.len() >= count).then_some(found)
        })
        .await
    }
}

impl Live {
    /// A charge that is paid at the bank.
    async fn sell(&self, key: &str, body: &Value) -> Value {
        let charge = self.create(key, body).await;
        self.pay(&charge, PayRequest::default());
        self.wait_for_status(&charge, "paid").await
    }
}

fn order(amount: i64) -> Value {
    let customer = json!({"name": "Maria de Souza", "document": MARIA});
    json!({"amount": amount, "metadata": {"order": "1001"}, "customer": customer})
}

#[tokio::test]
async fn the_live_sales_of_a_minute_are_mailed_in_one_mail_to_each_subscriber() {
    let mails = MailDirectory::new();
    let live = Live::start_with(mails.options()).await;
    let service = &live.service;
    let (owner, member) =
        (service.stack.seed.first.owner_email.clone(), service.stack.seed.member_email.clone());
    // There are no subscribers yet.
    live.sell("order-0001", &order(500)).await;
    let (by_owner, by_member) =
        (Browser::owner(service).await, Browser::member(service).await.in_mode(Mode::Live));
    by_owner.choose(EACH_SALE, true).await;
    by_member.choose(EACH_SALE, true).await;
    by_member.submit(SETTINGS, "Trocar idioma", &[("Idioma", "English")]).await;
    service.begin_minute().await;
    // A sale in test mode is not mailed.
    service.pay(700).await;
    let charge = live.sell("order-0002", &order(12_990)).await;
    assert!(mails.all().is_empty());
    service.advance_seconds(UNTIL_MAILED).await;
    let mut sent = mails.received(2).await;
    sent.sort_by_key(|mail| mail.to == owner);
    let [to_member, to_owner] = sent.as_slice() else { panic!("{sent:?}") };
    assert_eq!((&to_member.to, &to_owner.to), (&member, &owner));
    assert_eq!((&*to_owner.subject, &*to_member.subject), ("Venda: R$ 129,90", "Sale: R$ 129,90"));
    for said in
        ["Loja Exemplo", "Pedido: 1001", "Cliente: Maria de Souza", id(&charge), "/dashboard/settings"]
    {
        assert!(to_owner.text.contains(said), "{said}: {}", to_owner.text);
    }
    assert!(to_member.text.contains("Customer: Maria S.\n"), "{to_member:?}");
    assert!(!format!("{sent:?}").contains(MARIA));

    service.begin_minute().await;
    for (key, amount) in [("order-0003", 1_000), ("order-0004", 2_050)] {
        live.sell(key, &order(amount)).await;
    }
    service.advance_seconds(UNTIL_MAILED).await;
    let sent = mails.received(4).await.split_off(2);
    let two = sent.iter().find(|mail| mail.to == owner).unwrap();
    assert_eq!(two.subject, "2 vendas, R$ 30,50");
    assert!(two.text.contains("\n- 2 vendas, R$ 30,50\n") && !two.text.contains("Maria"), "{two:?}");

    // A user without the subscription or outside the account gets none.
    by_member.choose(EACH_SALE, false).await;
    live.sell("order-0005", &order(900)).await;
    service.advance_seconds(UNTIL_MAILED).await;
    assert_eq!(mails.received(5).await[4].to, owner);
    by_member.choose(EACH_SALE, true).await;
    let (users, account) = (Users::new(service.store()), service.scope().account);
    let removed = (&account, UserId::from_email(&member));
    users.change(removed, &UserChange::Remove, &operator().into(), service.stack.clock.now()).await.unwrap();
    assert_eq!(service.rows(&format!("sales-emails#{account}"), "").await.len(), 1);
    live.sell("order-0006", &order(901)).await;
    service.advance_seconds(UNTIL_MAILED).await;
    let sixth = mails.received(6).await.remove(5);
    assert_eq!((&*sixth.subject, &sixth.to), ("Venda: R$ 9,01", &owner));

    // An account that is suspended is still paid, and mailed of no sale.
    let unpaid = live.create("order-0007", &order(902)).await;
    service.change_settings(|settings| settings.suspended = true).await;
    live.pay(&unpaid, PayRequest::default());
    eventually("the payment", async || {
        let charge: ChargeId = id(&unpaid).parse().unwrap();
        service.stored_charge(charge).await.settlement
    })
    .await;
    service.advance_seconds(UNTIL_MAILED).await;
    wait_until("the mailer has read of the sale", async || {
        count_messages(service, "MailQueue").await == [0; 3]
    })
    .await;
    service.begin_minute().await;
    service.change_settings(|settings| settings.suspended = false).await;
    live.sell("order-0008", &order(903)).await;
    service.advance_seconds(UNTIL_MAILED).await;
    let seventh = mails.received(7).await.remove(6);
    assert_eq!(seventh.subject, "Venda: R$ 9,03");
    // None of them is among the account's notices.
    let notices = Browser::owner(service).await.in_mode(Mode::Live).page("/dashboard/notices").await;
    assert!(notices.contains("Nenhum aviso nos últimos 90 dias"), "{notices}");
}

#[tokio::test]
async fn the_morning_summary_has_the_numbers_of_the_home_page() {
    let mails = MailDirectory::new();
    let live = Live::start_with(mails.options()).await;
    let service = &live.service;
    let summaries = ["Resumo de "];
    // 09:00 in São Paulo: the next summary is that of tomorrow.
    let tomorrow = Day::of(service.stack.clock.now()).plus_days(1);
    let nine = tomorrow.starts_at().plus_seconds(9 * HOUR).unwrap();
    service.stack.clock.advance(nine.millis_since(service.stack.clock.now()));
    let browser = Browser::owner(service).await.in_mode(Mode::Live);
    browser.choose(SUMMARY, true).await;
    // The other box of the form is left as it was.
    browser.choose(EACH_SALE, true).await;
    browser.choose(EACH_SALE, false).await;

    let failing = Listener::answering(|_| StatusCode::BAD_GATEWAY.into_response()).await;
    live.client.register_endpoint(&failing.url, &["charge.paid"]).await;
    let charge = live.sell("order-0002", &order(1_000)).await;
    live.sell("order-0003", &order(2_500)).await;
    live.refund(&charge, json!({"amount": 300, "idempotencyKey": "refund-01"})).await.expect(201);
    advance_until((service, 60), "the refund", async || {
        live.client.refunds(&charge).await.iter().any(|refund| refund["status"] == "REFUNDED")
    })
    .await;
    service.live_case().await;
    let home = eventually("the numbers of the day", async || {
        let home = browser.page("/dashboard").await;
        let is_counted = ["Recebido hoje R$ 65,90", "Devolvido ou estornado hoje: R$ 3,00", "falha desde"]
            .iter()
            .all(|said| home.contains(said));
        is_counted.then_some(home)
    })
    .await;
    assert!(home.contains("3 vendas") && home.contains("1 disputa espera sua resposta"), "{home}");

    service.advance_seconds(23 * HOUR).await;
    let summary = mails.received_of(&summaries, 1).await.remove(0);
    let day = pt_br::format_day(tomorrow);
    assert_eq!(summary.to, service.stack.seed.first.owner_email);
    assert_eq!(summary.subject, format!("Resumo de {day}: 3 vendas, R$ 65,90"));
    let text = &summary.text;
    let host = "127.0.0.1";
    for said in [
        format!("Loja Exemplo, dia {day}:"),
        "\n- 3 vendas, R$ 65,90\n- Devolvido ou estornado: R$ 3,00\n".to_owned(),
        "\n- Disputas que esperam a sua resposta: 1\n".to_owned(),
        format!("\n- O endpoint de webhooks {host} falha desde "),
    ] {
        assert!(text.contains(&said), "{said}: {text}");
    }
    assert!(!text.contains(MARIA) && !text.contains("Maria"), "{text}");
    let home = Browser::owner(service).await.in_mode(Mode::Live).page("/dashboard").await;
    assert!(home.contains("Ontem: R$ 65,90"), "{home}");

    // A day without sales has a summary too.
    service.advance_seconds(24 * HOUR).await;
    let second = mails.received_of(&summaries, 2).await.remove(1);
    let day = pt_br::format_day(tomorrow.plus_days(1));
    assert_eq!(second.subject, format!("Resumo de {day}: Nenhuma venda"));
    assert!(second.text.contains("\n- Nenhuma venda\n- Nenhuma devolução\n"), "{second:?}");

    Browser::owner(service).await.choose(SUMMARY, false).await;
    assert!(service.rows(&format!("sales-emails#{}", service.scope().account), "").await.is_empty());
}

/// `cargo test -p service sales_emails -- --nocapture` prints the units.
#[tokio::test]
async fn a_live_sale_costs_no_write_unit_more_and_its_mail_two_for_each_subscriber() {
    let mut of_dispatch = Vec::new();
    for is_subscribed in [false, true] {
        let mails = MailDirectory::new();
        let service = Service::start_with(Options { event_sources: false, ..mails.options() }).await;
        if is_subscribed {
            Browser::owner(&service).await.choose(EACH_SALE, true).await;
        }
        let created = service.live_client().new_charge("order-0001", &order(1_000)).await;
        dispatch(&service.stack).await;
        let charge: ChargeId = id(&created).parse().unwrap();
        credit(&service, charge, &format!("E{}", charge.txid())).await;
        service.proxy().count_partitions();
        let (_, report) = service.cost(dispatch(&service.stack)).await;
        // The ids of some charges also make the sums of the days due.
        let written = report.units_by_key.iter().filter(|key| !key.partition.starts_with("rollup#"));
        let units: f64 = written.map(|key| key.units).sum();
        println!(
            "dispatch of a live sale, subscribed: {is_subscribed}: {units} WU, {} RU",
            report.read_units
        );
        of_dispatch.push(units);
        let messages = service.take_queued_emails().await;
        let delayed = count_messages(&service, "MailQueue").await[2];
        assert_eq!((messages.len(), delayed), (0, usize::from(is_subscribed)), "{messages:?}");
        if !is_subscribed {
            continue;
        }
        service.stack.clock.advance(UNTIL_MAILED * 1_000);
        let [message] = service.take_queued_emails().await.try_into().unwrap();
        let (is_sent, report) = service.cost(service.run_mailer(&message)).await;
        println!("mail of a live sale: {} WU, {} RU", report.write_units, report.read_units);
        assert!(is_sent && mails.all().len() == 1);
        assert!(report.write_units <= 2.0 && report.read_units <= 8.0, "{report:?}");
        // A message that arrives again sends nothing.
        assert!(service.run_mailer(&message).await);
        assert_eq!(mails.all().len(), 1);
    }
    let [none, one] = of_dispatch.as_slice() else { panic!("{of_dispatch:?}") };
    assert!((none - one).abs() < f64::EPSILON, "{none} {one}");
}
