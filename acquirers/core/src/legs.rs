//! The acquirers of a charge. Each of its methods is a leg, at the connection that takes it. A leg is created, read and
//! closed alone, and one that is silent holds up no other. A payment by one is followed by closing the others; a second
//! payment meanwhile goes back.

use std::time::Duration;

use acquirer_kit::{Connector, FINALISE_TIMEOUT_MS, NOT_FINALISED_IN_TIME, NewCharge, Priority, Result};
use api_pix::PixBank;
use domain::account::AccountSettings;
use domain::acquirer::AcquirerName;
use domain::charge::transition::{Finalised, MadeLegs};
use domain::charge::{Charge, FailureReason, TransactionStatus};
use domain::ids::ConnectionId;
use domain::money::Currency;
use domain::payment_method::PaymentMethod;
use domain::snapshot::{RemoteState, Snapshot};
use domain::time::Timestamp;
use futures_util::StreamExt as _;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use shared::config::PublicUrls;
use tokio::time::{Instant, timeout_at};

use crate::{AcquirerError, Connection, within};

/// How long the creation of a charge waits for further legs when one is created.
const WAIT_FOR_OTHERS: Duration = Duration::from_secs(2);

/// How long a request to create a leg may be on its way, in milliseconds: an hour. A leg that was given up, or whose
/// charge ended before, is looked for as long.
const LATE_CREATION_MS: i64 = 60 * 60 * 1_000;

/// The sandbox creates all methods of a charge as one leg.
#[derive(Clone, Debug)]
struct Leg {
    method: PaymentMethod,
    connection: Connection,
}

#[derive(Clone, Debug)]
pub struct Legs {
    /// That of the charge's row.
    own: Connection,
    legs: Vec<Leg>,
}

#[derive(Clone, Copy, Debug)]
enum Ask {
    Read { is_whole: bool },
    Close(Priority),
}

/// What a leg's acquirer said.
enum Said {
    Known(Box<Snapshot>),
    /// It has lost a leg that it created.
    Lost,
    /// The leg may appear there.
    NotYet,
    /// There is nothing to say.
    Nothing,
}

impl Legs {
    /// `None`: there is no leg.
    pub(crate) fn new(legs: Vec<(PaymentMethod, Connection)>) -> Option<Self> {
        let legs: Vec<Leg> =
            legs.into_iter().map(|(method, connection)| Leg { method, connection }).collect();
        let own = legs.first()?.connection.clone();
        Some(Self { own, legs })
    }

    pub(crate) fn of_sandbox(methods: &[PaymentMethod], own: Connection) -> Self {
        let method = methods.first().copied().unwrap_or(PaymentMethod::Pix);
        Self { legs: vec![Leg { method, connection: own.clone() }], own }
    }

    /// The connection in the charge's row.
    pub fn own(&self) -> &Connection {
        &self.own
    }

    pub fn connections(&self) -> impl Iterator<Item = &Connection> {
        self.legs.iter().map(|leg| &leg.connection)
    }

    /// The methods of a charge that belong to other connections.
    pub fn elsewhere(&self) -> Vec<(PaymentMethod, ConnectionId)> {
        let all = self.legs.iter().filter_map(|leg| Some((leg.method, leg.connection.id()?)));
        all.filter(|(_, id)| Some(*id) != self.own.id()).collect()
    }

    pub fn as_pix(&self) -> Option<&PixBank> {
        self.connections().find_map(Connection::as_pix)
    }

    /// How long an overdue charge is left open.
    pub fn expire_after_seconds(&self) -> u32 {
        self.connections().map(Connection::expire_after_seconds).max().unwrap_or_default()
    }

    /// Whether the merchant is answered before the charge is created.
    pub fn create_later(&self, charge: &Charge) -> bool {
        self.connections().any(|connection| connection.connector().creates_later(charge))
    }

    /// Checks what the acquirers take, so that a charge that one would refuse is not stored.
    pub fn check(&self, charge: &Charge) -> Result<(), AcquirerError> {
        let amount = charge.amount.minor();
        self.check_amounts(&charge.methods, charge.currency, (amount, amount))
    }

    /// Checks that all methods take an amount of a range, which is in minor units.
    pub fn check_amounts(
        &self,
        methods: &[PaymentMethod],
        currency: Currency,
        range: (i64, i64),
    ) -> Result<(), AcquirerError> {
        let of = |method: PaymentMethod| self.legs.iter().find(|leg| leg.method == method);
        let connection = |method| of(method).map_or(&self.own, |leg| &leg.connection);
        let narrowed = |range, method: &PaymentMethod| connection(*method).taken(*method, currency, range);
        methods.iter().try_fold(range, narrowed).map(drop)
    }

    /// Creates the legs that are missing, or finds what an earlier call created. Those that are not answered in time, and
    /// soon after the first that is, remain missing.
    ///
    /// # Errors
    ///
    /// That of an acquirer, if no leg is created and one may be.
    pub async fn create(
        &self,
        charge: &Charge,
        settings: &AccountSettings,
        public_urls: &PublicUrls,
        (is_first, now): (bool, Timestamp),
        limit: Duration,
    ) -> Result<MadeLegs> {
        let return_url = &public_urls.card_return_url(charge.id);
        let pix_location = &public_urls.pix_location(&charge.id.txid());
        let new = NewCharge { charge, settings, return_url, pix_location, is_first, now };
        let mut waiting = FuturesUnordered::new();
        for leg in &self.legs {
            if charge.missing_legs().any(|missing| missing == leg.method) {
                waiting.push(async move { (leg.method, within(limit, created(leg.connector(), new)).await) });
            }
        }
        let (mut made, mut silent, mut others_until) = (MadeLegs::default(), None, None);
        loop {
            let next = match others_until {
                Some(until) => timeout_at(until, waiting.next()).await.ok().flatten(),
                None => waiting.next().await,
            };
            let Some((method, answered)) = next else { break };
            match answered {
                Ok(finalised) => {
                    if matches!(finalised, Finalised::Made(_)) {
                        others_until = Instant::now().checked_add(WAIT_FOR_OTHERS);
                    }
                    made = made.joined(MadeLegs::of(method, finalised, now));
                }
                Err(error) => {
                    tracing::warn!(charge = %charge.id, method = method.as_str(), %error, "an acquirer did not create its leg of a charge");
                    silent = Some(error);
                }
            }
        }
        match silent {
            Some(error) if made.created_none() => Err(error),
            _ => Ok(made),
        }
    }

    /// Reads the charge at all its acquirers. `None`: they do not know it.
    pub async fn read(&self, charge: &Charge, is_whole: bool, now: Timestamp) -> Result<Option<Snapshot>> {
        self.ask(charge, (Ask::Read { is_whole }, true), now).await
    }

    /// Closes all legs, and reads them. `None`: an acquirer has lost its leg, and no other was paid; then the charge must
    /// not end here. Also if no leg was created.
    pub async fn close(
        &self,
        charge: &Charge,
        priority: Priority,
        now: Timestamp,
    ) -> Result<Option<Snapshot>> {
        self.ask(charge, (Ask::Close(priority), true), now).await
    }

    /// Closes all legs for a cancellation. If one is paid, is being paid or does not answer, none is closed. Those that a
    /// payer may be paying meanwhile are closed first, and if one is, no other is closed.
    pub async fn cancel(&self, charge: &Charge, now: Timestamp) -> Result<Option<Snapshot>> {
        let goes_on = |said: &Option<Snapshot>| {
            said.as_ref().is_none_or(|said| {
                !said.is_partial && !matches!(said.state, RemoteState::InProgress | RemoteState::Paid)
            })
        };
        if self.legs.len() > 1 && charge.status != TransactionStatus::Pending {
            // A leg that was given up is looked for after the cancellation too.
            let read = self.ask(charge, (Ask::Read { is_whole: false }, false), now).await?;
            if !goes_on(&read) {
                return Ok(read);
            }
        }
        let is_bank = |leg: &Leg| leg.connection.name() == AcquirerName::Pix;
        let (banks, others): (Vec<Leg>, Vec<Leg>) = self.legs.iter().cloned().partition(is_bank);
        let mut joined = None;
        for legs in [others, banks].into_iter().filter(|legs| !legs.is_empty()) {
            let part = Self { legs, own: self.own.clone() };
            let closed = part.ask(charge, (Ask::Close(Priority::Create), false), now).await?;
            let is_done = !goes_on(&closed);
            joined = Snapshot::joined(joined, closed);
            if is_done {
                break;
            }
        }
        Ok(joined)
    }

    /// `waits`: for legs that were given up and may appear.
    async fn ask(
        &self,
        charge: &Charge,
        (ask, waits): (Ask, bool),
        now: Timestamp,
    ) -> Result<Option<Snapshot>> {
        let answers = join_all(self.legs.iter().map(|leg| leg.ask(charge, ask, now))).await;
        let (mut joined, mut is_lost, mut is_partial, mut silent) = (None::<Snapshot>, false, false, None);
        for (leg, answered) in self.legs.iter().zip(answers) {
            match answered {
                Ok(Said::Known(mut said)) => {
                    if charge.has_several_legs() {
                        said.legs.push((leg.method, said.state.clone()));
                    }
                    joined = Snapshot::joined(joined, Some(*said));
                }
                Ok(Said::Lost) => is_lost |= matches!(ask, Ask::Close(_)),
                Ok(Said::NotYet) => is_partial |= waits || charge.ended_leg(leg.method).is_none(),
                Ok(Said::Nothing) => {}
                Err(error) => {
                    tracing::warn!(charge = %charge.id, method = leg.method.as_str(), %error, "an acquirer of a charge does not answer");
                    (is_partial, silent) = (true, Some(error));
                }
            }
        }
        let joined = joined.filter(|joined| !is_lost || joined.state == RemoteState::Paid);
        match (joined, silent) {
            (None, Some(error)) => Err(error),
            (joined, _) => {
                Ok(joined.map(|joined| Snapshot { is_partial: joined.is_partial || is_partial, ..joined }))
            }
        }
    }
}

impl Leg {
    fn connector(&self) -> &dyn Connector {
        self.connection.connector()
    }

    async fn ask(&self, charge: &Charge, ask: Ask, now: Timestamp) -> Result<Said> {
        let was_created = charge.artefacts.expires_at(self.method).is_some();
        // Its creation may not be recorded yet.
        let is_pending = charge.status == TransactionStatus::Pending && matches!(ask, Ask::Read { .. });
        let answered = match ask {
            Ask::Read { is_whole } if was_created || is_pending => {
                self.connector().read(charge, is_whole).await?
            }
            Ask::Close(priority) if was_created => self.connector().close(charge, priority).await?,
            _ => return self.look_for_late(charge, ask, now).await,
        };
        Ok(answered.map_or(Said::Lost, |said| Said::Known(Box::new(said))))
    }

    /// A leg that was given up, or whose charge ended before its creation, may have been created all the same.
    async fn look_for_late(&self, charge: &Charge, ask: Ask, now: Timestamp) -> Result<Said> {
        let ended = charge.ended_leg(self.method);
        let since = match ended {
            Some(ended) if ended.why == FailureReason::AcquirerUnavailable => Some(ended.at),
            Some(_refused) => return Ok(Said::Nothing),
            None => charge.unread_since.filter(|_| !charge.is_open()),
        };
        let priority = match ask {
            Ask::Close(priority) => priority,
            Ask::Read { .. } if since.is_some() => Priority::Background,
            // It will be created.
            Ask::Read { .. } if charge.is_open() => return Ok(Said::NotYet),
            Ask::Read { is_whole } => {
                let read = self.connector().read(charge, is_whole).await?;
                return Ok(read.map_or(Said::Nothing, |said| Said::Known(Box::new(said))));
            }
        };
        let closed = self.connector().close(charge, priority).await?;
        let is_over = since.is_some_and(|since| now.millis_since(since) > LATE_CREATION_MS);
        Ok(match closed {
            // The other legs say how the charge ends.
            Some(said) if ended.is_some() && is_closed(&said) => Said::Nothing,
            None if ended.is_some() && is_over => Said::Nothing,
            Some(said) => Said::Known(Box::new(said)),
            None if is_over => Said::Known(Box::new(Snapshot::of(RemoteState::ClosedByUs))),
            None if since.is_some() || charge.can_expire() => Said::NotYet,
            None => Said::Nothing,
        })
    }
}

/// Whether a leg was closed unpaid.
fn is_closed(said: &Snapshot) -> bool {
    said.payments.is_empty() && matches!(said.state, RemoteState::ClosedByUs | RemoteState::Expired)
}

/// Creates a leg, or gives it up when its acquirer had no answer in time. Then it may exist there, so it is closed. If it
/// was paid meanwhile, it is created.
async fn created(connector: &dyn Connector, new: NewCharge<'_>) -> Result<Finalised> {
    let charge = new.charge;
    if new.is_first || new.now.millis_since(charge.created_at) < FINALISE_TIMEOUT_MS {
        return connector.create(new).await;
    }
    match connector.close(charge, Priority::Create).await {
        Ok(Some(Snapshot { state: RemoteState::Paid | RemoteState::InProgress, .. })) => {
            return connector.create(new).await;
        }
        Ok(_) => {
            tracing::error!(charge = %charge.id, "a charge could not be created at its acquirer in time; it is refused");
        }
        Err(error) => {
            tracing::error!(charge = %charge.id, %error, "a charge could not be created at its acquirer in time; it is refused, and may exist there");
        }
    }
    Ok(NOT_FINALISED_IN_TIME)
}
