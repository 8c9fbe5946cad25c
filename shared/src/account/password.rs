//! Generates, hashes and verifies passwords. Only Argon2id hashes are stored. A verification takes the same
//! time for an unknown user as for a known one.

use std::sync::Arc;

use argon2::Argon2;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

/// The least characters of a password that a user chooses. There are no rules about kinds of characters, because they
/// make people choose worse passwords.
pub const MIN_CHARS: usize = 12;

/// As many as the log-in accepts.
const MAX_CHARS: usize = 1_024;

/// The first four bytes of the SHA-256 of each of the 10,000 most common passwords of [`MIN_CHARS`] or more characters,
/// in lower case, sorted. They are from the list of `SecLists` that is made from ten million leaked passwords. One
/// password in 400,000 that is not among them is refused too.
static COMMON: &[u8] = include_bytes!("common-passwords.bin");

/// Whether the user with this e-mail address may choose this password.
pub fn is_acceptable(password: &str, email: &str) -> bool {
    let (folded, email) = (password.trim().to_lowercase(), email.to_lowercase());
    let is_repeated = password.chars().all(|letter| password.starts_with(letter));
    let is_name = folded == email || email.split_once('@').is_some_and(|(name, _)| folded == name);
    let hash = Sha256::digest(folded.as_bytes());
    let is_common =
        hash.first_chunk().is_some_and(|hash: &[u8; 4]| COMMON.as_chunks().0.binary_search(hash).is_ok());
    (MIN_CHARS..=MAX_CHARS).contains(&password.chars().count()) && !is_repeated && !is_name && !is_common
}

/// Generates a password from 144 random bits: 24 characters of base64url. An operator sees it once, when the user is
/// added or the password is reset.
pub fn generate(random: [u8; 18]) -> SecretString {
    SecretString::from(URL_SAFE_NO_PAD.encode(random))
}

/// The most hashes that are computed at the same time. Each computation needs 19 MiB of memory.
const CONCURRENT_HASHES: usize = 2;

/// The hash that is verified for an unknown e-mail address, so that the response takes as long as for a wrong
/// password. It has the same parameters as real hashes, and no password matches it.
const DUMMY_HASH: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

#[derive(Debug, thiserror::Error)]
#[error("a password could not be hashed: {0}")]
pub struct PasswordError(String);

/// A password's Argon2id hash with its salt and parameters, in PHC format. The parameters are those that
/// OWASP recommends: 19 MiB of memory and 2 iterations.
#[derive(Clone, Deserialize, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct PasswordHash(String);

domain::text::hidden_debug!(PasswordHash);

impl PasswordHash {
    /// Hashes a password with a random salt. This takes about 20 ms of processor time.
    pub fn of(password: &SecretString) -> Result<Self, PasswordError> {
        let hash = Argon2::default().hash_password(password.expose_secret().as_bytes());
        hash.map(|hash| Self(hash.to_string())).map_err(|error| PasswordError(error.to_string()))
    }

    fn is_of(&self, password: &SecretString) -> bool {
        // `verify_password` compares in constant time.
        Argon2::default().verify_password(password.expose_secret().as_bytes(), self.0.as_str()).is_ok()
    }
}

/// Verifies passwords, at most two at the same time. Clones share this limit.
#[derive(Clone, Debug)]
pub struct PasswordChecker {
    slots: Arc<Semaphore>,
}

impl Default for PasswordChecker {
    fn default() -> Self {
        Self { slots: Arc::new(Semaphore::new(CONCURRENT_HASHES)) }
    }
}

impl PasswordChecker {
    pub async fn hash(&self, password: SecretString) -> Result<PasswordHash, PasswordError> {
        let _slot = self.slots.acquire().await;
        let hashed = tokio::task::spawn_blocking(move || PasswordHash::of(&password)).await;
        hashed.map_err(|error| PasswordError(error.to_string()))?
    }

    /// Checks whether `password` matches `hash`. `hash` is `None` for an unknown user; the result is then
    /// `false`, after the same work.
    pub async fn verify(
        &self,
        password: SecretString,
        hash: Option<PasswordHash>,
    ) -> Result<bool, PasswordError> {
        let _slot = self.slots.acquire().await;
        let is_right = move || {
            let is_known = hash.is_some();
            let hash = hash.unwrap_or_else(|| PasswordHash(DUMMY_HASH.to_owned()));
            hash.is_of(&password) && is_known
        };
        // Runs on a blocking thread, so that other requests are served meanwhile.
        let verified = tokio::task::spawn_blocking(is_right).await;
        verified.map_err(|error| PasswordError(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use argon2::password_hash::phc;

    use crate::account::password::*;

    #[test]
    fn a_hash_has_its_own_salt_is_never_printed_and_has_the_parameters_of_the_dummy() {
        let hash = || PasswordHash::of(&SecretString::from("some password")).unwrap();
        let real = hash();
        assert_ne!(real, hash());
        assert_eq!(format!("{real:?}"), "PasswordHash");
        let [real, dummy] = [&real.0, DUMMY_HASH].map(|text| phc::PasswordHash::new(text).unwrap());
        assert_eq!((real.algorithm, real.version), (dummy.algorithm, dummy.version));
        assert_eq!(real.params.to_string(), dummy.params.to_string());
        let lengths = |hash: &phc::PasswordHash| (hash.salt.unwrap().len(), hash.hash.unwrap().len());
        assert_eq!(lengths(&real), lengths(&dummy));
        assert_eq!(real.algorithm.as_str(), "argon2id");
    }

    #[test]
    fn a_chosen_password_has_twelve_characters_and_is_not_easily_guessed() {
        let is_acceptable = |password: &str| is_acceptable(password, "Ana.Maria.Dias@loja.example");
        assert!(is_acceptable("açaí açaí aí"), "characters, not bytes");
        assert!(is_acceptable(&"ab".repeat(512)) && !is_acceptable(&"ab".repeat(513)));
        for (refused, why) in [
            ("elevenchars", "short"),
            ("            ", "one character"),
            ("xxxxxxxxxxxx", "one character"),
            ("ana.maria.dias@LOJA.example", "the address"),
            ("Ana.Maria.Dias", "the address"),
            (" qwerty123456 ", "common"),
            ("1q2w3e4r5t6y", "common"),
            ("LeaveMeAlone", "common"),
        ] {
            assert!(!is_acceptable(refused), "{refused}: {why}");
        }
        assert!(COMMON.len() == 40_000 && COMMON.as_chunks::<4>().0.is_sorted());
    }
}
