use std::borrow::Cow;
use std::io;

use serde_json::{Value, json};

const MALFORMED: &str = "RequisicaoInvalida";
const INTERNAL: &str = "ErroInternoDoServidor";

/// A refusal. `kind` is the last part of its `type`.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) status: u16,
    kind: &'static str,
    title: &'static str,
    detail: Cow<'static, str>,
    pub(crate) violations: Vec<Violation>,
}

/// A field that a request must not have, or not with this content.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) property: &'static str,
    reason: String,
}

/// The violations that were found so far.
#[derive(Default)]
pub(crate) struct Violations(Vec<Violation>);

impl Violations {
    pub(crate) fn add(&mut self, property: &'static str, reason: impl Into<String>) {
        self.0.push(Violation { property, reason: reason.into() });
    }

    /// Adds a violation if there is no valid value.
    pub(crate) fn require<T>(&mut self, value: Option<T>, property: &'static str, reason: &str) -> Option<T> {
        if value.is_none() {
            self.add(property, reason);
        }
        value
    }

    /// As [`Self::require`], of a field with a schema of its own.
    pub(crate) fn require_valid<T>(&mut self, value: Option<T>, property: &'static str) -> Option<T> {
        self.require(value, property, &format!("O campo {property} não respeita o schema."))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns what was read of a request without violations.
    pub(crate) fn none_in<T>(self, read: Option<T>, kind: &'static str) -> Result<T, Problem> {
        read.filter(|_| self.is_empty()).ok_or_else(|| Problem::invalid(kind, self))
    }
}

impl From<io::Error> for Problem {
    /// A change that was not saved must not be shown.
    fn from(error: io::Error) -> Self {
        Self::new(500, INTERNAL, "Erro interno", format!("O banco não consegue gravar seus livros: {error}"))
    }
}

impl Problem {
    pub(crate) const METHOD_NOT_ALLOWED: Self =
        Self::fixed(405, MALFORMED, "Método não permitido", "A rota não aceita este método.");
    pub(crate) const TOO_LARGE: Self =
        Self::fixed(413, MALFORMED, "Requisição grande demais", "O corpo excede 1 MiB.");
    pub(crate) const TOO_MANY_REQUESTS: Self =
        Self::fixed(429, MALFORMED, "Muitas requisições", "Limite de requisições excedido.");
    pub(crate) const INTERNAL: Self =
        Self::fixed(500, INTERNAL, "Erro interno", "Condição inesperada ao processar requisição.");

    const fn fixed(status: u16, kind: &'static str, title: &'static str, detail: &'static str) -> Self {
        Self { status, kind, title, detail: Cow::Borrowed(detail), violations: Vec::new() }
    }

    fn new(status: u16, kind: &'static str, title: &'static str, detail: String) -> Self {
        Self { detail: detail.into(), ..Self::fixed(status, kind, title, "") }
    }

    fn invalid(kind: &'static str, Violations(violations): Violations) -> Self {
        let detail = "A requisição não respeita o schema ou está semanticamente errada.";
        Self { violations, ..Self::fixed(400, kind, "Operação inválida.", detail) }
    }

    pub(crate) fn violation(kind: &'static str, property: &'static str, reason: impl Into<String>) -> Self {
        let mut violations = Violations::default();
        violations.add(property, reason);
        Self::invalid(kind, violations)
    }

    pub(crate) fn malformed(detail: &'static str) -> Self {
        Self::fixed(400, MALFORMED, "Requisição inválida.", detail)
    }

    pub(crate) fn unauthorized(detail: &'static str) -> Self {
        Self::fixed(401, "AcessoNegado", "Não autorizado", detail)
    }

    pub(crate) fn forbidden(detail: String) -> Self {
        Self::new(403, "AcessoNegado", "Acesso Negado", detail)
    }

    pub(crate) fn not_found(kind: &'static str) -> Self {
        Self::fixed(404, kind, "Não Encontrado", "Entidade não encontrada.")
    }

    pub(crate) fn body(&self) -> Value {
        let mut body = json!({
            "type": format!("https://pix.bcb.gov.br/api/v2/error/{}", self.kind),
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
        });
        if let (Some(fields), false) = (body.as_object_mut(), self.violations.is_empty()) {
            let violations: Vec<Value> = self
                .violations
                .iter()
                .map(|violation| json!({"razao": violation.reason, "propriedade": violation.property}))
                .collect();
            fields.insert("violacoes".to_owned(), violations.into());
        }
        body
    }
}
