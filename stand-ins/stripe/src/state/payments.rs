//! `PaymentIntents` and charges: what payers, banks and the dashboard do.

use serde_json::{Value, json};

use super::{Result, State, Timer};
use crate::error::ApiError;
use crate::form::Params;
use crate::values::{at, int, merge, merge_metadata, object, text};

impl State {
    /// The payer pays. With `processing_s`, the payment is processed for that long; 0: until a further act.
    pub(crate) fn pay(&mut self, params: &Params) -> Result<Value> {
        if let Some(intent) = self.direct(params) {
            return self.pay_direct(&intent, params);
        }
        let session = self.target(params)?;
        let intent = self.attempt(&session, params.flag("/late") == Some(true))?;
        let payer = json!({"email": params.value("/email"), "name": params.value("/name")});
        let (fee, available_on) = (params.value("/fee"), params.value("/available_on"));
        self.patch(&intent, json!({"_payer": payer, "_fee": fee, "_available_on": available_on}));
        match params.int("/processing_s") {
            Some(seconds) => self.process(&intent, seconds),
            None => self.succeed(&intent),
        }
        Ok(self.view(text(&session, "id")))
    }

    /// The payer's bank declines.
    pub(crate) fn decline(&mut self, params: &Params) -> Result<Value> {
        if let Some(intent) = self.direct(params) {
            return self.decline_direct(&intent, params);
        }
        let session = self.target(params)?;
        let intent = self.attempt(&session, false)?;
        let code = params.text("/decline_code").unwrap_or("generic_decline");
        let charge = self.charge(&intent, Some(code));
        self.emit("charge.failed", &charge);
        self.fail(&intent, &object("card_declined", json!({"charge": charge, "decline_code": code})));
        Ok(self.view(text(&session, "id")))
    }

    /// The payer authenticates by 3-D Secure: `challenge` begins, `succeed` and `fail` end it.
    pub(crate) fn authenticate(&mut self, params: &Params) -> Result<Value> {
        let session = self.target(params)?;
        let intent = self.attempt(&session, false)?;
        let id = text(&session, "id");
        let is_challenged = text(&self.object(&intent), "status") == "requires_action";
        match params.text("/outcome") {
            Some("challenge") => {
                let redirect = json!({"url": format!("{}/pay/{id}", self.origin), "return_url": null});
                let action = json!({"type": "redirect_to_url", "redirect_to_url": redirect});
                self.patch(&intent, json!({"status": "requires_action", "next_action": action}));
                self.emit("payment_intent.requires_action", &intent);
            }
            Some("succeed") if is_challenged => {
                self.patch(&intent, json!({"_authentication": object("authentication", json!({}))}));
                return self.pay(params);
            }
            Some("fail") if is_challenged => self.fail(&intent, &object("authentication_failed", json!({}))),
            _ => return Err(ApiError::refused("", "The payer must begin by `challenge`.")),
        }
        Ok(self.view(id))
    }

    /// Cancels the `PaymentIntent` elsewhere than by the API.
    pub(crate) fn cancel(&mut self, params: &Params) -> Result<Value> {
        if let Some(intent) = self.direct(params) {
            let id = text(&intent, "id");
            self.cancel_intent(id, Some("requested_by_customer"));
            return Ok(self.view(id));
        }
        let session = self.target(params)?;
        let intent = self.attempt(&session, false)?;
        self.cancel_intent(&intent, Some("requested_by_customer"));
        Ok(self.view(text(&session, "id")))
    }

    /// Makes a payment that no session of the API belongs to, as by a payment link.
    pub(crate) fn pay_elsewhere(&mut self, params: &Params) -> Result<Value> {
        let currency = params.text("/currency").unwrap_or_default();
        let amount = params.int("/amount").unwrap_or_default();
        super::sessions::check_amount(amount, currency)?;
        let data = json!({"capture_method": "automatic", "metadata": params.value("/metadata")});
        let like_session =
            json!({"amount_total": amount, "currency": currency, "_payment_intent_data": data});
        let intent = self.create_intent(&like_session, json!({}));
        self.succeed(&intent);
        Ok(self.view(&intent))
    }

    pub(super) fn settle(&mut self, intent: &str) {
        let object = self.object(intent);
        let is_accepted = object.get("_accepted") == Some(&Value::Bool(true));
        let status = text(&object, "status");
        if status == "processing" || (status == "requires_action" && is_accepted) {
            self.succeed(intent);
        }
    }

    pub(super) fn cancel_intent(&mut self, intent: &str, reason: Option<&str>) {
        let (status, at) = ("canceled", self.now);
        self.patch(
            intent,
            json!({"status": status, "canceled_at": at, "cancellation_reason": reason, "next_action": null}),
        );
        self.emit("payment_intent.canceled", intent);
    }

    /// Returns the `PaymentIntent` of a session, and creates it if there is none.
    pub(super) fn intent_of(&mut self, session_id: &str) -> String {
        let session = self.object(session_id);
        let known = text(&session, "_payment_intent");
        if !known.is_empty() {
            return known.to_owned();
        }
        let intent = self.create_intent(&session, json!({}));
        self.patch(session_id, json!({"payment_intent": intent, "_payment_intent": intent}));
        intent
    }

    /// `own`: the fields in which it differs from one by card.
    pub(super) fn create_intent(&mut self, session: &Value, own: Value) -> String {
        let (id, secret) = (self.new_id("pi_", 14), self.new_id("secret_", 15));
        let data = |name: &str| at(session, &format!("/_payment_intent_data/{name}"));
        let capture_method = data("capture_method");
        let three_d_secure = at(session, "/payment_method_options/card/request_three_d_secure");
        let card = json!({"installments": null, "mandate_options": null, "network": null, "request_three_d_secure": three_d_secure});
        let mut intent = json!({
            "id": id, "amount": session.get("amount_total"),
            "capture_method": capture_method.as_str().unwrap_or("automatic_async"),
            "client_secret": format!("{id}_{secret}"),
            "created": self.now, "currency": session.get("currency"), "description": data("description"),
            "metadata": merge_metadata(&data("metadata"), Value::Null),
            "payment_method_options": {"card": card},
            "receipt_email": data("receipt_email"),
            "statement_descriptor_suffix": data("statement_descriptor_suffix"),
            "_session": session.get("id"),
        });
        merge(&mut intent, own);
        self.put(object("payment_intent", intent));
        self.emit("payment_intent.created", &id);
        id
    }

    /// Returns the `PaymentIntent` by which the payer can pay. `is_late`: also if the session expired, as for a payment
    /// that was confirmed at the same time.
    fn attempt(&mut self, session: &Value, is_late: bool) -> Result<String> {
        let known = text(session, "_payment_intent");
        let is_over = ["succeeded", "canceled"].contains(&text(&self.object(known), "status"));
        if is_over || !(text(session, "status") == "open" || is_late || self.is_in_progress(known)) {
            let message = format!("The session is {}, and nothing can be paid.", text(session, "status"));
            return Err(ApiError::refused("", message));
        }
        Ok(self.intent_of(text(session, "id")))
    }

    pub(super) fn process(&mut self, intent: &str, seconds: i64) {
        let object = self.object(intent);
        // Stripe's document has no details for other methods.
        let is_card = text(&object, "_method").is_empty();
        let processing = is_card.then(|| json!({"type": "card", "card": {}}));
        self.patch(intent, json!({"status": "processing", "next_action": null, "processing": processing}));
        self.emit("payment_intent.processing", intent);
        let session = text(&object, "_session");
        if self.behaviour.processing_completes_session && text(&self.object(session), "status") == "open" {
            self.complete_session(session, "unpaid", &at(&object, "/_payer"));
            self.emit("checkout.session.completed", session);
        }
        if seconds > 0 {
            self.schedule(seconds, &Timer::Settle(intent.to_owned()));
        }
    }

    pub(super) fn succeed(&mut self, intent: &str) {
        let charge = self.charge(intent, None);
        let object = self.object(intent);
        let amount = json!({"status": "succeeded", "amount_received": object.get("amount")});
        self.patch(intent, amount);
        self.patch(intent, json!({"last_payment_error": null, "next_action": null, "processing": null}));
        let is_at_once = text(&object, "capture_method") == "automatic";
        match self.behaviour.balance_transaction_after_s {
            Some(seconds) if seconds <= 0 && is_at_once => self.settle_charge(&charge),
            Some(seconds) => {
                let seconds = if is_at_once { seconds } else { seconds.max(3_600) };
                self.schedule(seconds, &Timer::AddBalanceTransaction(charge.clone()));
            }
            None => {}
        }
        let session_id = text(&object, "_session");
        let session = self.object(session_id);
        self.complete_session(session_id, "paid", &at(&object, "/_payer"));
        self.emit("charge.succeeded", &charge);
        self.emit("payment_intent.succeeded", intent);
        match text(&session, "status") {
            "open" => self.emit("checkout.session.completed", session_id),
            "complete" => self.emit("checkout.session.async_payment_succeeded", session_id),
            // An expired session emits nothing more.
            _ => {}
        }
    }

    /// Ends an attempt to pay without success.
    pub(super) fn fail(&mut self, intent: &str, error: &Value) {
        self.patch(intent, json!({"status": "requires_payment_method", "last_payment_error": error}));
        self.patch(intent, json!({"next_action": null, "payment_method": null, "processing": null}));
        self.emit("payment_intent.payment_failed", intent);
        let object = self.object(intent);
        let session = text(&object, "_session");
        if text(&self.object(session), "status") == "complete" {
            self.emit("checkout.session.async_payment_failed", session);
        }
    }

    /// Creates the charge of an attempt: one that succeeded, or that a bank declined.
    fn charge(&mut self, intent: &str, decline_code: Option<&str>) -> String {
        let of_intent = self.object(intent);
        let method = text(&of_intent, "_method");
        let start = if method.is_empty() { "ch_" } else { "py_" };
        let (id, payment_method) = (self.new_id(start, 14), self.new_id("pm_", 14));
        let mut payer =
            json!({"email": at(&of_intent, "/_payer/email"), "name": at(&of_intent, "/_payer/name")});
        merge(&mut payer, at(&of_intent, "/_payer"));
        let amount = int(&of_intent, "amount");
        let card = json!({
            "amount_authorized": if decline_code.is_none() { json!(amount) } else { Value::Null },
            "last4": if decline_code.is_none() { "4242" } else { "0002" },
            "three_d_secure": of_intent.get("_authentication"),
        });
        let details = if method.is_empty() {
            json!({"type": "card", "card": object("card", card)})
        } else {
            json!({"type": method, method: of_intent.get("_details")})
        };
        let mut charge = json!({
            "id": id, "amount": amount, "amount_captured": amount,
            "billing_details": object("billing_details", payer), "created": self.now,
            "payment_intent": intent, "payment_method": payment_method,
            "payment_method_details": details,
            "_fee": of_intent.get("_fee"), "_available_on": of_intent.get("_available_on"),
        });
        for name in ["currency", "description", "metadata", "receipt_email", "statement_descriptor_suffix"] {
            merge(&mut charge, json!({name: of_intent.get(name)}));
        }
        let outcome = match decline_code {
            None => object("charge_paid", json!({})),
            Some(code) => {
                let outcome = object("outcome_declined", json!({"reason": code}));
                object("charge_declined", json!({"outcome": outcome}))
            }
        };
        merge(&mut charge, outcome);
        self.put(object("charge", charge));
        self.patch(intent, json!({"latest_charge": id, "payment_method": payment_method}));
        id
    }
}
