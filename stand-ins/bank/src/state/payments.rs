use serde_json::{Value, json};

use super::timers::{SETTLEMENT_DELAY_MS, Timer};
use super::{Call, Result, State};
use crate::cob::{Person, Status};
use crate::fault::FaultKind;
use crate::pix::Pix;
use crate::problem::Problem;
use crate::query::{ListQuery, Query};
use crate::values::{Cents, TaxId, is_alphanumeric, rfc3339, transaction_id};

/// The payer where neither the request nor the cob names one. The check digits are valid.
const DEFAULT_PAYER: (&str, &str) = ("12345678909", "Fulano de Tal");

/// Which txid the bank reports for a Pix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ReportedTxid {
    /// The txid of the cob, which the Pix pays.
    #[default]
    OfTheCob,
    /// None: the Pix is a transfer to the key of the cob, and the cob stays unpaid.
    Missing,
    /// Another one, which no cob has: the cob stays unpaid.
    Other(String),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Payer {
    /// The debtor of the cob, else a fixed person with a valid CPF.
    #[default]
    Debtor,
    /// The bank does not report a payer, and no filter by payer finds the Pix.
    Unreported,
    Person {
        /// CPF (11 digits) or CNPJ (14 digits or capital letters).
        tax_id: String,
        name: String,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PayRequest {
    pub txid: String,
    pub reported_txid: ReportedTxid,
    /// The amount. Without it, the payer pays the amount of the cob.
    pub amount: Option<Cents>,
    pub payer: Payer,
    /// True to pay a cob that is already paid. A real bank refuses that.
    pub again: bool,
    /// How much later than its `horario` the Pix appears in reads and callbacks, in milliseconds.
    pub visible_after_ms: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paid {
    pub end_to_end_id: String,
    pub txid: Option<String>,
    pub amount: Cents,
    /// The time of settlement by the bank's clock, by RFC 3339.
    pub horario: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PayError {
    #[error("no cob has this txid")]
    UnknownCob,
    #[error("the cob is already paid or removed")]
    NotActive,
    #[error("the cob is expired")]
    Expired,
    #[error("the amount must be at least 0.01")]
    InvalidAmount,
    #[error("the payer needs a CPF (11 digits) or CNPJ (14 characters) and a name of at most 200 characters")]
    InvalidPayer,
    #[error("the reported txid must be 1 to 35 letters and digits that no cob has")]
    InvalidTxid,
    #[error("the bank can't write its books")]
    NotStored,
}

impl State {
    pub(super) fn cob_id(&self, txid: &str) -> Option<(usize, String)> {
        (0..self.clients.len())
            .map(|client| (client, txid.to_owned()))
            .find(|id| self.tables.cobs.contains_key(id))
    }

    pub(crate) fn lose(&mut self, id: &str) {
        let is_lost = |pix: &&Pix| pix.end_to_end_id == id || pix.cob.as_deref() == Some(id);
        let lost: Vec<String> =
            self.tables.pix.values().filter(is_lost).map(|pix| pix.end_to_end_id.clone()).collect();
        for pix in lost {
            self.tables.pix.remove(&pix);
        }
        if let Some(cob) = self.cob_id(id) {
            self.tables.cobs.remove(&cob);
        }
    }

    pub(crate) fn pay(&mut self, now_ms: i64, request: &PayRequest) -> std::result::Result<Paid, PayError> {
        let id = self.cob_id(&request.txid).ok_or(PayError::UnknownCob)?;
        let is_for_cob = match &request.reported_txid {
            ReportedTxid::OfTheCob => true,
            ReportedTxid::Missing => false,
            ReportedTxid::Other(txid) => {
                if !is_alphanumeric(txid, 1..=35) || self.cob_id(txid).is_some() {
                    return Err(PayError::InvalidTxid);
                }
                false
            }
        };
        let payer = match &request.payer {
            Payer::Unreported => None,
            Payer::Debtor => {
                let debtor = self.tables.cobs.get(&id).and_then(|cob| cob.terms().debtor.clone());
                let (cpf, name) = DEFAULT_PAYER;
                let someone = Person { tax_id: TaxId::Cpf(cpf.to_owned()), name: name.to_owned() };
                Some(debtor.unwrap_or(someone))
            }
            Payer::Person { tax_id, name } => {
                let tax_id = TaxId::parse(tax_id).ok_or(PayError::InvalidPayer)?;
                if name.chars().count() > 200 {
                    return Err(PayError::InvalidPayer);
                }
                Some(Person { tax_id, name: name.clone() })
            }
        };
        if request.amount.is_some_and(|amount| amount.get() == 0) {
            return Err(PayError::InvalidAmount);
        }
        if is_for_cob {
            self.maybe_remove_by_psp(&id);
        }
        let cob = self.tables.cobs.get(&id).ok_or(PayError::UnknownCob)?;
        if is_for_cob {
            match cob.status {
                Status::Active if now_ms >= cob.expires_ms() => return Err(PayError::Expired),
                Status::Active => {}
                Status::Paid if request.again => {}
                Status::Paid | Status::RemovedByReceiver | Status::RemovedByPsp => {
                    return Err(PayError::NotActive);
                }
            }
        }
        let amount = request.amount.unwrap_or(cob.terms().amount);
        let key = cob.terms().key.clone();
        let txid = match &request.reported_txid {
            ReportedTxid::OfTheCob => {
                (!self.faults.take(FaultKind::MissingTxid)).then(|| request.txid.clone())
            }
            ReportedTxid::Missing => None,
            ReportedTxid::Other(txid) => Some(txid.clone()),
        };
        let serial = self.next_serial();
        let end_to_end_id = transaction_id('E', now_ms, serial);
        let visible_ms = now_ms.saturating_add(request.visible_after_ms.max(0));
        let pix = Pix {
            client: id.0,
            end_to_end_id: end_to_end_id.clone(),
            txid: txid.clone(),
            cob: is_for_cob.then(|| request.txid.clone()),
            key,
            amount,
            at_ms: now_ms,
            visible_ms,
            payer,
            is_payer_masked: self.faults.take(FaultKind::MaskedPayer),
            returns: Vec::new(),
        };
        self.tables.pix.insert(end_to_end_id.clone(), pix);
        if let Some(cob) = self.tables.cobs.get_mut(&id).filter(|_| is_for_cob) {
            cob.status = Status::Paid;
            cob.paid_by.push(end_to_end_id.clone());
        }
        self.schedule_callback(&end_to_end_id, visible_ms);
        if self.faults.take(FaultKind::MedDevolucao) {
            let due_ms = visible_ms.saturating_add(SETTLEMENT_DELAY_MS);
            self.schedule(due_ms, Timer::ReturnByMed { end_to_end_id: end_to_end_id.clone() });
        }
        Ok(Paid { end_to_end_id, txid, amount, horario: rfc3339(now_ms) })
    }

    /// Returns a Pix of the client that is visible now.
    pub(super) fn own_pix(&self, Call { now_ms, client }: Call, end_to_end_id: &str) -> Result<&Pix> {
        self.tables
            .pix
            .get(end_to_end_id)
            .filter(|pix| pix.client == client && pix.visible_ms <= now_ms)
            .ok_or_else(|| Problem::not_found("PixNaoEncontrado"))
    }

    pub(crate) fn get_pix(&mut self, call: Call, end_to_end_id: &str) -> Result<Value> {
        let mut answer = self.own_pix(call, end_to_end_id)?.json(self.behaviour);
        if self.faults.take(FaultKind::ReadBack404) {
            return Err(Problem::not_found("PixNaoEncontrado"));
        }
        if self.faults.take(FaultKind::MalformedPix) {
            answer.as_object_mut().and_then(|pix| pix.remove("valor"));
        }
        Ok(answer)
    }

    pub(crate) fn list_pix(&mut self, Call { now_ms, client }: Call, query: &Query) -> Result<Value> {
        const KIND: &str = "PixConsultaInvalida";
        let list = ListQuery::parse(query, KIND, self.behaviour)?;
        let flag = |name: &'static str| match query.get(name) {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(_) => {
                Err(Problem::violation(KIND, name, format!("O parâmetro {name} não respeita o schema.")))
            }
        };
        let (with_txid, with_return) = (flag("txIdPresente")?, flag("devolucaoPresente")?);
        let txid = query.get("txid");
        if txid.is_some_and(|txid| !is_alphanumeric(txid, 1..=35)) {
            return Err(Problem::violation(KIND, "txid", "O parâmetro txid não respeita o schema."));
        }
        let tax_id = list.tax_id.as_ref();
        let ignores_payer = tax_id.is_some() && self.faults.take(FaultKind::FilterIgnored);
        let lags = tax_id.is_some() && self.faults.take(FaultKind::FilterLags);
        let is_listed = |pix: &Pix| {
            pix.client == client
                && !lags
                && pix.visible_ms <= now_ms
                && list.includes(pix.at_ms)
                && txid.is_none_or(|txid| pix.txid.as_deref() == Some(txid))
                && with_txid.is_none_or(|present| pix.txid.is_some() == present)
                && with_return.is_none_or(|present| pix.returns.is_empty() != present)
                && (ignores_payer
                    || tax_id
                        .is_none_or(|tax_id| pix.payer.as_ref().is_some_and(|payer| payer.tax_id == *tax_id)))
        };
        let mut listed: Vec<&Pix> = self.tables.pix.values().filter(|pix| is_listed(pix)).collect();
        listed.sort_by_key(|pix| pix.at_ms);
        let (page, mut parameters) = list.page(listed);
        if let Some(tax_id) = tax_id.filter(|_| ignores_payer) {
            parameters.remove(tax_id.field());
        }
        if let Some(txid) = txid {
            parameters.insert("txid".to_owned(), txid.into());
        }
        for (name, value) in [("txIdPresente", with_txid), ("devolucaoPresente", with_return)] {
            if let Some(value) = value {
                parameters.insert(name.to_owned(), value.into());
            }
        }
        let pix: Vec<Value> = page.into_iter().map(|pix| pix.json(self.behaviour)).collect();
        Ok(json!({"parametros": parameters, "pix": pix}))
    }
}
