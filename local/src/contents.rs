//! The content of the state: the template's resources, the seeded accounts, and the bank as their acquirer. A start
//! creates what is missing. A reset deletes everything and creates it again.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use acquirer_core::configuration::AccountAcquirers;
use bank::Bank;
use domain::ids::UserId;
use shared::account::Users;
use shared::api_key::ApiKeys;
use shared::auth::dashboard::IssuedToken;
use shared::auth::dashboard::log_in::NewToken;
use shared::auth::dashboard::token::TokenKind;
use shared::clock::Clock;
use shared::store::{Inserted, Store};
use stripe_stand_in::Stripe;
use tokio::sync::{RwLock, watch};

use crate::acquirer_seed::{self, AcquirerSeed};
use crate::embedded::Endpoints;
use crate::embedded::dynamodb::Database;
use crate::error::{Context, Result};
use crate::event_sources::{self, Dependencies, EventSources};
use crate::files::remove;
use crate::lambda::Functions;
use crate::local_cards::{CARDS, EUROPE};
use crate::other_acquirers::OtherAcquirers;
use crate::provision;
use crate::seed::{Seed, SeededAccount};
use crate::template::{API_KEYS_TABLE, SECRETS_TABLE, Template};

/// The time that events in progress have to finish before a reset ends them. After the clock was advanced by months,
/// the work that became due takes much longer.
const GRACE: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) template: Template,
    pub(crate) endpoints: Endpoints,
    /// `None`: the state is in memory.
    pub(crate) directory: Option<PathBuf>,
    pub(crate) mail_directory: Option<PathBuf>,
    pub(crate) seed: Seed,
    pub(crate) clock: Clock,
    pub(crate) bank: Arc<Bank>,
    pub(crate) bank_url: String,
    pub(crate) cards: Arc<Stripe>,
    pub(crate) others: Option<Arc<OtherAcquirers>>,
    /// As the functions reach it.
    pub(crate) cards_url: String,
    pub(crate) own_url: String,
    pub(crate) functions: Functions,
    pub(crate) database: Database,
    /// The state table.
    pub(crate) store: Store,
    pub(crate) run_schedules_now: watch::Sender<()>,
    /// `None`: the service runs without event sources.
    pub(crate) event_sources: Mutex<Option<Arc<EventSources>>>,
    /// The sessions of the tokens in the ready file. A reset creates them again.
    pub(crate) sessions: Mutex<Vec<IssuedToken>>,
    pub(crate) gate: Arc<RwLock<()>>,
    /// Held for reading while a function works on records of a stream.
    pub(crate) streaming: Arc<RwLock<()>>,
    /// Held by an advance of the clock and by a reset.
    pub(crate) changing: Arc<tokio::sync::Mutex<()>>,
}

impl Contents {
    pub(crate) async fn create(&self) -> Result<()> {
        provision::provision(&self.template, &self.database, &self.endpoints).await?;
        let api_keys = ApiKeys::new(self.store.clone(), API_KEYS_TABLE);
        self.seed.insert_rows(&self.store, &api_keys, self.clock.now()).await?;
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for session in &sessions {
            let _inserted: Inserted<IssuedToken> = self.store.insert(session).await.context("seeding")?;
        }
        Ok(())
    }

    /// Logs a seeded user in, without a password.
    pub(crate) async fn begin_session(
        &self,
        kind: TokenKind,
        user: (&SeededAccount, &str),
    ) -> Result<(NewToken, IssuedToken)> {
        // Its tokens may have been ended since the start.
        let row = Users::new(self.store.clone())
            .find(&UserId::from_email(user.1))
            .await
            .context("reading a user")?;
        let (token, session) = self.seed.session(kind, (user, row.as_ref()), self.clock.now())?;
        let _inserted: Inserted<IssuedToken> = self.store.insert(&session).await.context("a session")?;
        Ok((token, session))
    }

    /// The API must be served, because some banks test the URL for notifications when it is registered.
    pub(crate) async fn configure_acquirers(&self) -> Result<()> {
        let secrets = Store::new(self.store.client().clone(), SECRETS_TABLE);
        let acquirers = AcquirerSeed {
            directory: self.directory.as_deref(),
            seed: &self.seed,
            acquirers: AccountAcquirers::new(self.store.clone(), secrets),
            base_url: &self.own_url,
            clock: &self.clock,
        };
        acquirers.configure_pix(&self.bank, &self.bank_url).await?;
        acquirers.configure_stripe(&CARDS, &self.cards_url).await?;
        if let Some(others) = &self.others {
            acquirers.configure_stripe(&EUROPE, others.europe.url()).await?;
            acquirers.configure_btcpay(others.btcpay.url()).await?;
        }
        Ok(())
    }

    pub(crate) fn start_event_sources(&self) -> Result<()> {
        let sources = EventSources::start(Dependencies {
            template: &self.template,
            functions: &self.functions,
            endpoints: &self.endpoints,
            database: &self.database,
            directory: self.directory.as_ref(),
            clock: &self.clock,
            run_schedules_now: &self.run_schedules_now,
            streaming: &self.streaming,
        })?;
        *self.event_sources.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(sources));
        Ok(())
    }

    pub(crate) fn event_sources(&self) -> Option<Arc<EventSources>> {
        self.event_sources.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) async fn reset(&self) -> Result<()> {
        let event_sources = self.event_sources();
        self.stop_event_sources(GRACE).await;
        // The write lock waits first, so that no request begins after the functions were killed.
        let (closed, ()) = tokio::join!(self.gate.write(), async { self.functions.kill_all() });
        self.delete().await?;
        self.create().await?;
        if event_sources.is_some() {
            self.start_event_sources()?;
        }
        drop(closed);
        self.configure_acquirers().await
    }

    /// Kills the functions whose invocations do not end within `grace`.
    pub(crate) async fn stop_event_sources(&self, grace: Duration) {
        let Some(event_sources) = self.event_sources() else { return };
        let mut stopped = std::pin::pin!(event_sources.stop());
        if tokio::time::timeout(grace, stopped.as_mut()).await.is_err() {
            self.functions.kill_all();
            stopped.await;
        }
    }

    async fn delete(&self) -> Result<()> {
        if let Some(directory) = &self.directory {
            // Before the rows: after a kill in between, the streams are read from their oldest records.
            event_sources::remove_checkpoints(directory, &self.template)?;
            for marker in [acquirer_seed::MARKER, acquirer_seed::BTCPAY_MARKER, CARDS.marker, EUROPE.marker] {
                remove(&directory.join(marker), std::fs::remove_file)?;
            }
            remove(&directory.join(CLOCK_FILE), std::fs::remove_file)?;
        }
        self.clock.reset();
        self.bank.reset().context("emptying the bank's books")?;
        self.cards.reset().context("emptying the stand-in of Stripe")?;
        if let Some(others) = &self.others {
            others.reset().context("emptying the stand-ins of other acquirers")?;
        }
        if let Some(mails) = &self.mail_directory {
            remove(mails, std::fs::remove_dir_all)?;
        }
        provision::delete(&self.template, &self.database, &self.endpoints).await
    }
}

pub(crate) const CLOCK_FILE: &str = "clock.json";
