//! The answers of faults. `testing/service/tests/service/bank_faults.rs` tests each fault through the whole service.

use bank::FaultKind;

use crate::support::{World, cob, txid};

fn path(number: u32) -> String {
    format!("/cob/{}", txid(number))
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
    world.bank.inject_fault(FaultKind::Http400AfterStore, 1);
    world.api.put(&path(2), &cob()).await.expect(400);
    world.api.get(&path(2)).await.expect(200);
}
