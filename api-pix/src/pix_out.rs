//! Pix out in the dialect `local`: a Pix that the receiver sends. API Pix has no such route.

use std::fmt;

use domain::ids::EndToEndId;
use domain::money::Amount;
use domain::pix_key::PixKey;
use domain::time::Timestamp;
use serde_json::{Value, json};

use crate::error::safe_text;
use crate::fields::{Fields, ParseError, amount_text, cut, text_enum};

/// The longest `descricao`, in characters.
pub(crate) const MAX_DESCRIPTION_CHARS: usize = 140;

/// The request of a Pix out.
#[derive(Clone, PartialEq, Eq)]
pub struct NewPixOut {
    /// The amount.
    pub amount: Amount,
    /// The Pix key of the payee.
    pub key: PixKey,
    /// A text for the payee. Only the first 140 characters are sent.
    pub description: Option<String>,
}

/// Omits the text and the key, which may contain personal data.
impl fmt::Debug for NewPixOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewPixOut").field("amount", &self.amount).finish_non_exhaustive()
    }
}

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
    /// The status of a Pix out.
    PixOutStatus {
        /// The bank executes it.
        InProgress = "EM_PROCESSAMENTO",
        /// The payee has the money.
        Completed = "REALIZADO",
        /// The bank could not execute it. The sender still has the money.
        NotRealised = "NAO_REALIZADO",
    }
}

/// A Pix that was sent.
#[derive(Clone, PartialEq, Eq)]
pub struct PixOut {
    /// The id that the sender chose.
    pub id: String,
    /// The id of the Pix.
    pub end_to_end_id: Option<EndToEndId>,
    /// The amount.
    pub amount: Amount,
    /// The Pix key of the payee.
    pub key: Option<String>,
    /// The status.
    pub status: PixOutStatus,
    /// When it was requested.
    pub requested_at: Option<Timestamp>,
    /// When the payee got the money.
    pub settled_at: Option<Timestamp>,
    /// The bank's text on the status, at most 500 characters. Documents in it are masked.
    pub reason: Option<String>,
}

impl PixOut {
    /// Parses a Pix out as the bank sent it.
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

/// Omits the payee's key, which is personal data.
impl fmt::Debug for PixOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PixOut")
            .field("id", &self.id)
            .field("end_to_end_id", &self.end_to_end_id)
            .field("amount", &self.amount)
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}
