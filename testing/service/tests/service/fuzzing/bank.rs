//! Generated answers of a bank to live charges. The client of the bank alone is tested in `api-pix`.

use std::cell::Cell;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::Method;
use domain::acquirer::ReportedPix;
use domain::ids::{EndToEndId, Mode, Scope};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::mutation::{Mutation, mutated, mutations};
use super::{Property, TIME_LIMIT, check, runtime};
use crate::bank_proxy::BankProxy;
use crate::invocations::try_acquirer_worker;
use crate::support::{Service, eventually, id};

/// The longest that the service takes for a charge whose bank does not create it, with the three messages of a
/// case.
const CASE_LIMIT: Duration = TIME_LIMIT.saturating_mul(4);

/// How the bank's answers change. A status of 0 is not changed.
#[derive(Clone, Debug)]
struct Edit {
    method: Method,
    status: u16,
    mutations: Vec<Mutation>,
}

fn edit() -> impl Strategy<Value = Edit> {
    let method = select(vec![Method::PUT, Method::GET, Method::PATCH]);
    let status =
        prop_oneof![4 => Just(0_u16), 1 => select(vec![200_u16, 204, 301, 400, 403, 404, 422, 429, 500])];
    (method, status, mutations()).prop_map(|(method, status, mutations)| Edit { method, status, mutations })
}

/// Changes the answers of the bank about charges and payments, but not the tokens.
fn apply(edit: &Edit, method: &Method, path: &str, status: u16, body: Bytes) -> (u16, Bytes) {
    let is_of_object = ["/cob/", "/pix"].iter().any(|part| path.contains(part));
    if *method != edit.method || !is_of_object {
        return (status, body);
    }
    let status = if edit.status == 0 { status } else { edit.status };
    let body = match serde_json::from_slice::<Value>(&body) {
        Ok(document) => mutated(&document, &edit.mutations).into(),
        Err(_) => body,
    };
    (status, body)
}

#[test]
fn any_answer_of_a_bank_creates_charges_or_refuses_them_and_keeps_the_ledger_balanced() {
    let runtime = runtime();
    let _entered = runtime.enter();
    let (service, proxy) = runtime.block_on(async {
        let service = Service::without_event_sources().await;
        let proxy = BankProxy::start(&service, |_settings| {}).await;
        (service, proxy)
    });
    let live = service.live_client();
    // A message may fail, and SQS would repeat it.
    let work = async |message: &Value| drop(try_acquirer_worker(&service.stack, message).await);
    let number = Cell::new(0_u64);
    let property = Property { source_file: file!(), cases: 30, limit: CASE_LIMIT };
    check(&property, &runtime, &edit(), &async |edit, _log| {
        // So that the circuit breaker, which an earlier case may have opened, admits a request, and that the charges
        // of earlier cases are not too many for a minute.
        service.stack.clock.advance(61_000);
        number.set(number.get() + 1);
        proxy.edit_answers(|_method, _uri, status, body| (status, body));
        let paid = live.new_charge(&format!("paid-{:06}", number.get()), &json!({"amount": 1000})).await;
        let headers = [("content-type", "application/json")];
        let pay = json!({"charge_id": id(&paid)}).to_string();
        let pix = service.raw(Method::POST, "/_local/bank/pay", &headers, pay).await.expect(200);
        let end_to_end_id: EndToEndId = pix["end_to_end_id"].as_str().unwrap().parse().unwrap();
        eventually("the bank's notification is stored", async || {
            service.store().get::<ReportedPix>(&ReportedPix::key_of(&end_to_end_id)).await.unwrap()
        })
        .await;

        let of_proxy = edit.clone();
        proxy.edit_answers(move |method, uri, status, body| {
            apply(&of_proxy, method, uri.path(), status, body)
        });
        let created = live.post_charge(&format!("order-{:06}", number.get()), &json!({"amount": 1000})).await;
        let status = created.status.as_u16();
        assert!([201, 422, 503].contains(&status), "{status} {:?}", created.body);
        if status == 201 {
            work(&json!({"expire": id(&created.body)})).await;
        } else {
            created.code();
        }
        work(&json!({"read_back": end_to_end_id})).await;
        work(&json!({"expire": id(&paid)})).await;
        live.get_charge(&paid).await;
    });
    let scope = Scope { mode: Mode::Live, ..service.scope() };
    runtime.block_on(service.check_ledger_of(&scope));
}
