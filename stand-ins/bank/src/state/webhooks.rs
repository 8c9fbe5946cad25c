use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Result, State};
use crate::problem::Problem;
use crate::values::rfc3339;

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub(crate) struct Webhook {
    pub(super) url: String,
    created_ms: i64,
}

impl State {
    /// Returns the URL of a request to register one.
    pub(crate) fn check_webhook(
        &self,
        client: usize,
        key: &str,
        body: &Map<String, Value>,
    ) -> Result<String> {
        const KIND: &str = "WebhookOperacaoInvalida";
        if !self.keys(client).iter().any(|known| known == key) {
            let reason =
                "O parâmetro chave não corresponde a uma chave DICT pertencente a este usuário recebedor.";
            return Err(Problem::violation(KIND, "chave", reason));
        }
        let is_http =
            |text: &&str| url::Url::parse(text).is_ok_and(|url| ["http", "https"].contains(&url.scheme()));
        let url = body.get("webhookUrl").and_then(Value::as_str).filter(is_http);
        url.map(str::to_owned).ok_or_else(|| {
            let reason = "O campo webhook.webhookUrl não respeita o schema.";
            Problem::violation(KIND, "webhook.webhookUrl", reason)
        })
    }

    pub(crate) fn put_webhook(&mut self, now_ms: i64, key: &str, url: String) {
        self.tables.webhooks.insert(key.to_owned(), Webhook { url, created_ms: now_ms });
    }

    pub(crate) fn get_webhook(&self, client: usize, key: &str) -> Result<Value> {
        let is_own = self.keys(client).iter().any(|known| known == key);
        let cnpj = self.clients.get(client).map(|client| client.cnpj.as_str());
        self.tables
            .webhooks
            .get(key)
            .filter(|_| is_own)
            .map(|webhook| {
                json!({
                    "webhookUrl": webhook.url,
                    "chave": key,
                    "cnpj": cnpj,
                    "criacao": rfc3339(webhook.created_ms),
                })
            })
            .ok_or_else(|| Problem::not_found("WebhookNaoEncontrado"))
    }

    pub(crate) fn delete_webhook(&mut self, client: usize, key: &str) -> Result<()> {
        self.get_webhook(client, key)?;
        self.tables.webhooks.remove(key);
        Ok(())
    }
}
