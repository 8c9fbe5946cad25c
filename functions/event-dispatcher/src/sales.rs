//! Queues the emails about live sales for the users who are subscribed to them. An account without subscribers costs one
//! read a batch.

use std::collections::HashMap;

use effects::email::{Email, SalesMinute};
use shared::account::Users;
use shared::concurrently;
use shared::store::StoreError;

use crate::quarantine::Cause;
use crate::{CONCURRENT_ACCOUNTS, Dispatcher, FailedRecord};

impl Dispatcher {
    /// Queues an email for each minute and user. Returns the records that failed.
    pub(crate) async fn mail_sales(&self, sales: Vec<(String, SalesMinute)>) -> Vec<FailedRecord> {
        let mut minutes: HashMap<SalesMinute, Vec<String>> = HashMap::new();
        for (number, minute) in sales {
            minutes.entry(minute).or_default().push(number);
        }
        let work = concurrently(CONCURRENT_ACCOUNTS, minutes, |(minute, numbers)| {
            let dispatcher = self.clone();
            async move { (numbers, dispatcher.mail_sales_of(minute).await) }
        });
        let mut failed = Vec::new();
        for (numbers, cause) in work.await {
            failed.extend(cause.into_iter().flat_map(|cause| {
                let numbers = numbers.iter().cloned();
                numbers.map(move |number| (number, cause))
            }));
        }
        failed
    }

    /// Queues the emails of a minute, unless this process has done so in the same minute: they report all its sales.
    /// Returns the cause of a failure.
    async fn mail_sales_of(&self, minute: SalesMinute) -> Option<Cause> {
        let (now, scope) = (self.clock.now(), minute.scope());
        let is_current = minute.contains(now);
        if is_current && self.mailed_sales.contains(&scope, now) {
            return None;
        }
        let users = match Users::new(self.store.clone()).sale_subscribers(&scope.account).await {
            Ok(users) => users,
            Err(error) => {
                if !matches!(error, StoreError::Throttled(_)) {
                    tracing::error!(%scope, %error, "can't read the subscribers to emails about sales");
                }
                return Some(Cause::from(&error));
            }
        };
        if users.is_empty() {
            return None;
        }
        let emails: Vec<Email> = users.into_iter().map(|user| minute.email_to(user)).collect();
        match Box::pin(self.emails.send_after(&emails, |email| email.delay(now))).await {
            Ok(refused) if refused.is_empty() => {}
            Ok(_refused) => return Some(Cause::Unavailable),
            Err(error) => {
                tracing::error!(%scope, %error, "can't queue emails about sales");
                return Some(Cause::Unavailable);
            }
        }
        if is_current {
            self.mailed_sales.add(scope, minute.ends_at(), now);
        }
        None
    }
}
