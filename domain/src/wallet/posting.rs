//! Postings: lists of transfers between the accounts of a ledger. So each balances by construction, and no
//! posting can create or destroy money.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LedgerAccount, TrancheShare};
use crate::calendar::Day;
use crate::ids::{AcquirerPaymentId, ChargeId, MedCaseId, PayoutId, PostingId, RefundId, Scope};
use crate::money::{Currency, MinorUnits, MoneyError};
use crate::row::{Key, Row};
use crate::shard::Shard;
use crate::time::Timestamp;
use crate::vocabulary::Vocabulary;

/// A transfer of money from one account to another.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Transfer {
    /// Debited account.
    pub from: LedgerAccount,
    /// Credited account.
    pub to: LedgerAccount,
    /// Sum in minor units; above zero.
    pub minor: MinorUnits,
}

/// Why money moved; `type` in the statement.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "WalletTransactionType", description = "Why money moved.")]
pub enum PostingKind {
    /// A payment was credited.
    Settlement,
    /// A payment is held for manual review.
    #[schemars(skip)]
    ReviewHold,
    /// A payment that was held for review is returned.
    #[schemars(skip)]
    ReviewReturn,
    /// A payment arrived that cannot be applied to its charge: one posting records it and its return.
    /// *Receipt* is the older word for an incoming payment.
    #[schemars(skip)]
    UnappliedReceipt,
    /// The acquirer returned a payment to its payer.
    #[schemars(skip)]
    ReturnCompleted,
    /// A hold period ended: pending money becomes available.
    Release,
    /// A refund was requested.
    Refund,
    /// A refund reached the payer.
    #[schemars(skip)]
    RefundCompleted,
    /// A refund reached the payer, and the fees that were returned for it exceed the refunded amount. The
    /// merchant is credited with the surplus.
    RefundCredit,
    /// A refund failed; all money and fees that its request debited are credited back (see
    /// [`super::rules::refund_failed`]).
    #[schemars(description = "A refund failed; all money that its request debited is credited back.")]
    RefundFailed,
    /// A MED case retains money.
    CaseOpened,
    /// A MED case ended in the merchant's favour.
    CaseWon,
    /// A MED case was lost.
    CaseLost,
    /// The acquirer charged a fee for a dispute, which the platform bears, or gave it back.
    #[schemars(skip)]
    DisputeFees,
    /// What the acquirer charged beyond the fees of settlements and disputes, and what exchange cost. The platform
    /// bears it.
    #[schemars(skip)]
    AcquirerCosts,
    /// A payout was requested.
    Payout,
    /// A payout reached the merchant's bank.
    #[schemars(skip)]
    PayoutPaid,
    /// A payout failed; the money is back in the wallet.
    PayoutFailed,
    /// An operator's correction.
    Adjustment,
    /// A payment came to the merchant's own wallet.
    #[schemars(skip)]
    SelfCustody,
    /// The platform's fee of a payment by crypto, which the available balance pays.
    Fee,
}

impl PostingKind {
    /// Every kind that changes the merchant's wallet, with its name in the statement.
    pub(crate) const IN_STATEMENT: [(&'static str, Self); 12] = [
        ("settlement", Self::Settlement),
        ("release", Self::Release),
        ("refund", Self::Refund),
        ("refund_credit", Self::RefundCredit),
        ("refund_failed", Self::RefundFailed),
        ("case_opened", Self::CaseOpened),
        ("case_won", Self::CaseWon),
        ("case_lost", Self::CaseLost),
        ("payout", Self::Payout),
        ("payout_failed", Self::PayoutFailed),
        ("adjustment", Self::Adjustment),
        ("fee", Self::Fee),
    ];

    /// Returns the kind's name in the statement; `other` for kinds that are not in it.
    pub fn statement_type(self) -> &'static str {
        Self::IN_STATEMENT.iter().find(|(_, kind)| *kind == self).map_or("other", |(name, _)| *name)
    }

    /// Checks whether the kind changes the merchant's wallet.
    pub fn is_in_statement(self) -> bool {
        Self::IN_STATEMENT.iter().any(|(_, kind)| *kind == self)
    }
}

/// The objects that a posting concerns.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Subject {
    /// The charge that was paid, refunded or contested.
    pub charge: Option<ChargeId>,
    /// The payment of that charge.
    pub payment: Option<AcquirerPaymentId>,
    /// The refund.
    pub refund: Option<RefundId>,
    /// The MED case.
    pub case: Option<MedCaseId>,
    /// The payout.
    pub payout: Option<PayoutId>,
    /// An operator's note to the merchant.
    pub note: Option<String>,
}

/// The cause of a posting: its id, ledger, time and subject.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Cause {
    /// Id of the posting. For a change of a row it is derived from the row's key, its new version and the
    /// time. A release and an adjustment have random ids. An operator repeats an adjustment with its id, so
    /// it posts once.
    pub id: PostingId,
    /// Scope of the ledger.
    pub scope: Scope,
    /// The shard of the charge that the posting concerns. The first shard if it concerns none.
    pub shard: Shard,
    /// Currency of the ledger.
    pub currency: Currency,
    /// Time of the change.
    pub at: Timestamp,
    /// The objects that the posting concerns.
    pub subject: Subject,
}

/// The row of a posting.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Posting {
    /// `mv_…`. Ids sort by time.
    pub id: PostingId,
    /// Scope of the ledger.
    pub scope: Scope,
    /// Shard of the ledger.
    #[serde(default, skip_serializing_if = "Shard::is_first")]
    pub shard: Shard,
    /// Currency of the ledger.
    pub currency: Currency,
    /// Why the money moved.
    pub kind: PostingKind,
    /// When the change began that moved the money. The row may be written some seconds later, so a reader of
    /// a closed period must wait a minute after its end.
    #[serde(with = "domain::time::millis")]
    pub at: Timestamp,
    /// The transfers.
    pub transfers: Vec<Transfer>,
    /// Before fees, as in the statement. Negative when money leaves the merchant, or moves to the retained
    /// balance.
    pub amount: MinorUnits,
    /// Fees deducted from `amount`; negative for fees that are returned.
    #[serde(default, skip_serializing_if = "MinorUnits::is_zero")]
    pub fee: MinorUnits,
    /// The release day of the pending money that is moved. `None`: no pending money is moved.
    #[serde(default, with = "domain::calendar::number_option", skip_serializing_if = "Option::is_none")]
    pub release_on: Option<Day>,
    /// Parts of further tranches; negative: taken from them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tranches: Vec<TrancheShare>,
    /// An earlier posting of the same object, of which the object's row has no record any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<PostingId>,
    /// The objects that the posting concerns.
    #[serde(flatten)]
    pub subject: Subject,
}

const PARTITION: &str = "ledger#";

/// The statement reads only the postings with this prefix, which change the merchant's wallet.
const WALLET_SORT: &str = "wallet#";

const OTHER_SORT: &str = "other#";

impl Posting {
    /// Drops transfers whose sum is zero.
    pub(super) fn new(cause: Cause, kind: PostingKind, transfers: &[Transfer]) -> Self {
        Self {
            id: cause.id,
            scope: cause.scope,
            shard: cause.shard,
            currency: cause.currency,
            kind,
            at: cause.at,
            transfers: transfers.iter().copied().filter(|transfer| !transfer.minor.is_zero()).collect(),
            amount: MinorUnits::ZERO,
            fee: MinorUnits::ZERO,
            release_on: None,
            tranches: Vec::new(),
            earlier: None,
            subject: cause.subject,
        }
    }

    /// The time by which statements and reports are sorted and bounded.
    pub fn dated_at(&self) -> Timestamp {
        self.id.timestamp().unwrap_or(self.at)
    }

    /// The postings of a shard in all currencies. The verification of a ledger reads all of it, so it finds all
    /// currencies.
    pub fn partition(scope: &Scope, shard: Shard) -> String {
        shard.partition(format!("{PARTITION}{scope}"))
    }

    /// Returns the sort key of a posting that changes the merchant's wallet.
    pub fn wallet_sort(currency: Currency, id: PostingId) -> String {
        format!("{WALLET_SORT}{currency}#{id}")
    }

    /// Returns the sort key of any other posting.
    pub fn other_sort(currency: Currency, id: PostingId) -> String {
        format!("{OTHER_SORT}{currency}#{id}")
    }

    /// Returns the key of a posting. `is_in_statement`: whether its kind changes the merchant's wallet.
    pub fn key_of(
        (scope, shard): (&Scope, Shard),
        currency: Currency,
        id: PostingId,
        is_in_statement: bool,
    ) -> Key {
        let sort = if is_in_statement { Self::wallet_sort } else { Self::other_sort };
        Key { pk: Self::partition(scope, shard), sk: sort(currency, id) }
    }

    /// Returns the key of [`Self::earlier`].
    pub fn earlier_key(&self) -> Option<Key> {
        Some(Posting { id: self.earlier?, ..self.clone() }.key())
    }

    /// Checks whether a key of the state table is that of a posting.
    pub fn is_at(key: &Key) -> bool {
        key.pk.starts_with(PARTITION)
    }

    /// What the payer of a charge paid, before fees. `None`: the posting is no sale.
    pub fn sale(&self) -> Result<Option<MinorUnits>, MoneyError> {
        match self.kind {
            PostingKind::Settlement => Ok(Some(self.amount)),
            // To the merchant's own wallet; of a fee, the platform's fee of such a payment is part.
            PostingKind::SelfCustody | PostingKind::Fee => self.change(LedgerAccount::SelfCustody).map(Some),
            _ => Ok(None),
        }
    }

    /// The change of available, pending and retained balance together. The nets add up to the money that the
    /// merchant has.
    pub fn net(&self) -> Result<MinorUnits, MoneyError> {
        let mut wallet = LedgerAccount::all().filter(|account| account.is_wallet());
        wallet.try_fold(MinorUnits::ZERO, |sum, account| sum.checked_add(self.change(account)?))
    }

    /// Returns the change of the tranche of `release_on`.
    pub fn change_of_tranche(&self) -> Result<MinorUnits, MoneyError> {
        self.change(LedgerAccount::MerchantPending)?.checked_sub(TrancheShare::sum(&self.tranches)?)
    }

    /// Returns the change of an account: credits minus debits.
    pub fn change(&self, account: LedgerAccount) -> Result<MinorUnits, MoneyError> {
        self.transfers.iter().try_fold(MinorUnits::ZERO, |sum, transfer| {
            match (transfer.to == account, transfer.from == account) {
                (true, false) => sum.checked_add(transfer.minor),
                (false, true) => sum.checked_sub(transfer.minor),
                (true, true) | (false, false) => Ok(sum),
            }
        })
    }
}

impl Row for Posting {
    fn key(&self) -> Key {
        let is_in_statement = self.kind.is_in_statement();
        Self::key_of((&self.scope, self.shard), self.currency, self.id, is_in_statement)
    }
}
