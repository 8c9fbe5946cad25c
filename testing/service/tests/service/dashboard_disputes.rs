//! Tests of the dashboard's answers to a dispute: the appeal, the loss, the evidence and the dossier.

use axum::http::Method;
use domain::ids::{ChargeId, Mode};
use money::med::MedCases;
use screen_reader::{Page, Role};
use serde_json::{Value, json};

use crate::bank_med::{credit, unexplained_case};
use crate::dashboard::{Browser, location, shown};
use crate::support::{Answer, Client, Listener, Service, eventually, id, wait_until};

const APPEAL: &str = "Conte o que foi vendido, quando e como foi entregue";
const CONFIRM: &str = "Para confirmar, digite R$ 30,90";
const TEXT: &str = "Vendido em 3 de novembro.\nEntregue no dia 5.";

fn page_of(case: &Value) -> String {
    format!("/dashboard/disputes/{}", id(case))
}

impl Service {
    async fn disputed(&self, case: Value) -> Value {
        let charge = self.pay(3_090).await;
        self.open_case(&charge, case).await
    }

    /// A case about a live charge: its page and the client that reads it.
    pub(crate) async fn live_case(&self) -> (String, Client) {
        let live = self.live_client();
        let created = live.new_charge("order-0001", &json!({"amount": 3_090})).await;
        let charge: ChargeId = id(&created).parse().unwrap();
        credit(self, charge, &format!("E{}", charge.txid())).await;
        let charges = money::charge::Charges::new(self.store());
        let stored = charges.find(Some(charge)).await.unwrap().unwrap();
        let now = self.stack.clock.now();
        let case = MedCases::new(self.store()).open(stored, "1", &unexplained_case(), now).await.unwrap();
        (format!("/dashboard/disputes/{}", case.id), live)
    }
}

/// The text of the appeal that a page shows.
fn appeal_text(page: &Page) -> String {
    page.get(Role::Field, APPEAL).value()
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
    let done = format!("{page}?done");
    assert_eq!(member.submit(&page, "Salvar rascunho", &[(APPEAL, TEXT)]).await, done);
    assert_eq!(appeal_text(&member.page(&page).await), TEXT);
    // A refusal keeps the text too.
    let short = member.submit(&page, "Contestar", &[(APPEAL, "não")]).await;
    assert_eq!(short, format!("{page}?error=invalid_request&field=reason"));
    assert_eq!(appeal_text(&member.page(&short).await), "não");
    assert_eq!(case_of(&service, &page).await["status"], "open");
    // A browser sends a line break as two characters.
    let sent = TEXT.replace('\n', "\r\n");
    // It is asked first, and who goes back finds the text.
    let form = member.page(&page).await.press("Contestar", &[(APPEAL, &sent)]);
    let asked = shown(&member.post(&form.action, &form.pairs()).await);
    assert!(asked.contains("Depois de enviada, o texto não pode ser mudado"), "{asked}");
    assert_eq!(asked.named(Role::Link, "Voltar")[0].target(), page);
    assert_eq!(case_of(&service, &page).await["status"], "open");
    assert_eq!(appeal_text(&member.page(&page).await), TEXT);
    assert_eq!(member.submit(&page, "Contestar", &[(APPEAL, &sent)]).await, done);
    let appealed = case_of(&service, &page).await;
    assert_eq!((&appealed["status"], &appealed["appeal_reason"]), (&json!("appealed"), &json!(TEXT)));
    // A form that is sent twice is answered alike; another text is refused.
    for (text, led) in [(TEXT, "?done"), ("Outro texto", "?error=unprocessable_entity")] {
        let again = member.post(&appeal, &[("mode", "test"), ("reason", text)]).await;
        assert_eq!(location(&again), format!("{page}{led}"));
    }
    assert!(!member.page(&page).await.has(Role::Field, APPEAL));
    let audit = eventually("an audit row", async || {
        let page = member.page("/dashboard/audit").await;
        page.contains("Disputa contestada").then_some(page)
    });
    assert!(audit.await.row("Disputa contestada").contains("member@loja.example"));
}

#[tokio::test]
async fn the_loss_is_accepted_by_typing_its_amount() {
    let service = Service::start().await;
    let case = service.disputed(json!({})).await;
    let (page, accept) = (page_of(&case), format!("{}/accept", page_of(&case)));
    let member = Browser::member(&service).await;
    for wrong in ["", "3090", "30,900", "aceito"] {
        let refused = member.submit(&page, "Aceitar a perda", &[(CONFIRM, wrong)]).await;
        assert_eq!(refused, format!("{page}?error=invalid_amount&field=amount"), "{wrong}");
    }
    assert_eq!(case_of(&service, &page).await["status"], "open");
    let led = member.submit(&page, "Aceitar a perda", &[(CONFIRM, "30,90")]).await;
    assert_eq!(led, format!("{page}?done"));
    let accepted = case_of(&service, &page).await;
    assert_eq!((&accepted["status"], &accepted["money_outcome"]), (&json!("accepted"), &json!("lost")));
    // The wallet retains nothing, and the payer does not read that the dispute is under review.
    let lost = member.page(&page).await;
    assert_eq!(
        (lost.values("Perdido"), lost.values("Retido").len()),
        (vec!["R$ 30,90".to_owned()], 0),
        "{lost}"
    );
    let charge = accepted["charge_id"].as_str().unwrap();
    assert!(member.page(&format!("/dashboard/charges/{charge}")).await.contains("Disputa perdida"));
    let payers =
        service.raw(Method::GET, &format!("/checkout/{}", charge.trim_start_matches("ch_")), &[], "").await;
    let payers = crate::dashboard::text(&payers);
    assert!(payers.contains("Disputa encerrada") && !payers.contains("sendo analisado"), "{payers}");
    let again = member.post(&accept, &[("mode", "test"), ("amount", "30,90")]).await;
    assert_eq!(location(&again), format!("{page}?done"));

    // Only a page of the mode and account of a case answers it.
    let case = service.disputed(json!({})).await;
    let page = page_of(&case);
    let owner = Browser::owner(&service).await;
    let live = Browser::owner(&service).await.in_mode(Mode::Live);
    for action in ["appeal", "accept", "evidence", "evidence/mev_x/complete"] {
        let path = format!("{page}/{action}");
        assert_eq!(owner.post(&path, &[("mode", "live")]).await.status, 409, "{path}");
        assert_eq!(live.post(&path, &[("mode", "live")]).await.status, 404, "{path}");
        let unknown = path.replace(&page, "/dashboard/disputes/med_x");
        assert_eq!(owner.post(&unknown, &[("mode", "test")]).await.status, 404, "{path}");
    }
    assert_eq!(case_of(&service, &page).await["status"], "open");
}

#[tokio::test]
async fn after_the_deadline_the_page_says_that_nothing_can_be_sent() {
    let service = Service::start().await;
    let due = service.stack.clock.now().plus_seconds(3 * 86_400).unwrap().to_iso();
    let case = service.disputed(json!({"response_deadline": due})).await;
    let (page, appeal) = (page_of(&case), format!("{}/appeal", page_of(&case)));
    let owner = Browser::owner(&service).await;
    let open = owner.page(&page).await;
    assert!(open.contains("2 dias") || open.contains("3 dias"), "{open}");
    assert!(open.contains("(horário de Brasília)") && open.has(Role::Field, APPEAL), "{open}");
    let upload = |size| {
        [("mode", "test"), ("file_name", "a.pdf"), ("file_size", size), ("mime_type", "application/pdf")]
    };
    let evidence = format!("{page}/evidence");
    assert_eq!(owner.post(&evidence, &upload("x")).await.status, 400);
    service.advance_seconds(3 * 86_400 + 1).await;
    let owner = Browser::owner(&service).await;
    let late = owner.page(&page).await;
    assert!(late.contains("O prazo terminou. O banco do pagador decide sem a sua resposta"), "{late}");
    assert!(!late.has(Role::Field, APPEAL) && !offers_upload(&late), "{late}");
    assert!(!owner.page("/dashboard").await.contains("sua resposta"));
    let late = owner.post(&appeal, &[("mode", "test"), ("reason", TEXT)]).await;
    assert_eq!(location(&late), format!("{page}?error=unprocessable_entity"));
    assert_eq!(owner.post(&evidence, &upload("9")).await.status, 422);
    assert_eq!(case_of(&service, &page).await["status"], "open");
    // The loss can still be accepted.
    let led = owner.submit(&page, "Aceitar a perda", &[(CONFIRM, "30,90")]).await;
    assert_eq!(led, format!("{page}?done"));
}

#[tokio::test]
async fn in_live_mode_an_administrator_makes_the_dossier_and_the_text_is_kept_for_a_log_in() {
    let service = Service::without_event_sources().await;
    let (page, live) = service.live_case().await;
    let fields = [("mode", "live"), ("back", page.as_str()), ("reason", TEXT)];
    let appeal = format!("{page}/appeal");
    let member = Browser::member(&service).await.in_mode(Mode::Live);
    let (shown, dossier) = (member.page(&page).await, format!("{page}/dossier"));
    assert!(!offers_upload(&shown) && shown.links_to(&dossier).is_empty(), "{shown}");
    assert_eq!(member.answer(&dossier, &[]).await.status, 403);
    assert_eq!(member.post(&appeal, &fields).await.status, 403);
    let owner = Browser::owner(&service).await.in_mode(Mode::Live);
    assert_eq!(owner.answer(&dossier, &[]).await.status, 200);
    assert_eq!(appeal_text(&owner.page(&page).await), "", "a member's text is not stored");
    service.stack.clock.advance(601_000);
    let log_in = format!(
        "/dashboard/confirm?next={}",
        url::form_urlencoded::byte_serialize(page.as_bytes()).collect::<String>()
    );
    let refused = owner.post(&appeal, &fields).await;
    assert_eq!(location(&refused), log_in);
    assert_eq!(case_of(&live, &page).await["status"], "open");
    let owner = Browser::owner(&service).await.in_mode(Mode::Live);
    assert_eq!(appeal_text(&owner.page(&page).await), TEXT, "the text is still there after the log-in");
    assert_eq!(owner.submit(&page, "Contestar", &[]).await, format!("{page}?done"));
    assert_eq!(case_of(&live, &page).await["status"], "appealed");
}

/// The field of the files is hidden until the script shows it.
fn offers_upload(page: &Page) -> bool {
    page.source().contains("type=\"file\"")
}

/// With a document, which pages mask.
const FILE: &str = "nota <b> 295.379.955-93.pdf";
const MASKED: &str = "nota <b> ***.379.955-**.pdf";
const PDF: &[u8] = b"%PDF-1.7\nnota fiscal";

/// The ticket of an upload that the page's script announces.
async fn ticket(browser: &Browser<'_>, page: &str, bytes: &[u8], mime_type: &str) -> Value {
    let size = bytes.len().to_string();
    let fields = [("mode", "test"), ("file_name", FILE), ("file_size", &size), ("mime_type", mime_type)];
    browser.post(&format!("{page}/evidence"), &fields).await.expect(201)
}

#[tokio::test]
async fn a_page_uploads_evidence_to_the_storage_and_links_to_it() {
    let service = Service::start().await;
    let case = service.disputed(json!({})).await;
    let page = page_of(&case);
    let member = Browser::member(&service).await;
    let answer = member.answer(&page, &[]).await;
    let open = member.page(&page).await;
    assert!(offers_upload(&open) && open.contains("Anexar exige JavaScript."), "{open}");
    let ticket = self::ticket(&member, &page, PDF, "application/pdf").await;
    let url = ticket["upload_url"].as_str().unwrap();
    // The policy of the page permits the storage, and the storage permits the page.
    let storage = url::Url::parse(url).unwrap().origin().ascii_serialization();
    let policy = answer.header("content-security-policy").unwrap();
    assert!(policy.contains(&format!("connect-src 'self' {storage};")), "{policy}");
    let origin = ("origin", service.base_url.as_str());
    let asks = [("access-control-request-method", "PUT"), ("access-control-request-headers", "content-type")];
    let preflight = service.raw(Method::OPTIONS, url, &[&[origin], &asks[..]].concat(), "").await;
    let allowed = |answer: &Answer| answer.header("access-control-allow-origin").map(str::to_owned);
    assert_eq!((preflight.status.as_u16(), allowed(&preflight)), (200, Some(service.base_url.clone())));
    assert_eq!(preflight.header("access-control-allow-methods"), Some("PUT"));
    assert_eq!(preflight.header("access-control-allow-headers"), Some("*"));
    for foreign in ["https://evil.example", "http://127.0.0.1.evil.example", "null"] {
        let headers = [&[("origin", foreign)], &asks[..]].concat();
        let refused = service.raw(Method::OPTIONS, url, &headers, "").await;
        assert_eq!((refused.status.as_u16(), allowed(&refused)), (403, None), "{foreign}");
    }
    let complete = format!("{page}/evidence/{}/complete", id(&ticket));
    let early = member.post(&complete, &[("mode", "test")]).await;
    assert_eq!(early.status, 409);
    assert!(shown(&early).contains("O arquivo não chegou inteiro. Envie de novo."), "{early:?}");
    let sent = service.raw(Method::PUT, url, &[origin, ("content-type", "application/pdf")], PDF).await;
    assert_eq!((sent.status.as_u16(), allowed(&sent)), (200, Some(service.base_url.clone())));
    // A page can read nothing of the storage.
    assert_eq!(allowed(&service.raw(Method::GET, url, &[origin], "").await), None);
    for _ in 0..2 {
        assert_eq!(member.post(&complete, &[("mode", "test")]).await.status, 204);
    }
    let with_file = member.page(&page).await;
    let link = format!("{page}/evidence/{}", id(&ticket));
    assert_eq!(with_file.get(Role::Link, MASKED).target(), link);
    assert!(!with_file.source().contains("X-Amz-Signature"), "{with_file}");
    let signed = member.answer(&link, &[]).await;
    let file = service.raw(Method::GET, location(&signed), &[], "").await;
    assert_eq!((file.status.as_u16(), &file.bytes[..]), (200, PDF));
    let live = Browser::owner(&service).await.in_mode(Mode::Live);
    for (browser, path) in [(&live, &link), (&member, &format!("{page}/evidence/mev_x"))] {
        assert_eq!(browser.answer(path, &[]).await.status, 404, "{path}");
    }
    // A wrong file is removed, once, with its row, count and object.
    let wrong = self::ticket(&member, &page, PDF, "application/pdf").await;
    let sent = service.raw(
        Method::PUT,
        wrong["upload_url"].as_str().unwrap(),
        &[("content-type", "application/pdf")],
        PDF,
    );
    assert_eq!(sent.await.status, 200);
    let path = format!("{page}/evidence/{}", id(&wrong));
    assert_eq!(member.post(&format!("{path}/complete"), &[("mode", "test")]).await.status, 204);
    let object = location(&member.answer(&path, &[]).await).to_owned();
    // The button sends the text of the appeal too, which is kept.
    let both = member.page(&page).await;
    let buttons: Vec<Page> = both.named(Role::Button, &format!("Remover {MASKED}"));
    assert_eq!(buttons.len(), 2, "{both}");
    let remove =
        buttons.iter().find(|button| button.attribute("formaction") == Some(&format!("{path}/remove")));
    assert_eq!(remove.unwrap().attribute("form"), Some("appeal"));
    let mut form = both.press("Contestar", &[(APPEAL, TEXT)]);
    form.action = format!("{path}/remove");
    let asked = shown(&member.post(&form.action, &form.pairs()).await);
    assert!(asked.contains("Remover este arquivo?"), "{asked}");
    assert_eq!(appeal_text(&member.page(&page).await), TEXT);
    for left in [1, 1] {
        let removed = member.post(&format!("{path}/remove"), &[("mode", "test"), ("confirmed", "1")]).await;
        assert_eq!(location(&removed), format!("{page}?done"));
        let case = service.get(&format!("/v1/med/cases/{}", id(&case))).await.expect(200);
        assert_eq!(case["evidence_count"], left);
    }
    assert_eq!(service.raw(Method::GET, &object, &[], "").await.status, 404);
    assert_eq!(member.page(&page).await.links_to(&format!("{page}/evidence/")), [link.as_str()]);
    wait_until("the audit", async || {
        let rows = service.rows(&format!("audit#{}", service.scope().account), "").await;
        rows.iter().filter(|row| row["action"].as_s().unwrap() == "med.remove-evidence").count() == 1
    })
    .await;
    // After the end of the case, nothing is attached or removed.
    service.decide_case(&case, "merchant").await.expect(200);
    let ended = member.page(&page).await;
    assert!(ended.links_to(&link) == [link.as_str()] && !offers_upload(&ended), "{ended}");
    let refused = member.post(&format!("{link}/remove"), &[("mode", "test"), ("confirmed", "1")]).await;
    assert!(location(&refused).contains("?error="), "{refused:?}");
    assert!(ended.contains("Sem contestação") && ended.contains("Encerrada em"), "{ended}");
    assert_eq!(member.page(&page).await.links_to(&link), [link.as_str()]);
    let answer = member.answer(&page, &[]).await;
    assert!(answer.header("content-security-policy").unwrap().contains("connect-src 'self';"));
}

#[test]
fn the_bucket_permits_the_origin_of_the_api_and_only_uploads() {
    let template: serde_yaml_ng::Value = serde_yaml_ng::from_str(local::template::TEMPLATE).unwrap();
    let rule = &template["Resources"]["DocumentsBucket"]["Properties"]["CorsConfiguration"]["CorsRules"][0];
    assert_eq!(rule["AllowedMethods"], serde_yaml_ng::from_str::<serde_yaml_ng::Value>("[PUT]").unwrap());
    let origins = serde_yaml_ng::to_string(&rule["AllowedOrigins"]).unwrap();
    assert!(origins.contains("https://${Host}") && origins.contains("CheckoutBaseUrl"), "{origins}");
}

#[tokio::test]
async fn the_dossier_is_a_pdf_with_the_case_and_no_whole_document() {
    let service = Service::start().await;
    let body = json!({
        "amount": 3_090, "description": "Tênis",
        "customer": {"name": "Maria Silva", "document": "29537995593", "email": "maria@example.com"},
        "metadata": {"order_id": "4711"},
    });
    let charge = service.new_charge(&body).await;
    service.sandbox(&charge, "pay", &json!({})).await;
    let refund = service.refund(&charge, "refund-01", json!({"amount": 90})).await.expect(201);
    let listener = Listener::start().await;
    service.register_endpoint(&listener.url, &["med_case.created"]).await;
    let case = service.open_case(&charge, json!({"reason": "Golpe"})).await;
    listener.wait_for_event("med_case.created").await;
    let page = page_of(&case);
    let member = Browser::member(&service).await;
    let ticket = ticket(&member, &page, PDF, "application/pdf").await;
    let headers = [("content-type", "application/pdf")];
    service.raw(Method::PUT, ticket["upload_url"].as_str().unwrap(), &headers, PDF).await;
    member.post(&format!("{page}/evidence/{}/complete", id(&ticket)), &[("mode", "test")]).await;
    member.submit(&page, "Contestar", &[(APPEAL, TEXT)]).await;
    let link = format!("{page}/dossier");
    assert_eq!(member.page(&page).await.get(Role::Link, "Dossiê em PDF").target(), link);
    let answer = member.answer(&link, &[]).await;
    assert_eq!((answer.status.as_u16(), answer.header("content-type")), (200, Some("application/pdf")));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let name = format!("attachment; filename=\"dossie-{}.pdf\"", id(&case));
    assert_eq!(answer.header("content-disposition"), Some(name.as_str()));
    let text: String = answer.bytes.iter().map(|byte| char::from(*byte)).collect();
    let of_case = ["%PDF-1.7", "DOCUMENTO DE TESTE", "Golpe", "R$ 30,90", "Entregue no dia 5.", id(&case)];
    let of_charge = ["Maria Silva", "***.379.955-**", "4711", "nota <b> ***.379.955-**.pdf", id(&charge)];
    // The lines of the timeline have a character that is not ASCII, so the PDF has them in hex.
    let in_hex = |text: &str| domain::hex::encode(text).to_uppercase();
    let of_timeline = [id(&refund), "R$ 0,90", "med_case.created", "Entrega: Entregue"].map(in_hex);
    let of_timeline = of_timeline.each_ref().map(String::as_str);
    for expected in of_case.into_iter().chain(of_charge).chain(of_timeline) {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(!text.contains("29537995593"), "{text}");
    // The SHA-256 of the file, as `sha256sum` prints it.
    let sha256 = "6ae018aedc4c3298bbcdaa329e76ef215132347ac29831c444f5210bdd2ef477";
    let files = service.get(&format!("/v1/med/cases/{}/evidence", id(&case))).await.expect(200);
    assert_eq!(files["data"][0]["sha256"], sha256);
    assert!(text.contains(sha256), "{text}");
    let live = Browser::owner(&service).await.in_mode(Mode::Live);
    assert_eq!(live.answer(&link, &[]).await.status, 404);
    assert_eq!(member.answer("/dashboard/disputes/med_x/dossier", &[]).await.status, 404);
    for path in ["/v1/med/cases", "/v1/infractions"] {
        let path = format!("{path}/{}/dossier", id(&case));
        let of_api = service.get(&path).await;
        assert_eq!((of_api.status.as_u16(), of_api.header("content-type")), (200, Some("application/pdf")));
        assert_eq!(of_api.header("content-disposition"), Some(name.as_str()));
        let of_api: String = of_api.bytes.iter().map(|byte| char::from(*byte)).collect();
        for expected in of_case.into_iter().chain(of_charge).chain(of_timeline).chain([sha256]) {
            assert!(of_api.contains(expected), "{expected}: {of_api}");
        }
        assert!(!of_api.contains("29537995593"), "{of_api}");
        let refused = service.live_client().get(&path).await;
        assert_eq!(refused.problem(), (404, "not_found_error", "not_found"));
    }
}

#[tokio::test]
async fn a_document_is_revealed_once_and_the_audit_says_to_whom() {
    let service = Service::start().await;
    let live = service.live_client();
    let body = json!({"amount": 3_090, "customer": {"document": "29537995593"}});
    let charge = live.new_charge("order-0001", &body).await;
    let page = format!("/dashboard/charges/{}", id(&charge));
    let reveal = format!("{page}/document");
    let fields = [("mode", "live")];
    let owner = Browser::owner(&service).await.in_mode(Mode::Live);
    let audit = async || Browser::owner(&service).await.page("/dashboard/audit").await;
    assert!(!audit().await.contains("Documento do pagador mostrado"));
    let revealed = owner.post(&reveal, &fields).await;
    assert_eq!((revealed.status.as_u16(), revealed.header("cache-control")), (200, Some("no-store")));
    assert!(shown(&revealed).contains("29537995593"));
    let masked = owner.page(&page).await;
    assert!(masked.contains("***.379.955-**") && !masked.source().contains("29537995593"), "{masked}");
    let audit = audit().await;
    let row = audit.row("Documento do pagador mostrado");
    assert!(row.contains(&id(&charge)[..15]) && row.contains("owner@loja.example"), "{row}");
    assert!(!audit.source().contains("29537995593") && !audit.source().contains("379.955"), "{audit}");
    // A charge without a document, and one of another mode.
    let without = live.new_charge("order-0002", &json!({"amount": 3_090})).await;
    let path = format!("/dashboard/charges/{}/document", id(&without));
    assert_eq!(owner.post(&path, &fields).await.status, 404);
    let test = Browser::owner(&service).await;
    assert_eq!(test.post(&reveal, &[("mode", "test")]).await.status, 404);
}
