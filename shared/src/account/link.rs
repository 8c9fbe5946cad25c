//! Links in e-mails that can be used once: the invite of a new user, and the reset of a password. A row has only the
//! hash of its link's token, and half of the token. The message of the e-mail has the other half. So neither a reader of
//! the table nor one of the queues can use the link.
//!
//! A link expires with the right behind it: an invite with the removal or demotion of the owner who sent it, and
//! all of a user's links for a new password with the next password or the removal of the user.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use domain::audit::Action;
use domain::ids::{AccountId, Fingerprint, UserId};
use domain::row::{Indexes, Key, Row};
use domain::time::Timestamp;

use super::user::{By, Team, list_entry};
use super::{Role, TokenGeneration, User, UserChange, UserError, Users};
use crate::account::password::PasswordHash;
use crate::language::Language;
use crate::store::{Result, Write};
use crate::{audit, random};

/// 72 hours.
const INVITE_SECONDS: i64 = 72 * 60 * 60;

/// Half an hour.
const RESET_SECONDS: i64 = 30 * 60;

/// The most open invites of an account.
pub const MAX_INVITES: usize = 20;

/// An invite that is sent twice within this time was a form sent twice, in seconds. Later, it replaces the first.
const SAME_INVITE_SECONDS: i64 = 60;

/// 128 bits in base64url.
const HALF_CHARS: usize = 22;

pub(super) const INVITE: &str = "invite";

/// Two halves of 128 random bits in base64url. Only the link in the mail has both.
#[derive(Clone)]
pub struct LinkToken(String);

/// What the message of an e-mail says of its link: the row's hash, and the first half of the token.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct MailedLink {
    pub hash: Fingerprint,
    half: String,
}

impl MailedLink {
    /// `half`: the second one, which the row has.
    pub fn token(&self, half: &str) -> LinkToken {
        LinkToken(format!("{}{}", self.half, half))
    }
}

domain::text::hidden_debug!(LinkToken);

impl LinkToken {
    pub fn random() -> Result<Self> {
        let half = || random::bytes::<16>().map(|half| URL_SAFE_NO_PAD.encode(half));
        Ok(Self(format!("{}{}", half()?, half()?)))
    }

    /// `None`: the text can't be a token.
    pub fn parse(text: &str) -> Option<Self> {
        let is_token = text.len() == 2 * HALF_CHARS
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        is_token.then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn hash(&self) -> Fingerprint {
        Fingerprint::of(&SecretString::from(self.0.as_str()))
    }

    fn halves(&self) -> [String; 2] {
        let (first, second) = self.0.split_at(self.0.len().min(HALF_CHARS));
        [first, second].map(str::to_owned)
    }

    pub fn mailed(&self) -> MailedLink {
        let [half, _stored] = self.halves();
        MailedLink { hash: self.hash(), half }
    }
}

/// An open invite. It is removed when it is accepted or withdrawn.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Invite {
    pub hash: Fingerprint,
    /// The second half of the link's token.
    pub half: String,
    pub account: AccountId,
    /// The owner who sent it. It is valid only while this user is an owner.
    pub by: UserId,
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
        (account, by): (AccountId, UserId),
        (email, role): (&str, Role),
        language: Language,
        now: Timestamp,
    ) -> Self {
        let [_mailed, half] = token.halves();
        Self {
            hash: token.hash(),
            half,
            account,
            by,
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
    /// The second half of the link's token.
    pub half: String,
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
    /// `None`: the link was used or withdrawn, or has expired, or its sender is no owner any more.
    pub async fn invite_of(&self, hash: &Fingerprint, now: Timestamp) -> Result<Option<Invite>> {
        let invite: Option<Invite> = self.store.get(&Invite::key_of(hash)).await?;
        let Some(invite) = invite.filter(|invite| invite.expires_at > now) else { return Ok(None) };
        Ok(self.inviter(&invite).await?.map(|_owner| invite))
    }

    /// `None`: the sender is no owner any more, or was removed since, and perhaps added again.
    async fn inviter(&self, invite: &Invite) -> Result<Option<User>> {
        let user = self.find(&invite.by).await?.filter(|user| user.account == invite.account);
        Ok(user.filter(|user| user.role == Role::Owner && user.created_at <= invite.created_at))
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
        let action = Action::InviteUser { email: invite.email.clone(), role: invite.role };
        let audit = audit::by_operator(&by.operator, invite.account, action, subject, now)?;
        let mut writes = vec![Write::insert(invite)?, Write::audit(&audit)];
        writes.extend(same.iter().map(|open| Write::remove_any(open.key())));
        // The only condition is that the random token is new.
        let _outcome = self.store.commit(writes).await?;
        Ok(true)
    }

    /// A repeated call has no effect.
    pub async fn withdraw(&self, invite: &Invite, by: &By, now: Timestamp) -> Result<(), UserError> {
        let subject = UserId::from_email(&invite.email);
        let action = Action::WithdrawInvite { email: invite.email.clone() };
        let audit = Write::audit(&audit::by_operator(&by.operator, invite.account, action, subject, now)?);
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
        let action = Action::AddUser { email: user.email.clone(), role: user.role };
        let audit = audit::by_operator(&by.operator, user.account, action, user.id, now)?;
        let mut update = self.store.start_update("the sender of an invite");
        loop {
            let inviter = self.inviter(invite).await?.ok_or(UserError::LinkInvalid)?;
            let writes = vec![
                Write::remove_existing(&invite.key()),
                Write::insert(user)?,
                Write::check(inviter.key(), inviter.version),
                Write::audit(&audit),
            ];
            if update.commit(writes).await? {
                return Ok(());
            }
            match update.failed() {
                at if at.contains(&0) => return Err(UserError::LinkInvalid),
                at if at.contains(&1) => return Err(UserError::EmailTaken),
                _ => {}
            }
        }
    }

    /// Returns the token for the mail to the user, who may not exist.
    pub async fn request_reset(&self, user: UserId, now: Timestamp) -> Result<LinkToken, UserError> {
        let token = LinkToken::random()?;
        let expires_at = now.plus_seconds(RESET_SECONDS).unwrap_or(Timestamp::MAX);
        let [_mailed, half] = token.halves();
        let reset = PasswordReset { hash: token.hash(), half, user, requested_at: now, expires_at };
        let _inserted = self.store.insert(&reset).await?;
        Ok(token)
    }

    /// The reset, and the user for whom it was requested. `None`: the link was used or has expired, or the user was
    /// removed or has another password since.
    pub async fn reset_of(
        &self,
        hash: &Fingerprint,
        now: Timestamp,
    ) -> Result<Option<(PasswordReset, User)>> {
        let reset: Option<PasswordReset> = self.store.get(&PasswordReset::key_of(hash)).await?;
        let Some(reset) = reset.filter(|reset| reset.expires_at > now) else { return Ok(None) };
        let user = self.find(&reset.user).await?;
        // The other links end with the first that is used. Those of a removed user are not valid for the next one.
        let user = user.filter(|user| user.password_set_at.unwrap_or(user.created_at) < reset.requested_at);
        Ok(user.map(|user| (reset, user)))
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
            let (reset, user) = self.reset_of(&token.hash(), now).await?.ok_or(UserError::LinkInvalid)?;
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
        let (mailed, [first, stored]) = (token.mailed(), token.halves());
        assert_eq!(mailed.token(&stored).as_str(), token.as_str());
        assert!(mailed.half == first && first != stored && first.len() == HALF_CHARS);
        for text in ["", "a", &"a".repeat(43), &"a".repeat(45), &format!("{}/", "a".repeat(43))] {
            assert!(LinkToken::parse(text).is_none(), "{text}");
        }
    }
}
