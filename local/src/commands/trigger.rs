//! `cargo run -- trigger EVENT`: causes an event by executing the steps that lead to it, such as creating and
//! paying a charge.

use domain::audit::Operator;
use domain::calendar::Day;
use domain::ids::{Mode, PayoutId, Scope};
use domain::money::{Amount, Currency};
use domain::payout::PayoutOutcome;
use domain::time::Timestamp;
use domain::webhook::event_type::EventType;
use money::payout::Payouts;
use serde_json::{Value, json};
use shared::random;
use shared::store::Store;

use super::Running;
use super::listen::Print;
use super::running::text;
use crate::error::{Context, Error, Result};
use crate::sdk;

const PAYER: (&str, &str) = ("Maria da Silva", "29537995593");

/// `amount` is in centavos.
pub async fn trigger(running: &Running, event: EventType, amount: Amount, print: &Print) -> Result<()> {
    let steps = Steps { running, amount, print };
    match event {
        EventType::ChargeCreated | EventType::PaymentCreated => steps.charge().await.map(drop),
        EventType::ChargePaid | EventType::PaymentCompleted | EventType::PaymentStatusChanged => {
            steps.paid().await.map(drop)
        }
        EventType::ChargeFailed | EventType::PaymentFailed => steps.ended("fail").await,
        EventType::ChargeExpired | EventType::PaymentExpired => steps.ended("expire").await,
        EventType::RefundCreated
        | EventType::RefundSucceeded
        | EventType::ChargeRefunded
        | EventType::PaymentRefunded => steps.refund("Triggered").await,
        EventType::RefundFailed => steps.refund("sandbox:fail").await,
        EventType::PayoutCreated | EventType::WithdrawalCreated => steps.payout(None).await,
        EventType::PayoutPaid | EventType::WithdrawalCompleted | EventType::WithdrawalStatusChanged => {
            steps.payout(Some(PayoutOutcome::Paid)).await
        }
        EventType::PayoutFailed | EventType::WithdrawalFailed => {
            let reason = "The bank refused the payout. This failure is simulated.".to_owned();
            steps.payout(Some(PayoutOutcome::Failed { reason })).await
        }
        EventType::ReportReady => steps.report().await,
        EventType::WebhookTest => steps.test_endpoints().await,
        EventType::MedCaseCreated => steps.case(None).await.map(drop),
        EventType::MedCaseDeadlineApproaching => steps.case_near_its_deadline().await,
        EventType::MedCaseUpdated | EventType::MedResolved => steps.resolved_case().await,
    }
}

struct Steps<'a> {
    running: &'a Running,
    amount: Amount,
    print: &'a Print,
}

impl Steps<'_> {
    fn print_step(&self, object: &Value, description: &str) {
        (self.print)(&format!("{}  {}  ({description})", text(object, "id"), text(object, "status")));
    }

    async fn charge(&self) -> Result<Value> {
        let (name, document) = PAYER;
        let body = json!({
            "amount": self.amount, "description": "Triggered", "customer": {"name": name, "document": document},
        });
        let charge = self.running.post("/v1/pix/charges", &body).await?;
        self.print_step(&charge, "a charge");
        Ok(charge)
    }

    async fn sandbox(&self, charge: &Value, action: &str) -> Result<Value> {
        self.running.post(&format!("/v1/sandbox/charges/{}/{action}", text(charge, "id")), &json!({})).await
    }

    async fn paid(&self) -> Result<Value> {
        let charge = self.charge().await?;
        let paid = self.sandbox(&charge, "pay").await?;
        self.print_step(&paid, "the payer paid");
        Ok(paid)
    }

    async fn ended(&self, action: &str) -> Result<()> {
        let charge = self.charge().await?;
        let ended = self.sandbox(&charge, action).await?;
        self.print_step(&ended, "the charge ended unpaid");
        Ok(())
    }

    async fn refund(&self, reason: &str) -> Result<()> {
        let charge = self.paid().await?;
        let path = format!("/v1/payments/{}/refund", text(&charge, "id").trim_start_matches("ch_"));
        let body = json!({"idempotencyKey": "triggered", "reason": reason});
        let refund = self.running.post(&path, &body).await?;
        self.print_step(&refund, "a refund; it ends in about 2 s");
        Ok(())
    }

    async fn case(&self, deadline: Option<Timestamp>) -> Result<Value> {
        let charge = self.paid().await?;
        let body = json!({"reason": "Triggered", "method": "scam", "response_deadline": deadline});
        let case = self
            .running
            .post(&format!("/v1/sandbox/charges/{}/med-cases", text(&charge, "id")), &body)
            .await?;
        self.print_step(&case, "a MED case");
        Ok(case)
    }

    /// The scheduler reminds of the deadline within a second.
    async fn case_near_its_deadline(&self) -> Result<()> {
        let (now, _) = self.running.clock().await?;
        self.case(Some(now.saturating_plus_seconds(24 * 3_600))).await.map(drop)
    }

    async fn resolved_case(&self) -> Result<()> {
        let case = self.case(None).await?;
        let path = format!("/v1/sandbox/med/cases/{}/resolve", text(&case, "id"));
        let resolved = self.running.post(&path, &json!({"decision": "merchant"})).await?;
        self.print_step(&resolved, "decided in favour of the merchant");
        Ok(())
    }

    /// Creates a payout with the same code as the operator's command, because the API has no route for it.
    /// First pays a charge of the same amount, so that the wallet contains the money.
    async fn report(&self) -> Result<()> {
        let (now, _) = self.running.clock().await?;
        let today = Day::of(now).to_string();
        let body = json!({"type": "statement", "format": "csv", "from": today, "to": today});
        let report = self.running.post("/v1/reports", &body).await?;
        self.print_step(&report, "a report");
        Ok(())
    }

    async fn payout(&self, end: Option<PayoutOutcome>) -> Result<()> {
        self.paid().await?;
        let ready = &self.running.ready;
        let doing = "creating a payout";
        let payouts = Payouts::new(Store::new(sdk::dynamodb(&ready.dynamodb_url), &ready.table));
        let (now, _) = self.running.clock().await?;
        let operator = Operator {
            actor: "cargo run -- trigger".to_owned(),
            reason: "triggered".to_owned(),
            ..Operator::default()
        };
        let payout_id = PayoutId::new(now, random::bytes().context(doing)?);
        let money = (self.amount, Currency::BRL);
        let scope = Scope { account: ready.account_id, mode: Mode::Test };
        let mut payout = payouts
            .create((payout_id, &payout_id.into()), scope, money, &operator, now)
            .await
            .context(doing)?;
        (self.print)(&format!("{}  {}  (a payout)", payout.id, payout.status.as_str()));
        if let Some(end) = end {
            payout = payouts.end(payout_id, &end, &operator, now).await.context(doing)?;
            (self.print)(&format!("{}  {}  (the payout ended)", payout.id, payout.status.as_str()));
        }
        Ok(())
    }

    async fn test_endpoints(&self) -> Result<()> {
        let endpoints = self.running.get("/v1/webhooks/endpoints").await?;
        let mut endpoints = endpoints.get("data").and_then(Value::as_array).cloned().unwrap_or_default();
        endpoints.retain(|endpoint| text(endpoint, "status") == "ACTIVE");
        if endpoints.is_empty() {
            return Err(Error::new("no endpoint is active; `cargo run -- listen` registers one"));
        }
        for endpoint in &endpoints {
            let path = format!("/v1/webhooks/endpoints/{}/test", text(endpoint, "id"));
            let delivery = self.running.post(&path, &json!({})).await?;
            self.print_step(&delivery, "a test delivery");
        }
        Ok(())
    }
}
