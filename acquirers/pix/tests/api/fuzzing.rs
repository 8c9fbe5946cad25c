//! Generated answers of a bank. Whatever the answer is, an operation ends in time with a result or an error. An
//! answer that is not a success is never one, and no error shows a document or a secret.

use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use api_pix::{ApiError, NewPixOut, Priority};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use strum::VariantArray;

use crate::mutation::{Mutation, mutated, mutations};
use crate::proxy::Substitute;
use crate::support::{CPF, KEY, SECRET, World, day, id, key, new_cob, reais, txid};

const END_TO_END_ID: &str = "E9999900420261122120000000000099";

/// The time limit of an operation. The proxy answers at once.
const DEADLINE: Duration = Duration::from_secs(10);

const HEADERS: [(&str, &str); 10] = [
    ("content-type", "application/json"),
    ("content-type", "application/problem+json"),
    ("content-type", "text/html"),
    ("content-type", "application/json; charset=utf-16"),
    ("retry-after", "0"),
    ("retry-after", "-1"),
    ("retry-after", "18446744073709551616"),
    ("retry-after", "Fri, 31 Dec 9999 23:59:59 GMT"),
    ("content-encoding", "gzip"),
    ("location", "http://169.254.169.254/"),
];

/// An operation of the client.
#[derive(Clone, Copy, Debug, VariantArray)]
enum Operation {
    PutCob,
    GetCob,
    RemoveCob,
    GetPix,
    ListPix,
    PutDevolucao,
    GetDevolucao,
    PutWebhook,
    GetWebhook,
    DeleteWebhook,
    PutPixOut,
    GetPixOut,
    CheckToken,
}

impl Operation {
    /// Returns a valid answer.
    fn answer(self) -> Value {
        let devolucao = json!({
            "id": "r1", "rtrId": "D9999900420261122120000000000099", "valor": "1.00", "natureza": "ORIGINAL",
            "status": "EM_PROCESSAMENTO", "horario": {"solicitacao": "2026-11-22T12:00:00.000Z"},
        });
        let pix = json!({
            "endToEndId": END_TO_END_ID, "txid": txid(1), "valor": "10.00", "chave": KEY,
            "horario": "2026-11-22T12:00:00.000Z", "pagador": {"cpf": CPF, "nome": "Maria"},
            "devolucoes": [devolucao],
        });
        match self {
            Self::PutCob | Self::GetCob | Self::RemoveCob => json!({
                "txid": txid(1), "status": "ATIVA", "revisao": 0,
                "calendario": {"criacao": "2026-11-22T12:00:00.000Z", "expiracao": 3600},
                "devedor": {"cpf": CPF, "nome": "Maria"}, "valor": {"original": "10.00"}, "chave": KEY,
                "loc": {"id": 1, "location": "pix.example.com/qr/1", "tipoCob": "cob"},
                "location": "pix.example.com/qr/1", "pixCopiaECola": "000201", "pix": [pix],
            }),
            Self::GetPix => pix,
            Self::ListPix => json!({
                "parametros": {
                    "inicio": "2026-11-22T00:00:00Z", "fim": "2026-11-23T00:00:00Z",
                    "paginacao": {
                        "paginaAtual": 0, "itensPorPagina": 100, "quantidadeDePaginas": 1,
                        "quantidadeTotalDeItens": 1,
                    },
                },
                "pix": [pix],
            }),
            Self::PutDevolucao | Self::GetDevolucao => devolucao,
            Self::PutWebhook | Self::GetWebhook | Self::DeleteWebhook => {
                json!({"webhookUrl": "https://pay.example.com/hooks", "chave": KEY, "criacao": "2026-11-22T12:00:00Z"})
            }
            Self::PutPixOut | Self::GetPixOut => json!({
                "idEnvio": "out1", "id": "out1", "e2eId": END_TO_END_ID, "endToEndId": END_TO_END_ID, "valor": "1.00",
                "status": "EM_PROCESSAMENTO", "chave": KEY, "horario": {"solicitacao": "2026-11-22T12:00:00.000Z"},
            }),
            Self::CheckToken => {
                json!({"access_token": SECRET, "token_type": "Bearer", "expires_in": 3600, "scope": "cob.write"})
            }
        }
    }

    /// Whether the bank may answer 404, which means that there is no such object.
    fn may_be_absent(self) -> bool {
        matches!(
            self,
            Self::GetCob
                | Self::GetPix
                | Self::GetDevolucao
                | Self::GetWebhook
                | Self::DeleteWebhook
                | Self::GetPixOut
        )
    }

    /// Runs the operation. Returns the error.
    async fn run(self, world: &World) -> Result<(), ApiError> {
        let client = world.client.at(Priority::Settle).with_deadline(DEADLINE);
        let payment = id(END_TO_END_ID);
        let webhook = "https://pay.example.com/hooks";
        match self {
            Self::PutCob => read(client.put_cob(&txid(1), &new_cob()), |cob| cob.txid == txid(1)).await,
            Self::GetCob => {
                read(client.get_cob(&txid(1)), |cob| cob.as_ref().is_none_or(|cob| cob.txid == txid(1))).await
            }
            Self::RemoveCob => read(client.remove_cob(&txid(1)), |cob| cob.txid == txid(1)).await,
            Self::GetPix => {
                let is_same =
                    |pix: &Option<api_pix::Pix>| pix.as_ref().is_none_or(|pix| pix.end_to_end_id == payment);
                read(client.get_pix(&payment), is_same).await
            }
            Self::ListPix => read(client.list_pix(&day()), |_| true).await,
            Self::PutDevolucao => {
                read(client.put_devolucao(&payment, "r1", reais(1), None), |found| found.id == "r1").await
            }
            Self::GetDevolucao => {
                let found = client.get_devolucao(&payment, "r1");
                read(found, |found| found.as_ref().is_none_or(|found| found.id == "r1")).await
            }
            Self::PutWebhook => read(client.put_webhook(&key(KEY), webhook), |()| true).await,
            Self::GetWebhook => read(client.get_webhook(&key(KEY)), |_| true).await,
            Self::DeleteWebhook => read(client.delete_webhook(&key(KEY)), |()| true).await,
            Self::PutPixOut => {
                let pix_out = NewPixOut { amount: reais(1), key: key(KEY), description: None };
                read(client.put_pix_out("out1", &pix_out), |_| true).await
            }
            Self::GetPixOut => read(client.get_pix_out("out1"), |_| true).await,
            Self::CheckToken => read(client.check_token(), |_| true).await,
        }
    }
}

/// Awaits a result, and checks that it is the object of the request.
async fn read<T: Debug>(
    result: impl Future<Output = Result<T, ApiError>>,
    is_of_request: impl FnOnce(&T) -> bool,
) -> Result<(), ApiError> {
    let found = result.await?;
    assert!(is_of_request(&found), "another object: {found:?}");
    Ok(())
}

/// What the bank does.
#[derive(Clone, Debug)]
enum Answer {
    /// Answers with the status, headers and the changed answer or problem.
    Json {
        status: u16,
        headers: Vec<(&'static str, &'static str)>,
        is_problem: bool,
        mutations: Vec<Mutation>,
    },
    /// Answers with these bytes.
    Bytes(u16, Vec<u8>),
    /// Closes the connection.
    Close,
}

impl Answer {
    fn substitute(&self, operation: Operation) -> Substitute {
        match self {
            Self::Json { status, headers, is_problem, mutations } => {
                let problem = json!({
                    "type": format!("https://pix.bcb.gov.br/api/v2/error/{CPF}"), "title": CPF, "status": status,
                    "detail": format!("CPF {CPF}"),
                    "violacoes": [{"razao": CPF, "propriedade": CPF, "valor": CPF}],
                });
                let document = if *is_problem { problem } else { operation.answer() };
                let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
                Substitute::Answer(*status, headers, mutated(&document, mutations).into())
            }
            Self::Bytes(status, bytes) => Substitute::Answer(*status, Vec::new(), bytes.clone().into()),
            Self::Close => Substitute::Close,
        }
    }

    /// Returns the status; `None`: there is no answer.
    fn status(&self) -> Option<u16> {
        match self {
            Self::Json { status, .. } | Self::Bytes(status, _) => Some(*status),
            Self::Close => None,
        }
    }
}

fn answer() -> impl Strategy<Value = Answer> {
    let status = || {
        prop_oneof![
            5 => select(vec![200_u16, 201]),
            2 => select(vec![202_u16, 204, 301, 304, 400, 403, 404, 408, 422, 429, 500, 503]),
            1 => 200_u16..1_000,
        ]
    };
    let headers = prop_oneof![1 => Just(vec![HEADERS[0]]), 1 => vec(select(&HEADERS[..]), 0..3)];
    prop_oneof![
        12 => (status(), headers, prop::bool::weighted(0.2), mutations()).prop_map(
            |(status, headers, is_problem, mutations)| Answer::Json { status, headers, is_problem, mutations }
        ),
        1 => (status(), vec(any::<u8>(), 0..60)).prop_map(|(status, bytes)| Answer::Bytes(status, bytes)),
        1 => Just(Answer::Close),
    ]
}

impl World {
    /// Answers the next request of an operation in place of the bank.
    fn substitute_for(&self, operation: Operation, answer: &Answer) {
        let substitute = answer.substitute(operation);
        match operation {
            Operation::CheckToken => self.proxy.substitute_token(substitute),
            _ => self.proxy.substitute(substitute),
        }
    }
}

/// Answers an operation in place of the bank. Checks the outcome.
async fn check(operation: Operation, answer: &Answer) {
    let world = World::start().await;
    world.substitute_for(operation, answer);
    let outcome = operation.run(&world).await;
    if let Some(status) = answer.status()
        && status != 401
        && !(200..300).contains(&status)
    {
        let is_absent = status == 404 && operation.may_be_absent();
        assert!(outcome.is_err() || is_absent, "{status} is a success");
    }
    if let Err(error) = outcome {
        assert_ne!(error, ApiError::Timeout);
        for text in [error.to_string(), format!("{error:?}")] {
            assert!(!text.contains(CPF) && !text.contains(SECRET), "{text}");
        }
    }
}

/// Runs a future in a runtime of its own, which ends with the bank and its connections.
fn run(future: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future);
}

#[test]
fn any_answer_of_a_bank_is_a_result_or_an_error() {
    let mut runner = TestRunner::new(Config::with_source_file(file!()));
    let outcome = runner.run(&vec((select(Operation::VARIANTS), answer()), 1..4), |answers| {
        run(async {
            for (operation, answer) in &answers {
                check(*operation, answer).await;
            }
        });
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

#[test]
fn an_unchanged_answer_of_each_operation_is_a_success() {
    for operation in Operation::VARIANTS {
        let headers = vec![HEADERS[0]];
        let answer = Answer::Json { status: 200, headers, is_problem: false, mutations: Vec::new() };
        run(async {
            let world = World::start().await;
            world.substitute_for(*operation, &answer);
            assert_eq!(operation.run(&world).await, Ok(()), "{operation:?}");
        });
    }
}
