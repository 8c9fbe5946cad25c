//! Received Pix, their devoluções, and Pix out.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::cob::Person;
use crate::profile::Behaviour;
use crate::values::{Cents, rfc3339};

/// The reason that a transfer was not executed.
const NOT_EXECUTED: &str = "A instituição do destinatário recusou a transação.";

/// A Pix that was received.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Pix {
    pub(crate) client: usize,
    pub(crate) end_to_end_id: String,
    /// The txid that reads and callbacks show.
    pub(crate) txid: Option<String>,
    /// The cob that it paid.
    pub(crate) cob: Option<String>,
    pub(crate) key: String,
    pub(crate) amount: Cents,
    pub(crate) at_ms: i64,
    /// Reads and callbacks show the Pix from this time on.
    pub(crate) visible_ms: i64,
    pub(crate) payer: Option<Person>,
    pub(crate) is_payer_masked: bool,
    pub(crate) payer_message: Option<String>,
    pub(crate) returns: Vec<Devolucao>,
}

/// The status of a devolução or a Pix out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) enum Progress {
    Pending,
    Executed { at_ms: i64 },
    NotExecuted,
}

/// Money that leaves the account: what a devolução and a Pix out have in common.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Transfer {
    pub(crate) id: String,
    pub(crate) amount: Cents,
    pub(crate) description: Option<String>,
    pub(crate) requested_ms: i64,
    pub(crate) progress: Progress,
    pub(crate) is_to_be_executed: bool,
}

impl Transfer {
    /// Makes the transfer final.
    pub(crate) fn settle(&mut self, at_ms: i64) {
        self.progress =
            if self.is_to_be_executed { Progress::Executed { at_ms } } else { Progress::NotExecuted };
    }

    /// Adds the transfer's fields to those of its kind. `executed` is the status of an executed transfer.
    fn json(&self, mut fields: Value, executed: &str) -> Value {
        let mut times = json!({"solicitacao": rfc3339(self.requested_ms)});
        let status = match self.progress {
            Progress::Pending => "EM_PROCESSAMENTO",
            Progress::Executed { at_ms } => {
                insert(&mut times, "liquidacao", rfc3339(at_ms));
                executed
            }
            Progress::NotExecuted => {
                insert(&mut fields, "motivo", NOT_EXECUTED);
                "NAO_REALIZADO"
            }
        };
        insert(&mut fields, "id", self.id.as_str());
        insert(&mut fields, "valor", self.amount.to_string());
        insert(&mut fields, "horario", times);
        insert(&mut fields, "status", status);
        if let Some(description) = &self.description {
            insert(&mut fields, "descricao", description.as_str());
        }
        fields
    }
}

/// The `natureza` of a return by MED.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum MedNature {
    /// `MED_FRAUDE`.
    Fraud,
    /// `MED_OPERACIONAL`.
    Operational,
    /// `MED_PIX_AUTOMATICO`.
    AutomaticPix,
}

/// The `natureza` of a devolução.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) enum Nature {
    /// `ORIGINAL`: the receiver requested it.
    Original,
    /// A return by MED.
    Med(MedNature),
}

impl Nature {
    fn name(self) -> &'static str {
        match self {
            Self::Original => "ORIGINAL",
            Self::Med(MedNature::Fraud) => "MED_FRAUDE",
            Self::Med(MedNature::Operational) => "MED_OPERACIONAL",
            Self::Med(MedNature::AutomaticPix) => "MED_PIX_AUTOMATICO",
        }
    }
}

/// A return of a Pix, or of a part of it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Devolucao {
    pub(crate) rtr_id: String,
    pub(crate) nature: Nature,
    pub(crate) transfer: Transfer,
}

impl Devolucao {
    pub(crate) fn json(&self) -> Value {
        self.transfer.json(json!({"rtrId": self.rtr_id, "natureza": self.nature.name()}), "DEVOLVIDO")
    }
}

impl Pix {
    /// Returns the part of the amount that no devolução has returned or is about to return.
    pub(crate) fn returnable(&self) -> u64 {
        let open_or_returned = self.returns.iter().map(|item| &item.transfer);
        let open_or_returned = open_or_returned.filter(|item| item.progress != Progress::NotExecuted);
        self.amount.get().saturating_sub(Cents::sum(open_or_returned.map(|item| item.amount)))
    }

    /// Returns the Pix as this bank's reads and callbacks show it.
    pub(crate) fn json(&self, behaviour: &Behaviour) -> Value {
        let amount = self.amount.to_string();
        let mut fields = json!({
            "endToEndId": self.end_to_end_id,
            "valor": amount,
            "horario": rfc3339(self.at_ms),
        });
        if let Some(txid) = &self.txid {
            insert(&mut fields, "txid", txid.as_str());
        }
        if behaviour.shows_key {
            insert(&mut fields, "chave", self.key.as_str());
            insert(&mut fields, "componentesValor", json!({"original": {"valor": amount}}));
        }
        if let Some(message) = &self.payer_message {
            insert(&mut fields, "infoPagador", message.as_str());
        }
        if let (true, Some(payer)) = (behaviour.shows_payer, &self.payer) {
            let document =
                if self.is_payer_masked { payer.tax_id.masked() } else { payer.tax_id.digits().to_owned() };
            insert(&mut fields, "pagador", json!({payer.tax_id.field(): document, "nome": payer.name}));
        }
        if !self.returns.is_empty() {
            let returns: Vec<Value> = self.returns.iter().map(Devolucao::json).collect();
            insert(&mut fields, "devolucoes", returns);
        }
        fields
    }
}

/// A Pix that a client sends. API Pix has no such route: this is an extension of this bank.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct PixOut {
    pub(crate) end_to_end_id: String,
    pub(crate) key: String,
    pub(crate) transfer: Transfer,
}

impl PixOut {
    pub(crate) fn json(&self) -> Value {
        self.transfer.json(json!({"endToEndId": self.end_to_end_id, "chave": self.key}), "REALIZADO")
    }
}

fn insert(object: &mut Value, name: &str, value: impl Into<Value>) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert(name.to_owned(), value.into());
    }
}

/// Reads an optional text of at most 140 characters. `Err` if the field has another content.
pub(crate) fn description(body: &Map<String, Value>) -> Result<Option<String>, ()> {
    match body.get("descricao") {
        None => Ok(None),
        Some(value) => value
            .as_str()
            .filter(|text| text.chars().count() <= 140)
            .map(|text| Some(text.to_owned()))
            .ok_or(()),
    }
}
