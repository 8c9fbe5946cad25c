//! Tests of what the sandbox reads from a request, and of the 3-D Secure page. They need no table.

use charges::{at, paid, waiting};
use domain::charge::{Artefacts, Card, Charge, TransactionStatus};
use domain::payment_method::PaymentMethod;
use http_body_util::BodyExt;
use pages::Language;
use serde_json::{Value, json};
use shared::http::field::{Field, JsonKind, Presence};
use shared::http::json::parse_object;

use super::*;

#[path = "../../../domain/src/charge/testing.rs"]
mod charges;

fn parse(body: &Value) -> Result<SandboxPayment, Problem> {
    let body = parse_object(body.to_string().as_bytes()).unwrap();
    SandboxPayment::parse(&body, &waiting(), at(60))
}

fn rejected(body: &Value) -> Vec<String> {
    match parse(body) {
        Err(Problem::Invalid(details) | Problem::InvalidAmount(details)) => {
            details.into_iter().map(|detail| detail.message).collect()
        }
        Err(other) => panic!("{body}: {other:?}"),
        Ok(_) => panic!("{body} is valid"),
    }
}

#[test]
fn an_empty_body_pays_the_whole_charge_now_by_its_first_method() {
    let payment = parse(&json!({})).unwrap();
    assert_eq!(payment.method, PaymentMethod::Pix);
    assert_eq!((payment.amount, payment.payment_id, payment.paid_at), (None, None, None));
    assert!(matches!(payment.payer, Payer::Expected));
}

#[test]
fn a_null_payer_is_not_reported_and_a_document_is_the_reported_payer() {
    assert!(matches!(parse(&json!({"payer_tax_id": null})).unwrap().payer, Payer::NotReported));
    let reported = parse(&json!({"payer_tax_id": "29537995593"})).unwrap().payer;
    assert!(matches!(reported, Payer::Reported(document) if document == "29537995593".parse().unwrap()));
}

#[test]
fn the_method_is_read_in_either_case_and_must_be_one_of_the_charge() {
    assert_eq!(parse(&json!({"method": "pix"})).unwrap().method, PaymentMethod::Pix);
    assert_eq!(parse(&json!({"method": "PIX"})).unwrap().method, PaymentMethod::Pix);
    assert_eq!(
        rejected(&json!({"method": "BOLETO"})),
        ["`method` must be one of the charge's payment methods."]
    );
}

#[test]
fn a_payment_is_made_after_the_charge_and_at_most_a_minute_ahead() {
    // The charge was created at 0 s, and it is 60 s now.
    for seconds in [0, 60, 120] {
        let paid_at = parse(&json!({"paid_at": at(seconds).to_iso()})).unwrap().paid_at;
        assert_eq!(paid_at, Some(at(seconds)));
    }
    insta::assert_json_snapshot!(
        [-1, 121].map(|seconds| rejected(&json!({"paid_at": at(seconds).to_iso()}))),
        @r#"
        [
          [
            "`paid_at` must not be earlier than the charge's creation."
          ],
          [
            "`paid_at` must be at most one minute in the future."
          ]
        ]
        "#
    );
}

#[test]
fn every_field_that_fails_is_reported() {
    insta::assert_json_snapshot!(
        rejected(&json!({"method": 1, "payer_tax_id": "1", "end_to_end_id": "?", "paid_at": 1, "amount": 0})),
        @r#"
        [
          "`method` must be a string.",
          "`payer_tax_id` must be an 11-digit CPF or a 14-character CNPJ with valid check digits, without punctuation.",
          "`end_to_end_id` must be 1 to 64 letters and digits.",
          "`paid_at` must be an ISO 8601 date-time, such as 2026-11-21T10:00:00.000Z.",
          "`amount` must be an integer of at least 1 (minor units)."
        ]
        "#
    );
}

/// Returns the `main` element of the page for a card charge with this status, at 60 s.
async fn main_element(status: TransactionStatus, return_url: Option<&str>) -> String {
    let charge = if status == TransactionStatus::Approved { paid() } else { waiting() };
    let mut charge = Charge { status, methods: vec![PaymentMethod::CreditCard], ..charge };
    charge.artefacts = Artefacts {
        card: Some(Card { page: None, return_url: return_url.map(str::to_owned), expires_at: at(3600) }),
        ..Artefacts::default()
    };
    let response = three_d_secure::page(&charge, at(60), Language::Portuguese);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let page = String::from_utf8(body.to_vec()).unwrap();
    let (_, main) = page.split_once("</strong></p>").unwrap();
    main.split_once("</main>").unwrap().0.to_owned()
}

#[tokio::test]
async fn the_3_d_secure_page_offers_the_next_step_and_leads_back_at_the_end() {
    use TransactionStatus::{Approved, Expired, Processing, Refused, WaitingPayment};
    let shop = Some("https://loja.example/pedido?a=1&b=2");
    let mut pages = Vec::new();
    for (status, return_url) in
        [(WaitingPayment, shop), (Processing, shop), (Approved, shop), (Refused, None), (Expired, None)]
    {
        pages.push(main_element(status, return_url).await);
    }
    insta::assert_json_snapshot!(pages, @r#"
    [
      "<div class=\"card\"><h1>Pagar com cartão</h1><p class=\"big\">R$ 10,00</p><p>Este é o cartão de teste: nenhum número é pedido. Continue para a autenticação do emissor.</p><form class=\"actions\" method=\"post\"><button name=\"step\" value=\"begin\">Continuar</button></form></div>",
      "<div class=\"card\"><h1>Autenticação 3-D Secure</h1><p class=\"big\">R$ 10,00</p><p>Aqui o emissor do cartão pergunta se foi você. Escolha o que o titular responde.</p><form class=\"actions\" method=\"post\"><button name=\"step\" value=\"approve\">Aprovar</button><button class=\"danger\" name=\"step\" value=\"decline\">Recusar</button></form></div>",
      "<div class=\"card\"><h1>Pagamento aprovado</h1><p class=\"big\">R$ 10,00</p><p><a class=\"btn\" href=\"https://loja.example/pedido?a=1&amp;b=2\">Voltar à loja</a></p></div>",
      "<div class=\"card\"><h1>Pagamento recusado</h1><p class=\"big\">R$ 10,00</p><p>Você já pode fechar esta página.</p></div>",
      "<div class=\"card\"><h1>Esta cobrança não pode mais ser paga com cartão</h1><p class=\"big\">R$ 10,00</p><p>Você já pode fechar esta página.</p></div>"
    ]
    "#);
}

fn accepts<K: JsonKind>(field: &Field<K>) -> &'static str {
    let accepted = |json: &str| {
        let body = parse_object(format!("{{\"value\": {json}}}").as_bytes()).unwrap();
        field.kind.read(&body["value"]).is_ok()
    };
    assert!(accepted(field.example), "{}", field.name);
    if let Presence::DefaultsTo(default) = field.presence {
        assert!(accepted(default), "{}", field.name);
    }
    field.name
}

#[test]
fn each_field_accepts_its_example_and_its_default() {
    let lists = [
        (
            bodies::PAY_BODY,
            vec![
                accepts(&bodies::METHOD),
                accepts(&bodies::AMOUNT),
                accepts(&bodies::PAYER_TAX_ID),
                accepts(&bodies::PAYER_NAME),
                accepts(&bodies::END_TO_END_ID),
                accepts(&bodies::PAID_AT),
            ],
        ),
        (bodies::FAIL_BODY, vec![accepts(&bodies::REASON), accepts(&bodies::CODE)]),
        (bodies::REVIEW_BODY, vec![accepts(&bodies::REVIEW_DECISION)]),
        (bodies::RESOLVE_REFUND_BODY, vec![accepts(&bodies::REFUND_STATUS)]),
        (bodies::RESOLVE_CASE_BODY, vec![accepts(&bodies::CASE_DECISION)]),
    ];
    for (list, accepted) in lists {
        assert_eq!(list.iter().map(|field| field.name()).collect::<Vec<_>>(), accepted);
    }
}
