//! Tests of the dashboard's answers to a dispute: the appeal, the loss, the evidence and the dossier.

use axum::http::Method;
use domain::ids::{ChargeId, Mode};
use domain::med::{CaseKind, CaseNotification};
use serde_json::{Value, json};
use shared::med::MedCases;

use crate::bank_med::credit;
use crate::dashboard::Browser;
use crate::support::{Client, Service, eventually, id};

const TEXT: &str = "Vendido em 3 de novembro.\nEntregue no dia 5.";

fn page_of(case: &Value) -> String {
    format!("/dashboard/disputes/{}", id(case))
}

impl Service {
    async fn disputed(&self, case: Value) -> Value {
        let charge = self.paid_charge(3_090).await;
        self.open_case(&charge, case).await
    }

    /// A case about a live charge: its page and the client that reads it.
    async fn live_case(&self) -> (String, Client) {
        let live = Client::new(&self.base_url, &self.stack.seed.first.live_api_key);
        let created = live.new_charge("order-0001", &json!({"amount": 3_090})).await;
        let charge: ChargeId = id(&created).parse().unwrap();
        credit(self, charge, &format!("E{}", charge.txid())).await;
        let notification = CaseNotification {
            id: None,
            kind: CaseKind::Med,
            reason: None,
            method: None,
            response_deadline: None,
            amount: None,
            reported_at: None,
        };
        let charges = shared::charge::Charges::new(self.store());
        let stored = charges.find(Some(charge)).await.unwrap().unwrap();
        let now = self.stack.clock.now();
        let case = MedCases::new(self.store()).open(stored, "1", &notification, now).await.unwrap();
        (format!("/dashboard/disputes/{}", case.id), live)
    }
}

async fn case_of(client: &Client, page: &str) -> Value {
    client.get(&page.replace("/dashboard/disputes/", "/v1/med/cases/")).await.expect(200)
}

#[tokio::test]
async fn a_draft_is_kept_until_the_appeal_is_sent() {
    let service = Service::start().await;
    let case = service.disputed(json!({"method": "scam"})).await;
    let (page, appeal) = (page_of(&case), format!("{}/appeal", page_of(&case)));
    let member = Browser::member(&service).await;
    let html = member.page(&page).await;
    assert!(html.contains("nota fiscal") && html.contains("caiu em um golpe"), "{html}");
    assert_eq!(
        member.submit(&page, &appeal, &[("reason", TEXT), ("draft", "1")]).await,
        format!("{page}?done=1")
    );
    assert!(member.page(&page).await.contains(&format!(">\n{TEXT}</textarea>")));
    // A refusal keeps the text too.
    let short = member.submit(&page, &appeal, &[("reason", "não")]).await;
    assert_eq!(short, format!("{page}?error=invalid_request&field=reason"));
    assert!(member.page(&short).await.contains(">\nnão</textarea>"));
    assert_eq!(case_of(&service, &page).await["status"], "open");
    // A browser sends a line break as two characters.
    let sent = TEXT.replace('\n', "\r\n");
    assert_eq!(member.submit(&page, &appeal, &[("reason", &sent)]).await, format!("{page}?done=1"));
    let appealed = case_of(&service, &page).await;
    assert_eq!((&appealed["status"], &appealed["appeal_reason"]), (&json!("appealed"), &json!(TEXT)));
    let again = member.post(&appeal, &[("mode", "test"), ("reason", TEXT)]).await;
    assert_eq!(again.header("location"), Some(format!("{page}?error=unprocessable_entity").as_str()));
    assert!(!member.page(&page).await.contains("<textarea"));
    let audit = eventually("an audit row", async || {
        let html = member.page("/dashboard/audit").await;
        html.contains("med.appeal").then_some(html)
    });
    assert!(audit.await.contains("usr_"));
}

#[tokio::test]
async fn the_loss_is_accepted_by_typing_its_amount() {
    let service = Service::start().await;
    let case = service.disputed(json!({})).await;
    let (page, accept) = (page_of(&case), format!("{}/accept", page_of(&case)));
    let member = Browser::member(&service).await;
    assert!(member.page(&page).await.contains("digite R$ 30,90"));
    for wrong in ["", "30,9", "aceito"] {
        let refused = member.submit(&page, &accept, &[("amount", wrong)]).await;
        assert_eq!(refused, format!("{page}?error=invalid_amount&field=amount"), "{wrong}");
    }
    assert_eq!(case_of(&service, &page).await["status"], "open");
    assert_eq!(member.submit(&page, &accept, &[("amount", "30,90")]).await, format!("{page}?done=1"));
    let accepted = case_of(&service, &page).await;
    assert_eq!((&accepted["status"], &accepted["money_outcome"]), (&json!("accepted"), &json!("lost")));
    let again = member.post(&accept, &[("mode", "test"), ("amount", "30,90")]).await;
    assert_eq!(again.header("location"), Some(format!("{page}?error=unprocessable_entity").as_str()));
}

#[tokio::test]
async fn after_the_deadline_the_page_says_that_nothing_can_be_sent() {
    let service = Service::start().await;
    let due = service.stack.clock.now().plus_seconds(3 * 86_400).unwrap().to_iso();
    let case = service.disputed(json!({"response_deadline": due})).await;
    let (page, appeal) = (page_of(&case), format!("{}/appeal", page_of(&case)));
    let owner = Browser::owner(&service).await;
    let html = owner.page(&page).await;
    assert!(html.contains("2 dias") || html.contains("3 dias"), "{html}");
    assert!(html.contains("(horário de São Paulo)") && html.contains("<textarea"), "{html}");
    service.advance_seconds(3 * 86_400 + 1).await;
    let owner = Browser::owner(&service).await;
    let html = owner.page(&page).await;
    assert!(html.contains("O prazo terminou. O banco do pagador decide sem a sua resposta"), "{html}");
    assert!(!html.contains("<textarea") && !html.contains("type=\"file\""), "{html}");
    let late = owner.post(&appeal, &[("mode", "test"), ("reason", TEXT)]).await;
    assert_eq!(late.header("location"), Some(format!("{page}?error=unprocessable_entity").as_str()));
    assert_eq!(case_of(&service, &page).await["status"], "open");
    // The loss can still be accepted.
    let accept = format!("{page}/accept");
    assert_eq!(owner.submit(&page, &accept, &[("amount", "30,90")]).await, format!("{page}?done=1"));
}

#[tokio::test]
async fn in_live_mode_an_administrator_who_logged_in_recently_answers() {
    let service = Service::without_event_sources().await;
    let (page, live) = service.live_case().await;
    let actions = [("appeal", ("reason", TEXT)), ("accept", ("amount", "30,90"))];
    let member = Browser::member(&service).await.in_mode(Mode::Live);
    assert!(member.page(&page).await.contains("Contestar (precisa de administrador)"));
    for (action, field) in actions {
        let refused = member.post(&format!("{page}/{action}"), &[("mode", "live"), field]).await;
        assert_eq!(refused.status, 403, "{action}");
    }
    let owner = Browser::owner(&service).await.in_mode(Mode::Live);
    assert!(!owner.page(&page).await.contains(TEXT), "a member's text is not stored");
    service.stack.clock.advance(601_000);
    let log_in = format!(
        "/dashboard/login?next={}&error=log_in_again",
        url::form_urlencoded::byte_serialize(page.as_bytes()).collect::<String>()
    );
    for (action, field) in actions {
        let refused = owner.post(&format!("{page}/{action}"), &[("mode", "live"), field]).await;
        assert_eq!(refused.header("location"), Some(log_in.as_str()), "{action}");
    }
    assert_eq!(case_of(&live, &page).await["status"], "open");
    let owner = Browser::owner(&service).await.in_mode(Mode::Live);
    assert!(owner.page(&page).await.contains(TEXT), "the text is still there after the log-in");
    let appeal = format!("{page}/appeal");
    assert_eq!(owner.submit(&page, &appeal, &[("reason", TEXT)]).await, format!("{page}?done=1"));
    assert_eq!(case_of(&live, &page).await["status"], "appealed");
}

#[tokio::test]
async fn only_a_page_of_this_origin_mode_and_account_answers_a_case() {
    let service = Service::start().await;
    let case = service.disputed(json!({})).await;
    let page = page_of(&case);
    let owner = Browser::owner(&service).await;
    let live = Browser::owner(&service).await.in_mode(Mode::Live);
    for action in ["appeal", "accept"] {
        let path = format!("{page}/{action}");
        let headers = [
            ("cookie", owner.cookies()),
            ("content-type", "application/x-www-form-urlencoded"),
            ("sec-fetch-site", "cross-site"),
        ];
        let body = "mode=test&reason=Entregue&amount=30,90";
        assert_eq!(service.raw(Method::POST, &path, &headers, body).await.status, 403, "{path}");
        assert_eq!(owner.post(&path, &[("mode", "live")]).await.status, 409, "{path}");
        assert_eq!(live.post(&path, &[("mode", "live")]).await.status, 404, "{path}");
        let unknown = path.replace(&page, "/dashboard/disputes/med_x");
        assert_eq!(owner.post(&unknown, &[("mode", "test")]).await.status, 404, "{path}");
    }
    assert_eq!(case_of(&service, &page).await["status"], "open");
}
