//! Sends emails to the contacts of accounts. An email reports that a MED case opened or ended, or that its
//! deadline is near (to owners and administrators too), that an endpoint fails or works again, that the service
//! disabled it, or that a refund is sent to a new Pix key of a third party. Also sends the links of
//! invites and password resets to users of the dashboard, reports changes of access to them, and live sales to those
//! who are subscribed.
//!
//! A queue message identifies the change. The mailer writes the text from the rows as they are when it
//! handles the message. A claim in the email's row prevents two workers from sending the email at once
//! ([`effects::email`]). SQS retries a failed message, and moves it to the dead-letter queue after five
//! receives. `text` writes an email, `message` encodes it, and `sender` and `ses` send it.

pub mod message;
pub mod sender;
pub mod ses;
#[cfg(test)]
#[path = "../../../domain/src/charge/testing.rs"]
mod testing;
mod text;
mod user_text;

use std::collections::BTreeSet;
use std::error::Error;

use aws_lambda_events::sqs::SqsEvent;
use aws_lambda_events::streams::SqsEventResponse;
use domain::account::{Account, MailAddress, SalesEmails};
use domain::audit::Audit;
use domain::calendar::Day;
use domain::charge::{Charge, StoredCharge};
use domain::ids::{EmailId, MedCaseId, Mode, ReportId, UserId};
use domain::med::MedCase;
use domain::refund::Refund;
use domain::report::Report;
use domain::row::Row;
use domain::shard::ShardedScope;
use domain::time::Timestamp;
use effects::audit_trail;
use effects::email::access::AccessChange;
use effects::email::{Claim, Email, EmailQueue, EmailRecord, EmailTopic, Emails, QueuedEmail, UserEmail};
use effects::webhook::delivery::Deliveries;
use effects::webhook::endpoint::Endpoint;
use money::refund::third_party;
use money::wallet::Wallets;
use services::day_summary;
use shared::account::{Role, User, Users};
use shared::auth::dashboard::LockOut;
use shared::clock::Clock;
use shared::config::{ConfigError, PublicUrls, Vars, required};
use shared::store::{Aws, Store};
use shared::{WorkError, WorkResult, audit, metrics, queue, random};

use crate::message::EmailMessage;
use crate::sender::EmailSender;
use crate::text::Text;
use crate::user_text::Writer;

#[derive(Clone, Debug)]
pub struct Mailer {
    store: Store,
    emails: Emails,
    queue: EmailQueue,
    clock: Clock,
    /// The sender's address; `None` when this stack sends no emails.
    from: Option<MailAddress>,
    /// The URL of the dashboard.
    dashboard: String,
    sender: EmailSender,
}

type MailerError = Box<dyn Error + Send + Sync>;

impl Mailer {
    /// Reads `TABLE_NAME`, `MAIL_QUEUE_URL`, `CHECKOUT_BASE_URL` and `MAIL_FROM`. When `MAIL_FROM` is empty or
    /// absent, no email is sent.
    /// Errors: When a required variable is missing, `MAIL_FROM` is not an email address, or `CHECKOUT_BASE_URL` not a
    /// URL.
    pub fn from_vars(
        aws: &Aws,
        clock: Clock,
        sender: EmailSender,
        var: Vars<'_>,
    ) -> Result<Self, ConfigError> {
        let store = Store::new(aws.dynamodb(), required(var, "TABLE_NAME")?);
        let from = var("MAIL_FROM").filter(|from| !from.is_empty()).map(|from| from.parse());
        Ok(Self {
            emails: Emails::new(store.clone()),
            store,
            queue: EmailQueue::new(aws.sqs(), required(var, "MAIL_QUEUE_URL")?),
            clock,
            from: from.transpose().map_err(|error| ConfigError::new(format!("MAIL_FROM {error}")))?,
            dashboard: format!(
                "{}/dashboard",
                PublicUrls::new(&required(var, "CHECKOUT_BASE_URL")?)?.api_base_url()
            ),
            sender,
        })
    }

    /// Handles a batch of messages concurrently. Reports the messages that failed, so that only they are
    /// retried.
    pub async fn handle(&self, batch: SqsEvent) -> SqsEventResponse {
        let mailer = self.clone();
        queue::process_batch(batch, move |email: QueuedEmail, _receipt| {
            let mailer = mailer.clone();
            async move {
                match email {
                    QueuedEmail::ToContact(email) => Box::pin(mailer.send_email(email)).await,
                    QueuedEmail::ToUser(email) => Box::pin(mailer.send_to_user(email)).await,
                    QueuedEmail::LockOut(locked) => Box::pin(mailer.record(locked)).await,
                }
            }
        })
        .await
    }

    async fn record(&self, LockOut { locked_out, source, at }: LockOut) -> Result<(), MailerError> {
        let Some(user) = Users::new(self.store.clone()).find(&locked_out).await? else { return Ok(()) };
        let row = audit_trail::for_lock_out(&user, source, at);
        Ok(audit::append_derived(&self.store, &user.account, &[row], self.clock.now()).await?)
    }

    /// Sends nothing if the link is no longer valid or the user does not exist. Has no claim: an email that is sent twice
    /// has the same link.
    async fn send_to_user(&self, email: UserEmail) -> Result<(), MailerError> {
        let Some(from) = &self.from else { return Ok(()) };
        let (now, users) = (self.clock.now(), Users::new(self.store.clone()));
        let (row, half, to, language) = match &email {
            UserEmail::Invite { link, .. } => {
                let Some(invite) = users.invite_of(&link.hash, now).await? else { return Ok(()) };
                (invite.key(), invite.half, invite.email, invite.language)
            }
            UserEmail::Reset { link } => {
                let Some((reset, user)) = users.reset_of(&link.hash, now).await? else { return Ok(()) };
                (reset.key(), reset.half, user.email, user.language.unwrap_or_default())
            }
        };
        let id = EmailId::derive(now, &row.joined(), 1, "to_user");
        let writer = Writer { id, language, dashboard: &self.dashboard };
        let text = match &email {
            UserEmail::Invite { link, merchant_name } => writer.invited(merchant_name, &link.token(&half)),
            UserEmail::Reset { link } => writer.reset(&link.token(&half)),
        };
        let to = to.parse().map_err(|error| format!("an email to a user can't be sent: {error}"))?;
        let message = EmailMessage::new(id, (from, &to), &text, now)?;
        self.sender.send(&message).await?;
        if matches!(self.sender, EmailSender::Nowhere) {
            // Without a directory for emails, a developer finds the link only in the log.
            tracing::info!(text = text.body, "the text of an email");
        }
        tracing::info!(email = %id, subject = message.subject, "email sent to a user");
        metrics::increment(metrics::EMAILS_SENT);
        Ok(())
    }

    async fn send_email(&self, email: Email) -> Result<(), MailerError> {
        let Some(from) = &self.from else { return Ok(()) };
        if email.about == EmailTopic::TeamAccess {
            return Box::pin(self.send_to_team(&email)).await;
        }
        let now = self.clock.now();
        if let EmailTopic::MedDeadline(case) = email.about {
            Box::pin(self.send_to_managers(&email, case, now)).await?;
        }
        let Some((to, text)) = Box::pin(self.compose(&email)).await? else { return Ok(()) };
        let message = EmailMessage::new(email.id(), (from, &to), &text, now)?;
        let claim = u64::from_le_bytes(random::bytes()?);
        match self.emails.claim(&email, claim, now).await? {
            Claim::Sent => Ok(()),
            // The worker that holds the lease may still fail, so the message is handled again when the lease
            // expires.
            Claim::Busy { until } => {
                Ok(self.queue.send_later(&email, until.saturating_duration_since(now)).await?)
            }
            Claim::Claimed(claimed) => {
                let is_test = email.scope.mode == Mode::Test;
                if is_test && !self.emails.count_test_email(&email.scope, now).await? {
                    tracing::warn!(email = %claimed.id, scope = %claimed.scope, "the daily limit of test emails is reached; the email is dropped");
                    self.emails.mark_sent(&claimed, now).await?;
                    return Ok(());
                }
                self.send(&claimed, &message).await
            }
        }
    }

    /// Sends a message for each recipient of an email about changes of access. A repeated message has no effect, because
    /// each of those emails is claimed.
    async fn send_to_team(&self, email: &Email) -> Result<(), MailerError> {
        let account = &email.scope.account;
        let rows = audit::since_where(&self.store, account, email.at, |row| email.reports(row)).await?;
        let changes = || rows.iter().filter_map(|row| Some((row, AccessChange::of(row)?)));
        let mut recipients: BTreeSet<UserId> =
            changes().filter_map(|(row, change)| change.user(row)).collect();
        if changes().any(|(_, change)| change.is_for_owners()) {
            let users = Users::new(self.store.clone()).team(account, self.clock.now()).await?.users;
            let owners = users.iter().filter(|user| user.role == Role::Owner);
            recipients.extend(owners.map(|owner| owner.id));
        }
        let messages =
            recipients.into_iter().map(|user| Email { about: EmailTopic::UserAccess(user), ..*email });
        let rejected = self.queue.send(&messages.collect::<Vec<_>>()).await?;
        if rejected.is_empty() { Ok(()) } else { Err("the queue rejected messages to a team".into()) }
    }

    /// Sends a message for each owner and administrator, except for a user who is the contact too. A repeated message has
    /// no effect, as in [`Self::send_to_team`].
    async fn send_to_managers(
        &self,
        email: &Email,
        case: MedCaseId,
        now: Timestamp,
    ) -> Result<(), MailerError> {
        let id = &email.scope.account;
        let (account, users) = (Account::key_of(id), Users::new(self.store.clone()));
        let (account, team) =
            tokio::join!(self.store.get::<Account>(&account), Box::pin(users.team(id, now)));
        let contact = account?.and_then(|account| account.contact.address);
        let is_contact =
            |user: &User| contact.as_ref().is_some_and(|to| to.as_str().eq_ignore_ascii_case(&user.email));
        let users = team?.users;
        let managers = users.iter().filter(|user| user.role.manages_keys() && !is_contact(user));
        let to = |user: &User| Email { about: EmailTopic::MedDeadlineTo(case, user.id), ..*email };
        let rejected = self.queue.send(&managers.map(to).collect::<Vec<_>>()).await?;
        if rejected.is_empty() { Ok(()) } else { Err("the queue rejected messages about a deadline".into()) }
    }

    /// The address of a user who still is an owner or administrator of the account.
    async fn manager(&self, id: UserId, account: &Account) -> WorkResult<Option<MailAddress>> {
        let user = Users::new(self.store.clone()).find(&id).await?;
        let user = user.filter(|user| user.account == account.id && user.role.manages_keys());
        Ok(user.and_then(|user| user.email.parse().ok()))
    }

    /// Returns the recipient and the text of an email to a user about changes of access. `None` when none concerns the
    /// user any more.
    async fn compose_access(
        &self,
        email: &Email,
        id: UserId,
        account: &Account,
    ) -> WorkResult<Option<(MailAddress, Text)>> {
        let users = Users::new(self.store.clone());
        let rows = audit::since_where(&self.store, &account.id, email.at, |row| email.reports(row));
        let (rows, user) = tokio::try_join!(rows, users.find(&id))?;
        let user = user.filter(|user| user.account == account.id);
        let is_owner = user.as_ref().is_some_and(|user| user.role == Role::Owner);
        let concerns = |row: &&Audit| {
            AccessChange::of(row)
                .is_some_and(|change| change.user(row) == Some(id) || (is_owner && change.is_for_owners()))
        };
        let rows: Vec<&Audit> = rows.iter().rev().filter(concerns).collect();
        let named = rows.iter().filter_map(|row| row.actor.parse().ok()).chain([id]).collect();
        let emails = users.emails_of(&named).await?;
        let to = emails.get(&id).filter(|_| !rows.is_empty()).and_then(|to| to.parse().ok());
        let language = user.and_then(|user| user.language).unwrap_or_default();
        let writer = Writer { id: email.id(), language, dashboard: &self.dashboard };
        Ok(to.map(|to| (to, writer.access_changed(&account.settings.merchant_name, &rows, &emails))))
    }

    /// Returns the recipient and the text of an email about a report. `None` when it was deleted, or the member left the
    /// account.
    async fn compose_report(
        &self,
        email: &Email,
        id: ReportId,
        account: &Account,
    ) -> WorkResult<Option<(MailAddress, Text)>> {
        let report: Option<Report> = self.store.get(&Report::key_of(&email.scope, id)).await?;
        let Some((report, user)) = report.and_then(|report| report.notify.map(|user| (report, user))) else {
            return Ok(None);
        };
        let user = Users::new(self.store.clone()).find(&user).await?;
        let Some(user) = user.filter(|user| user.account == account.id) else { return Ok(None) };
        let text = self.writer(email, &user).report_ready(&account.settings.merchant_name, &report.spec);
        Ok(user.email.parse().ok().map(|to| (to, text)))
    }

    /// In the user's language.
    fn writer(&self, email: &Email, user: &User) -> Writer<'_> {
        Writer { id: email.id(), language: user.language.unwrap_or_default(), dashboard: &self.dashboard }
    }

    /// The user of an email about sales and the address. `None`: the user has left the account or is not subscribed any
    /// more, the account is suspended, or mail is off.
    async fn subscriber(
        &self,
        id: UserId,
        account: &Account,
        is_subscribed: fn(&SalesEmails) -> bool,
    ) -> WorkResult<Option<(User, MailAddress)>> {
        let users = Users::new(self.store.clone());
        let (user, chosen) = tokio::try_join!(users.find(&id), users.sales_emails(&account.id, id))?;
        let is_mailed = !account.settings.suspended && !account.contact.mail_off && is_subscribed(&chosen);
        let user = user.filter(|user| is_mailed && user.account == account.id);
        Ok(user.and_then(|user| user.email.parse().ok().map(|to| (user, to))))
    }

    async fn compose_sales(
        &self,
        email: &Email,
        id: UserId,
        account: &Account,
    ) -> WorkResult<Option<(MailAddress, Text)>> {
        let Some((user, to)) = self.subscriber(id, account, |chosen| chosen.each_sale).await? else {
            return Ok(None);
        };
        let scope = ShardedScope { scope: email.scope, shards: account.settings.shards.read };
        let sales = Wallets::new(self.store.clone()).sales(&scope, email.minute()).await?;
        let Some(charge) = sales.charge else { return Ok(None) };
        let writer = self.writer(email, &user);
        if sales.count() > 1 {
            return Ok(Some((to, writer.sold(&account.settings.merchant_name, &sales, email.at))));
        }
        let charge: Option<StoredCharge> = self.store.get(&Charge::key_of(charge)).await?;
        let charge = charge.ok_or(WorkError::Missing("the charge of an email does not exist"))?;
        Ok(Some((to, writer.sale(&account.settings.merchant_name, charge.as_stored(), user.role))))
    }

    async fn compose_summary(
        &self,
        email: &Email,
        id: UserId,
        account: &Account,
    ) -> WorkResult<Option<(MailAddress, Text)>> {
        let is_subscribed = |chosen: &SalesEmails| chosen.summary_on.is_some();
        let Some((user, to)) = self.subscriber(id, account, is_subscribed).await? else { return Ok(None) };
        let scope = ShardedScope { scope: email.scope, shards: account.settings.shards.read };
        let day = Day::of(email.at).minus_days(1);
        let summary = Box::pin(day_summary(&self.store, &scope, day, self.clock.now())).await?;
        let text = self.writer(email, &user).summary(&account.settings.merchant_name, &summary);
        Ok(Some((to, text)))
    }

    /// Returns the recipient and the text of an email. `None` when the account has no contact that accepts
    /// emails, or when the change no longer needs an email.
    async fn compose(&self, email: &Email) -> WorkResult<Option<(MailAddress, Text)>> {
        let account = Account::key_of(&email.scope.account);
        let (account, text) = tokio::join!(self.store.get::<Account>(&account), self.text(email));
        let account = account?.ok_or(WorkError::Missing("the account of an email does not exist"))?;
        if let EmailTopic::UserAccess(user) = email.about {
            return self.compose_access(email, user, &account).await;
        }
        if let EmailTopic::ReportReady(report) = email.about {
            return self.compose_report(email, report, &account).await;
        }
        if let EmailTopic::Sales(user) = email.about {
            return Box::pin(self.compose_sales(email, user, &account)).await;
        }
        if let EmailTopic::SalesSummary(user) = email.about {
            return Box::pin(self.compose_summary(email, user, &account)).await;
        }
        let name = &account.settings.merchant_name;
        let text = text?.map(|text| text.addressed(name, email.scope.mode).signed(email.id()));
        let to = match email.about {
            EmailTopic::MedDeadlineTo(..) if account.contact.mail_off => None,
            EmailTopic::MedDeadlineTo(_, user) => self.manager(user, &account).await?,
            _ => account.contact.recipient().cloned(),
        };
        Ok(to.zip(text))
    }

    /// Writes an email's text from the current row of its topic. `None` when no email is needed.
    async fn text(&self, email: &Email) -> WorkResult<Option<Text>> {
        Ok(match email.about {
            EmailTopic::MedOpened(id) => {
                let (case, charge) = self.case(id).await?;
                Some(text::opened(&case, charge.as_stored(), &self.dashboard))
            }
            EmailTopic::MedResolved(id) => {
                let (case, charge) = self.case(id).await?;
                text::resolved(&case, charge.as_stored(), &self.dashboard)
            }
            // `None` when the case was answered meanwhile.
            EmailTopic::MedDeadline(id) | EmailTopic::MedDeadlineTo(id, _) => {
                let (case, charge) = self.case(id).await?;
                text::deadline(&case, charge.as_stored(), &self.dashboard, self.clock.now())
            }
            // `None` when the merchant has deleted or reactivated the endpoint meanwhile.
            EmailTopic::EndpointDisabled(id) => {
                let endpoint: Option<Endpoint> = self.store.get(&Endpoint::key_of(&email.scope, id)).await?;
                endpoint.and_then(|endpoint| text::disabled(&endpoint, email.at, &self.dashboard))
            }
            // `None` when the endpoint has changed since, for the better or the worse.
            EmailTopic::EndpointFailing(id) => {
                let (key, deliveries) =
                    (Endpoint::key_of(&email.scope, id), Deliveries::new(self.store.clone()));
                let waiting = deliveries.waiting_for(&email.scope, id);
                let (endpoint, waiting) = tokio::try_join!(self.store.get::<Endpoint>(&key), waiting)?;
                endpoint.and_then(|endpoint| text::failing(&endpoint, email.at, &waiting, &self.dashboard))
            }
            EmailTopic::EndpointRecovered(id) => {
                let endpoint: Option<Endpoint> = self.store.get(&Endpoint::key_of(&email.scope, id)).await?;
                endpoint.and_then(|endpoint| text::recovered(&endpoint, email.at, &self.dashboard))
            }
            // These go to users, not to the contact.
            EmailTopic::TeamAccess
            | EmailTopic::UserAccess(_)
            | EmailTopic::ReportReady(_)
            | EmailTopic::Sales(_)
            | EmailTopic::SalesSummary(_) => None,
            // The key is recorded even if the contact accepts no emails, so that a later refund to the key is
            // not reported as the first.
            EmailTopic::RefundDestination(id) => {
                let refund: Option<Refund> = self.store.get(&Refund::key_of(id)).await?;
                let refund = refund.ok_or(WorkError::Missing("the refund of an email does not exist"))?;
                let is_first = third_party::record_destination(&self.store, &refund).await?;
                text::destination(&refund).filter(|_| is_first)
            }
        })
    }

    async fn case(&self, id: MedCaseId) -> WorkResult<(MedCase, StoredCharge)> {
        let (case, charge) = (MedCase::key_of(id), Charge::key_of(id.charge()));
        let (case, charge) = tokio::try_join!(self.store.get(&case), self.store.get(&charge))?;
        case.zip(charge).ok_or(WorkError::Missing("the MED case of an email or its charge does not exist"))
    }

    async fn send(&self, claimed: &EmailRecord, message: &EmailMessage) -> Result<(), MailerError> {
        if let Err(error) = self.sender.send(message).await {
            // If the release fails too, a retry claims the email when the lease expires.
            if let Err(error) = self.emails.release(claimed).await {
                tracing::warn!(email = %claimed.id, %error, "the claim of an email was not released");
            }
            return Err(error.into());
        }
        // The email is sent. A failure to mark it as sent is only logged, because a retry of the message
        // would send the email again.
        match self.emails.mark_sent(claimed, self.clock.now()).await {
            Ok(true) => {}
            Ok(false) => {
                tracing::warn!(email = %claimed.id, "another worker claimed the email before it was marked as sent");
            }
            Err(error) => {
                tracing::error!(email = %claimed.id, %error, "an email was sent, but its row was not updated");
            }
        }
        tracing::info!(email = %claimed.id, scope = %claimed.scope, attempt = claimed.attempts, subject = message.subject, "email sent");
        metrics::increment(metrics::EMAILS_SENT);
        Ok(())
    }
}
