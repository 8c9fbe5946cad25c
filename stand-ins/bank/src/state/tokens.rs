use serde_json::{Value, json};

use super::{Result, State};
use crate::problem::Problem;
use crate::values::opaque;

/// The scopes of the API Pix that this bank uses, and those of its extension.
const SCOPES: [&str; 8] = [
    "cob.write",
    "cob.read",
    "pix.write",
    "pix.read",
    "webhook.write",
    "webhook.read",
    "pix-out.write",
    "pix-out.read",
];

#[derive(Debug)]
pub(super) struct Token {
    client: usize,
    expires_ms: i64,
    scopes: Vec<&'static str>,
    /// The certificate (DER) of the connection that requested it. Connections with another can't use it.
    certificate: Option<Vec<u8>>,
}

impl State {
    /// Issues a token to a client. Returns it with its lifetime in seconds and its scopes. `None` if the
    /// credentials are wrong.
    pub(crate) fn issue_token(
        &mut self,
        now_ms: i64,
        (client_id, client_secret): (&str, &str),
        requested_scopes: Option<&str>,
        certificate: Option<&[u8]>,
    ) -> Option<Value> {
        let client = self
            .clients
            .iter()
            .position(|client| client.client_id == client_id && client.client_secret == client_secret)?;
        let scopes: Vec<&'static str> = SCOPES
            .into_iter()
            .filter(|scope| {
                requested_scopes.is_none_or(|requested| requested.split(' ').any(|name| name == *scope))
            })
            .collect();
        self.tokens.retain(|_, token| now_ms < token.expires_ms);
        let serial = self.next_serial();
        let name = opaque(self.seed, 1, serial);
        let lifetime_s = self.behaviour.token_lifetime_s;
        let answer = json!({
            "access_token": name,
            "token_type": "Bearer",
            "expires_in": lifetime_s,
            "scope": scopes.join(" "),
        });
        let expires_ms = now_ms.saturating_add(lifetime_s.saturating_mul(1_000));
        let certificate = certificate.map(<[u8]>::to_vec);
        self.tokens.insert(name, Token { client, expires_ms, scopes, certificate });
        Some(answer)
    }

    pub(crate) fn authenticate(
        &self,
        now_ms: i64,
        token: &str,
        scope: &str,
        certificate: Option<&[u8]>,
    ) -> Result<usize> {
        let Some(token) = self.tokens.get(token).filter(|token| now_ms < token.expires_ms) else {
            return Err(Problem::unauthorized("O token é desconhecido ou expirou."));
        };
        if token.certificate.as_deref() != certificate {
            return Err(Problem::unauthorized("O token pertence a outro certificado."));
        }
        if !token.scopes.contains(&scope) {
            return Err(Problem::forbidden(format!("O token não tem o escopo {scope}.")));
        }
        Ok(token.client)
    }

    pub(crate) fn expire_tokens_like(&mut self, token: &str) {
        if let Some(client) = self.tokens.get(token).map(|token| token.client) {
            self.tokens.retain(|_, token| token.client != client);
        }
    }

    pub(super) fn keys(&self, client: usize) -> &[String] {
        self.clients.get(client).map_or(&[], |client| &client.keys)
    }
}
