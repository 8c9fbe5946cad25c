//! A server on loopback that gives the next answer of a list.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use acquirer_kit::{Connector as _, KitError, Priority};
use btcpay_client::{BtcpayConnector, Client, ConnectionSettings};
use domain::charge::transition::Finalised;
use domain::charge::{Charge, FailureReason};
use domain::snapshot::RemoteState;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{KEY, START_S, STORE, at, brl, create, waiting};

#[derive(Default)]
struct State {
    replies: VecDeque<(u16, String)>,
    requests: Vec<String>,
}

struct World {
    connector: BtcpayConnector,
    state: Arc<Mutex<State>>,
}

impl World {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/btcpay/", listener.local_addr().unwrap());
        let state: Arc<Mutex<State>> = Arc::default();
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let shared = Arc::clone(&shared);
                let service = service_fn(move |request| answer(Arc::clone(&shared), request));
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        let settings = ConnectionSettings {
            base_url,
            store: STORE.parse().unwrap(),
            api_key: KEY.to_owned().into(),
            requests_per_second: None,
        };
        let connector = BtcpayConnector::new(Client::new(&settings, Arc::new(|| at(60))).unwrap());
        Self { connector, state }
    }

    #[expect(clippy::needless_pass_by_value, reason = "calls are shorter")]
    fn reply(&self, status: u16, body: impl ToString) -> &Self {
        self.state.lock().unwrap().replies.push_back((status, body.to_string()));
        self
    }

    /// The requests so far: method, path and body.
    fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unwrap().requests)
    }
}

async fn answer(
    state: Arc<Mutex<State>>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let (head, body) = request.into_parts();
    let body = String::from_utf8(body.collect().await?.to_bytes().to_vec()).unwrap();
    assert_eq!(head.headers["authorization"], format!("token {KEY}"));
    let mut state = state.lock().unwrap();
    let path = head.uri.to_string().replace(STORE, "STORE");
    state.requests.push(format!("{} {path} {body}", head.method).trim_end().to_owned());
    let (status, body) = state.replies.pop_front().unwrap();
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    Ok(response)
}

fn invoice(charge: &Charge, status: &str, additional: &str) -> Value {
    json!({
        "id": "inv1", "storeId": STORE, "amount": "100.0", "paidAmount": "0.0", "currency": "BRL",
        "expirationTime": START_S + 3_600, "monitoringExpiration": START_S + 7_200, "status": status,
        "additionalStatus": additional, "metadata": {"orderId": charge.id, "itemDesc": null}, "unknown": 1,
    })
}

fn methods(address: Option<&str>) -> Value {
    json!([{
        "paymentMethodId": "BTC-CHAIN", "destination": address, "amount": "0.0002", "due": "0.0002",
        "paymentMethodFee": "0.0", "payments": [],
    }])
}

#[tokio::test]
async fn a_wrong_address_refuses_the_charge_and_ends_the_invoice() {
    let world = World::start().await;
    let wrong = [
        "bc1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3qccfmv4",
        "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t",
    ];
    for address in [Some(wrong[0]), Some(wrong[1]), None] {
        world
            .reply(200, invoice(&brl(), "New", "None"))
            .reply(200, methods(address))
            .reply(200, invoice(&brl(), "Invalid", "Marked"));
        let refused = create(&world.connector, &brl(), true).await.unwrap();
        assert_eq!(refused, Finalised::Refused(FailureReason::AcquirerRefused));
        let expected = r#"POST /btcpay/api/v1/stores/STORE/invoices/inv1/status {"status":"Invalid"}"#;
        assert_eq!(world.requests().pop().unwrap(), expected);
    }
}

#[tokio::test]
async fn an_invoice_that_is_not_the_charges_is_odd() {
    let world = World::start().await;
    for (field, value) in
        [("amount", "1000.00"), ("amount", "99.999"), ("currency", "USD"), ("storeId", "other")]
    {
        let mut other = invoice(&brl(), "New", "None");
        other[field] = value.into();
        world.reply(200, &other);
        let error = create(&world.connector, &brl(), true).await.unwrap_err();
        assert!(matches!(&error, KitError::Odd(odd) if odd.id == "inv1"), "{field}: {error:?}");
        // It is not created a second time.
        world.reply(200, json!([other]));
        let error = create(&world.connector, &brl(), false).await.unwrap_err();
        assert!(matches!(&error, KitError::Unavailable(_)), "{field}: {error:?}");
        world.reply(200, json!([other]));
        let read = world.connector.read(&brl(), false).await.unwrap().unwrap();
        assert!(read.is_partial && read.odd[0].id == "inv1", "{field}: {read:?}");
    }
}

#[tokio::test]
async fn an_entry_that_cannot_be_read_is_set_aside() {
    let world = World::start().await;
    let mut unreadable = invoice(&brl(), "Settled", "None");
    unreadable["monitoringExpiration"] = Value::Null;
    let mut foreign = invoice(&brl(), "Settled", "None");
    foreign["metadata"] = json!({"orderId": 7});
    world.reply(200, json!([unreadable, foreign, invoice(&brl(), "Processing", "None")]));
    let changes = world.connector.changes(at(0), None).await.unwrap();
    assert_eq!((changes.charges, changes.odd[0].id.as_str()), (vec![brl().id], "inv1"));
    world.reply(200, json!([unreadable, invoice(&brl(), "Processing", "None")]));
    let read = world.connector.read(&brl(), false).await.unwrap().unwrap();
    assert_eq!((&read.state, read.is_partial, read.odd.len()), (&RemoteState::InProgress, true, 1));
    for body in [json!([unreadable]), json!({"code": 1}), json!([[]])] {
        world.reply(200, &body);
        let page = world.connector.changes(at(0), None).await;
        assert!(page.is_err() || page.is_ok_and(|page| page.odd.len() == 1 && page.charges.is_empty()));
    }
}

#[tokio::test]
async fn an_invoice_that_changes_while_it_is_closed_is_read() {
    let world = World::start().await;
    world.reply(200, invoice(&brl(), "New", "None"));
    world.reply(200, methods(Some("bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4")));
    let charge = waiting(brl(), create(&world.connector, &brl(), true).await.unwrap());
    world.requests();
    world
        .reply(200, json!([invoice(&charge, "New", "None")]))
        .reply(
            422,
            json!([{"path": "status", "message": "Status can only be marked within certain conditions."}]),
        )
        .reply(200, invoice(&charge, "Processing", "None"));
    let closed = world.connector.close(&charge, Priority::Create).await.unwrap().unwrap();
    assert_eq!(closed.state, RemoteState::InProgress);
    let expected = [
        format!("GET /btcpay/api/v1/stores/STORE/invoices?orderId={}&skip=0&take=100", charge.id),
        r#"POST /btcpay/api/v1/stores/STORE/invoices/inv1/status {"status":"Invalid"}"#.to_owned(),
        "GET /btcpay/api/v1/stores/STORE/invoices/inv1".to_owned(),
    ];
    assert_eq!(world.requests(), expected);
    // The merchant archived the invoice, or its server was set up anew.
    world.reply(200, "[]").reply(200, invoice(&charge, "Expired", "None"));
    assert_eq!(world.connector.read(&charge, false).await.unwrap().unwrap().state, RemoteState::Expired);
    world
        .reply(200, "[]")
        .reply(404, json!({"code": "invoice-not-found", "message": "The invoice was not found"}));
    assert_eq!(world.connector.read(&charge, false).await, Ok(None));
}

#[tokio::test]
async fn an_answer_of_a_proxy_says_nothing() {
    let world = World::start().await;
    for (status, body) in
        [(404, "<html>"), (302, ""), (400, "Bad Request"), (502, ""), (200, "<html>"), (403, "")]
    {
        world.reply(status, body);
        let created = create(&world.connector, &brl(), true).await;
        assert!(matches!(created, Err(KitError::Unavailable(_))), "{status}: {created:?}");
    }
    world.reply(422, json!([{"path": "Amount", "message": "The amount should less than 1."}]));
    let refused = create(&world.connector, &brl(), true).await.unwrap();
    assert_eq!(refused, Finalised::Refused(FailureReason::AcquirerRefused));
    world.reply(422, json!([{"path": "checkout.paymentMethods[0]", "message": "Invalid PaymentMethodId"}]));
    assert!(matches!(create(&world.connector, &brl(), true).await, Err(KitError::Unavailable(_))));
}
