//! Sends e-mail to an account's contact when a MED case opens or ends, an endpoint is switched off, or a refund goes to a
//! new Pix key.
//!
//! A message names a change. What the mail says follows from the rows as they are now; a row of the email's own keeps it
//! from being sent twice ([`shared::email`]). A mail that fails is received again, and goes to the dead-letter queue in the
//! end; nothing but the mail waits for it. `text` has what mails say, `mail` their form, `sender` the ways that they go.

pub mod mail;
pub mod sender;
pub mod ses;
mod text;

use aws_lambda_events::sqs::SqsEvent;
use aws_lambda_events::streams::SqsEventResponse;
use domain::account::{Account, MailAddress};
use domain::ids::{MedCaseId, Mode};
use domain::med::MedCase;
use domain::refund::Refund;
use shared::clock::Clock;
use shared::config::{ConfigError, required};
use shared::email::{About, Claim, Email, EmailQueue, Emails, Sending};
use shared::errors::WorkError;
use shared::queue::{self, QueueError};
use shared::random::{self, RandomError};
use shared::refund::third_party;
use shared::store::{Aws, Store, StoreError};
use shared::webhook::endpoint::Endpoint;

use crate::mail::{Mail, MailError};
use crate::sender::{SendError, Sender};
use crate::text::Text;

/// The function's state. Clones share clients.
#[derive(Clone, Debug)]
pub struct Mailer {
    store: Store,
    emails: Emails,
    queue: EmailQueue,
    clock: Clock,
    /// Who mails are from; `None`: there are none in this stack.
    from: Option<MailAddress>,
    sender: Sender,
}

/// Why a mail was not sent.
#[derive(Debug, thiserror::Error)]
enum MailerError {
    /// A table or queue did not answer, or a row can't be read.
    #[error(transparent)]
    Work(#[from] WorkError),
    /// The mail can't be written.
    #[error(transparent)]
    Mail(#[from] MailError),
    /// The mail did not go.
    #[error(transparent)]
    Send(#[from] SendError),
}

impl From<StoreError> for MailerError {
    fn from(error: StoreError) -> Self {
        Self::Work(error.into())
    }
}

impl From<QueueError> for MailerError {
    fn from(error: QueueError) -> Self {
        Self::Work(error.into())
    }
}

impl From<RandomError> for MailerError {
    fn from(error: RandomError) -> Self {
        Self::Work(error.into())
    }
}

impl Mailer {
    /// Reads `TABLE_NAME`, `MAIL_QUEUE_URL` and `MAIL_FROM` (empty: no mail is sent).
    pub fn from_vars(
        aws: &Aws,
        clock: Clock,
        sender: Sender,
        var: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        let store = Store::new(aws.dynamodb(), required(var, "TABLE_NAME")?);
        let from = var("MAIL_FROM").filter(|from| !from.is_empty()).map(|from| from.parse());
        Ok(Self {
            emails: Emails::new(store.clone()),
            store,
            queue: EmailQueue::new(aws.sqs(), required(var, "MAIL_QUEUE_URL")?),
            clock,
            from: from.transpose().map_err(|error| ConfigError::new(format!("MAIL_FROM {error}")))?,
            sender,
        })
    }

    /// Works on a batch. Reports the messages that were not done.
    pub async fn handle(&self, batch: SqsEvent) -> SqsEventResponse {
        let mailer = self.clone();
        queue::work_on(batch, move |email: Email| {
            let mailer = mailer.clone();
            async move { mailer.send_email(email).await }
        })
        .await
    }

    async fn send_email(&self, email: Email) -> Result<(), MailerError> {
        let Some(from) = &self.from else { return Ok(()) };
        let now = self.clock.now();
        let Some((to, text)) = self.compose(&email).await? else { return Ok(()) };
        let mail = Mail::new(email.id(), (from, &to), &text, now)?;
        let claim = u64::from_le_bytes(random::bytes()?);
        match self.emails.claim(&email, claim, now).await? {
            Claim::Sent => Ok(()),
            // Whoever has it may still fail.
            Claim::Busy { until } => Ok(self.queue.send_later(&email, until.until_from(now)).await?),
            Claim::Claimed(claimed) => {
                let is_test = email.scope.mode == Mode::Test;
                if is_test && !self.emails.take_test_mail(&email.scope, now).await? {
                    tracing::warn!(email = %claimed.id, scope = %claimed.scope, "no more mails for tests today");
                    self.emails.sent(&claimed, now).await?;
                    return Ok(());
                }
                self.send(&claimed, &mail).await
            }
        }
    }

    /// Whom to tell what; `None`: nobody, or what there was to tell is no more.
    async fn compose(&self, email: &Email) -> Result<Option<(MailAddress, Text)>, WorkError> {
        let account = Account::key_of(&email.scope.account);
        let (account, text) = tokio::join!(self.store.get::<Account>(&account), self.text(email));
        let account = account?.ok_or(WorkError::Missing("an email has no account"))?;
        let name = &account.settings.merchant_name;
        let text = text?.map(|text| text.addressed(name, email.scope.mode).signed(email.id()));
        Ok(account.contact.recipient().cloned().zip(text))
    }

    /// What an email says, by the row that it is about as it stands now.
    async fn text(&self, email: &Email) -> Result<Option<Text>, WorkError> {
        Ok(match email.about {
            About::MedOpened(id) => Some(text::opened(&self.case(id).await?)),
            About::MedResolved(id) => text::resolved(&self.case(id).await?),
            // Whoever deleted it or switched it on again needs no telling.
            About::EndpointDisabled(id) => {
                let endpoint: Option<Endpoint> = self.store.get(&Endpoint::key_of(&email.scope, id)).await?;
                endpoint.and_then(|endpoint| text::disabled(&endpoint, email.at))
            }
            // The key is remembered whether or not the contact wants mails, so that a known one is never called new.
            About::RefundDestination(id) => {
                let refund: Option<Refund> = self.store.get(&Refund::key_of(id)).await?;
                let refund = refund.ok_or(WorkError::Missing("an email has no refund"))?;
                let is_first = third_party::is_first_to(&self.store, &refund).await?;
                text::destination(&refund).filter(|_| is_first)
            }
        })
    }

    async fn case(&self, id: MedCaseId) -> Result<MedCase, WorkError> {
        let case = self.store.get(&MedCase::key_of(id)).await?;
        case.ok_or(WorkError::Missing("an email has no case"))
    }

    async fn send(&self, claimed: &Sending, mail: &Mail) -> Result<(), MailerError> {
        if let Err(error) = self.sender.send(mail).await {
            // What can't be given back is taken up again when its lease ends.
            if let Err(error) = self.emails.release(claimed).await {
                tracing::warn!(email = %claimed.id, %error, "an email was not given back");
            }
            return Err(error.into());
        }
        // Told is told: to try this message again would tell it twice.
        match self.emails.sent(claimed, self.clock.now()).await {
            Ok(true) => {}
            Ok(false) => tracing::warn!(email = %claimed.id, "the lease ended before the mail was sent"),
            Err(error) => {
                tracing::error!(email = %claimed.id, %error, "a mail was sent, which was not noted");
            }
        }
        tracing::info!(email = %claimed.id, scope = %claimed.scope, attempt = claimed.attempts, subject = mail.subject, "mail sent");
        Ok(())
    }
}
