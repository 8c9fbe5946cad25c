//! Links in e-mails that can be used once: the invite of a new user, and the reset of a password. A row has only the
//! hash of its link's token, so that a reader of the table can't use the link.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use domain::ids::{AccountId, Fingerprint, UserId};
use domain::row::{Indexes, Key, Row};
use domain::time::Timestamp;

use super::user::{By, Team, list_entry};
use super::{Role, TokenGeneration, User, UserChange, UserError, Users};
use crate::account::password::PasswordHash;
use crate::language::Language;
use crate::random::{self, RandomError};
use crate::store::{CommitOutcome, Result, Write};

/// 72 hours.
const INVITE_SECONDS: i64 = 72 * 60 * 60;

/// Half an hour.
const RESET_SECONDS: i64 = 30 * 60;

/// The most open invites of an account.
pub const MAX_INVITES: usize = 20;

/// An invite that is sent twice within this time was a form sent twice, in seconds. Later, it replaces the first.
const SAME_INVITE_SECONDS: i64 = 60;

const TOKEN_CHARS: usize = 43;

pub(super) const INVITE: &str = "invite";

/// 256 random bits in base64url. Only the link in the mail has it.
#[derive(Clone, Deserialize, Serialize)]
#[serde(transparent)]
pub struct LinkToken(String);

impl fmt::Debug for LinkToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("LinkToken")
    }
}

impl LinkToken {
    pub fn random() -> Result<Self, RandomError> {
        Ok(Self(URL_SAFE_NO_PAD.encode(random::bytes::<32>()?)))
    }

    /// `None`: the text can't be a token.
    pub fn parse(text: &str) -> Option<Self> {
        let is_token = text.len() == TOKEN_CHARS
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        is_token.then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn hash(&self) -> Fingerprint {
        Fingerprint::of(&SecretString::from(self.0.as_str()))
    }
}

/// An open invite. It is removed when it is accepted or withdrawn.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Invite {
    pub hash: Fingerprint,
    pub account: AccountId,
    /// In lower case.
    pub email: String,
    pub role: Role,
    /// Of the page on which the member invited.
    pub language: Language,
    #[serde(with = "domain::time::millis")]
    pub created_at: Timestamp,
    #[serde(with = "domain::time::millis")]
    pub expires_at: Timestamp,
}

impl Invite {
    pub fn new(
        token: &LinkToken,
        (account, email): (AccountId, &str),
        role: Role,
        language: Language,
        now: Timestamp,
    ) -> Self {
        Self {
            hash: token.hash(),
            account,
            email: email.to_lowercase(),
            role,
            language,
            created_at: now,
            expires_at: now.plus_seconds(INVITE_SECONDS).unwrap_or(Timestamp::MAX),
        }
    }

    fn key_of(hash: &Fingerprint) -> Key {
        Key { pk: format!("invite#{}", hash.as_str()), sk: INVITE.to_owned() }
    }
}

impl Row for Invite {
    fn key(&self) -> Key {
        Self::key_of(&self.hash)
    }

    fn indexes(&self) -> Indexes {
        list_entry(&self.account, self.created_at, self.hash.as_str())
    }

    fn removable_at(&self) -> Option<Timestamp> {
        Some(self.expires_at)
    }
}

/// A requested reset of a password. It exists for an address without a user too, so that the request does the same for
/// every address.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct PasswordReset {
    pub hash: Fingerprint,
    pub user: UserId,
    #[serde(with = "domain::time::millis")]
    pub requested_at: Timestamp,
    #[serde(with = "domain::time::millis")]
    pub expires_at: Timestamp,
}

impl PasswordReset {
    fn key_of(hash: &Fingerprint) -> Key {
        Key { pk: format!("reset#{}", hash.as_str()), sk: "reset".to_owned() }
    }
}

impl Row for PasswordReset {
    fn key(&self) -> Key {
        Self::key_of(&self.hash)
    }

    fn removable_at(&self) -> Option<Timestamp> {
        Some(self.expires_at)
    }
}

impl Users {
    /// `None`: the link was used or withdrawn, or has expired.
    pub async fn invite_of(&self, token: &LinkToken, now: Timestamp) -> Result<Option<Invite>> {
        let invite: Option<Invite> = self.store.get(&Invite::key_of(&token.hash())).await?;
        Ok(invite.filter(|invite| invite.expires_at > now))
    }

    /// Replaces an open invite of the same address. `false`: the address was invited within the last minute, and nothing
    /// was written. The list of invites is eventually consistent, so concurrent calls may exceed [`MAX_INVITES`].
    pub async fn invite(&self, invite: &Invite, by: &By, now: Timestamp) -> Result<bool, UserError> {
        let Team { users, invites } = self.team(&invite.account, now).await?;
        // Whether another account has a user with the address is not disclosed here, but to the invited person.
        if users.iter().any(|user| user.email == invite.email) {
            return Err(UserError::EmailTaken);
        }
        let (same, others): (Vec<&Invite>, Vec<&Invite>) =
            invites.iter().partition(|open| open.email == invite.email);
        if others.len() >= MAX_INVITES {
            return Err(UserError::TooManyInvites);
        }
        let is_repeated =
            |open: &&Invite| now.seconds().saturating_sub(open.created_at.seconds()) < SAME_INVITE_SECONDS;
        if same.iter().any(|open| is_repeated(open) && open.role == invite.role) {
            return Ok(false);
        }
        let subject = UserId::from_email(&invite.email);
        let audit = by.audit(invite.account, "user.invite", subject, now)?;
        let audit = audit.with_details(format!("{} as {}", invite.email, invite.role.as_str()));
        let mut writes = vec![Write::insert(invite)?, Write::audit(&audit)];
        writes.extend(same.iter().map(|open| Write::remove_any(open.key())));
        // The only condition is that the random token is new.
        let _outcome = self.store.commit(writes).await?;
        Ok(true)
    }

    /// A repeated call has no effect.
    pub async fn withdraw(&self, invite: &Invite, by: &By, now: Timestamp) -> Result<(), UserError> {
        let subject = UserId::from_email(&invite.email);
        let audit = by.audit(invite.account, "user.withdraw-invite", subject, now)?;
        let audit = Write::audit(&audit.with_details(invite.email.clone()));
        // A conflict means that the invite was accepted or withdrawn meanwhile.
        let _outcome = self.store.commit(vec![Write::remove_existing(&invite.key()), audit]).await?;
        Ok(())
    }

    /// Adds the user of an invite, and removes the invite.
    pub async fn accept(
        &self,
        invite: &Invite,
        user: &User,
        by: &By,
        now: Timestamp,
    ) -> Result<(), UserError> {
        let audit = by.audit(user.account, "user.add", user.id, now)?;
        let audit = audit.with_details(format!("{} as {}", user.email, user.role.as_str()));
        let writes = vec![Write::remove_existing(&invite.key()), Write::insert(user)?, Write::audit(&audit)];
        match self.store.commit(writes).await? {
            CommitOutcome::Done => Ok(()),
            CommitOutcome::Conflict { at } if at.contains(&0) => Err(UserError::LinkInvalid),
            CommitOutcome::Conflict { .. } => Err(UserError::EmailTaken),
        }
    }

    /// Returns the token for the mail to the user, who may not exist.
    pub async fn request_reset(&self, user: UserId, now: Timestamp) -> Result<LinkToken, UserError> {
        let token = LinkToken::random()?;
        let expires_at = now.plus_seconds(RESET_SECONDS).unwrap_or(Timestamp::MAX);
        let reset = PasswordReset { hash: token.hash(), user, requested_at: now, expires_at };
        let _inserted = self.store.insert(&reset).await?;
        Ok(token)
    }

    /// `None`: the link was used, or has expired.
    pub async fn reset_of(&self, token: &LinkToken, now: Timestamp) -> Result<Option<PasswordReset>> {
        let reset: Option<PasswordReset> = self.store.get(&PasswordReset::key_of(&token.hash())).await?;
        Ok(reset.filter(|reset| reset.expires_at > now))
    }

    /// Sets the password of the user to whom the link was sent, and ends all sessions of the user.
    pub async fn reset_password(
        &self,
        token: &LinkToken,
        (hash, generation): (PasswordHash, TokenGeneration),
        by: &By,
        now: Timestamp,
    ) -> Result<User, UserError> {
        let change = UserChange::Password(hash, generation);
        let mut update = self.store.start_update("a user");
        loop {
            let reset = self.reset_of(token, now).await?.ok_or(UserError::LinkInvalid)?;
            let user = self.find(&reset.user).await?;
            // The other links end with the first that is used.
            let user =
                user.filter(|user| user.password_set_at.is_none_or(|set_at| set_at < reset.requested_at));
            let user = user.ok_or(UserError::LinkInvalid)?;
            let (next, mut writes) = user.changed(&change, by, now)?;
            writes.push(Write::remove_existing(&reset.key()));
            if update.commit(writes).await? {
                return Ok(next);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_fits_a_url_is_parsed_and_is_never_printed() {
        let token = LinkToken::random().unwrap();
        assert_eq!(LinkToken::parse(token.as_str()).unwrap().hash(), token.hash());
        assert_eq!(format!("{token:?}"), "LinkToken");
        assert!(!token.hash().as_str().contains(token.as_str()));
        for text in ["", "a", &"a".repeat(42), &"a".repeat(44), &format!("{}/", "a".repeat(42))] {
            assert!(LinkToken::parse(text).is_none(), "{text}");
        }
    }
}
