//! An immediate charge at the bank (*cob*).

use std::fmt;

use domain::money::Amount;
use domain::pix_key::PixKey;
use domain::tax_id::TaxId;
use domain::time::Timestamp;
use serde_json::{Value, json};

use crate::fields::{Fields, ParseError, Raw, amount_text, cut, text_enum};
use crate::pix::{MalformedItem, Pix, split};

/// The longest `devedor.nome`, in characters.
const MAX_NAME_CHARS: usize = 200;

/// The longest `solicitacaoPagador`, in characters.
const MAX_PAYER_REQUEST_CHARS: usize = 140;

/// The lifetime of a cob whose `expiracao` is absent, in seconds: the default of the Central Bank's document.
const DEFAULT_EXPIRY_SECONDS: i64 = 86_400;

/// The request of a cob.
#[derive(Clone, PartialEq, Eq)]
pub struct NewCob {
    /// The amount.
    pub amount: Amount,
    /// How long the cob can be paid, in seconds from its creation by the bank's clock.
    pub expires_in_seconds: u32,
    /// The Pix key of the receiver.
    pub key: PixKey,
    /// The expected payer.
    pub debtor: Option<Debtor>,
    /// A text that the payer's app shows. Only the first 140 characters are sent.
    pub payer_request: Option<String>,
}

/// The expected payer of a cob. It does not restrict who pays.
#[derive(Clone, PartialEq, Eq)]
pub struct Debtor {
    /// The document.
    pub tax_id: TaxId,
    /// The name. Only the first 200 characters are sent.
    pub name: String,
}

/// Omits the name, which is personal data.
impl fmt::Debug for Debtor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Debtor").field("tax_id", &self.tax_id).finish_non_exhaustive()
    }
}

/// Omits the texts and the key, which may contain personal data.
impl fmt::Debug for NewCob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewCob")
            .field("amount", &self.amount)
            .field("expires_in_seconds", &self.expires_in_seconds)
            .finish_non_exhaustive()
    }
}

impl NewCob {
    pub(crate) fn body(&self) -> Value {
        let mut body = json!({
            "calendario": {"expiracao": self.expires_in_seconds},
            "valor": {"original": amount_text(self.amount)},
            "chave": self.key.as_str(),
        });
        if let Some(fields) = body.as_object_mut() {
            if let Some(debtor) = &self.debtor {
                fields.insert("devedor".to_owned(), debtor.body());
            }
            if let Some(text) = &self.payer_request {
                fields.insert("solicitacaoPagador".to_owned(), cut(text, MAX_PAYER_REQUEST_CHARS).into());
            }
        }
        body
    }
}

impl Debtor {
    fn body(&self) -> Value {
        let field = match self.tax_id {
            TaxId::Cpf(_) => "cpf",
            TaxId::Cnpj(_) => "cnpj",
        };
        json!({field: self.tax_id.as_str(), "nome": cut(&self.name, MAX_NAME_CHARS)})
    }
}

text_enum! {
    /// The status of a cob. An expired cob is still active.
    CobStatus {
        /// It can be paid until it expires.
        Active = "ATIVA",
        /// It was paid.
        Completed = "CONCLUIDA",
        /// The receiver removed it.
        RemovedByReceiver = "REMOVIDA_PELO_USUARIO_RECEBEDOR" | "REMOVIDO_PELO_USUARIO_RECEBEDOR",
        /// The bank removed it.
        RemovedByPsp = "REMOVIDA_PELO_PSP" | "REMOVIDO_PELO_PSP",
    }
}

/// An immediate charge at the bank.
#[derive(Clone, PartialEq)]
pub struct Cob {
    /// The id that the receiver chose.
    pub txid: String,
    /// The status.
    pub status: CobStatus,
    /// When the bank created it, by the bank's clock.
    pub created_at: Timestamp,
    /// How long it can be paid from then, in seconds.
    pub expires_in_seconds: i64,
    /// The amount.
    pub amount: Amount,
    /// The Pix key of the receiver.
    pub key: Option<String>,
    /// The address of the payload, without a scheme.
    pub location: Option<String>,
    /// The BR Code, where the bank makes one. It is as the bank sent it: check it before a payer sees it.
    pub copia_e_cola: Option<String>,
    /// The Pix that paid it.
    pub pix: Vec<Pix>,
    /// Pix of it that can't be read.
    pub malformed: Vec<MalformedItem>,
    /// The object as the bank sent it.
    pub raw: Raw,
}

impl Cob {
    /// Parses a cob as the bank sent it.
    pub fn parse(value: &Value) -> Result<Self, ParseError> {
        let fields = Fields::of(value, "cob")?;
        let object =
            |name: &'static str| fields.object(name).ok_or(ParseError { field: name, expected: "an object" });
        let calendar = object("calendario")?;
        let expires_in_seconds = match calendar.value("expiracao") {
            None => Some(DEFAULT_EXPIRY_SECONDS),
            Some(_) => calendar.integer("expiracao").filter(|seconds| *seconds > 0),
        };
        let location = fields.text("location").or_else(|| fields.object("loc")?.text("location"));
        let (pix, malformed) = split(fields.list("pix"));
        Ok(Self {
            txid: fields.required_text("txid")?.to_owned(),
            status: CobStatus::parse(fields.required_text("status")?),
            created_at: calendar.required_time("criacao")?,
            expires_in_seconds: expires_in_seconds
                .ok_or(ParseError { field: "expiracao", expected: "an integer above zero" })?,
            amount: object("valor")?.required_amount("original")?,
            key: fields.owned_text("chave"),
            location: location.map(without_scheme).map(str::to_owned),
            copia_e_cola: fields.owned_text("pixCopiaECola"),
            pix,
            malformed,
            raw: fields.raw(),
        })
    }
}

/// Omits the key, the BR Code and the object as sent, which contain personal data.
impl fmt::Debug for Cob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cob")
            .field("txid", &self.txid)
            .field("status", &self.status)
            .field("created_at", &self.created_at)
            .field("expires_in_seconds", &self.expires_in_seconds)
            .field("amount", &self.amount)
            .field("pix", &self.pix)
            .field("malformed", &self.malformed)
            .finish_non_exhaustive()
    }
}

fn without_scheme(location: &str) -> &str {
    location.split_once("://").map_or(location, |(_, rest)| rest)
}
