//! Errors of the bank. `testing/service/tests/service/bank_faults.rs` tests each fault through the whole service.

use std::time::Duration;

use api_pix::{ApiError, Priority};
use bank::{FaultKind, Profile};

use crate::support::{World, key, new_cob, txid};

/// The time limit of the test that waits until it passes.
const SHORT: Duration = Duration::from_secs(1);

#[tokio::test]
async fn the_deadline_includes_the_token() {
    let world = World::start().await;
    world.proxy.substitute_token(crate::proxy::Substitute::Hold);
    let outcome = world.client.with_deadline(SHORT).get_cob(&txid(1)).await;
    assert_eq!((outcome, world.sent()), (Err(ApiError::Timeout), 0));
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
            assert_eq!(world.client.at(Priority::Settle).get_cob(&txid(1)).await, Ok(None));
        }
    }
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
async fn a_missing_header_is_forbidden() {
    let world = World::start_with(Profile::AccountHeader, |settings| settings.headers.clear()).await;
    let error = world.client.get_cob(&txid(1)).await.unwrap_err();
    assert!(error.needs_operator() && matches!(error, ApiError::Forbidden(_)), "{error}");
}
