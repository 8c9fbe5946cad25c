//! Validates and hashes the request that refunds a payment, and plans the refund.

use domain::account::AccountSettings;
use domain::acquirer::{RETURN_WINDOW_MS, RefundCapabilities};
use domain::charge::{Charge, RefundParameters};
use domain::ids::{ChargeId, RefundId};
use domain::money::{Amount, MinorUnits};
use domain::payment_method::PaymentMethod;
use domain::pix_key::PixKey;
use domain::refund::{Refund, RefundPlan, RefundReason};
use domain::time::Timestamp;
use domain::wallet::RefundStrategy;

use crate::charge::request::canonical_hash;
use crate::refund::RefundError;
use crate::refund::third_party::is_third_party;
use shared::http::field::{BodyFields, Boolean, MinorAmount, Parsed, Text, Word};
use shared::http::{Fields, JsonObject, Problem};

shared::fields! {
    AMOUNT: MinorAmount = "amount", MinorAmount, Whole, 1000,
        "The amount to refund, in the smallest unit of the payment's currency. The default is all that can still be refunded.";
    IDEMPOTENCY_KEY: Text = "idempotencyKey", Text::of(8, 128), Required, "refund-1001-attempt-1",
        "A key that is unique to this refund of the payment. A request with the same key and the same body returns the existing refund and creates no other.";
    REASON: Text = "reason", Text::of(0, 500), Optional, "The customer returned the goods.",
        "Why the payment is refunded.";
    STRATEGY: Word<RefundStrategy> = "strategy", Word::ALL, Optional, "cashout",
        "How a Pix is refunded: `devolution` returns the original payment, `cashout` sends a separate Pix. The default is `cashout` if the acquirer supports it, else `devolution`. Only for payments by Pix.";
    PASS_FEE_TO_TENANT: Boolean = "passFeeToTenant", Boolean, DefaultsTo(false), true,
        "Whether the merchant pays the Pix-out fee. Only for `cashout`.";
    DESTINATION_KEY: Parsed<PixKey> = "destinationKey",
        Parsed::of((3, PixKey::MAX_CHARS), None, |text| text.parse().ok(), PixKey::RULE), Optional, "29537995593",
        "The Pix key that receives the refund. The default is the payer's CPF or CNPJ. Only for `cashout`.";
}

pub const REFUND_BODY: BodyFields = BodyFields::strict(&[
    &IDEMPOTENCY_KEY,
    &AMOUNT,
    &REASON,
    &STRATEGY,
    &DESTINATION_KEY,
    &PASS_FEE_TO_TENANT,
]);

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NewRefund {
    idempotency_key: String,
    amount: Option<Amount>,
    reason: Option<String>,
    strategy: Option<RefundStrategy>,
    pass_fee_to_tenant: bool,
    destination: Option<PixKey>,
    hash: String,
}

impl NewRefund {
    /// Reports every failing field at once.
    pub fn parse(body: &JsonObject) -> Result<Self, Problem> {
        let mut fields = Fields::new();
        let root = fields.body(body, REFUND_BODY);
        let amount = fields.read(&root, &AMOUNT);
        let idempotency_key = fields.read(&root, &IDEMPOTENCY_KEY);
        let reason = fields.read(&root, &REASON);
        let strategy = fields.read(&root, &STRATEGY);
        let pass_fee_to_tenant = fields.read(&root, &PASS_FEE_TO_TENANT).unwrap_or_default();
        let destination = fields.read(&root, &DESTINATION_KEY);
        if strategy == Some(RefundStrategy::Devolution) {
            let only_cashout = "applies only to strategy cashout; leave it out for a devolution";
            if destination.is_some() {
                fields.reject(DESTINATION_KEY.name, only_cashout);
            }
            if pass_fee_to_tenant {
                fields.reject(PASS_FEE_TO_TENANT.name, only_cashout);
            }
        }
        let mut content = body.clone();
        content.remove(IDEMPOTENCY_KEY.name);
        fields.finish(idempotency_key.map(|idempotency_key| Self {
            idempotency_key,
            amount,
            reason,
            strategy,
            pass_fee_to_tenant,
            destination,
            hash: canonical_hash(content),
        }))
    }

    pub fn id(&self, charge: ChargeId) -> RefundId {
        RefundId::derive(charge, &self.idempotency_key)
    }

    /// The idempotency key is not compared.
    pub(crate) fn is_replay_of(&self, request_hash: &str) -> bool {
        self.hash == request_hash
    }

    /// All that is left, by [`safe_strategy`].
    fn of_all(charge: &Charge) -> Self {
        Self {
            idempotency_key: String::new(),
            amount: None,
            reason: None,
            strategy: safe_strategy(charge),
            pass_fee_to_tenant: false,
            destination: None,
            hash: String::new(),
        }
    }

    /// Fails when the acquirer, the payment's method or age, or the account's settings do not allow the refund.
    pub fn plan(
        &self,
        charge: &Charge,
        capabilities: RefundCapabilities,
        settings: &AccountSettings,
        now: Timestamp,
    ) -> Result<RefundPlan, RefundError> {
        let method = charge.method();
        if !capabilities.methods.contains(&method) {
            return Err(RefundError::MethodNotSupported(method));
        }
        let strategy = if method == PaymentMethod::Pix {
            self.strategy_of_pix(capabilities.cashout)?
        } else {
            self.strategy_of_other_method()?
        };
        if method == PaymentMethod::Pix && strategy == RefundStrategy::Devolution {
            require_return_window(charge, now)?;
        }
        let destination = match strategy {
            _ if !charge.acquirer.is_remote() => self.destination.clone(),
            RefundStrategy::Devolution => None,
            RefundStrategy::Cashout => Some(self.destination_at_bank(charge)?),
        };
        let third_party = destination.as_ref().is_some_and(|key| is_third_party(charge, key));
        if third_party && settings.refunds_to_payer_only {
            return Err(RefundError::PayerOnly);
        }
        Ok(RefundPlan {
            parameters: RefundParameters {
                gross: self.amount,
                strategy,
                pix_out_fee: match strategy {
                    RefundStrategy::Devolution => MinorUnits::ZERO,
                    RefundStrategy::Cashout => settings.pix_out_fee,
                },
                merchant_bears_pix_out: self.pass_fee_to_tenant,
                is_held: charge.is_net_held(now),
            },
            to_payer: destination.is_some() && self.destination.is_none(),
            destination,
            third_party,
            limit: settings.third_party_refunds.for_mode(charge.scope.mode).filter(|_| third_party),
            reason: self.reason.clone().map(RefundReason::Merchant),
            request_hash: self.hash.clone(),
        })
    }

    /// The requested key, or the payer's document.
    fn destination_at_bank(&self, charge: &Charge) -> Result<PixKey, RefundError> {
        if let Some(key) = &self.destination {
            return Ok(key.clone());
        }
        let payer = charge.applied_payment.as_ref().and_then(|applied| applied.payer_document);
        let key = payer.and_then(|document| document.as_str().parse().ok());
        key.ok_or(RefundError::NoDestination)
    }

    /// A cash-out by default. If the acquirer cannot send a Pix (`cashout` is false), a devolution, and a
    /// request that needs a cash-out fails.
    pub(super) fn strategy_of_pix(&self, cashout: bool) -> Result<RefundStrategy, RefundError> {
        if cashout {
            return Ok(self.strategy.unwrap_or(RefundStrategy::Cashout));
        }
        let is_cashout = self.strategy == Some(RefundStrategy::Cashout);
        if is_cashout || self.destination.is_some() || self.pass_fee_to_tenant {
            return Err(RefundError::CashoutNotSupported);
        }
        Ok(RefundStrategy::Devolution)
    }

    /// Always a devolution, because the payment itself is reversed. So a MED case cannot take that money again.
    fn strategy_of_other_method(&self) -> Result<RefundStrategy, RefundError> {
        let sent = [
            (STRATEGY.name, self.strategy.is_some()),
            (DESTINATION_KEY.name, self.destination.is_some()),
            (PASS_FEE_TO_TENANT.name, self.pass_fee_to_tenant),
        ];
        let sent = sent.into_iter().filter(|(_, is_sent)| *is_sent).map(|(name, _)| name);
        let sent: Vec<&'static str> = sent.collect();
        if sent.is_empty() { Ok(RefundStrategy::Devolution) } else { Err(RefundError::OnlyForPix(sent)) }
    }
}

/// The strategy after which a MED case can't take the money again. `None`: the method has only one.
pub fn safe_strategy(charge: &Charge) -> Option<RefundStrategy> {
    (charge.method() == PaymentMethod::Pix).then_some(RefundStrategy::Devolution)
}

/// Why a refund by [`safe_strategy`] is refused whatever its amount and the balance.
pub fn refusal(charge: &Charge, settings: &AccountSettings, now: Timestamp) -> Option<RefundError> {
    let request = NewRefund::of_all(charge);
    // A bank can refund a part of the methods of the sandbox, and a charge at a bank has no other.
    let plan = request.plan(charge, RefundCapabilities::SANDBOX, settings, now);
    let requested = plan.and_then(|plan| {
        let refused = |why| RefundError::Refused { why, status: charge.status };
        Refund::request(request.id(charge.id), charge, plan, now).map_err(refused)
    });
    requested.err()
}

/// The sandbox has the same rule as the banks.
fn require_return_window(charge: &Charge, now: Timestamp) -> Result<(), RefundError> {
    let paid_at = charge.applied_payment.as_ref().map(|applied| applied.paid_at);
    match paid_at {
        Some(paid_at) if now.millis_since(paid_at) > RETURN_WINDOW_MS => {
            Err(RefundError::TooOldForDevolution)
        }
        Some(_) | None => Ok(()),
    }
}
