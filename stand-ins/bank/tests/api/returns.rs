//! Devoluções, MED and Pix out.

use bank::{Cents, FaultKind, MedError, MedNature};
use serde_json::{Value, json};

use crate::support::{Receiver, World};

const DAY_MS: i64 = 86_400_000;

fn path(end_to_end_id: &str, id: &str) -> String {
    format!("/pix/{end_to_end_id}/devolucao/{id}")
}

#[tokio::test]
async fn a_devolucao_is_in_process_first_and_final_within_two_seconds() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    let pix = world.paid_cob(1).await;
    world.api.register_webhook(&receiver.url).await;
    world.advance_ms(1_000);
    receiver.callbacks(1).await;

    let request = json!({"valor": "4.00", "natureza": "ORIGINAL", "descricao": "Troca"});
    let requested = world.api.put(&path(&pix, "r1"), &request).await.expect(201);
    assert_eq!(requested["status"], "EM_PROCESSAMENTO");
    assert_eq!(requested["horario"], json!({"solicitacao": "2026-11-22T12:00:01.000Z"}));
    assert_eq!(requested["descricao"], "Troca");
    assert!(requested["rtrId"].as_str().unwrap().starts_with('D'));
    world.advance_ms(2_000);
    let returned = world.api.get(&path(&pix, "r1")).await.expect(200);
    assert_eq!((&returned["status"], &returned["rtrId"]), (&json!("DEVOLVIDO"), &requested["rtrId"]));
    assert_eq!(returned["horario"]["liquidacao"], "2026-11-22T12:00:02.500Z");
    assert_eq!(receiver.callbacks(2).await[1]["devolucoes"], json!([returned]));

    assert_eq!(world.list("&devolucaoPresente=true").await[0]["devolucoes"], json!([returned]));
    assert_eq!(world.list("&devolucaoPresente=false").await.len(), 0);
}

#[tokio::test]
async fn devolucoes_never_exceed_the_pix_and_use_each_id_once() {
    let world = World::start().await;
    let pix = world.paid_cob(1).await;
    let put = async |id: &str, body: Value| world.api.put(&path(&pix, id), &body).await;
    world.fault(FaultKind::DevolucaoUnrealized);
    put("r1", json!({"valor": "10.00"})).await.expect(201);
    put("r2", json!({"valor": "0.01"})).await.expect(400);
    world.advance_ms(2_000);
    let unrealized = world.api.get(&path(&pix, "r1")).await.expect(200);
    assert_eq!(unrealized["status"], "NAO_REALIZADO");
    assert!(unrealized["motivo"].is_string());

    put("r2", json!({"valor": "9.99"})).await.expect(201);
    put("r3", json!({"valor": "0.02"})).await.expect(400);
    for used in ["r1", "r2"] {
        let refused = put(used, json!({"valor": "0.01"})).await.expect(400);
        assert_eq!(refused["violacoes"][0]["propriedade"], "devolucao.id");
    }
    put("r3", json!({"valor": "0.01"})).await.expect(201);

    for body in [
        json!({}),
        json!({"valor": "0.00"}),
        json!({"valor": 1}),
        json!({"valor": "0.01", "natureza": "RETIRADA"}),
        json!({"valor": "0.01", "descricao": "a".repeat(141)}),
    ] {
        put("r4", body).await.expect(400);
    }
    put(&"a".repeat(36), json!({"valor": "0.01"})).await.expect(400);
    world.api.get(&path(&pix, "r4")).await.expect(404);
    world
        .api
        .put(&path("E00000000000000000000000000000000", "r1"), &json!({"valor": "1.00"}))
        .await
        .expect(404);
}

#[tokio::test]
async fn a_pix_can_be_returned_for_90_days() {
    let mut world = World::start().await;
    let pix = world.paid_cob(1).await;
    world.advance_ms(90 * DAY_MS);
    world.api.authenticate().await;
    world.api.put(&path(&pix, "r1"), &json!({"valor": "1.00"})).await.expect(201);
    world.advance_ms(1);
    let refused = world.api.put(&path(&pix, "r2"), &json!({"valor": "1.00"})).await.expect(400);
    assert_eq!(refused["violacoes"][0]["propriedade"], "pix.horario");
}

#[tokio::test]
async fn the_bank_returns_a_pix_by_med() {
    let world = World::start().await;
    let pix = world.paid_cob(1).await;
    let open = |amount, nature| world.bank.open_med_devolucao(&pix, amount, nature);
    let id = open(Cents::new(300), MedNature::Fraud).unwrap();
    assert_eq!(world.api.get(&path(&pix, &id)).await.expect(200)["status"], "EM_PROCESSAMENTO");
    world.advance_ms(2_000);
    let returned = world.api.get(&path(&pix, &id)).await.expect(200);
    assert_eq!((&returned["natureza"], &returned["status"]), (&json!("MED_FRAUDE"), &json!("DEVOLVIDO")));
    assert_eq!(open(Cents::new(701), MedNature::Operational), Err(MedError::InvalidAmount));
    for (amount, nature, expected) in [
        (Cents::new(200), MedNature::Operational, ["MED_OPERACIONAL", "2.00"]),
        (None, MedNature::AutomaticPix, ["MED_PIX_AUTOMATICO", "5.00"]),
    ] {
        let id = open(amount, nature).unwrap();
        let returned = world.api.get(&path(&pix, &id)).await.expect(200);
        assert_eq!([&returned["natureza"], &returned["valor"]], expected);
    }
    assert_eq!(open(None, MedNature::AutomaticPix), Err(MedError::InvalidAmount));
    assert_eq!(world.bank.open_med_devolucao("E1", None, MedNature::Fraud), Err(MedError::UnknownPix));
}

#[tokio::test]
async fn a_pix_out_is_executed_once_for_each_id() {
    let world = World::start().await;
    let request = json!({"valor": "25.00", "chave": "52998224725", "descricao": "Reembolso"});
    let sent = world.api.put("/pix-out/out1", &request).await.expect(201);
    assert_eq!((&sent["status"], &sent["valor"]), (&json!("EM_PROCESSAMENTO"), &json!("25.00")));
    assert_eq!(sent["endToEndId"].as_str().unwrap().len(), 32);
    assert_eq!(world.api.put("/pix-out/out1", &request).await.expect(201), sent);
    world.api.put("/pix-out/out1", &json!({"valor": "26.00", "chave": "52998224725"})).await.expect(400);
    world.advance_ms(2_000);
    let executed = world.api.get("/pix-out/out1").await.expect(200);
    assert_eq!((&executed["status"], &executed["endToEndId"]), (&json!("REALIZADO"), &sent["endToEndId"]));
    assert_eq!(world.bank.snapshot()["pixOut"], json!([executed]));

    world.fault(FaultKind::DevolucaoUnrealized);
    world.api.put("/pix-out/out2", &request).await.expect(201);
    world.advance_ms(2_000);
    assert_eq!(world.api.get("/pix-out/out2").await.expect(200)["status"], "NAO_REALIZADO");
    world.api.get("/pix-out/out3").await.expect(404);
    for body in [json!({"valor": "1.00"}), json!({"chave": "a"}), json!({"valor": "0.00", "chave": "a"})] {
        world.api.put("/pix-out/out3", &body).await.expect(400);
    }
}
