//! Time-based one-time passwords (RFC 6238), the second factor of a dashboard user. The seed is in the table of
//! secrets, because the state table's stream passes on every row. The user's row says whether the second factor is on;
//! without that, the seed has no effect.

use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use totp_rs::{Algorithm, Builder, Secret, Totp};

use domain::audit::Action;
use domain::hex;
use domain::ids::UserId;
use domain::row::{Key, Row};
use domain::time::Timestamp;

use super::log_in::NewToken;
use super::{Dashboard, Session};
use crate::account::{TokenGeneration, User};
use crate::http::{Problem, Result};
use crate::store::{CommitOutcome, Store, Write};
use crate::{audit, random};

/// The digits and seconds that every authenticator app supports.
const DIGITS: u8 = 6;
const STEP_SECONDS: u64 = 30;

/// The steps before and after the present one whose codes are accepted, because the clock of a phone differs.
const SKEW_STEPS: u16 = 1;

const RECOVERY_CODES: usize = 8;

#[derive(Clone, Deserialize, PartialEq, Serialize)]
pub(super) struct SecondFactor {
    user: UserId,
    /// 160 random bits in base32.
    seed: String,
    /// The last step whose code was accepted. Codes of this step and of earlier ones are refused, so that a code is
    /// worth nothing once it was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_step: Option<u64>,
    /// SHA-256 of the unused recovery codes. They have 80 random bits, so that a slow hash is not needed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    recovery: Vec<String>,
    version: u64,
}

domain::text::hidden_debug!(SecondFactor);

/// What a user enters into the authenticator app.
#[derive(Debug)]
pub struct Enrolment {
    /// In base32, to type.
    pub seed: SecretString,
    /// `otpauth://…`, to scan as a QR code.
    pub url: SecretString,
}

impl Row for SecondFactor {
    fn key(&self) -> Key {
        Self::key_of(&self.user)
    }
}

impl SecondFactor {
    fn key_of(user: &UserId) -> Key {
        Key { pk: format!("totp#{user}"), sk: "totp".to_owned() }
    }

    fn totp(&self, account_name: &str, issuer: &str) -> Result<Totp> {
        let invalid = |error: &dyn std::fmt::Display| Problem::Internal(error.to_string());
        let seed = Secret::try_from_base32(&self.seed).map_err(|error| invalid(&error))?;
        let builder = Builder::new()
            .with_algorithm(Algorithm::SHA1)
            .with_digits(DIGITS)
            .with_skew(SKEW_STEPS)
            .with_step_duration(STEP_SECONDS)
            .with_secret(seed)
            // In the URL, a colon separates issuer and account name.
            .with_issuer(Some(issuer.replace(':', " ")))
            .with_account_name(account_name.replace(':', " "));
        builder.build().map_err(|error| invalid(&error))
    }

    /// The next version, after a code or a recovery code was accepted. `None`: it is wrong or was used before.
    fn after_code(&self, code: &str, now: Timestamp) -> Result<Option<Self>> {
        let code: String = code.chars().filter(|letter| !letter.is_whitespace() && *letter != '-').collect();
        let version = self.version.saturating_add(1);
        let seconds = u64::try_from(now.seconds()).unwrap_or_default();
        if let Some(step) = self.totp("", "")?.check(&code, seconds) {
            let is_new = self.last_step.is_none_or(|last| step > last);
            return Ok(is_new.then(|| Self { last_step: Some(step), version, ..self.clone() }));
        }
        let used = hash(&code);
        let recovery: Vec<String> = self.recovery.iter().filter(|hash| **hash != used).cloned().collect();
        let is_known = recovery.len() < self.recovery.len();
        Ok(is_known.then(|| Self { recovery, version, ..self.clone() }))
    }
}

fn hash(code: &str) -> String {
    hex::encode(Sha256::digest(code.to_lowercase().as_bytes()))
}

/// Four groups of five letters, to be copied by hand.
fn recovery_code() -> Result<String> {
    let code = hex::encode(random::bytes::<10>()?);
    let groups: Vec<String> =
        code.as_bytes().chunks(5).map(|group| String::from_utf8_lossy(group).into()).collect();
    Ok(groups.join("-"))
}

/// Deletes the seed of a user whose second factor was turned off, or who was removed. A seed that a crash before this, or
/// a failure, leaves has no effect.
pub async fn forget_second_factor(secrets: &Store, user: &UserId) {
    let removed = secrets.commit(vec![Write::remove_any(SecondFactor::key_of(user))]).await;
    if let Err(error) = removed {
        tracing::error!(%user, %error, "the seed of a second factor that is off was not deleted; it has no effect");
    }
}

fn enrolment(factor: &SecondFactor, session: &Session) -> Result<Enrolment> {
    let url = factor.totp(&session.user.email, &session.account.settings.merchant_name)?.to_url();
    let url = url.map_err(|error| Problem::Internal(error.to_string()))?;
    Ok(Enrolment { seed: factor.seed.clone().into(), url: url.into() })
}

impl Dashboard {
    pub fn secrets(&self) -> Result<&Store> {
        let missing = || Problem::Internal("the function has no table of secrets".to_owned());
        self.secrets.as_ref().ok_or_else(missing)
    }

    async fn second_factor(&self, user: &UserId) -> Result<Option<SecondFactor>> {
        Ok(self.secrets()?.get(&SecondFactor::key_of(user)).await?)
    }

    /// Uses up a code or a recovery code. `false`: it is wrong or was used before, also by a request at the same time.
    pub(super) async fn accept_code(&self, user: &UserId, code: &str, now: Timestamp) -> Result<bool> {
        let Some(factor) = self.second_factor(user).await? else { return Ok(false) };
        let Some(next) = factor.after_code(code, now)? else { return Ok(false) };
        let write = Write::replace(&next, factor.version)?;
        Ok(self.secrets()?.commit(vec![write]).await? == CommitOutcome::Done)
    }

    /// Stores a new seed, which has no effect before [`Dashboard::turn_on_second_factor`]. 422 `unprocessable_entity`
    /// if the second factor is on.
    pub async fn begin_second_factor(&self, session: &Session) -> Result<Enrolment> {
        let user = &session.user;
        if user.second_factor_at.is_some() {
            let message = "The second factor is already on. Turn it off first.";
            return Err(Problem::Unprocessable(message.to_owned()));
        }
        let before = self.second_factor(&user.id).await?;
        let seed = Secret::from(random::bytes::<20>()?.to_vec()).to_base32();
        let version = before.as_ref().map_or(1, |factor| factor.version.saturating_add(1));
        let factor = SecondFactor { user: user.id, seed, last_step: None, recovery: Vec::new(), version };
        let enrolment = enrolment(&factor, session)?;
        let write = match before {
            Some(before) => Write::replace(&factor, before.version)?,
            None => Write::insert(&factor)?,
        };
        // The check prevents that the seed is replaced while another request turns the second factor on.
        let check = Write::check(User::key_of(&user.id), user.version);
        self.commit(vec![write.in_table(self.secrets()?.table()), check]).await?;
        Ok(enrolment)
    }

    /// The seed that [`Dashboard::begin_second_factor`] stored last, until it is turned on.
    pub async fn begun_second_factor(&self, session: &Session) -> Result<Option<Enrolment>> {
        self.begun(session).await?.map(|factor| enrolment(&factor, session)).transpose()
    }

    async fn begun(&self, session: &Session) -> Result<Option<SecondFactor>> {
        let is_off = session.user.second_factor_at.is_none();
        let factor = self.second_factor(&session.user.id).await?.filter(|_| is_off);
        // A row that was on before must not be turned on again without a new seed.
        Ok(factor.filter(|factor| factor.last_step.is_none() && factor.recovery.is_empty()))
    }

    /// Turns the second factor on when the app shows the right code. Ends all sessions, which began without a code, and
    /// returns the recovery codes and a new session. 401 `unauthorized` for a wrong code.
    pub async fn turn_on_second_factor(
        &self,
        session: &Session,
        code: &str,
        now: Timestamp,
    ) -> Result<(Vec<String>, NewToken)> {
        let user = &session.user;
        let factor = self.begun(session).await?.ok_or(Problem::WrongCredentials)?;
        let next = factor.after_code(code, now)?.ok_or(Problem::WrongCredentials)?;
        let codes: Vec<String> = (0..RECOVERY_CODES).map(|_| recovery_code()).collect::<Result<_, _>>()?;
        let recovery = codes.iter().map(|code| hash(&code.replace('-', ""))).collect();
        let next = SecondFactor { recovery, ..next };
        let version = user.version.saturating_add(1);
        let token_generation = TokenGeneration::new(random::bytes()?);
        let on = User { second_factor_at: Some(now), token_generation, version, ..user.clone() };
        let operator = session.operator();
        let (action, subject) = (Action::SecondFactorOn, user.id.to_string());
        let audit = audit::by_operator(&operator, user.account, action, subject, now)?;
        let writes = vec![
            Write::replace(&on, user.version)?,
            Write::replace(&next, factor.version)?.in_table(self.secrets()?.table()),
            Write::audit(&audit),
        ];
        self.commit(writes).await?;
        Ok((codes, self.renew(session, &on, now).await?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seed of the test vectors of RFC 6238, appendix B: `12345678901234567890`.
    const RFC_SEED: &str = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ";

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000).unwrap()
    }

    fn factor() -> SecondFactor {
        SecondFactor {
            user: UserId::from_email("ana@example.com"),
            seed: RFC_SEED.to_owned(),
            last_step: None,
            recovery: vec![hash("0123456789abcdef0123"), hash("00000000000000000000")],
            version: 3,
        }
    }

    #[test]
    fn the_codes_of_the_rfc_are_accepted_in_their_step_and_those_beside_it() {
        for (second, code) in [(59_i64, "287 082"), (1_111_111_109, "081804"), (20_000_000_000, "353130")] {
            let accepted = |offset: i64| factor().after_code(code, at(second + offset)).unwrap().is_some();
            assert!(accepted(0) && accepted(30) && accepted(-30), "{second}");
            let into_step = second % 30;
            assert!(accepted(-30 - into_step) && !accepted(60 - into_step), "{second}");
            assert!(second < 90 || !accepted(-31 - into_step), "{second}");
        }
        assert!(!format!("{:?}", factor()).contains(RFC_SEED));
    }
}
