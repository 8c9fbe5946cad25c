use serde_json::{Value, json};

/// A refusal. `kind` is the last part of its `type`.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) status: u16,
    pub(crate) kind: &'static str,
    pub(crate) title: &'static str,
    pub(crate) detail: String,
    pub(crate) violations: Vec<Violation>,
}

/// A field that a request must not have, or not with this content.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) property: &'static str,
    pub(crate) reason: String,
}

impl Violation {
    pub(crate) fn new(property: &'static str, reason: impl Into<String>) -> Self {
        Self { property, reason: reason.into() }
    }
}

impl Problem {
    fn new(status: u16, kind: &'static str, title: &'static str, detail: impl Into<String>) -> Self {
        Self { status, kind, title, detail: detail.into(), violations: Vec::new() }
    }

    pub(crate) fn invalid(kind: &'static str, violations: Vec<Violation>) -> Self {
        let detail = "A requisição não respeita o schema ou está semanticamente errada.";
        Self { violations, ..Self::new(400, kind, "Operação inválida.", detail) }
    }

    pub(crate) fn violation(kind: &'static str, property: &'static str, reason: impl Into<String>) -> Self {
        Self::invalid(kind, vec![Violation::new(property, reason)])
    }

    pub(crate) fn malformed(detail: impl Into<String>) -> Self {
        Self::new(400, "RequisicaoInvalida", "Requisição inválida.", detail)
    }

    pub(crate) fn unauthorized(detail: impl Into<String>) -> Self {
        Self::new(401, "AcessoNegado", "Não autorizado", detail)
    }

    pub(crate) fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(403, "AcessoNegado", "Acesso Negado", detail)
    }

    pub(crate) fn not_found(kind: &'static str) -> Self {
        Self::new(404, kind, "Não Encontrado", "Entidade não encontrada.")
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::new(405, "RequisicaoInvalida", "Método não permitido", "A rota não aceita este método.")
    }

    pub(crate) fn too_large() -> Self {
        Self::new(413, "RequisicaoInvalida", "Requisição grande demais", "O corpo excede 1 MiB.")
    }

    pub(crate) fn too_many_requests() -> Self {
        Self::new(429, "RequisicaoInvalida", "Muitas requisições", "Limite de requisições excedido.")
    }

    pub(crate) fn internal() -> Self {
        Self::new(
            500,
            "ErroInternoDoServidor",
            "Erro interno",
            "Condição inesperada ao processar requisição.",
        )
    }

    pub(crate) fn not_saved(reason: &str) -> Self {
        let detail = format!("O banco não consegue gravar seus livros: {reason}");
        Self::new(500, "ErroInternoDoServidor", "Erro interno", detail)
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
