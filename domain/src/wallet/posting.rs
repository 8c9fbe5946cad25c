//! A posting: one movement of money, between accounts of one scope's ledger in one currency.
//!
//! It is a list of transfers, each from one account to another, so it balances by construction: no posting can make or
//! lose money.

use serde::{Deserialize, Serialize};

use super::LedgerAccount;
use crate::calendar::Day;
use crate::ids::{AcquirerPaymentId, ChargeId, MedCaseId, PayoutId, PostingId, RefundId, Scope};
use crate::money::{Currency, MinorUnits, MoneyError};
use crate::row::{Key, Row};
use crate::time::Timestamp;
use crate::vocabulary::Vocabulary;

/// Money from one account to another.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Transfer {
    /// Debited.
    pub from: LedgerAccount,
    /// Credited.
    pub to: LedgerAccount,
    /// How much; above zero.
    pub minor: MinorUnits,
}

/// Why money moved; `type` in the statement.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A payment was credited.
    Settlement,
    /// A payment is held until a person decides.
    ReviewHold,
    /// A payment that was held goes back.
    ReviewReturn,
    /// A payment that can't be applied came, and goes back.
    UnappliedReceipt,
    /// Held money can be spent.
    Release,
    /// A refund was asked for.
    Refund,
    /// A refund reached the payer.
    RefundCompleted,
    /// A refund reached the payer, and returned more fees than its gross.
    RefundCredit,
    /// A refund did not reach the payer; all of it is given back.
    RefundFailed,
    /// A MED case retains money.
    CaseOpened,
    /// A MED case ended in the merchant's favour.
    CaseWon,
    /// A MED case was lost.
    CaseLost,
    /// A payout was asked for.
    Payout,
    /// A payout reached the merchant's bank.
    PayoutPaid,
    /// A payout did not reach it; the money is given back.
    PayoutFailed,
    /// An operator's correction.
    Adjustment,
}

impl Kind {
    /// Every kind that moves a merchant's money, with its word in the statement.
    pub const IN_STATEMENT: [(&'static str, Self); 11] = [
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
    ];

    /// Its word in the statement.
    pub fn word(self) -> &'static str {
        Self::IN_STATEMENT.iter().find(|(_, kind)| *kind == self).map_or("other", |(word, _)| *word)
    }

    /// Whether it moves a merchant's money.
    pub fn is_in_statement(self) -> bool {
        Self::IN_STATEMENT.iter().any(|(_, kind)| *kind == self)
    }
}

/// What a posting is about.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Subject {
    /// The charge that was paid, refunded or contested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charge: Option<ChargeId>,
    /// The payment behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payment: Option<AcquirerPaymentId>,
    /// The refund.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refund: Option<RefundId>,
    /// The MED case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case: Option<MedCaseId>,
    /// The payout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payout: Option<PayoutId>,
    /// What an operator tells the merchant of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// What a posting is caused by, and where and when.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Cause {
    /// Names the posting: one cause posts once.
    pub id: PostingId,
    /// Whose ledger.
    pub scope: Scope,
    /// In which currency.
    pub currency: Currency,
    /// When the change happened.
    pub at: Timestamp,
    /// What it is about.
    pub subject: Subject,
}

/// A posting's row.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Posting {
    /// `mv_…`; sorts by time.
    pub id: PostingId,
    /// Whose ledger.
    pub scope: Scope,
    /// In which currency.
    pub currency: Currency,
    /// Why.
    pub kind: Kind,
    /// When.
    #[serde(with = "domain::time::millis")]
    pub at: Timestamp,
    /// What moved.
    pub transfers: Vec<Transfer>,
    /// What moved, before fees; below zero away from the merchant, or from what can be spent.
    pub amount: MinorUnits,
    /// What of `amount` the merchant did not get (below zero: got back).
    #[serde(default, skip_serializing_if = "MinorUnits::is_zero")]
    pub fee: MinorUnits,
    /// The day whose tranche the pending money is a part of.
    #[serde(default, with = "domain::calendar::number_option", skip_serializing_if = "Option::is_none")]
    pub release_on: Option<Day>,
    /// What it is about.
    #[serde(flatten)]
    pub subject: Subject,
}

/// Begins the sort key of postings that move a merchant's money: the statement reads these alone.
const WALLET_SORT: &str = "wallet#";

/// Begins the sort key of the others.
const OTHER_SORT: &str = "other#";

impl Posting {
    /// A posting of these transfers; those of nothing are left out.
    pub(super) fn new(cause: Cause, kind: Kind, transfers: &[Transfer]) -> Self {
        Self {
            id: cause.id,
            scope: cause.scope,
            currency: cause.currency,
            kind,
            at: cause.at,
            transfers: transfers.iter().copied().filter(|transfer| !transfer.minor.is_zero()).collect(),
            amount: MinorUnits::ZERO,
            fee: MinorUnits::ZERO,
            release_on: None,
            subject: cause.subject,
        }
    }

    /// Where the postings of a scope live, of all currencies: whoever adds them up again needs to know none.
    pub fn partition(scope: &Scope) -> String {
        format!("ledger#{scope}")
    }

    /// The sort key of a posting that moves a merchant's money.
    pub fn wallet_sort(currency: Currency, id: PostingId) -> String {
        format!("{WALLET_SORT}{currency}#{id}")
    }

    /// The sort key of another posting.
    pub fn other_sort(currency: Currency, id: PostingId) -> String {
        format!("{OTHER_SORT}{currency}#{id}")
    }

    /// What it changes of all that the merchant has: available, pending and retained.
    pub fn net(&self) -> Result<MinorUnits, MoneyError> {
        let mut wallet = LedgerAccount::all().filter(|account| account.is_wallet());
        wallet.try_fold(MinorUnits::ZERO, |sum, account| sum.checked_add(self.change(account)?))
    }

    /// What it changes in an account: credits less debits.
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
        let sk = if self.kind.is_in_statement() {
            Self::wallet_sort(self.currency, self.id)
        } else {
            Self::other_sort(self.currency, self.id)
        };
        Key { pk: Self::partition(&self.scope), sk }
    }
}
