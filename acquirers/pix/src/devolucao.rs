//! The return of a Pix, or of a part of it (*devolução*).

use domain::ids::ReturnId;
use domain::money::Amount;
use domain::time::Timestamp;
use serde_json::Value;

use crate::error::safe_text;
use crate::fields::{Fields, ParseError, text_enum};

text_enum! {
    /// Why a Pix was returned (`natureza`).
    Nature {
        /// The receiver returned it. Also where the bank reports no `natureza`.
        Original = "ORIGINAL",
        /// The receiver returned a withdrawal (Pix Saque or Pix Troco).
        Withdrawal = "RETIRADA",
        /// A bank claimed it by MED after an operational failure.
        MedOperational = "MED_OPERACIONAL",
        /// A bank claimed it by MED on suspicion of fraud.
        MedFraud = "MED_FRAUDE",
        /// A bank claimed it by MED after an error of Pix Automático.
        MedAutomaticPix = "MED_PIX_AUTOMATICO",
    }
}

text_enum! {
    DevolucaoStatus {
        /// The bank executes it.
        InProgress = "EM_PROCESSAMENTO",
        Returned = "DEVOLVIDO",
        /// The bank could not execute it. The receiver still has the money.
        NotRealised = "NAO_REALIZADO",
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Devolucao {
    /// The id that the receiver chose. For a return by MED, the bank chose it.
    pub id: String,
    pub rtr_id: Option<ReturnId>,
    pub amount: Amount,
    pub nature: Nature,
    pub status: DevolucaoStatus,
    pub requested_at: Option<Timestamp>,
    /// When the payer got the money.
    pub settled_at: Option<Timestamp>,
    /// The bank's text on the status, at most 500 characters. Documents in it are masked.
    pub reason: Option<String>,
}

impl Devolucao {
    pub fn parse(value: &Value) -> Result<Self, ParseError> {
        let fields = Fields::of(value, "devolucao")?;
        let times = fields.object("horario");
        let time = |name| times.and_then(|times| times.time(name));
        Ok(Self {
            id: fields.required_text("id")?.to_owned(),
            rtr_id: fields.text("rtrId").and_then(|id| id.parse().ok()),
            amount: fields.required_amount("valor")?,
            nature: fields.text("natureza").map_or(Nature::Original, Nature::parse),
            status: DevolucaoStatus::parse(fields.required_text("status")?),
            requested_at: time("solicitacao"),
            settled_at: time("liquidacao"),
            reason: fields.text("motivo").map(safe_text),
        })
    }
}
