//! Immediate charges (`cob`): their requests, their revisions and their JSON.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use strum::AsRefStr;

use crate::problem::{Problem, Violations};
use crate::values::{Cents, TaxId, rfc3339, without_nulls};

/// The longest lifetime of a cob, in seconds. The Central Bank's document declares it as `int32`.
const EXPIRACAO_MAX_S: i64 = 2_147_483_647;

/// The kind of the problem of a request that creates or changes a cob.
pub(crate) const OPERATION: &str = "CobOperacaoInvalida";

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Person {
    pub(crate) tax_id: TaxId,
    pub(crate) name: String,
}

impl Person {
    pub(crate) fn json(&self) -> Value {
        json!({self.tax_id.field(): self.tax_id.digits(), "nome": self.name})
    }
}

/// The status of a cob. An expired cob is still active.
#[derive(AsRefStr, Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) enum Status {
    #[strum(serialize = "ATIVA")]
    Active,
    #[strum(serialize = "CONCLUIDA")]
    Paid,
    #[strum(serialize = "REMOVIDA_PELO_USUARIO_RECEBEDOR")]
    RemovedByReceiver,
    #[strum(serialize = "REMOVIDA_PELO_PSP")]
    RemovedByPsp,
}

/// The fields of a cob that the receiver chooses. Each revision has its own.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Terms {
    pub(crate) expiracao_s: i64,
    pub(crate) amount: Cents,
    /// True if the request had `valor.modalidadeAlteracao`. The answer then has it too. It can only be 0.
    pub(crate) has_modality: bool,
    pub(crate) key: String,
    pub(crate) debtor: Option<Person>,
    pub(crate) payer_request: Option<String>,
    pub(crate) additional_info: Option<Value>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Cob {
    pub(crate) txid: String,
    pub(crate) created_ms: i64,
    pub(crate) location_id: u64,
    pub(crate) location: String,
    pub(crate) status: Status,
    /// The terms of each revision. The last is in force. It is never empty.
    revisions: Vec<Terms>,
    /// `None` where the profile or a fault leaves it out.
    pub(crate) br_code: Option<String>,
    pub(crate) paid_by: Vec<String>,
    terms: Terms,
}

impl Cob {
    pub(crate) fn new(
        txid: String,
        created_ms: i64,
        (location_id, location): (u64, String),
        terms: Terms,
        br_code: Option<String>,
    ) -> Self {
        Self {
            txid,
            created_ms,
            location_id,
            location,
            status: Status::Active,
            revisions: vec![terms.clone()],
            br_code,
            paid_by: Vec::new(),
            terms,
        }
    }

    pub(crate) fn terms(&self) -> &Terms {
        &self.terms
    }

    pub(crate) fn revise(&mut self, terms: Terms) {
        self.revisions.push(terms.clone());
        self.terms = terms;
    }

    /// Removes the cob. The number of its revision increases.
    pub(crate) fn remove(&mut self, status: Status) {
        self.status = status;
        self.revisions.push(self.terms.clone());
    }

    pub(crate) fn expires_ms(&self) -> i64 {
        self.created_ms.saturating_add(self.terms.expiracao_s.saturating_mul(1_000))
    }

    pub(crate) fn json(&self) -> Map<String, Value> {
        self.render(self.revisions.len().saturating_sub(1), &self.terms)
    }

    /// Returns the cob in a revision, counted from 0.
    pub(crate) fn json_of(&self, revision: usize) -> Option<Map<String, Value>> {
        self.revisions.get(revision).map(|terms| self.render(revision, terms))
    }

    fn render(&self, revision: usize, terms: &Terms) -> Map<String, Value> {
        let created = rfc3339(self.created_ms);
        without_nulls(json!({
            "calendario": {"criacao": created, "expiracao": terms.expiracao_s},
            "txid": self.txid,
            "revisao": revision,
            "loc": {
                "id": self.location_id,
                "txid": self.txid,
                "location": self.location,
                "tipoCob": "cob",
                "criacao": created,
            },
            "location": self.location,
            "status": self.status.as_ref(),
            "devedor": terms.debtor.as_ref().map(Person::json),
            "valor": without_nulls(json!({
                "original": terms.amount.to_string(),
                "modalidadeAlteracao": terms.has_modality.then_some(0),
            })),
            "chave": terms.key,
            "solicitacaoPagador": terms.payer_request,
            "infoAdicionais": terms.additional_info,
            "pixCopiaECola": self.br_code,
        }))
    }
}

/// Reads the terms of a request. A request that creates a cob has no `base`; one that revises it changes its
/// base.
pub(crate) fn parse_terms(
    body: &Map<String, Value>,
    base: Option<&Terms>,
    location_id: Option<u64>,
    keys: &[String],
) -> Result<Terms, Problem> {
    let mut violations = Violations::default();

    let seconds = field_or(body, "calendario", base.map(|terms| terms.expiracao_s), |calendar| {
        match calendar.as_object()?.get("expiracao") {
            // The document's default.
            None => Some(base.map_or(86_400, |terms| terms.expiracao_s)),
            Some(value) => value.as_i64().filter(|seconds| (1..=EXPIRACAO_MAX_S).contains(seconds)),
        }
    });
    let reason = "O campo cob.calendario.expiracao é igual ou menor que zero.";
    let expiracao_s = violations.require(seconds, "cob.calendario.expiracao", reason);

    let amount = field_or(body, "valor", base.map(|terms| (terms.amount, terms.has_modality)), parse_amount);
    let amount = violations.require_valid(amount, "cob.valor.original");
    if amount.is_some_and(|(amount, _)| amount.get() == 0) {
        violations.add("cob.valor.original", "O campo cob.valor.original é zero.");
    }

    let key = field_or(body, "chave", base.map(|terms| terms.key.clone()), |value| text(value, 77));
    let key = violations.require_valid(key, "cob.chave");
    if key.as_ref().is_some_and(|key| !keys.contains(key)) {
        let reason = "O campo cob.chave corresponde a uma conta que não pertence a este usuário recebedor.";
        violations.add("cob.chave", reason);
    }

    let before = base.and_then(|terms| terms.debtor.clone());
    let debtor = field_or(body, "devedor", Some(before), |value| parse_person(value).map(Some));
    let reason = "O objeto cob.devedor não respeita o schema.";
    let debtor = violations.require(debtor, "cob.devedor", reason);

    let before = base.and_then(|terms| terms.payer_request.clone());
    let request = field_or(body, "solicitacaoPagador", Some(before), |value| text(value, 140).map(Some));
    let reason = "O campo solicitacaoPagador não respeita o schema.";
    let payer_request = violations.require(request, "cob.solicitacaoPagador", reason);

    let before = base.and_then(|terms| terms.additional_info.clone());
    let info = field_or(body, "infoAdicionais", Some(before), |value| {
        is_additional_info(value).then(|| Some(value.clone()))
    });
    let reason = "O objeto infoAdicionais não respeita o schema.";
    let additional_info = violations.require(info, "cob.infoAdicionais", reason);

    if let Some(location) = body.get("loc") {
        let id = location.get("id").and_then(Value::as_u64).filter(|id| Some(*id) == location_id);
        violations.require(id, "cob.loc.id", "O location referenciado por loc.id inexiste.");
    }
    let terms = || {
        let ((amount, has_modality), payer_request) = (amount?, payer_request?);
        let (expiracao_s, key, debtor, additional_info) = (expiracao_s?, key?, debtor?, additional_info?);
        Some(Terms { expiracao_s, amount, has_modality, key, debtor, payer_request, additional_info })
    };
    violations.none_in(terms(), OPERATION)
}

/// Returns a field of a request. `absent`: the value without the field. `None`: the field is invalid.
pub(crate) fn field_or<T>(
    body: &Map<String, Value>,
    name: &str,
    absent: Option<T>,
    parse: impl Fn(&Value) -> Option<T>,
) -> Option<T> {
    body.get(name).map_or(absent, parse)
}

/// Reads `valor`. The payer can't change the amount here, so `modalidadeAlteracao` 1 and `retirada` are
/// refused.
fn parse_amount(value: &Value) -> Option<(Cents, bool)> {
    let fields = value.as_object()?;
    let is_fixed = fields.get("modalidadeAlteracao").is_none_or(|modality| *modality == 0);
    if !is_fixed || fields.contains_key("retirada") {
        return None;
    }
    let amount = Cents::parse(fields.get("original")?.as_str()?)?;
    Some((amount, fields.contains_key("modalidadeAlteracao")))
}

fn parse_person(value: &Value) -> Option<Person> {
    let fields = value.as_object()?;
    let name = text(fields.get("nome")?, 200)?;
    let tax_id = match (fields.get("cpf"), fields.get("cnpj")) {
        (Some(cpf), None) => TaxId::cpf(cpf.as_str()?)?,
        (None, Some(cnpj)) => TaxId::cnpj(cnpj.as_str()?)?,
        (Some(_), Some(_)) | (None, None) => return None,
    };
    Some(Person { tax_id, name })
}

fn is_additional_info(value: &Value) -> bool {
    let is_item = |item: &Value| {
        item.get("nome").is_some_and(|name| text(name, 50).is_some())
            && item.get("valor").is_some_and(|value| text(value, 200).is_some())
    };
    value.as_array().is_some_and(|items| items.len() <= 50 && items.iter().all(is_item))
}

pub(crate) fn text(value: &Value, max_chars: usize) -> Option<String> {
    value.as_str().filter(|text| text.chars().count() <= max_chars).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(body: &Value) -> Result<Terms, Vec<&'static str>> {
        parse_terms(body.as_object().unwrap(), None, None, &["loja".to_owned()])
            .map_err(|problem| problem.violations.into_iter().map(|violation| violation.property).collect())
    }

    #[test]
    fn an_absent_expiry_is_the_documents_default() {
        let terms = parse(&json!({"calendario": {}, "valor": {"original": "1.00"}, "chave": "loja"}));
        assert_eq!(terms.unwrap().expiracao_s, 86_400);
    }

    #[test]
    fn each_violation_names_its_field() {
        let good = json!({"calendario": {"expiracao": 60}, "valor": {"original": "1.00"}, "chave": "loja"});
        for (field, value, property) in [
            ("calendario", json!({"expiracao": 0}), "cob.calendario.expiracao"),
            ("calendario", json!({"expiracao": "60"}), "cob.calendario.expiracao"),
            ("valor", json!({"original": "0.00"}), "cob.valor.original"),
            ("valor", json!({"original": 1.0}), "cob.valor.original"),
            ("valor", json!({"original": "1.00", "modalidadeAlteracao": 1}), "cob.valor.original"),
            ("chave", json!("other"), "cob.chave"),
            ("devedor", json!({"cpf": "12345678909"}), "cob.devedor"),
            ("devedor", json!({"cpf": "12345678909", "cnpj": "12ABC34501DE35", "nome": "A"}), "cob.devedor"),
            ("solicitacaoPagador", json!("a".repeat(141)), "cob.solicitacaoPagador"),
            ("infoAdicionais", json!([{"nome": "a"}]), "cob.infoAdicionais"),
            ("loc", json!({"id": 9}), "cob.loc.id"),
        ] {
            let mut body = good.clone();
            body[field] = value;
            assert_eq!(parse(&body), Err(vec![property]), "{body}");
        }
        assert_eq!(
            parse(&json!({})),
            Err(vec!["cob.calendario.expiracao", "cob.valor.original", "cob.chave"])
        );
    }
}
