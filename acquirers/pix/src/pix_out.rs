//! Pix out in the dialect `local`: a Pix that the receiver sends. API Pix has no such route.

use domain::ids::EndToEndId;
use domain::money::Amount;
use domain::pix_key::PixKey;
use domain::time::Timestamp;
use serde_json::{Value, json};

use crate::error::safe_text;
use crate::fields::{Fields, ParseError, amount_text, cut, partial_debug, text_enum};

pub(crate) const MAX_DESCRIPTION_CHARS: usize = 140;

#[derive(Clone, PartialEq, Eq)]
pub struct NewPixOut {
    pub amount: Amount,
    pub key: PixKey,
    /// A text for the payee. Only the first 140 characters are sent.
    pub description: Option<String>,
}

// Omits the text and the key, which may contain personal data.
partial_debug!(NewPixOut { amount });

impl NewPixOut {
    pub(crate) fn body(&self) -> Value {
        let mut body = json!({"valor": amount_text(self.amount), "chave": self.key.as_str()});
        if let (Some(fields), Some(description)) = (body.as_object_mut(), &self.description) {
            fields.insert("descricao".to_owned(), cut(description, MAX_DESCRIPTION_CHARS).into());
        }
        body
    }
}

text_enum! {
    PixOutStatus {
        /// The bank executes it.
        InProgress = "EM_PROCESSAMENTO",
        Completed = "REALIZADO",
        /// The bank could not execute it. The sender still has the money.
        NotRealised = "NAO_REALIZADO",
    }
}

#[derive(Clone, PartialEq, Eq)]
pub struct PixOut {
    pub id: String,
    pub end_to_end_id: Option<EndToEndId>,
    pub amount: Amount,
    pub key: Option<String>,
    pub status: PixOutStatus,
    pub requested_at: Option<Timestamp>,
    pub settled_at: Option<Timestamp>,
    /// The bank's text on the status, at most 500 characters. Documents in it are masked.
    pub reason: Option<String>,
}

impl PixOut {
    pub fn parse(value: &Value) -> Result<Self, ParseError> {
        let fields = Fields::of(value, "pixOut")?;
        let times = fields.object("horario");
        let time = |name| times.and_then(|times| times.time(name));
        Ok(Self {
            id: fields.required_text("id")?.to_owned(),
            end_to_end_id: fields.text("endToEndId").and_then(|id| id.parse().ok()),
            amount: fields.required_amount("valor")?,
            key: fields.owned_text("chave"),
            status: PixOutStatus::parse(fields.required_text("status")?),
            requested_at: time("solicitacao"),
            settled_at: time("liquidacao"),
            reason: fields.text("motivo").map(safe_text),
        })
    }
}

// Omits the payee's key, which is personal data.
partial_debug!(PixOut { id, end_to_end_id, amount, status });
