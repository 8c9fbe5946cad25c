//! Tests of users at the dashboard: invites, roles, removal, a new password, and the language.

use axum::http::Method;
use domain::ids::{Mode, UserId};
use domain::time::Timestamp;
use screen_reader::{Page, Role as Part};
use serde_json::json;
use shared::account::{MAX_INVITES, Role, TokenGeneration, User, UserChange, Users};
use tokio::join;

use crate::dashboard::{Browser, cookie, location, post, shown};
use crate::emails::MailDirectory;
use crate::support::{Answer, Service, operator, wait_until};

const TEAM: &str = "/dashboard/team";
const DONE: &str = "/dashboard/team?done";
const PASSWORD: &str = "uma frase bem longa";
const BIA: &str = "bia@loja.example";

/// The path of the link in a mail.
fn link(text: &str) -> String {
    let start = text.find("/dashboard/").unwrap_or_else(|| panic!("no link: {text}"));
    text[start..].split_whitespace().next().unwrap().to_owned()
}

impl Browser<'_> {
    async fn invite(&self, email: &str, role: &str) -> String {
        let fields = [("mode", "test"), ("email", email), ("role", role)];
        location(&self.post("/dashboard/team/invites", &fields).await).to_owned()
    }

    /// The words of a form that is shown again with the address.
    async fn refused_invite(&self, email: &str) -> Page {
        let fields = [("mode", "test"), ("email", email), ("role", "ADMIN")];
        let refused = self.post("/dashboard/team/invites", &fields).await;
        assert_eq!((refused.status.as_u16(), refused.header("location")), (422, None));
        let page = shown(&refused);
        let [typed, role] = ["E-mail", "Função"].map(|label| page.get(Part::Field, label).value());
        assert_eq!((typed.as_str(), role.as_str()), (email, "ADMIN"));
        page
    }

    async fn change(&self, email: &str, action: &str, role: &str) -> Answer {
        let path = format!("{TEAM}/{}/{action}", UserId::from_email(email));
        let key = format!("{:?}", shared::random::bytes::<16>().unwrap());
        let key = key.replace(|c: char| !c.is_ascii_digit(), "");
        self.post(&path, &[("mode", "test"), ("role", role), ("idempotency_key", &key)]).await
    }
}

impl Service {
    /// Sends the form of a link without a session.
    async fn send_password(&self, link: &str, password: &str) -> Answer {
        post(self, link, "", &[("password", password)]).await
    }

    async fn status_of_link(&self, link: &str) -> u16 {
        self.raw(Method::GET, link, &[], "").await.status.as_u16()
    }

    /// Neither the page nor the form of the link is of use.
    async fn assert_unusable(&self, link: &str) {
        assert_eq!(self.status_of_link(link).await, 404);
        let sent = self.send_password(link, PASSWORD).await;
        assert_eq!(location(&sent), format!("{link}?error=link_invalid"));
        let page = shown(&self.raw(Method::GET, location(&sent), &[], "").await);
        assert!(page.contains("Este link não vale mais"), "{page}");
    }

    async fn user(&self, email: &str) -> Option<User> {
        Users::new(self.store()).find(&UserId::from_email(email)).await.unwrap()
    }

    async fn request_reset(&self, email: &str) -> Answer {
        post(self, "/dashboard/reset", "", &[("email", email)]).await
    }

    /// The windows of the limits begin at the full quarters of an hour.
    pub(crate) async fn begin_window(&self) {
        self.advance_seconds(900 - self.stack.clock.now().seconds() % 900).await;
    }
}

#[tokio::test]
async fn an_invited_person_sets_a_password_and_acts_at_once() {
    let mails = MailDirectory::new();
    let service = Service::start_with(mails.options()).await;
    let owner = Browser::owner(&service).await;
    let typed = [("E-mail", "Bia@Loja.example"), ("Função", "Administrador")];
    assert_eq!(owner.submit(TEAM, "Convidar", &typed).await, DONE);
    let page = owner.page(TEAM).await;
    assert!(page.contains(BIA) && page.contains("Convites em aberto"), "{page}");

    let mail = mails.received(1).await.remove(0);
    assert_eq!((mail.to.as_str(), mail.subject.as_str()), (BIA, "Convite para o painel de Loja Exemplo"));
    let link = link(&mail.text);
    let token = link.rsplit('/').next().unwrap();
    assert!(!page.source().contains(token), "the link is only in the mail");
    for _ in 0..2 {
        let form = shown(&service.raw(Method::GET, &link, &[], "").await);
        assert!(
            form.contains("Loja Exemplo") && form.contains("Administrador") && form.contains(BIA),
            "{form}"
        );
    }
    let weak = service.send_password(&link, "elevenchars").await;
    assert_eq!(location(&weak), format!("{link}?error=weak_password"));
    assert!(service.user(BIA).await.is_none());

    let accepted = service.send_password(&link, PASSWORD).await;
    assert_eq!(location(&accepted), "/dashboard");
    let bia = Browser::of(&service, &accepted).in_mode(Mode::Live);
    let key = [("mode", "live"), ("label", "x"), ("idempotency_key", "k-1")];
    let issued = bia.post("/dashboard/developers/keys", &key).await;
    assert_eq!(issued.status, 200, "the log-in is recent: {issued:?}");
    assert_eq!(location(&service.log_in(BIA, PASSWORD).await), "/dashboard");
    // The link was used.
    service.assert_unusable(&link).await;
    let page = owner.page(TEAM).await;
    assert!(page.contains(BIA) && !page.contains("Convites em aberto"), "{page}");

    let (rows, _) = shared::audit::page(&service.store(), &service.scope().account, None).await.unwrap();
    let by = |action: &str| {
        let row = rows.iter().find(|row| row.action.name() == action).unwrap();
        assert!(
            !row.source.is_unknown()
                && row.action.details() == Some(json!({"email": "bia@loja.example", "role": "ADMIN"}))
        );
        row.actor.clone()
    };
    let id = |email: &str| UserId::from_email(email).to_string();
    assert_eq!(by("user.invite"), id(&service.stack.seed.first.owner_email));
    assert_eq!(by("user.add"), id(BIA));
}

#[tokio::test]
async fn a_withdrawn_replaced_or_expired_invite_is_not_valid() {
    let mails = MailDirectory::new();
    let service = Service::start_with(mails.options()).await;
    let owner = Browser::owner(&service).await;
    // A form that is sent twice invites once.
    for _ in 0..2 {
        assert_eq!(owner.invite(BIA, "MEMBER").await, DONE);
    }
    let first = link(&mails.received(1).await[0].text);
    service.advance_seconds(61).await;
    assert_eq!(owner.invite(BIA, "MEMBER").await, DONE);
    let second = link(&mails.received(2).await[1].text);
    assert_eq!((service.status_of_link(&first).await, service.status_of_link(&second).await), (404, 200));

    let page = owner.page(TEAM).await;
    let withdrawn = owner.send(&page.press("Retirar", &[])).await;
    assert_eq!(location(&withdrawn), DONE);
    service.assert_unusable(&second).await;

    assert_eq!(owner.invite(BIA, "MEMBER").await, DONE);
    let third = link(&mails.received(3).await[2].text);
    service.advance_seconds(72 * 3_600 - 60).await;
    assert_eq!(service.status_of_link(&third).await, 200);
    service.advance_seconds(60).await;
    service.assert_unusable(&third).await;
    assert!(service.user(BIA).await.is_none());
    assert_eq!(service.status_of_link("/dashboard/invite/x").await, 404);
}

#[tokio::test]
async fn only_the_invited_person_learns_that_an_address_has_a_user_elsewhere() {
    let mails = MailDirectory::new();
    let service = Service::start_with(mails.options()).await;
    let owner = Browser::owner(&service).await;
    let seed = &service.stack.seed;
    assert_eq!(owner.invite(&seed.other.owner_email, "ADMIN").await, DONE);
    let link = link(&mails.received(1).await[0].text);
    let taken = service.send_password(&link, PASSWORD).await;
    assert_eq!(location(&taken), format!("{link}?error=email_taken"));
    assert_eq!(service.user(&seed.other.owner_email).await.unwrap().account, seed.other.id);
    let member = seed.member_email.to_uppercase();
    assert!(owner.refused_invite(&member).await.contains("Este endereço já tem um usuário."));
    assert!(owner.refused_invite("no address").await.contains("O endereço de e-mail não é válido."));
    let unknown =
        owner.post("/dashboard/team/invites", &[("mode", "test"), ("email", BIA), ("role", "ROOT")]);
    assert_eq!(unknown.await.status, 400);

    // An account keeps an owner.
    let (first, second) =
        (service.stack.seed.first.owner_email.clone(), service.stack.seed.member_email.clone());
    for (action, role) in [("role", "ADMIN"), ("remove", "")] {
        let refused = owner.change(&first, action, role).await;
        assert_eq!(location(&refused), format!("{TEAM}?error=last_owner"));
    }
    assert_eq!(location(&owner.change(&first, "role", "OWNER").await), DONE);
    assert_eq!(location(&owner.change(&second, "role", "OWNER").await), DONE);
    let other = Browser::member(&service).await;
    // Each demotes the other at the same time.
    let (one, two) = join!(owner.change(&second, "role", "ADMIN"), other.change(&first, "role", "ADMIN"));
    let mut roles = Vec::new();
    for email in [&first, &second] {
        roles.push(service.user(email).await.unwrap().role);
    }
    assert_eq!(roles.iter().filter(|role| **role == Role::Owner).count(), 1, "{one:?} {two:?}");
}

#[tokio::test]
async fn an_account_has_20_open_invites_and_50_in_a_day() {
    let service = Service::start().await;
    service.advance_seconds(86_400 - service.stack.clock.now().seconds() % 86_400).await;
    let owner = Browser::owner(&service).await;
    for number in 0..MAX_INVITES {
        assert_eq!(owner.invite(&format!("{number}@loja.example"), "MEMBER").await, DONE);
    }
    for _ in 20..50 {
        assert!(owner.refused_invite(BIA).await.contains("Há convites demais em aberto."));
    }
    let fields = [("mode", "test"), ("email", BIA), ("role", "MEMBER")];
    assert_eq!(owner.post("/dashboard/team/invites", &fields).await.status, 429);
    service.advance_seconds(86_400 * 3).await;
    let owner = Browser::owner(&service).await;
    assert_eq!(owner.invite(BIA, "MEMBER").await, DONE);
}

#[tokio::test]
async fn a_role_counts_from_the_next_request_and_a_removal_ends_the_sessions() {
    let service = Service::start().await;
    let owner = Browser::owner(&service).await;
    let member = Browser::member(&service).await;
    let email = service.stack.seed.member_email.clone();
    let key = [("mode", "test"), ("label", "x"), ("idempotency_key", "k-1")];
    assert_eq!(member.post("/dashboard/developers/keys", &key).await.status, 403);
    let own_row = owner.page(TEAM).await.row(&email);
    let changed = owner.send(&own_row.press("Mudar função", &[("Função", "Administrador")])).await;
    assert_eq!(location(&changed), DONE);
    assert_eq!(member.post("/dashboard/developers/keys", &key).await.status, 200);
    let removed = owner.send(&owner.page(TEAM).await.row(&email).press("Remover", &[])).await;
    assert_eq!(location(&removed), DONE);
    assert_eq!(location(&member.answer("/dashboard", &[]).await), "/dashboard/login?next=%2Fdashboard");
    let gone = service.log_in(&email, &service.stack.seed.first.password).await;
    assert_eq!(gone.status, 401);
    assert_eq!(owner.change(&email, "role", "OWNER").await.status, 404);
    assert_eq!(owner.change(&service.stack.seed.other.owner_email, "remove", "").await.status, 404);
    let page = owner.page("/dashboard/audit").await;
    for said in ["Função alterada", "Membro → Administrador", "Membro removido", "era Administrador"] {
        assert!(page.contains(said), "{said}: {page}");
    }
    assert!(page.row("Membro removido").contains(&email), "rows keep the address: {page}");
}

#[tokio::test]
async fn an_invite_ends_with_the_right_of_the_owner_who_sent_it() {
    let mails = MailDirectory::new();
    let service = Service::start_with(mails.options()).await;
    let owner = Browser::owner(&service).await;
    let sender = service.stack.seed.member_email.clone();
    let mut links = Vec::new();
    for (action, role) in [("role", "ADMIN"), ("remove", "")] {
        assert_eq!(location(&owner.change(&sender, "role", "OWNER").await), DONE);
        assert_eq!(Browser::member(&service).await.invite(BIA, "OWNER").await, DONE);
        let page = owner.page(TEAM).await;
        assert!(page.contains("Convidado por") && page.count(&sender) == 2, "{page}");
        let mail = mails.received(links.len() + 1).await.pop().unwrap();
        links.push(link(&mail.text));
        assert_eq!(service.status_of_link(links.last().unwrap()).await, 200);
        assert_eq!(location(&owner.change(&sender, action, role).await), DONE);
        service.assert_unusable(links.last().unwrap()).await;
        assert!(!owner.page(TEAM).await.contains("Convites em aberto"));
    }
    // Neither link is valid again after the sender has become an owner again.
    let first = &service.stack.seed.first;
    let (now, generation) = (service.stack.clock.now(), TokenGeneration::new([7; 8]));
    let hash = service.user(&first.owner_email).await.unwrap().password_hash;
    let again = User::new(&sender, hash, first.id, Role::Owner, generation, now);
    Users::new(service.store()).add(&again, &operator(), now).await.unwrap();
    for link in &links {
        service.assert_unusable(link).await;
    }
    assert!(service.user(BIA).await.is_none());
}

#[tokio::test]
async fn a_link_for_a_new_password_ends_with_another_password_and_with_the_user() {
    let mails = MailDirectory::new();
    let service = Service::start_with(mails.options()).await;
    let (owner, member) = (Browser::owner(&service).await, Browser::member(&service).await);
    let (email, password) = (&service.stack.seed.member_email, &service.stack.seed.first.password);
    service.request_reset(email).await;
    let first = link(&mails.received(1).await[0].text);
    assert_eq!(service.status_of_link(&first).await, 200);
    let change = [("mode", "test"), ("old", password.as_str()), ("new", PASSWORD)];
    let changed = member.post("/dashboard/security/password", &change).await;
    assert_eq!(location(&changed), "/dashboard/security?done");
    service.assert_unusable(&first).await;

    service.request_reset(email).await;
    let second = link(&mails.received(2).await[1].text);
    assert_eq!(location(&owner.change(email, "remove", "").await), DONE);
    service.assert_unusable(&second).await;
    assert_eq!(owner.invite(email, "MEMBER").await, DONE);
    let invite = link(&mails.received(3).await[2].text);
    assert_eq!(
        location(&service.send_password(&invite, email).await),
        format!("{invite}?error=weak_password")
    );
    assert_eq!(location(&service.send_password(&invite, PASSWORD).await), "/dashboard");
    service.assert_unusable(&second).await;
}

#[tokio::test]
async fn changes_of_access_of_a_minute_are_mailed_in_one_mail_to_owners_and_to_the_user_concerned() {
    let mails = MailDirectory::new();
    let service = Service::start_with(mails.options()).await;
    let seed = &service.stack.seed;
    let (owner, member) = (seed.first.owner_email.as_str(), seed.member_email.as_str());
    service.begin_minute().await;
    let browser = Browser::owner(&service).await;
    let live = Browser::owner(&service).await.in_mode(Mode::Live);
    for key in ["k-1", "k-2"] {
        let issue = [("mode", "live"), ("label", "x"), ("idempotency_key", key)];
        assert_eq!(live.post("/dashboard/developers/keys", &issue).await.status, 200);
    }
    let endpoint = json!({"url": "https://shop.example.com/hook?token=s3cret", "events": ["charge.paid"]});
    service.live_client().post("/v1/webhooks/endpoints", &endpoint).await.expect(201);
    service.register_endpoint("https://test.example.com/hook", &["charge.paid"]).await;
    assert_eq!(location(&browser.change(member, "role", "ADMIN").await), DONE);
    let factor = UserChange::SecondFactorOff(TokenGeneration::new([7; 8]));
    let (users, id) = (Users::new(service.store()), UserId::from_email(member));
    users.change((&seed.first.id, id), &factor, &operator().into(), service.stack.clock.now()).await.unwrap();
    // The row of an endpoint is derived from the stream.
    wait_until("the audit row of the endpoint", async || {
        let rows = shared::audit::since(&service.store(), &seed.first.id, Timestamp::MIN).await.unwrap();
        rows.iter().filter(|row| row.action.name() == "webhook-endpoint.register").count() == 2
    })
    .await;
    assert!(mails.all().is_empty());
    service.advance_seconds(160).await;
    let mut sent = mails.received(2).await;
    sent.sort_by_key(|mail| mail.to == owner);
    let [to_member, to_owner] = sent.as_slice() else { panic!("{sent:?}") };
    assert_eq!((to_member.to.as_str(), to_owner.to.as_str()), (member, owner));
    assert_eq!(to_owner.subject, "Mudança de acesso: Loja Exemplo");
    let text = &to_owner.text;
    assert_eq!(text.matches("nova chave de API de produção, ak_live_").count(), 2, "{text}");
    assert!(text.contains(&format!("novo administrador: {member}, por {owner} (127.0.0.1)")), "{text}");
    assert!(text.contains("webhooks de produção: https://shop.example.com, por key_"), "{text}");
    assert_eq!(text.matches("\n- ").count(), 4, "{text}");
    assert!(!text.contains("s3cret") && !text.contains("test.example.com"), "{text}");
    let own = "a sua verificação em duas etapas foi desativada, pela equipe do serviço";
    assert!(to_member.text.contains(own) && to_member.text.matches("\n- ").count() == 1, "{to_member:?}");
    assert!(live.page("/dashboard/notices").await.contains("Mudança de acesso"));

    // An owner who is removed is mailed too. A later change has a mail of its own.
    assert_eq!(location(&browser.change(member, "role", "OWNER").await), DONE);
    service.advance_seconds(160).await;
    mails.received(4).await;
    assert_eq!(location(&Browser::member(&service).await.change(owner, "remove", "").await), DONE);
    service.advance_seconds(160).await;
    let last = mails.received(6).await.split_off(4);
    for mail in &last {
        assert!(
            mail.text.contains(&format!("deixou de ser proprietário: {owner}, por {member}")),
            "{mail:?}"
        );
    }
    assert_ne!(last[0].to, last[1].to);
}

#[tokio::test]
async fn a_new_password_is_set_by_a_link_in_a_mail() {
    let mails = MailDirectory::new();
    let service = Service::start_with(mails.options()).await;
    service.begin_window().await;
    let email = service.stack.seed.member_email.clone();
    let browser = Browser::member(&service).await;
    let log_in = shown(&service.raw(Method::GET, "/dashboard/login", &[], "").await);
    assert_eq!(log_in.links_to("/dashboard/reset").len(), 1);
    let (known, unknown) =
        (service.request_reset(&email).await, service.request_reset("nobody@loja.example").await);
    assert_eq!(location(&known), "/dashboard/reset?done");
    assert_eq!((known.status, &known.bytes), (unknown.status, &unknown.bytes));
    assert_eq!(known.header("location"), unknown.header("location"));

    let mail = mails.received(1).await.remove(0);
    assert_eq!((&mail.to, mail.subject.as_str()), (&email, "Nova senha do painel"));
    let first = link(&mail.text);
    let form = service.raw(Method::GET, &first, &[], "").await;
    assert!(form.status == 200 && !shown(&form).source().contains(&email), "{form:?}");
    assert_eq!(
        location(&service.send_password(&first, "short").await),
        format!("{first}?error=weak_password")
    );
    let set = service.send_password(&first, PASSWORD).await;
    assert_eq!((location(&set), set.header("set-cookie")), ("/dashboard/login?done", None));
    assert!(shown(&service.raw(Method::GET, location(&set), &[], "").await).contains("A senha foi trocada"));
    assert_eq!(location(&browser.answer("/dashboard", &[]).await), "/dashboard/login?next=%2Fdashboard");
    let old = service.log_in(&email, &service.stack.seed.first.password).await;
    assert_eq!(old.status, 401);
    assert_eq!(location(&service.log_in(&email, PASSWORD).await), "/dashboard");
    // The link was used.
    service.assert_unusable(&first).await;
    service.advance_seconds(160).await;
    let notice = mails.received(2).await.remove(1);
    assert!(notice.to == email && notice.text.contains("a sua senha foi trocada"), "{notice:?}");

    service.request_reset(&email.to_uppercase()).await;
    let second = link(&mails.received(3).await[2].text);
    service.advance_seconds(30 * 60).await;
    service.assert_unusable(&second).await;
    assert_eq!(mails.all().len(), 3, "the unknown address got none");
    let (rows, _) = shared::audit::page(&service.store(), &service.scope().account, None).await.unwrap();
    let reset = rows.iter().find(|row| row.action.name() == "user.reset-password").unwrap();
    assert_eq!(reset.actor, UserId::from_email(&email).to_string());
}

#[tokio::test]
async fn links_for_a_new_password_are_limited_by_address_and_by_network() {
    let service = Service::without_event_sources().await;
    service.begin_window().await;
    for email in [service.stack.seed.first.owner_email.as_str(), "nobody@loja.example"] {
        for _ in 0..3 {
            assert_eq!(location(&service.request_reset(email).await), "/dashboard/reset?done");
        }
        // A stranger may have used up the links of an address, so its user is answered as before.
        assert_eq!(location(&service.request_reset(email).await), "/dashboard/reset?done");
        assert_eq!(service.take_queued_emails().await.len(), 3, "{email}");
    }
    for number in 8..30 {
        let answer = service.request_reset(&format!("{number}@loja.example")).await;
        assert_eq!(location(&answer), "/dashboard/reset?done", "{number}");
    }
    let refused = service.request_reset("30@loja.example").await;
    assert!(refused.status == 429 && shown(&refused).contains("Requisições demais."), "{refused:?}");
    // It is no failed log-in.
    assert_eq!(
        location(
            &service.log_in(&service.stack.seed.first.owner_email, &service.stack.seed.first.password).await
        ),
        "/dashboard"
    );
    service.begin_window().await;
    assert_eq!(location(&service.request_reset("30@loja.example").await), "/dashboard/reset?done");
}

#[tokio::test]
async fn a_user_finds_the_chosen_language_in_another_browser_and_in_mails() {
    let mails = MailDirectory::new();
    let service = Service::start_with(mails.options()).await;
    let email = service.stack.seed.member_email.clone();
    let member = Browser::member(&service).await;
    let accepts_spanish = [("accept-language", "es")];
    assert_eq!(shown(&member.answer("/dashboard", &accepts_spanish).await).language(), "es");
    let chosen = member.submit("/dashboard/wallet", "Trocar idioma", &[("Idioma", "English")]).await;
    assert_eq!(chosen, "/dashboard/wallet");
    assert_eq!(service.user(&email).await.unwrap().language.map(shared::language::Language::tag), Some("en"));

    let entered = service.log_in(&email, &service.stack.seed.first.password).await;
    let cookies: Vec<_> =
        entered.headers.get_all("set-cookie").iter().map(|value| value.to_str().unwrap()).collect();
    let cookies: Vec<_> = cookies.iter().map(|cookie| cookie.split(';').next().unwrap()).collect();
    let elsewhere = Browser::with_cookies(&service, cookies.join("; "));
    assert_eq!(shown(&elsewhere.answer("/dashboard", &accepts_spanish).await).language(), "en");
    // Another user of the account has chosen nothing.
    let owner =
        service.log_in(&service.stack.seed.first.owner_email, &service.stack.seed.first.password).await;
    let names: Vec<_> =
        owner.headers.get_all("set-cookie").iter().map(|value| value.to_str().unwrap()).collect();
    let names: Vec<_> = names.iter().map(|cookie| cookie.split('=').next().unwrap()).collect();
    assert_eq!(names, ["local-session", "local-browser"]);
    service.request_reset(&email).await;
    assert_eq!(mails.received(1).await[0].subject, "New password for the dashboard");
    // Without a session only the browser keeps the choice.
    let stranger = post(&service, "/dashboard/language", "", &[("language", "es")]).await;
    assert!(cookie(&stranger).contains("local-language=es"));
}
