//! Charges by boleto, Multibanco and MB WAY, each a payment that is confirmed when it is created.

use acquirer_kit::{
    Connector, DisputeEvidence, KitError, NOT_FINALISED_IN_TIME, NewCharge, Priority, ProviderStatus, Result,
    ReturnProgress, read_as_odd,
};
use artefacts::boleto::Boleto as Slip;
use async_trait::async_trait;
use domain::account::AccountSettings;
use domain::acquirer::{AcquirerName, Capabilities, RefundCapabilities};
use domain::calendar::Day;
use domain::charge::transition::Finalised;
use domain::charge::{
    Artefacts, Boleto, Charge, FailureReason, IncomingPayment, Mbway, Multibanco, PayerAddress,
    PayerDataError, mbway_phone,
};
use domain::money::Currency;
use domain::payment_method::PaymentMethod;
use domain::snapshot::{RemoteState, Snapshot};
use domain::tax_id::TaxId;
use domain::time::Timestamp;

use crate::client::Client;
use crate::objects::{
    BoletoDetails, Hidden, Metadata, MultibancoDetails, PaymentIntent, PaymentIntentStatus,
};
use crate::payments::{
    EVIDENCE_FIELDS, METHOD, created, odd, provider_status, refuses_evidence, since, time, unavailable,
};
use crate::requests::NewIntent;

/// How long a payer can confirm an MB WAY payment on the phone, in seconds: 4 minutes.
const PUSH_SECONDS: i64 = 4 * 60;

/// The parameters of a payment that follow from the charge. A refusal of another one is the connection's.
const OF_CHARGE: [&str; 4] = ["amount", "payment_method_data", "billing_details", "metadata"];

/// Codes of tries that ended because the payer did not pay in time.
const NOT_IN_TIME: [&str; 2] = ["payment_intent_payment_attempt_expired", "payment_method_provider_timeout"];

/// Reasons of cancellations by Stripe because the payer did not pay in time.
const CANCELED_BY_TIME: [&str; 2] = ["automatic", "expired"];

/// A method whose payments this connector creates.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum VoucherMethod {
    Boleto,
    Multibanco,
    Mbway,
}

impl VoucherMethod {
    /// `None`: the method is another connector's.
    pub const fn of(method: PaymentMethod) -> Option<Self> {
        match method {
            PaymentMethod::Boleto => Some(Self::Boleto),
            PaymentMethod::Multibanco => Some(Self::Multibanco),
            PaymentMethod::Mbway => Some(Self::Mbway),
            PaymentMethod::Pix | PaymentMethod::CreditCard | PaymentMethod::Crypto => None,
        }
    }

    const fn method(self) -> PaymentMethod {
        match self {
            Self::Boleto => PaymentMethod::Boleto,
            Self::Multibanco => PaymentMethod::Multibanco,
            Self::Mbway => PaymentMethod::Mbway,
        }
    }

    /// Stripe's name, also in the metadata and as merchants see the provider.
    const fn name(self) -> &'static str {
        match self {
            Self::Boleto => "boleto",
            Self::Multibanco => "multibanco",
            Self::Mbway => "mb_way",
        }
    }
}

/// The connector of one account for one method. Those of an account share a client.
#[derive(Clone, Debug)]
pub struct VoucherConnector {
    client: Client,
    method: VoucherMethod,
}

impl VoucherConnector {
    pub fn new(client: Client, method: VoucherMethod) -> Self {
        Self { client, method }
    }

    fn at(&self, priority: Priority) -> Self {
        Self { client: self.client.at(priority), method: self.method }
    }

    /// Finds the payment of a charge after a lost answer: one that was paid before one that can be.
    async fn find(&self, charge: &Charge) -> Result<Option<PaymentIntent>> {
        use PaymentIntentStatus as Status;

        let intents: Vec<PaymentIntent> = self.client.all_but(since(charge), &charge.id.to_string()).await?;
        let is_its = |intent: &PaymentIntent| {
            self.client.is_its(charge, intent.livemode, &intent.metadata)
                && intent.metadata.0.get(METHOD).is_some_and(|method| method == self.method.name())
        };
        Ok(intents.into_iter().filter(is_its).max_by_key(|intent| match intent.status {
            Status::Succeeded => 3,
            Status::Processing => 2,
            Status::RequiresAction => 1,
            _ => 0,
        }))
    }

    async fn intent_of(&self, charge: &Charge) -> Result<Option<PaymentIntent>> {
        let made = &charge.artefacts;
        let known = match self.method {
            VoucherMethod::Boleto => made.boleto.as_ref().and_then(|boleto| boleto.intent.clone()),
            VoucherMethod::Multibanco => made.multibanco.as_ref().and_then(|voucher| voucher.intent.clone()),
            VoucherMethod::Mbway => made.mbway.as_ref().and_then(|push| push.intent.clone()),
        };
        let id = match known {
            Some(id) => id,
            None => match self.find(charge).await? {
                Some(intent) => intent.id,
                None => return Ok(None),
            },
        };
        let intent = self.client.known(&id).await?;
        intent.map(|intent| self.client.checked_intent(charge, intent)).transpose()
    }

    /// Returns the state of a charge. A voucher that is processed before its expiry is paid, and not confirmed. After its
    /// expiry, each is processed while banks may confirm it: the charge waits some days, in which it can't be closed.
    fn state(&self, charge: &Charge, intent: &PaymentIntent, closes: bool) -> Result<RemoteState> {
        use PaymentIntentStatus as Status;

        let expires_at = charge.artefacts.expires_at(self.method.method());
        let is_over = expires_at.is_some_and(|at| at <= self.client.now());
        let ends_at = charge.artefacts.ends_at(self.method.method());
        let was_waited_for = ends_at.is_some_and(|at| at < self.client.now());
        Ok(match &intent.status {
            Status::Succeeded => RemoteState::Paid,
            Status::RequiresAction | Status::RequiresConfirmation => RemoteState::Open,
            Status::Processing if self.method != VoucherMethod::Mbway && is_over && !closes => {
                RemoteState::Open
            }
            // No bank has confirmed it in the time that vouchers are given.
            Status::Processing if self.method != VoucherMethod::Mbway && was_waited_for => {
                RemoteState::Expired
            }
            Status::Processing | Status::RequiresCapture => RemoteState::InProgress,
            // This service gives no reason.
            Status::Canceled => match intent.cancellation_reason.as_deref() {
                None if is_over => RemoteState::Expired,
                None => RemoteState::ClosedByUs,
                Some(why) if CANCELED_BY_TIME.contains(&why) => RemoteState::Expired,
                Some(_) => RemoteState::ClosedByAcquirer(FailureReason::CancelledAtAcquirer),
            },
            Status::RequiresPaymentMethod => self.ended(intent, is_over),
            Status::Other(_) => return Err(odd(&intent.id, "it has an unknown status")),
        })
    }

    /// Returns the state after a try that failed. A voucher fails by its expiry, a push also by a decline.
    fn ended(&self, intent: &PaymentIntent, is_over: bool) -> RemoteState {
        let last = intent.last_payment_error.as_ref();
        let code = last.and_then(|last| last.code.as_deref()).unwrap_or_default();
        let reason = last.and_then(|last| last.decline_code.as_deref()).unwrap_or(code);
        let is_expired_voucher = is_over && self.method != VoucherMethod::Mbway;
        match (code, reason) {
            _ if is_expired_voucher || NOT_IN_TIME.contains(&code) => RemoteState::Expired,
            ("payment_method_customer_decline", _) => {
                RemoteState::ClosedByAcquirer(FailureReason::DeclinedByPayer)
            }
            (_, "insufficient_funds") => RemoteState::ClosedByAcquirer(FailureReason::InsufficientBalance),
            _ => RemoteState::ClosedByAcquirer(FailureReason::ProcessingError),
        }
    }

    async fn look(&self, charge: &Charge, closes: bool, is_whole: bool) -> Result<Option<Snapshot>> {
        let Some(mut intent) = self.intent_of(charge).await? else { return Ok(None) };
        let mut is_ours = false;
        if closes {
            (intent, is_ours) = self.cancel(charge, intent).await?;
        }
        let mut snapshot = Snapshot::of(self.state(charge, &intent, closes)?);
        if is_ours && snapshot.state == RemoteState::Expired {
            snapshot.state = RemoteState::ClosedByUs;
        }
        if snapshot.state == RemoteState::Paid {
            let method = self.method.method();
            self.client.add_payment(&mut snapshot, charge, method, &intent, is_whole).await?;
        }
        Ok(Some(snapshot))
    }

    async fn create_intent(
        &self,
        charge: &Charge,
        new: &NewIntent,
    ) -> Result<Result<PaymentIntent, Finalised>> {
        let key = format!("charge-{}-{}", charge.id, self.method.name());
        let create = |key: String| async move {
            let intent = self.client.create_intent(new, &key).await?;
            Ok(self.client.checked_intent(charge, intent))
        };
        let made = created((&key, &OF_CHARGE), create, || self.find(charge)).await?;
        Ok(made.map_err(|error| {
            tracing::warn!(%error, "the acquirer refuses a charge");
            Finalised::Refused(FailureReason::AcquirerRefused)
        }))
    }

    /// Cancels a payment that can be made, and reads it. `true`: this request canceled it. One that is processed may be
    /// paid, so it is not canceled.
    async fn cancel(&self, charge: &Charge, intent: PaymentIntent) -> Result<(PaymentIntent, bool)> {
        use PaymentIntentStatus as Status;

        let can_be_made =
            [Status::RequiresAction, Status::RequiresConfirmation, Status::RequiresPaymentMethod];
        if !can_be_made.contains(&intent.status) {
            return Ok((intent, false));
        }
        // It is canceled once, whatever the key. With a constant one, Stripe would repeat that it was processed.
        let key = format!("close-{}-{}", intent.id, self.client.now().millis());
        let closed = self.client.cancel_intent(&intent.id, &key).await;
        let (intent, is_ours) = self.client.after_close(&intent.id, closed, "a payment is gone").await?;
        Ok((self.client.checked_intent(charge, intent)?, is_ours))
    }

    fn new_intent(&self, charge: &Charge, settings: &AccountSettings) -> Result<NewIntent> {
        let customer = &charge.customer;
        let given = |text: Option<&str>, name: &str| {
            let missing = || KitError::Invalid(format!("the payer's {name} is missing"));
            text.filter(|text| !text.is_empty()).map(str::to_owned).ok_or_else(missing)
        };
        let (mut payer, mut expires_after_days) = (Vec::new(), None);
        match self.method {
            VoucherMethod::Boleto => {
                let address = PayerAddress::of(&charge.metadata).map_err(invalid)?;
                let tax_id = charge.payer_tax_id();
                payer.extend([
                    ("[boleto][tax_id]", given(tax_id.as_ref().map(TaxId::as_str), "CPF or CNPJ")?),
                    ("[billing_details][name]", given(customer.name.as_deref(), "name")?),
                    ("[billing_details][email]", given(customer.email.as_deref(), "e-mail")?),
                    ("[billing_details][address][line1]", address.line1),
                    ("[billing_details][address][city]", address.city),
                    ("[billing_details][address][state]", address.state),
                    ("[billing_details][address][postal_code]", address.postal_code),
                    ("[billing_details][address][country]", "BR".to_owned()),
                ]);
                expires_after_days = Some(settings.boleto_due_days.get());
            }
            VoucherMethod::Multibanco => {
                payer.push(("[billing_details][email]", given(customer.email.as_deref(), "e-mail")?));
            }
            VoucherMethod::Mbway => {
                let phone = mbway_phone(&charge.metadata, customer).map_err(invalid)?;
                payer.push(("[billing_details][phone]", phone));
            }
        }
        let metadata = [("charge", charge.id.to_string()), (METHOD, self.method.name().to_owned())];
        Ok(NewIntent {
            amount: charge.amount,
            currency: charge.currency,
            method_type: self.method.name(),
            payer: Hidden(payer),
            expires_after_days,
            metadata: Metadata::from(metadata.map(|(name, value)| (name.to_owned(), value))),
        })
    }

    /// Nothing is left to pay.
    fn of_paid(&self, new: &NewCharge<'_>, id: String) -> Artefacts {
        let (mut made, intent, expires_at) = (Artefacts::default(), Some(id), new.now);
        match self.method {
            VoucherMethod::Boleto => {
                let beneficiary = new.settings.merchant_name.clone();
                let (barcode, pdf_url) = (String::new(), None);
                made.boleto = Some(Boleto { barcode, beneficiary, intent, pdf_url, expires_at });
            }
            VoucherMethod::Multibanco => {
                let (entity, reference) = (String::new(), String::new());
                made.multibanco = Some(Multibanco { entity, reference, intent, expires_at });
            }
            // The push is known without Stripe.
            VoucherMethod::Mbway => {}
        }
        made
    }

    /// Returns what the payer pays with. If Stripe does not show it, the creation is tried again, and the payment is
    /// canceled after ten minutes.
    fn artefacts(&self, new: &NewCharge<'_>, intent: PaymentIntent) -> Result<Artefacts> {
        let (charge, id) = (new.charge, intent.id);
        let (boleto, multibanco) = intent
            .next_action
            .map(|action| (action.boleto_display_details, action.multibanco_display_details))
            .unwrap_or_default();
        let mut made = Artefacts::default();
        match self.method {
            VoucherMethod::Boleto => {
                let shown = boleto.ok_or_else(|| unavailable("a boleto has no display details"))?;
                made.boleto = Some(slip(charge, new.settings, id, shown, new.now)?);
            }
            VoucherMethod::Multibanco => {
                let shown = multibanco.ok_or_else(|| unavailable("a voucher has no display details"))?;
                made.multibanco = Some(voucher(id, shown)?);
            }
            VoucherMethod::Mbway => {
                let expires_at = time(&id, intent.created.saturating_add(PUSH_SECONDS))?;
                let phone = mbway_phone(&charge.metadata, &charge.customer).map_err(invalid)?;
                made.mbway = Some(Mbway { phone, intent: Some(id), expires_at });
            }
        }
        Ok(made)
    }
}

#[async_trait]
impl Connector for VoucherConnector {
    fn name(&self) -> AcquirerName {
        AcquirerName::Hosted
    }

    fn capabilities(&self, method: PaymentMethod, currency: Currency) -> Option<Capabilities> {
        let amounts = method.supports_currency(currency).then_some(method.facts().amounts);
        (method == self.method.method()).then_some(Capabilities { amounts, multiple_of: 1 })
    }

    /// The contract refunds Pix and card only.
    fn refund_capabilities(&self) -> RefundCapabilities {
        RefundCapabilities { methods: &[], cashout: false }
    }

    async fn create(&self, new: NewCharge<'_>) -> Result<Finalised> {
        let charge = new.charge;
        let found = if new.is_first { None } else { self.find(charge).await? };
        let intent = if let Some(intent) = found {
            intent
        } else {
            let asked = self.new_intent(charge, new.settings)?;
            match self.create_intent(charge, &asked).await? {
                Ok(intent) => intent,
                Err(refused) => return Ok(refused),
            }
        };
        Ok(match self.state(charge, &intent, false)? {
            // It was paid before its data were read, which are not shown any more.
            RemoteState::Paid | RemoteState::InProgress
                if intent.next_action.is_none() && self.method != VoucherMethod::Mbway =>
            {
                Finalised::Made(Box::new(self.of_paid(&new, intent.id)))
            }
            RemoteState::Open | RemoteState::InProgress | RemoteState::Paid => {
                Finalised::Made(Box::new(self.artefacts(&new, intent)?))
            }
            RemoteState::ClosedByAcquirer(why) => Finalised::Refused(why),
            RemoteState::Expired | RemoteState::ClosedByUs => NOT_FINALISED_IN_TIME,
        })
    }

    async fn read(&self, charge: &Charge, is_whole: bool) -> Result<Option<Snapshot>> {
        read_as_odd(self.look(charge, false, is_whole).await)
    }

    async fn close(&self, charge: &Charge, priority: Priority) -> Result<Option<Snapshot>> {
        read_as_odd(self.at(priority).look(charge, true, false).await)
    }

    /// Stripe returns Multibanco and MB WAY to where the payer paid from, and needs no more than the amount. It does not
    /// refund a boleto.
    async fn find_return(
        &self,
        payment: &IncomingPayment,
        attempt: &str,
        now: Timestamp,
    ) -> Result<Option<ReturnProgress>> {
        if self.method == VoucherMethod::Boleto {
            return Ok(Some(ReturnProgress::Impossible));
        }
        self.client.at(Priority::Settle).find_return(payment, attempt, now).await
    }

    async fn request_return(
        &self,
        payment: &IncomingPayment,
        attempt: &str,
        now: Timestamp,
    ) -> Result<ReturnProgress> {
        if self.method == VoucherMethod::Boleto {
            return Ok(ReturnProgress::Impossible);
        }
        self.client.at(Priority::Settle).request_return(payment, attempt, now).await
    }

    /// Boleto and Multibanco have no disputes.
    fn refuses_evidence(&self, mime_type: &str, bytes: u64) -> Option<&'static str> {
        match self.method {
            VoucherMethod::Mbway => refuses_evidence(mime_type, bytes),
            VoucherMethod::Boleto | VoucherMethod::Multibanco => Some("the acquirer takes no evidence"),
        }
    }

    fn evidence_fields(&self) -> &'static [&'static str] {
        match self.method {
            VoucherMethod::Mbway => &EVIDENCE_FIELDS,
            VoucherMethod::Boleto | VoucherMethod::Multibanco => &[],
        }
    }

    async fn submit_evidence(&self, dispute: &str, evidence: DisputeEvidence) -> Result<String> {
        self.client.at(Priority::Settle).submit_evidence(dispute, evidence).await
    }

    async fn status(&self, charge: &Charge) -> Result<Option<ProviderStatus>> {
        let Some(intent) = self.intent_of(charge).await? else { return Ok(None) };
        let state = self.state(charge, &intent, false)?;
        Ok(Some(provider_status(self.method.name(), (charge, intent.id), (Some(intent.amount), &state))))
    }
}

fn invalid(error: PayerDataError) -> KitError {
    KitError::Invalid(error.to_string())
}

/// Verifies a boleto's line. Its barcode follows from it.
fn slip(
    charge: &Charge,
    settings: &AccountSettings,
    id: String,
    shown: BoletoDetails,
    now: Timestamp,
) -> Result<Boleto> {
    let line = without_punctuation(shown.number);
    let slip = Slip::from_line(&line, Day::of(now).date())
        .map_err(|error| unavailable(&format!("a boleto's line is not valid: {error}")))?;
    if slip.amount_centavos() != charge.amount.minor_unsigned() {
        return Err(unavailable("a boleto's line has another amount"));
    }
    let expires_at = shown.expires_at.ok_or_else(|| unavailable("a boleto has no expiry"))?;
    Ok(Boleto {
        barcode: slip.barcode().to_string(),
        beneficiary: settings.merchant_name.clone(),
        expires_at: time(&id, expires_at)?,
        intent: Some(id),
        pdf_url: shown.pdf.map(|Hidden(url)| url),
    })
}

fn voucher(id: String, shown: MultibancoDetails) -> Result<Multibanco> {
    let digits = |text: Option<String>, count: usize| {
        let text = without_punctuation(text);
        let is_valid = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
        is_valid.then_some(text).ok_or_else(|| unavailable("a voucher's entity or reference is not valid"))
    };
    let (entity, reference) = (digits(shown.entity, 5)?, digits(shown.reference, 9)?);
    let expires_at = shown.expires_at.ok_or_else(|| unavailable("a voucher has no expiry"))?;
    Ok(Multibanco { entity, reference, expires_at: time(&id, expires_at)?, intent: Some(id) })
}

/// Removes the dots and spaces with which lines and references are written.
fn without_punctuation(text: Option<String>) -> String {
    text.unwrap_or_default().chars().filter(|sign| !" .".contains(*sign)).collect()
}
