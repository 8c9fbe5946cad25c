//! Answers and connections that are not as expected.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use api_pix::{ApiError, Client, MAX_PAGE_SIZE, PixQuery};
use bank::Profile;
use domain::acquirer::OddObject;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::proxy::Substitute;
use crate::support::{World, day, id, key, reais, txid};

fn malformed(reason: &str) -> ApiError {
    ApiError::Malformed(reason.to_owned())
}

#[tokio::test]
async fn a_reused_connection_that_is_closed_is_replaced() {
    let world = World::start().await;
    world.client.get_cob(&txid(1)).await.unwrap();
    world.proxy.substitute(Substitute::Close);
    assert_eq!(world.client.get_cob(&txid(1)).await, Ok(None));
    assert_eq!(world.sent(), 3);
    // A request is repeated once.
    assert_eq!(world.client.get_cob(&txid(1)).await, Ok(None));
    world.proxy.substitute(Substitute::Close);
    world.proxy.substitute(Substitute::Close);
    let closed = ApiError::Connection("connection closed before an answer".to_owned());
    assert_eq!(world.client.get_cob(&txid(1)).await, Err(closed));
    assert_eq!(world.sent(), 6);
}

#[tokio::test]
async fn a_new_connection_that_is_closed_is_not_replaced() {
    let world = World::start().await;
    world.proxy.substitute_token(Substitute::Close);
    let closed = ApiError::Connection("connection closed before an answer".to_owned());
    assert_eq!(world.client.get_cob(&txid(1)).await, Err(closed));
    assert_eq!(world.tokens(), 1);
}

#[tokio::test]
async fn an_answer_that_is_not_http_is_not_requested_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let connections = Arc::new(AtomicUsize::new(0));
    let accepted = Arc::clone(&connections);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            accepted.fetch_add(1, Ordering::SeqCst);
            let token = r#"{"access_token":"token"}"#;
            let token = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{token}", token.len());
            // The client writes each request at once, so one read has all of it.
            for answer in [token.as_str(), "no HTTP\r\n\r\n"] {
                let _ = stream.read(&mut [0; 4_096]).await.unwrap();
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        }
    });
    let behaviour = Profile::Complete.behaviour();
    let settings = crate::support::settings(behaviour, origin.clone(), format!("{origin}/token"));
    let client = Client::new(&settings, Arc::new(|| domain::time::Timestamp::MIN)).unwrap();
    let expected = ApiError::Connection("answer is not HTTP/1.1".to_owned());
    assert_eq!(client.get_cob(&txid(1)).await, Err(expected));
    assert_eq!(connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_404_in_html_does_not_mean_that_the_object_is_unknown() {
    let world = World::start().await;
    let html = vec![("content-type", "text/html; charset=utf-8".to_owned())];
    world.proxy.substitute(Substitute::Answer(404, html, "<html>".into()));
    let error = world.client.get_cob(&txid(1)).await.unwrap_err();
    assert!(matches!(error, ApiError::Malformed(_)), "{error}");
    world.proxy.substitute(Substitute::empty(404));
    assert_eq!(world.client.get_cob(&txid(1)).await, Ok(None));
}

#[tokio::test]
async fn an_answer_that_is_no_object_or_of_another_object_is_malformed() {
    let world = World::start().await;
    let cob = world.cob(1).await;
    let mut other = cob.raw.clone().into_map();
    other.insert("txid".to_owned(), txid(2).into());
    for (substitute, reason) in [
        (Substitute::empty(200), "it must be a JSON object"),
        (Substitute::json(200, &json!([])), "it must be a JSON object"),
        (Substitute::Answer(200, vec![], "<html>".into()), "it must be a JSON object"),
        (Substitute::json(200, &other.into()), "`txid` must be that of the request"),
        (Substitute::empty(302), "the status is 302"),
    ] {
        world.proxy.substitute(substitute);
        assert_eq!(world.client.get_cob(&txid(1)).await, Err(malformed(reason)));
    }
    world.proxy.substitute(Substitute::json(200, &json!({})));
    let odd = OddObject::new(&txid(1), "`calendario` must be an object");
    assert_eq!(world.client.get_cob(&txid(1)).await, Err(ApiError::Odd(odd)));
    let pix = json!({"endToEndId": "E2", "valor": "1.00", "horario": "2026-11-22T12:00:00Z"});
    world.proxy.substitute(Substitute::json(200, &pix));
    let expected = Err(malformed("`endToEndId` must be that of the request"));
    let asked = id("E9999900420261122120000000000099");
    assert_eq!(world.client.get_pix(&asked).await, expected);
    let devolucao = json!({"id": "r2", "valor": "1.00", "status": "DEVOLVIDO"});
    world.proxy.substitute(Substitute::json(201, &devolucao));
    let outcome = world.client.put_devolucao(&asked, "r1", reais(1), None).await;
    assert_eq!(outcome, Err(malformed("`id` must be that of the request")));
}

#[tokio::test]
async fn an_answer_is_limited_to_eight_mebibytes_and_its_headers_to_less() {
    let world = World::start().await;
    let headers = vec![("content-type", "application/json".to_owned())];
    world.proxy.substitute(Substitute::Answer(200, headers, vec![b' '; 8 * 1024 * 1024 + 1].into()));
    assert_eq!(world.client.get_cob(&txid(1)).await, Err(malformed("larger than 8 MiB")));
    let headers = vec![("x-huge", "a".repeat(256 * 1024))];
    world.proxy.substitute(Substitute::Answer(200, headers, "{}".into()));
    let expected = ApiError::Connection("answer's headers too large".to_owned());
    assert_eq!(world.client.get_cob(&txid(1)).await, Err(expected));
}

#[tokio::test]
async fn a_registration_may_be_answered_without_a_body() {
    let world = World::start().await;
    world.proxy.substitute(Substitute::empty(200));
    assert_eq!(world.client.put_webhook(&key("loja@example.com"), "https://a.example/").await, Ok(()));
}

#[tokio::test]
async fn a_malformed_item_does_not_fail_its_page() {
    let world = World::start().await;
    world.paid_cob(1).await;
    let good = world.client.list_pix(&day()).await.unwrap().pix.remove(0);
    let page = json!({
        "parametros": {"paginacao": {"paginaAtual": 0, "quantidadeDePaginas": "3"}},
        "pix": [
            good.raw.as_map(),
            {"endToEndId": "E1", "valor": 10.001, "horario": "2026-11-22T12:00:00Z"},
            "no object",
        ],
    });
    world.proxy.substitute(Substitute::json(200, &page));
    let page = world.client.list_pix(&day()).await.unwrap();
    assert_eq!((page.pix, page.pages, page.total), (vec![good], 3, None));
    let ids: Vec<_> = page.malformed.iter().map(|item| item.end_to_end_id.as_deref()).collect();
    assert_eq!(ids, [Some("E1"), None]);
    assert_eq!(page.malformed[0].reason.field, "valor");
}

#[tokio::test]
async fn a_page_without_pagination_or_with_another_number_is_malformed() {
    let world = World::start().await;
    let paging = |paging| json!({"parametros": {"paginacao": paging}, "pix": []});
    for body in [
        json!({"parametros": {}, "pix": []}),
        json!({"parametros": {"paginacao": {"quantidadeDePaginas": 1}}}),
        paging(json!({})),
        paging(json!({"quantidadeDePaginas": -1})),
        // A bank that ignores the number of the page would repeat the first one.
        paging(json!({"quantidadeDePaginas": 2, "paginaAtual": 0})),
    ] {
        world.proxy.substitute(Substitute::json(200, &body));
        let outcome = world.client.list_pix(&PixQuery { page: 1, ..day() }).await;
        assert!(matches!(outcome, Err(ApiError::Malformed(_))), "{body}: {outcome:?}");
    }
}

#[tokio::test]
async fn the_size_of_a_page_is_at_most_a_thousand() {
    let world = World::start().await;
    for (page_size, expected) in [(0, "1"), (MAX_PAGE_SIZE, "1000"), (u32::MAX, "1000")] {
        world.client.list_pix(&PixQuery { page_size, ..day() }).await.unwrap();
        let request = world.proxy.api_requests().pop().unwrap();
        assert_eq!(request.parameter("paginacao.itensPorPagina"), Some(expected));
    }
}

#[tokio::test]
async fn additional_headers_and_parameters_are_in_each_api_request_only() {
    let world = World::start_with(Profile::Complete, |settings| {
        settings.headers = vec![("X-Account".to_owned(), "123".to_owned().into())];
    })
    .await;
    world.cob(1).await;
    assert_eq!(world.proxy.api_requests()[0].header("x-account"), Some("123"));
    assert_eq!(world.proxy.token_requests()[0].header("x-account"), None);

    let world = World::start_as(Profile::AppKey).await;
    world.client.list_pix(&day()).await.unwrap();
    let (name, value) = world.bank.behaviour().required_parameter.unwrap();
    assert_eq!(world.proxy.api_requests()[0].parameter(name), Some(value));
    assert_eq!(world.proxy.token_requests()[0].parameter(name), None);
}

#[tokio::test]
async fn a_host_name_that_does_not_exist_is_a_failed_connection() {
    let world = World::start().await;
    let mut settings = world.settings.clone();
    settings.token_url = "https://bank.invalid/token".to_owned();
    settings.additional_ca_pem = Some(crate::tls::identities().0);
    let client = Client::new(&settings, world.now()).unwrap();
    // Some machines' resolvers need longer than the usual deadline.
    let client = client.with_deadline(Duration::from_mins(1));
    let expected = ApiError::Connection("DNS name not found".to_owned());
    assert_eq!(client.get_cob(&txid(1)).await, Err(expected));
}
