//! `PaymentIntents` that the API creates and confirms at once: boleto, Multibanco and MB WAY.

use serde_json::{Value, json};

use super::{ACCOUNT, DAY_S, Result, State, Timer};
use crate::behaviour::VoucherProcessing;
use crate::error::ApiError;
use crate::form::Params;
use crate::values::{CONSTANTS, at, int, object, text};

/// How long a payer can confirm an MB WAY payment.
const PUSH_S: i64 = 4 * 60;
const MULTIBANCO_S: i64 = 3 * DAY_S;
const BOLETO_DAYS: i64 = 3;
const BOLETO_DAYS_MAX: i64 = 60;
/// São Paulo's time is three hours behind, and a boleto's last minute begins at 23:59.
const SAO_PAULO_BEHIND_S: i64 = 3 * 3_600;
const LAST_MINUTE_S: i64 = DAY_S - 60;
/// Day 0 of a boleto's due factor (1997-10-07) in days since 1970, the first factor, and the number of factors.
const FACTOR_DAY: i64 = 10_141;
const FACTOR_MIN: i64 = 1_000;
const FACTOR_CYCLE: i64 = 9_000;
/// How long after its expiry a bank can confirm a voucher.
const BOLETO_CONFIRMED_S: i64 = 2 * DAY_S;
const MULTIBANCO_CONFIRMED_S: i64 = 5 * DAY_S;

impl State {
    pub(crate) fn create_direct(&mut self, params: &Params) -> Result<Value> {
        let method = params.text("/payment_method_data/type").unwrap_or_default();
        let (currency, amount) =
            (params.text("/currency").unwrap_or_default(), params.int("/amount").unwrap_or_default());
        if params.flag("/confirm") != Some(true) || method.is_empty() {
            let message =
                "The stand-in plays only PaymentIntents with `payment_method_data` and `confirm=true`.";
            return Err(ApiError::invalid("confirm", "parameter_missing", message));
        }
        self.check_method(method, params)?;
        check_amount(method, currency, amount)?;
        check_payer(method, params)?;
        let days = params.int("/payment_method_options/boleto/expires_after_days").unwrap_or(BOLETO_DAYS);
        if !(0..=BOLETO_DAYS_MAX).contains(&days) {
            let message = format!("`expires_after_days` must be 0 to {BOLETO_DAYS_MAX}.");
            return Err(ApiError::invalid("payment_method_options[boleto][expires_after_days]", "", message));
        }
        let number = self.next_serial();
        let details = match method {
            "boleto" => json!({"tax_id": params.text("/payment_method_data/boleto/tax_id")}),
            "multibanco" => json!({"entity": "12345", "reference": format!("{:09}", number % 1_000_000_000)}),
            _ => json!({}),
        };
        let expires_at = match method {
            "boleto" => end_of_day(self.now, days),
            "multibanco" => self.now.saturating_add(MULTIBANCO_S),
            _ => self.now.saturating_add(PUSH_S),
        };
        let data = json!({
            "capture_method": params.text("/capture_method"), "description": params.text("/description"),
            "metadata": params.value("/metadata"),
        });
        let options = if method == "boleto" { json!({"expires_after_days": days}) } else { json!({}) };
        let like_session =
            json!({"amount_total": amount, "currency": currency, "_payment_intent_data": data});
        let id = self.create_intent(
            &like_session,
            json!({
                "payment_method_types": [method], "payment_method_options": {method: options},
                "_method": method, "_details": details, "_expires_at": expires_at,
                "_payer": params.value("/payment_method_data/billing_details"),
            }),
        );
        let payment_method = self.new_id("pm_", 14);
        let action = self.next_action(&id, method, number);
        self.patch(&id, json!({"next_action": action, "payment_method": payment_method}));
        if method == "mb_way" && self.behaviour.mb_way_waits_as_processing {
            self.process(&id, 0);
        } else {
            self.patch(&id, json!({"status": "requires_action"}));
            self.emit("payment_intent.requires_action", &id);
        }
        self.schedule(expires_at.saturating_sub(self.now), &Timer::EndIntent(id.clone()));
        Ok(self.view(&id))
    }

    /// What the payer needs. Null: MB WAY shows nothing.
    fn next_action(&mut self, id: &str, method: &str, number: i64) -> Value {
        let is_broken = self.faults.take("broken_voucher", "POST /v1/payment_intents");
        let (intent, page) = (self.object(id), format!("{}/voucher/{id}", self.origin));
        let expires_at = int(&intent, "_expires_at");
        match method {
            "boleto" => {
                let mut line = boleto_line(number, int(&intent, "amount"), expires_at);
                if is_broken {
                    line.replace_range(46.., if line.ends_with('0') { "1" } else { "0" });
                }
                let details = json!({
                    "number": line, "expires_at": expires_at, "hosted_voucher_url": page, "pdf": format!("{page}.pdf"),
                });
                json!({"type": "boleto_display_details", "boleto_display_details": details})
            }
            "multibanco" => {
                let reference = at(&intent, "/_details/reference");
                let details = json!({
                    "entity": at(&intent, "/_details/entity"), "expires_at": expires_at, "hosted_voucher_url": page,
                    "reference": if is_broken { Value::Null } else { reference },
                });
                json!({"type": "multibanco_display_details", "multibanco_display_details": details})
            }
            _ => Value::Null,
        }
    }

    /// An account takes what its capabilities say, which follow from its country.
    fn check_method(&self, method: &str, params: &Params) -> Result<()> {
        let capability = at(&self.object(ACCOUNT), &format!("/capabilities/{method}_payments"));
        if capability != "active" {
            let message = format!(
                "The payment method type provided: {method} is invalid. Please ensure the provided type is activated in your dashboard."
            );
            return Err(ApiError::invalid(
                "payment_method_types",
                "payment_intent_invalid_parameter",
                message,
            ));
        }
        let allowed = params.items("/payment_method_types");
        if allowed.is_empty() || allowed.iter().any(|kind| kind == method) {
            return Ok(());
        }
        let message = format!("The PaymentMethod provided ({method}) is not allowed for this PaymentIntent.");
        Err(ApiError::invalid("payment_method_types", "payment_intent_invalid_parameter", message))
    }

    /// Finds the payment without session that a control request names: by its id or metadata. A session comes before it.
    pub(super) fn direct(&self, params: &Params) -> Option<Value> {
        if self.target(params).is_ok() {
            return None;
        }
        let (id, metadata) = (params.text("/payment_intent"), params.value("/metadata"));
        let is_meant = |intent: &&Value| match (id, metadata.as_object()) {
            (Some(id), _) => text(intent, "id") == id,
            (None, Some(metadata)) => {
                metadata.iter().all(|(key, value)| at(intent, &format!("/metadata/{key}")) == *value)
            }
            (None, None) => false,
        };
        let mut direct = self.objects("pi_").rev().filter(|intent| !text(intent, "_method").is_empty());
        direct.find(is_meant).cloned()
    }

    /// The payer pays. With `processing_s`, a bank accepts it now and confirms it after that time; 0: at a further act.
    /// `late`: also after its expiry, as by a bank that accepted it in time.
    pub(super) fn pay_direct(&mut self, intent: &Value, params: &Params) -> Result<Value> {
        let (id, method, status) = (text(intent, "id"), text(intent, "_method"), text(intent, "status"));
        let is_accepted = intent.get("_accepted") == Some(&Value::Bool(true));
        let is_in_time = self.now <= int(intent, "_expires_at") || params.flag("/late") == Some(true);
        if !["requires_action", "processing"].contains(&status) || !(is_accepted || is_in_time) {
            return Err(ApiError::refused("", format!("The payment is {status}, and nothing can be paid.")));
        }
        let (fee, available_on) = (params.value("/fee"), params.value("/available_on"));
        self.patch(id, json!({"_fee": fee, "_available_on": available_on}));
        let Some(seconds) = params.int("/processing_s") else {
            self.succeed(id);
            return Ok(self.view(id));
        };
        self.patch(id, json!({"_accepted": true}));
        if method == "mb_way" || self.behaviour.voucher_processing == VoucherProcessing::WhenAccepted {
            self.process(id, seconds);
        } else if seconds > 0 {
            self.schedule(seconds, &Timer::Settle(id.to_owned()));
        }
        Ok(self.view(id))
    }

    /// The payer declines on the phone, or the payer's bank does.
    pub(super) fn decline_direct(&mut self, intent: &Value, params: &Params) -> Result<Value> {
        let (id, status) = (text(intent, "id"), text(intent, "status"));
        if text(intent, "_method") != "mb_way" || !["requires_action", "processing"].contains(&status) {
            return Err(ApiError::refused("", "Only a payment by MB WAY that waits can be declined."));
        }
        let error = match params.text("/decline_code") {
            Some(code) => json!({"code": "payment_method_provider_decline", "decline_code": code}),
            None => json!({"code": "payment_method_customer_decline"}),
        };
        self.fail(id, &object("payment_declined", error));
        Ok(self.view(id))
    }

    pub(crate) fn cancel_direct(&mut self, id: &str, params: &Params) -> Result<Value> {
        let intent = self.existing("pi_", "intent", "payment_intent", id)?;
        let status = text(&intent, "status");
        if !text(&intent, "_session").is_empty() {
            let message = "You cannot cancel the PaymentIntent of a Checkout Session: expire the session.";
            return Err(ApiError::refused("payment_intent_unexpected_state", message));
        }
        if !["requires_payment_method", "requires_action"].contains(&status) {
            let message =
                format!("You cannot cancel this PaymentIntent because it has a status of {status}.");
            return Err(ApiError::refused("payment_intent_unexpected_state", message));
        }
        self.cancel_intent(id, params.text("/cancellation_reason"));
        Ok(self.view(id))
    }

    /// Ends a push. A voucher ends when no bank can confirm it any more.
    pub(super) fn end_by_time(&mut self, id: &str) {
        let intent = self.object(id);
        let (method, status) = (text(&intent, "_method"), text(&intent, "status"));
        let is_accepted = intent.get("_accepted") == Some(&Value::Bool(true));
        let confirmed_s = if method == "boleto" { BOLETO_CONFIRMED_S } else { MULTIBANCO_CONFIRMED_S };
        let ends_at = int(&intent, "_expires_at").saturating_add(confirmed_s);
        let is_over = method == "mb_way" || self.now >= ends_at;
        if !["requires_action", "processing"].contains(&status) || (is_accepted && is_over) {
            return;
        }
        if is_over {
            let code = if method == "mb_way" {
                "payment_method_provider_timeout"
            } else {
                "payment_intent_payment_attempt_expired"
            };
            return self.fail(id, &object("payment_not_made", json!({"code": code})));
        }
        if status == "requires_action" && self.behaviour.voucher_processing == VoucherProcessing::AfterExpiry
        {
            self.process(id, 0);
        }
        self.schedule(confirmed_s, &Timer::EndIntent(id.to_owned()));
    }
}

fn check_amount(method: &str, currency: &str, amount: i64) -> Result<()> {
    let limits = at(&CONSTANTS, &format!("/methods/{method}"));
    if currency != text(&limits, "currency") {
        let message = format!(
            "The currency provided ({currency}) is invalid for one or more payment methods on this PaymentIntent."
        );
        return Err(ApiError::invalid("currency", "payment_intent_invalid_parameter", message));
    }
    let (least, most) = (int(&limits, "least"), int(&limits, "most"));
    if (least..=most).contains(&amount) {
        return Ok(());
    }
    let code = if amount < least { "amount_too_small" } else { "amount_too_large" };
    Err(ApiError::invalid("amount", code, format!("Amount must be {least} to {most} {currency}.")))
}

/// Checks what the method needs of its payer.
fn check_payer(method: &str, params: &Params) -> Result<()> {
    let required = at(&CONSTANTS, &format!("/methods/{method}/required"));
    for path in required.as_str().unwrap_or_default().split(' ') {
        if params.text(&format!("/payment_method_data/{path}")).is_none() {
            let name = format!("payment_method_data[{}]", path.replace('/', "]["));
            let message = format!("Missing required param: {name}.");
            return Err(ApiError::invalid(&name, "parameter_missing", message));
        }
    }
    let given = |path: &str| params.text(&format!("/payment_method_data/{path}")).unwrap_or_default();
    let refuse = |name: &str, code, message: &str| {
        Err(ApiError::invalid(&format!("payment_method_data{name}"), code, message))
    };
    let digits = |text: &str| text.bytes().filter(u8::is_ascii_digit).count();
    if method == "boleto" && ![11, 14].contains(&digits(given("boleto/tax_id"))) {
        return refuse("[boleto][tax_id]", "tax_id_invalid", "The tax ID must be a CPF or CNPJ.");
    }
    if method == "boleto" && given("billing_details/address/country") != "BR" {
        return refuse("[billing_details][address][country]", "", "The country must be BR.");
    }
    let phone = given("billing_details/phone");
    if method == "mb_way" && !(phone.starts_with('+') && (8..=15).contains(&digits(phone))) {
        return refuse("[billing_details][phone]", "", "The phone number must be in E.164.");
    }
    Ok(())
}

/// Returns 23:59 in São Paulo of the day that is so many days later.
fn end_of_day(now: i64, days: i64) -> i64 {
    let day = now.saturating_sub(SAO_PAULO_BEHIND_S).div_euclid(DAY_S).saturating_add(days);
    day.saturating_mul(DAY_S).saturating_add(LAST_MINUTE_S).saturating_add(SAO_PAULO_BEHIND_S)
}

/// Writes the digitable line of a boleto of the bank 000, which does not exist.
#[expect(clippy::arithmetic_side_effects, reason = "sums of 44 digits are small")]
fn boleto_line(number: i64, amount: i64, expires_at: i64) -> String {
    let days = expires_at.saturating_sub(SAO_PAULO_BEHIND_S).div_euclid(DAY_S).saturating_sub(FACTOR_DAY);
    let factor = days.saturating_sub(FACTOR_MIN).rem_euclid(FACTOR_CYCLE).saturating_add(FACTOR_MIN);
    let (due, free) = (format!("{factor:04}{amount:010}"), format!("{number:025}"));
    let all: Vec<i64> = digits(&format!("0009{due}{free}")).collect();
    let sum = all.iter().rev().zip((2..=9).cycle()).map(|(digit, weight)| digit * weight).sum::<i64>();
    let check = match 11 - sum % 11 {
        0 | 10 | 11 => 1,
        digit => digit,
    };
    let (first, rest) = free.split_at(5);
    let (second, third) = rest.split_at(10);
    let field = |text: &str| {
        let sum = digits(text).rev().zip([2, 1].into_iter().cycle()).map(|(digit, weight)| digit * weight);
        let sum = sum.map(|product| product / 10 + product % 10).sum::<i64>();
        format!("{text}{}", (10 - sum % 10) % 10)
    };
    format!("{}{}{}{check}{due}", field(&format!("0009{first}")), field(second), field(third))
}

fn digits(text: &str) -> impl DoubleEndedIterator<Item = i64> {
    text.bytes().map(|byte| i64::from(byte.saturating_sub(b'0')))
}
