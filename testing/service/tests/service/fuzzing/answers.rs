//! Generated answers of a merchant's server to a webhook.

use std::cell::{Cell, RefCell};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::{Property, StreamReader, TIME_LIMIT, check, runtime};
use crate::invocations::{dispatch_records, run_webhook_worker};
use crate::support::{Service, id};

const ODD_HEADERS: [&str; 20] = [
    "Retry-After: 0",
    "Retry-After: -1",
    "Retry-After: 1e3",
    "Retry-After: 86401",
    "Retry-After: 18446744073709551616",
    "Retry-After: Thu, 01 Jan 1970 00:00:00 GMT",
    "Retry-After: Fri, 31 Dec 9999 23:59:59 GMT",
    "Retry-After: \u{e9}",
    "Retry-After:",
    "Content-Encoding: gzip",
    "Content-Encoding: \u{1}",
    "Content-Type: text/html; charset=iso-8859-1",
    "Location: http://169.254.169.254/",
    "Connection: close",
    "Connection: upgrade",
    "Transfer-Encoding: chunked",
    "Content-Length: 1",
    "Content-Length: -1",
    "Set-Cookie: a=b",
    "no header",
];

/// An answer of a server, which then closes the connection.
#[derive(Clone, Debug)]
struct Answer {
    status: u16,
    headers: Vec<&'static str>,
    body: Vec<u8>,
    /// Changes of the bytes: one is replaced, or the rest is cut off.
    set_byte: Option<(Index, u8)>,
    cut: Option<Index>,
}

impl Answer {
    fn bytes(&self) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {} Reason\r\nContent-Length: {}\r\n", self.status, self.body.len());
        for header in &self.headers {
            head.push_str(header);
            head.push_str("\r\n");
        }
        let mut bytes = [head.as_bytes(), b"\r\n", &self.body].concat();
        if let Some((at, byte)) = &self.set_byte {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        if let Some(at) = &self.cut {
            bytes.truncate(at.index(bytes.len()));
        }
        bytes
    }

    fn is_well_formed(&self) -> bool {
        self.headers.is_empty() && self.set_byte.is_none() && self.cut.is_none()
    }
}

fn answer() -> impl Strategy<Value = Answer> {
    let status = prop_oneof![3 => select(vec![200_u16, 204, 301, 429, 500, 503]), 1 => 100_u16..1_000];
    let headers = prop_oneof![1 => Just(Vec::new()), 2 => vec(select(&ODD_HEADERS[..]), 1..3)];
    let body = prop_oneof![
        4 => vec(any::<u8>(), 0..80),
        1 => any::<String>().prop_map(String::into_bytes),
        1 => (0_usize..200_000).prop_map(|length| vec![0xc3; length]),
    ];
    let rarely = |strategy| prop::option::weighted(0.15, strategy);
    (
        status,
        headers,
        body,
        rarely(any::<(Index, u8)>().boxed()),
        prop::option::weighted(0.15, any::<Index>()),
    )
        .prop_map(|(status, headers, body, set_byte, cut)| Answer {
            status,
            headers,
            body,
            set_byte,
            cut,
        })
}

/// Answers one request on this listener.
async fn answer_once(listener: TcpListener, answer: Vec<u8>) {
    let Ok((mut stream, _)) = listener.accept().await else { return };
    let mut request = Vec::new();
    // The whole request, because bytes that are not read would reset the connection.
    while !is_complete(&request) {
        if stream.read_buf(&mut request).await.unwrap_or_default() == 0 {
            return;
        }
    }
    // The client may have closed the connection, for example after too many bytes.
    let _ = stream.write_all(&answer).await;
    let _ = stream.shutdown().await;
}

fn is_complete(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_ascii_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
    body.len() >= length.parse::<usize>().unwrap()
}

/// The client of the tests checks that the delivery is one of the description, also with the stored part of the
/// body.
#[test]
fn any_answer_of_a_receiver_delivers_the_webhook_or_leads_to_a_retry() {
    let runtime = runtime();
    let _entered = runtime.enter();
    let service = runtime.block_on(Service::without_event_sources());
    let (stream, endpoint) = (StreamReader::default(), RefCell::new(None::<String>));
    let delivered = Cell::new(0);
    let property = Property { source_file: file!(), cases: 40, limit: TIME_LIMIT };
    check(&property, &runtime, &answer(), &async |answer, log| {
        // Another server for each case, because a server that fails has no attempts for a while.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let earlier = endpoint.borrow_mut().take();
        if let Some(earlier) = earlier {
            service.delete(&format!("/v1/webhooks/endpoints/{earlier}")).await.expect(200);
        }
        let registered = service.register_endpoint(&url, &["charge.created"]).await;
        *endpoint.borrow_mut() = Some(id(&registered).to_owned());
        service.charge().await;
        dispatch_records(&service.stack, &stream.new_records(&service)).await;
        let delivery = service.get("/v1/webhooks/deliveries?limit=1").await.expect(200)["data"][0].clone();
        assert_eq!((&delivery["status"], &delivery["endpointId"]), (&json!("PENDING"), &registered["id"]));

        let server = tokio::spawn(answer_once(listener, answer.bytes()));
        run_webhook_worker(&service.stack, &delivery).await;
        server.abort();
        let path = format!("/v1/webhooks/deliveries/{}", id(&delivery));
        let delivery = service.get(&path).await.expect(200);
        let is_delivered = delivery["status"] == "DELIVERED";
        let is_retried = delivery["status"] == "PENDING" && delivery["nextRetryAt"].is_string();
        assert!(is_delivered != is_retried, "{delivery}\n{}", log.text());
        assert_eq!(delivery["attempts"], 1, "{delivery}");
        if answer.is_well_formed() && answer.status >= 200 {
            assert_eq!(is_delivered, answer.status < 300, "{delivery}\n{}", log.text());
        }
        delivered.set(delivered.get() + i32::from(is_delivered));
    });
    assert!(delivered.get() > 0);
}
