//! Tests of a user's own access: second factor, confirmation of a session, password, sessions.

use axum::http::Method;
use domain::ids::{Mode, UserId};
use screen_reader::{Page, Role};
use serde_json::json;
use totp_rs::{Builder, Secret, Totp};

use crate::api_keys::DashboardUser;
use crate::dashboard::{Browser, FORM, SAME_ORIGIN, cookie, encoded, location, post, shown, shown_secret};
use crate::support::{Answer, Service, id, wait_until};

const SECURITY: &str = "/dashboard/security";
const WRONG: &str = "/dashboard/security?error=wrong_proof";
const CODE: &str = "Código do app autenticador, ou código de recuperação";
const TEST: (&str, &str) = ("mode", "test");

/// The authenticator app of a user.
struct Phone<'a> {
    service: &'a Service,
    totp: Totp,
    recovery: Vec<String>,
    /// The code that turned the second factor on.
    first: String,
}

impl<'a> Phone<'a> {
    /// Scans the seed and turns the second factor on, which begins a new session.
    async fn enrol(service: &'a Service, browser: &mut Browser<'_>) -> Self {
        let answer = browser.post("/dashboard/security/totp", &[TEST]).await;
        assert_eq!((answer.status.as_u16(), answer.header("cache-control")), (200, Some("no-store")));
        let enrolment = shown(&answer);
        assert!(
            enrolment.has(Role::Image, "Escaneie o QR code") && !enrolment.source().contains("data:"),
            "{enrolment}"
        );
        let seed = enrolment.all(Role::Code)[0].value();
        let totp = Builder::new().with_secret(Secret::try_from_base32(&seed).unwrap()).build().unwrap();
        let mut phone = Self { service, totp, recovery: Vec::new(), first: String::new() };
        phone.first = phone.code();
        let on = browser.post("/dashboard/security/totp/on", &[TEST, ("code", &phone.first)]).await;
        phone.recovery = shown_secret(&on).lines().map(str::to_owned).collect();
        assert_eq!(phone.recovery.len(), 8);
        assert!(location(&browser.answer("/dashboard", &[]).await).starts_with("/dashboard/login"));
        browser.renew(&on);
        let page = browser.page(SECURITY).await;
        assert!(page.contains("Ativa desde") && !page.source().contains(&seed), "{page}");
        phone
    }

    fn code(&self) -> String {
        let now = self.service.stack.clock.now().seconds();
        self.totp.generate(u64::try_from(now).unwrap()).to_string()
    }

    /// A code that was not used yet.
    async fn next_code(&self) -> String {
        self.service.advance_seconds(30).await;
        self.code()
    }
}

/// Six digits that are not a code of these minutes.
fn wrong_code(phone: &Phone<'_>) -> String {
    let code: u32 = phone.code().parse().unwrap();
    format!("{:06}", (code + 500_000) % 1_000_000)
}

/// Begins a log-in with the right password. Returns the cookie with which the code must be sent.
async fn pending(service: &Service) -> String {
    let seed = &service.stack.seed.first;
    let fields =
        [("email", seed.owner_email.as_str()), ("password", &seed.password), ("next", "/dashboard/wallet")];
    let answer = post(service, "/dashboard/login", "", &fields).await;
    assert_eq!(location(&answer), "/dashboard/totp?next=%2Fdashboard%2Fwallet");
    let sent = answer.header("set-cookie").unwrap();
    assert!(sent.starts_with("local-log-in=") && sent.contains("Max-Age=300; HttpOnly"), "{sent}");
    cookie(&answer)
}

async fn send_code(service: &Service, pending: &str, code: &str) -> Answer {
    post(service, "/dashboard/totp", pending, &[("code", code), ("next", "/dashboard/wallet")]).await
}

async fn api_log_in(service: &Service, totp: Option<&str>) -> Answer {
    let seed = &service.stack.seed.first;
    let body = json!({"email": seed.owner_email, "password": seed.password, "totp": totp});
    service
        .raw(Method::POST, "/v1/auth/login", &[("content-type", "application/json")], body.to_string())
        .await
}

#[tokio::test]
async fn a_log_in_needs_a_code_once_the_second_factor_is_on_and_accepts_each_code_once() {
    let service = Service::start().await;
    let mut owner = Browser::owner(&service).await;
    let abandoned = owner.post("/dashboard/security/totp", &[TEST]).await;
    assert_eq!(abandoned.status, 200);
    // The page stays, with the seed that the app has.
    let wrong = shown(&owner.post("/dashboard/security/totp/on", &[TEST, ("code", "12345")]).await);
    assert!(wrong.names(Role::Alert)[0].starts_with("A senha ou o código está errado"), "{wrong}");
    assert_eq!(wrong.all(Role::Code)[0].value(), shown(&abandoned).all(Role::Code)[0].value());
    assert!(owner.page(WRONG).await.names(Role::Alert)[0].starts_with("A senha ou o código está errado"));
    Browser::owner(&service).await;
    let phone = Phone::enrol(&service, &mut owner).await;
    let again = owner.post("/dashboard/security/totp", &[TEST]).await;
    assert_eq!(location(&again), "/dashboard/security?error=unprocessable_entity");

    let begun = pending(&service).await;
    let token = begun.split_once('=').unwrap().1;
    let as_session = Browser::with_cookies(&service, format!("__Host-session={token}"));
    assert!(location(&as_session.answer("/dashboard", &[]).await).starts_with("/dashboard/login"));
    let bearer = [("authorization", &*format!("Bearer {token}"))];
    assert_eq!(service.raw(Method::GET, "/v1/api-keys", &bearer, "").await.status, 401);
    let refused = "/dashboard/totp?error=wrong_proof&next=%2Fdashboard%2Fwallet";
    for code in [&wrong_code(&phone), phone.first.as_str(), ""] {
        let answer = send_code(&service, &begun, code).await;
        assert_eq!((location(&answer), answer.header("set-cookie")), (refused, None), "{code}");
    }
    let code = phone.next_code().await;
    let both = tokio::join!(send_code(&service, &begun, &code), send_code(&service, &begun, &code));
    let mut led = [location(&both.0), location(&both.1)];
    led.sort_unstable();
    assert_eq!(led, [refused, "/dashboard/wallet"], "a code is accepted once, also at the same time");
    assert_eq!(location(&send_code(&service, &begun, &code).await), refused, "a replay");

    let entered = send_code(&service, &begun, &phone.recovery[0]).await;
    assert_eq!(location(&entered), "/dashboard/wallet");
    Browser::of(&service, &entered).page("/dashboard").await;
    assert_eq!(location(&send_code(&service, &begun, &phone.recovery[0]).await), refused);
    // The clocks may differ by a step.
    service.advance_seconds(60).await;
    let now = u64::try_from(service.stack.clock.now().seconds()).unwrap();
    let early = phone.totp.generate(now + 90).to_string();
    assert_eq!(location(&send_code(&service, &begun, &early).await), refused);
    let ahead = phone.totp.generate(now + 30).to_string();
    assert_eq!(location(&send_code(&service, &begun, &ahead).await), "/dashboard/wallet");
    service.advance_seconds(300).await;
    let late = send_code(&service, &begun, &phone.code()).await;
    assert!(location(&late).starts_with("/dashboard/login"), "{late:?}");
    assert!(
        service.rows(&format!("totp#{}", owner_id(&service)), "").await.is_empty(),
        "no seed in the stream"
    );
}

fn owner_id(service: &Service) -> domain::ids::UserId {
    domain::ids::UserId::from_email(&service.stack.seed.first.owner_email)
}

#[tokio::test]
async fn the_log_in_of_the_api_needs_the_code_too() {
    let service = Service::start().await;
    let phone = Phone::enrol(&service, &mut Browser::owner(&service).await).await;
    assert_eq!(api_log_in(&service, None).await.problem(), (401, "authentication_error", "totp_required"));
    let refused = (401, "authentication_error", "unauthorized");
    assert_eq!(api_log_in(&service, Some(&wrong_code(&phone))).await.problem(), refused);
    assert_eq!(api_log_in(&service, Some(&phone.first)).await.problem(), refused, "it turned it on");
    let code = phone.next_code().await;
    api_log_in(&service, Some(&code)).await.expect(200);
    assert_eq!(api_log_in(&service, Some(&code)).await.problem(), refused);
    api_log_in(&service, Some(&phone.recovery[3].to_uppercase())).await.expect(200);
}

#[tokio::test]
async fn wrong_codes_count_as_failed_log_ins() {
    let service = Service::start().await;
    let mut owner = Browser::owner(&service).await;
    let phone = Phone::enrol(&service, &mut owner).await;
    service.begin_window().await;
    let begun = pending(&service).await;
    let wrong = wrong_code(&phone);
    for _ in 0..10 {
        assert!(location(&send_code(&service, &begun, &wrong).await).contains("error=wrong_proof"));
    }
    // What strangers fail does not keep a user with a session from acting.
    for _ in 0..10 {
        let password = service.stack.seed.first.password.clone();
        let off = [TEST, ("password", password.as_str()), ("code", wrong.as_str())];
        assert_eq!(location(&owner.post("/dashboard/security/totp/off", &off).await), WRONG);
    }
    let code = phone.next_code().await;
    let limited = location(&send_code(&service, &begun, &code).await).to_owned();
    assert!(limited.contains("error=rate_limited"), "{limited}");
    let page = shown(&service.raw(Method::GET, &limited, &[], "").await);
    assert!(page.contains("a espera é de até 15 minutos."), "{page}");
    assert_eq!(api_log_in(&service, Some(&code)).await.problem().0, 429);
    let confirm = owner.post("/dashboard/confirm", &[TEST, ("code", &code)]).await;
    assert_eq!(location(&confirm), "/dashboard/confirm?error=rate_limited&next=%2Fdashboard");
    wait_until("the audit row", async || owner.page("/dashboard/audit").await.contains("Login bloqueado"))
        .await;
}

#[tokio::test]
async fn turning_the_second_factor_off_needs_the_password_and_a_code() {
    let service = Service::start().await;
    let mut owner = Browser::owner(&service).await;
    let phone = Phone::enrol(&service, &mut owner).await;
    let password = service.stack.seed.first.password.clone();
    let off = async |password: &str, code: &str| {
        owner.submit(SECURITY, "Desativar", &[("Senha", password), (CODE, code)]).await
    };
    assert_eq!(off(&password, "").await, WRONG);
    let change =
        [("Senha atual", password.as_str()), ("Nova senha (12 caracteres ou mais)", "a new pass phrase")];
    assert_eq!(owner.submit(SECURITY, "Trocar a senha", &change).await, WRONG);
    assert_eq!(off("wrong", &phone.recovery[0]).await, WRONG);
    let seed = format!("totp#{}", owner_id(&service));
    assert_eq!(service.secrets().partition(&seed).await.unwrap().len(), 1);
    assert_eq!(off(&password, &phone.next_code().await).await, "/dashboard/security?done");
    assert_eq!(service.secrets().partition(&seed).await.unwrap(), []);
    assert!(location(&owner.answer("/dashboard", &[]).await).starts_with("/dashboard/login"));
    let mut owner = Browser::owner(&service).await;
    // The next enrolment has another seed and other recovery codes.
    let second = Phone::enrol(&service, &mut owner).await;
    let begun = pending(&service).await;
    assert!(location(&send_code(&service, &begun, &phone.recovery[1]).await).contains("wrong_proof"));
    assert_eq!(location(&send_code(&service, &begun, &second.recovery[1]).await), "/dashboard/wallet");
    let audit = owner.page("/dashboard/audit").await;
    for action in ["Verificação em duas etapas ativada", "Verificação em duas etapas desativada"] {
        assert!(audit.contains(action), "{action}: {audit}");
    }
}

#[tokio::test]
async fn an_old_session_is_renewed_with_the_password_or_a_code_and_leads_back() {
    let service = Service::start().await;
    let keys = "/dashboard/developers/keys";
    let page = "/dashboard/developers";
    let asked = "/dashboard/confirm?next=%2Fdashboard%2Fdevelopers";
    let old = Browser::owner(&service).await.in_mode(Mode::Live);
    service.stack.clock.advance(601_000);
    let wrong = old.submit(asked, "Confirmar", &[("Senha", "wrong")]).await;
    assert_eq!(wrong, "/dashboard/confirm?error=wrong_proof&next=%2Fdashboard%2Fdevelopers");
    assert_eq!(old.submit(asked, "Confirmar", &[]).await, wrong);
    let password = service.stack.seed.first.password.clone();
    let fields = [("mode", "live"), ("next", page), ("password", password.as_str())];
    let renewed = old.post("/dashboard/confirm", &fields).await;
    assert_eq!(location(&renewed), page);
    assert!(
        location(&old.answer(page, &[]).await).starts_with("/dashboard/login"),
        "the old token has ended"
    );
    let browser = Browser::of(&service, &renewed).in_mode(Mode::Live);
    let key = [("mode", "live"), ("label", "x"), ("idempotency_key", "k-1")];
    assert_eq!(browser.post(keys, &key).await.status, 200);

    let mut test = Browser::of(&service, &renewed);
    let phone = Phone::enrol(&service, &mut test).await;
    let browser = test.in_mode(Mode::Live);
    service.stack.clock.advance(601_000);
    assert_eq!(browser.page(asked).await.form("Confirmar").names(Role::Field), [CODE]);
    assert_eq!(
        location(&browser.post("/dashboard/confirm", &fields).await),
        wrong,
        "the password is not enough"
    );
    let code = phone.code();
    let fields = [("mode", "live"), ("next", page), ("code", code.as_str())];
    let renewed = browser.post("/dashboard/confirm", &fields).await;
    assert_eq!(location(&renewed), page);
    let browser = Browser::of(&service, &renewed).in_mode(Mode::Live);
    let key = [("mode", "live"), ("label", "y"), ("idempotency_key", "k-2")];
    assert_eq!(browser.post(keys, &key).await.status, 200);
    // A second factor is turned on with a recent log-in, in test mode too.
    let member = Browser::member(&service).await;
    service.stack.clock.advance(601_000);
    let form = member.page(SECURITY).await.press("Mostrar o QR code", &[]);
    let asked = member.send(&form).await;
    assert_eq!(
        (asked.status.as_u16(), shown(&asked).form("Confirmar").names(Role::Field)),
        (401, vec!["Senha".to_owned()])
    );
}

/// Where a form leads whose sender must confirm who they are: the page that asks.
async fn asked(browser: &Browser<'_>, page: &str, button: &str, typed: &[(&str, &str)]) -> Page {
    let answer = browser.send(&browser.page(page).await.press(button, typed)).await;
    assert_eq!(answer.status, 401, "{answer:?}");
    shown(&answer)
}

#[tokio::test]
async fn a_form_goes_on_once_after_a_confirmation_and_waits_filled_in_after_a_log_in() {
    let service = Service::start().await;
    let page = "/dashboard/developers";
    let password = service.stack.seed.first.password.clone();
    let old = Browser::owner(&service).await.in_mode(Mode::Live);
    service.stack.clock.advance(601_000);
    let ask = asked(&old, page, "Emitir", &[("Nome", "Caixa <1>")]).await;
    assert!(ask.contains("a ação continua") && !old.page(page).await.contains("Caixa <1>"), "{ask}");
    let wrong = shown(&old.send(&ask.press("Confirmar", &[("Senha", "wrong")])).await);
    assert!(wrong.contains("A senha ou o código está errado"), "{wrong}");
    let confirmed = old.send(&wrong.press("Confirmar", &[("Senha", &password)])).await;
    let renewed = Browser::of(&service, &confirmed).in_mode(Mode::Live);
    let goes_on = shown(&confirmed).press("Continuar", &[]);
    assert_eq!(renewed.send(&goes_on).await.status, 200, "the key is shown");
    assert_eq!(location(&renewed.send(&goes_on).await), format!("{page}?error=idempotency_key_reused"));
    assert_eq!(renewed.page(page).await.count("Caixa <1>"), 1);

    // After the end of the session, only the same user gets the form back, and it waits for the button.
    let owner = Browser::owner(&service).await;
    let new = "/dashboard/charges/new";
    let typed = [("Valor (R$)", "129,90"), ("Descrição", "Conserto do relógio do \"Seu\" Antônio & filhos")];
    let form = owner.page(new).await.press("Criar", &typed);
    service.stack.clock.advance(13 * 60 * 60 * 1_000);
    let ended = owner.send(&form).await;
    let log_in = shown(&ended);
    assert_eq!(ended.status, 401, "{log_in}");
    assert!(log_in.contains("Sua sessão terminou") && log_in.contains("O que você digitou"), "{log_in}");
    let charges = service.list("/v1/charges").await.len();
    let (member_email, owner_email) =
        (service.stack.seed.member_email.clone(), service.stack.seed.first.owner_email.clone());
    let of_other = log_in.press("Entrar", &[("E-mail", &member_email), ("Senha", &password)]);
    assert_eq!(location(&owner.send(&of_other).await), new);
    let wrong =
        shown(&owner.send(&log_in.press("Entrar", &[("E-mail", &owner_email), ("Senha", "wrong")])).await);
    let back = owner.send(&wrong.press("Entrar", &[("E-mail", &owner_email), ("Senha", &password)])).await;
    let filled_in = shown(&back);
    assert_eq!(filled_in.get(Role::Field, "Descrição").value(), typed[1].1, "{filled_in}");
    assert_eq!(service.list("/v1/charges").await.len(), charges, "the form waits");
    let again = Browser::of(&service, &back);
    let created = again.send(&filled_in.press("Nova cobrança", &[("Valor", "130,00")])).await;
    assert!(location(&created).starts_with("/dashboard/charges/ch_"), "{created:?}");
    let newest = service.list("/v1/charges").await.remove(0);
    assert_eq!(newest["amount"], 13_000);
    assert_eq!(newest["metadata"]["description"], typed[1].1);
}

#[tokio::test]
async fn an_owner_demands_the_second_factor_and_a_member_sees_nothing_else_until_it_is_on() {
    let service = Service::start().await;
    let member = Browser::member(&service).await;
    let demand = [TEST, ("required", "1")];
    assert_eq!(member.post("/dashboard/security/demand", &demand).await.status, 403);
    assert!(
        member
            .page(SECURITY)
            .await
            .get(Role::Button, "Exigir de todos (precisa do proprietário)")
            .is_disabled()
    );
    let token = service.stack.member_token().await.unwrap();
    let bearer = [("authorization", &*format!("Bearer {token}"))];
    service.raw(Method::GET, "/v1/api-keys", &bearer, "").await.expect(200);

    let mut owner = Browser::owner(&service).await;
    assert_eq!(owner.page(SECURITY).await.count("esta sessão"), 1);
    Phone::enrol(&service, &mut owner).await;
    let demanded = owner.submit(SECURITY, "Exigir de todos", &[]).await;
    assert_eq!(demanded, "/dashboard/security?done");
    assert_eq!(owner.page("/dashboard/team").await.count("Verificação em duas etapas"), 1);
    for member in [member, Browser::member(&service).await] {
        for path in ["/dashboard", "/dashboard/charges", "/dashboard/team", "/dashboard/audit"] {
            assert_eq!(location(&member.answer(path, &[]).await), SECURITY, "{path}");
        }
        let charge = [TEST, ("amount", "10,00"), ("idempotency_key", "order-00001")];
        assert_eq!(location(&member.post("/dashboard/charges", &charge).await), SECURITY);
        assert_eq!(location(&member.post("/dashboard/security/demand", &[TEST]).await), SECURITY);
        let alert = member.page(SECURITY).await.names(Role::Alert).remove(0);
        assert!(alert.starts_with("O proprietário da conta exige a verificação em duas etapas."), "{alert}");
        assert_eq!(location(&member.post("/dashboard/logout", &[]).await), "/dashboard/login");
    }
    let refused = service.raw(Method::GET, "/v1/api-keys", &bearer, "").await;
    assert_eq!(refused.problem(), (403, "permission_error", "totp_enrolment_required"));

    let mut member = Browser::member(&service).await;
    Phone::enrol(&service, &mut member).await;
    member.page("/dashboard/charges").await;
    let ended = service.raw(Method::GET, "/v1/api-keys", &bearer, "").await;
    assert_eq!(ended.status, 401, "the second factor ends earlier tokens");
    let audit = owner.page("/dashboard/audit").await;
    assert!(audit.row("Exigência da verificação em duas etapas").contains("owner@loja.example"), "{audit}");
    let no_longer = owner.submit(SECURITY, "Não exigir mais", &[]).await;
    assert_eq!(no_longer, "/dashboard/security?done");
    assert!(owner.page(SECURITY).await.contains("Cada membro decide"));
}

#[tokio::test]
async fn a_new_password_and_the_end_of_all_sessions_end_earlier_tokens() {
    let service = Service::start().await;
    let (browser, other) = (Browser::owner(&service).await, Browser::owner(&service).await);
    let password = service.stack.seed.first.password.clone();
    let change = async |old: &str, new: &str| {
        browser.post("/dashboard/security/password", &[TEST, ("old", old), ("new", new)]).await
    };
    assert_eq!(location(&change("wrong", "a new pass phrase").await), WRONG);
    let short = "/dashboard/security?error=weak_password";
    assert_eq!(location(&change(&password, "too short").await), short);
    let changed = change(&password, "a new pass phrase").await;
    assert_eq!(location(&changed), "/dashboard/security?done");
    for ended in [&browser, &other] {
        assert!(location(&ended.answer("/dashboard", &[]).await).starts_with("/dashboard/login"));
    }
    assert_eq!(api_log_in(&service, None).await.status, 401, "the old password");
    let browser = Browser::of(&service, &changed);
    let email = service.stack.seed.first.owner_email.as_str();
    let second = Browser::of(&service, &service.log_in(email, "a new pass phrase").await);
    second.page("/dashboard").await;
    assert_eq!(browser.submit(SECURITY, "Encerrar todas as sessões", &[]).await, "/dashboard/login");
    for ended in [&browser, &second] {
        assert!(location(&ended.answer("/dashboard", &[]).await).starts_with("/dashboard/login"));
    }
    let again = Browser::of(&service, &service.log_in(email, "a new pass phrase").await);
    let rows = service.store().partition(&format!("audit#{}", service.scope().account)).await.unwrap();
    for (action, word) in
        [("user.reset-password", "Senha trocada"), ("user.end-sessions", "Sessões encerradas")]
    {
        let row = rows.iter().find(|row| row["action"].as_s().unwrap() == action).unwrap();
        assert_eq!(row["source"].as_s().unwrap(), "127.0.0.1", "{action}");
        assert!(again.page("/dashboard/audit").await.contains(word));
    }
}

#[tokio::test]
async fn a_user_sees_and_ends_own_sessions_one_by_one() {
    let service = Service::start().await;
    let owner = Browser::owner(&service).await;
    let seed = &service.stack.seed.first;
    let fields = [("email", seed.owner_email.as_str()), ("password", seed.password.as_str())];
    let agent = "Mozilla/5.0 (X11; Linux x86_64; rv:146.0) Gecko/20100101 <Firefox/146.0>";
    let headers = [FORM, SAME_ORIGIN, ("user-agent", agent)];
    let sent = service.raw(Method::POST, "/dashboard/login", &headers, encoded(&fields)).await;
    let other = Browser::of(&service, &sent);
    let token = api_log_in(&service, None).await.expect(200)["token"].as_str().unwrap().to_owned();
    let member = Browser::member(&service).await;

    let page = owner.page(SECURITY).await;
    assert_eq!(page.count("esta sessão"), 1);
    let devices = page.get(Role::Table, "Sessões abertas").column("Navegador");
    let devices: Vec<String> = devices.iter().map(Page::text).collect();
    for device in ["Firefox · Linux", "API"] {
        assert!(devices.iter().any(|shown| shown == device), "{devices:?}");
    }
    assert!(page.contains("127.0.0.1") && !page.source().contains("<Firefox"), "{page}");
    let ends = ends_of(&page);
    assert_eq!(ends.len(), 2, "{page}");
    let form = [TEST, ("idempotency_key", "a")];
    for end in &ends {
        assert_eq!(member.post(end, &form).await.status, 404, "another user's session");
    }
    other.page("/dashboard").await;
    // Log-ins and log-outs of a program, or of a thief, hide no session.
    for _ in 0..20 {
        let token = api_log_in(&service, None).await.expect(200)["token"].as_str().unwrap().to_owned();
        let bearer = [("authorization", &*format!("Bearer {token}"))];
        assert_eq!(service.raw(Method::POST, "/v1/auth/logout", &bearer, "").await.status, 204);
    }
    assert_eq!(ends_of(&owner.page(SECURITY).await), ends);
    for end in [&ends[0], &ends[1], &ends[1]] {
        assert_eq!(location(&owner.post(end, &form).await), "/dashboard/security?done");
    }
    // No id in a path is too long for an answer: DynamoDB has no sort key of more than 1,024 bytes.
    for length in [44, 200, 1_100, 3_000] {
        let id = "a".repeat(length);
        for form_of in [
            "security/sessions/{}/end",
            "developers/keys/{}/rotate",
            "developers/keys/{}/revoke",
            "team/{}/remove",
        ] {
            let path = format!("/dashboard/{}", form_of.replace("{}", &id));
            let refused = owner.post(&path, &form).await;
            assert!(
                refused.status == 404 || location(&refused).starts_with("/dashboard/team?error="),
                "{form_of}: {refused:?}"
            );
        }
    }
    assert!(location(&other.answer("/dashboard", &[]).await).starts_with("/dashboard/login"));
    let bearer = [("authorization", &*format!("Bearer {token}"))];
    assert_eq!(service.raw(Method::GET, "/v1/api-keys", &bearer, "").await.status, 401);
    let page = owner.page(SECURITY).await;
    assert!(page.contains("esta sessão") && ends_of(&page).is_empty(), "{page}");
    assert_eq!(member.page(SECURITY).await.count("esta sessão"), 1);
}

/// The paths of the forms that end single sessions.
fn ends_of(page: &Page) -> Vec<String> {
    let rows = page.all(Role::Row).into_iter().filter(|row| row.has(Role::Button, "Encerrar"));
    rows.map(|row| row.press("Encerrar", &[]).action).collect()
}

#[tokio::test]
async fn a_suspended_account_takes_access_away_and_gives_none() {
    let service = Service::start().await;
    let (owner, api) = (Browser::owner(&service).await, DashboardUser::owner(&service).await);
    let issued = api.send(Method::POST, "/v1/api-keys", &json!({"test": false})).await.expect(201);
    let (key, member) = (id(&issued), UserId::from_email(&service.stack.seed.member_email));
    service.change_settings(|settings| settings.suspended = true).await;

    let suspended = (403, "permission_error", "account_suspended");
    let live_key = json!({"test": false});
    assert_eq!(api.send(Method::POST, "/v1/api-keys", &live_key).await.problem(), suspended);
    let live = owner.in_mode(Mode::Live);
    let mut number = 0;
    let mut post = async |path: &str, more: &[(&str, &str)]| {
        number += 1;
        let form_key = number.to_string();
        let fields = [&[("mode", "live"), ("idempotency_key", &*form_key)], more].concat();
        live.post(path, &fields).await
    };
    for refused in [
        "/dashboard/developers/keys",
        "/dashboard/team/invites",
        "/dashboard/webhooks",
        "/dashboard/settings",
    ] {
        let more = [("email", "rui@loja.example"), ("role", "OWNER"), ("url", "https://loja.example/")];
        let answer = post(refused, &more).await;
        assert_eq!(answer.status, 403, "{refused}");
        assert!(shown(&answer).contains("A conta está suspensa"), "{refused}");
    }
    let rotated = post(&format!("/dashboard/developers/keys/{key}/rotate"), &[]).await;
    assert!(shown_secret(&rotated).starts_with("ak_live_"));
    let by_api = api.send(Method::POST, "/v1/api-keys", &json!({"test": true})).await.expect(201);
    let path = format!("/v1/api-keys/{}/rotate", id(&by_api));
    let by_api = api.send(Method::POST, &path, &json!({})).await.expect(201);
    api.send(Method::DELETE, &format!("/v1/api-keys/{}", id(&by_api)), &json!({})).await.expect(200);
    for row in &live.page("/dashboard/developers").await.get(Role::Table, "Chaves da API").all(Role::Row)[1..]
    {
        let path = row.press("Revogar", &[]).action;
        assert_eq!(location(&post(&path, &[]).await), "/dashboard/developers?done");
    }
    let path = format!("/dashboard/team/{member}/remove");
    assert_eq!(location(&post(&path, &[]).await), "/dashboard/team?done");
    assert_eq!(post("/dashboard/security/totp", &[]).await.status, 200);
    let end = ends_of(&live.page(SECURITY).await).remove(0);
    assert_eq!(location(&post(&end, &[]).await), "/dashboard/security?done");
    let password = service.stack.seed.first.password.clone();
    let new = [("old", &*password), ("new", "a new and long password")];
    let changed = post("/dashboard/security/password", &new).await;
    assert_eq!(location(&changed), "/dashboard/security?done");
    let renewed = Browser::of(&service, &changed);
    assert_eq!(renewed.submit(SECURITY, "Encerrar todas as sessões", &[]).await, "/dashboard/login");
}
