//! Requests, read units and times of the dashboard's pages, beside their budgets.

use std::time::{Duration, Instant};

use domain::charge::{Charge, StoredCharge};
use domain::ids::ChargeId;
use faults::proxy::FaultProxy;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, COOKIE, SET_COOKIE};
use hyper::{Method, Request, Response};
use local::stack::{Options, Stack};
use local::wire::http_client;
use shared::store::Store;

use crate::merchant::Merchant;
use crate::{InFiles, seeding};

/// How often a page is opened for its times.
const TIMES: usize = 200;

/// A user has 300 pages a minute.
const PAGES_A_MINUTE: usize = 250;

/// Measures the pages of an account with so many charges. The times include the proxy that counts the requests.
pub(crate) async fn pages(charges: usize) {
    let proxy = FaultProxy::start().await.unwrap();
    let options = Options { event_sources: false, fronts: proxy.fronts(), ..Options::in_memory() };
    let service = InFiles::start(options).await;
    let stack = &service.stack;
    let id = Merchant::of(stack, &stack.seed.first).create_findable(4_711).await;
    let dynamodb = local::sdk::dynamodb(&stack.endpoints.dynamodb_url);
    let key = Charge::key_of(id.parse::<ChargeId>().unwrap());
    let store = Store::new(dynamodb.clone(), "StateTable");
    let template: StoredCharge = store.get(&key).await.unwrap().unwrap();
    seeding::seed(&dynamodb, template.as_stored(), charges, 40, &[]).await;
    let seed = &stack.seed.first;
    let mut form = url::form_urlencoded::Serializer::new(String::new());
    let form = form.append_pair("email", &seed.owner_email).append_pair("password", &seed.password).finish();
    let entered = send(stack, Method::POST, "/dashboard/login", "", form).await;
    let cookie = entered.headers()[SET_COOKIE].to_str().unwrap().split(';').next().unwrap().to_owned();
    let (charge, search) = (format!("charges/{id}"), format!("search?q={id}"));
    println!(
        "\n{:<56} {:>8} {:>8} {:>8} {:>8}",
        format!("pages of an account with {charges} charges"),
        "requests",
        "RRU",
        "median",
        "p99"
    );
    let mut opened = 0;
    for (path, requests, read_units) in [
        ("", 11, 60),
        (search.as_str(), 4, 30),
        ("search?q=nothing", 4, 30),
        ("charges", 6, 60),
        ("charges?status=pending", 7, 60),
        (charge.as_str(), 7, 20),
        ("refunds", 4, 35),
        ("payouts", 4, 35),
        ("wallet", 8, 45),
        ("disputes", 5, 40),
        ("webhooks", 6, 60),
        ("developers", 3, 10),
        ("team", 5, 30),
    ] {
        let path = format!("/dashboard/{path}");
        let path = path.trim_end_matches('/');
        let mut times: Vec<Duration> = Vec::with_capacity(TIMES);
        for time in 0..=TIMES {
            opened += 1;
            if opened % PAGES_A_MINUTE == 0 {
                stack.clock.advance(60_000);
            }
            proxy.reset();
            let began = Instant::now();
            let answer = send(stack, Method::GET, path, &cookie, String::new()).await;
            times.push(began.elapsed());
            assert!(matches!(answer.status().as_u16(), 200 | 303), "{path}: {}", answer.status());
            if time == TIMES {
                let report = proxy.report();
                times.sort();
                println!(
                    "{path:<56} {:>5}/{requests:<2} {:>5.1}/{read_units:<2} {:>8.1?} {:>8.1?}",
                    report.requests(),
                    report.read_units,
                    times[TIMES / 2],
                    times[TIMES * 99 / 100],
                );
            }
        }
    }
    service.stop().await;
}

async fn send(stack: &Stack, method: Method, path: &str, cookie: &str, form: String) -> Response<Bytes> {
    let request = Request::builder()
        .method(method)
        .uri(format!("{}{path}", stack.base_url))
        .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
        .header("sec-fetch-site", "same-origin")
        .header(COOKIE, cookie)
        .body(Full::new(Bytes::from(form)))
        .unwrap();
    let (head, body) = http_client().request(request).await.unwrap().into_parts();
    Response::from_parts(head, body.collect().await.unwrap().to_bytes())
}
