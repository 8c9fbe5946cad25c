use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};

use crate::problem::{Problem, Violations};
use crate::profile::Behaviour;
use crate::values::{TaxId, parse_rfc3339, rfc3339};

/// The parameter with the number of the page, counted from 0.
const PAGE: &str = "paginacao.paginaAtual";

#[derive(Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        Self(url::form_urlencoded::parse(text.as_bytes()).into_owned().collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Decodes a segment of a path. `None` if the text is not UTF-8.
pub(crate) fn decode_segment(segment: &str) -> Option<String> {
    percent_decode_str(segment).decode_utf8().ok().map(Into::into)
}

/// A page of a list, and the period and persons that it is limited to.
#[derive(Debug)]
pub(crate) struct ListQuery {
    pub(crate) from_ms: i64,
    pub(crate) to_ms: i64,
    pub(crate) tax_id: Option<TaxId>,
    page: usize,
    page_size: usize,
}

impl ListQuery {
    /// Reads the parameters that all lists have. `kind` names the problem of an invalid list request.
    pub(crate) fn parse(query: &Query, kind: &'static str, behaviour: &Behaviour) -> Result<Self, Problem> {
        let mut violations = Violations::default();
        let from_ms = query.get("inicio").and_then(parse_rfc3339);
        let to_ms = query.get("fim").and_then(parse_rfc3339);
        match (from_ms, to_ms) {
            (Some(from_ms), Some(to_ms)) => {
                if to_ms < from_ms {
                    violations.add("fim", "O timestamp do parâmetro fim é anterior ao do parâmetro inicio.");
                } else if to_ms.saturating_sub(from_ms) > behaviour.max_period_s.saturating_mul(1_000) {
                    violations.add("fim", "O período excede o máximo que este PSP permite.");
                }
            }
            (None, _) => violations.add("inicio", "O parâmetro inicio não respeita o schema."),
            (Some(_), None) => violations.add("fim", "O parâmetro fim não respeita o schema."),
        }
        let invalid = "O documento não respeita o schema.";
        let tax_id = match (query.get("cpf"), query.get("cnpj")) {
            (Some(_), Some(_)) => {
                violations.add("cpf", "Ambos os parâmetros cpf e cnpj estão preenchidos.");
                None
            }
            (Some(cpf), None) => violations.require(TaxId::cpf(cpf), "cpf", invalid),
            (None, Some(cnpj)) => violations.require(TaxId::cnpj(cnpj), "cnpj", invalid),
            (None, None) => None,
        };
        let mut number = |name: &'static str, default: usize| {
            let number: Option<usize> = query.get(name).map_or(Some(default), |text| text.parse().ok());
            let number = number.filter(|number| name == PAGE || (1..=1_000).contains(number));
            violations.require(number, name, &format!("O parâmetro {name} não respeita o schema."))
        };
        let (page, page_size) = (number(PAGE, 0), number("paginacao.itensPorPagina", 100));
        let list = || {
            let (from_ms, to_ms) = from_ms.zip(to_ms)?;
            Some(Self { from_ms, to_ms, tax_id, page: page?, page_size: page_size? })
        };
        violations.none_in(list(), kind)
    }

    /// Returns one page of the items, and `parametros`.
    pub(crate) fn page<T>(&self, items: Vec<T>) -> (Vec<T>, Map<String, Value>) {
        let total = items.len();
        // A list without items has one page, which is empty.
        let pages = total.div_ceil(self.page_size).max(1);
        let start = self.page.saturating_mul(self.page_size);
        let page = items.into_iter().skip(start).take(self.page_size).collect();
        let mut parameters = Map::new();
        parameters.insert("inicio".to_owned(), rfc3339(self.from_ms).into());
        parameters.insert("fim".to_owned(), rfc3339(self.to_ms).into());
        if let Some(tax_id) = &self.tax_id {
            parameters.insert(tax_id.field().to_owned(), tax_id.digits().into());
        }
        parameters.insert(
            "paginacao".to_owned(),
            json!({
                "paginaAtual": self.page,
                "itensPorPagina": self.page_size,
                "quantidadeDePaginas": pages,
                "quantidadeTotalDeItens": total,
            }),
        );
        (page, parameters)
    }

    /// True if the time is in the period. Both ends belong to it.
    pub(crate) fn includes(&self, at_ms: i64) -> bool {
        (self.from_ms..=self.to_ms).contains(&at_ms)
    }
}
