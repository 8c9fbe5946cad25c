//! The connections of a charge whose methods belong to several, as one connector. Each creates its part of the charge.
//! A payment at one is followed by closing the charge at the others; a second payment meanwhile goes back.

use acquirer_kit::{
    Changes, Connector, KitError, NewCharge, Priority, ProviderStatus, RefundAnswer, Result, ReturnProgress,
};
use async_trait::async_trait;
use domain::acquirer::{Capabilities, RefundCapabilities};
use domain::charge::transition::Finalised;
use domain::charge::{Artefacts, Charge, IncomingPayment, TransactionStatus};
use domain::money::Currency;
use domain::payment_method::PaymentMethod;
use domain::refund::Refund;
use domain::snapshot::{RemoteState, Snapshot};
use domain::time::Timestamp;

use super::Connection;

/// At least one, each with its methods of the charge.
#[derive(Debug)]
pub(super) struct Joined(pub(super) Vec<(Connection, Vec<PaymentMethod>)>);

/// What each connection is asked.
#[derive(Clone, Copy)]
enum Asked {
    Read,
    Whole,
    Close(Priority),
}

impl Joined {
    fn connectors(&self) -> impl Iterator<Item = &dyn Connector> {
        self.0.iter().map(|(connection, _)| connection.connector())
    }

    /// What one connection says counts although another is silent, so that a payment is credited. A cancellation that
    /// one can't execute closes no other. Banks are the last: while the payer pays by card, the charge can't be closed,
    /// and its Pix code stays payable.
    async fn ask(&self, charge: &Charge, asked: Asked) -> Result<Option<Snapshot>> {
        let closes = matches!(asked, Asked::Close(_));
        let (mut joined, mut is_lost, mut silent) = (None::<Snapshot>, false, None);
        let (banks, others): (Vec<_>, Vec<_>) =
            self.0.iter().partition(|(connection, _)| connection.as_pix().is_some());
        for (connection, _) in others.into_iter().chain(banks) {
            let connector = connection.connector();
            let is_in_progress =
                joined.as_ref().is_some_and(|joined| joined.state == RemoteState::InProgress);
            let answered = match asked {
                Asked::Close(priority)
                    if !is_in_progress && (silent.is_none() || priority != Priority::Create) =>
                {
                    connector.close(charge, priority).await
                }
                Asked::Whole => connector.read_whole(charge).await,
                Asked::Read | Asked::Close(_) => connector.read(charge).await,
            };
            match answered {
                Ok(said) => {
                    is_lost |= closes && said.is_none() && charge.status != TransactionStatus::Pending;
                    joined = Snapshot::joined(said, joined);
                }
                Err(error) => silent = Some(error),
            }
        }
        let joined = joined.filter(|joined| !is_lost || joined.state == RemoteState::Paid);
        match (joined, silent) {
            (None, Some(error)) => Err(error),
            (joined, silent) => {
                let is_partial = silent.is_some();
                if let Some(error) = silent {
                    tracing::warn!(charge = %charge.id, %error, "one of a charge's acquirers does not answer");
                }
                Ok(joined.map(|joined| Snapshot { is_partial, ..joined }))
            }
        }
    }
}

/// Refunds, returns and changes are those of a payment or of one connection.
fn of_one_connection<T>() -> Result<T> {
    Err(KitError::Invalid("this is done at one connection".to_owned()))
}

#[async_trait]
impl Connector for Joined {
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
                refused @ Finalised::Refused { .. } => {
                    for created in self.connectors().take(number) {
                        created.close(new.charge, Priority::Create).await?;
                    }
                    return Ok(refused);
                }
            }
        }
        Ok(Finalised::Made(Box::new(artefacts)))
    }

    async fn read(&self, charge: &Charge) -> Result<Option<Snapshot>> {
        self.ask(charge, Asked::Read).await
    }

    async fn read_whole(&self, charge: &Charge) -> Result<Option<Snapshot>> {
        self.ask(charge, Asked::Whole).await
    }

    /// `None` also if one has lost the charge and it is not paid: then it must not end here.
    async fn close(&self, charge: &Charge, priority: Priority) -> Result<Option<Snapshot>> {
        self.ask(charge, Asked::Close(priority)).await
    }

    async fn find_refund(&self, _: &Refund, _: Timestamp) -> Result<Option<RefundAnswer>> {
        of_one_connection()
    }

    async fn request_refund(&self, _: &Refund, _: Timestamp, _: Timestamp) -> Result<RefundAnswer> {
        of_one_connection()
    }

    async fn find_return(
        &self,
        _: &IncomingPayment,
        _: &str,
        _: Timestamp,
    ) -> Result<Option<ReturnProgress>> {
        of_one_connection()
    }

    async fn request_return(&self, _: &IncomingPayment, _: &str, _: Timestamp) -> Result<ReturnProgress> {
        of_one_connection()
    }

    async fn changes(&self, _: Timestamp, _: Option<&str>) -> Result<Changes> {
        of_one_connection()
    }

    async fn status(&self, _: &Charge) -> Result<Option<ProviderStatus>> {
        of_one_connection()
    }
}
