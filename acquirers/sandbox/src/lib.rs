//! The sandbox: the simulated acquirer of all test keys. It creates artefacts in the real formats, uses no network, and
//! has no state but the rows of charges and refunds. The routes that play the payer change those rows.

use std::fmt::Display;

use acquirer_kit::{
    Connector, KitError, NewCharge, Priority, ProviderStatus, RefundAnswer, RefundProgress, Result,
};
use artefacts::boleto::BoletoError;
use artefacts::brcode::DynamicBrCode;
use artefacts::crypto::{Network, sandbox_address};
use artefacts::{boleto, multibanco};
use async_trait::async_trait;
use serde_json::json;

use domain::acquirer::{AcquirerName, Capabilities, RefundCapabilities};
use domain::calendar::Day;
use domain::charge::transition::Finalised;
use domain::charge::{
    Artefacts, Boleto, Card, Charge, Crypto, FailureReason, Mbway, Multibanco, Pix, TransactionStatus,
};
use domain::ids::ChargeId;
use domain::money::{Amount, Currency, MinorUnits, Money};
use domain::payment_method::PaymentMethod;
use domain::refund::{Refund, RefundOutcome, RefundStatus};
use domain::snapshot::{RemoteState, Snapshot};
use domain::time::Timestamp;

/// How long the page for a card payment can be used, in seconds: 24 hours.
const CARD_TTL_SECONDS: i64 = 24 * 60 * 60;

/// How long an MB WAY payment can be approved, in seconds: 4 minutes, about as long as with the real service.
const MBWAY_TTL_SECONDS: i64 = 4 * 60;

/// How long a Multibanco reference can be paid, in seconds: 3 days.
const MULTIBANCO_TTL_SECONDS: i64 = 3 * 24 * 60 * 60;

/// The number of days from a boleto's creation to its due date, by São Paulo's calendar. The boleto can be
/// paid until the end of the due date.
const BOLETO_DUE_DAYS: u64 = 3;

/// How long a price in cryptocurrency is valid, in seconds: 1 hour.
const CRYPTO_TTL_SECONDS: i64 = 60 * 60;

const REFUND_SECONDS: i64 = 2;

/// The sandbox's price of 1 USDT in each currency, in hundredths. The prices are fixed, because the sandbox
/// uses no network.
const TOKEN_PRICES: [(Currency, i128); 3] = [(Currency::USD, 100), (Currency::BRL, 500), (Currency::EUR, 90)];

#[derive(Clone, Copy, Debug)]
pub struct Sandbox;

#[async_trait]
impl Connector for Sandbox {
    fn name(&self) -> AcquirerName {
        AcquirerName::Sandbox
    }

    /// The currency was checked with the request.
    fn capabilities(&self, method: PaymentMethod, _currency: Currency) -> Option<Capabilities> {
        Some(Capabilities { amounts: Some(method.facts().amounts), multiple_of: 1 })
    }

    fn refund_capabilities(&self) -> RefundCapabilities {
        RefundCapabilities::SANDBOX
    }

    fn creates_later(&self, charge: &Charge) -> bool {
        Finalisation::of(charge).is_some_and(|finalisation| finalisation.is_asynchronous(charge))
    }

    /// Creates the artefacts of a charge, or simulates an acquirer that refuses the charge or does not answer.
    async fn create(&self, new: NewCharge<'_>) -> Result<Finalised> {
        match Finalisation::of(new.charge) {
            None | Some(Finalisation::Later) => Ok(Finalised::Made(Box::new(artefacts(&new)?))),
            Some(Finalisation::Refused) => Ok(Finalised::Refused(FailureReason::SandboxRefused)),
            Some(Finalisation::Unavailable) => Err(KitError::Unavailable(
                "the sandbox simulates an acquirer that does not answer".to_owned(),
            )),
        }
    }

    async fn read(&self, charge: &Charge, _is_whole: bool) -> Result<Option<Snapshot>> {
        Ok(charge.is_open().then(|| Snapshot::of(RemoteState::Open)))
    }

    async fn close(&self, _charge: &Charge, _priority: Priority) -> Result<Option<Snapshot>> {
        Ok(Some(Snapshot::of(RemoteState::ClosedByUs)))
    }

    /// The sandbox knows a refund once it is in progress.
    async fn find_refund(&self, refund: &Refund, now: Timestamp) -> Result<Option<RefundAnswer>> {
        Ok((refund.status != RefundStatus::Pending).then(|| refund_answer(refund, now)))
    }

    async fn request_refund(
        &self,
        refund: &Refund,
        _paid_at: Timestamp,
        now: Timestamp,
    ) -> Result<RefundAnswer> {
        Ok(refund_answer(refund, now))
    }

    async fn status(&self, charge: &Charge) -> Result<Option<ProviderStatus>> {
        Ok(status_of(charge))
    }
}

fn artefacts(&NewCharge { charge, settings, pix_location, now, .. }: &NewCharge<'_>) -> Result<Artefacts> {
    let (id, amount) = (charge.id, charge.amount);
    let mut artefacts = Artefacts::default();
    let after = |seconds: i64| now.plus_seconds(seconds).map_err(invalid_artefact);
    for method in &charge.methods {
        match method {
            PaymentMethod::Pix => {
                let requested_seconds = charge.pix_expires_in_seconds;
                let ttl_seconds = requested_seconds.unwrap_or(settings.charge_expires_in_seconds);
                // It refers to a URL of this service and never contains a real Pix key, so that no real payment can
                // be made with it.
                let code = DynamicBrCode {
                    location: pix_location,
                    amount_centavos: Some(amount.minor_unsigned()),
                    merchant_name: &settings.merchant_name,
                    merchant_city: &settings.merchant_city,
                };
                let br_code = code.encode().map_err(invalid_artefact)?;
                artefacts.pix = Some(Pix { br_code, expires_at: after(ttl_seconds)?, ttl_seconds });
            }
            PaymentMethod::CreditCard => {
                let return_url = charge.return_url();
                let expires_at = after(charge.lifetime_seconds(CARD_TTL_SECONDS))?;
                artefacts.card = Some(Card { page: None, return_url, expires_at });
            }
            PaymentMethod::Mbway => {
                let phone = charge.customer.phone.clone().unwrap_or_default();
                let expires_at = after(charge.lifetime_seconds(MBWAY_TTL_SECONDS))?;
                artefacts.mbway = Some(Mbway { phone, intent: None, expires_at });
            }
            PaymentMethod::Multibanco => {
                let reference = multibanco::sandbox_reference(id.bytes(), amount.minor_unsigned())
                    .map_err(invalid_artefact)?;
                artefacts.multibanco = Some(Multibanco {
                    entity: multibanco::SANDBOX_ENTITY.to_string(),
                    reference: reference.to_string(),
                    intent: None,
                    expires_at: after(MULTIBANCO_TTL_SECONDS)?,
                });
            }
            PaymentMethod::Boleto => {
                let due = Day::of(now).plus_days(BOLETO_DUE_DAYS);
                let slip = boleto::Boleto::sandbox(id.bytes(), amount.minor_unsigned(), due.date());
                let slip = slip.map_err(|error| match error {
                    BoletoError::Due => {
                        KitError::MethodUnavailable { method: *method, reason: error.to_string() }
                    }
                    error => invalid_artefact(error),
                })?;
                artefacts.boleto = Some(Boleto {
                    barcode: slip.barcode().to_string(),
                    beneficiary: settings.merchant_name.clone(),
                    intent: None,
                    pdf_url: None,
                    expires_at: due.ends_at(),
                });
            }
            PaymentMethod::Crypto => {
                let expires_at = after(CRYPTO_TTL_SECONDS)?;
                artefacts.crypto = Some(crypto(id, amount, charge.currency, expires_at)?);
            }
        }
    }
    Ok(artefacts)
}

/// Creates the artefact of a payment by cryptocurrency: in Bitcoin for a charge in BTC, else in USDT. The
/// amount in USDT is rounded up to a millionth, so that it is never worth less than the charge. For a
/// currency without a price, each minor unit counts as a millionth of a USDT. This is exact for a charge in
/// USDT.
fn crypto(id: ChargeId, amount: Amount, currency: Currency, expires_at: Timestamp) -> Result<Crypto> {
    let (network, name, token, minor) = if currency == Currency::BTC {
        (Network::BitcoinTestnet, "BITCOIN_TESTNET", Currency::BTC, i128::from(amount.minor()))
    } else {
        let minor = i128::from(amount.minor());
        let price = TOKEN_PRICES.iter().find(|(priced, _)| *priced == currency).map(|(_, price)| *price);
        let minor_usdt = match price {
            None => minor,
            Some(price) => minor
                .saturating_mul(1_000_000)
                .saturating_add(price.saturating_sub(1))
                .checked_div(price)
                .unwrap_or_default(),
        };
        // The artefact names a test network, because the address looks like one of the real network, where
        // money sent to it would be lost.
        (Network::Tron, "TRON_SHASTA", Currency::USDT, minor_usdt)
    };
    let minor = i64::try_from(minor).map_err(|_| invalid_artefact("the amount has no price in a token"))?;
    Ok(Crypto {
        address: sandbox_address(id.bytes(), network),
        amount: Money { minor: MinorUnits::new(minor), currency: token }.decimal(),
        network: name.to_owned(),
        currency: token,
        invoice: None,
        expires_at,
    })
}

fn invalid_artefact(error: impl Display) -> KitError {
    KitError::Invalid(error.to_string())
}

/// The simulated result of a finalisation. A merchant selects it by the charge's `metadata.sandbox`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Finalisation {
    /// `finalise:later`: the artefacts are created asynchronously.
    Later,
    Refused,
    Unavailable,
}

impl Finalisation {
    fn of(charge: &Charge) -> Option<Self> {
        match charge.metadata.text("sandbox")?.as_str() {
            "finalise:later" => Some(Self::Later),
            "finalise:refuse" => Some(Self::Refused),
            "finalise:unavailable" => Some(Self::Unavailable),
            _ => None,
        }
    }

    /// Whether `acquirer-worker` finalises the charge after the response. A refusal is asynchronous only on
    /// the payments surface. `POST /v1/charges` answers a refused charge with the status `failed`, so the refusal
    /// must come before the response.
    fn is_asynchronous(self, charge: &Charge) -> bool {
        match self {
            Self::Later | Self::Unavailable => true,
            Self::Refused => charge.payment_details.is_some(),
        }
    }
}

/// Returns the progress of a refund. A refund with the reason `sandbox:hold` stays in progress. Any other
/// refund ends [`REFUND_SECONDS`] after its start: as failed if its reason is `sandbox:fail`, else as
/// refunded.
fn refund_answer(refund: &Refund, now: Timestamp) -> RefundAnswer {
    RefundAnswer::new(refund_progress(refund, now), None, None)
}

fn refund_progress(refund: &Refund, now: Timestamp) -> RefundProgress {
    let end = match refund.merchants_reason() {
        Some("sandbox:hold") => return RefundProgress::Waiting,
        Some("sandbox:fail") => RefundOutcome::Failed,
        _ => RefundOutcome::Refunded,
    };
    match refund.updated_at.plus_seconds(REFUND_SECONDS) {
        Ok(at) if now < at => RefundProgress::PollAgainAt(at),
        _ => RefundProgress::Ended(end),
    }
}

/// Derives the acquirer's status of a charge from the stored charge, because the sandbox has no state of its
/// own. The result is the status that a real acquirer would report after the service has applied all of that
/// acquirer's notifications. `None`: the charge never reached the acquirer.
fn status_of(charge: &Charge) -> Option<ProviderStatus> {
    if charge.artefacts == Artefacts::default() {
        return None;
    }
    let status = match charge.status {
        TransactionStatus::Pending => return None,
        TransactionStatus::WaitingPayment => "active",
        TransactionStatus::Processing if charge.is_open() => "authenticating",
        TransactionStatus::Processing
        | TransactionStatus::Paid
        | TransactionStatus::Approved
        | TransactionStatus::Chargeback
        | TransactionStatus::Dispute => "paid",
        TransactionStatus::Refused => "declined",
        TransactionStatus::Cancelled => "canceled",
        TransactionStatus::Expired => "expired",
        TransactionStatus::Refunded => "returned",
    };
    let transaction_id = charge.id.txid();
    let raw_response = json!({
        "id": transaction_id,
        "status": status,
        "amount": charge.amount,
        "currency": charge.currency,
        "payment": charge.applied_payment.as_ref().map(|applied| &applied.payment_id),
        "paid_at": charge.applied_payment.as_ref().map(|applied| applied.paid_at),
    });
    let raw_response = raw_response.as_object().cloned().unwrap_or_default();
    Some(ProviderStatus { provider: "sandbox", transaction_id, status: status.to_owned(), raw_response })
}
