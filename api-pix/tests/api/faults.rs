//! The faults of the bank that a client notices.

use std::time::Duration;

use api_pix::{ApiError, CobStatus, DevolucaoStatus, Payer, PixOutStatus, PixQuery};
use bank::{FaultKind, Profile};

use crate::support::{CPF, KEY, OTHER_CPF, World, day, eventually, key, new_cob, reais, tax_id, txid};

/// The time limit of the tests that wait until it passes. The bank stores a cob within it, also on a busy
/// machine.
const SHORT: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_bank_that_does_not_answer_is_a_timeout() {
    for (kind, is_stored) in [(FaultKind::Timeout, false), (FaultKind::TimeoutAfterStore, true)] {
        let world = World::start().await;
        world.client.get_cob(&txid(1)).await.unwrap();
        world.fault(kind, 1);
        let outcome = world.client.with_deadline(SHORT).put_cob(&txid(1), &new_cob()).await;
        assert_eq!(outcome, Err(ApiError::Timeout));
        let stored = world.client.get_cob(&txid(1)).await.unwrap();
        assert_eq!(stored.is_some(), is_stored, "{}", kind.name());
        // Whether or not it was stored, the same request leads to one cob.
        assert_eq!(world.cob(1).await.amount, reais(10));
    }
}

#[tokio::test]
async fn the_deadline_includes_the_token() {
    let world = World::start().await;
    world.proxy.substitute_token(crate::proxy::Substitute::Hold);
    let outcome = world.client.with_deadline(SHORT).get_cob(&txid(1)).await;
    assert_eq!((outcome, world.sent()), (Err(ApiError::Timeout), 0));
}

#[tokio::test]
async fn a_bank_that_answers_after_nine_seconds_is_in_time() {
    let world = World::start().await;
    world.fault(FaultKind::Slow, 1);
    let client = world.client.clone();
    let call = tokio::spawn(async move { client.put_cob(&txid(1), &new_cob()).await });
    eventually("the fault applies", || world.bank.pending_faults(FaultKind::Slow) == 0).await;
    world.advance_s(9);
    assert_eq!(call.await.unwrap().unwrap().status, CobStatus::Active);
}

#[tokio::test]
async fn each_status_is_its_error_and_nothing_is_stored() {
    for profile in Profile::ALL {
        let world = World::start_as(*profile).await;
        for (kind, expected) in [
            (
                FaultKind::Http500,
                "the bank answered 500: ErroInternoDoServidor; Condição inesperada ao processar requisição.",
            ),
            (FaultKind::Http429, "too many requests; retry after 2 s"),
        ] {
            world.fault(kind, 1);
            let failed = world.client.put_cob(&txid(1), &new_cob()).await.unwrap_err();
            assert_eq!(failed.to_string(), expected);
            assert_eq!(world.client.get_cob(&txid(1)).await, Ok(None));
        }
    }
}

#[tokio::test]
async fn a_400_may_hide_that_the_cob_was_stored() {
    let world = World::start().await;
    world.fault(FaultKind::Http400AfterStore, 1);
    match world.client.put_cob(&txid(1), &new_cob()).await {
        Err(ApiError::Refused { status: 400, problem }) => {
            assert_eq!(problem.kind, "CobOperacaoInvalida");
            assert_eq!(problem.violations[0].property, "requisicao");
        }
        other => panic!("{other:?}"),
    }
    assert!(world.client.get_cob(&txid(1)).await.unwrap().is_some());
}

#[tokio::test]
async fn a_refusal_names_the_fields() {
    let world = World::start().await;
    let mut cob = new_cob();
    cob.key = key("outra@example.com");
    match world.client.put_cob(&txid(1), &cob).await {
        Err(ApiError::Refused { status: 400, problem }) => {
            assert_eq!((problem.kind.as_str(), problem.title.is_empty()), ("CobOperacaoInvalida", false));
            assert_eq!(problem.violations.len(), 1);
            assert_eq!(problem.violations[0].property, "cob.chave");
            assert!(!problem.violations[0].reason.is_empty());
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_used_txid_is_refused_where_the_bank_does_not_revise() {
    let world = World::start_as(Profile::AppKey).await;
    world.cob(1).await;
    let again = world.client.put_cob(&txid(1), &new_cob()).await;
    assert!(matches!(again, Err(ApiError::Refused { status: 400, .. })), "{again:?}");
}

#[tokio::test]
async fn a_period_that_is_too_long_is_refused() {
    let world = World::start_as(Profile::AppKey).await;
    let query = PixQuery { to: day().from.plus_seconds(6 * 86_400).unwrap(), ..day() };
    let outcome = world.client.list_pix(&query).await;
    assert!(matches!(outcome, Err(ApiError::Refused { status: 400, .. })), "{outcome:?}");
}

#[tokio::test]
async fn a_missing_header_is_forbidden() {
    let world = World::start_with(Profile::AccountHeader, |settings| settings.headers.clear()).await;
    let error = world.client.get_cob(&txid(1)).await.unwrap_err();
    assert!(error.needs_operator() && matches!(error, ApiError::Forbidden(_)), "{error}");
}

#[tokio::test]
async fn a_cob_can_have_a_location_only() {
    let world = World::start().await;
    world.fault(FaultKind::NoCopiaECola, 1);
    let cob = world.cob(1).await;
    assert_eq!(cob.copia_e_cola, None);
    assert!(cob.location.is_some());
}

#[tokio::test]
async fn a_masked_payer_is_no_document() {
    let world = World::start().await;
    world.fault(FaultKind::MaskedPayer, 1);
    let end_to_end_id = world.paid_cob(1).await;
    assert_eq!(world.pix(&end_to_end_id).await.payer, Payer::Masked);
    let query = PixQuery { payer: Some(tax_id(CPF)), ..day() };
    let listed = world.client.list_pix(&query).await.unwrap();
    assert_eq!(listed.pix[0].payer, Payer::Masked);
}

#[tokio::test]
async fn a_bank_can_ignore_the_filter_by_payer() {
    let world = World::start().await;
    world.paid_cob(1).await;
    world.fault(FaultKind::FilterIgnored, 1);
    let query = PixQuery { payer: Some(tax_id(OTHER_CPF)), ..day() };
    assert_eq!(world.client.list_pix(&query).await.unwrap().pix.len(), 1);
    assert_eq!(world.client.list_pix(&query).await.unwrap().pix.len(), 0);
}

#[tokio::test]
async fn the_bank_can_remove_a_cob() {
    let world = World::start().await;
    world.cob(1).await;
    world.fault(FaultKind::RemovedByPsp, 1);
    let outcome = world.client.remove_cob(&txid(1)).await;
    assert!(matches!(outcome, Err(ApiError::Refused { status: 400, .. })), "{outcome:?}");
    let cob = world.client.get_cob(&txid(1)).await.unwrap().unwrap();
    assert_eq!(cob.status, CobStatus::RemovedByPsp);
}

#[tokio::test]
async fn a_pix_can_be_reported_without_txid_and_late() {
    let world = World::start().await;
    world.fault(FaultKind::MissingTxid, 1);
    let end_to_end_id = world.paid_cob(1).await;
    assert_eq!(world.pix(&end_to_end_id).await.txid, None);
    world.fault(FaultKind::ReadBack404, 1);
    assert_eq!(world.client.get_pix(&end_to_end_id).await, Ok(None));
    assert!(world.client.get_pix(&end_to_end_id).await.unwrap().is_some());
}

#[tokio::test]
async fn a_return_or_a_pix_out_can_fail() {
    let world = World::start().await;
    let end_to_end_id = world.paid_cob(1).await;
    world.fault(FaultKind::DevolucaoUnrealized, 2);
    world.client.put_devolucao(&end_to_end_id, "r1", reais(1), None).await.unwrap();
    let pix_out = api_pix::NewPixOut { amount: reais(1), key: key(KEY), description: None };
    world.client.put_pix_out("out1", &pix_out).await.unwrap();
    world.advance_s(2);
    let devolucao = world.client.get_devolucao(&end_to_end_id, "r1").await.unwrap().unwrap();
    assert_eq!((devolucao.status, devolucao.reason.is_some()), (DevolucaoStatus::NotRealised, true));
    let pix_out = world.client.get_pix_out("out1").await.unwrap().unwrap();
    assert_eq!((pix_out.status, pix_out.reason.is_some()), (PixOutStatus::NotRealised, true));
}

#[tokio::test]
async fn a_return_that_was_stored_before_the_timeout_is_found_by_its_id() {
    let world = World::start().await;
    let end_to_end_id = world.paid_cob(1).await;
    world.fault(FaultKind::TimeoutAfterStore, 1);
    let hasty = world.client.with_deadline(SHORT);
    let outcome = hasty.put_devolucao(&end_to_end_id, "r1", reais(1), None).await;
    assert_eq!(outcome.map(drop), Err(ApiError::Timeout));
    assert!(world.client.get_devolucao(&end_to_end_id, "r1").await.unwrap().is_some());
}
