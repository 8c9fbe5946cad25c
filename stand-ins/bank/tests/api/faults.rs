//! Faults on demand. `callbacks.rs` tests those of callbacks, and `returns.rs` tests `devolucao_unrealized`.

use bank::{FaultKind, PayError, PayRequest};
use serde_json::json;

use crate::support::{Answer, CPF, World, cob, eventually, txid};

fn path(number: u32) -> String {
    format!("/cob/{}", txid(number))
}

/// Sends a request that a fault holds up, moves the clock once the fault applies, and returns the answer.
async fn hold(world: &World, kind: FaultKind, method: &'static str, ms: i64) -> Option<Answer> {
    world.fault(kind);
    let api = world.api.clone();
    let body = (method == "PUT").then(cob);
    let call = tokio::spawn(async move { api.try_call(method, &path(1), body.as_ref()).await });
    eventually("the fault applies", async || (world.bank.pending_faults(kind) == 0).then_some(())).await;
    assert!(!call.is_finished());
    world.advance_ms(ms);
    call.await.unwrap()
}

#[tokio::test]
async fn a_timeout_closes_the_connection_before_or_after_the_cob_is_stored() {
    for (kind, status) in [(FaultKind::Timeout, 404), (FaultKind::TimeoutAfterStore, 200)] {
        let world = World::start().await;
        assert!(hold(&world, kind, "PUT", 60_000).await.is_none());
        world.api.get(&path(1)).await.expect(status);
    }
}

#[tokio::test]
async fn a_slow_request_is_answered_after_nine_seconds() {
    let world = World::start().await;
    world.api.create_cob(1).await;
    hold(&world, FaultKind::Slow, "GET", 9_000).await.unwrap().expect(200);
}

#[tokio::test]
async fn faults_of_status_occur_as_often_as_injected_and_store_nothing() {
    let world = World::start().await;
    for (kind, status) in [(FaultKind::Http500, 500), (FaultKind::Http429, 429), (FaultKind::Http401, 401)] {
        world.bank.inject_fault(kind, 2);
        for _ in 0..2 {
            let answer = world.api.put(&path(1), &cob()).await;
            assert_eq!(answer.retry_after.as_deref(), (status == 429).then_some("2"));
            answer.expect(status);
        }
        world.api.get(&path(1)).await.expect(404);
    }
    world.bank.inject_fault(FaultKind::Http500, 1);
    world.bank.clear_faults();
    world.api.put(&path(1), &cob()).await.expect(201);
}

#[tokio::test]
async fn a_400_after_store_stores_the_cob() {
    let world = World::start().await;
    world.fault(FaultKind::Http400AfterStore);
    world.api.get(&path(1)).await.expect(404);
    world.api.put(&path(1), &cob()).await.expect(400);
    world.api.get(&path(1)).await.expect(200);
}

#[tokio::test]
async fn a_read_back_can_miss_a_pix_that_the_list_has() {
    let world = World::start().await;
    let end_to_end_id = world.paid_cob(1).await;
    world.fault(FaultKind::ReadBack404);
    world.api.get("/pix/E00000000000000000000000000000000").await.expect(404);
    world.api.get(&format!("/pix/{end_to_end_id}")).await.expect(404);
    assert_eq!(world.list(&format!("&txid={}", txid(1))).await.len(), 1);
    world.api.get(&format!("/pix/{end_to_end_id}")).await.expect(200);
}

#[tokio::test]
async fn a_filter_by_payer_finds_a_masked_one_or_is_ignored_or_lags() {
    let world = World::start().await;
    world.fault(FaultKind::MaskedPayer);
    world.paid_cob(1).await;
    let by_payer = async |cpf: &str| world.list(&format!("&cpf={cpf}")).await;
    assert_eq!(by_payer(CPF).await[0]["pagador"]["cpf"], "***982247**");
    assert_eq!(world.bank.snapshot()["pix"][0]["pagador"]["cpf"], CPF);
    for (kind, cpf, counts) in
        [(FaultKind::FilterIgnored, "12345678909", [1, 0]), (FaultKind::FilterLags, CPF, [0, 1])]
    {
        world.fault(kind);
        assert_eq!(world.list("").await.len(), 1, "the fault is one of the filter");
        for count in counts {
            assert_eq!(by_payer(cpf).await.len(), count, "{kind:?}");
        }
    }
}

#[tokio::test]
async fn a_refused_devolucao_is_not_stored() {
    let world = World::start().await;
    let end_to_end_id = world.paid_cob(1).await;
    world.fault(FaultKind::DevolucaoRefused);
    let path = format!("/pix/{end_to_end_id}/devolucao/r1");
    world.api.put(&path, &json!({"valor": "1.00"})).await.expect(400);
    world.api.get(&path).await.expect(404);
    world.api.put(&path, &json!({"valor": "1.00"})).await.expect(201);
}

#[tokio::test]
async fn the_bank_removes_a_cob_before_a_change_or_payment() {
    let world = World::start().await;
    world.api.create_cob(1).await;
    world.api.create_cob(2).await;
    world.bank.inject_fault(FaultKind::RemovedByPsp, 2);
    let removal = json!({"status": "REMOVIDA_PELO_USUARIO_RECEBEDOR"});
    world.api.patch(&path(1), &removal).await.expect(400);
    let request = PayRequest { txid: txid(2), ..PayRequest::default() };
    assert_eq!(world.bank.pay(&request), Err(PayError::NotActive));
    for number in [1, 2] {
        assert_eq!(world.api.get(&path(number)).await.expect(200)["status"], "REMOVIDA_PELO_PSP");
    }
}

#[tokio::test]
async fn a_cob_can_be_without_br_code_and_a_pix_without_txid() {
    let world = World::start().await;
    world.fault(FaultKind::NoCopiaECola);
    let created = world.api.create_cob(1).await;
    assert_eq!(created.get("pixCopiaECola"), None);
    world.fault(FaultKind::MissingTxid);
    let paid = world.pay(1);
    assert_eq!(paid.txid, None);
    assert_eq!(world.list("").await[0].get("txid"), None);
    assert_eq!(world.api.get(&path(1)).await.expect(200)["status"], "CONCLUIDA");
}

#[tokio::test]
async fn a_stuck_devolucao_is_final_after_six_hours() {
    let mut world = World::start().await;
    let end_to_end_id = world.paid_cob(1).await;
    world.fault(FaultKind::DevolucaoStuck);
    let path = format!("/pix/{end_to_end_id}/devolucao/r1");
    world.api.put(&path, &json!({"valor": "1.00"})).await.expect(201);
    world.advance_ms(6 * 3_600_000 - 1);
    world.api.authenticate().await;
    assert_eq!(world.api.get(&path).await.expect(200)["status"], "EM_PROCESSAMENTO");
    world.advance_ms(1);
    assert_eq!(world.api.get(&path).await.expect(200)["status"], "DEVOLVIDO");
}

#[tokio::test]
async fn a_pix_can_be_returned_by_med_on_its_own() {
    let world = World::start().await;
    world.fault(FaultKind::MedDevolucao);
    let end_to_end_id = world.paid_cob(1).await;
    world.advance_ms(4_000);
    let pix = world.api.get(&format!("/pix/{end_to_end_id}")).await.expect(200);
    let returned = &pix["devolucoes"][0];
    assert_eq!(
        [&returned["natureza"], &returned["status"], &returned["valor"]],
        ["MED_FRAUDE", "DEVOLVIDO", "10.00"]
    );
}
