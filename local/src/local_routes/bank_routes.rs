//! `/_local/bank`: pays at the bank, makes it fail, and shows its books.

use axum::extract::State as Shared;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use bank::{Cents, FaultKind, MedError, MedNature, PayError, PayRequest, Payer, ReportedTxid};
use domain::charge::StoredCharge;
use domain::ids::ChargeId;
use serde_json::{Value, json};

use super::fields::{Fields, text};
use super::{LocalState, Refusal};

const MAX_FAULTS: u64 = 1_000_000;

const PAYER_TAX_ID: &str = "12345678909";
const PAYER_NAME: &str = "Fulano de Tal";

const AMOUNT_RULE: &str = "an integer from 1 to 999999999999 (centavos)";

type Answer = Result<Json<Value>, Refusal>;

pub(super) fn routes() -> Router<LocalState> {
    Router::new()
        .route("/_local/bank", get(books))
        .route("/_local/bank/pay", post(pay))
        .route("/_local/bank/faults", get(pending_faults).post(inject_fault).delete(clear_faults))
        .route("/_local/bank/med-devolucao", post(return_by_med))
}

async fn books(Shared(state): Shared<LocalState>) -> Json<Value> {
    Json(state.contents.bank.snapshot())
}

enum RequestedPayer {
    Unreported,
    TaxId(String),
}

async fn pay(Shared(state): Shared<LocalState>, body: String) -> Answer {
    let mut fields = Fields::parse(&body)?;
    let charge = fields.required("charge_id", "the id of a charge", |value| text(value, 1..=100));
    let amount = fields.optional("amount", AMOUNT_RULE, cents);
    let payer = fields.optional("payer_tax_id", "a CPF, a CNPJ or null", |value| match value {
        Value::Null => Some(RequestedPayer::Unreported),
        value => value.as_str().filter(|text| is_tax_id(text)).map(|text| RequestedPayer::TaxId(text.into())),
    });
    let name = fields.optional("payer_name", "a text of 1 to 200 characters", |value| text(value, 1..=200));
    let txid = fields.optional("txid", "null, or 1 to 35 letters and digits", |value| match value {
        Value::Null => Some(None),
        value => text(value, 1..=35).filter(|text| text.bytes().all(|b| b.is_ascii_alphanumeric())).map(Some),
    });
    let again = fields.optional("again", "true or false", Value::as_bool).unwrap_or_default();
    if matches!(payer, Some(RequestedPayer::Unreported)) && name.is_some() {
        fields.fail("payer_name must be absent if payer_tax_id is null".to_owned());
    }
    let charge = fields.end(charge)?;
    let id = ChargeId::parse_any(&charge)
        .map_err(|error| Refusal(StatusCode::NOT_FOUND, format!("no charge has the id {charge}: {error}")))?;
    let payer = match payer {
        Some(RequestedPayer::Unreported) => Payer::Unreported,
        Some(RequestedPayer::TaxId(tax_id)) => {
            Payer::Person { tax_id, name: name.unwrap_or_else(|| PAYER_NAME.to_owned()) }
        }
        None => default_payer(&state, id, name).await?,
    };
    let reported_txid = match txid {
        None => ReportedTxid::OfTheCob,
        Some(None) => ReportedTxid::Missing,
        Some(Some(txid)) if txid == id.txid() => ReportedTxid::OfTheCob,
        Some(Some(txid)) => ReportedTxid::Other(txid),
    };
    let request =
        PayRequest { txid: id.txid(), reported_txid, amount, payer, again, ..PayRequest::default() };
    let paid = state.contents.bank.pay(&request).map_err(|error| match error {
        PayError::UnknownCob => {
            let error = format!("the bank has no cob of the charge {id}; only a live charge has one");
            Refusal(StatusCode::NOT_FOUND, error)
        }
        PayError::NotActive | PayError::Expired | PayError::InvalidTxid => {
            Refusal(StatusCode::CONFLICT, error.to_string())
        }
        PayError::InvalidAmount | PayError::InvalidPayer => {
            Refusal(StatusCode::BAD_REQUEST, error.to_string())
        }
        PayError::NotStored => Refusal(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    })?;
    Ok(Json(json!({
        "end_to_end_id": paid.end_to_end_id,
        "txid": paid.txid,
        "amount": paid.amount.get(),
        "horario": paid.horario,
    })))
}

async fn default_payer(state: &LocalState, id: ChargeId, name: Option<String>) -> Result<Payer, Refusal> {
    let charge = state.charges.find(Some(id)).await.map_err(|error| {
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

async fn inject_fault(Shared(state): Shared<LocalState>, body: String) -> Answer {
    let mut fields = Fields::parse(&body)?;
    let kind = fields.required("kind", "a kind of fault", |value| text(value, 0..=100));
    let rule = format!("an integer from 1 to {MAX_FAULTS}");
    let count = fields.optional("count", &rule, |value| {
        value
            .as_u64()
            .filter(|count| (1..=MAX_FAULTS).contains(count))
            .and_then(|count| count.try_into().ok())
    });
    let kind = match kind.as_deref().map(FaultKind::parse) {
        Some(Err(error)) => {
            fields.fail(error.to_string());
            None
        }
        Some(Ok(kind)) => Some(kind),
        None => None,
    };
    let kind = fields.end(kind)?;
    state.contents.bank.inject_fault(kind, count.unwrap_or(1));
    Ok(Json(json!({"kind": kind.name(), "pending": state.contents.bank.pending_faults(kind)})))
}

/// `GET /_local/bank/faults` returns how often each kind of fault will still occur.
async fn pending_faults(Shared(state): Shared<LocalState>) -> Json<Value> {
    let pending =
        |kind: &FaultKind| (kind.name().to_owned(), state.contents.bank.pending_faults(*kind).into());
    Json(Value::Object(FaultKind::ALL.iter().map(pending).collect()))
}

/// `DELETE /_local/bank/faults` removes all faults that have not occurred.
async fn clear_faults(Shared(state): Shared<LocalState>) -> StatusCode {
    state.contents.bank.clear_faults();
    StatusCode::NO_CONTENT
}

async fn return_by_med(Shared(state): Shared<LocalState>, body: String) -> Answer {
    let mut fields = Fields::parse(&body)?;
    let end_to_end_id = fields.required("end_to_end_id", "the id of a Pix", |value| text(value, 1..=100));
    let amount = fields.optional("amount", AMOUNT_RULE, cents);
    let nature = fields.optional("nature", "fraud, operational or automatic_pix", |value| {
        Some(match value.as_str()? {
            "fraud" => MedNature::Fraud,
            "operational" => MedNature::Operational,
            "automatic_pix" => MedNature::AutomaticPix,
            _ => return None,
        })
    });
    let end_to_end_id = fields.end(end_to_end_id)?;
    let id = state
        .contents
        .bank
        .open_med_devolucao(&end_to_end_id, amount, nature.unwrap_or(MedNature::Fraud))
        .map_err(|error| {
            let status = match error {
                MedError::UnknownPix => StatusCode::NOT_FOUND,
                MedError::InvalidAmount => StatusCode::CONFLICT,
                MedError::NotStored => StatusCode::INTERNAL_SERVER_ERROR,
            };
            Refusal(status, error.to_string())
        })?;
    Ok(Json(json!({ "id": id })))
}

fn cents(value: &Value) -> Option<Cents> {
    value.as_u64().and_then(Cents::new).filter(|amount| amount.get() > 0)
}

/// Check digits may be wrong.
fn is_tax_id(text: &str) -> bool {
    let is_cpf = text.len() == 11 && text.bytes().all(|b| b.is_ascii_digit());
    is_cpf || (text.len() == 14 && text.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_uppercase()))
}
