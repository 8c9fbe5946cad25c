//! Tests of what a bank's refusals do: those of a charge fail it, those of the connection raise the alarm. A
//! connection keeps its charges when its settings change.

use std::time::Duration;

use axum::body::Bytes;
use axum::http::{Method, Uri};
use bank::{Cents, FaultKind, PayRequest};
use domain::ids::ChargeId;
use domain::wallet::ReturnStatus;
use serde_json::{Value, json};

use crate::bank_books::Fates;
use crate::bank_proxy::{BankProxy, CACHED_SECONDS};
use crate::live_charges::Live;
use crate::support::{CapturedLog, Service, eventually, wait_until};

/// Answers each `PUT /cob` with this status and body, as if the bank had not created the cob.
fn refuse_cobs(proxy: &BankProxy, status: u16, body: &'static str) {
    proxy.edit_answers(move |method: &Method, uri: &Uri, answered, bytes| match *method {
        Method::PUT if uri.path().contains("/cob/") => (status, Bytes::from(body)),
        Method::GET if uri.path().contains("/cob/") => (404, Bytes::from("{}")),
        _ => (answered, bytes),
    });
}

#[tokio::test]
async fn a_refusal_of_the_connection_raises_the_alarm_and_one_of_the_charge_fails_it_at_once() {
    let (live, proxy) = BankProxy::start_with_service().await;
    let connection = live.sweep_row().await.connection.to_string();
    let account = live.service.scope().account.to_string();
    for (order, (status, body, said)) in [
        (400, r#"{"type": "https://pix.bcb.gov.br/api/v2/error/CobOperacaoInvalida", "title": "Cobrança inválida.",
            "violacoes": [{"propriedade": "cob.chave", "razao": "A chave pix@loja.example é de outro usuário."}]}"#,
            "400: CobOperacaoInvalida; Cobrança inválida.; cob.chave A chave *** é de outro usuário."),
        (400, r#"{"codigo": "E17", "mensagem": "Chave 29537995593 não encontrada"}"#,
            "400: E17; Chave ***.379.955-** não encontrada"),
        (400, r#"{"codigo": "E9", "mensagem": "Recebedor inválido"}"#, "400: E9; Recebedor inválido"),
        (400, "<html>", "the bank refused the request with 400"),
        (404, r#"{"title": "Not Found"}"#, "404: Not Found"),
        (403, r#"{"detail": "Sem o escopo cob.write"}"#, "403: Sem o escopo cob.write"),
        (401, r#"{"error": "invalid_token", "error_description": "revoked"}"#, "401: invalid_token; revoked"),
    ]
    .into_iter()
    .enumerate()
    {
        refuse_cobs(&proxy, status, body);
        let log = CapturedLog::start();
        let key = format!("order-{order:05}");
        let refused = live.client.post_charge(&key, &json!({"amount": 1000})).await;
        assert_eq!(refused.problem(), (503, "api_error", "service_unavailable"), "{body}");
        let text = log.text();
        let alarm = text.lines().find(|line| line.contains("ERROR") && line.contains("check-acquirer"));
        let alarm = alarm.unwrap_or_else(|| panic!("{text}"));
        for part in [said, &connection, &account] {
            assert!(alarm.contains(part), "{part}: {alarm}");
        }
        proxy.edit_answers(|_, _, status, bytes| (status, bytes));
        let charge = live.create(&key, &json!({"amount": 1000})).await;
        assert_eq!(charge["status"], "pending", "{body}");
    }

    // A refusal of the charge, in every format.
    for (order, (status, body, code, reason)) in [
        (
            400,
            r#"{"type": "https://pix.bcb.gov.br/api/v2/error/CobOperacaoInvalida", "violacoes": [
            {"propriedade": "cob.devedor.cpf", "razao": "O CPF 29537995593 não existe."}]}"#,
            "CobOperacaoInvalida",
            "O CPF ***.379.955-** não existe.",
        ),
        (400, r#"{"codigo": "E42", "mensagem": "Valor acima do limite"}"#, "E42", "Valor acima do limite"),
        (422, r#"{"erros": [{"campo": "valor", "mensagem": "inválido"}]}"#, "422", "inválido"),
    ]
    .into_iter()
    .enumerate()
    {
        refuse_cobs(&proxy, status, body);
        let charge = live.create(&format!("refused-{order:05}"), &json!({"amount": 1000})).await;
        assert_eq!(charge["status"], "failed", "{body}");
        let failure = &charge["metadata"]["failure"];
        assert_eq!(
            (&failure["reason"], &failure["providerErrorCode"]),
            (&json!(reason), &json!(code)),
            "{charge}"
        );
    }
}

#[tokio::test]
async fn a_cancellation_during_the_creation_is_no_error() {
    let (live, proxy) = BankProxy::start_with_service().await;
    proxy.delay_cobs(Duration::from_secs(4));
    let log = CapturedLog::start();
    let cancel = async {
        let id = eventually("the creation", async || {
            let requests = proxy.take_requests();
            let mut created = requests.iter().filter(|(method, _)| method == Method::PUT);
            created.find_map(|(_, uri)| ChargeId::from_txid(uri.path().rsplit('/').next()?).ok())
        })
        .await;
        live.cancel(&json!({ "id": id })).await
    };
    let body = json!({"amount": 1000});
    let (created, refused) = tokio::join!(live.client.post_charge("order-00001", &body), cancel);
    assert_eq!(created.status, 201);
    assert_eq!(refused.problem(), (503, "api_error", "service_unavailable"));
    let log = log.text();
    let errors: Vec<&str> = log.lines().filter(|line| line.contains("ERROR request{")).collect();
    assert_eq!(errors, Vec::<&str>::new());
}

#[tokio::test]
async fn a_connection_keeps_its_charges_when_its_settings_change() {
    let live = Live::start().await;
    let paid = live.paid("order-00001").await;
    let cancelled = live.create("order-00002", &json!({"amount": 1000})).await;
    let notified = live.create("order-00003", &json!({"amount": 1000})).await;
    let before = live.sweep_row().await.connection;
    // The same bank at another base URL. The former settings are gone.
    let proxy = BankProxy::start_beside_bank(&live.service, |settings| {
        settings.name = "pix".parse().unwrap();
    })
    .await;
    live.service.advance_seconds(CACHED_SECONDS).await;
    assert_eq!(live.sweep_row().await.connection, before);
    let account = live.service.scope().account;
    let all = live.service.acquirers().all(&account).await.unwrap();
    assert_eq!(all.iter().filter(|each| each.acquirer.settings.pix().is_some()).count(), 1);

    live.refund(&paid, json!({"amount": 1000, "strategy": "devolution", "idempotencyKey": "refund-00001"}))
        .await
        .expect(201);
    live.wait_for_refund(&paid, "REFUNDED").await;
    live.cancel(&cancelled).await.expect(200);
    live.pay(&notified, PayRequest::default());
    live.wait_for_status(&notified, "paid").await;
    let requests = proxy.take_requests();
    for part in ["/devolucao/", "/cob/"] {
        assert!(requests.iter().any(|(_, uri)| uri.path().contains(part)), "{part}: {requests:?}");
    }
}

#[tokio::test]
async fn after_a_429_no_cob_is_requested_until_the_bank_allows_it_and_the_merchant_knows_when() {
    // Otherwise, a sweep could use up the fault.
    let live = Live::of(Service::without_event_sources().await);
    let proxy = BankProxy::start(&live.service, |_settings| {}).await;
    live.fault(FaultKind::Http429, 1);
    let create = async |key: &str| live.client.post_charge(key, &json!({"amount": 1000})).await;
    let first = create("order-00001").await;
    assert_eq!((first.status.as_u16(), first.header("retry-after")), (503, Some("2")));
    proxy.take_requests();
    for key in ["order-00001", "order-00001", "order-00002"] {
        let answer = create(key).await;
        assert_eq!(answer.problem(), (503, "api_error", "service_unavailable"));
        assert!(["1", "2"].contains(&answer.header("retry-after").unwrap()), "{answer:?}");
    }
    let cobs = |(_, uri): &(Method, Uri)| uri.path().contains("/cob/");
    assert!(!proxy.take_requests().iter().any(cobs));
    live.service.advance_seconds(3).await;
    for key in ["order-00001", "order-00002"] {
        create(key).await.expect(201);
    }
}

/// Changes the JSON of answers to `GET` of a path that contains `part`.
fn edit_reads(proxy: &BankProxy, part: &'static str, edit: impl Fn(&mut Value) + Send + Sync + 'static) {
    proxy.edit_answers(move |method: &Method, uri: &Uri, status, bytes| {
        if *method != Method::GET || !uri.path().contains(part) || status != 200 {
            return (status, bytes);
        }
        let mut body: Value = serde_json::from_slice(&bytes).unwrap();
        edit(&mut body);
        (status, body.to_string().into())
    });
}

#[tokio::test]
async fn a_cob_that_is_paid_by_a_returned_pix_ends_although_the_bank_does_not_show_the_pix() {
    let (live, proxy) = BankProxy::start_with_service().await;
    edit_reads(&proxy, "/cob/", |cob| drop(cob.as_object_mut().unwrap().remove("pix")));
    let body = json!({"amount": 1000, "expires_in": 600});
    let [cancelled, expired] =
        [live.create("order-00001", &body).await, live.create("order-00002", &body).await];
    for charge in [&cancelled, &expired] {
        let pix = live.pay(charge, PayRequest { amount: Cents::new(999), ..PayRequest::default() });
        wait_until("the return", async || {
            let row = live.incoming(&pix).await;
            row.is_some_and(|row| row.returned.is_some_and(|back| back.status == ReturnStatus::Returned))
        })
        .await;
        // The bank forgets what it returned.
        live.service.stack.bank.lose(&pix);
    }
    live.cancel(&cancelled).await.expect(200);
    live.service.advance_seconds(700).await;
    live.wait_for_status(&expired, "expired").await;
}

/// The txid of a Pix is optional. Only the notification and the cob name each other.
#[tokio::test]
async fn a_pix_that_the_bank_lists_without_its_txid_is_credited_to_the_charge_of_its_notification() {
    let (live, proxy) = BankProxy::start_with_service().await;
    edit_reads(&proxy, "/pix", |body| {
        body.as_object_mut().unwrap().remove("txid");
        for pix in body["pix"].as_array_mut().into_iter().flatten() {
            pix.as_object_mut().unwrap().remove("txid");
        }
    });
    let charge = live.create("order-00001", &json!({"amount": 1000})).await;
    live.pay(&charge, PayRequest::default());
    live.wait_for_status(&charge, "paid").await;

    // The sweep finds it before its notification.
    let late = live.create("order-00002", &json!({"amount": 1000})).await;
    live.fault(FaultKind::LateNotification, 1);
    live.pay(&late, PayRequest::default());
    live.sweep_after(400).await;
    wait_until("it waits for an operator", async || live.unapplied().await.len() == 1).await;
    live.service.advance_seconds(31 * 60).await;
    live.wait_for_status(&late, "paid").await;
    assert_eq!(live.check_books().await, Fates::credited(2));
}
