use serde_json::{Map, Value, json};

use super::{Call, Result, State};
use crate::brcode;
use crate::cob::{Cob, OPERATION, Status, Terms, parse_terms};
use crate::fault::FaultKind;
use crate::problem::Problem;
use crate::query::{ListQuery, Query};
use crate::values::{Cents, is_alphanumeric, opaque};

/// The prefix of locations. Its host does not exist, so no payer's app can read the codes.
const LOCATION_PREFIX: &str = "pix.example.com/qr/v2/";

impl State {
    pub(crate) fn put_cob(&mut self, call: Call, txid: &str, body: &Map<String, Value>) -> Result<Value> {
        let Call { now_ms, client } = call;
        if !is_alphanumeric(txid, 26..=35) {
            return Err(Problem::violation(OPERATION, "cob.txid", "O campo cob.txid não respeita o schema."));
        }
        let id = (client, txid.to_owned());
        if let Some(cob) = self.tables.cobs.get(&id) {
            if cob.status != Status::Active || !self.behaviour.revises_by_put {
                let reason = "A cobrança já existe e não pode ser alterada por esta requisição.";
                return Err(Problem::violation(OPERATION, "cob.txid", reason));
            }
            let terms = parse_terms(body, None, Some(cob.location_id), self.keys(client))?;
            return Ok(self.revise(&id, terms));
        }
        let terms = parse_terms(body, None, None, self.keys(client))?;
        let location_id = self.next_serial();
        let location = format!("{LOCATION_PREFIX}{}", opaque(self.seed, 2, location_id));
        let has_br_code = self.behaviour.shows_copia_e_cola && !self.faults.take(FaultKind::NoCopiaECola);
        let br_code = if has_br_code { self.write_br_code(client, &location, terms.amount) } else { None };
        let cob = Cob::new(txid.to_owned(), now_ms, (location_id, location), terms, br_code);
        let answer = Value::Object(cob.json());
        self.tables.cobs.insert(id, cob);
        Ok(answer)
    }

    pub(crate) fn patch_cob(&mut self, call: Call, txid: &str, body: &Map<String, Value>) -> Result<Value> {
        let client = call.client;
        let id = (client, txid.to_owned());
        self.maybe_remove_by_psp(&id);
        let keys = self.keys(client).to_vec();
        let Some(cob) = self.tables.cobs.get_mut(&id) else {
            return Err(Problem::not_found("CobNaoEncontrado"));
        };
        if cob.status != Status::Active {
            let reason = "A cobrança não está ATIVA, e a presente requisição busca alterá-la.";
            return Err(Problem::violation(OPERATION, "cob.status", reason));
        }
        if let Some(status) = body.get("status") {
            if *status != Status::RemovedByReceiver.as_ref() {
                let reason = "O campo cob.status não respeita o schema.";
                return Err(Problem::violation(OPERATION, "cob.status", reason));
            }
            if body.len() > 1 {
                let reason = "A remoção não pode ser feita juntamente com outras alterações.";
                return Err(Problem::violation(OPERATION, "cob.status", reason));
            }
            cob.remove(Status::RemovedByReceiver);
            return Ok(Value::Object(cob.json()));
        }
        let terms = parse_terms(body, Some(cob.terms()), Some(cob.location_id), &keys)?;
        Ok(self.revise(&id, terms))
    }

    fn write_br_code(&self, client: usize, location: &str, amount: Cents) -> Option<String> {
        let client = self.clients.get(client)?;
        let amount = self.behaviour.br_code_has_amount.then_some(amount);
        Some(brcode::dynamic(location, amount, &client.name, &client.city))
    }

    fn revise(&mut self, id: &(usize, String), terms: Terms) -> Value {
        let br_code =
            self.tables.cobs.get(id).and_then(|cob| self.write_br_code(id.0, &cob.location, terms.amount));
        let Some(cob) = self.tables.cobs.get_mut(id) else {
            return Value::Null;
        };
        if *cob.terms() != terms {
            cob.revise(terms);
            if cob.br_code.is_some() {
                cob.br_code = br_code;
            }
        }
        Value::Object(cob.json())
    }

    /// Removes an active cob if the fault `removed_by_psp` occurs.
    pub(super) fn maybe_remove_by_psp(&mut self, id: &(usize, String)) {
        if let Some(cob) = self.tables.cobs.get_mut(id)
            && cob.status == Status::Active
            && self.faults.take(FaultKind::RemovedByPsp)
        {
            cob.remove(Status::RemovedByPsp);
        }
    }

    pub(crate) fn get_cob(&self, call: Call, txid: &str, query: &Query) -> Result<Value> {
        let Some(cob) = self.tables.cobs.get(&(call.client, txid.to_owned())) else {
            return Err(Problem::not_found("CobNaoEncontrado"));
        };
        let Some(revision) = query.get("revisao") else {
            return Ok(self.complete_cob(call.now_ms, cob, cob.json()));
        };
        match revision.parse().ok().and_then(|revision| cob.json_of(revision)) {
            Some(fields) => Ok(self.complete_cob(call.now_ms, cob, fields)),
            None => Err(Problem::violation(
                "CobConsultaInvalida",
                "revisao",
                "O parâmetro revisao corresponde a uma revisão inexistente.",
            )),
        }
    }

    fn complete_cob(&self, now_ms: i64, cob: &Cob, mut fields: Map<String, Value>) -> Value {
        let pix: Vec<Value> = cob
            .paid_by
            .iter()
            .filter_map(|id| self.tables.pix.get(id))
            .filter(|pix| pix.visible_ms <= now_ms)
            .map(|pix| {
                // `pix` of a cob must have a txid, also where the Pix itself is reported without.
                let mut shown = pix.clone();
                shown.txid = Some(cob.txid.clone());
                shown.json(self.behaviour)
            })
            .collect();
        if !pix.is_empty() {
            fields.insert("pix".to_owned(), pix.into());
        }
        Value::Object(fields)
    }

    pub(crate) fn list_cobs(&self, Call { now_ms, client }: Call, query: &Query) -> Result<Value> {
        let list = ListQuery::parse(query, "CobConsultaInvalida", self.behaviour)?;
        let is_listed = |cob: &Cob| {
            list.includes(cob.created_ms)
                && list.tax_id.as_ref().is_none_or(|tax_id| {
                    cob.terms().debtor.as_ref().is_some_and(|debtor| debtor.tax_id == *tax_id)
                })
                && query.get("status").is_none_or(|status| cob.status.as_ref() == status)
        };
        let mut cobs: Vec<&Cob> = self
            .tables
            .cobs
            .iter()
            .filter(|((owner, _), cob)| *owner == client && is_listed(cob))
            .map(|(_, cob)| cob)
            .collect();
        cobs.sort_by_key(|cob| (cob.created_ms, cob.location_id));
        let (page, mut parameters) = list.page(cobs);
        if let Some(status) = query.get("status") {
            parameters.insert("status".to_owned(), status.into());
        }
        let cobs: Vec<Value> =
            page.into_iter().map(|cob| self.complete_cob(now_ms, cob, cob.json())).collect();
        Ok(json!({"parametros": parameters, "cobs": cobs}))
    }
}
