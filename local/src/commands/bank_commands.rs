//! `cargo run -- bank pay CHARGE` and `cargo run -- bank fault KIND`: act as a payer at another bank, and make
//! the local bank fail.

use bank::FaultKind;
use domain::money::Amount;
use serde_json::{Map, Value, json};

use super::Running;
use super::listen::Print;
use crate::error::Result;

#[derive(Clone, Debug, Default)]
pub enum Payer {
    #[default]
    OfTheCharge,
    Unreported,
    TaxId(String),
}

#[derive(Clone, Debug, Default)]
pub struct Payment {
    /// The amount in centavos. `None`: that of the charge.
    pub amount: Option<Amount>,
    pub payer: Payer,
    /// `None`: the customer's name, or a fixed one.
    pub payer_name: Option<String>,
    pub again: bool,
}

pub async fn pay(running: &Running, charge: &str, payment: &Payment, print: &Print) -> Result<()> {
    let mut body = Map::new();
    let mut set = |name: &str, value: Value| body.insert(name.to_owned(), value);
    set("charge_id", charge.into());
    if let Some(amount) = payment.amount {
        set("amount", json!(amount));
    }
    match &payment.payer {
        Payer::OfTheCharge => {}
        Payer::Unreported => drop(set("payer_tax_id", Value::Null)),
        Payer::TaxId(tax_id) => drop(set("payer_tax_id", tax_id.as_str().into())),
    }
    if let Some(name) = &payment.payer_name {
        set("payer_name", name.as_str().into());
    }
    if payment.again {
        set("again", true.into());
    }
    let paid = running.post("/_local/bank/pay", &Value::Object(body)).await?;
    let text = |name: &str| paid.get(name).and_then(Value::as_str).unwrap_or_default();
    let amount = paid.get("amount").and_then(Value::as_u64).unwrap_or_default();
    print(&format!("{}  {amount} BRL  (a Pix, settled at {})", text("end_to_end_id"), text("horario")));
    Ok(())
}

pub async fn fault(running: &Running, kind: FaultKind, count: u32, print: &Print) -> Result<()> {
    let body = json!({"kind": kind.name(), "count": count});
    let fault = running.post("/_local/bank/faults", &body).await?;
    let pending = fault.get("pending").and_then(Value::as_u64).unwrap_or_default();
    print(&format!("{}  (the number of times that it will occur: {pending})", kind.name()));
    Ok(())
}
