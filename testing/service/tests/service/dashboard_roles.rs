//! Who may send which form of the dashboard, in which mode and after which log-in, and whom the pages show it.

use std::collections::BTreeSet;

use bank::PayRequest;
use domain::ids::Mode;
use money::med::MedCases;
use screen_reader::{Page, Role as Part, Sent};
use serde_json::json;
use shared::account::Role;

use crate::api_keys::change_user;
use crate::brand::{png, upload};
use crate::dashboard::{Browser, post, text};
use crate::description::form_routes;
use crate::live_charges::Live;
use crate::support::{Answer, Client, Service, eventually, id};

/// The least role.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Least {
    Viewer,
    Member,
    Admin,
    Owner,
    Nobody,
}

/// When the log-in must be at most ten minutes old.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Recent {
    Never,
    Live,
    Always,
}

/// The page that has the form.
#[derive(Clone, Copy, Debug)]
enum Shown {
    /// Who may not send it sees it disabled, with the role that it needs.
    On(&'static str),
    /// It does not exist in the other mode.
    OnlyTo(&'static str),
    /// It follows another form, or needs a file or a second factor.
    Elsewhere,
}

use Least::{Admin, Member, Nobody, Owner, Viewer};
use Recent::{Always, Live as InLive, Never};
use Shown::{Elsewhere, On, OnlyTo};

type Row = (&'static str, [Least; 2], Recent, Shown, &'static [(&'static str, &'static str)]);

const NEW: &str = "/dashboard/charges/new";
const OPEN: &str = "/dashboard/charges/{open}";
const PAID: &str = "/dashboard/charges/{paid}";
const CASE: &str = "/dashboard/disputes/{case}";
const ENDPOINTS: &str = "/dashboard/webhooks";
const ENDPOINT: &str = "/dashboard/webhooks/{endpoint}";
const DELIVERY: &str = "/dashboard/deliveries/{delivery}";
const REPORTS: &str = "/dashboard/reports";
const WALLET: &str = "/dashboard/wallet";
const LINKS: &str = "/dashboard/links";
const KEYS: &str = "/dashboard/developers";
const TEAM: &str = "/dashboard/team";
const SETTINGS: &str = "/dashboard/settings";
const LOGO: &str = "/dashboard/settings/logo";
const SECURITY: &str = "/dashboard/security";
const SESSIONS: &str = "/dashboard/security/sessions";

/// Path, least role in test and in live mode, log-in, page, and fields that change nothing where the form is accepted.
#[rustfmt::skip]
const FORMS: &[Row] = &[
    ("/dashboard/charges", [Member, Member], Never, On(NEW), &[]),
    ("/dashboard/charges/{id}/simulate", [Member, Nobody], Never, OnlyTo(OPEN), &[("outcome", "paid")]),
    ("/dashboard/charges/{id}/cancel", [Member, Admin], InLive, On(OPEN), &[]),
    ("/dashboard/charges/{id}/refund", [Member, Admin], InLive, On(PAID), &[("amount", "x")]),
    ("/dashboard/charges/{id}/document", [Member, Admin], InLive, On(PAID), &[]),
    ("/dashboard/disputes/{id}/appeal", [Member, Admin], InLive, On(CASE), &[("reason", "x")]),
    ("/dashboard/disputes/{id}/accept", [Member, Admin], InLive, On(CASE), &[("amount", "0,01")]),
    ("/dashboard/disputes/{id}/evidence", [Member, Admin], Never, Elsewhere, &[]),
    ("/dashboard/disputes/{id}/evidence/{file}/complete", [Member, Admin], Never, Elsewhere, &[]),
    ("/dashboard/disputes/{id}/evidence/{file}/remove", [Member, Admin], Never, Elsewhere, &[]),
    ("/dashboard/webhooks", [Member, Admin], InLive, On(ENDPOINTS), &[("url", "x")]),
    ("/dashboard/webhooks/{id}/change", [Member, Admin], InLive, On(ENDPOINT), &[]),
    ("/dashboard/webhooks/{id}/status", [Member, Admin], InLive, On(ENDPOINT), &[]),
    ("/dashboard/webhooks/{id}/test", [Member, Admin], InLive, On(ENDPOINT), &[]),
    ("/dashboard/webhooks/{id}/rotate", [Member, Admin], InLive, On(ENDPOINT), &[]),
    ("/dashboard/webhooks/{id}/delete", [Member, Admin], InLive, On(ENDPOINT), &[]),
    ("/dashboard/webhooks/{id}/recover", [Member, Member], Never, On(ENDPOINT), &[]),
    ("/dashboard/deliveries/{id}/resend", [Member, Member], Never, On(DELIVERY), &[]),
    (LINKS, [Member, Member], Never, On(LINKS), &[("amount", "x")]),
    ("/dashboard/links/{id}/active", [Member, Member], Never, Elsewhere, &[]),
    ("/dashboard/links/{id}/change", [Member, Member], InLive, Elsewhere, &[]),
    ("/dashboard/wallet/key", [Owner, Owner], Always, On(WALLET), &[("pix_key", "x")]),
    ("/dashboard/wallet/payout", [Owner, Owner], Always, Elsewhere, &[("amount", "x")]),
    (REPORTS, [Viewer, Viewer], Never, On(REPORTS), &[("from", "x")]),
    ("/dashboard/reports/schedules", [Member, Member], Never, On(REPORTS), &[("interval", "x")]),
    ("/dashboard/reports/{id}/delete", [Member, Member], Never, Elsewhere, &[]),
    ("/dashboard/reports/schedules/{id}/delete", [Member, Member], Never, Elsewhere, &[]),
    ("/dashboard/developers/keys", [Admin, Admin], InLive, On(KEYS), &[("label", "\u{1}")]),
    ("/dashboard/developers/keys/{id}/rotate", [Admin, Admin], InLive, On(KEYS), &[]),
    ("/dashboard/developers/keys/{id}/revoke", [Admin, Admin], InLive, On(KEYS), &[]),
    ("/dashboard/team/invites", [Owner, Owner], Always, On(TEAM), &[("role", "MEMBER"), ("email", "x")]),
    ("/dashboard/team/invites/{hash}/withdraw", [Owner, Owner], Always, On(TEAM), &[]),
    ("/dashboard/team/{id}/role", [Owner, Owner], Always, On(TEAM), &[("role", "MEMBER")]),
    ("/dashboard/team/{id}/remove", [Owner, Owner], Always, On(TEAM), &[]),
    (SETTINGS, [Admin, Admin], Always, On(SETTINGS), &[("color", "x")]),
    (LOGO, [Admin, Admin], Always, On(SETTINGS), &[]),
    ("/dashboard/settings/logo/remove", [Admin, Admin], Always, On(SETTINGS), &[]),
    ("/dashboard/settings/sales-emails", [Viewer, Viewer], Never, On(SETTINGS), &[]),
    ("/dashboard/security/totp", [Viewer, Viewer], Always, On(SECURITY), &[]),
    ("/dashboard/security/totp/on", [Viewer, Viewer], Always, On(SECURITY), &[("code", "x")]),
    // These prove the user themselves.
    ("/dashboard/security/totp/off", [Viewer, Viewer], Never, Elsewhere, &[("password", "x")]),
    ("/dashboard/security/password", [Viewer, Viewer], Never, On(SECURITY), &[("new", "x")]),
    ("/dashboard/confirm", [Viewer, Viewer], Never, Elsewhere, &[("password", "x")]),
    // For another session, which this test does not begin.
    ("/dashboard/security/sessions/{id}/end", [Viewer, Viewer], Never, Elsewhere, &[]),
    ("/dashboard/security/demand", [Owner, Owner], Always, On(SECURITY), &[("required", "0")]),
    // Ends the session, so it is the last one.
    (SESSIONS, [Viewer, Viewer], Never, On(SECURITY), &[]),
];

/// The forms that need no session.
const OF_EVERYONE: [&str; 8] = [
    "/dashboard/login",
    "/dashboard/totp",
    "/dashboard/logout",
    "/dashboard/mode",
    "/dashboard/language",
    "/dashboard/invite/{token}",
    "/dashboard/reset",
    "/dashboard/reset/{token}",
];

/// The objects of a mode that the pages show.
struct Objects {
    mode: Mode,
    open: String,
    paid: String,
    case: String,
    endpoint: String,
    delivery: String,
}

impl Objects {
    async fn new(live: &Live, mode: Mode) -> Self {
        let service = &live.service;
        let key = if mode == Mode::Live { live.client.key() } else { service.key() };
        let client = Client::new(&service.base_url, &key);
        let create = async |number: &str| {
            let customer = json!({"name": "Maria", "document": "29537995593"});
            client.new_charge(number, &json!({"amount": 3_090, "customer": customer})).await
        };
        let url = "https://shop.example/hook";
        let endpoint = client.register_endpoint(url, &["charge.created"]).await;
        let (open, paid) = (create("roles-0001").await, create("roles-0002").await);
        let case = if mode == Mode::Live {
            live.pay(&paid, PayRequest::default());
            live.wait_for_status(&paid, "paid").await;
            service.live_case().await.0.rsplit('/').next().unwrap().to_owned()
        } else {
            service.sandbox(&paid, "pay", &json!({})).await;
            let disputed = create("roles-0003").await;
            service.sandbox(&disputed, "pay", &json!({})).await;
            let deadline = json!({"response_deadline": "2099-01-01T00:00:00Z"});
            id(&service.sandbox_answer(&disputed, "med-cases", &deadline).await.expect(201)).to_owned()
        };
        let delivery =
            eventually("a delivery", async || client.deliveries("").await.into_iter().next()).await;
        let [open, paid, endpoint, delivery] =
            [&open, &paid, &endpoint, &delivery].map(|object| id(object).to_owned());
        Self { mode, open, paid, case, endpoint, delivery }
    }

    fn page(&self, template: &str) -> String {
        let filled = template.replace("{open}", &self.open).replace("{paid}", &self.paid);
        let filled = filled.replace("{case}", &self.case).replace("{delivery}", &self.delivery);
        filled.replace("{endpoint}", &self.endpoint)
    }

    /// The path of a form. Charges and cases are read before the log-in is; other objects need not exist.
    fn action(&self, template: &str) -> String {
        let of_charge = template.replace("charges/{id}", &format!("charges/{}", self.paid));
        let of_case = of_charge.replace("disputes/{id}", &format!("disputes/{}", self.case));
        let parts = of_case.split('/').map(|part| if part.starts_with('{') { "x" } else { part });
        parts.collect::<Vec<_>>().join("/")
    }
}

/// The forms of a page that post to this path.
fn forms(page: &Page, template: &str) -> Vec<Page> {
    let is_same = |action: &str| {
        let (expected, given) = (template.split('/'), action.split('/'));
        expected.clone().count() == given.clone().count()
            && expected.zip(given).all(|(part, found)| part == found || part.starts_with('{'))
    };
    let all = page.all(Part::Form).into_iter();
    all.filter(|form| is_same(form.attribute("action").unwrap_or_default())).collect()
}

fn outcome(answer: &Answer) -> &'static str {
    let location = answer.header("location").unwrap_or_default();
    match answer.status.as_u16() {
        403 => "forbidden",
        303 if location.starts_with("/dashboard/confirm?next=") => "confirm",
        303 if location.starts_with("/dashboard/login?") => "logged out",
        200 | 303 | 400 | 404 | 422 => "passes",
        _ => panic!("{answer:?}"),
    }
}

#[tokio::test]
async fn each_form_is_for_its_roles_and_needs_a_recent_log_in_where_it_says_so() {
    let live = Live::start().await;
    let service = &live.service;
    let objects = [Objects::new(&live, Mode::Test).await, Objects::new(&live, Mode::Live).await];
    let owner = Browser::owner(service).await;
    let file = png(8, 8, 0);
    assert_eq!(upload(service, owner.cookies(), "test", &file).await.status, 303);
    owner.submit(TEAM, "Convidar", &[("Função", "Administrador"), ("E-mail", "bia@loja.example")]).await;

    let draft = "O CPF 295.379.955-93 recebeu";
    let (cases, id) = (MedCases::new(service.store()), objects[1].case.parse().unwrap());
    cases.save_draft(id, draft, service.stack.clock.now()).await.unwrap();

    let people = [(Role::Viewer, Viewer), (Role::Member, Member), (Role::Admin, Admin), (Role::Owner, Owner)];
    // All pages first, because the forms remove what the pages show.
    for (role, has) in people {
        for (of_mode, objects) in objects.iter().enumerate() {
            let browser = enter(service, role, objects.mode).await;
            if objects.mode == Mode::Live {
                let case = browser.page(&objects.page(CASE)).await;
                let shows_draft = case.source().contains(draft);
                assert_eq!(shows_draft, role.manages_keys(), "a draft may have documents");
                assert_eq!(case.has(Part::Link, "Dossiê em PDF"), role != Role::Member, "{case}");
                for action in ["Dossiê em PDF", "Salvar rascunho"] {
                    let named = case.has(Part::Button, &format!("{action} (precisa de administrador)"));
                    assert_eq!(named, role == Role::Member, "{action}: {case}");
                }
            }
            for (template, least, _, shown, _) in FORMS {
                let (On(page) | OnlyTo(page)) = shown else { continue };
                let found = forms(&browser.page(&objects.page(page)).await, template);
                let case = format!("{template} for {role:?} in {}: {found:?}", objects.mode);
                let is_allowed = has >= least[of_mode];
                if !is_allowed && (role == Role::Viewer || matches!(shown, OnlyTo(_))) {
                    assert!(found.is_empty(), "{case}");
                    continue;
                }
                assert!(!found.is_empty(), "{case}");
                for form in found {
                    let buttons = form.all(Part::Button);
                    let is_disabled = buttons.iter().any(Page::is_disabled);
                    assert_eq!(is_disabled, !is_allowed, "{case}");
                    let pressed =
                        buttons.iter().find(|_| is_allowed).map(|button| form.press(&button.name(), &[]));
                    let has_key = |sent: Sent| sent.fields.iter().any(|(name, _)| name == "idempotency_key");
                    assert!(pressed.is_none_or(has_key), "{case}");
                    for (role, need) in
                        [(Admin, "precisa de administrador)"), (Owner, "precisa do proprietário)")]
                    {
                        assert_eq!(form.contains(need), least[of_mode] == role && !is_allowed, "{case}");
                    }
                }
            }
        }
    }
    for (role, has) in people {
        for (of_mode, objects) in objects.iter().enumerate() {
            let browser = enter(service, role, objects.mode).await;
            for is_stale in [false, true] {
                if is_stale {
                    service.stack.clock.advance(601_000);
                }
                for (template, least, recent, _, fields) in FORMS {
                    if *template == SESSIONS && !is_stale {
                        continue;
                    }
                    let needs_recent = *recent == Always || *recent == InLive && objects.mode == Mode::Live;
                    let expected = match has >= least[of_mode] {
                        false => "forbidden",
                        true if needs_recent && is_stale => "confirm",
                        true => "passes",
                    };
                    let answer = if *template == LOGO {
                        upload(service, browser.cookies(), objects.mode.as_str(), b"x").await
                    } else {
                        let fields = [&[("mode", objects.mode.as_str())], *fields].concat();
                        browser.post(&objects.action(template), &fields).await
                    };
                    let case = format!("{template} by {role:?} in {}, stale: {is_stale}", objects.mode);
                    assert_eq!(outcome(&answer), expected, "{case}: {answer:?}");
                }
            }
            assert_eq!(browser.answer("/dashboard", &[]).await.status, 303, "its sessions are ended");
        }
    }
    // Nothing was done: the case is open, and the charges are as they were.
    let owner = Browser::owner(service).await.in_mode(Mode::Live);
    assert!(!forms(&owner.page(&objects[1].page(CASE)).await, "/dashboard/disputes/{id}/accept").is_empty());
    // It may have expired meanwhile.
    let open = live.client.get(&format!("/v1/charges/{}", objects[1].open)).await.expect(200);
    assert_ne!(open["status"], "cancelled");
    let charge = live.client.get(&format!("/v1/charges/{}", objects[1].paid)).await.expect(200);
    assert_eq!(charge["status"], "paid");
    for (template, ..) in FORMS {
        let answer = post(service, &objects[0].action(template), "", &[("mode", "test")]).await;
        assert_eq!(outcome(&answer), "logged out", "{template}: {}", text(&answer));
    }
}

/// Logs in as someone of the role.
async fn enter(service: &Service, role: Role, mode: Mode) -> Browser<'_> {
    let seed = &service.stack.seed;
    let email = if role == Role::Owner { &seed.first.owner_email } else { &seed.member_email };
    change_user(&service.store(), email, |user| user.role = role).await;
    Browser::log_in(service, email).await.in_mode(mode)
}

/// The routes of the API that change something are for API keys, except those for dashboard tokens.
#[tokio::test]
async fn a_viewers_token_changes_nothing_but_its_own_session() {
    let service = Service::start().await;
    let (email, password) = (&service.stack.seed.member_email, &service.stack.seed.first.password);
    change_user(&service.store(), email, |user| user.role = Role::Viewer).await;
    let log_in = json!({"email": email, "password": password});
    let token = service.post_as("", "/v1/auth/login", &log_in, &[]).await.expect(200);
    let bearer = format!("Bearer {}", token["token"].as_str().unwrap());
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let (mut refused, last) = (0, "POST /v1/auth/logout");
    let changing = openapi::routes().into_iter().filter(|route| !route.starts_with("GET "));
    let open =
        ["POST /v1/auth/login", "POST /checkout/{raw_id}/card", "POST /checkout/{raw_id}/simulate", last];
    for route in changing.filter(|route| !open.contains(&route.as_str())) {
        let (method, path) = route.split_once(' ').unwrap();
        let path = path.replace(['{', '}'], "x");
        let answer = service.raw(method.parse().unwrap(), &path, &headers, "{}").await;
        let expected = if path.starts_with("/v1/api-keys") { 403 } else { 401 };
        assert_eq!(answer.status, expected, "{route}: {answer:?}");
        refused += 1;
    }
    assert!(refused > 25, "{refused}");
    let (method, path) = last.split_once(' ').unwrap();
    assert_eq!(service.raw(method.parse().unwrap(), path, &headers, "").await.status, 204);
}

#[test]
fn the_table_has_every_form() {
    let listed: BTreeSet<&str> = FORMS.iter().map(|(path, ..)| *path).chain(OF_EVERYONE).collect();
    let served = form_routes();
    assert_eq!(listed, served.iter().map(String::as_str).collect::<BTreeSet<_>>());
}
