//! What users change about their own access: password, sessions, second factor.

use secrecy::SecretString;

use domain::audit::Action;
use domain::time::Timestamp;

use super::log_in::NewToken;
use super::throttle::Known;
use super::totp::forget_second_factor;
use super::{Dashboard, IssuedToken, Session, id_of};
use crate::account::{Accounts, TokenGeneration, User, UserChange, UserError, Users};
use crate::http::{Problem, Result};
use crate::random;
use crate::store::{Order, from_item};

/// More are counted in the message below the list, and end with all sessions.
const LISTED_SESSIONS: usize = 200;

impl Dashboard {
    /// Renews a session after the code of the second factor or, without one, the password. The old token ends. 401
    /// `unauthorized`, 429 `rate_limited`.
    pub async fn confirm(&self, session: &Session, shown: &str, now: Timestamp) -> Result<NewToken> {
        let shown = match session.user.second_factor_at {
            Some(_) => (None, Some(shown)),
            None => (Some(SecretString::from(shown)), None),
        };
        let user = self.prove((session.user.id, Known::Session), shown, session.source, now).await?;
        let ended = self.end_token(&session.issued, Action::ConfirmSession, session.source, now).await?;
        // A log-out or a new password meanwhile ended the session.
        if ended && session.issued.generation == user.token_generation {
            self.renew(session, &user, now).await
        } else {
            Err(Problem::NotLoggedIn)
        }
    }

    /// Ends all sessions, and begins a new one. With the second factor on, a code is needed too, because the new
    /// session counts as a recent log-in. 401 `unauthorized` if the old password or the code is wrong.
    pub async fn change_password(
        &self,
        session: &Session,
        (old, code): (SecretString, &str),
        new: SecretString,
        now: Timestamp,
    ) -> Result<NewToken> {
        let code = session.user.second_factor_at.map(|_on| code);
        self.prove((session.user.id, Known::Session), (Some(old), code), session.source, now).await?;
        let hash = self.hash(new).await?;
        let change = UserChange::Password(hash, TokenGeneration::new(random::bytes()?));
        let user = self.change_own(session, &change, now).await?;
        self.renew(session, &user, now).await
    }

    /// Ends all sessions, and begins a new one. 401 `unauthorized` if the password or the code is wrong.
    pub async fn turn_off_second_factor(
        &self,
        session: &Session,
        (password, code): (SecretString, &str),
        now: Timestamp,
    ) -> Result<NewToken> {
        let shown = (Some(password), Some(code));
        self.prove((session.user.id, Known::Session), shown, session.source, now).await?;
        let change = UserChange::SecondFactorOff(TokenGeneration::new(random::bytes()?));
        let user = self.change_own(session, &change, now).await?;
        forget_second_factor(self.secrets()?, &user.id).await;
        self.renew(session, &user, now).await
    }

    /// The newest 200, and whether there are more. Ended ones have no row, except those that a change of the generation
    /// ended: they are older than each open one, so that they hide none.
    pub async fn open_sessions(&self, session: &Session, now: Timestamp) -> Result<(Vec<IssuedToken>, bool)> {
        let partition = IssuedToken::key_of(session.user.id, String::new()).pk;
        let (open, most) = (id_of(now.seconds(), "~"), LISTED_SESSIONS.saturating_add(1));
        let newest = self.store.range(&partition, (&open, "9"), Order::NewestFirst, most).await?;
        let mut issued: Vec<IssuedToken> = newest.into_iter().map(from_item).collect::<Result<_, _>>()?;
        issued.retain(|issued| issued.generation == session.user.token_generation);
        let has_more = issued.len() == most;
        issued.truncate(LISTED_SESSIONS);
        // It may be older than those.
        if !issued.iter().any(|issued| session.is_with(issued)) {
            issued.push(session.issued.clone());
        }
        Ok((issued, has_more))
    }

    /// Ends one session of the user. 404 `not_found`, also for one that has ended.
    pub async fn end_session(&self, session: &Session, id: &str, now: Timestamp) -> Result<()> {
        let key = IssuedToken::key_of(session.user.id, id.to_owned());
        let issued: IssuedToken = self.store.get(&key).await?.ok_or(Problem::NotFound { what: "session" })?;
        self.end_token(&issued, Action::LogOut, session.source, now).await?;
        Ok(())
    }

    pub async fn end_sessions(&self, session: &Session, now: Timestamp) -> Result<()> {
        let change = UserChange::EndSessions(TokenGeneration::new(random::bytes()?));
        self.change_own(session, &change, now).await?;
        Ok(())
    }

    async fn change_own(&self, session: &Session, change: &UserChange, now: Timestamp) -> Result<User> {
        let who = (&session.account.id, session.user.id);
        let users = Users::new(self.store.clone());
        users.change(who, change, &session.operator().into(), now).await.map_err(|error| match error {
            // Removed meanwhile.
            UserError::NotFound => Problem::NotLoggedIn,
            error => error.into(),
        })
    }

    /// Demands the second factor of all users of the account, or no longer.
    pub async fn demand_second_factor(
        &self,
        session: &Session,
        is_required: bool,
        now: Timestamp,
    ) -> Result<()> {
        let accounts = Accounts::new(self.store.clone());
        let (id, action) = (&session.account.id, Action::RequireSecondFactor);
        let set = |part: &mut bool| *part = is_required;
        let by = session.operator();
        accounts.change(id, action, |of| &mut of.requires_second_factor, set, &by, now).await?;
        Ok(())
    }
}
