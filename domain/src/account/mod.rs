//! Accounts of merchants, and their settings: limits, fees and defaults.

mod brand;
mod contact;
mod limits;
mod sales_emails;
pub mod terms;

pub use brand::{Brand, Color, LogoHash, Phone};
pub use contact::{Contact, MailAddress, MailAddressError};
pub use limits::{BoletoDueDays, ThirdPartyLimits, VelocityLimits};
pub use sales_emails::SalesEmails;
use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr, VariantArray};

use self::terms::Terms;
use crate::ids::AccountId;
use crate::money::MinorUnits;
use crate::row::{Indexes, Key, Row, sortable};
use crate::shard::ShardSettings;
use crate::tax_id::TaxId;
use crate::time::Timestamp;

/// The settings of an account. The row of each of its API keys has a copy, so that one round trip authenticates
/// a request and reads the settings. A change writes the account's row first.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct AccountSettings {
    /// Name shown to the payer and written into BR Codes, which truncate it to 25 characters.
    pub merchant_name: String,
    /// City written into BR Codes, which truncate it to 15 characters.
    pub merchant_city: String,
    /// Default lifetime of a charge in seconds, from 60 to 86,400.
    pub charge_expires_in_seconds: i64,
    #[serde(default, skip_serializing_if = "domain::row::is_default")]
    pub boleto_due_days: BoletoDueDays,
    /// Rate limit of each API key, in requests per minute.
    pub rate_limit_per_minute: u64,
    /// Cost of a Pix out in centavos. A refund by cash-out incurs it.
    #[serde(default, skip_serializing_if = "MinorUnits::is_zero")]
    pub pix_out_fee: MinorUnits,
    /// How far below zero a refund may take the available balance, in minor units of each wallet.
    #[serde(default, skip_serializing_if = "MinorUnits::is_zero")]
    pub refund_overdraft: MinorUnits,
    /// Velocity limits on the creation of live charges.
    #[serde(default, skip_serializing_if = "domain::row::is_default")]
    pub velocity: VelocityLimits,
    /// Suspended: its API keys are refused. Payments, refunds and returns in progress, webhooks and the
    /// dashboard go on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspended: bool,
    /// True when the payer's own document is the only Pix key that a refund may go to.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refunds_to_payer_only: bool,
    #[serde(default, skip_serializing_if = "domain::row::is_default")]
    pub third_party_refunds: ThirdPartyLimits,
    /// The number of shards that the account's rows are spread over.
    #[serde(default, skip_serializing_if = "domain::row::is_default")]
    pub shards: ShardSettings,
    /// Fees and hold periods by payment method.
    pub terms: Terms,
}

impl AccountSettings {
    /// Returns the settings of a new account.
    pub fn new(merchant_name: &str, merchant_city: &str) -> Self {
        Self {
            merchant_name: merchant_name.to_owned(),
            merchant_city: merchant_city.to_owned(),
            charge_expires_in_seconds: 3_600,
            boleto_due_days: BoletoDueDays::default(),
            rate_limit_per_minute: 600,
            pix_out_fee: MinorUnits::ZERO,
            refund_overdraft: MinorUnits::ZERO,
            velocity: VelocityLimits::default(),
            suspended: false,
            refunds_to_payer_only: false,
            third_party_refunds: ThirdPartyLimits::default(),
            shards: ShardSettings::default(),
            terms: Terms::default(),
        }
    }
}

/// An account's row.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Account {
    /// `acc_…`.
    pub id: AccountId,
    pub settings: AccountSettings,
    /// The contact that receives the account's emails.
    #[serde(default, skip_serializing_if = "domain::row::is_default")]
    pub contact: Contact,
    /// The merchant's CPF or CNPJ, which the holder of a payout key must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<TaxId>,
    #[serde(default, skip_serializing_if = "domain::row::is_default")]
    pub brand: Brand,
    /// True when each user must turn on the second factor before anything else.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub requires_second_factor: bool,
    /// A random secret in hex. The charges' ids are derived from it, so that they cannot be guessed.
    pub salt: String,
    #[serde(with = "domain::time::millis")]
    pub created_at: Timestamp,
    pub version: u64,
}

/// Partition of the `list` index that contains every account.
pub const ACCOUNTS: &str = "accounts";

impl Account {
    /// The name by which payers know the shop.
    pub fn shop_name(&self) -> &str {
        self.brand.name.as_deref().unwrap_or(&self.settings.merchant_name)
    }

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

/// The role decides what a user may do at the dashboard and with the account's API keys.
#[derive(
    Clone, Copy, Debug, Deserialize, EnumString, Eq, IntoStaticStr, PartialEq, Serialize, VariantArray,
)]
#[serde(rename_all = "UPPERCASE")]
#[strum(serialize_all = "UPPERCASE")]
pub enum Role {
    /// Manages the account, its keys and its users.
    Owner,
    /// Manages the account and its keys.
    Admin,
    /// Works with charges.
    Member,
    /// Reads and downloads everything, and changes nothing but the own access: the accountant.
    Viewer,
}

crate::named!(Role);

impl Role {
    pub fn manages_keys(self) -> bool {
        match self {
            Self::Owner | Self::Admin => true,
            Self::Member | Self::Viewer => false,
        }
    }

    /// Whether the names of customers are shown whole.
    pub fn sees_names(self) -> bool {
        match self {
            Self::Owner | Self::Admin | Self::Viewer => true,
            Self::Member => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::shard::ShardCount;

    #[test]
    fn a_row_has_each_setting_that_is_not_the_default_and_no_other() {
        let account = Account {
            id: AccountId::new([1; 10]),
            settings: AccountSettings::new("Loja", "São Paulo"),
            contact: Contact::default(),
            document: None,
            brand: Brand::default(),
            requires_second_factor: false,
            salt: "5a17".to_owned(),
            created_at: Timestamp::MIN,
            version: 1,
        };
        let stored = |account: &Account| {
            let row = serde_json::to_value(account).unwrap();
            assert_eq!(serde_json::from_value::<Account>(row.clone()).unwrap(), *account);
            row
        };
        let default_row = stored(&account);
        let two = ShardCount::try_from(2).unwrap();
        let changed = Account {
            settings: AccountSettings {
                velocity: VelocityLimits { per_customer: 3, per_account: 20, per_link: 5 },
                third_party_refunds: ThirdPartyLimits { test: Some(5), live: None },
                refund_overdraft: MinorUnits::new(50),
                boleto_due_days: BoletoDueDays::new(7).unwrap(),
                shards: ShardSettings { read: two, new_charges: ShardCount::ONE },
                ..account.settings.clone()
            },
            contact: Contact { address: None, mail_off: true },
            brand: Brand { color: "#0f6b5c".parse().ok(), ..Brand::default() },
            ..account
        };
        let row = stored(&changed);
        for (name, expected) in [
            ("/settings/velocity", json!({"per_customer": 3, "per_account": 20, "per_link": 5})),
            ("/settings/third_party_refunds", json!({"test": 5})),
            ("/settings/refund_overdraft", json!(50)),
            ("/settings/boleto_due_days", json!(7)),
            ("/settings/shards/read", json!(2)),
            ("/contact", json!({"mail_off": true})),
            ("/brand", json!({"color": "#0f6b5c"})),
        ] {
            assert_eq!((default_row.pointer(name), row.pointer(name)), (None, Some(&expected)), "{name}");
        }
    }
}
