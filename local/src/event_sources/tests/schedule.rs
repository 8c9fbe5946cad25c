use shared::clock::Clock;
use shared::store::Store;

use super::super::due_rows::DueRows;
use super::{Fixture, wait_until};
use crate::embedded::State;
use crate::sdk;

/// The shard of the row `due` in the due index.
const SHARD_OF_DUE: u8 = 2;

#[tokio::test]
async fn the_scheduler_can_find_a_due_row_after_a_change_and_when_a_row_becomes_due() {
    let fixture = Fixture::start(State::InMemory).await;
    let database = fixture.embedded.database();
    let store = Store::new(sdk::dynamodb(&fixture.embedded.endpoints().dynamodb_url), "StateTable");
    let now = Clock::default().now();
    let later = now.saturating_plus_seconds(60);
    let mut due_rows = DueRows::new(store, &database, SHARD_OF_DUE);
    assert!(due_rows.may_exist(now), "the index was not read yet");
    let version = due_rows.version();
    due_rows.update(version).await;
    assert!(!due_rows.may_exist(later), "the shard is empty");

    fixture.put_due_row("due", later).await;
    wait_until("the change is announced", async || due_rows.may_exist(now)).await;
    due_rows.update(version).await;
    assert!(due_rows.may_exist(now), "the database has changed since that version");
    let version = due_rows.version();
    due_rows.update(version).await;
    assert_eq!((due_rows.may_exist(now), due_rows.may_exist(later)), (false, true));
}
