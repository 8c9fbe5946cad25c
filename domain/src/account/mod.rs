//! An account: a merchant, with the settings that its charges follow.

mod contact;
mod limits;
pub mod terms;

pub use contact::{Contact, MailAddress, MailAddressError};
pub use limits::{ThirdPartyLimits, VelocityLimits};
use serde::{Deserialize, Serialize};

use self::terms::Terms;
use crate::ids::AccountId;
use crate::money::MinorUnits;
use crate::row::{Indexes, Key, Row, sortable};
use crate::time::Timestamp;

/// What an account may set. Key rows carry a copy, so that a request reads its settings and proves its key in
/// one round trip; a change writes the account's row first, then each of its key rows.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct AccountSettings {
    /// Shown to the payer and written into BR Codes, which cut it at 25 characters.
    pub merchant_name: String,
    /// Written into BR Codes, which cut it at 15 characters.
    pub merchant_city: String,
    /// How long a charge can be paid when the request does not say, in seconds: 60 to 86,400.
    pub charge_expires_in_seconds: i64,
    /// Requests a minute for each key.
    pub rate_limit_per_minute: u64,
    /// What a Pix out costs, in centavos (refunds by cash-out).
    #[serde(default, skip_serializing_if = "MinorUnits::is_zero")]
    pub pix_out_fee: MinorUnits,
    /// How many live charges may be asked for in a short time.
    #[serde(default, skip_serializing_if = "VelocityLimits::is_default")]
    pub velocity: VelocityLimits,
    /// Whether a refund may name no Pix key but the payer's own document.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refunds_to_payer_only: bool,
    /// How much refunds may send to other keys in a day.
    #[serde(default, skip_serializing_if = "ThirdPartyLimits::is_default")]
    pub third_party_refunds: ThirdPartyLimits,
    /// Fees and holds.
    #[serde(default)]
    pub terms: Terms,
}

impl AccountSettings {
    /// The settings of a new account.
    pub fn new(merchant_name: &str, merchant_city: &str) -> Self {
        Self {
            merchant_name: merchant_name.to_owned(),
            merchant_city: merchant_city.to_owned(),
            charge_expires_in_seconds: 3_600,
            rate_limit_per_minute: 600,
            pix_out_fee: MinorUnits::ZERO,
            velocity: VelocityLimits::default(),
            refunds_to_payer_only: false,
            third_party_refunds: ThirdPartyLimits::default(),
            terms: Terms::default(),
        }
    }
}

/// An account's row.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Account {
    /// `acc_…`.
    pub id: AccountId,
    /// What it may set.
    pub settings: AccountSettings,
    /// Whom its notices go to.
    #[serde(default, skip_serializing_if = "Contact::is_default")]
    pub contact: Contact,
    /// Random, in hex: what the ids of its charges are derived from beside idempotency keys, so that they can't be guessed.
    pub salt: String,
    /// When it was opened.
    #[serde(with = "domain::time::millis")]
    pub created_at: Timestamp,
    /// Counts the row's changes, from 1.
    pub version: u64,
}

/// The partition of the list index that names every account.
pub const ACCOUNTS: &str = "accounts";

impl Account {
    /// Where an account lives.
    pub fn key_of(id: &AccountId) -> Key {
        Key { pk: format!("account#{id}"), sk: "account".to_owned() }
    }
}

impl Row for Account {
    fn key(&self) -> Key {
        Self::key_of(&self.id)
    }

    fn indexes(&self) -> Indexes {
        let sort = format!("{}#{}", sortable(self.created_at), self.id);
        Indexes { list: Some((ACCOUNTS.to_owned(), sort)), ..Indexes::default() }
    }
}
