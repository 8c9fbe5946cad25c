//! Dashboard tokens: JWT, HS256 and nothing else (design: Authentication).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use sha2::Sha256;

use crate::account::{Role, User};
use crate::ids::AccountId;
use crate::store::StoreError;
use crate::time::Timestamp;

/// Who issues dashboard tokens.
pub const ISSUER: &str = "payment-service";

/// How long a token holds, in seconds: 12 hours.
pub const TOKEN_SECONDS: i64 = 12 * 60 * 60;

/// `{"alg":"HS256","typ":"JWT"}` in base64url.
const HEADER: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9";

#[derive(Serialize)]
struct Claims<'a> {
    sub: &'a str,
    account_id: AccountId,
    role: Role,
    iss: &'static str,
    exp: i64,
    jti: &'a str,
}

/// Issues a token for a user. `jti` names it, so that it can be ended before its time.
pub fn issue(
    user: &User,
    secret: &SecretString,
    jti: &str,
    now: Timestamp,
) -> Result<SecretString, StoreError> {
    let claims = Claims {
        sub: &user.id,
        account_id: user.account,
        role: user.role,
        iss: ISSUER,
        exp: now.seconds().saturating_add(TOKEN_SECONDS),
        jti,
    };
    let corrupt = |error: &dyn std::fmt::Display| StoreError::Corrupt(error.to_string());
    let claims = serde_json::to_vec(&claims).map_err(|error| corrupt(&error))?;
    let signed = format!("{HEADER}.{}", URL_SAFE_NO_PAD.encode(claims));
    let key = secret.expose_secret().as_bytes();
    let mut mac = Hmac::<Sha256>::new_from_slice(key).map_err(|error| corrupt(&error))?;
    mac.update(signed.as_bytes());
    let signature = URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes());
    Ok(SecretString::from(format!("{signed}.{signature}")))
}
