//! Cobs and payments.

use bank::{Cents, PayError, PayRequest, Payer, ReportedTxid};
use serde_json::json;

use crate::support::{CPF, KEY, World, cob, txid};

fn path(number: u32) -> String {
    format!("/cob/{}", txid(number))
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
async fn another_txid_is_reported_and_impossible_payments_are_refused() {
    let world = World::start().await;
    for number in 1..=2 {
        world.api.create_cob(number).await;
    }
    let request = PayRequest { txid: txid(1), ..PayRequest::default() };
    let reporting =
        |txid: &str| PayRequest { reported_txid: ReportedTxid::Other(txid.to_owned()), ..request.clone() };
    let paid = world.bank.pay(&reporting("loja1")).unwrap();
    let pix = world.api.get(&format!("/pix/{}", paid.end_to_end_id)).await.expect(200);
    assert_eq!(pix["txid"], "loja1");
    assert_eq!(world.api.get(&path(1)).await.expect(200)["status"], "ATIVA");

    let payer = Payer::Person { tax_id: "123".to_owned(), name: "Empresa".to_owned() };
    for (refused, error) in [
        (reporting(&txid(2)), PayError::InvalidTxid),
        (PayRequest { payer, ..request.clone() }, PayError::InvalidPayer),
        (PayRequest { amount: Cents::new(0), ..request.clone() }, PayError::InvalidAmount),
    ] {
        assert_eq!(world.bank.pay(&refused), Err(error));
    }
}
