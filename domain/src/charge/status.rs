//! The two status vocabularies of a charge, and the mapping between them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::payment_method::PaymentMethod;

/// Status in the transaction vocabulary, which rows store and the payments surface emits.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, Hash, IntoStaticStr, JsonSchema, PartialEq, Serialize, VariantArray,
)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
#[schemars(rename = "TransactionStatus", description = "The status of a payment.")]
pub enum TransactionStatus {
    /// The acquirer has not finalised the charge yet.
    Pending,
    /// Awaiting the payment.
    WaitingPayment,
    /// Card authentication in progress, or payment held for review.
    Processing,
    /// Settled by a method other than card.
    Paid,
    /// Settled by card.
    Approved,
    /// Declined by the acquirer.
    Refused,
    /// Cancelled before completion.
    Cancelled,
    /// Not paid in time.
    Expired,
    /// Refunded in full.
    Refunded,
    /// Charged back by the card's issuer.
    Chargeback,
    /// Disputed by a MED case or by the card holder.
    Dispute,
}

crate::named!(TransactionStatus);

impl TransactionStatus {
    /// Returns the status of a settled payment by a method.
    pub(crate) fn settled_by(method: PaymentMethod) -> Self {
        if method.facts().is_approved { Self::Approved } else { Self::Paid }
    }

    /// Maps the status to the public vocabulary.
    pub fn public(self) -> PublicStatus {
        match self {
            Self::Pending | Self::WaitingPayment => PublicStatus::Pending,
            Self::Processing => PublicStatus::Processing,
            Self::Paid | Self::Approved => PublicStatus::Paid,
            Self::Refused => PublicStatus::Failed,
            Self::Cancelled => PublicStatus::Cancelled,
            Self::Expired => PublicStatus::Expired,
            Self::Refunded => PublicStatus::Refunded,
            Self::Chargeback | Self::Dispute => PublicStatus::Disputed,
        }
    }
}

/// Status in the public vocabulary, the only one that the charges surface emits.
#[derive(Clone, Copy, Debug, Eq, IntoStaticStr, JsonSchema, PartialEq, Serialize, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
#[schemars(rename = "ChargeStatus", description = "The status of a charge.")]
pub enum PublicStatus {
    /// Not paid yet.
    Pending,
    /// Card authentication in progress, or payment held for review.
    Processing,
    /// Paid and settled.
    Paid,
    /// Declined.
    Failed,
    /// Not paid in time.
    Expired,
    /// Cancelled before completion.
    Cancelled,
    /// Refunded in full.
    Refunded,
    /// Disputed.
    Disputed,
}

impl PublicStatus {
    /// Returns the transaction statuses that map to this status.
    pub fn transaction_statuses(self) -> &'static [TransactionStatus] {
        match self {
            Self::Pending => &[TransactionStatus::WaitingPayment, TransactionStatus::Pending],
            Self::Processing => &[TransactionStatus::Processing],
            Self::Paid => &[TransactionStatus::Paid, TransactionStatus::Approved],
            Self::Failed => &[TransactionStatus::Refused],
            Self::Expired => &[TransactionStatus::Expired],
            Self::Cancelled => &[TransactionStatus::Cancelled],
            Self::Refunded => &[TransactionStatus::Refunded],
            Self::Disputed => &[TransactionStatus::Dispute, TransactionStatus::Chargeback],
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::vocabulary::Vocabulary;

    use super::*;

    #[test]
    fn a_status_is_the_same_in_rows_and_on_the_wire() {
        for status in TransactionStatus::all() {
            assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
        }
    }

    #[test]
    fn each_transaction_status_has_one_public_status_and_each_public_status_has_some() {
        let publics = PublicStatus::all().flat_map(PublicStatus::transaction_statuses);
        assert_eq!(publics.count(), TransactionStatus::all().len());
        for status in TransactionStatus::all() {
            assert!(status.public().transaction_statuses().contains(&status));
        }
        assert!(PublicStatus::all().all(|public| !public.transaction_statuses().is_empty()));
    }
}
