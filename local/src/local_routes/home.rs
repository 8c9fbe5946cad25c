//! `GET /`: a page that leads a developer to the documentation and to the checkout pages of test charges.

use axum::extract::State as Shared;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::IntoResponse;
use domain::money::{Amount, Currency};
use domain::pt_br::format_amount;
use maud::{DOCTYPE, html};
use serde_json::Value;
use shared::http::csp_source;

use super::{LocalState, Refusal};

const LATEST_CHARGES: &str = "/v1/charges?limit=5";

const STYLE: &str = "
:root { color-scheme: light dark; font: 100%/1.5 system-ui, sans-serif; }
body { max-width: 44rem; margin: 0 auto; padding: 1rem; }
pre { overflow-wrap: anywhere; white-space: pre-wrap; }
html { background: #ffffff; color: #1c1c1c; }
@media (prefers-color-scheme: dark) {
  html { background: #1c1c1c; color: #f0f0f0; }
  a { color: #8ab4f8; }
  a:visited { color: #c58af9; }
}
";

pub(super) async fn page(Shared(state): Shared<LocalState>) -> Result<impl IntoResponse, Refusal> {
    let latest = state.api.get(LATEST_CHARGES).await;
    let latest = latest.map_err(|error| Refusal(StatusCode::BAD_GATEWAY, error.to_string()))?;
    let charges: Vec<(&str, String)> =
        latest.get("data").and_then(Value::as_array).into_iter().flatten().filter_map(link).collect();
    let example = example_request(&state.base_url, &state.api.ready.test_api_key);
    let page = html! {
        (DOCTYPE)
        html lang="pt-BR" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Serviço de pagamentos neste computador" }
                style { (maud::PreEscaped(STYLE)) }
            }
            body {
                main {
                    h1 { "Serviço de pagamentos neste computador" }
                    h2 { "Documentação" }
                    ul {
                        li { a href="/docs" { "Guia e referência da API" } }
                        li { a href="/docs.md" { "O mesmo em Markdown" } }
                        li { a href="/v1/openapi.json" { "Descrição OpenAPI" } }
                    }
                    h2 { "Páginas de pagamento das últimas cobranças de teste" }
                    @if charges.is_empty() {
                        p { "Ainda não há cobranças de teste." }
                    } @else {
                        ul {
                            @for (url, text) in &charges {
                                li { a href=(url) { (text) } }
                            }
                        }
                    }
                    p {
                        "Este comando cria uma cobrança de teste de R$ 19,90 (depois, recarregue esta página); "
                        "outro valor de Idempotency-Key cria outra:"
                    }
                    pre { code { (example) } }
                    section lang="en" {
                        h2 { "In English" }
                        p {
                            "The first list links to the guide, in English, and to the API description. "
                            "The second links to the checkout pages of the latest test charges. "
                            "The command creates a test charge of R$ 19,90; another Idempotency-Key creates another one."
                        }
                    }
                }
            }
        }
    };
    let policy = format!("default-src 'none'; style-src '{}'; base-uri 'none'", csp_source(STYLE));
    Ok((
        [(CONTENT_TYPE, "text/html; charset=utf-8".to_owned()), (CONTENT_SECURITY_POLICY, policy)],
        page.into_string(),
    ))
}

fn link(charge: &Value) -> Option<(&str, String)> {
    let text = |name: &str| charge.get(name).and_then(Value::as_str);
    let amount = Amount::parse(charge.get("amount")?.as_i64()?).ok()?;
    let currency = Currency::parse(text("currency")?).ok()?;
    let amount = format_amount(amount, currency);
    Some((text("checkout_url")?, format!("{amount}, {}, {}", text("status")?, text("created_at")?)))
}

/// Returns a command that creates a test charge of R$ 19,90.
pub fn example_request(base_url: &str, key: &str) -> String {
    format!(
        "curl -s {base_url}/v1/pix/charges -H 'apikey: {key}' -H 'Idempotency-Key: order-0001' -H 'Content-Type: application/json' -d '{{\"amount\": 1990}}'"
    )
}
