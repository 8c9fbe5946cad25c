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
    // How many files are left.
    "med.remove-evidence" RemoveEvidence { mode: Mode, left: u32 };
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
    // A payout or a correction that a restore had lost.
    "restore.book-again" BookAgain(Sum);
    "restore.copy-row" CopyRow { from: String };
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

    /// Returns the sum in the details. `None`: they have none.
    pub fn sum(&self) -> Option<Sum> {
        let details = self.details()?;
        serde_json::from_value(details.get("sum").unwrap_or(&details).clone()).ok()
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Where the sum is that an action concerns.
    #[derive(Debug, Eq, PartialEq)]
    enum Sums {
        InDetails,
        /// The refund, case or incoming payment that the subject names has it.
        InObject,
        None,
    }

    /// A new action must be added here, and to `moved` of `admin restore` if its object has the sum.
    #[rustfmt::skip]
    fn sums_of(action: &Action) -> Sums {
        use Action as A;
        match action {
            A::AdjustLedger(Sum { .. }) | A::CreatePayout(Sum { .. }) | A::FailPayout(Sum { .. }) | A::SettlePayout(Sum { .. })
            | A::BookAgain(Sum { .. }) | A::AppealCase(Sum { .. }) | A::ConfirmCase(Sum { .. }) | A::ApproveReview(Sum { .. })
            | A::ReturnReview(Sum { .. }) | A::AcceptCase { sum: Sum { .. }, .. } | A::CancelCharge { sum: Sum { .. }, .. }
            | A::CreateRefund { sum: Sum { .. }, .. } => Sums::InDetails,
            A::DecideCase(_) | A::ApplyReceipt(_) | A::CreditReceipt | A::RecordReceipt | A::ReturnReceipt | A::FailRefund
            | A::RecordRefundAtBank => Sums::InObject,
            A::CheckAcquirer(_) | A::DropOldCallbackTokens(_) | A::ForgetAcquirer(_) | A::OpenAccount { .. } | A::RemoveAcquirer(_)
            | A::RequireSecondFactor(_) | A::ResumeAccount(_) | A::RotateCallbackToken(_) | A::RotateMedSecret(_)
            | A::SetAcquirer(_) | A::SetBrand(_) | A::SetChargeExpiry(_) | A::SetBoletoDue(_) | A::SetContact(_) | A::SetDocument(_)
            | A::SetFees(_) | A::SetFeesOnRefund(_) | A::SetHold(_) | A::SetMail(_) | A::SetPixOutFee(_) | A::SetRateLimit(_)
            | A::SetRefundOverdraft(_) | A::SetRefundsToPayerOnly(_) | A::SetShards(_) | A::SetShardsRead(_)
            | A::SetThirdPartyRefundLimit(_) | A::SetVelocity(_) | A::SuspendAccount(_) | A::IssueKey(_) | A::RevokeKey(_)
            | A::RotateKey { .. } | A::ExpireCharge | A::RevealDocument(_) | A::EraseCustomer | A::RedriveDeliveries { .. }
            | A::ReplayEvents | A::ResumeLiveCharges | A::StopLiveCharges | A::AddEvidence(_) | A::DismissNotice(_)
            | A::ForwardEvidence { .. } | A::RemoveEvidence { .. } | A::RequestEvidence | A::RetryNotice(_) | A::ResolveNotification { .. }
            | A::RotateOverrideSecret(_) | A::ChangePaymentLink(_) | A::CreatePaymentLink(_) | A::ApprovePayoutKey(_)
            | A::RegisterPayoutKey(_) | A::RejectPayoutKey(_) | A::CopyRow { .. } | A::AddUser { .. } | A::ConfirmSession
            | A::EndSessions { .. } | A::InviteUser { .. } | A::LockOut | A::LogIn | A::LogOut | A::RemoveUser { .. }
            | A::ResetPassword { .. } | A::SecondFactorOff { .. } | A::SecondFactorOn | A::SetRole { .. } | A::WithdrawInvite { .. }
            | A::ChangeEndpoint { .. } | A::DeleteEndpoint { .. } | A::DisableEndpoint(_) | A::RegisterEndpoint { .. }
            | A::RotateEndpointSecret { .. } => Sums::None,
        }
    }

    #[test]
    fn the_sum_of_each_action_on_money_is_in_its_details_or_in_its_object() {
        let sum = Sum { mode: Mode::Live, currency: Currency::BRL, minor: -500 };
        let charge: ChargeId = "ch_7d9f0335-8dcc-4054-9bf9-0dbd61d36906".parse().unwrap();
        for action in [
            Action::AdjustLedger(sum),
            Action::CreatePayout(sum),
            Action::FailPayout(sum),
            Action::SettlePayout(sum),
            Action::BookAgain(sum),
            Action::AppealCase(sum),
            Action::ConfirmCase(sum),
            Action::ApproveReview(sum),
            Action::ReturnReview(sum),
            Action::AcceptCase { sum, lost: 1 },
            Action::CancelCharge { sum, before: TransactionStatus::WaitingPayment },
            Action::CreateRefund { sum, charge, strategy: None, to: None },
        ] {
            assert_eq!((sums_of(&action), action.sum()), (Sums::InDetails, Some(sum)), "{action:?}");
        }
        for (action, expected) in [
            (Action::CreditReceipt, Sums::InObject),
            (Action::ApplyReceipt(charge), Sums::InObject),
            (Action::RevealDocument(Mode::Live), Sums::None),
            (Action::SetHold(Changed { before: json!(1), after: json!(2) }), Sums::None),
        ] {
            assert_eq!((sums_of(&action), action.sum()), (expected, None), "{action:?}");
        }
    }
}
