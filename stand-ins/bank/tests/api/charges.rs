//! Tokens, cobs, payments and reads.

use bank::{Cents, PayError, PayRequest, Payer, ReportedTxid};
use serde_json::{Value, json};

use crate::support::{CPF, KEY, PERIOD, World, cob, txid};

fn path(number: u32) -> String {
    format!("/cob/{}", txid(number))
}

/// Returns the properties that the violations of an answer name.
fn properties(body: &Value) -> Vec<&str> {
    let violations = body["violacoes"].as_array().unwrap();
    violations.iter().map(|violation| violation["propriedade"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_token_is_required_expires_and_has_scopes() {
    let mut world = World::start().await;
    world.api.create_cob(1).await;

    let valid = std::mem::replace(&mut world.api.token, "unknown".to_owned());
    assert_eq!(world.api.get(&path(1)).await.expect(401)["status"], 401);
    world.api.token = valid;
    world.advance_ms(3_599_999);
    world.api.get(&path(1)).await.expect(200);
    world.advance_ms(1);
    world.api.get(&path(1)).await.expect(401);

    world.api.request_token("wrong", None).await.expect(401);
    let token = world.api.request_token("secret", Some("cob.read other.scope")).await.expect(200);
    assert_eq!((&token["scope"], &token["expires_in"]), (&json!("cob.read"), &json!(3600)));
    world.api.token = token["access_token"].as_str().unwrap().to_owned();
    world.api.get(&path(1)).await.expect(200);
    world.api.put(&path(2), &cob()).await.expect(403);
    world.api.get(&format!("/pix?{PERIOD}")).await.expect(403);
}

#[tokio::test]
async fn a_new_cob_has_what_a_payer_needs() {
    let world = World::start().await;
    let created = world.api.create_cob(1).await;
    assert_eq!(created["status"], "ATIVA");
    assert_eq!(created["revisao"], 0);
    assert_eq!(created["calendario"], json!({"criacao": "2026-11-22T12:00:00.000Z", "expiracao": 3600}));
    for field in ["devedor", "valor", "chave", "solicitacaoPagador", "infoAdicionais"] {
        assert_eq!(created[field], cob()[field]);
    }
    let location = created["location"].as_str().unwrap();
    assert!(!location.contains("://") && location.len() <= 77, "{location}");
    assert_eq!(created["loc"]["location"], location);
    let code = created["pixCopiaECola"].as_str().unwrap();
    let template = format!("0014br.gov.bcb.pix25{}{location}", location.len());
    assert!(code.contains(&format!("26{}{template}", template.len())), "{code}");
    assert!(code.contains("5914Loja de Testes6009Sao Paulo62070503***6304"), "{code}");
    assert_eq!(world.api.get(&path(1)).await.expect(200), created);
}

#[tokio::test]
async fn each_change_of_a_cob_is_a_revision() {
    let world = World::start().await;
    let created = world.api.create_cob(1).await;
    assert_eq!(
        world.api.put(&path(1), &cob()).await.expect(201),
        created,
        "the same request changes nothing"
    );

    let patched = world.api.patch(&path(1), &json!({"valor": {"original": "12.50"}})).await.expect(200);
    assert_eq!((&patched["revisao"], &patched["valor"]["original"]), (&json!(1), &json!("12.50")));
    assert_eq!(patched["location"], created["location"]);
    assert_eq!(patched["devedor"], created["devedor"]);

    let mut request = cob();
    request["calendario"]["expiracao"] = json!(60);
    let put = world.api.put(&path(1), &request).await.expect(201);
    assert_eq!((&put["revisao"], &put["calendario"]["expiracao"]), (&json!(2), &json!(60)));
    assert_eq!(put["calendario"]["criacao"], created["calendario"]["criacao"]);

    let first = world.api.get(&format!("{}?revisao=0", path(1))).await.expect(200);
    assert_eq!(first, created);
    let refused = world.api.get(&format!("{}?revisao=3", path(1))).await.expect(400);
    assert_eq!(properties(&refused), ["revisao"]);
}

#[tokio::test]
async fn a_removed_cob_cannot_be_changed_or_paid() {
    let world = World::start().await;
    world.api.create_cob(1).await;
    let removal = json!({"status": "REMOVIDA_PELO_USUARIO_RECEBEDOR"});
    let both = json!({"status": "REMOVIDA_PELO_USUARIO_RECEBEDOR", "valor": {"original": "1.00"}});
    assert_eq!(properties(&world.api.patch(&path(1), &both).await.expect(400)), ["cob.status"]);
    assert_eq!(
        properties(&world.api.patch(&path(1), &json!({"status": "ATIVA"})).await.expect(400)),
        ["cob.status"]
    );
    let removed = world.api.patch(&path(1), &removal).await.expect(200);
    assert_eq!((&removed["status"], &removed["revisao"]), (&removal["status"], &json!(1)));
    world.api.patch(&path(1), &removal).await.expect(400);
    world.api.put(&path(1), &cob()).await.expect(400);
    let request = PayRequest { txid: txid(1), ..PayRequest::default() };
    assert_eq!(world.bank.pay(&request), Err(PayError::NotActive));
}

#[tokio::test]
async fn invalid_requests_are_refused_with_violations() {
    let world = World::start().await;
    for id in ["short", &"a".repeat(36), "charge-00000000000000000000001"] {
        let refused = world.api.put(&format!("/cob/{id}"), &cob()).await.expect(400);
        assert_eq!(properties(&refused), ["cob.txid"]);
    }
    let mut foreign = cob();
    foreign["chave"] = json!("loja@example.com");
    foreign["valor"] = json!({"original": "0.00"});
    let refused = world.api.put(&path(1), &foreign).await.expect(400);
    assert_eq!(properties(&refused), ["cob.valor.original", "cob.chave"]);
    assert_eq!(refused["type"], "https://pix.bcb.gov.br/api/v2/error/CobOperacaoInvalida");
    world.api.put(&path(1), &json!([])).await.expect(400);
    world.api.get(&path(1)).await.expect(404);
    world.api.patch(&path(1), &json!({"valor": {"original": "1.00"}})).await.expect(404);
    world.api.call("DELETE", &path(1), None).await.expect(405);
    world.api.get("/unknown").await.expect(404);
    world.api.put(&path(1), &json!({"chave": "a".repeat(1024 * 1024)})).await.expect(413);
}

#[tokio::test]
async fn a_client_sees_only_what_belongs_to_it() {
    let world = World::start().await;
    let end_to_end_id = world.paid_cob(1).await;
    let mut other = world.api.clone();
    other.id = "client-2".to_owned();
    other.authenticate().await;
    other.get(&path(1)).await.expect(404);
    other.get(&format!("/pix/{end_to_end_id}")).await.expect(404);
    assert_eq!(other.get(&format!("/pix?{PERIOD}")).await.expect(200)["pix"], json!([]));
    assert_eq!(other.get(&format!("/cob?{PERIOD}")).await.expect(200)["cobs"], json!([]));
    let webhook = json!({"webhookUrl": "https://loja.example/pix"});
    assert_eq!(properties(&other.put(&format!("/webhook/{KEY}"), &webhook).await.expect(400)), ["chave"]);
}

#[tokio::test]
async fn a_payment_concludes_the_cob_once() {
    let world = World::start().await;
    world.api.create_cob(1).await;
    world.advance_ms(1_000);
    let paid = world.pay(1);
    assert_eq!((paid.txid.as_deref(), paid.amount.to_string()), (Some(txid(1).as_str()), "10.00".to_owned()));
    assert_eq!(paid.horario, "2026-11-22T12:00:01.000Z");

    let concluded = world.api.get(&path(1)).await.expect(200);
    let pix = world.api.get(&format!("/pix/{}", paid.end_to_end_id)).await.expect(200);
    assert_eq!((&concluded["status"], &concluded["revisao"]), (&json!("CONCLUIDA"), &json!(0)));
    assert_eq!(concluded["pix"], json!([pix]));
    assert_eq!(
        pix,
        json!({
            "endToEndId": paid.end_to_end_id,
            "txid": txid(1),
            "chave": KEY,
            "valor": "10.00",
            "componentesValor": {"original": {"valor": "10.00"}},
            "horario": paid.horario,
            "pagador": {"cpf": CPF, "nome": "Maria da Silva"},
        })
    );

    let request = PayRequest { txid: txid(1), ..PayRequest::default() };
    assert_eq!(world.bank.pay(&request), Err(PayError::NotActive));
    let second = world.bank.pay(&PayRequest { again: true, ..request }).unwrap();
    assert_ne!(second.end_to_end_id, paid.end_to_end_id);
    let removal = json!({"status": "REMOVIDA_PELO_USUARIO_RECEBEDOR"});
    world.api.patch(&path(1), &removal).await.expect(400);
}

#[tokio::test]
async fn an_expired_cob_is_active_and_cannot_be_paid() {
    let world = World::start().await;
    world.api.create_cob(1).await;
    world.api.create_cob(2).await;
    world.advance_ms(3_599_999);
    world.pay(1);
    world.advance_ms(1);
    let request = PayRequest { txid: txid(2), again: true, ..PayRequest::default() };
    assert_eq!(world.bank.pay(&request), Err(PayError::Expired));
    let request = PayRequest { txid: txid(3), ..request };
    assert_eq!(world.bank.pay(&request), Err(PayError::UnknownCob));
}

#[tokio::test]
async fn the_payer_decides_on_amount_person_and_txid() {
    let world = World::start().await;
    for number in 1..=3 {
        world.api.create_cob(number).await;
    }
    let pay = |request: PayRequest| world.bank.pay(&request);
    let get =
        async |paid: bank::Paid| world.api.get(&format!("/pix/{}", paid.end_to_end_id)).await.expect(200);

    let person = |tax_id: &str| Payer::Person { tax_id: tax_id.to_owned(), name: "Empresa".to_owned() };
    let paid = pay(PayRequest {
        txid: txid(1),
        amount: Cents::new(1),
        payer: person("12ABC34501DE35"),
        ..PayRequest::default()
    });
    let pix = get(paid.unwrap()).await;
    assert_eq!((&pix["valor"], &pix["pagador"]["cnpj"]), (&json!("0.01"), &json!("12ABC34501DE35")));

    let missing = PayRequest {
        txid: txid(2),
        reported_txid: ReportedTxid::Missing,
        payer: Payer::Unreported,
        ..PayRequest::default()
    };
    let pix = get(pay(missing.clone()).unwrap()).await;
    assert_eq!((pix.get("txid"), pix.get("pagador")), (None, None));
    let other = ReportedTxid::Other("loja1".to_owned());
    let pix = get(pay(PayRequest { reported_txid: other, ..missing.clone() }).unwrap()).await;
    assert_eq!(pix["txid"], "loja1");
    assert_eq!(world.api.get(&path(2)).await.expect(200)["status"], "ATIVA");

    let taken = ReportedTxid::Other(txid(3));
    assert_eq!(pay(PayRequest { reported_txid: taken, ..missing.clone() }), Err(PayError::InvalidTxid));
    assert_eq!(pay(PayRequest { payer: person("123"), ..missing.clone() }), Err(PayError::InvalidPayer));
    assert_eq!(pay(PayRequest { amount: Cents::new(0), ..missing }), Err(PayError::InvalidAmount));
}

#[tokio::test]
async fn lists_are_filtered() {
    let world = World::start().await;
    for number in 1..=5 {
        world.paid_cob(number).await;
        world.advance_ms(60_000);
    }
    let payer = Payer::Person { tax_id: "12ABC34501DE35".to_owned(), name: "Empresa".to_owned() };
    let reported_txid = ReportedTxid::Missing;
    let request = PayRequest { txid: txid(1), payer, reported_txid, ..PayRequest::default() };
    let by_company = world.bank.pay(&request).unwrap().end_to_end_id;

    assert_eq!(world.list("").await.len(), 6);
    assert_eq!(world.list(&format!("&txid={}", txid(3))).await[0]["txid"], txid(3));
    assert_eq!(world.list(&format!("&cpf={CPF}")).await.len(), 5);
    assert_eq!(world.list("&cnpj=12ABC34501DE35").await[0]["endToEndId"], by_company);
    assert_eq!(world.list(&format!("&txid={}&cpf=12345678909", txid(3))).await.len(), 0);
    assert_eq!(world.list("&txIdPresente=false").await.len(), 1);
    assert_eq!(world.list("&txIdPresente=true").await.len(), 5);
    let at = "2026-11-22T09:02:00-03:00";
    let exact = world.api.get(&format!("/pix?inicio={at}&fim={at}")).await.expect(200);
    assert_eq!(exact["pix"][0]["txid"], txid(3));
    assert_eq!(exact["parametros"]["paginacao"]["quantidadeTotalDeItens"], 1);

    let cobs = world.api.get(&format!("/cob?{PERIOD}&status=CONCLUIDA&cpf={CPF}")).await.expect(200);
    assert_eq!(cobs["parametros"]["paginacao"]["quantidadeTotalDeItens"], 5);
    assert_eq!(cobs["cobs"][4]["pix"][0]["txid"], txid(5));
    let cobs = world.api.get(&format!("/cob?{PERIOD}&status=ATIVA")).await.expect(200);
    assert_eq!(cobs["cobs"], json!([]));

    for (query, property) in [
        ("txid=a-b", "txid"),
        ("txIdPresente=yes", "txIdPresente"),
        ("cpf=1", "cpf"),
        ("cpf=12345678909&cnpj=12ABC34501DE35", "cpf"),
        ("cnpj=1", "cnpj"),
        ("paginacao.paginaAtual=-1", "paginacao.paginaAtual"),
        ("paginacao.itensPorPagina=0", "paginacao.itensPorPagina"),
        ("paginacao.itensPorPagina=1001", "paginacao.itensPorPagina"),
    ] {
        let refused = world.api.get(&format!("/pix?{PERIOD}&{query}")).await.expect(400);
        assert_eq!(properties(&refused), [property], "{query}");
    }
    world.api.get("/pix?inicio=2026-11-21T00:00:00Z&fim=2026-11-20T00:00:00Z").await.expect(400);
}

#[tokio::test]
async fn a_pix_can_appear_later_than_its_time() {
    let world = World::start().await;
    world.api.create_cob(1).await;
    let request = PayRequest { txid: txid(1), visible_after_ms: 1_800_000, ..PayRequest::default() };
    let paid = world.bank.pay(&request).unwrap();
    world.advance_ms(1_799_999);
    world.api.get(&format!("/pix/{}", paid.end_to_end_id)).await.expect(404);
    assert_eq!(world.list("").await.len(), 0);
    assert_eq!(world.bank.snapshot()["pix"][0]["endToEndId"], paid.end_to_end_id);
    world.advance_ms(1);
    assert_eq!(world.list("").await[0]["horario"], paid.horario);
}
