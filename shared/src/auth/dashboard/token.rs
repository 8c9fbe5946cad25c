//! Issues and verifies dashboard tokens: JWTs signed with HS256. No JWT crate, because only one issuer, one
//! algorithm and one header are accepted, and any other header is refused before the rest is decoded.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use domain::ids::{AccountId, UserId};
use domain::time::Timestamp;

use crate::account::{Role, TokenGeneration, User};
use crate::config::ConfigError;

/// What a token is for. Each kind has an issuer of its own, and no route takes one kind for another.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TokenKind {
    /// The Bearer token of `/v1/api-keys`.
    Api,
    /// The cookie of the dashboard. Its forms demand a recent log-in for a live key, which the API does not. So a stolen
    /// cookie must be of no use there.
    Session,
    /// Signs that a password was right and that a code must follow.
    Pending,
}

impl TokenKind {
    fn issuer(self) -> &'static str {
        match self {
            Self::Api => "payment-service",
            Self::Session => "payment-service/dashboard",
            Self::Pending => "payment-service/log-in",
        }
    }
}

/// Five minutes: long enough to find the phone.
pub const PENDING_SECONDS: i64 = 5 * 60;

/// 12 hours.
pub const TOKEN_SECONDS: i64 = 12 * 60 * 60;

/// As long as the hash (RFC 7518, section 3.2).
const MIN_SECRET_BYTES: usize = 32;

/// An issued token has about 390 bytes.
const MAX_TOKEN_BYTES: usize = 1_024;

/// `{"alg":"HS256","typ":"JWT"}` in base64url.
const HEADER: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9";

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Claims {
    pub sub: UserId,
    pub account_id: AccountId,
    /// At the time of issue. Authorisation uses the stored role instead.
    pub role: Role,
    pub iss: String,
    pub exp: i64,
    /// The token can be revoked by it.
    pub jti: String,
    /// The token is valid only while the user's row has the same generation.
    pub generation: TokenGeneration,
}

impl Claims {
    pub(crate) fn is_valid_for(&self, user: &User) -> bool {
        self.sub == user.id && self.account_id == user.account && self.generation == user.token_generation
    }
}

/// A token could not be signed: a defect of the service.
#[derive(Debug, thiserror::Error)]
#[error("a token could not be signed: {0}")]
pub struct SigningError(String);

#[derive(Clone, Debug)]
pub struct Tokens {
    secret: SecretString,
    /// Verifies tokens too, so that a rotation of the secret ends no session.
    other_secret: Option<SecretString>,
}

impl Tokens {
    /// `secrets`: one of at least 32 bytes, or two separated by a comma. The first signs; tokens that either
    /// has signed are valid.
    pub fn new(secrets: &SecretString) -> Result<Self, ConfigError> {
        let mut parts = secrets.expose_secret().split(',');
        let (secret, other_secret) = (parts.next().unwrap_or_default(), parts.next());
        if parts.next().is_some() {
            return Err(ConfigError::new("there are more than two secrets of dashboard tokens".to_owned()));
        }
        if [Some(secret), other_secret].into_iter().flatten().any(|part| part.len() < MIN_SECRET_BYTES) {
            return Err(ConfigError::new(format!(
                "the secret of dashboard tokens has fewer than {MIN_SECRET_BYTES} bytes"
            )));
        }
        Ok(Self { secret: secret.into(), other_secret: other_secret.map(SecretString::from) })
    }

    pub fn issue(
        &self,
        kind: TokenKind,
        (user, account, role, generation): (UserId, AccountId, Role, TokenGeneration),
        jti: &str,
        now: Timestamp,
    ) -> Result<(SecretString, Claims), SigningError> {
        let seconds = if kind == TokenKind::Pending { PENDING_SECONDS } else { TOKEN_SECONDS };
        let claims = Claims {
            sub: user,
            account_id: account,
            role,
            iss: kind.issuer().to_owned(),
            exp: now.seconds().saturating_add(seconds),
            jti: jti.to_owned(),
            generation,
        };
        let body = serde_json::to_vec(&claims).map_err(|error| SigningError(error.to_string()))?;
        let signed = format!("{HEADER}.{}", URL_SAFE_NO_PAD.encode(body));
        let signature = URL_SAFE_NO_PAD.encode(mac(&self.secret, &signed)?.finalize().into_bytes());
        Ok((SecretString::from(format!("{signed}.{signature}")), claims))
    }

    /// `None`: the token is malformed, was not signed by this service for this, or has expired.
    pub fn verify(&self, kind: TokenKind, token: &SecretString, now: Timestamp) -> Option<Claims> {
        let text = token.expose_secret();
        if text.len() > MAX_TOKEN_BYTES {
            return None;
        }
        let (signed, signature) = text.rsplit_once('.')?;
        let (header, body) = signed.split_once('.')?;
        if header != HEADER {
            return None;
        }
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        // `verify_slice` compares in constant time.
        let has_signed = |secret| mac(secret, signed).is_ok_and(|mac| mac.verify_slice(&signature).is_ok());
        if ![Some(&self.secret), self.other_secret.as_ref()].into_iter().flatten().any(has_signed) {
            return None;
        }
        let claims: Claims = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(body).ok()?).ok()?;
        (claims.iss == kind.issuer() && claims.exp > now.seconds()).then_some(claims)
    }
}

fn mac(secret: &SecretString, signed: &str) -> Result<Hmac<Sha256>, SigningError> {
    let key = secret.expose_secret().as_bytes();
    let mut mac = Hmac::<Sha256>::new_from_slice(key).map_err(|error| SigningError(error.to_string()))?;
    mac.update(signed.as_bytes());
    Ok(mac)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse_floor(text).unwrap()
    }

    const SECRET: &str = "0123456789abcdef0123456789abcdef";

    fn tokens() -> Tokens {
        Tokens::new(&SecretString::from(SECRET)).unwrap()
    }

    fn claims(exp: i64) -> Value {
        json!({
            "sub": UserId::from_email("ana@loja.example"), "account_id": AccountId::new([1; 10]),
            "role": "OWNER", "iss": TokenKind::Api.issuer(), "exp": exp, "jti": "a", "generation": u64::MAX,
        })
    }

    /// Returns a token with any header and claims, signed with the service's secret.
    fn signed_token(header: &Value, claims: &Value) -> SecretString {
        let part = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
        let signed = format!("{}.{}", part(header), part(claims));
        let signature = URL_SAFE_NO_PAD.encode(mac(&SECRET.into(), &signed).unwrap().finalize().into_bytes());
        SecretString::from(format!("{signed}.{signature}"))
    }

    const NOW: &str = "2026-11-21T12:00:00Z";

    /// Verifies a token of the API as it is, at [`NOW`].
    fn verified(token: &SecretString) -> Option<Claims> {
        tokens().verify(TokenKind::Api, token, at(NOW))
    }

    #[test]
    fn a_token_is_valid_until_its_expiry_and_only_with_all_claims() {
        let now = at(NOW);
        let ours = json!({"alg": "HS256", "typ": "JWT"});
        let token = signed_token(&ours, &claims(now.seconds() + 1));
        assert_eq!(tokens().verify(TokenKind::Api, &token, now).unwrap().role, Role::Owner);
        assert_eq!(tokens().verify(TokenKind::Api, &token, now.plus_seconds(1).unwrap()), None);
        for kind in [TokenKind::Session, TokenKind::Pending] {
            assert_eq!(tokens().verify(kind, &token, now), None, "{kind:?}");
        }
        let mut foreign = claims(now.seconds() + 1);
        foreign["iss"] = json!("another-issuer");
        assert_eq!(tokens().verify(TokenKind::Api, &signed_token(&ours, &foreign), now), None);
        for missing in ["sub", "account_id", "role", "iss", "exp", "jti", "generation"] {
            let mut claims = claims(now.seconds() + 1);
            claims.as_object_mut().unwrap().remove(missing);
            assert_eq!(verified(&signed_token(&ours, &claims)), None, "without {missing}");
        }
    }

    #[test]
    fn a_token_is_valid_only_for_its_user_account_and_generation() {
        let claims: Claims = serde_json::from_value(claims(1)).unwrap();
        let user: User = serde_json::from_value(json!({
            "id": claims.sub, "email": "ana@loja.example", "password_hash": "hash", "account": claims.account_id,
            "role": "OWNER", "created_at": 0, "tokens": claims.generation, "version": 1,
        }))
        .unwrap();
        assert!(claims.is_valid_for(&user));
        for other in [
            User { id: UserId::from_email("rui@loja.example"), ..user.clone() },
            User { account: AccountId::new([2; 10]), ..user.clone() },
            User { token_generation: TokenGeneration::new([7; 8]), ..user.clone() },
        ] {
            assert!(!claims.is_valid_for(&other));
        }
    }

    #[test]
    fn a_token_with_another_header_is_refused_even_if_its_signature_is_valid() {
        let now = at(NOW);
        for header in [
            json!({"alg": "none", "typ": "JWT"}),
            json!({"alg": "HS512", "typ": "JWT"}),
            json!({"alg": "RS256", "typ": "JWT"}),
            json!({"alg": "hs256", "typ": "JWT"}),
            json!({"typ": "JWT"}),
            json!({"alg": "HS256", "typ": "JWT", "kid": "../../dev/null"}),
        ] {
            let token = signed_token(&header, &claims(now.seconds() + 1));
            assert_eq!(verified(&token), None, "{header}");
            let unsigned = token.expose_secret().rsplit_once('.').unwrap().0;
            assert_eq!(verified(&format!("{unsigned}.").into()), None);
        }
    }

    #[test]
    fn a_token_with_any_changed_character_is_refused() {
        let now = at(NOW);
        let token = signed_token(&json!({"alg": "HS256", "typ": "JWT"}), &claims(now.seconds() + 1));
        let text = token.expose_secret();
        for index in 0..text.len() {
            let mut changed = text.as_bytes().to_vec();
            changed[index] = if changed[index] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(verified(&changed.into()), None, "the character at {index} was changed");
        }
        for text in
            ["", ".", "..", "...", HEADER, &format!("{text}="), &format!("{text}.x"), &"a.".repeat(600)]
        {
            assert_eq!(verified(&text.into()), None, "{text}");
        }
        let other = Tokens::new(&SecretString::from("another secret of at least 32 bytes")).unwrap();
        assert_eq!(other.verify(TokenKind::Api, &token, now), None);
    }

    #[test]
    fn a_token_of_more_than_1024_bytes_is_refused() {
        let (now, header) = (at(NOW), json!({"alg": "HS256", "typ": "JWT"}));
        let with_jti_of = |characters: usize| {
            let mut claims = claims(now.seconds() + 1);
            claims["jti"] = json!("a".repeat(characters));
            signed_token(&header, &claims)
        };
        let length = |token: &SecretString| token.expose_secret().len();
        let of = |bytes| (1..bytes).map(with_jti_of).find(|token| length(token) >= bytes).unwrap();
        let (longest, longer) = (of(MAX_TOKEN_BYTES), of(MAX_TOKEN_BYTES + 1));
        assert_eq!(length(&longest), MAX_TOKEN_BYTES);
        assert!(verified(&longest).is_some() && verified(&longer).is_none());
    }

    #[test]
    fn a_short_secret_is_refused_and_the_secret_is_never_printed() {
        let short = SECRET.get(1..).unwrap();
        let refused = [
            short.to_owned(),
            format!("{SECRET},{short}"),
            format!("{short},{SECRET}"),
            format!("{SECRET},"),
            format!("{SECRET},{SECRET},{SECRET}"),
        ];
        for text in refused {
            assert!(Tokens::new(&SecretString::from(text.as_str())).is_err(), "{text}");
        }
        let both = Tokens::new(&SecretString::from(format!("{SECRET},{SECRET}"))).unwrap();
        assert!(!format!("{both:?}").contains("0123"));
    }

    /// Each step is a deployment. Functions of two consecutive steps run at the same time, so each must accept
    /// the tokens of the other.
    #[test]
    fn a_rotation_in_steps_ends_no_session_until_the_old_secret_is_dropped() {
        const NEW: &str = "the secret that replaces the old";
        let now = at(NOW);
        let steps = [SECRET.to_owned(), format!("{SECRET},{NEW}"), format!("{NEW},{SECRET}"), NEW.to_owned()]
            .map(|secrets| Tokens::new(&SecretString::from(secrets)).unwrap());
        let holder = (
            UserId::from_email("ana@loja.example"),
            AccountId::new([1; 10]),
            Role::Owner,
            TokenGeneration::new([7; 8]),
        );
        let issued = steps.each_ref().map(|step| step.issue(TokenKind::Api, holder, "a", now).unwrap().0);
        let valid =
            |step: &Tokens| issued.each_ref().map(|token| step.verify(TokenKind::Api, token, now).is_some());
        assert_eq!(
            steps.each_ref().map(valid),
            [
                [true, true, false, false],
                [true, true, true, true],
                [true, true, true, true],
                [false, false, true, true],
            ]
        );
    }
}
