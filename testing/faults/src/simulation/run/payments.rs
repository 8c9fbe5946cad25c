//! Payments, refunds and MED cases of a simulation.

use bank::{Cents, PayRequest};
use domain::account::terms::MethodTerms;
use domain::charge::Decision;
use domain::ids::ChargeId;
use domain::webhook::signature::canonical;
use hyper::Method;
use serde_json::{Value, json};
use shared::charge::Charges;

use super::{NOTIFIED, Simulation};
use crate::simulation::model::{Charge, Payer, Refund, Status};
use crate::simulation::plan::{self, Ledger};
use crate::world::{JOAO, items, operator, text};
use crate::{Error, Result};

/// How close to its expiry no charge is paid, declined or cancelled, in milliseconds: the machine's time also
/// passes.
const MARGIN_MS: i64 = 30_000;

/// Returns the path of an action on a charge among the routes of payments.
fn payment_path(charge: &Charge, action: &str) -> String {
    format!("/v1/payments/{}/{action}", charge.id.trim_start_matches("ch_"))
}

/// Returns what the model must know of the payer of an order.
fn payer_of(order: usize, payer: plan::Payer) -> Payer {
    match payer {
        plan::Payer::Other if plan::is_locked(order) => Payer::Wrong,
        plan::Payer::Unreported if plan::is_locked(order) => Payer::Unknown,
        _ => Payer::Right,
    }
}

impl Simulation {
    /// Returns a charge that stays pending for a while.
    fn pending(&self, ledger: Ledger, order: usize) -> Option<&Charge> {
        let latest = self.world.now().millis().saturating_add(MARGIN_MS);
        self.charge(ledger, order)
            .filter(|charge| charge.status == Status::Pending && charge.expires_at_ms > latest)
    }

    pub(super) async fn pay(
        &mut self,
        ledger: Ledger,
        order: usize,
        payment: usize,
        (is_wrong, payer): (bool, plan::Payer),
    ) -> Result<()> {
        let Some(charge) = self.charge(ledger, order) else { return Ok(()) };
        if charge.status == Status::Pending && self.pending(ledger, order).is_none() {
            return Ok(());
        }
        let (path, amount) = (format!("/v1/sandbox/charges/{}/pay", charge.id), charge.amount);
        let id = format!(
            "E00000000202611231200{:011}",
            payment.saturating_mul(2).saturating_add((ledger == Ledger::Second).into())
        );
        let amount = amount.saturating_add(is_wrong.into());
        let mut body = json!({"amount": amount, "end_to_end_id": id});
        match payer {
            plan::Payer::Expected => {}
            plan::Payer::Other => body["payer_tax_id"] = JOAO.into(),
            plan::Payer::Unreported => body["payer_tax_id"] = Value::Null,
        }
        let body = self.bodies.entry((ledger, "payment", payment)).or_insert(body).clone();
        let paid = self.post(ledger, &path, &body).await?.expect(200)?;
        self.account(ledger).pay(order, payment, is_wrong, payer_of(order, payer));
        self.check_status(ledger, order, &paid)
    }

    /// Ends the review of a payment that is held.
    pub(super) async fn review(&mut self, ledger: Ledger, order: usize, is_approved: bool) -> Result<()> {
        let charge = self.charge(ledger, order).filter(|charge| charge.status == Status::Processing);
        let Some(id) = charge.map(|charge| charge.id.clone()) else { return Ok(()) };
        if ledger == Ledger::Live {
            if self.shown_status(&id).await? != "processing" {
                return Ok(());
            }
            self.review_as_operator(&id, is_approved).await?;
        } else {
            let decision = if is_approved { "approve" } else { "return" };
            let path = format!("/v1/sandbox/charges/{id}/review");
            self.post(ledger, &path, &json!({ "decision": decision })).await?.expect(200)?;
        }
        self.account(ledger).review(order, is_approved);
        Ok(())
    }

    async fn review_as_operator(&self, id: &str, is_approved: bool) -> Result<()> {
        let id: ChargeId = id.parse().map_err(Error::of("the charge's id"))?;
        let charges = Charges::new(self.world.operator_store());
        let decision = if is_approved { Decision::Approve } else { Decision::Return };
        self.world
            .operate(async || {
                let charge = charges.get_existing(id).await?;
                let now = self.world.now();
                charges.review(charge, (decision, MethodTerms::default()), &operator(), now).await.map(drop)
            })
            .await
    }

    /// Returns the status that the service shows of a live charge. It learns of payments some time after them.
    async fn shown_status(&self, id: &str) -> Result<String> {
        let charge = self.get(Ledger::Live, &format!("/v1/charges/{id}")).await?;
        Ok(text(&charge, "status").to_owned())
    }

    /// A payer pays at the bank. The service learns it from a notification or a sweep.
    pub(super) async fn pay_at_bank(
        &mut self,
        order: usize,
        payment: usize,
        (is_wrong, payer): (bool, plan::Payer),
    ) -> Result<()> {
        let Some(charge) = self.charge(Ledger::Live, order) else { return Ok(()) };
        let is_open = match charge.status {
            Status::Pending => self.pending(Ledger::Live, order).is_some(),
            status => matches!(status, Status::Paid | Status::Refunded),
        };
        let now = self.world.now().millis().saturating_add(MARGIN_MS);
        let is_known = self.accounts.get(&Ledger::Live).is_some_and(|one| one.payments.contains(&payment));
        // The bank refuses other payments.
        if !is_open || is_known || charge.expires_at_ms <= now {
            return Ok(());
        }
        // Of two payments by different payers, the service applies the one that it learns of first.
        let is_applied = charge.status != Status::Pending;
        if is_applied && plan::is_locked(order) && self.shown_status(&charge.id).await? == "pending" {
            return Ok(());
        }
        let amount = u64::try_from(charge.amount).unwrap_or_default().saturating_add(is_wrong.into());
        let request = PayRequest {
            txid: self.txids.get(&order).cloned().unwrap_or_default(),
            amount: Cents::new(amount),
            again: charge.payments > 0,
            payer: match payer {
                plan::Payer::Expected => bank::Payer::Debtor,
                plan::Payer::Other => {
                    bank::Payer::Person { tax_id: JOAO.to_owned(), name: "Joao".to_owned() }
                }
                plan::Payer::Unreported => bank::Payer::Unreported,
            },
            ..PayRequest::default()
        };
        self.world.stack.bank.pay(&request).map_err(Error::of("paying at the bank"))?;
        self.account(Ledger::Live).pay(order, payment, is_wrong, payer_of(order, payer));
        // The bank notifies the service soon.
        self.world.advance(1).await?;
        tokio::time::sleep(NOTIFIED).await;
        Ok(())
    }

    /// Cancels a live charge, perhaps while the service does not know yet that it is paid.
    pub(super) async fn cancel_live(&mut self, order: usize) -> Result<()> {
        let Some(charge) = self.charge(Ledger::Live, order) else { return Ok(()) };
        let path = payment_path(charge, "cancel");
        if charge.status == Status::Paid && charge.refunds.is_empty() {
            self.post(Ledger::Live, &path, &json!({})).await?.expect(422)?;
        } else if charge.payments == 0 && self.pending(Ledger::Live, order).is_some() {
            let answer = self.post(Ledger::Live, &path, &json!({})).await?;
            // A repetition finds the charge cancelled.
            if answer.status != 422 {
                answer.expect(200)?;
            }
            self.account(Ledger::Live).cancel(order);
        }
        Ok(())
    }

    /// Compares the status in a response with the model.
    fn check_status(&self, ledger: Ledger, order: usize, answer: &Value) -> Result<()> {
        let Some(charge) = self.charge(ledger, order) else { return Ok(()) };
        // Refunds are completed some time after they are accepted.
        if !charge.refunds.is_empty() || text(answer, "status") == charge.status.as_str() {
            return Ok(());
        }
        let (found, expected) = (text(answer, "status"), charge.status.as_str());
        Err(Error::new(format!("the charge is {found}; it must be {expected}")))
    }

    pub(super) async fn end_pending(&mut self, ledger: Ledger, order: usize, how: &str) -> Result<()> {
        let Some(charge) = self.pending(ledger, order) else { return Ok(()) };
        let path = match how {
            "cancel" => payment_path(charge, "cancel"),
            how => format!("/v1/sandbox/charges/{}/{how}", charge.id),
        };
        let answer = self.post(ledger, &path, &json!({})).await?;
        // A repetition finds the charge cancelled.
        if !(how == "cancel" && answer.status == 422) {
            answer.expect(200)?;
        }
        match how {
            "expire" => self.account(ledger).expire(order),
            "cancel" => self.account(ledger).cancel(order),
            _ => self.account(ledger).fail(order),
        }
        Ok(())
    }

    pub(super) async fn refund(
        &mut self,
        ledger: Ledger,
        order: usize,
        percent: i64,
        (is_cash_out, fails): (bool, bool),
        number: usize,
    ) -> Result<()> {
        self.learn_failures(ledger, order).await?;
        let charge = self.charge(ledger, order).filter(|charge| charge.status == Status::Paid);
        let Some(charge) = charge else { return Ok(()) };
        // The service may not know a payment at the bank yet. Only the sandbox lets a chosen refund fail.
        let has_failed = fails && ledger != Ledger::Live;
        if ledger == Ledger::Live && self.shown_status(&charge.id).await? != "paid" {
            return Ok(());
        }
        let left = charge.amount.saturating_sub(charge.refunded());
        let amount = left.saturating_mul(percent).checked_div(100).unwrap_or_default().clamp(1, left.max(1));
        let mut body = json!({
            "amount": amount, "strategy": if is_cash_out { "cashout" } else { "devolution" },
            "idempotencyKey": format!("refund-{number:04}"),
        });
        if has_failed {
            body["reason"] = "sandbox:fail".into();
        }
        let answer = self.post(ledger, &payment_path(charge, "refund"), &body).await?;
        let code = answer.body.pointer("/error/code").and_then(Value::as_str).unwrap_or_default();
        // What an earlier refund takes that fails later is missing meanwhile.
        if answer.status == 422 && ["insufficient_balance", "refund_exceeds_remaining"].contains(&code) {
            return Ok(());
        }
        // The bank did not report the payer, so there is no key for a cash-out.
        let param = answer.body.pointer("/error/param").and_then(Value::as_str);
        if answer.status == 422 && is_cash_out && param == Some("destinationKey") {
            return Ok(());
        }
        let id = text(&answer.expect(201)?, "id").to_owned();
        self.account(ledger).refund(order, Refund { id, amount, is_cash_out, has_failed });
        Ok(())
    }

    /// Lets the model know which live refunds the bank has not executed. What the bank's books contain is
    /// compared at the end. In test mode, the plan says which refunds fail. Returns whether all have ended.
    pub(super) async fn learn_failures(&mut self, ledger: Ledger, order: usize) -> Result<bool> {
        let Some(charge) = self.charge(ledger, order).filter(|charge| !charge.refunds.is_empty()) else {
            return Ok(true);
        };
        let listed = self.get(ledger, &payment_path(charge, "refunds")).await?;
        let listed = items(&listed["data"]);
        let is_failed = |refund: &&Value| ledger == Ledger::Live && text(refund, "status") == "FAILED";
        for failed in listed.iter().filter(is_failed) {
            self.account(ledger).fail_refund(order, text(failed, "id"));
        }
        Ok(listed.iter().all(|refund| ["REFUNDED", "FAILED"].contains(&text(refund, "status"))))
    }

    pub(super) async fn open_case(&mut self, ledger: Ledger, order: usize, number: usize) -> Result<()> {
        // What a refund in progress will take is not known yet.
        let have_refunds_ended = self.learn_failures(ledger, order).await?;
        let charge = self.charge(ledger, order).filter(|charge| charge.status == Status::Paid);
        let Some(id) = charge.map(|charge| charge.id.clone()) else { return Ok(()) };
        if !have_refunds_ended {
            return Ok(());
        }
        let case = if ledger == Ledger::Live {
            if self.shown_status(&id).await? != "paid" {
                return Ok(());
            }
            let infraction = format!("infraction-{number}");
            self.notify(&id, &infraction, number, json!({"status": "OPEN"})).await?;
            infraction
        } else {
            let path = format!("/v1/sandbox/charges/{id}/med-cases");
            let notice = json!({ "notice_id": format!("notice-{number}") });
            text(&self.post(ledger, &path, &notice).await?.expect(201)?, "id").to_owned()
        };
        self.account(ledger).open_case(order, &case);
        Ok(())
    }

    pub(super) async fn decide(
        &mut self,
        ledger: Ledger,
        order: usize,
        for_merchant: bool,
        number: usize,
    ) -> Result<()> {
        let Some(charge) = self.charge(ledger, order) else { return Ok(()) };
        let Some((id, _)) = &charge.case else { return Ok(()) };
        if ledger == Ledger::Live {
            let result = if for_merchant { "DISAGREED" } else { "AGREED" };
            let end = json!({"status": "CLOSED", "analysis_result": result});
            self.notify(&charge.id, id, number, end).await?;
        } else {
            let path = format!("/v1/sandbox/med/cases/{id}/resolve");
            let decision = if for_merchant { "merchant" } else { "payer" };
            self.post(ledger, &path, &json!({ "decision": decision })).await?.expect(200)?;
        }
        self.account(ledger).decide(order, for_merchant);
        Ok(())
    }

    /// Sends a MED notice about the payment of a live charge, as the bank's adapter does.
    async fn notify(&self, charge: &str, infraction: &str, number: usize, mut notice: Value) -> Result<()> {
        let charge = self.get(Ledger::Live, &format!("/v1/charges/{charge}")).await?;
        let now = self.world.now();
        notice["notice_id"] = format!("notice-{number}").into();
        notice["infraction_id"] = infraction.into();
        notice["end_to_end_id"] = charge["settlement"]["end_to_end_id"].clone();
        notice["reported_at"] = now.to_iso().into();
        let (path, secret) = &self.notices;
        let signature = canonical(secret, now.seconds(), notice.to_string().as_bytes());
        let headers = [("x-signature", signature.as_str())];
        self.world.settle(Method::POST, path, &headers, &notice).await?.expect(200).map(drop)
    }
}
