use artefacts::brcode::DynamicBrCode;
use axum::body::{Body, to_bytes};
use axum::http::{Method, Request};
use screen_reader::{Page, Role};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::*;

pub(crate) const RAW_ID: &str = "0191e1d2-3c4b-8a5f-9e6d-7c8b9a0f1e2d";

pub(crate) fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

pub(crate) fn br_code(merchant_name: &str) -> String {
    let code = DynamicBrCode {
        location: "pay.example.com/pix/01m7xszsqwk549s9y2zxghq9p9",
        amount_centavos: None,
        merchant_name,
        merchant_city: "Sao Paulo",
    };
    code.encode().unwrap()
}

/// A live charge of R$ 1.234,56 that can be paid until 18:04:30 UTC on 21 November 2026. The page shows this
/// time as "21/11/2026 às 15:04 (horário de Brasília)". `changes` replaces fields of the charge's row.
pub(crate) fn charge(changes: &Value) -> StoredCharge {
    let mut row = json!({
        "id": format!("ch_{RAW_ID}"),
        "scope": "acc_0123456789abcdef:live",
        "status": "WAITING_PAYMENT",
        "version": 1,
        "amount": 123_456,
        "currency": "BRL",
        "methods": ["pix"],
        "customer": {},
        "artefacts": {"pix": {
            "br_code": br_code("Loja do Bairro"),
            "expires_at": at("2026-11-21T18:04:30Z").millis(),
            "ttl_seconds": 3600,
        }},
        "request_hash": "hash-of-the-request",
        "rid": "=req-1",
        "created_at": at("2026-11-21T17:04:30Z").millis(),
        "updated_at": at("2026-11-21T17:04:30Z").millis(),
    });
    row.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    serde_json::from_value(row).unwrap()
}

/// The function's routes, with a DynamoDB address at which no server listens. A request that reads the table
/// fails.
fn routes() -> Router {
    let var = |name: &str| {
        Some(match name {
            "AWS_ENDPOINT_URL_DYNAMODB" => "http://127.0.0.1:9".to_owned(),
            "CHECKOUT_BASE_URL" => "https://pay.example.com/checkout".to_owned(),
            "ORIGIN_SECRETS" => return None,
            other => format!("some-{other}"),
        })
    };
    router(Checkout::from_vars(&Aws::from_vars(&var).unwrap(), Clock::default(), &var).unwrap())
}

async fn send(method: Method, path: &str) -> Response {
    let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
    routes().oneshot(request).await.unwrap()
}

fn shown(found: Found, now: &str, request: &HeaderMap) -> Response {
    page_of(found, (&Brand::default(), None), at(now), Language::Portuguese, request)
}

fn header_of<'a>(response: &'a Response, name: &str) -> Option<&'a str> {
    response.headers().get(name).map(|value| value.to_str().unwrap())
}

async fn body_of(response: Response) -> Vec<u8> {
    to_bytes(response.into_body(), 1 << 20).await.unwrap().to_vec()
}

async fn text_of(response: Response) -> String {
    String::from_utf8(body_of(response).await).unwrap()
}

async fn page_of_response(response: Response) -> Page {
    Page::read(&text_of(response).await)
}

#[tokio::test]
async fn a_url_with_an_id_other_than_a_lower_case_uuid_is_a_404() {
    let prefixed = ["ch_", "tx_"].map(|prefix| format!("{prefix}{RAW_ID}"));
    let spelt = [RAW_ID.to_uppercase(), RAW_ID.replace('-', ""), "%FF".to_owned(), "0".repeat(8_000)];
    for id in prefixed.into_iter().chain(spelt) {
        let response = send(Method::GET, &format!("/checkout/{id}")).await;
        assert_eq!(response.status(), 404, "{id}");
        assert_eq!(header_of(&response, "content-type"), Some("text/html; charset=utf-8"));
        assert!(header_of(&response, "x-request-id").is_some());
        assert_eq!(header_of(&response, "cache-control"), Some("no-store"), "a page must not be cached");
        assert!(page_of_response(response).await.has(Role::Heading, "Cobrança não encontrada"));
        let image = send(Method::GET, &format!("/checkout/{id}/qr.png")).await;
        let cache_control = header_of(&image, "cache-control");
        assert_eq!((image.status(), cache_control), (StatusCode::NOT_FOUND, Some("no-store")));
        let body: Value = serde_json::from_slice(&body_of(image).await).unwrap();
        assert_eq!(body["error"]["code"], "not_found", "{id}");
    }
}

#[tokio::test]
async fn every_page_has_its_security_headers_and_no_internal_error() {
    let read_error = || Err(StoreError::Unavailable("table some-table".to_owned()));
    for (found, status, title) in [
        (Ok(Some(charge(&json!({})))), StatusCode::OK, "Pague com Pix"),
        (Ok(None), StatusCode::NOT_FOUND, "Cobrança não encontrada"),
        (read_error(), StatusCode::SERVICE_UNAVAILABLE, "Página indisponível no momento"),
    ] {
        let response = shown(found, "2026-11-21T17:10:00Z", &HeaderMap::new());
        assert_eq!(response.status(), status);
        assert_eq!(header_of(&response, "content-type"), Some("text/html; charset=utf-8"));
        assert_eq!(header_of(&response, "referrer-policy"), Some("no-referrer"));
        assert!(header_of(&response, "content-security-policy").is_some());
        let page = page_of_response(response).await;
        let reloads = page.source().contains("http-equiv=\"refresh\"");
        assert_eq!(
            (page.names(Role::Heading)[0].as_str(), reloads),
            (title, status != StatusCode::NOT_FOUND)
        );
        assert!(!page.source().contains("some-table"), "the database's error belongs in the log only");
    }
}

#[tokio::test]
async fn a_reader_who_has_the_state_receives_304() {
    let show = |etag: &str| {
        let headers = [(header::IF_NONE_MATCH, etag.parse().unwrap())].into_iter().collect();
        shown(Ok(Some(charge(&json!({})))), "2026-11-21T17:10:00Z", &headers)
    };
    let first = show("");
    let known = show(header_of(&first, "etag").unwrap());
    assert_eq!(
        (known.status(), header_of(&known, "etag")),
        (StatusCode::NOT_MODIFIED, header_of(&first, "etag"))
    );
    assert!(body_of(known).await.is_empty());
}

#[tokio::test]
async fn an_overdue_test_charge_is_shown_as_expired() {
    let found = charge(&json!({"scope": "acc_0123456789abcdef:test"}));
    let response = shown(Ok(Some(found)), "2026-11-21T18:04:31Z", &HeaderMap::new());
    assert!(page_of_response(response).await.has(Role::Heading, "Cobrança expirada"));
}

#[tokio::test]
async fn the_qr_image_is_served_in_every_status_and_may_be_cached() {
    for status in ["WAITING_PAYMENT", "PAID", "EXPIRED"] {
        let found = charge(&json!({"status": status}));
        let expected = qr::png(&found.as_stored().artefacts.pix.as_ref().unwrap().br_code).unwrap();
        let response = qr_of(Ok(Some(found))).unwrap();
        assert_eq!(header_of(&response, "content-type"), Some("image/png"));
        assert_eq!(header_of(&response, "cache-control"), Some("public, max-age=3600, immutable"));
        assert_eq!(body_of(response).await, expected);
    }
}

#[test]
fn a_qr_image_that_cannot_be_made_returns_an_error_status() {
    let status = |found| qr_of(found).unwrap_err().status();
    assert_eq!(status(Ok(None)), StatusCode::NOT_FOUND);
    assert_eq!(status(Err(StoreError::Unavailable("down".to_owned()))), StatusCode::SERVICE_UNAVAILABLE);
    let with_empty_code =
        charge(&json!({"artefacts": {"pix": {"br_code": "", "expires_at": 0, "ttl_seconds": 60}}}));
    assert_eq!(status(Ok(Some(with_empty_code))), StatusCode::INTERNAL_SERVER_ERROR);
}

const DOCS: [(&str, &str); 5] = [
    ("/docs", "text/html; charset=utf-8"),
    ("/docs/webhooks", "text/html; charset=utf-8"),
    ("/docs.md", "text/markdown; charset=utf-8"),
    ("/llms.txt", "text/plain; charset=utf-8"),
    ("/v1/openapi.json", "application/json"),
];

async fn send_if_none_match(path: &str, values: &[&str]) -> Response {
    let request =
        values.iter().fold(Request::get(path), |request, value| request.header("if-none-match", *value));
    routes().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
}

#[tokio::test]
async fn the_documentation_is_public_and_may_be_cached() {
    for (path, content_type) in DOCS {
        let response = send(Method::GET, path).await;
        assert_eq!(response.status(), 200, "{path}");
        assert_eq!(header_of(&response, "content-type"), Some(content_type));
        assert_eq!(header_of(&response, "cache-control"), Some("public, max-age=300"));
        assert!(header_of(&response, "x-request-id").is_some());
        assert!(!body_of(response).await.is_empty());
        let head = send(Method::HEAD, path).await;
        assert_eq!((head.status(), header_of(&head, "content-type")), (StatusCode::OK, Some(content_type)));
        assert!(header_of(&head, "etag").is_some());
        assert!(body_of(head).await.is_empty());
        assert_eq!(send(Method::POST, path).await.status(), 404);
    }
}

#[tokio::test]
async fn a_client_that_has_a_file_receives_304_without_a_body() {
    for (path, _) in DOCS {
        let response = send(Method::GET, path).await;
        let etag = header_of(&response, "etag").unwrap().to_owned();
        assert!(etag.starts_with('"') && etag.ends_with('"') && etag.len() > 2, "{etag} is not strong");
        let weak = format!("W/{etag}");
        let list = format!("\"other\" , W/\"more\",{etag}");
        for sent in [vec![etag.as_str()], vec!["*"], vec![&weak], vec![&list], vec!["\"other\"", &etag]] {
            let unchanged = send_if_none_match(path, &sent).await;
            assert_eq!(unchanged.status(), 304, "{path}: {sent:?}");
            assert_eq!(header_of(&unchanged, "etag"), Some(etag.as_str()));
            assert_eq!(header_of(&unchanged, "cache-control"), Some("public, max-age=300"));
            assert!(body_of(unchanged).await.is_empty());
        }
        for sent in ["\"other\"", "", etag.trim_matches('"')] {
            assert_eq!(send_if_none_match(path, &[sent]).await.status(), 200, "{path}: {sent}");
        }
    }
}

#[tokio::test]
async fn the_page_of_the_documentation_may_use_its_own_style_alone() {
    let response = send(Method::GET, "/docs").await;
    let policy = header_of(&response, "content-security-policy").unwrap().to_owned();
    assert_eq!(header_of(&response, "referrer-policy"), Some("no-referrer"));
    let page = text_of(response).await;
    let style = page.split_once("<style>").unwrap().1.split_once("</style>").unwrap().0;
    let expected = format!(
        "default-src 'none'; style-src '{}'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
        shared::http::csp_source(style)
    );
    assert_eq!(policy, expected);
    assert!(!style.is_empty() && !page.contains("<script"));
}

#[tokio::test]
async fn a_page_of_the_documentation_is_marked_in_the_contents() {
    let page = page_of_response(send(Method::GET, "/docs/webhooks").await).await;
    assert!(page.title().starts_with("Webhooks · "), "{}", page.title());
    let links = page.get(Role::Navigation, "Contents").all(Role::Link);
    let current: Vec<&Page> =
        links.iter().filter(|link| link.attribute("aria-current") == Some("page")).collect();
    assert!(current.len() == 1 && current[0].target() == "/docs/webhooks", "{current:?}");
    assert_eq!(current[0].name(), "Webhooks");
    let absent = send(Method::GET, "/docs/nothing").await;
    assert_eq!(
        (absent.status(), header_of(&absent, "content-type")),
        (StatusCode::NOT_FOUND, Some("text/html; charset=utf-8"))
    );
    assert!(page_of_response(absent).await.contains("There is no such page"));
}

#[tokio::test]
async fn the_search_finds_the_sections_that_have_all_words() {
    let search = async |query: &str| {
        page_of_response(send(Method::GET, &format!("/docs/search?q={query}")).await).await
    };
    let found = search("SIGNATURE+verify").await.all(Role::Heading);
    assert_eq!(found[0].name(), "Search");
    let first = found[1].get(Role::Link, "Verify the signature first");
    assert_eq!(first.target(), "/docs/webhooks#webhooks-verify-the-signature-first");
    let none = search("signature+nosuchword").await;
    assert!(none.contains("No section has all of these words"), "{none}");
    let hostile = search("%3Cb%3E").await;
    assert!(hostile.contains("<b>") && !hostile.source().contains("<b>"), "{hostile}");
    for empty in ["", "%20", "%FF"] {
        assert_eq!(search(empty).await.names(Role::Heading), none.names(Role::Heading), "{empty}");
    }
}

#[tokio::test]
async fn the_description_refuses_an_unknown_query_parameter() {
    assert_eq!(send(Method::GET, "/v1/openapi.json?nothing=1").await.status(), 400);
}
