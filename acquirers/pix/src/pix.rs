use domain::ids::EndToEndId;
use domain::money::Amount;
use domain::tax_id::{Cnpj, Cpf, TaxId};
use domain::time::Timestamp;
use serde_json::{Map, Value};

use crate::devolucao::Devolucao;
use crate::error::{ApiError, safe_text};
use crate::fields::{Fields, ParseError, Raw, partial_debug};

/// The most Pix in one page of a list.
pub const MAX_PAGE_SIZE: u32 = 1_000;

/// The longest id of a malformed item that is kept, in characters.
const MAX_MALFORMED_ID_CHARS: usize = 64;

#[derive(Clone, PartialEq)]
pub struct Pix {
    pub end_to_end_id: EndToEndId,
    /// The txid of the cob that it paid. A Pix without a cob has another one, or none.
    pub txid: Option<String>,
    pub amount: Amount,
    pub key: Option<String>,
    /// When it was settled (`horario`).
    pub at: Timestamp,
    pub payer: Payer,
    /// All its returns, also those that were not executed.
    pub returns: Vec<Devolucao>,
    pub raw: Raw,
}

/// What the bank reports of the payer. `pagador` is an extension of many banks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payer {
    /// The whole document, with correct check digits.
    Document(TaxId),
    /// A part of the document, or another text that is not a valid document.
    Masked,
    NotReported,
}

impl Pix {
    /// Parses a Pix as the bank sent it in an answer or a callback.
    ///
    /// A return that can't be read makes the whole Pix malformed. Otherwise the sum of its returns would be
    /// wrong, and the same money could be returned again.
    pub fn parse(value: &Value) -> Result<Self, ParseError> {
        let fields = Fields::of(value, "pix")?;
        let returns = match fields.value("devolucoes") {
            None => Vec::new(),
            Some(Value::Array(returns)) => returns.iter().map(Devolucao::parse).collect::<Result<_, _>>()?,
            Some(_) => return Err(ParseError { field: "devolucoes", expected: "a list" }),
        };
        let end_to_end_id = fields.required_text("endToEndId")?.parse();
        Ok(Self {
            end_to_end_id: end_to_end_id
                .map_err(|_| ParseError { field: "endToEndId", expected: "1 to 64 letters and digits" })?,
            txid: fields.owned_text("txid"),
            amount: fields.required_amount("valor")?,
            key: fields.owned_text("chave"),
            at: fields.required_time("horario")?,
            payer: Payer::parse(fields),
            returns,
            raw: fields.raw(),
        })
    }
}

impl Pix {
    /// Returns the payer's message (`infoPagador`), with documents masked.
    pub fn payer_message(&self) -> Option<String> {
        Fields::new(self.raw.as_map()).text("infoPagador").map(safe_text)
    }

    /// Returns the payer's document as far as it may be shown: a whole one is masked, and one that the bank
    /// masked is as the bank sent it.
    pub fn masked_payer(&self) -> Option<String> {
        match self.payer {
            Payer::Document(document) => Some(document.masked()),
            Payer::Masked => {
                let payer = Fields::new(self.raw.as_map()).object("pagador")?;
                payer.text("cpf").or_else(|| payer.text("cnpj")).map(safe_text)
            }
            Payer::NotReported => None,
        }
    }
}

// Omits the receiver's key and the object as sent, which contain personal data.
partial_debug!(Pix { end_to_end_id, txid, amount, at, payer, returns });

impl Payer {
    fn parse(pix: Fields<'_>) -> Self {
        pix.object("pagador").map_or(Self::NotReported, Self::of)
    }

    fn of(payer: Fields<'_>) -> Self {
        let is_reported = |name| payer.value(name).is_some_and(|value| value.as_str() != Some(""));
        // Some banks write `529.982.247-25`, which the Central Bank's document does not allow.
        let text = |name| payer.text(name).map(|text| text.replace(['.', '-', '/'], ""));
        let cpf = text("cpf").and_then(|text| Cpf::parse(&text).ok()).map(TaxId::Cpf);
        let cnpj = text("cnpj").and_then(|text| Cnpj::parse(&text).ok()).map(TaxId::Cnpj);
        match (cpf, cnpj) {
            // Two documents of one payer prove neither.
            (Some(_), Some(_)) => Self::Masked,
            (Some(document), None) | (None, Some(document)) => Self::Document(document),
            (None, None) if is_reported("cpf") || is_reported("cnpj") => Self::Masked,
            (None, None) => Self::NotReported,
        }
    }

    pub fn document(self) -> Option<TaxId> {
        match self {
            Self::Document(tax_id) => Some(tax_id),
            Self::Masked | Self::NotReported => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PixQuery {
    /// The first time of the period, by `horario`.
    pub from: Timestamp,
    pub to: Timestamp,
    pub txid: Option<String>,
    pub payer: Option<TaxId>,
    /// Only Pix with a return, or only Pix without one.
    pub with_return: Option<bool>,
    pub page: u32,
    /// The most Pix in a page: 1 to [`MAX_PAGE_SIZE`]. Other values are replaced by the nearest.
    pub page_size: u32,
}

impl PixQuery {
    /// Returns a query of all Pix of a period, for its first page of the largest size.
    pub fn period(from: Timestamp, to: Timestamp) -> Self {
        Self { from, to, txid: None, payer: None, with_return: None, page: 0, page_size: MAX_PAGE_SIZE }
    }

    pub(crate) fn parameters(&self) -> Vec<(&'static str, String)> {
        let mut parameters = vec![("inicio", self.from.to_iso()), ("fim", self.to.to_iso())];
        parameters.extend(self.txid.as_ref().map(|txid| ("txid", txid.clone())));
        parameters.extend(self.payer.map(|payer| {
            let name = match payer {
                TaxId::Cpf(_) => "cpf",
                TaxId::Cnpj(_) => "cnpj",
            };
            (name, payer.as_str().to_owned())
        }));
        parameters.extend(self.with_return.map(|is_present| ("devolucaoPresente", is_present.to_string())));
        parameters.push(("paginacao.paginaAtual", self.page.to_string()));
        parameters.push(("paginacao.itensPorPagina", self.page_size.clamp(1, MAX_PAGE_SIZE).to_string()));
        parameters
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct PixPage {
    pub pix: Vec<Pix>,
    pub malformed: Vec<MalformedItem>,
    pub page: u32,
    pub pages: u32,
    /// The number of Pix in all pages, where the bank reports it.
    pub total: Option<u64>,
    /// The payer by whom the bank says it filtered.
    pub payer: Option<TaxId>,
}

impl PixPage {
    /// Parses a page. `requested` is the number of the page that was requested.
    pub(crate) fn parse(body: &Map<String, Value>, requested: u32) -> Result<Self, ApiError> {
        let malformed = |reason: &str| ApiError::Malformed(reason.to_owned());
        let body = Fields::new(body);
        let items = body.value("pix").and_then(Value::as_array);
        let items = items.ok_or_else(|| malformed("`pix` must be a list"))?;
        let parameters = body.object("parametros");
        let paging = parameters.and_then(|parameters| parameters.object("paginacao"));
        let paging = paging.ok_or_else(|| malformed("`parametros.paginacao` must be an object"))?;
        let pages = paging.integer("quantidadeDePaginas").and_then(|pages| u32::try_from(pages).ok());
        let pages =
            pages.ok_or_else(|| malformed("`quantidadeDePaginas` must be an integer of at least 0"))?;
        // A bank that ignores the page number would send the first page again and again.
        let page = paging.integer("paginaAtual").map_or(Ok(requested), u32::try_from);
        if page != Ok(requested) {
            return Err(malformed("`paginaAtual` must be the requested page"));
        }
        let (pix, malformed) = split(items);
        let total = paging.integer("quantidadeTotalDeItens").and_then(|total| u64::try_from(total).ok());
        let payer = parameters.and_then(|parameters| Payer::of(parameters).document());
        Ok(Self { pix, malformed, page: requested, pages, total, payer })
    }
}

#[derive(Clone, PartialEq)]
pub struct MalformedItem {
    /// Its end-to-end id as the bank sent it, at most 64 characters.
    pub end_to_end_id: Option<String>,
    pub reason: ParseError,
    /// The item as the bank sent it. Not for logs.
    pub raw: Value,
}

// Omits the item, which may contain personal data.
partial_debug!(MalformedItem { reason });

pub(crate) fn split(items: &[Value]) -> (Vec<Pix>, Vec<MalformedItem>) {
    let (mut pix, mut malformed) = (Vec::new(), Vec::new());
    for item in items {
        match Pix::parse(item) {
            Ok(item) => pix.push(item),
            Err(reason) => {
                let id = item.get("endToEndId").and_then(Value::as_str);
                let end_to_end_id = id.map(|id| id.chars().take(MAX_MALFORMED_ID_CHARS).collect());
                malformed.push(MalformedItem { end_to_end_id, reason, raw: item.clone() });
            }
        }
    }
    (pix, malformed)
}
