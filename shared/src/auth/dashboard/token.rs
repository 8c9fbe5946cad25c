//! Issues and verifies dashboard tokens: JWTs signed with Ed25519. No JWT crate, because only one issuer, one
//! algorithm and one header are accepted, and any other header is refused before the rest is decoded.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

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
    /// Signs that the user has logged in with this browser. It permits nothing: it only keeps strangers' failed log-ins
    /// from locking the user out.
    Browser,
}

impl TokenKind {
    fn issuer(self) -> &'static str {
        match self {
            Self::Api => "payment-service",
            Self::Session => "payment-service/dashboard",
            Self::Pending => "payment-service/log-in",
            Self::Browser => "payment-service/browser",
        }
    }
}

/// Five minutes: long enough to find the phone.
pub const PENDING_SECONDS: i64 = 5 * 60;

/// 12 hours.
pub const TOKEN_SECONDS: i64 = 12 * 60 * 60;

/// 180 days.
pub const BROWSER_SECONDS: i64 = 180 * 24 * 60 * 60;

/// As long as the private key that is derived from it.
const MIN_SECRET_BYTES: usize = 32;

const PUBLIC_KEY_BYTES: usize = 32;

/// The present key, and one that replaces it or that it replaced.
const MAX_PUBLIC_KEYS: usize = 2;

/// An issued token has about 430 bytes.
const MAX_TOKEN_BYTES: usize = 1_024;

/// `{"alg":"EdDSA","typ":"JWT"}` in base64url.
const HEADER: &str = "eyJhbGciOiJFZERTQSIsInR5cCI6IkpXVCJ9";

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

/// Derives the private key from a secret of at least 32 bytes, because CloudFormation generates texts and no keys.
fn private_key(secret: &SecretString) -> Result<Ed25519KeyPair, ConfigError> {
    let secret = secret.expose_secret();
    if secret.len() < MIN_SECRET_BYTES {
        let text = format!("the secret of dashboard tokens has fewer than {MIN_SECRET_BYTES} bytes");
        return Err(ConfigError::new(text));
    }
    let key = Ed25519KeyPair::from_seed_unchecked(&Sha256::digest(secret));
    key.map_err(|error| ConfigError::new(error.to_string()))
}

/// Returns the public key of a secret, in base64url.
pub fn public_key_of(secret: &SecretString) -> Result<String, ConfigError> {
    Ok(URL_SAFE_NO_PAD.encode(private_key(secret)?.public_key()))
}

fn public_key(text: &str) -> Result<[u8; PUBLIC_KEY_BYTES], ConfigError> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok().and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| ConfigError::new(format!("{text:?} is not a public key of dashboard tokens")))
}

#[derive(Clone, Debug)]
pub struct Tokens {
    /// `None` in functions that only verify tokens.
    private_key: Option<Arc<Ed25519KeyPair>>,
    public_keys: Vec<[u8; PUBLIC_KEY_BYTES]>,
}

impl Tokens {
    /// `public_keys`: at most two, separated by a comma, so that a rotation of the key ends no session. Without one, no
    /// token is valid, except with `secret`, whose own tokens always are.
    pub fn new(public_keys: &str, secret: Option<&SecretString>) -> Result<Self, ConfigError> {
        let listed = public_keys.split(',').filter(|text| !text.is_empty()).map(public_key);
        let mut public_keys: Vec<_> = listed.collect::<Result<_, _>>()?;
        if public_keys.len() > MAX_PUBLIC_KEYS {
            let text = format!("there are more than {MAX_PUBLIC_KEYS} public keys of dashboard tokens");
            return Err(ConfigError::new(text));
        }
        let private_key = secret.map(private_key).transpose()?;
        let own = private_key.as_ref().map(|key| public_key(&URL_SAFE_NO_PAD.encode(key.public_key())));
        if let Some(own) = own.transpose()?.filter(|own| !public_keys.contains(own)) {
            let key = URL_SAFE_NO_PAD.encode(own);
            tracing::warn!(key, "other functions refuse the tokens, because they lack this public key");
            public_keys.push(own);
        }
        Ok(Self { private_key: private_key.map(Arc::new), public_keys })
    }

    pub fn issue(
        &self,
        kind: TokenKind,
        (user, account, role, generation): (UserId, AccountId, Role, TokenGeneration),
        jti: &str,
        now: Timestamp,
    ) -> Result<(SecretString, Claims), SigningError> {
        let seconds = match kind {
            TokenKind::Api | TokenKind::Session => TOKEN_SECONDS,
            TokenKind::Pending => PENDING_SECONDS,
            TokenKind::Browser => BROWSER_SECONDS,
        };
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
        let missing = || SigningError("the function has no private key".to_owned());
        let key = self.private_key.as_ref().ok_or_else(missing)?;
        let signature = URL_SAFE_NO_PAD.encode(key.sign(signed.as_bytes()));
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
        let has_signed = |key: &[u8; PUBLIC_KEY_BYTES]| {
            UnparsedPublicKey::new(&ED25519, key).verify(signed.as_bytes(), &signature).is_ok()
        };
        if !self.public_keys.iter().any(has_signed) {
            return None;
        }
        let claims: Claims = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(body).ok()?).ok()?;
        (claims.iss == kind.issuer() && claims.exp > now.seconds()).then_some(claims)
    }
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
        Tokens::new("", Some(&SECRET.into())).unwrap()
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
        let signature = URL_SAFE_NO_PAD.encode(private_key(&SECRET.into()).unwrap().sign(signed.as_bytes()));
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
        let ours = json!({"alg": "EdDSA", "typ": "JWT"});
        let token = signed_token(&ours, &claims(now.seconds() + 1));
        assert_eq!(tokens().verify(TokenKind::Api, &token, now).unwrap().role, Role::Owner);
        assert_eq!(tokens().verify(TokenKind::Api, &token, now.plus_seconds(1).unwrap()), None);
        for kind in [TokenKind::Session, TokenKind::Pending, TokenKind::Browser] {
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
            json!({"alg": "eddsa", "typ": "JWT"}),
            json!({"alg": "HS256", "typ": "JWT"}),
            json!({"typ": "JWT"}),
            json!({"alg": "EdDSA", "typ": "JWT", "kid": "../../dev/null"}),
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
        let token = signed_token(&json!({"alg": "EdDSA", "typ": "JWT"}), &claims(now.seconds() + 1));
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
        let other = Tokens::new("", Some(&"another secret of at least 32 bytes".into())).unwrap();
        assert_eq!(other.verify(TokenKind::Api, &token, now), None);
    }

    #[test]
    fn a_token_of_more_than_1024_bytes_is_refused() {
        let (now, header) = (at(NOW), json!({"alg": "EdDSA", "typ": "JWT"}));
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

    /// RFC 8410, section 10.1 has this public key of a private key, which no test here can derive from a text.
    const FOREIGN_KEY: &str = "GfuaXfG3h-yVAUj4Z1HjQpHFjGcSBRJfeCZLHYi6iGs";

    #[test]
    fn a_short_secret_and_a_text_that_is_no_public_key_are_refused_and_the_secret_is_never_printed() {
        let own = public_key_of(&SECRET.into()).unwrap();
        for keys in [&*own, FOREIGN_KEY, &format!("{FOREIGN_KEY},{own}"), ""] {
            let tokens = Tokens::new(keys, Some(&SECRET.into())).unwrap();
            assert!(!format!("{tokens:?}").contains("0123"));
            assert!(Tokens::new(keys, Some(&SECRET.get(1..).unwrap().into())).is_err());
        }
        for keys in [
            "a",
            own.get(1..).unwrap(),
            &format!("{own}A"),
            &format!("{own}={FOREIGN_KEY}"),
            &[&*own; 3].join(","),
        ] {
            assert!(Tokens::new(keys, None).is_err(), "{keys}");
        }
    }

    fn holder() -> (UserId, AccountId, Role, TokenGeneration) {
        let user = UserId::from_email("ana@loja.example");
        (user, AccountId::new([1; 10]), Role::Owner, TokenGeneration::new([7; 8]))
    }

    #[test]
    fn a_public_key_verifies_and_signs_nothing() {
        let now = at(NOW);
        let own = public_key_of(&SECRET.into()).unwrap();
        let (token, claims) = tokens().issue(TokenKind::Session, holder(), "a", now).unwrap();
        let reader = Tokens::new(&own, None).unwrap();
        assert_eq!(reader.verify(TokenKind::Session, &token, now), Some(claims));
        assert!(reader.issue(TokenKind::Session, holder(), "a", now).is_err());
        for keys in ["", FOREIGN_KEY] {
            assert_eq!(Tokens::new(keys, None).unwrap().verify(TokenKind::Session, &token, now), None);
        }
    }

    /// Each step is a deployment. The functions of two consecutive steps run at the same time, so those of each must
    /// accept the tokens of the other.
    #[test]
    fn a_rotation_in_steps_ends_no_session_until_the_old_key_is_dropped() {
        const NEW: &str = "the secret that replaces the old";
        let now = at(NOW);
        let [old_key, new_key] = [SECRET, NEW].map(|secret| public_key_of(&secret.into()).unwrap());
        let both = format!("{old_key},{new_key}");
        let steps = [(&old_key, SECRET), (&both, SECRET), (&both, NEW), (&new_key, NEW)];
        let issued = steps.map(|(keys, secret)| {
            let signer = Tokens::new(keys, Some(&secret.into())).unwrap();
            signer.issue(TokenKind::Api, holder(), "a", now).unwrap().0
        });
        let valid = |(keys, _): (&String, &str)| {
            let reader = Tokens::new(keys, None).unwrap();
            issued.each_ref().map(|token| reader.verify(TokenKind::Api, token, now).is_some())
        };
        let all = [true; 4];
        assert_eq!(steps.map(valid), [[true, true, false, false], all, all, [false, false, true, true]]);
    }
}
