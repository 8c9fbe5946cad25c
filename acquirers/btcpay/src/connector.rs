//! Charges by crypto, each an invoice of the merchant's store.

use acquirer_kit::{
    Changes, Connector, KitError, Movement, Movements, NOT_FINALISED_IN_TIME, NewCharge, Priority,
    ProviderStatus, Result, read_as_odd,
};
use artefacts::crypto::{BitcoinNetwork, bitcoin_network};
use async_trait::async_trait;
use domain::acquirer::{AcquirerName, Capabilities, OddObject, RefundCapabilities};
use domain::charge::transition::Finalised;
use domain::charge::{Artefacts, Charge, Crypto, FailureReason};
use domain::money::{Amount, Currency, MinorUnits, Money};
use domain::payment_method::PaymentMethod;
use domain::snapshot::{RemoteState, Snapshot};
use domain::time::Timestamp;
use serde_json::{Value, json};

use crate::PAYMENT_METHOD;
use crate::client::Client;
use crate::error::{ApiError, Remedy};
use crate::objects::{AdditionalStatus, Invoice, InvoicePaymentMethod, InvoiceStatus, id_of};
use crate::operations::{ListQuery, MONITORING_MINUTES, NewInvoice, Page};
use crate::payments::{has_payments, odd, satoshis, snapshot, time, units};

/// The currencies of charges. A server has a rate for each, and both sides have the same decimals.
const CURRENCIES: [Currency; 4] = [Currency::BRL, Currency::EUR, Currency::USD, Currency::BTC];

/// The network does not pass on a payment of less, to any form of address.
const DUST_SATOSHIS: i64 = 546;

/// The most pages of a list that are read. A charge has an invoice, or two after a lost answer.
const MAX_PAGES: usize = 10;

/// How long after its creation an invoice can change, in seconds: its time, the monitoring, and some minutes for the
/// clocks.
const CHANGING_SECONDS: i64 = MONITORING_MINUTES * 60 + 2 * 60 * 60;

/// How much more than its amount a settled invoice may show as paid, in minor units. What is due is rounded up to a
/// satoshi, which is worth less.
const ROUNDING: i128 = 10;

/// The connector of one store.
#[derive(Clone, Debug)]
pub struct BtcpayConnector {
    client: Client,
}

impl BtcpayConnector {
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    fn at(&self, priority: Priority) -> Self {
        Self { client: self.client.at(priority) }
    }

    /// Returns the invoices of a charge, and the entries of the list that are its own and can't be used.
    async fn invoices_of(&self, charge: &Charge) -> Result<(Vec<Invoice>, Vec<OddObject>)> {
        let order = charge.id.to_string();
        let (mut its, mut odd, mut skip) = (Vec::<Invoice>::new(), Vec::new(), 0);
        for _ in 0..MAX_PAGES {
            let query = ListQuery { order_id: Some(&order), skip, ..ListQuery::default() };
            let Page { invoices, odd: entries, next } = self.client.list(query).await?;
            its.extend(invoices.into_iter().filter(|invoice| invoice.charge() == Some(charge.id)));
            odd.extend(entries.iter().filter(|entry| entry.to_string().contains(&order)).map(undocumented));
            match next {
                Some(next) => skip = next,
                None => break,
            }
        }
        // The list leaves out an invoice that the merchant archived.
        let known = charge.artefacts.crypto.as_ref().and_then(|crypto| crypto.invoice.as_deref());
        if let Some(id) = known.filter(|id| its.iter().all(|invoice| invoice.id != *id)) {
            match self.client.invoice(id).await {
                Ok(invoice) => its.push(invoice),
                Err(error) if error.remedy() == Remedy::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        let checked = its.into_iter().filter_map(|invoice| match self.check(charge, &invoice) {
            Ok(()) => Some(invoice),
            Err(why) => {
                odd.push(OddObject::new(&invoice.id, why));
                None
            }
        });
        Ok((checked.collect(), odd))
    }

    /// Returns why an invoice is not that of the charge.
    fn check(&self, charge: &Charge, invoice: &Invoice) -> std::result::Result<(), &'static str> {
        let is_its =
            invoice.charge() == Some(charge.id) && invoice.store_id == self.client.store_id().as_str();
        if !is_its {
            return Err("it is of another charge or store");
        }
        let is_equal = invoice.currency == charge.currency.as_str()
            && units(&invoice.amount, charge.currency) == Some(charge.amount.minor().into());
        if is_equal { Ok(()) } else { Err("it has another amount or currency than its charge") }
    }

    /// Finds the invoice of a charge after a lost answer: one that is paid before one that can be.
    async fn find(&self, charge: &Charge) -> Result<Option<Invoice>> {
        let (invoices, odd) = self.invoices_of(charge).await?;
        // Another invoice could be paid beside it.
        if let Some(odd) = odd.into_iter().next() {
            return Err(KitError::Unavailable(format!("an invoice of the charge can't be used: {odd}")));
        }
        Ok(invoices.into_iter().max_by_key(|invoice| match invoice.status {
            InvoiceStatus::Settled => 3,
            InvoiceStatus::Processing => 2,
            InvoiceStatus::New => 1,
            _ => 0,
        }))
    }

    /// The inner error is a refusal.
    async fn create_invoice(&self, charge: &Charge) -> Result<std::result::Result<Invoice, Finalised>> {
        let new = NewInvoice {
            amount: charge.amount.in_currency(charge.currency).decimal(),
            currency: charge.currency.to_string(),
            order_id: charge.id.to_string(),
        };
        match self.client.create_invoice(&new).await {
            Ok(invoice) => match self.check(charge, &invoice) {
                Ok(()) => Ok(Ok(invoice)),
                Err(why) => Err(odd(&invoice.id, why)),
            },
            Err(error) if error.remedy() == Remedy::Final && is_of_charge(&error) => {
                tracing::warn!(%error, "the acquirer refuses a charge");
                Ok(Err(Finalised::Refused(FailureReason::AcquirerRefused)))
            }
            Err(error) if error.remedy() == Remedy::Final => {
                tracing::error!(
                    %error,
                    "the acquirer refuses every charge of the connection, or has no rate; run `admin accounts check-acquirer`"
                );
                Err(KitError::Unavailable("it refuses the charges of the connection".to_owned()))
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn bitcoin(&self, invoice: &Invoice) -> Result<InvoicePaymentMethod> {
        let methods = self.client.payment_methods(&invoice.id).await?;
        let bitcoin = methods.into_iter().find(|method| method.payment_method_id == PAYMENT_METHOD);
        bitcoin.ok_or_else(|| odd(&invoice.id, "it can't be paid in Bitcoin"))
    }

    async fn look(&self, charge: &Charge, closes: bool) -> Result<Option<Snapshot>> {
        let (invoices, odd) = self.invoices_of(charge).await?;
        let is_partial = !odd.is_empty();
        let mut joined = is_partial.then(|| Snapshot { is_partial, odd, ..Snapshot::of(RemoteState::Open) });
        for invoice in invoices {
            let invoice = if closes { self.close_invoice(charge, invoice).await? } else { invoice };
            let read = read_as_odd(self.snapshot(charge.amount, &invoice).await.map(Some))?;
            joined = Snapshot::joined(joined, read);
        }
        Ok(joined)
    }

    async fn snapshot(&self, amount: Amount, invoice: &Invoice) -> Result<Snapshot> {
        let method = if has_payments(invoice) { Some(self.bitcoin(invoice).await?) } else { None };
        snapshot(amount, invoice, method.as_ref(), self.client.now())
    }

    /// Returns a page of the invoices that can change, or be paid, after `since`. New ones come first, so an entry that
    /// moves to the next page meanwhile is listed twice.
    async fn page_since(
        &self,
        since: Timestamp,
        created_to: Option<i64>,
        cursor: Option<&str>,
    ) -> Result<Page> {
        let skip = cursor.map_or(Ok(0), str::parse);
        let skip = skip.map_err(|_| KitError::Invalid("the cursor is of another list".to_owned()))?;
        let created_from = Some(since.seconds().saturating_sub(CHANGING_SECONDS).max(0));
        let query = ListQuery { created_from, created_to, skip, ..ListQuery::default() };
        Ok(self.client.list(query).await?)
    }

    /// The payments of an invoice that were received in a period, in the currency of its charge.
    async fn moved(&self, invoice: &Invoice, (from, to): (Timestamp, Timestamp)) -> Result<Vec<Movement>> {
        let currency = Currency::parse(&invoice.currency).ok();
        let amount = currency.and_then(|currency| Amount::parse(units(&invoice.amount, currency)?).ok());
        let Some(charge) = invoice.charge() else { return Ok(Vec::new()) };
        let amount = amount.ok_or_else(|| odd(&invoice.id, "its amount is not valid"))?;
        let payments =
            self.snapshot(amount, invoice).await?.payments.into_iter().map(|remote| remote.payment);
        let its = payments.filter(|payment| (from..to).contains(&payment.paid_at));
        Ok(its
            .map(|payment| Movement {
                id: payment.id.to_string(),
                payment: Some(payment.id),
                charge: Some(charge),
                amount: payment.amount.into(),
                fee: MinorUnits::ZERO,
                currency,
            })
            .collect())
    }

    /// Ends an invoice that can be paid. Its address stays payable. One that the list shows as being paid is not ended; what
    /// comes after the list is a late payment.
    async fn close_invoice(&self, charge: &Charge, invoice: Invoice) -> Result<Invoice> {
        if invoice.status != InvoiceStatus::New {
            return Ok(invoice);
        }
        let closed = match self.client.mark_invalid(&invoice.id).await {
            // It has changed meanwhile.
            Err(error) if error.remedy() == Remedy::Final => self.client.invoice(&invoice.id).await,
            closed => closed,
        };
        let closed = closed?;
        self.check(charge, &closed).map_err(|why| odd(&closed.id, why))?;
        Ok(closed)
    }
}

#[async_trait]
impl Connector for BtcpayConnector {
    fn name(&self) -> AcquirerName {
        AcquirerName::Hosted
    }

    fn capabilities(&self, method: PaymentMethod, currency: Currency) -> Option<Capabilities> {
        let least = if currency == Currency::BTC { DUST_SATOSHIS } else { Amount::MIN.minor() };
        let amounts = (least, Amount::MAX.minor());
        let amounts = CURRENCIES.contains(&currency).then_some(amounts);
        (method == PaymentMethod::Crypto).then_some(Capabilities { amounts, multiple_of: 1 })
    }

    /// A refund there is a claim that the payer must redeem.
    fn refund_capabilities(&self) -> RefundCapabilities {
        RefundCapabilities { methods: &[], cashout: false }
    }

    async fn create(&self, new: NewCharge<'_>) -> Result<Finalised> {
        let charge = new.charge;
        let found = if new.is_first { None } else { self.find(charge).await? };
        let invoice = match found {
            Some(invoice) => invoice,
            None => match self.create_invoice(charge).await? {
                Ok(invoice) => invoice,
                Err(refused) => return Ok(refused),
            },
        };
        if matches!(invoice.status, InvoiceStatus::Expired | InvoiceStatus::Invalid) {
            return Ok(NOT_FINALISED_IN_TIME);
        }
        let method = self.bitcoin(&invoice).await?;
        let address = method.destination.unwrap_or_default();
        if !is_payable(&address, self.client.is_local()) {
            tracing::error!(
                invoice = invoice.id,
                "the acquirer gave an address that is not valid in the main network of Bitcoin; the charge is refused: run `admin accounts check-acquirer`"
            );
            self.close_invoice(charge, invoice).await?;
            return Ok(Finalised::Refused(FailureReason::AcquirerRefused));
        }
        // If it is paid, there is nothing left to pay.
        let due = match satoshis(&invoice.id, &method.due)? {
            due @ 1.. => due,
            _ => satoshis(&invoice.id, &method.amount)?,
        };
        let due = i64::try_from(due).map_err(|_| odd(&invoice.id, "its amount is out of range"))?;
        let crypto = Crypto {
            address,
            amount: Money { minor: MinorUnits::new(due), currency: Currency::BTC }.decimal(),
            network: "BITCOIN".to_owned(),
            currency: Currency::BTC,
            expires_at: time(&invoice.id, invoice.expiration_time)?,
            invoice: Some(invoice.id),
        };
        Ok(Finalised::Made(Box::new(Artefacts { crypto: Some(crypto), ..Artefacts::default() })))
    }

    async fn read(&self, charge: &Charge, _is_whole: bool) -> Result<Option<Snapshot>> {
        read_as_odd(self.look(charge, false).await)
    }

    async fn close(&self, charge: &Charge, priority: Priority) -> Result<Option<Snapshot>> {
        read_as_odd(self.at(priority).look(charge, true).await)
    }

    /// Lists all invoices that may still change, because the server lists no changes.
    async fn changes(&self, since: Timestamp, cursor: Option<&str>) -> Result<Changes> {
        let page = self.at(Priority::Background).page_since(since, None, cursor).await?;
        let mut changes = Changes {
            next: page.next.map(|next| next.to_string()),
            odd: page.odd.iter().map(undocumented).collect(),
            ..Changes::default()
        };
        let invoices = page.invoices.iter();
        for (charge, invoice) in invoices.filter_map(|invoice| Some((invoice.charge()?, invoice))) {
            let is_unpaid = invoice.status == InvoiceStatus::New;
            // A second invoice of a charge may have been paid beside the first one.
            if changes.charges.contains(&charge) {
                changes.ended.remove(&charge);
                if !is_unpaid {
                    changes.unpaid.remove(&charge);
                }
                continue;
            }
            changes.charges.push(charge);
            if is_unpaid {
                changes.unpaid.insert(charge);
            }
            if has_ended(invoice) {
                let is_paid = invoice.status == InvoiceStatus::Settled;
                changes.ended.insert(charge, if is_paid { invoice.id.parse().ok() } else { None });
            }
        }
        Ok(changes)
    }

    /// The payments of the invoices that could be paid in the period. The store's wallet is the merchant's own.
    async fn movements(&self, period: (Timestamp, Timestamp), cursor: Option<&str>) -> Result<Movements> {
        let there = self.at(Priority::Background);
        let page = there.page_since(period.0, Some(period.1.seconds()), cursor).await?;
        let mut movements = Movements {
            next: page.next.map(|next| next.to_string()),
            odd: page.odd.iter().map(undocumented).collect(),
            ..Movements::default()
        };
        for invoice in &page.invoices {
            match there.moved(invoice, period).await {
                Ok(moved) => movements.movements.extend(moved),
                Err(KitError::Odd(odd)) => movements.odd.push(odd),
                Err(error) => return Err(error),
            }
        }
        Ok(movements)
    }

    async fn status(&self, charge: &Charge) -> Result<Option<ProviderStatus>> {
        let known = charge.artefacts.crypto.as_ref().and_then(|crypto| crypto.invoice.as_deref());
        let (invoices, _) = self.invoices_of(charge).await?;
        let Some(invoice) =
            invoices.into_iter().max_by_key(|invoice| (known == Some(&*invoice.id), invoice.expiration_time))
        else {
            return Ok(None);
        };
        let status = match self.snapshot(charge.amount, &invoice).await?.state {
            RemoteState::Open => "open",
            RemoteState::InProgress => "in_progress",
            RemoteState::Expired => "expired",
            RemoteState::ClosedByUs | RemoteState::ClosedByAcquirer(_) => "closed",
            RemoteState::Paid => "paid",
        };
        let shown = json!({
            "id": invoice.id,
            "amount": invoice.amount,
            "currency": invoice.currency,
            "status": invoice.status,
            "additionalStatus": invoice.additional_status,
        });
        Ok(Some(ProviderStatus {
            provider: "crypto",
            transaction_id: invoice.id,
            status: status.to_owned(),
            raw_response: shown.as_object().cloned().unwrap_or_default(),
        }))
    }
}

/// Whether an address is valid. `is_local`: the server is on this machine, so it may use a test network.
fn is_payable(address: &str, is_local: bool) -> bool {
    match bitcoin_network(address) {
        Some(BitcoinNetwork::Main) => true,
        Some(BitcoinNetwork::Test) => is_local,
        None => false,
    }
}

/// Whether a final refusal concerns the charge. One that concerns the store would meet the next charge, too.
fn is_of_charge(error: &ApiError) -> bool {
    let ApiError::Answered { problem, .. } = error else { return true };
    let path = problem.path.to_ascii_lowercase();
    path.starts_with("amount") || path.starts_with("metadata") || problem.is_about_dust()
}

/// Whether the list shows that an invoice ended without a payment, or was paid without an excess.
fn has_ended(invoice: &Invoice) -> bool {
    let currency = Currency::parse(&invoice.currency).ok();
    let in_units = |text: &str| currency.and_then(|currency| units(text, currency));
    // A version before 2.1.2 does not show it.
    let paid = invoice.paid_amount.as_deref().and_then(in_units);
    match (&invoice.status, &invoice.additional_status) {
        (InvoiceStatus::Settled, AdditionalStatus::None) => {
            let amount = in_units(&invoice.amount);
            paid.zip(amount).is_some_and(|(paid, amount)| paid <= amount.saturating_add(ROUNDING))
        }
        (InvoiceStatus::Invalid | InvoiceStatus::Expired, AdditionalStatus::None) => true,
        (InvoiceStatus::Invalid, AdditionalStatus::Marked) => paid == Some(0),
        _ => false,
    }
}

fn undocumented(entry: &Value) -> OddObject {
    OddObject::new(id_of(entry), "an entry of a list is not as documented")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_local_server_may_use_a_test_network() {
        let (main, test) =
            ("bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080");
        assert!(is_payable(main, false) && is_payable(main, true));
        assert!(is_payable(test, true) && !is_payable(test, false));
        assert!(!is_payable("bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t5", true));
    }
}
