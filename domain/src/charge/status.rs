//! The two vocabularies of a charge's status, and the one mapping between them (contract: Transaction status).

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::payment_method::PaymentMethod;

/// Status in the transaction vocabulary: what rows store and the payments surface emits.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, IntoStaticStr, PartialEq, Serialize, VariantArray)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
pub enum TransactionStatus {
    /// Being created.
    Pending,
    /// Awaiting the customer.
    WaitingPayment,
    /// In flight, or held for review.
    Processing,
    /// Settled, not by card.
    Paid,
    /// Settled by card.
    Approved,
    /// The acquirer declined.
    Refused,
    /// Cancelled before completion.
    Cancelled,
    /// The time to pay is over.
    Expired,
    /// Given back in full.
    Refunded,
    /// The card's issuer took it back.
    Chargeback,
    /// Contested.
    Dispute,
}

impl TransactionStatus {
    /// The word on the wire and in index keys.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The status of a settled payment by a method (contract: Transaction status).
    pub fn settled_by(method: PaymentMethod) -> Self {
        if method.facts().is_approved { Self::Approved } else { Self::Paid }
    }

    /// The public vocabulary's word for it.
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

/// Status in the public vocabulary: all that the charges surface emits.
#[derive(Clone, Copy, Debug, Eq, IntoStaticStr, PartialEq, Serialize, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum PublicStatus {
    /// Not paid yet.
    Pending,
    /// In flight, or held for review.
    Processing,
    /// Paid and settled.
    Paid,
    /// Declined.
    Failed,
    /// Not paid in time.
    Expired,
    /// Cancelled before completion.
    Cancelled,
    /// Given back in full.
    Refunded,
    /// Contested.
    Disputed,
}

impl PublicStatus {
    /// The transaction statuses that read as this one.
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
    fn every_public_status_maps_back_from_its_transaction_statuses() {
        for public in PublicStatus::all() {
            assert!(!public.transaction_statuses().is_empty());
            for status in public.transaction_statuses() {
                assert_eq!(status.public(), public);
            }
        }
    }

    #[test]
    fn a_status_is_stored_as_it_is_written() {
        for status in TransactionStatus::all() {
            assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
        }
    }

    #[test]
    fn every_status_is_read_as_a_public_one() {
        let publics = PublicStatus::all().flat_map(PublicStatus::transaction_statuses);
        assert_eq!(publics.count(), TransactionStatus::all().len());
        for status in TransactionStatus::all() {
            assert!(status.public().transaction_statuses().contains(&status));
        }
    }
}
