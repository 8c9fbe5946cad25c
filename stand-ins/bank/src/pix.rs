use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::cob::Person;
use crate::profile::Behaviour;
use crate::values::{Cents, rfc3339, without_nulls};

const NOT_EXECUTED: &str = "A instituição do destinatário recusou a transação.";

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Pix {
    pub(crate) client: usize,
    pub(crate) end_to_end_id: String,
    /// The txid that reads and callbacks show.
    pub(crate) txid: Option<String>,
    pub(crate) cob: Option<String>,
    pub(crate) key: String,
    pub(crate) amount: Cents,
    pub(crate) at_ms: i64,
    /// Reads and callbacks show the Pix from this time on.
    pub(crate) visible_ms: i64,
    pub(crate) payer: Option<Person>,
    pub(crate) is_payer_masked: bool,
    pub(crate) returns: Vec<Devolucao>,
}

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
    pub(crate) fn settle(&mut self, at_ms: i64) {
        self.progress =
            if self.is_to_be_executed { Progress::Executed { at_ms } } else { Progress::NotExecuted };
    }

    /// Adds the transfer's fields to those of its kind. `executed` is the status of an executed transfer.
    fn json(&self, kind: Value, executed: &str) -> Value {
        let (status, settled_ms, reason) = match self.progress {
            Progress::Pending => ("EM_PROCESSAMENTO", None, None),
            Progress::Executed { at_ms } => (executed, Some(at_ms), None),
            Progress::NotExecuted => ("NAO_REALIZADO", None, Some(NOT_EXECUTED)),
        };
        let mut fields = without_nulls(json!({
            "id": self.id,
            "valor": self.amount.to_string(),
            "horario": without_nulls(json!({
                "solicitacao": rfc3339(self.requested_ms),
                "liquidacao": settled_ms.map(rfc3339),
            })),
            "status": status,
            "motivo": reason,
            "descricao": self.description,
        }));
        fields.extend(without_nulls(kind));
        fields.into()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MedNature {
    Fraud,
    Operational,
    AutomaticPix,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) enum Nature {
    /// `ORIGINAL`: the receiver requested it.
    Original,
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
        let value = behaviour.shows_key.then(|| json!({"original": {"valor": amount}}));
        let payer = self.payer.as_ref().filter(|_| behaviour.shows_payer).map(|payer| {
            let document =
                if self.is_payer_masked { payer.tax_id.masked() } else { payer.tax_id.digits().to_owned() };
            json!({payer.tax_id.field(): document, "nome": payer.name})
        });
        let returns: Vec<Value> = self.returns.iter().map(Devolucao::json).collect();
        let fields = without_nulls(json!({
            "endToEndId": self.end_to_end_id,
            "valor": amount,
            "horario": rfc3339(self.at_ms),
            "txid": self.txid,
            "chave": behaviour.shows_key.then_some(&self.key),
            "componentesValor": value,
            "pagador": payer,
            "devolucoes": (!returns.is_empty()).then_some(returns),
        }));
        fields.into()
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
