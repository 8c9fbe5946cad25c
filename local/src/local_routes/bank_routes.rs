//! `/_local/bank`: pays at the bank, makes it fail, and shows its books.

use std::num::NonZeroU32;
use std::sync::Arc;

use axum::extract::State as Shared;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use bank::{Cents, FaultKind, MedError, MedNature, PayError, PayRequest, Payer, ReportedTxid};
use domain::charge::StoredCharge;
use domain::ids::ChargeId;
use money::charge::Charges;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::Refusal;
use crate::contents::Contents;

const PAYER_TAX_ID: &str = "12345678909";
const PAYER_NAME: &str = "Fulano de Tal";

type Answer = Result<Json<Value>, Refusal>;

pub(super) fn routes() -> Router<Arc<Contents>> {
    Router::new()
        .route("/_local/bank", get(books))
        .route("/_local/bank/pay", post(pay))
        .route("/_local/bank/faults", get(pending_faults).post(inject_fault).delete(clear_faults))
        .route("/_local/bank/med-devolucao", post(return_by_med))
}

async fn books(Shared(contents): Shared<Arc<Contents>>) -> Json<Value> {
    Json(contents.bank.snapshot())
}

/// Parses a body. The error names the field and its rule.
fn parse<T: DeserializeOwned>(body: &str) -> Result<T, Refusal> {
    match Json::from_bytes(body.as_bytes()) {
        Ok(Json(fields)) => Ok(fields),
        Err(error) => Err(Refusal(StatusCode::BAD_REQUEST, error.body_text())),
    }
}

/// The bank checks the values.
#[derive(Deserialize)]
#[allow(clippy::option_option, reason = "a field can be absent, or null")]
#[serde(deny_unknown_fields)]
struct Pay {
    charge_id: String,
    amount: Option<Cents>,
    #[serde(default, deserialize_with = "nullable")]
    payer_tax_id: Option<Option<String>>,
    payer_name: Option<String>,
    #[serde(default, deserialize_with = "nullable")]
    txid: Option<Option<String>>,
    #[serde(default)]
    again: bool,
}

#[allow(clippy::option_option, reason = "a field can be absent, or null")]
fn nullable<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(value).map(Some)
}

async fn pay(Shared(contents): Shared<Arc<Contents>>, body: String) -> Answer {
    let Pay { charge_id: charge, amount, payer_tax_id, payer_name: name, txid, again } = parse(&body)?;
    if payer_tax_id == Some(None) && name.is_some() {
        let error = "payer_name must be absent if payer_tax_id is null";
        return Err(Refusal(StatusCode::BAD_REQUEST, error.to_owned()));
    }
    let id = ChargeId::parse_any(&charge)
        .map_err(|error| Refusal(StatusCode::NOT_FOUND, format!("no charge has the id {charge}: {error}")))?;
    let payer = match payer_tax_id {
        Some(None) => Payer::Unreported,
        Some(Some(tax_id)) => Payer::Person { tax_id, name: name.unwrap_or_else(|| PAYER_NAME.to_owned()) },
        None => default_payer(&contents, id, name).await?,
    };
    let reported_txid = match txid {
        None => ReportedTxid::OfTheCob,
        Some(None) => ReportedTxid::Missing,
        Some(Some(txid)) if txid == id.txid() => ReportedTxid::OfTheCob,
        Some(Some(txid)) => ReportedTxid::Other(txid),
    };
    let request =
        PayRequest { txid: id.txid(), reported_txid, amount, payer, again, ..PayRequest::default() };
    let paid = contents.bank.pay(&request).map_err(|error| match error {
        PayError::UnknownCob => {
            let error = format!("the bank has no cob of the charge {id}; only a live charge has one");
            Refusal(StatusCode::NOT_FOUND, error)
        }
        PayError::NotActive | PayError::Expired => Refusal(StatusCode::CONFLICT, error.to_string()),
        PayError::InvalidAmount => bad_field("amount", error),
        PayError::InvalidPayer => bad_field("payer_tax_id or payer_name", error),
        PayError::InvalidTxid => bad_field("txid", error),
        PayError::NotStored => Refusal(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    })?;
    Ok(Json(json!({
        "end_to_end_id": paid.end_to_end_id,
        "txid": paid.txid,
        "amount": paid.amount.get(),
        "horario": paid.horario,
    })))
}

fn bad_field(name: &str, error: PayError) -> Refusal {
    Refusal(StatusCode::BAD_REQUEST, format!("{name}: {error}"))
}

async fn default_payer(contents: &Contents, id: ChargeId, name: Option<String>) -> Result<Payer, Refusal> {
    let charges = Charges::new(contents.store.clone());
    let charge = charges.find(Some(id)).await.map_err(|error| {
        Refusal(StatusCode::INTERNAL_SERVER_ERROR, format!("reading the charge: {error}"))
    })?;
    let charge = charge.as_ref().map(StoredCharge::as_stored);
    let person = |tax_id: &str, name: Option<String>| Payer::Person {
        tax_id: tax_id.to_owned(),
        name: name.unwrap_or_else(|| PAYER_NAME.to_owned()),
    };
    Ok(match charge.and_then(|charge| Some((charge.payer_tax_id()?, &charge.customer.name))) {
        Some((tax_id, customer)) => person(tax_id.as_str(), name.or_else(|| customer.clone())),
        None if name.is_some() => person(PAYER_TAX_ID, name),
        // A cob that was created at the bank directly can have a debtor.
        None => Payer::Debtor,
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InjectFault {
    kind: String,
    count: Option<NonZeroU32>,
}

async fn inject_fault(Shared(contents): Shared<Arc<Contents>>, body: String) -> Answer {
    let InjectFault { kind, count } = parse(&body)?;
    let kind = FaultKind::parse(&kind).map_err(|e| Refusal(StatusCode::BAD_REQUEST, e.to_string()))?;
    contents.bank.inject_fault(kind, count.map_or(1, NonZeroU32::get));
    Ok(Json(json!({"kind": kind.name(), "pending": contents.bank.pending_faults(kind)})))
}

/// `GET /_local/bank/faults` returns how often each kind of fault will still occur.
async fn pending_faults(Shared(contents): Shared<Arc<Contents>>) -> Json<Value> {
    let pending = |kind: &FaultKind| (kind.name().to_owned(), contents.bank.pending_faults(*kind).into());
    Json(Value::Object(FaultKind::ALL.iter().map(pending).collect()))
}

/// `DELETE /_local/bank/faults` removes all faults that have not occurred.
async fn clear_faults(Shared(contents): Shared<Arc<Contents>>) -> StatusCode {
    contents.bank.clear_faults();
    StatusCode::NO_CONTENT
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReturnByMed {
    end_to_end_id: String,
    amount: Option<Cents>,
    nature: Option<MedNature>,
}

async fn return_by_med(Shared(contents): Shared<Arc<Contents>>, body: String) -> Answer {
    let ReturnByMed { end_to_end_id, amount, nature } = parse(&body)?;
    let nature = nature.unwrap_or(MedNature::Fraud);
    let id = contents.bank.open_med_devolucao(&end_to_end_id, amount, nature).map_err(|error| {
        let status = match error {
            MedError::UnknownPix => StatusCode::NOT_FOUND,
            MedError::InvalidAmount => StatusCode::CONFLICT,
            MedError::NotStored => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Refusal(status, error.to_string())
    })?;
    Ok(Json(json!({ "id": id })))
}
