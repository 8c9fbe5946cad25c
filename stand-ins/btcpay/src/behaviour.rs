use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::decimal::SATOSHIS;

/// What differs between servers, stores and keys. `docs/laptop.md` describes each field.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Behaviour {
    /// The rights of the key, such as `btcpay.store.canviewinvoices`. A right that ends in `:` and a store's id is limited
    /// to this store.
    pub permissions: Vec<String>,
    /// The price of 1 BTC by currency, in minor units. An invoice in a currency without rate is refused. BTC needs none.
    pub rates: BTreeMap<String, u32>,
    /// The currency of an invoice without `currency`.
    pub default_currency: String,
    /// False: `afterExpiration` of events is always false, as a report from the field says (issue 3966 of BTCPay Server).
    pub reports_after_expiration: bool,
}

impl Default for Behaviour {
    fn default() -> Self {
        let rights =
            ["canviewinvoices", "cancreateinvoice", "canmodifyinvoices", "webhooks.canmodifywebhooks"];
        let rights = rights.iter().chain(&["canviewstoresettings"]);
        let rates = [("BRL", 54_000_000), ("EUR", 9_000_000), ("USD", 10_000_000)];
        Self {
            permissions: rights.map(|right| format!("btcpay.store.{right}")).collect(),
            rates: rates.map(|(currency, rate)| (currency.to_owned(), rate)).into(),
            default_currency: "BRL".to_owned(),
            reports_after_expiration: true,
        }
    }
}

impl Behaviour {
    /// Returns the price of 1 BTC in minor units. BTC has a price of 1.
    pub(crate) fn rate(&self, currency: &str) -> Option<i128> {
        let rate = self.rates.get(currency).copied().map(i128::from).filter(|rate| *rate > 0);
        if currency == "BTC" { Some(SATOSHIS) } else { rate }
    }

    /// True if the key has the right for the store. Some rights include others.
    pub(crate) fn allows(&self, right: &str, store_id: &str) -> bool {
        let includes = |name: &str| match name.trim_start_matches("btcpay.store.") {
            "unrestricted" | "canmodifystoresettings" => true,
            "canmodifyinvoices" => {
                right.ends_with(".canviewinvoices") || right.ends_with(".cancreateinvoice")
            }
            "canviewstoresettings" => right.ends_with(".canviewinvoices"),
            _ => false,
        };
        let of_store = self.permissions.iter().filter_map(|permission| {
            let (name, store) = permission.split_once(':').unwrap_or((permission, store_id));
            (store == store_id).then_some(name)
        });
        right.is_empty() || of_store.into_iter().any(|name| name == right || includes(name))
    }
}
