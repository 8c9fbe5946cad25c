use domain::money::Amount;
use domain::pix_key::PixKey;
use domain::tax_id::TaxId;
use domain::time::Timestamp;
use serde_json::{Value, json};

use crate::fields::{Fields, ParseError, Raw, amount_text, cut, partial_debug, text_enum};
use crate::pix::{MalformedItem, Pix, split};

const MAX_NAME_CHARS: usize = 200;

const MAX_PAYER_REQUEST_CHARS: usize = 140;

/// The lifetime of a cob whose `expiracao` is absent, in seconds: the default of the Central Bank's document.
const DEFAULT_EXPIRY_SECONDS: i64 = 86_400;

#[derive(Clone, PartialEq, Eq)]
pub struct NewCob {
    pub amount: Amount,
    /// How long the cob can be paid, in seconds from its creation by the bank's clock.
    pub expires_in_seconds: u32,
    pub key: PixKey,
    pub debtor: Option<Debtor>,
    /// A text that the payer's app shows. Only the first 140 characters are sent.
    pub payer_request: Option<String>,
}

/// The expected payer of a cob. It does not restrict who pays.
#[derive(Clone, PartialEq, Eq)]
pub struct Debtor {
    pub tax_id: TaxId,
    /// The name. Only the first 200 characters are sent.
    pub name: String,
}

// Omits the name, which is personal data.
partial_debug!(Debtor { tax_id });

// Omits the texts and the key, which may contain personal data.
partial_debug!(NewCob { amount, expires_in_seconds });

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
        Active = "ATIVA",
        Completed = "CONCLUIDA",
        RemovedByReceiver = "REMOVIDA_PELO_USUARIO_RECEBEDOR" | "REMOVIDO_PELO_USUARIO_RECEBEDOR",
        RemovedByPsp = "REMOVIDA_PELO_PSP" | "REMOVIDO_PELO_PSP",
    }
}

#[derive(Clone, PartialEq)]
pub struct Cob {
    pub txid: String,
    pub status: CobStatus,
    /// When the bank created it, by the bank's clock.
    pub created_at: Timestamp,
    /// How long it can be paid from then, in seconds.
    pub expires_in_seconds: i64,
    pub amount: Amount,
    pub key: Option<String>,
    /// The address of the payload, without a scheme.
    pub location: Option<String>,
    /// The BR Code, where the bank makes one. It is as the bank sent it: check it before a payer sees it.
    pub copia_e_cola: Option<String>,
    pub pix: Vec<Pix>,
    pub malformed: Vec<MalformedItem>,
    pub raw: Raw,
}

impl Cob {
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

// Omits the key, the BR Code and the object as sent, which contain personal data.
partial_debug!(Cob { txid, status, created_at, expires_in_seconds, amount, pix, malformed });

fn without_scheme(location: &str) -> &str {
    location.split_once("://").map_or(location, |(_, rest)| rest)
}
