//! A bank that serves API Pix, as the acquirer of an account's live charges. This module asks the bank and
//! interprets its answers. It writes no rows.

use acquirer_kit::setting::AcquirerUrl;
use acquirer_kit::{
    Connector, KitError, NewCharge, Priority, ProviderStatus, RefundAnswer, RefundEnd, RefundProgress,
    RequestAgain, Result, ReturnProgress, next_poll, read_as_odd, refused_until,
};
use artefacts::brcode::{BrCode, DynamicBrCode};
use async_trait::async_trait;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};

use domain::account::AccountSettings;
use domain::acquirer::{AcquirerName, Capabilities, RETURN_WINDOW_MS, RefundCapabilities};
use domain::charge::transition::{Finalised, Payment};
use domain::charge::{Artefacts, Charge, FailureReason, IncomingPayment};
use domain::ids::{AccountId, AcquirerPaymentId, ChargeId, ConnectionId, EndToEndId, Mode, Scope};
use domain::money::{Amount, Currency};
use domain::payment_method::PaymentMethod;
use domain::refund::{Refund, RefundFailure, RefundOutcome};
use domain::snapshot::{RemotePayment, RemoteState, Snapshot};
use domain::tax_id::TaxId;
use domain::time::Timestamp;
use domain::wallet::RefundStrategy;

use crate::client::Client;
use crate::clock::ClockOffsets;
use crate::cob::{Cob, CobStatus, Debtor, NewCob};
use crate::configuration::{PixSettings, SendPix};
use crate::devolucao::{Devolucao, DevolucaoStatus};
use crate::error::{ApiError, CHECK_CONNECTION, note_operator_error};
use crate::pages::PixPages;
use crate::pix::{Payer, Pix, PixPage, PixQuery};
use crate::pix_out::{NewPixOut, PixOut, PixOutStatus};

/// How long after [`RETURN_WINDOW_MS`] a devolução that the bank does not know counts as impossible, in
/// milliseconds: a day, because clocks differ.
const RETURN_WINDOW_MARGIN_MS: i64 = 24 * 60 * 60 * 1_000;

/// How far `horario` may differ from the time by which a bank filters, in seconds, when a single Pix is
/// looked up in the list.
const LOOKUP_MARGIN_SECONDS: i64 = 60;

/// How far `horario` may differ from our clock when a Pix is looked up, in seconds: 6 hours. Some banks write
/// local times as UTC.
const LOOKUP_AHEAD_SECONDS: i64 = 6 * 60 * 60;

/// The longest text of a bank's refusal that a merchant sees, in characters.
const MAX_REASON_CHARS: usize = 500;

/// The fields of a cob, and of its Pix, that `provider-status` shows. All others may contain documents or
/// names.
const SHOWN_COB_FIELDS: [&str; 5] = ["txid", "status", "revisao", "calendario", "valor"];
const SHOWN_PIX_FIELDS: [&str; 4] = ["endToEndId", "valor", "horario", "devolucoes"];
const SHOWN_RETURN_FIELDS: [&str; 6] = ["id", "rtrId", "valor", "natureza", "horario", "status"];

/// A bank, with the credentials of one account. Clones share connections, token and circuit breaker.
#[derive(Clone, Debug)]
pub struct PixBank {
    at: (AccountId, ConnectionId),
    settings: PixSettings,
    base_url: AcquirerUrl,
    client: Client,
}

impl PixBank {
    /// The client is one of a connection with these settings.
    pub fn new(
        at: (AccountId, ConnectionId),
        (settings, base_url): (PixSettings, AcquirerUrl),
        client: Client,
    ) -> Self {
        Self { at, settings, base_url, client }
    }

    pub fn account(&self) -> AccountId {
        self.at.0
    }

    pub fn scope(&self) -> Scope {
        Scope { account: self.account(), mode: Mode::Live }
    }

    pub fn connection(&self) -> ConnectionId {
        self.at.1
    }

    pub fn settings(&self) -> &PixSettings {
        &self.settings
    }

    /// Registers the URL at which the service receives the bank's notifications for the account's Pix key.
    pub async fn register_webhook(&self, url: &SecretString) -> Result<()> {
        let client = self.client.at(Priority::Create);
        Ok(client.put_webhook(&self.settings.pix_key, url.expose_secret()).await?)
    }

    fn new_cob(&self, charge: &Charge, settings: &AccountSettings) -> Result<NewCob> {
        let expires_in_seconds = charge.pix_expires_in_seconds.unwrap_or(settings.charge_expires_in_seconds);
        let debtor = charge.payer_tax_id().zip(charge.customer.name.clone());
        Ok(NewCob {
            amount: charge.amount,
            expires_in_seconds: u32::try_from(expires_in_seconds)
                .map_err(|error| KitError::Invalid(error.to_string()))?,
            key: self.settings.pix_key.clone(),
            debtor: debtor.map(|(tax_id, name)| Debtor { tax_id, name }),
            payer_request: charge.metadata.text("description"),
        })
    }

    /// Makes the charge's artefacts from its cob, which the bank created not before `earliest`.
    ///
    /// The charge expires by our clock. So the bank's time of the creation counts only as far as it is between
    /// `earliest` and now.
    fn accept(
        &self,
        charge: &Charge,
        settings: &AccountSettings,
        cob: &Cob,
        earliest: Timestamp,
    ) -> Result<Finalised> {
        let is_ours = cob.txid == charge.id.txid()
            && cob.amount == charge.amount
            && cob.key.as_deref() == Some(self.settings.pix_key.as_str());
        if !is_ours {
            tracing::error!(charge = %charge.id, "the bank has a cob with this charge's txid and another amount or key");
            return Err(KitError::Unavailable("the bank's cob is not the charge's".to_owned()));
        }
        match cob.status {
            CobStatus::RemovedByPsp | CobStatus::RemovedByReceiver => {
                return Ok(Finalised::Refused(removed_by_bank(cob)));
            }
            CobStatus::Active | CobStatus::Completed | CobStatus::Other(_) => {}
        }
        let created_at = cob.created_at.min(self.client.now()).max(earliest);
        let pix = domain::charge::Pix {
            br_code: br_code(cob, settings).inspect_err(|error| {
                tracing::error!(charge = %charge.id, %error, "the bank's payment code is not usable");
            })?,
            expires_at: created_at.saturating_plus_seconds(cob.expires_in_seconds),
            ttl_seconds: cob.expires_in_seconds,
        };
        Ok(Finalised::Made(Box::new(Artefacts { pix: Some(pix), ..Artefacts::default() })))
    }

    /// Removes the cob of a charge. Fails when it is not known whether the cob can still be paid.
    async fn remove(&self, charge: &Charge, priority: Priority) -> Result<Option<Snapshot>> {
        let unavailable = |why: &str| Err(KitError::Unavailable(why.to_owned()));
        let txid = charge.id.txid();
        match self.client.at(priority).remove_cob(&txid).await {
            Ok(cob) if cob.status == CobStatus::RemovedByReceiver => return Ok(Some(snapshot(&cob))),
            Ok(_) | Err(ApiError::Refused { .. } | ApiError::NotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
        let Some(mut cob) = self.client.at(Priority::Settle).get_cob(&txid).await? else {
            return Ok(None);
        };
        if cob.status == CobStatus::Completed && cob.pix.is_empty() {
            cob.pix = self.listed_for(charge, self.client.now()).await?;
        }
        match cob.status {
            CobStatus::Active | CobStatus::Other(_) => unavailable("the bank refuses to remove an open cob"),
            // If its payment was returned, the bank may not list it any more.
            CobStatus::Completed if cob.pix.is_empty() && charge.returned.is_empty() => {
                unavailable("the bank does not show the Pix of a paid cob yet")
            }
            CobStatus::Completed | CobStatus::RemovedByReceiver | CobStatus::RemovedByPsp => {
                Ok(Some(snapshot(&cob)))
            }
        }
    }

    /// Returns whether the bank has the cob of a charge, or a Pix with its txid. A paid cob without a Pix can't end by
    /// itself, so it does not count.
    pub async fn knows_charge(&self, charge: &Charge, now: Timestamp) -> Result<bool> {
        let cob = self.client.at(Priority::Settle).get_cob(&charge.id.txid()).await?;
        let is_known = cob.is_some_and(|cob| cob.status != CobStatus::Completed || !cob.pix.is_empty());
        Ok(is_known || !self.listed_for(charge, now).await?.is_empty())
    }

    /// The Pix with the txid of a charge.
    async fn listed_for(&self, charge: &Charge, now: Timestamp) -> Result<Vec<Pix>> {
        let (txid, mut listed) = (charge.id.txid(), Vec::new());
        let longest = i64::from(self.settings.max_period_seconds);
        let end = now.saturating_plus_seconds(LOOKUP_AHEAD_SECONDS);
        let mut from = charge.created_at.saturating_plus_seconds(-LOOKUP_AHEAD_SECONDS);
        while from < end {
            let to = from.saturating_plus_seconds(longest).min(end);
            let query = PixQuery { txid: Some(txid.clone()), ..PixQuery::period(from, to) };
            listed.extend(self.list(&query).await?.pix);
            from = to;
        }
        Ok(listed)
    }

    /// Returns whether the bank has the devolução of a refund, or the Pix that it returns.
    pub async fn knows_devolution(&self, refund: &Refund) -> Result<bool> {
        let (client, id) = (self.client.at(Priority::Settle), end_to_end_id(&refund.payment)?);
        Ok(client.get_devolucao(&id, &refund.bank_id()).await?.is_some()
            || client.get_pix(&id).await?.is_some())
    }

    /// Reads a Pix back. If the bank does not find its end-to-end id, looks for it among the Pix with the
    /// reported txid since `since`. `None`: the bank does not have it, or not yet.
    pub async fn read_back(
        &self,
        end_to_end_id: &EndToEndId,
        txid: Option<&str>,
        (since, now): (Timestamp, Timestamp),
    ) -> Result<Option<Pix>> {
        let client = self.client.at(Priority::Settle);
        let found = match client.get_pix(end_to_end_id).await? {
            Some(pix) => Some(pix),
            None => match txid {
                None => None,
                Some(txid) => {
                    let query = PixQuery {
                        txid: Some(txid.to_owned()),
                        ..PixQuery::period(
                            since.saturating_plus_seconds(-LOOKUP_MARGIN_SECONDS),
                            now.saturating_plus_seconds(LOOKUP_AHEAD_SECONDS),
                        )
                    };
                    let page = client.list_pix(&query).await?;
                    page.pix.into_iter().find(|pix| pix.end_to_end_id == *end_to_end_id)
                }
            },
        };
        let Some(pix) = found else { return Ok(None) };
        if pix.end_to_end_id != *end_to_end_id {
            return Err(KitError::Unavailable("the bank answered with another Pix".to_owned()));
        }
        Ok(Some(pix))
    }

    /// Returns whether the cob of a charge lists a Pix.
    pub async fn paid(&self, charge: ChargeId, end_to_end_id: &EndToEndId) -> Result<bool> {
        let cob = self.client.at(Priority::Settle).get_cob(&charge.txid()).await?;
        Ok(cob.is_some_and(|cob| cob.pix.iter().any(|pix| pix.end_to_end_id == *end_to_end_id)))
    }

    /// Reads a Pix that was sent for a refund, by the refund's id at the bank. `None`: the bank does not know it.
    pub async fn pix_out(&self, id: &str) -> Result<Option<PixOut>> {
        Ok(self.client.at(Priority::Background).get_pix_out(id).await?)
    }

    pub fn pages(&self, query: PixQuery) -> PixPages<'_> {
        PixPages::new(self, query)
    }

    pub(crate) async fn list(&self, query: &PixQuery) -> Result<PixPage> {
        Ok(self.client.at(Priority::Background).list_pix(query).await?)
    }

    /// Returns whether the bank accepted a Pix while the charge's cob was open, although its `horario` says that
    /// the Pix came after the charge's expiry. The bank's clock may be wrong. So a time later than now proves
    /// nothing, and otherwise the cob decides.
    pub async fn accepted_in_time(&self, charge: &Charge, pix: &Pix, now: Timestamp) -> Result<bool> {
        let is_late = charge.artefacts.expires_at(PaymentMethod::Pix).is_none_or(|end| pix.at > end);
        if !is_late || !charge.is_open() {
            return Ok(false);
        }
        if pix.at > now {
            return Ok(true);
        }
        let cob = self.client.at(Priority::Settle).get_cob(&charge.id.txid()).await?;
        Ok(cob.is_some_and(|cob| {
            let is_listed = cob.pix.iter().any(|listed| listed.end_to_end_id == pix.end_to_end_id);
            let lists_none = cob.pix.is_empty() && cob.malformed.is_empty();
            cob.status == CobStatus::Completed && (is_listed || lists_none)
        }))
    }

    pub fn clock_offsets(&self) -> ClockOffsets {
        self.client.clock_offsets()
    }

    /// Logs an error if the bank's times are more than a minute off, once an hour in each instance. Returns
    /// the offsets that it logged.
    pub fn report_clock(&self) -> Option<ClockOffsets> {
        let offsets = self.client.wrong_clock_to_report()?;
        let ((account, connection), bank) = (self.at, &self.base_url);
        tracing::error!(%account, %connection, %bank, %offsets, "the bank's times differ from ours by more than a minute; charges expire by our clock");
        Some(offsets)
    }

    /// Returns the document of the payer of a Pix. If the bank does not report it, and the charge expects a
    /// payer, asks the bank whether that payer paid it. The answer can confirm the expected payer, but never
    /// prove another one. It counts only if the bank says that it filtered by that payer. `None`: not known.
    pub async fn payer_of(&self, pix: &Pix, expected: Option<&TaxId>) -> Result<Option<TaxId>> {
        if let Payer::Document(document) = pix.payer {
            return Ok(Some(document));
        }
        let Some(expected) = expected.filter(|_| self.settings.filter_verified) else { return Ok(None) };
        let period = PixQuery::period(
            pix.at.saturating_plus_seconds(-LOOKUP_MARGIN_SECONDS),
            pix.at.saturating_plus_seconds(LOOKUP_MARGIN_SECONDS),
        );
        let query = PixQuery { txid: pix.txid.clone(), payer: Some(*expected), ..period };
        let page = self.client.at(Priority::Settle).list_pix(&query).await?;
        // A bank that ignores the filter lists other payers' Pix too.
        if page.payer != Some(*expected) {
            tracing::error!(pix = %pix.end_to_end_id, "the bank did not filter its list by payer, so it can't confirm one; check it: admin accounts check-acquirer");
            return Ok(None);
        }
        let is_listed = page.pix.iter().any(|listed| listed.end_to_end_id == pix.end_to_end_id);
        Ok(is_listed.then_some(*expected))
    }

    /// Reads the devolução or Pix out of a refund. `None`: the bank does not know it.
    async fn sent(&self, refund: &Refund, now: Timestamp) -> Result<Option<RefundAnswer>> {
        let (client, id) = (self.client.at(Priority::Settle), refund.bank_id());
        Ok(match refund.share.strategy {
            RefundStrategy::Cashout => {
                client.get_pix_out(&id).await?.map(|pix_out| of_pix_out(refund, pix_out, now))
            }
            RefundStrategy::Devolution => {
                let found = client.get_devolucao(&end_to_end_id(&refund.payment)?, &id).await?;
                found.map(|devolucao| of_devolucao(refund, &devolucao, now))
            }
        })
    }

    /// Whether other devoluções, which the bank has executed, leave no room for a refund that the bank does
    /// not know. Then the bank can never execute it. A MED devolução is the usual cause.
    async fn is_used_up(&self, refund: &Refund, end_to_end_id: &EndToEndId, id: &str) -> Result<bool> {
        let Some(pix) = self.client.at(Priority::Settle).get_pix(end_to_end_id).await? else {
            return Ok(false);
        };
        let executed = |item: &&Devolucao| item.status == DevolucaoStatus::Returned;
        let returned = pix.returns.iter().filter(executed).map(|item| i128::from(item.amount.minor())).sum();
        let room = i128::from(pix.amount.minor()).saturating_sub(returned);
        let is_known = pix.returns.iter().any(|item| item.id == id);
        Ok(!is_known && room < i128::from(refund.share.gross.minor()))
    }

    async fn return_progress(
        &self,
        payment: &IncomingPayment,
        devolucao: &Devolucao,
        now: Timestamp,
    ) -> Result<ReturnProgress> {
        let poll_again = ReturnProgress::PollAgainAt(next_poll(payment.recorded_at, now));
        Ok(match devolucao.status {
            DevolucaoStatus::Returned if devolucao.amount < payment.amount => ReturnProgress::ReturnedByBank,
            DevolucaoStatus::Returned => ReturnProgress::Returned(end_of(devolucao).id),
            DevolucaoStatus::NotRealised => match self.returned_by_others(payment, &devolucao.id).await? {
                ByOthers::Nothing | ByOthers::AllBut(_) => ReturnProgress::NotRealised,
                ByOthers::Open => poll_again,
                ByOthers::Whole => ReturnProgress::ReturnedByBank,
            },
            DevolucaoStatus::InProgress | DevolucaoStatus::Other(_) => poll_again,
        })
    }

    /// Returns what devoluções other than the one with this id have returned of a payment. The bank can't
    /// return that money a second time.
    async fn returned_by_others(&self, payment: &IncomingPayment, id: &str) -> Result<ByOthers> {
        let pix = self.client.at(Priority::Settle).get_pix(&end_to_end_id(&payment.payment_id)?).await?;
        let others = pix.map(|pix| pix.returns).unwrap_or_default();
        let others = others.iter().filter(|other| other.id != id && counts_as_returned(other));
        let (executed, open): (Vec<&Devolucao>, Vec<&Devolucao>) =
            others.partition(|other| other.status == DevolucaoStatus::Returned);
        let returned =
            executed.iter().fold(0_i64, |returned, other| returned.saturating_add(other.amount.minor()));
        let rest = payment.amount.minor().saturating_sub(returned);
        Ok(match Amount::parse(rest) {
            Err(_nothing_left) => ByOthers::Whole,
            Ok(_) if !open.is_empty() => ByOthers::Open,
            Ok(rest) if rest < payment.amount => ByOthers::AllBut(rest),
            Ok(_) => ByOthers::Nothing,
        })
    }
}

#[async_trait]
impl Connector for PixBank {
    fn name(&self) -> AcquirerName {
        AcquirerName::Pix
    }

    fn capabilities(&self, method: PaymentMethod, currency: Currency) -> Option<Capabilities> {
        let amounts = (currency == Currency::BRL).then_some((Amount::MIN.minor(), Amount::MAX.minor()));
        (method == PaymentMethod::Pix).then_some(Capabilities { amounts, multiple_of: 1 })
    }

    fn refund_capabilities(&self) -> RefundCapabilities {
        RefundCapabilities {
            methods: &[PaymentMethod::Pix],
            cashout: self.settings.send_pix != SendPix::None,
        }
    }

    async fn create(&self, new: NewCharge<'_>) -> Result<Finalised> {
        let NewCharge { charge, settings, is_first, .. } = new;
        let (txid, client) = (charge.id.txid(), self.client.at(Priority::Create));
        if !is_first && let Some(cob) = client.get_cob(&txid).await? {
            return self.accept(charge, settings, &cob, charge.created_at);
        }
        let sent_at = client.now();
        let refusal = match client.put_cob(&txid, &self.new_cob(charge, settings)?).await {
            Ok(cob) => return self.accept(charge, settings, &cob, sent_at),
            Err(error @ (ApiError::Refused { .. } | ApiError::NotFound(_))) => error,
            Err(error) => return Err(error.into()),
        };
        // A refusal does not prove that the cob was not created: the answer to an earlier attempt may be lost.
        if let Some(cob) = client.get_cob(&txid).await? {
            return self.accept(charge, settings, &cob, charge.created_at);
        }
        match refusal {
            ApiError::Refused { status: status @ (400 | 422), problem } if !problem.concerns_connection() => {
                tracing::warn!(charge = %charge.id, refusal = problem.to_string(), "the bank refused a charge");
                let reason = problem.reason();
                let code = if problem.kind.is_empty() { status.to_string() } else { problem.kind };
                Ok(Finalised::Refused(match reason {
                    Some(text) => FailureReason::InWords { text: shortened(&text), code },
                    None => FailureReason::RefusedByBank { code },
                }))
            }
            error => {
                tracing::error!(
                    charge = %charge.id, %error,
                    "the bank refuses charges for a reason that concerns the connection; {}", CHECK_CONNECTION
                );
                Err(KitError::Unavailable(error.to_string()))
            }
        }
    }

    async fn read(&self, charge: &Charge, _is_whole: bool) -> Result<Option<Snapshot>> {
        let cob = self.client.at(Priority::Settle).get_cob(&charge.id.txid()).await;
        read_as_odd(cob.map(|cob| cob.as_ref().map(snapshot)).map_err(KitError::from))
    }

    async fn close(&self, charge: &Charge, priority: Priority) -> Result<Option<Snapshot>> {
        read_as_odd(self.remove(charge, priority).await)
    }

    async fn find_refund(&self, refund: &Refund, now: Timestamp) -> Result<Option<RefundAnswer>> {
        let is_open =
            refund.share.strategy == RefundStrategy::Devolution && refund.requested_at_bank.is_some();
        let not_yet = || is_open.then(|| RefundAnswer::new(poll_again(refund, now), None, None));
        Ok(self.sent(refund, now).await?.or_else(not_yet))
    }

    /// The refund's id at the bank never changes, so a repetition can't send the money twice.
    async fn request_refund(
        &self,
        refund: &Refund,
        paid_at: Timestamp,
        now: Timestamp,
    ) -> Result<RefundAnswer> {
        let (client, id) = (self.client.at(Priority::Settle), refund.bank_id());
        let (amount, reason) = (refund.share.gross, refund.merchants_reason());
        let error = match refund.share.strategy {
            RefundStrategy::Devolution => {
                if now.millis_since(paid_at) > RETURN_WINDOW_MS.saturating_add(RETURN_WINDOW_MARGIN_MS) {
                    tracing::error!(refund = %refund.id, "the bank did not accept a refund before the 90 days were over");
                    return Ok(failed(RefundFailure::NotAcceptedIn90Days));
                }
                let end_to_end_id = end_to_end_id(&refund.payment)?;
                let error = match client.put_devolucao(&end_to_end_id, &id, amount, reason).await {
                    Ok(devolucao) => return Ok(of_devolucao(refund, &devolucao, now)),
                    Err(error) => error,
                };
                let is_refused = matches!(error, ApiError::Refused { .. });
                if is_refused && self.is_used_up(refund, &end_to_end_id, &id).await? {
                    tracing::error!(refund = %refund.id, "other devoluções have used up a payment, so its refund fails");
                    return Ok(failed(RefundFailure::UsedUp));
                }
                error
            }
            RefundStrategy::Cashout => {
                let Some(key) = refund.destination.clone() else {
                    tracing::error!(refund = %refund.id, "a refund by cash-out has no Pix key");
                    return Ok(failed(RefundFailure::NoPixKey));
                };
                let request = NewPixOut { amount, key, description: reason.map(str::to_owned) };
                match client.put_pix_out(&id, &request).await {
                    Ok(pix_out) => return Ok(of_pix_out(refund, pix_out, now)),
                    Err(error) => error,
                }
            }
        };
        match refusal(&error) {
            Some(reason) if self.sent(refund, now).await?.is_none() => Ok(refused(refund, reason)),
            _ => Ok(RefundAnswer::new(undecided(refund, now, &error), None, None)),
        }
    }

    async fn find_return(
        &self,
        payment: &IncomingPayment,
        id: &str,
        now: Timestamp,
    ) -> Result<Option<ReturnProgress>> {
        let client = self.client.at(Priority::Settle);
        match client.get_devolucao(&end_to_end_id(&payment.payment_id)?, id).await? {
            Some(devolucao) => Ok(Some(self.return_progress(payment, &devolucao, now).await?)),
            None => Ok(None),
        }
    }

    /// If other devoluções have returned a part of the payment, the rest is requested.
    async fn request_return(
        &self,
        payment: &IncomingPayment,
        id: &str,
        now: Timestamp,
    ) -> Result<ReturnProgress> {
        if now.millis_since(payment.paid_at) > RETURN_WINDOW_MS {
            return Ok(ReturnProgress::Impossible);
        }
        let at = next_poll(payment.recorded_at, now);
        let again = ReturnProgress::RequestAgain(RequestAgain { at, is_spent: false });
        let (client, end_to_end_id) = (self.client.at(Priority::Settle), end_to_end_id(&payment.payment_id)?);
        let request = async |amount: Amount| client.put_devolucao(&end_to_end_id, id, amount, None).await;
        let mut answer = request(payment.amount).await;
        if let Err(ApiError::Refused { .. }) = &answer {
            match self.returned_by_others(payment, id).await? {
                ByOthers::Nothing => {}
                ByOthers::Open => return Ok(again),
                ByOthers::Whole => return Ok(ReturnProgress::ReturnedByBank),
                ByOthers::AllBut(rest) => answer = request(rest).await,
            }
        }
        let error = match answer {
            Ok(devolucao) => return self.return_progress(payment, &devolucao, now).await,
            Err(error) => error,
        };
        note_operator_error(&error);
        tracing::warn!(%id, %error, "the bank did not accept the return of a payment yet");
        let is_refused =
            refusal(&error).is_some() && client.get_devolucao(&end_to_end_id, id).await?.is_none();
        let until = refused_until(payment.recorded_at);
        Ok(if is_refused { ReturnProgress::RefusedUntil(until) } else { again })
    }

    async fn status(&self, charge: &Charge) -> Result<Option<ProviderStatus>> {
        let txid = charge.id.txid();
        let cob = self.client.at(Priority::Settle).get_cob(&txid).await?;
        Ok(cob.map(|cob| ProviderStatus {
            provider: "pix",
            transaction_id: txid,
            status: cob.status.as_str().to_owned(),
            raw_response: shown_cob(cob.raw.as_map()),
        }))
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ByOthers {
    Nothing,
    /// It is not known yet: a devolução is in progress.
    Open,
    Whole,
    /// A part. This rest is left.
    AllBut(Amount),
}

fn poll_again(refund: &Refund, now: Timestamp) -> RefundProgress {
    RefundProgress::PollAgainAt(next_poll(refund.created_at, now))
}

fn of_devolucao(refund: &Refund, devolucao: &Devolucao, now: Timestamp) -> RefundAnswer {
    let progress = match devolucao.status {
        DevolucaoStatus::Returned => RefundProgress::Ended(RefundOutcome::Refunded),
        DevolucaoStatus::NotRealised => RefundProgress::Ended(RefundOutcome::Failed),
        DevolucaoStatus::InProgress | DevolucaoStatus::Other(_) => poll_again(refund, now),
    };
    RefundAnswer { progress, said: end_of(devolucao) }
}

fn of_pix_out(refund: &Refund, pix_out: PixOut, now: Timestamp) -> RefundAnswer {
    let progress = match pix_out.status {
        PixOutStatus::Completed => RefundProgress::Ended(RefundOutcome::Refunded),
        PixOutStatus::NotRealised => RefundProgress::Ended(RefundOutcome::Failed),
        PixOutStatus::InProgress | PixOutStatus::Other(_) => poll_again(refund, now),
    };
    let id = pix_out.end_to_end_id.as_ref().map(ToString::to_string);
    RefundAnswer::new(progress, id, pix_out.reason.map(RefundFailure::InWords))
}

fn failed(reason: RefundFailure) -> RefundAnswer {
    RefundAnswer::new(RefundProgress::Ended(RefundOutcome::Failed), None, Some(reason))
}

fn refused(refund: &Refund, reason: RefundFailure) -> RefundAnswer {
    tracing::warn!(refund = %refund.id, %reason, "the bank refuses a refund as invalid");
    RefundAnswer::new(RefundProgress::RefusedUntil(refused_until(refund.created_at)), None, Some(reason))
}

/// What a bank said about the end of a devolução.
pub fn end_of(item: &Devolucao) -> RefundEnd {
    let reason = item.reason.clone().map(RefundFailure::InWords);
    RefundEnd { id: item.rtr_id.as_ref().map(ToString::to_string), reason }
}

/// The services of Pix read each Pix of a paid cob themselves, because only then its devoluções, its key and its payer
/// are known.
fn snapshot(cob: &Cob) -> Snapshot {
    let payment = |pix: &Pix| RemotePayment {
        payment: Payment {
            id: pix.end_to_end_id.clone().into(),
            method: PaymentMethod::Pix,
            amount: pix.amount,
            payer_document: None,
            paid_at: pix.at,
            is_in_time: true,
            charged: None,
        },
        lacks_fee: false,
    };
    let state = match cob.status {
        CobStatus::RemovedByReceiver => RemoteState::ClosedByUs,
        CobStatus::RemovedByPsp => RemoteState::ClosedByAcquirer(removed_by_bank(cob)),
        CobStatus::Completed => RemoteState::Paid,
        CobStatus::Active | CobStatus::Other(_) => RemoteState::Open,
    };
    Snapshot { payments: cob.pix.iter().map(payment).collect(), ..Snapshot::of(state) }
}

fn removed_by_bank(cob: &Cob) -> FailureReason {
    FailureReason::RemovedByBank { code: cob.status.as_str().to_owned() }
}

fn shortened(said: &str) -> String {
    said.chars().take(MAX_REASON_CHARS).collect()
}

fn refusal(error: &ApiError) -> Option<RefundFailure> {
    let ApiError::Refused { status: 400 | 422, problem } = error else { return None };
    let said = problem.reason().or_else(|| Some(problem.kind.clone()).filter(|kind| !kind.is_empty()));
    Some(said.map_or(RefundFailure::RefusedByBank, |said| RefundFailure::InWords(shortened(&said))))
}

/// Whether a devolução has returned money, or is about to.
fn counts_as_returned(devolucao: &Devolucao) -> bool {
    devolucao.status != DevolucaoStatus::NotRealised
}

/// Handles a request to refund whose outcome is not known: only a later read of the same id decides.
fn undecided(refund: &Refund, now: Timestamp, error: &ApiError) -> RefundProgress {
    const ALARM_AFTER_MS: i64 = 60 * 60 * 1_000;
    note_operator_error(error);
    if now.millis_since(refund.created_at) > ALARM_AFTER_MS {
        let way_out = match error {
            ApiError::NotFound(_) => format!(
                "; if the bank has lost its Pix, an operator must end it: admin refunds fail {} --reason …",
                refund.id
            ),
            _ => String::new(),
        };
        tracing::error!(refund = %refund.id, %error, "the bank has not accepted a refund for an hour{way_out}");
    } else {
        tracing::warn!(refund = %refund.id, %error, "the bank did not accept a refund yet");
    }
    let at = next_poll(refund.created_at, now);
    RefundProgress::RequestAgain(RequestAgain { at, is_spent: false })
}

fn end_to_end_id(payment: &AcquirerPaymentId) -> Result<EndToEndId> {
    let parsed = payment.as_str().parse();
    parsed.map_err(|_| KitError::Invalid("a payment has no end-to-end id".to_owned()))
}

/// Returns the cob's BR Code. The bank's own code is checked before a payer sees it: it must parse, its CRC
/// must be right, and it must name the cob's location and, if any, its amount. A bank may also report only
/// the location; then the code is made here.
fn br_code(cob: &Cob, settings: &AccountSettings) -> Result<String> {
    let unusable = |why: &str| KitError::Unavailable(format!("the bank's payment code {why}"));
    let Some(code) = &cob.copia_e_cola else {
        let location = cob.location.as_deref().ok_or_else(|| unusable("and its location are missing"))?;
        let code = DynamicBrCode {
            location,
            amount_centavos: Some(cob.amount.minor_unsigned()),
            merchant_name: &settings.merchant_name,
            merchant_city: &settings.merchant_city,
        };
        return code.encode().map_err(|error| unusable(&error.to_string()));
    };
    let parsed = BrCode::parse(code).map_err(|error| unusable(&format!("can't be parsed: {error}")))?;
    let location = parsed.location().ok_or_else(|| unusable("has no location"))?;
    if cob.location.as_deref().is_some_and(|expected| expected != location) {
        return Err(unusable("has another location than the cob"));
    }
    if parsed.amount_centavos().is_some_and(|centavos| centavos != cob.amount.minor_unsigned()) {
        return Err(unusable("has another amount than the cob"));
    }
    Ok(code.clone())
}

fn shown_cob(cob: &Map<String, Value>) -> Map<String, Value> {
    let mut shown = only(cob, &SHOWN_COB_FIELDS);
    let pix = cob.get("pix").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let pix: Vec<Value> = pix.iter().filter_map(Value::as_object).map(shown_pix).collect();
    if !pix.is_empty() {
        shown.insert("pix".to_owned(), pix.into());
    }
    shown
}

fn shown_pix(pix: &Map<String, Value>) -> Value {
    let mut shown = only(pix, &SHOWN_PIX_FIELDS);
    if let Some(Value::Array(returns)) = shown.get_mut("devolucoes") {
        *returns = returns
            .iter()
            .filter_map(Value::as_object)
            .map(|item| only(item, &SHOWN_RETURN_FIELDS).into())
            .collect();
    }
    shown.into()
}

fn only(fields: &Map<String, Value>, names: &[&str]) -> Map<String, Value> {
    let shown = fields.iter().filter(|(name, _)| names.contains(&name.as_str()));
    shown.map(|(name, value)| (name.clone(), value.clone())).collect()
}
