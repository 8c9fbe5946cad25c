//! Balance transactions.

use serde_json::{Value, json};

use super::{ACCOUNT, State};
use crate::values::{int, object, share, text};

impl State {
    /// Stores a balance transaction about an object, and returns its id. The amount is in the currency of the object,
    /// the fee in that of settlement.
    pub(super) fn move_balance(
        &mut self,
        kind: &str,
        category: &str,
        source: &str,
        amount: i64,
        fee: i64,
    ) -> String {
        let id = self.new_id("txn_", 14);
        let source_object = self.object(source);
        let (amount, currency, exchange_rate) = self.settled(amount, text(&source_object, "currency"));
        let details = object("fee", json!({"amount": fee, "currency": currency}));
        let transaction = json!({
            "id": id, "amount": amount, "available_on": self.now, "created": self.now,
            "currency": currency, "exchange_rate": exchange_rate, "fee": fee,
            "fee_details": if fee == 0 { Vec::new() } else { vec![details] },
            "net": amount.saturating_sub(fee), "reporting_category": category, "source": source,
            "type": kind,
        });
        self.put(object("balance_transaction", transaction));
        id
    }

    /// Returns an amount in the currency of settlement, and the exchange rate if there is one.
    fn settled(&self, amount: i64, currency: &str) -> (i64, String, Option<f64>) {
        let account = self.object(ACCOUNT);
        let default = text(&account, "default_currency");
        match self.behaviour.exchange_rate_millionths {
            Some(rate) if currency != default => {
                let converted = share(amount.saturating_abs(), rate.into(), 1_000_000);
                let rate = f64::from(rate) / 1_000_000.0;
                (converted.saturating_mul(amount.signum()), default.to_owned(), Some(rate))
            }
            _ => (amount, currency.to_owned(), None),
        }
    }

    /// Gives a charge its balance transaction.
    pub(super) fn settle_charge(&mut self, charge_id: &str) {
        let charge = self.object(charge_id);
        let (settled, ..) = self.settled(int(&charge, "amount"), text(&charge, "currency"));
        let given = |name: &str| charge.get(name).and_then(Value::as_i64);
        let part = share(settled, self.behaviour.fee_basis_points, 10_000);
        let fee = given("_fee").unwrap_or(part.saturating_add(self.behaviour.fee_fixed));
        let transaction = self.move_balance("charge", "charge", charge_id, int(&charge, "amount"), fee);
        let available_on = int(&charge, "created").saturating_add(self.behaviour.available_after_s);
        let available_on = given("_available_on").unwrap_or(available_on);
        self.patch(&transaction, json!({"available_on": available_on}));
        self.patch(charge_id, json!({"balance_transaction": transaction}));
    }
}
