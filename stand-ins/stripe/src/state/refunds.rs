//! Refunds.

use serde_json::{Value, json};

use super::{Result, State};
use crate::error::ApiError;
use crate::form::Params;
use crate::values::{at, int, merge, merge_metadata, object, share, text};

impl State {
    pub(crate) fn create_refund(&mut self, params: &Params) -> Result<Value> {
        let charge = match (params.text("/payment_intent"), params.text("/charge")) {
            (Some(intent), None) => {
                let intent = self.existing("pi_", "payment_intent", "payment_intent", intent)?;
                self.object(text(&intent, "latest_charge"))
            }
            (None, Some(charge)) => self.existing("ch_|py_", "charge", "charge", charge)?,
            _ => {
                let message = "Provide either `payment_intent` or `charge`.";
                return Err(ApiError::invalid("payment_intent", "parameter_missing", message));
            }
        };
        self.refund(&charge, params, params.value("/metadata"))
    }

    /// Refunds the payment of a session in the dashboard.
    pub(crate) fn refund_in_dashboard(&mut self, params: &Params) -> Result<Value> {
        let charge = self.disputed_charge(params)?;
        self.refund(&charge, params, Value::Null)
    }

    fn refund(&mut self, charge: &Value, params: &Params, metadata: Value) -> Result<Value> {
        let charge_id = text(charge, "id");
        let left = int(charge, "amount").saturating_sub(int(charge, "amount_refunded"));
        let amount = params.int("/amount").unwrap_or(left);
        let refused =
            |code, reason: &str| Err(ApiError::refused(code, format!("Charge {charge_id} {reason}")));
        if text(charge, "status") != "succeeded" {
            return refused("", "was not paid, so it can't be refunded.");
        }
        let method = at(charge, "/payment_method_details/type");
        if method == "boleto" {
            return refused("", "is a boleto, which can't be refunded.");
        }
        if left == 0 {
            return refused("charge_already_refunded", "has already been refunded.");
        }
        if charge.get("_charged_back") == Some(&Value::Bool(true)) {
            return refused("charge_disputed", "has been charged back; cannot issue a refund.");
        }
        if !(1..=left).contains(&amount) {
            let message = format!("Refund amount ({amount}) must be 1 to the unrefunded amount ({left}).");
            return Err(ApiError::invalid("amount", "", message).executed());
        }
        let id = self.new_id(if method == "card" { "re_" } else { "pyr_" }, 14);
        let mut take = |fault| self.faults.take(fault, "POST /v1/refunds");
        let status = match (take("refund_pending"), take("refund_requires_action")) {
            (true, _) => "pending",
            (false, true) => "requires_action",
            (false, false) => "succeeded",
        };
        let fails = take("refund_fails");
        let mut refund = json!({
            "id": id, "amount": amount, "charge": charge_id, "created": self.now,
            "currency": charge.get("currency"), "metadata": merge_metadata(&Value::Null, metadata),
            "payment_intent": charge.get("payment_intent"), "reason": params.value("/reason"),
            "status": status,
        });
        if let Some(method) = method.as_str().filter(|method| *method != "card") {
            let details = json!({"type": method, method: {"reference": null, "reference_status": "pending"}});
            merge(&mut refund, json!({"destination_details": details}));
        }
        self.put(object("refund", refund));
        if status == "pending" {
            self.patch(&id, json!({"pending_reason": "processing"}));
        }
        let transaction = self.move_refund("refund", &id, amount.saturating_neg());
        self.patch(&id, json!({"balance_transaction": transaction}));
        self.add_refunded(charge_id, amount);
        self.emit("refund.created", &id);
        self.emit("charge.refunded", charge_id);
        if fails {
            return self.end_refund(&id, "failed", "expired_or_canceled_card");
        }
        Ok(self.view(&id))
    }

    /// Ends a refund. One that succeeded may still fail.
    pub(crate) fn end_refund(&mut self, id: &str, status: &str, reason: &str) -> Result<Value> {
        let mut refund = self.existing("re_|pyr_", "refund", "refund", id)?;
        let (amount, charge) = (int(&refund, "amount"), text(&refund, "charge").to_owned());
        let before = text(&refund, "status");
        if ["failed", "canceled", status].contains(&before) {
            return Err(ApiError::refused("", format!("The refund is {before} and can't become {status}.")));
        }
        if let Some(fields) = refund.as_object_mut() {
            fields.remove("pending_reason");
            fields.insert("status".to_owned(), status.into());
        }
        self.put(refund);
        if ["failed", "canceled"].contains(&status) {
            let transaction = self.move_refund("refund_failure", id, amount);
            self.patch(id, json!({"failure_balance_transaction": transaction, "failure_reason": reason}));
            if self.behaviour.failed_refund_reopens_charge {
                self.add_refunded(&charge, amount.saturating_neg());
            }
        }
        self.emit("refund.updated", id);
        if status == "failed" {
            self.emit("refund.failed", id);
        }
        Ok(self.view(id))
    }

    /// Moves the amount of a refund. Returns the id of the balance transaction.
    fn move_refund(&mut self, kind: &str, refund: &str, amount: i64) -> String {
        let charge = self.object(text(&self.object(refund), "charge"));
        let fee = int(&self.object(text(&charge, "balance_transaction")), "fee");
        let returned =
            share(fee, amount.saturating_abs(), int(&charge, "amount")).saturating_mul(amount.signum());
        let fee = if self.behaviour.refund_returns_fee { returned } else { 0 };
        self.move_balance(kind, kind, refund, amount, fee)
    }

    fn add_refunded(&mut self, charge_id: &str, amount: i64) {
        let charge = self.object(charge_id);
        let refunded = int(&charge, "amount_refunded").saturating_add(amount);
        let is_all = refunded == int(&charge, "amount");
        self.patch(charge_id, json!({"amount_refunded": refunded, "refunded": is_all}));
    }
}
