//! Passwords: kept as Argon2id hashes, and proved in the same time whether there is a user or not.

use std::fmt;
use std::sync::Arc;

use argon2::Argon2;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

/// A new password: 18 random bytes in base64url, 24 characters that nobody guesses.
pub fn generate(random: [u8; 18]) -> SecretString {
    SecretString::from(URL_SAFE_NO_PAD.encode(random))
}

/// Hashes that are made at the same time: each takes 19 MiB.
const CONCURRENT_HASHES: usize = 2;

/// A hash of nobody's password by the same parameters, so that an unknown e-mail takes as long as a wrong password.
const NOBODYS: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// A password could not be hashed.
#[derive(Debug, thiserror::Error)]
#[error("a password could not be hashed: {0}")]
pub struct PasswordError(String);

/// A password's Argon2id hash with its salt and parameters, in PHC format: 19 MiB, 2 passes, as OWASP advises.
#[derive(Clone, Deserialize, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct PasswordHash(String);

impl fmt::Debug for PasswordHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("PasswordHash")
    }
}

impl PasswordHash {
    /// Hashes a password with a salt of its own. Takes some 20 ms of a processor.
    pub fn of(password: &SecretString) -> Result<Self, PasswordError> {
        let hash = Argon2::default().hash_password(password.expose_secret().as_bytes());
        hash.map(|hash| Self(hash.to_string())).map_err(|error| PasswordError(error.to_string()))
    }

    fn is_of(&self, password: &SecretString) -> bool {
        // Compared in constant time.
        Argon2::default().verify_password(password.expose_secret().as_bytes(), self.0.as_str()).is_ok()
    }
}

/// Proves passwords, a bounded number at a time. Clones share the bound.
#[derive(Clone, Debug)]
pub struct Prover {
    slots: Arc<Semaphore>,
}

impl Default for Prover {
    fn default() -> Self {
        Self { slots: Arc::new(Semaphore::new(CONCURRENT_HASHES)) }
    }
}

impl Prover {
    /// Whether it is the password of this hash; of no hash it never is, after the same work.
    pub async fn is_right(
        &self,
        password: SecretString,
        hash: Option<PasswordHash>,
    ) -> Result<bool, PasswordError> {
        let _slot = self.slots.acquire().await;
        let is_right = move || {
            let is_known = hash.is_some();
            let hash = hash.unwrap_or_else(|| PasswordHash(NOBODYS.to_owned()));
            hash.is_of(&password) && is_known
        };
        // Not on the threads that answer everybody else.
        let proved = tokio::task::spawn_blocking(is_right).await;
        proved.map_err(|error| PasswordError(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use argon2::password_hash::phc;

    use crate::account::password::*;

    #[tokio::test]
    async fn a_password_is_proved_by_its_own_hash_alone() {
        let password = || SecretString::from("correct horse battery staple");
        let hash = PasswordHash::of(&password()).unwrap();
        assert_ne!(hash, PasswordHash::of(&password()).unwrap(), "each hash has a salt of its own");
        let prover = Prover::default();
        assert!(prover.is_right(password(), Some(hash.clone())).await.unwrap());
        let other = SecretString::from("correct horse battery stapler");
        assert!(!prover.is_right(other, Some(hash)).await.unwrap());
        assert!(!prover.is_right(password(), None).await.unwrap());
    }

    #[test]
    fn nobodys_hash_takes_the_work_of_everybodys() {
        let made = PasswordHash::of(&SecretString::from("some password")).unwrap();
        let [made, nobodys] = [&made.0, NOBODYS].map(|text| phc::PasswordHash::new(text).unwrap());
        assert_eq!((made.algorithm, made.version), (nobodys.algorithm, nobodys.version));
        assert_eq!(made.params.to_string(), nobodys.params.to_string());
        let lengths = |hash: &phc::PasswordHash| (hash.salt.unwrap().len(), hash.hash.unwrap().len());
        assert_eq!(lengths(&made), lengths(&nobodys));
        assert_eq!(made.algorithm.as_str(), "argon2id");
    }

    #[test]
    fn a_hash_is_not_printed() {
        let hash = PasswordHash::of(&SecretString::from("some password")).unwrap();
        assert_eq!(format!("{hash:?}"), "PasswordHash");
    }
}
