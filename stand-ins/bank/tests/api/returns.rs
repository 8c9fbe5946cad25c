//! Devoluções and MED.

use bank::{Cents, FaultKind, MedError, MedNature};
use serde_json::{Value, json};

use crate::support::World;

fn path(end_to_end_id: &str, id: &str) -> String {
    format!("/pix/{end_to_end_id}/devolucao/{id}")
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
