//! Checkout Sessions.

use serde_json::{Value, json};

use super::{DAY_S, Result, State, Timer};
use crate::behaviour::ExpiredPaymentIntent;
use crate::error::ApiError;
use crate::form::Params;
use crate::values::{CONSTANTS, at, int, merge, merge_metadata, object, text};

const MIN_LIFETIME_S: i64 = 30 * 60;
/// How long a session that is due waits for the end of a payment in progress, before it looks again.
const IN_PROGRESS_S: i64 = 60;
/// The parameters that a session shows as they were sent.
const COPIED: &str = "allow_promotion_codes billing_address_collection cancel_url client_reference_id customer_email locale submit_type success_url wallet_options";
const AMOUNT_MAX: i64 = 99_999_999;

impl State {
    pub(crate) fn create_session(&mut self, params: &Params) -> Result<Value> {
        let (amount, currency) = total(params.items("/line_items"))?;
        let lifetime = params.int("/expires_at").map_or(DAY_S, |at| at.saturating_sub(self.now));
        if !(MIN_LIFETIME_S..=DAY_S).contains(&lifetime) {
            let message = "`expires_at` must be 30 minutes to 24 hours after the creation of the session.";
            return Err(ApiError::invalid("expires_at", "", message));
        }
        let id = self.new_id("cs_live_a1", 46);
        let customer = params
            .text("/customer_email")
            .map(|email| object("customer_details", json!({"email": email, "name": null})));
        let types = params.value("/payment_method_types");
        let three_d_secure = params.text("/payment_method_options/card/request_three_d_secure");
        let mut session = json!({
            "id": id,
            "adaptive_pricing": {"enabled": params.flag("/adaptive_pricing/enabled").unwrap_or(true)},
            "amount_subtotal": amount, "amount_total": amount, "created": self.now, "currency": currency,
            "customer_creation": params.text("/customer_creation").unwrap_or("if_required"),
            "customer_details": customer, "expires_at": self.now.saturating_add(lifetime),
            "metadata": merge_metadata(&Value::Null, params.value("/metadata")),
            "payment_method_options": {"card": {"request_three_d_secure": three_d_secure.unwrap_or("automatic")}},
            "payment_method_types": if types.is_null() { json!(["card", "link"]) } else { types },
            "phone_number_collection": {"enabled": params.flag("/phone_number_collection/enabled") == Some(true)},
            "url": format!("{}/pay/{id}", self.origin),
            "_payment_intent_data": params.value("/payment_intent_data"),
            "_name": params.value("/line_items/0/price_data/product_data/name"),
        });
        for name in COPIED.split(' ') {
            merge(&mut session, json!({name: params.value(&format!("/{name}"))}));
        }
        self.put(object("checkout.session", session));
        self.schedule(lifetime, &Timer::ExpireSession(id.clone()));
        if self.behaviour.creates_payment_intent_with_session {
            self.intent_of(&id);
        }
        Ok(self.view(&id))
    }

    pub(crate) fn expire_session(&mut self, id: &str) -> Result<Value> {
        let session = self.existing("cs_live_", "session", "checkout.session", id)?;
        let status = text(&session, "status");
        let intent = self.object(text(&session, "_payment_intent"));
        let authenticates = text(&intent, "status") == "requires_action";
        let ends_authentication = authenticates && self.behaviour.expires_during_authentication;
        if status != "open" || !(ends_authentication || self.can_expire(&session)) {
            let message = format!(
                "Only Checkout Sessions with a status in [\"open\"] and without a payment in progress can be expired. This Checkout Session has a status of {status}."
            );
            return Err(ApiError::refused("", message));
        }
        self.expire(&session, ends_authentication);
        Ok(self.view(id))
    }

    pub(super) fn expire_by_time(&mut self, id: &str) {
        let session = self.object(id);
        match text(&session, "status") {
            "open" if self.can_expire(&session) => self.expire(&session, false),
            "open" => self.schedule(IN_PROGRESS_S, &Timer::ExpireSession(id.to_owned())),
            _ => {}
        }
    }

    fn can_expire(&self, session: &Value) -> bool {
        self.behaviour.expires_during_payment || !self.is_in_progress(text(session, "_payment_intent"))
    }

    /// True while the payer authenticates, or the payment is processed.
    pub(super) fn is_in_progress(&self, intent: &str) -> bool {
        ["requires_action", "processing"].contains(&text(&self.object(intent), "status"))
    }

    fn expire(&mut self, session: &Value, ends_authentication: bool) {
        let (id, intent) = (text(session, "id"), text(session, "_payment_intent"));
        let expired = self.behaviour.expired_payment_intent;
        self.patch(id, json!({"status": "expired", "url": null}));
        if expired == ExpiredPaymentIntent::Cleared {
            self.patch(id, json!({"payment_intent": null}));
        }
        let is_over = ends_authentication || !self.is_in_progress(intent);
        if !intent.is_empty() && is_over && expired != ExpiredPaymentIntent::Kept {
            self.cancel_intent(intent, Some("automatic"));
        }
        self.emit("checkout.session.expired", id);
    }

    /// Notes what a payer did. An expired session stays expired.
    pub(super) fn complete_session(&mut self, id: &str, payment_status: &str, payer: &Value) {
        let session = self.object(id);
        let email = payer.get("email").filter(|email| !email.is_null()).or(session.get("customer_email"));
        let customer = object("customer_details", json!({"email": email, "name": payer.get("name")}));
        self.patch(id, json!({"payment_status": payment_status, "customer_details": customer}));
        if text(&session, "status") == "open" {
            self.patch(id, json!({"status": "complete", "url": null}));
        }
    }

    /// Finds the session that a control request names: by its id, its payment, or its metadata.
    pub(crate) fn target(&self, params: &Params) -> Result<Value> {
        let (id, intent) = (params.text("/session"), params.text("/payment_intent"));
        let metadata = params.value("/metadata");
        let is_meant = |session: &&Value| match (id, intent, metadata.as_object()) {
            (Some(id), ..) => text(session, "id") == id,
            (_, Some(intent), _) => text(session, "_payment_intent") == intent,
            (.., Some(metadata)) => {
                metadata.iter().all(|(key, value)| at(session, &format!("/metadata/{key}")) == *value)
            }
            _ => false,
        };
        self.objects("cs_live_").rev().find(is_meant).cloned().ok_or_else(|| {
            let message =
                "No Checkout Session is meant: name it by `session`, `payment_intent` or `metadata`.";
            ApiError::invalid("session", "resource_missing", message)
        })
    }
}

/// Returns the sum of the line items and its currency.
fn total(items: &[Value]) -> Result<(i64, String)> {
    let (mut amount, mut currency) = (0_i64, Value::Null);
    for item in items {
        let (unit_amount, quantity) = (int(&at(item, "/price_data"), "unit_amount"), int(item, "quantity"));
        if unit_amount < 0 || quantity < 1 {
            let message = "`unit_amount` must be at least 0, and `quantity` at least 1.";
            return Err(ApiError::invalid("line_items", "parameter_invalid_integer", message));
        }
        amount = amount.saturating_add(unit_amount.saturating_mul(quantity));
        let own = at(item, "/price_data/currency");
        if !currency.is_null() && currency != own {
            return Err(ApiError::invalid("line_items", "", "All line items must have the same currency."));
        }
        currency = own;
    }
    let currency = currency.as_str().unwrap_or_default();
    check_amount(amount, currency)?;
    Ok((amount, currency.to_owned()))
}

pub(super) fn check_amount(amount: i64, currency: &str) -> Result<()> {
    if text(&CONSTANTS, "currencies").split(' ').all(|known| known != currency) {
        return Err(ApiError::invalid("currency", "", format!("Invalid currency: {currency}.")));
    }
    let least = int(&at(&CONSTANTS, "/least_amounts"), currency).max(1);
    if (least..=AMOUNT_MAX).contains(&amount) {
        return Ok(());
    }
    let code = if amount < least { "amount_too_small" } else { "amount_too_large" };
    let message = format!("The total amount must be {least} to {AMOUNT_MAX} in {currency}.");
    Err(ApiError::invalid("line_items", code, message))
}
