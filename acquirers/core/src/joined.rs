//! The connections of a charge whose methods belong to several, as one connector. Each creates its part of the charge.
//! A payment at one is followed by closing the charge at the others; a second payment meanwhile goes back.

use acquirer_kit::{Connector, KitError, NewCharge, Priority, Result};
use async_trait::async_trait;
use domain::acquirer::{AcquirerName, Capabilities, RefundCapabilities};
use domain::charge::transition::Finalised;
use domain::charge::{Artefacts, Charge, TransactionStatus};
use domain::money::Currency;
use domain::payment_method::PaymentMethod;
use domain::snapshot::{RemoteState, Snapshot};

use super::Connection;

/// At least one, each with its methods of the charge.
#[derive(Debug)]
pub(super) struct Joined(pub(super) Vec<(Connection, Vec<PaymentMethod>)>);

impl Joined {
    fn connectors(&self) -> impl Iterator<Item = &dyn Connector> {
        self.0.iter().map(|(connection, _)| connection.connector())
    }

    /// What one connection says counts although another is silent, so that a payment is credited. A cancellation that
    /// one can't execute closes no other. Banks are the last: while the payer pays by card, the charge can't be closed,
    /// and its Pix code stays payable. `closes`: each closes the charge, with this priority.
    async fn ask(
        &self,
        charge: &Charge,
        closes: Option<Priority>,
        is_whole: bool,
    ) -> Result<Option<Snapshot>> {
        let (mut joined, mut is_lost, mut silent) = (None::<Snapshot>, false, None);
        let (banks, others): (Vec<_>, Vec<_>) =
            self.0.iter().partition(|(connection, _)| connection.as_pix().is_some());
        for (connection, _) in others.into_iter().chain(banks) {
            let connector = connection.connector();
            let is_in_progress =
                joined.as_ref().is_some_and(|joined| joined.state == RemoteState::InProgress);
            let may_close =
                |priority: &Priority| !is_in_progress && (silent.is_none() || *priority != Priority::Create);
            let answered = match closes.filter(may_close) {
                Some(priority) => connector.close(charge, priority).await,
                None => connector.read(charge, is_whole).await,
            };
            match answered {
                Ok(said) => {
                    is_lost |=
                        closes.is_some() && said.is_none() && charge.status != TransactionStatus::Pending;
                    joined = Snapshot::joined(said, joined);
                }
                Err(error) => silent = Some(error),
            }
        }
        let joined = joined.filter(|joined| !is_lost || joined.state == RemoteState::Paid);
        match (joined, silent) {
            (None, Some(error)) => Err(error),
            (joined, silent) => {
                let is_silent = silent.is_some();
                if let Some(error) = silent {
                    tracing::warn!(charge = %charge.id, %error, "one of a charge's acquirers does not answer");
                }
                Ok(joined.map(|joined| Snapshot { is_partial: joined.is_partial || is_silent, ..joined }))
            }
        }
    }
}

/// Refunds, returns and changes are those of a payment or of one connection, so it refuses them.
#[async_trait]
impl Connector for Joined {
    fn name(&self) -> AcquirerName {
        self.0.first().map_or_else(AcquirerName::default, |(connection, _)| connection.name())
    }

    fn capabilities(&self, method: PaymentMethod, currency: Currency) -> Option<Capabilities> {
        let (connection, _) = self.0.iter().find(|(_, methods)| methods.contains(&method))?;
        connection.connector().capabilities(method, currency)
    }

    fn refund_capabilities(&self) -> RefundCapabilities {
        RefundCapabilities { methods: &[], cashout: false }
    }

    /// If one refuses, the charge is closed where it was created.
    async fn create(&self, new: NewCharge<'_>) -> Result<Finalised> {
        let mut artefacts = Artefacts::default();
        for (number, connector) in self.connectors().enumerate() {
            match connector.create(new).await? {
                Finalised::Made(made) => artefacts = artefacts.joined(*made),
                refused @ Finalised::Refused(_) => {
                    for created in self.connectors().take(number) {
                        let closed = created.close(new.charge, Priority::Create).await?;
                        if let Some(odd) = closed.and_then(|mut closed| closed.odd.pop()) {
                            return Err(KitError::Odd(odd));
                        }
                    }
                    return Ok(refused);
                }
            }
        }
        Ok(Finalised::Made(Box::new(artefacts)))
    }

    async fn read(&self, charge: &Charge, is_whole: bool) -> Result<Option<Snapshot>> {
        self.ask(charge, None, is_whole).await
    }

    /// `None` also if one has lost the charge and it is not paid: then it must not end here.
    async fn close(&self, charge: &Charge, priority: Priority) -> Result<Option<Snapshot>> {
        self.ask(charge, Some(priority), false).await
    }
}
