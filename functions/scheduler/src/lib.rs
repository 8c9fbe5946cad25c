//! What is due: charges whose time is over, tranches of held money whose day has come, refunds that take long, deliveries
//! whose next attempt has come or whose message was lost, abandoned deliveries, and the count of those that are done.
//!
//! Rows that wait are in a sparse, sharded index by due time. Each run reads what is due and moves it on by the
//! same conditional writes that any other path uses, so that two runs at once, or a run that dies, do no harm.

use domain::calendar::Day;
use domain::charge::transition::Command;
use domain::charge::{Charge, StoredCharge, TransactionStatus};
use domain::ids::Scope;
use domain::money::Currency;
use domain::refund::Refund;
use domain::time::Timestamp;
use shared::acquirer::{AcquirerMessage, AcquirerQueue};
use shared::charge::Charges;
use shared::clock::Clock;
use shared::config::{ConfigError, required};
use shared::errors::WorkError;
use shared::store::{Aws, DUE_SHARDS, Due, Store, from_item};
use shared::wallet::Wallets;
use shared::wallet::counters::{self, CounterRow};
use shared::webhook::delivery::{Abandonment, Deliveries, Delivery, NEXT_LOOK_SECONDS, counted_scope};
use shared::webhook::queue::{DeliveryMessage, DeliveryQueue};
use tokio::task::JoinSet;

/// Pages of a shard in one run: the rest is due a minute later, in the next.
const MAX_PAGES: usize = 50;

/// When a row that can't be moved on is looked at again, in seconds: it must not stand before the others.
const SET_ASIDE_SECONDS: i64 = 300;

/// The longest time after which an acquirer is asked again about what it has not done, in seconds: 6 hours.
const LONGEST_ASK_SECONDS: i64 = 21_600;

/// Whom a row that was due is handed to.
enum DueAction {
    Delivery(DeliveryMessage),
    Acquirer(AcquirerMessage),
    /// This scope's deliveries are to be counted, which takes longer than all else: after it.
    Count(Scope),
    /// The next step of this abandonment is to be made, which takes long too.
    Abandon(Box<Abandonment>),
    /// It is done, or somebody else's.
    Nobody,
}

/// What a shard does after all else, for it takes longer.
#[derive(Default)]
struct SlowWork {
    to_count: Vec<Scope>,
    to_abandon: Vec<Abandonment>,
}

/// The function's state.
#[derive(Clone, Debug)]
pub struct DueWork {
    /// The state table.
    pub store: Store,
    /// Where deliveries start.
    pub queue: DeliveryQueue,
    /// Where what is to be asked of acquirers starts.
    pub acquirers: AcquirerQueue,
    /// The time.
    pub clock: Clock,
}

impl DueWork {
    /// Reads `TABLE_NAME`, `DELIVERY_QUEUE_URL` and `ACQUIRER_QUEUE_URL`.
    pub fn from_vars(
        aws: &Aws,
        clock: Clock,
        var: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        Ok(Self {
            store: Store::new(aws.dynamodb(), required(var, "TABLE_NAME")?),
            queue: DeliveryQueue::new(aws.sqs(), required(var, "DELIVERY_QUEUE_URL")?),
            acquirers: AcquirerQueue::new(aws.sqs(), required(var, "ACQUIRER_QUEUE_URL")?),
            clock,
        })
    }

    /// Moves on all that is due now, the shards side by side. Gives how many rows moved.
    ///
    /// # Errors
    ///
    /// The first shard's failure; what the others did stays done, and the next run takes up the rest.
    pub async fn run(&self) -> Result<usize, WorkError> {
        let mut shards = JoinSet::new();
        for shard in 0..DUE_SHARDS {
            let work = self.clone();
            shards.spawn(async move { work.run_shard(shard).await });
        }
        let mut moved: usize = 0;
        for shard in shards.join_all().await {
            moved = moved.saturating_add(shard?);
        }
        Ok(moved)
    }

    async fn run_shard(&self, shard: u8) -> Result<usize, WorkError> {
        let mut moved: usize = 0;
        let mut after = None;
        let mut slow = SlowWork::default();
        for _page in 0..MAX_PAGES {
            let now = self.clock.now();
            let (due, next) = self.store.due(shard, now, after).await?;
            moved = moved.saturating_add(self.move_on(due, now, &mut slow).await?);
            match next {
                Some(_) => after = next,
                None => break,
            }
        }
        // One after another, each written when it is done: a run that is cut short has got on.
        for abandonment in slow.to_abandon {
            if let Err(error) = self.deliveries().abandon(&abandonment, self.clock.now()).await {
                let Abandonment { scope, endpoint, .. } = &abandonment;
                tracing::error!(%scope, %endpoint, %error, "deliveries were not cancelled, and will be in the next run");
            }
        }
        for scope in slow.to_count {
            if let Err(error) = self.deliveries().count(&scope, self.clock.now()).await {
                tracing::error!(%scope, %error, "deliveries were not counted, and will be in the next run");
            }
        }
        Ok(moved)
    }

    async fn move_on(&self, due: Vec<Due>, now: Timestamp, slow: &mut SlowWork) -> Result<usize, WorkError> {
        let mut rows = JoinSet::new();
        for due in due {
            let work = self.clone();
            rows.spawn(async move { work.move_one(&due, now).await });
        }
        let (mut deliveries, mut asked) = (Vec::new(), Vec::new());
        let mut moved: usize = 0;
        let mut failure = None;
        for wake in rows.join_all().await {
            match wake {
                Ok(wake) => {
                    match wake {
                        DueAction::Delivery(message) => deliveries.push(message),
                        DueAction::Acquirer(message) => asked.push(message),
                        DueAction::Count(scope) => slow.to_count.push(scope),
                        DueAction::Abandon(abandonment) => slow.to_abandon.push(*abandonment),
                        DueAction::Nobody => {}
                    }
                    moved = moved.saturating_add(1);
                }
                Err(error) => failure = Some(error),
            }
        }
        // Whatever else failed, the rows that were postponed get their messages. A message that is refused is sent again
        // when its row is looked at next.
        let sent = tokio::join!(self.queue.send(&deliveries), self.acquirers.send(&asked));
        for refused in [sent.0, sent.1] {
            match refused {
                Ok(refused) if refused.is_empty() => {}
                Ok(refused) => tracing::warn!(refused = refused.len(), "a queue refused messages"),
                Err(error) => failure = Some(error.into()),
            }
        }
        failure.map_or(Ok(moved), Err)
    }

    /// Moves one row on; one that fails is set aside for a while, so that the others are reached.
    async fn move_one(&self, due: &Due, now: Timestamp) -> Result<DueAction, WorkError> {
        let moved = if Delivery::is_at(&due.key) {
            self.start_delivery(due, now).await
        } else if Charge::is_at(&due.key) {
            self.end_or_finalise(due, now).await
        } else if Refund::is_at(&due.key) {
            self.refund(due, now).await
        } else if let Some((scope, currency, CounterRow::Release(day))) = counters::parse(&due.key) {
            self.release(scope, currency, day, now).await.map(|()| DueAction::Nobody)
        } else if let Some(scope) = counted_scope(&due.key) {
            Ok(DueAction::Count(scope))
        } else if Abandonment::is_at(&due.key) {
            let found = self.store.get::<Abandonment>(&due.key).await.map_err(WorkError::from);
            found.map(|found| found.map_or(DueAction::Nobody, |found| DueAction::Abandon(Box::new(found))))
        } else {
            Err(WorkError::Missing("nothing here knows this kind of row"))
        };
        match moved {
            Ok(wake) => Ok(wake),
            Err(error) => {
                tracing::error!(pk = due.key.pk, sk = due.key.sk, %error, "a due row can't be moved on");
                self.store.postpone(due, later(now, SET_ASIDE_SECONDS)).await?;
                Ok(DueAction::Nobody)
            }
        }
    }

    async fn start_delivery(&self, due: &Due, now: Timestamp) -> Result<DueAction, WorkError> {
        let again = later(now, NEXT_LOOK_SECONDS);
        let Some(item) = self.store.postpone(due, again).await? else { return Ok(DueAction::Nobody) };
        let delivery: Delivery = from_item(item)?;
        if !delivery.listed {
            self.deliveries().add_to_list(&delivery).await?;
        }
        Ok(DueAction::Delivery(DeliveryMessage::of(&delivery)))
    }

    fn deliveries(&self) -> Deliveries {
        Deliveries::new(self.store.clone())
    }

    async fn refund(&self, due: &Due, now: Timestamp) -> Result<DueAction, WorkError> {
        let Some(refund) = self.store.get::<Refund>(&due.key).await? else { return Ok(DueAction::Nobody) };
        self.ask(due, AcquirerMessage::Refund(refund.id), refund.created_at, now).await
    }

    async fn ask(
        &self,
        due: &Due,
        message: AcquirerMessage,
        since: Timestamp,
        now: Timestamp,
    ) -> Result<DueAction, WorkError> {
        let moved = self.store.postpone(due, next_ask_at(since, now)).await?;
        Ok(moved.map_or(DueAction::Nobody, |_| DueAction::Acquirer(message)))
    }

    async fn release(
        &self,
        scope: Scope,
        currency: Currency,
        day: Day,
        now: Timestamp,
    ) -> Result<(), WorkError> {
        if now >= day.starts_at() {
            Wallets::new(self.store.clone()).release(scope, currency, day, now).await?;
        }
        Ok(())
    }

    async fn end_or_finalise(&self, due: &Due, now: Timestamp) -> Result<DueAction, WorkError> {
        let Some(stored) = self.store.get::<StoredCharge>(&due.key).await? else {
            return Ok(DueAction::Nobody);
        };
        let charge = stored.as_stored();
        if charge.status == TransactionStatus::Pending {
            return self.ask(due, AcquirerMessage::Finalise(charge.id), charge.created_at, now).await;
        }
        // Boxed, for it holds several copies of the charge.
        Box::pin(self.expire(stored, now)).await.map(|()| DueAction::Nobody)
    }

    async fn expire(&self, stored: StoredCharge, now: Timestamp) -> Result<(), WorkError> {
        let charge = stored.as_stored();
        if !charge.acquirer.traits().expires_by_time {
            return Err(WorkError::Missing(
                "a charge expires only after its acquirer was asked, and none is configured",
            ));
        }
        let at = charge.expires_at();
        if now <= at {
            return Ok(());
        }
        Charges::new(self.store.clone()).apply(stored, &Command::Expire { at }, now).await?;
        Ok(())
    }
}

/// When an acquirer is asked again: the pause is as long as the work has already taken, within bounds.
fn next_ask_at(since: Timestamp, now: Timestamp) -> Timestamp {
    let age_seconds = now.millis_since(since).div_euclid(1_000);
    later(now, age_seconds.clamp(NEXT_LOOK_SECONDS, LONGEST_ASK_SECONDS))
}

fn later(now: Timestamp, seconds: i64) -> Timestamp {
    now.plus_seconds(seconds).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_between_requests_to_an_acquirer_grows_from_two_minutes_to_six_hours() {
        let since: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
        let mut now = since;
        let asked = std::iter::repeat_with(|| {
            now = next_ask_at(since, now);
            now.to_string()
        });
        let asked: Vec<String> = asked.take(12).collect();
        insta::assert_snapshot!(asked.join("\n"), @"
        2026-11-21T12:02:00.000Z
        2026-11-21T12:04:00.000Z
        2026-11-21T12:08:00.000Z
        2026-11-21T12:16:00.000Z
        2026-11-21T12:32:00.000Z
        2026-11-21T13:04:00.000Z
        2026-11-21T14:08:00.000Z
        2026-11-21T16:16:00.000Z
        2026-11-21T20:32:00.000Z
        2026-11-22T02:32:00.000Z
        2026-11-22T08:32:00.000Z
        2026-11-22T14:32:00.000Z
        ");
        // The clock of the machine that created the row may be ahead.
        assert_eq!(next_ask_at(later(since, 60), since), later(since, NEXT_LOOK_SECONDS));
        assert_eq!(next_ask_at(Timestamp::MIN, Timestamp::MAX), Timestamp::MAX);
    }
}
