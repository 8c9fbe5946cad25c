//! What audit rows say was done, with the details that the subject does not contain: amounts, or settings before and
//! after. Settings are JSON, because an audit row outlives their types.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::account::Role;
use crate::charge::TransactionStatus;
use crate::ids::{ChargeId, ConnectionId, EndToEndId, EvidenceId, Fingerprint, MedCaseId, Mode, Scope};
use crate::med::Decision;
use crate::money::Currency;
use crate::time::Timestamp;
use crate::wallet::RefundStrategy;
use crate::webhook::EndpointStatus;
use crate::webhook::event_type::EventType;

macro_rules! actions {
    ($($name:literal $Action:ident $({ $($fields:tt)+ })? $(($details:ty))?;)+) => {
        /// An action, which rows name as `payout.create`.
        #[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
        #[serde(tag = "action", content = "details")]
        pub enum Action { $(#[serde(rename = $name)] $Action $({ $($fields)+ })? $(($details))?,)+ }

        impl Action {
            /// Returns the name in rows.
            pub fn name(&self) -> &'static str {
                match self { $(Self::$Action { .. } => $name,)+ }
            }
        }
    };
}

actions! {
    "account.check-acquirer" CheckAcquirer(Value);
    "account.drop-old-callback-tokens" DropOldCallbackTokens(Value);
    "account.forget-acquirer" ForgetAcquirer(Value);
    "account.open" OpenAccount { settings: Value, contact: Value };
    "account.remove-acquirer" RemoveAcquirer(Value);
    "account.require-second-factor" RequireSecondFactor(Changed);
    "account.resume" ResumeAccount(Changed);
    "account.rotate-callback-token" RotateCallbackToken(Value);
    "account.rotate-med-secret" RotateMedSecret(ConnectionId);
    "account.set-acquirer" SetAcquirer(Changed);
    "account.set-brand" SetBrand(Changed);
    "account.set-charge-expiry" SetChargeExpiry(Changed);
    "account.set-boleto-due" SetBoletoDue(Changed);
    "account.set-contact" SetContact(Changed);
    "account.set-document" SetDocument(Changed);
    "account.set-fees" SetFees(Changed);
    "account.set-fees-on-refund" SetFeesOnRefund(Changed);
    "account.set-hold" SetHold(Changed);
    "account.set-mail" SetMail(Changed);
    "account.set-pix-out-fee" SetPixOutFee(Changed);
    "account.set-rate-limit" SetRateLimit(Changed);
    "account.set-refund-overdraft" SetRefundOverdraft(Changed);
    "account.set-refunds-to-payer-only" SetRefundsToPayerOnly(Changed);
    "account.set-shards" SetShards(Changed);
    "account.set-shards-read" SetShardsRead(Changed);
    "account.set-third-party-refund-limit" SetThirdPartyRefundLimit(Changed);
    "account.set-velocity" SetVelocity(Changed);
    "account.suspend" SuspendAccount(Changed);
    "api-key.issue" IssueKey(AuditedKey);
    "api-key.revoke" RevokeKey(AuditedKey);
    "api-key.rotate" RotateKey { replaced_by: Fingerprint, key: AuditedKey };
    "charge.cancel" CancelCharge { sum: Sum, before: TransactionStatus };
    "charge.expire" ExpireCharge;
    "charge.reveal-document" RevealDocument(Mode);
    "customer.erase" EraseCustomer;
    "deliveries.redrive" RedriveDeliveries { scope: Scope, deliveries: usize, since: Timestamp };
    "events.replay" ReplayEvents;
    "ledger.adjust" AdjustLedger(Sum);
    "live-charges.resume" ResumeLiveCharges;
    "live-charges.stop" StopLiveCharges;
    "med.accept" AcceptCase { sum: Sum, lost: i64 };
    "med.add-evidence" AddEvidence(AddedEvidence);
    "med.appeal" AppealCase(Sum);
    "med.confirm" ConfirmCase(Sum);
    "med.decide" DecideCase(Decision);
    "med.dismiss-notice" DismissNotice(EndToEndId);
    "med.forward" ForwardEvidence { text: bool, files: Vec<String> };
    "med.request-evidence" RequestEvidence;
    "med.retry-notice" RetryNotice(MedCaseId);
    "notification.resolve" ResolveNotification { read_back: Option<EndToEndId> };
    "override-secret.rotate" RotateOverrideSecret(Mode);
    "payment-link.change" ChangePaymentLink(Mode);
    "payment-link.create" CreatePaymentLink(Mode);
    "payout.create" CreatePayout(Sum);
    "payout.fail" FailPayout(Sum);
    "payout.settle" SettlePayout(Sum);
    // The masked key.
    "payout-key.approve" ApprovePayoutKey(String);
    "payout-key.register" RegisterPayoutKey(String);
    "payout-key.reject" RejectPayoutKey(String);
    "receipt.apply" ApplyReceipt(ChargeId);
    "receipt.credit" CreditReceipt;
    "receipt.record" RecordReceipt;
    "receipt.return" ReturnReceipt;
    "refund.at-bank" RecordRefundAtBank;
    "refund.create" CreateRefund { sum: Sum, charge: ChargeId, strategy: Option<RefundStrategy>, to: Option<String> };
    "refund.fail" FailRefund;
    "review.approve" ApproveReview(Sum);
    "review.return" ReturnReview(Sum);
    "user.add" AddUser { email: String, role: Role };
    "user.confirm" ConfirmSession;
    "user.end-sessions" EndSessions { email: String };
    "user.invite" InviteUser { email: String, role: Role };
    "user.lock-out" LockOut;
    "user.log-in" LogIn;
    "user.log-out" LogOut;
    "user.remove" RemoveUser { email: String, role: Role };
    "user.reset-password" ResetPassword { email: String };
    "user.second-factor-off" SecondFactorOff { email: String };
    "user.second-factor-on" SecondFactorOn;
    "user.set-role" SetRole { email: String, from: Role, to: Role };
    "user.withdraw-invite" WithdrawInvite { email: String };
    // The servers are equal if only the path or query differs.
    "webhook-endpoint.change" ChangeEndpoint { mode: Mode, url: Option<(String, String)>, added: Vec<EventType>, removed: Vec<EventType>, status: Option<(EndpointStatus, EndpointStatus)> };
    "webhook-endpoint.delete" DeleteEndpoint { mode: Mode, server: String };
    "webhook-endpoint.disable" DisableEndpoint(Mode);
    "webhook-endpoint.register" RegisterEndpoint { mode: Mode, server: String, events: Vec<EventType> };
    "webhook-endpoint.rotate-secret" RotateEndpointSecret { mode: Mode, server: String };
}

impl Action {
    pub fn details(&self) -> Option<Value> {
        serde_json::to_value(self).ok()?.get_mut("details").map(Value::take)
    }
}

/// A setting before and after.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Changed {
    pub before: Value,
    pub after: Value,
}

/// An API key, without the key.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct AuditedKey {
    pub mode: Mode,
    pub prefix: String,
    pub label: String,
}

/// A sum of money in a mode.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Sum {
    pub mode: Mode,
    pub currency: Currency,
    /// In minor units.
    pub minor: i64,
}

/// Evidence that was added to a MED case.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AddedEvidence {
    /// By a member, who leads to this many files of the case.
    Files(Mode, u32),
    /// By an operator: this file, with its name.
    File(EvidenceId, String),
}
