//! Opens every page of the dashboard that links lead to, as each role and in both modes, while texts of payers,
//! receivers and developers are hostile.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use domain::ids::Mode;
use screen_reader::Page;
use serde_json::{Value, json};
use shared::account::Role;

use crate::api_keys::change_user;
use crate::dashboard::{Browser, PAGES};
use crate::support::{Listener, Service, id, wait_until};

const MAX_PAGE_BYTES: usize = 30 * 1024;

/// It ends an attribute or an element wherever it is not escaped, and has a CPF.
const HOSTILE: &str = "\"'><script>alert(1)</script><b onmouseover=\"x\"> 295.379.955-93";

/// What an unescaped text would leave on a page.
const RAW: [&str; 5] = ["<script>alert", "<b onmouseover", "\"'>", "<img src=x", "<i>"];

const DOCUMENTS: [&str; 6] = [
    "29537995593",
    "295.379.955-93",
    "52998224725",
    "529.982.247-25",
    "11222333000181",
    "11.222.333/0001-81",
];

/// Codes of the API for states, roles and the like. None is a Portuguese word.
const ENGLISH: &str = "accepted active admin appealed approved became before cancelled cashout closed delivered devolution \
    disputed expired failed false in_progress inactive live lost member open owner paid pending processing \
    refunded refused rejected requested returned settlement stopped succeeded test true waiting_payment \
    withdrawn";

/// The words of a page, without code samples.
fn prose(page: &Page) -> Vec<String> {
    let is_word = |c: char| c.is_alphanumeric() || "._-@/".contains(c);
    let text = page.text_without_code();
    text.split(|c| !is_word(c)).map(|word| word.trim_matches('.').to_lowercase()).collect()
}

/// The page without the numbers and ids of its path: pages of one kind have the same one.
fn kind(path: &str) -> String {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let parts = path.split('/').map(|part| part.split_once('_').map_or(part, |(prefix, _)| prefix));
    let names = query.split('&').filter_map(|pair| pair.split('=').next());
    format!("{}?{}", parts.collect::<Vec<_>>().join("/"), names.collect::<Vec<_>>().join("&"))
}

/// Returns the ids of the charges and of the endpoint, and its secret.
async fn seed(service: &Service, key: &str, listener: &Listener) -> (Vec<String>, Option<String>) {
    let post = async |path: &str, body: &Value, number: &str| {
        service.post_as(key, path, body, &[("idempotency-key", number)]).await
    };
    let customer = json!({"name": format!("{HOSTILE} 52998224725"), "document": "29537995593", "email": "maria@example.com"});
    let mut charges = Vec::new();
    let orders = [HOSTILE, "529.982.247-25", "<img src=x onerror=alert(1)>", "11222333000181", "N5"];
    for (number, order) in orders.iter().enumerate() {
        let body = json!({
            "amount": 5_000, "description": HOSTILE, "customer": customer,
            "metadata": {"order_id": order, "<script>alert(2)</script>": HOSTILE, "payer": "29537995593", "note": "CPF 52998224725"},
        });
        let charge = post("/v1/pix/charges", &body, &format!("crawl-{number:04}")).await.expect(201);
        charges.push(id(&charge).to_owned());
    }
    // A live endpoint needs a public address.
    if !key.starts_with("ak_test_") {
        return (charges, None);
    }
    let events = ["charge.paid", "payment.completed", "refund.succeeded", "med_case.created"];
    let endpoint = json!({"url": format!("{}?<b>'", listener.url), "events": events});
    let endpoint = post("/v1/webhooks/endpoints", &endpoint, "crawl-endpoint").await.expect(201);
    charges.push(id(&endpoint).to_owned());
    (charges, Some(endpoint["secret"].as_str().unwrap().to_owned()))
}

#[tokio::test]
async fn every_page_is_safe_and_small_for_each_role_with_hostile_texts() {
    let service = Service::start().await;
    let seed_of = &service.stack.seed;
    let listener =
        Listener::answering(|_| (StatusCode::INTERNAL_SERVER_ERROR, HOSTILE).into_response()).await;
    let (first, other) = (&seed_of.first, &seed_of.other);
    let (ids, secret) = seed(&service, &first.test_api_key, &listener).await;
    seed_more(&service, &ids).await;
    seed(&service, &first.live_api_key, &listener).await;
    let (mut foreign_ids, foreign_secret) = seed(&service, &other.test_api_key, &listener).await;
    foreign_ids.push(other.id.to_string());
    wait_until("a failed delivery", async || {
        service.deliveries("").await.iter().any(|delivery| delivery["lastStatusCode"] == 500)
    })
    .await;

    let owner = Browser::owner(&service).await;
    let mut secrets: Vec<String> = [first, other]
        .iter()
        .flat_map(|account| [&account.test_api_key, &account.live_api_key, &account.password])
        .cloned()
        .collect();
    secrets.push(owner.cookies().split('=').nth(1).unwrap().to_owned());
    secrets.extend(secret.into_iter().chain(foreign_secret));

    let member = seed_of.member_email.clone();
    for role in [Role::Owner, Role::Admin, Role::Member, Role::Viewer] {
        for mode in [Mode::Test, Mode::Live] {
            let email = if role == Role::Owner { first.owner_email.clone() } else { member.clone() };
            if role != Role::Owner {
                change_user(&service.store(), &email, |user| user.role = role).await;
            }
            service.begin_minute().await;
            let browser = Browser::log_in(&service, &email).await.in_mode(mode);
            let seen = crawl(&browser, |path, html, page| {
                for secret in &secrets {
                    assert!(!html.contains(secret), "{role:?} {mode} {path}: a secret");
                }
                for foreign in &foreign_ids {
                    assert!(!html.contains(foreign), "{role:?} {mode} {path}: {foreign}");
                }
                for raw in RAW.iter().filter(|_| page.is_some()) {
                    assert!(!html.contains(*raw), "{role:?} {mode} {path}: {raw} {html}");
                }
                for word in page.map(prose).unwrap_or_default() {
                    assert!(
                        !ENGLISH.split(' ').any(|code| code == word),
                        "{role:?} {mode} {path}: {word} {html}"
                    );
                }
                for document in DOCUMENTS {
                    assert!(!html.contains(document), "{role:?} {mode} {path}: {document} {html}");
                }
            })
            .await;
            let kinds: BTreeSet<String> = seen.keys().map(|path| kind(path)).collect();
            let with_hostile: BTreeSet<String> =
                seen.iter().filter(|(_, is_hostile)| **is_hostile).map(|(path, _)| kind(path)).collect();
            if mode == Mode::Test {
                for page in ["charges/ch", "disputes/med", "deliveries/wd", "events/evt"] {
                    let page = format!("/dashboard/{page}?");
                    assert!(with_hostile.contains(&page), "no hostile text on {page}: {with_hostile:?}");
                }
                for page in [
                    "charges/ch",
                    "disputes/med",
                    "webhooks/wh",
                    "deliveries/wd",
                    "events/evt",
                    "reports?type",
                    "search",
                ] {
                    let page = format!("/dashboard/{page}");
                    assert!(kinds.iter().any(|kind| kind.starts_with(&page)), "{page}: {kinds:?}");
                }
            }
        }
    }
}

/// Pays, refunds and disputes charges with hostile reasons.
async fn seed_more(service: &Service, charges: &[String]) {
    let charge = |number: usize| json!({"id": charges[number]});
    for number in 0..3 {
        service.sandbox(&charge(number), "pay", &json!({})).await;
    }
    let refund = json!({"amount": 1_000, "reason": HOSTILE});
    service.refund(&charge(0), "refund-0001", refund).await.expect(201);
    let case = json!({"reason": HOSTILE, "response_deadline": "2030-01-01T00:00:00Z"});
    let case = service.sandbox_answer(&charge(1), "med-cases", &case).await.expect(201);
    let appeal = json!({"reason": HOSTILE});
    let _ = service.post(&format!("/v1/med-cases/{}/appeal", id(&case)), &appeal).await;
    service
        .sandbox_answer(&charge(2), "med-cases", &json!({"reason": "<i>fraude 29537995593"}))
        .await
        .expect(201);
    service.sandbox(&charge(3), "fail", &json!({})).await;
}

/// Follows every link from the home page and the lists, and checks each page. Returns the paths, and whether the page
/// shows the hostile text.
async fn crawl(browser: &Browser<'_>, check: impl Fn(&str, &str, Option<&Page>)) -> BTreeMap<String, bool> {
    let start = PAGES.iter().map(|path| (*path).to_owned()).chain(["/dashboard/search?q=nothing".to_owned()]);
    let mut queue: VecDeque<String> = start.collect();
    let mut seen = BTreeMap::new();
    while let Some(path) = queue.pop_front() {
        if seen.contains_key(&path) {
            continue;
        }
        let answer = browser.answer(&path, &[]).await;
        // A search leads to the page of what it finds.
        if path.starts_with("/dashboard/search?q=") && answer.status == 303 {
            queue.push_back(answer.header("location").unwrap().to_owned());
            seen.insert(path, false);
            continue;
        }
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        let html = String::from_utf8_lossy(&answer.bytes).into_owned();
        seen.insert(path.clone(), html.contains("&lt;script&gt;alert(1)"));
        if !answer.header("content-type").unwrap().starts_with("text/html") {
            check(&path, &html, None);
            continue;
        }
        let page = Page::read(&html);
        check(&path, &html, Some(&page));
        assert!(html.len() < MAX_PAGE_BYTES, "{path}: {} bytes", html.len());
        queue.extend(page.links_to("/dashboard").into_iter().filter(|path| !seen.contains_key(path)));
    }
    seen
}
