//! What the first run makes, so that a developer can begin: two accounts with keys and people.
//!
//! The cleartexts are kept in `seed.json` beside the state, for this machine's developer alone; the tables keep
//! what a deployed stack's would.

use std::fs;
use std::io::Write;
use std::path::Path;

use domain::account::{Account, AccountSettings, Contact};
use domain::hex;
use domain::ids::{AccountId, Mode, UserId};
use domain::time::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use shared::account::password::PasswordHash;
use shared::account::{Role, TokenGeneration, User};
use shared::api_key::{self, ApiKey, ApiKeys};
use shared::auth::dashboard::token::Tokens;
use shared::random;
use shared::store::{Inserted, Store};

use crate::error::{Error, Result};

/// The seeded accounts' requests a minute for each key: room for a load test on a laptop.
const RATE_LIMIT_PER_MINUTE: u64 = 60_000;

/// One seeded account.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct SeededAccount {
    /// `acc_…`.
    pub id: AccountId,
    /// Shown to payers.
    pub merchant_name: String,
    /// A key for test data.
    pub test_api_key: String,
    /// A key for live data.
    pub live_api_key: String,
    /// Its owner's log-in.
    pub owner_email: String,
    /// Its owner's password.
    pub password: String,
    /// Names what ids are derived from.
    salt: String,
}

/// Counts the changes of what rows look like. State of another format is refused: nothing brings it up to date, and a
/// row that is read as something else is worse than none.
const STATE_FORMAT: u32 = 7;

/// All that was seeded.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Seed {
    /// What the rows beside it look like.
    #[serde(default)]
    state_format: u32,
    /// The account to begin with.
    pub first: SeededAccount,
    /// Another one, to see that accounts are kept apart.
    pub other: SeededAccount,
    /// A member of the first account, who may not manage its keys.
    pub member_email: String,
    /// Signs dashboard tokens.
    token_secret: String,
    /// What the seeded people's first tokens are issued under.
    tokens: TokenGeneration,
}

impl Seed {
    /// The seed of this state: read where there is one, else made.
    pub fn load_or_make(directory: Option<&Path>) -> Result<Self> {
        let Some(directory) = directory else {
            return Self::make();
        };
        let path = directory.join("seed.json");
        if let Ok(text) = fs::read(&path) {
            let seed: Self =
                serde_json::from_slice(&text).map_err(|e| Error::because("reading seed.json", &e))?;
            if seed.state_format != STATE_FORMAT {
                return Err(Error::new(format!(
                    "{}/ holds the state of another version of the service; remove it to start anew",
                    directory.display()
                )));
            }
            return Ok(seed);
        }
        let seed = Self::make()?;
        let text = serde_json::to_vec_pretty(&seed).map_err(|e| Error::because("writing seed.json", &e))?;
        write_whole(&path, &text)?;
        Ok(seed)
    }

    fn make() -> Result<Self> {
        Ok(Self {
            state_format: STATE_FORMAT,
            first: SeededAccount::make("Loja Exemplo", "owner@loja.example")?,
            other: SeededAccount::make("Outra Loja", "owner@outra.example")?,
            member_email: "member@loja.example".to_owned(),
            token_secret: random_text()?,
            tokens: TokenGeneration::new(random_bytes()?),
        })
    }

    /// Writes the seed's rows where they are missing.
    pub async fn plant(&self, store: &Store, api_keys: &ApiKeys, now: Timestamp) -> Result<()> {
        let failed = |error: &(dyn std::error::Error + 'static)| Error::because("seeding", error);
        for account in [&self.first, &self.other] {
            let row = account.row(now)?;
            // The account's row comes last on a first run, so that a run cut short is taken up again.
            let known: Option<Account> =
                store.get(&domain::row::Row::key(&row)).await.map_err(|error| failed(&error))?;
            if known.is_some() {
                continue;
            }
            for (mode, key) in [(Mode::Test, &account.test_api_key), (Mode::Live, &account.live_api_key)] {
                let key = SecretString::from(key.clone());
                let key = ApiKey::new(&key, &row, mode, "seeded", now);
                api_keys.put(&key).await.map_err(|error| failed(&error))?;
            }
            for user in self.users(account, now)? {
                let _made_now_or_before: Inserted<User> =
                    store.insert(&user).await.map_err(|error| failed(&error))?;
            }
            let _made_now_or_before: Inserted<Account> =
                store.insert(&row).await.map_err(|error| failed(&error))?;
        }
        Ok(())
    }

    fn users(&self, account: &SeededAccount, now: Timestamp) -> Result<Vec<User>> {
        let hash = PasswordHash::of(&account.password.clone().into())
            .map_err(|error| Error::because("hashing a password", &error))?;
        let user = |email: &str, role| User::new(email, hash.clone(), account.id, role, self.tokens, now);
        let mut users = vec![user(&account.owner_email, Role::Owner)];
        if account.id == self.first.id {
            users.push(user(&self.member_email, Role::Member));
        }
        Ok(users)
    }

    /// Signs dashboard tokens.
    pub fn token_secret(&self) -> SecretString {
        self.token_secret.clone().into()
    }

    /// A dashboard token for the owner of an account.
    pub fn owner_token(&self, account: &SeededAccount, now: Timestamp) -> Result<String> {
        self.token(account, &account.owner_email, Role::Owner, now)
    }

    /// A dashboard token for the first account's member.
    pub fn member_token(&self, now: Timestamp) -> Result<String> {
        self.token(&self.first, &self.member_email, Role::Member, now)
    }

    fn token(&self, account: &SeededAccount, email: &str, role: Role, now: Timestamp) -> Result<String> {
        let failed = |e: &(dyn std::error::Error + 'static)| Error::because("issuing a token", e);
        let tokens = Tokens::new(self.token_secret()).map_err(|e| failed(&e))?;
        let holder = (UserId::of_email(email), account.id, role, self.tokens);
        let (token, _) = tokens.issue(holder, &random_text()?, now).map_err(|e| failed(&e))?;
        Ok(token.expose_secret().to_owned())
    }
}

impl SeededAccount {
    fn make(merchant_name: &str, owner_email: &str) -> Result<Self> {
        let key =
            |mode| random_bytes().map(|bytes| api_key::generate(mode, bytes).expose_secret().to_owned());
        Ok(Self {
            id: AccountId::new(random_bytes()?),
            merchant_name: merchant_name.to_owned(),
            test_api_key: key(Mode::Test)?,
            live_api_key: key(Mode::Live)?,
            owner_email: owner_email.to_owned(),
            password: random_text()?,
            salt: random_text()?,
        })
    }

    fn row(&self, now: Timestamp) -> Result<Account> {
        // Its owner, so that a laptop shows the mails.
        let address = self.owner_email.parse().map_err(|e| Error::because("seeding", &e))?;
        let contact = Contact { address: Some(address), mail_off: false };
        let (settings, salt) = (self.settings(), self.salt.clone());
        Ok(Account { id: self.id, settings, contact, salt, created_at: now, version: 1 })
    }

    fn settings(&self) -> AccountSettings {
        AccountSettings {
            rate_limit_per_minute: RATE_LIMIT_PER_MINUTE,
            ..AccountSettings::new(&self.merchant_name, "Sao Paulo")
        }
    }
}

fn random_bytes<const N: usize>() -> Result<[u8; N]> {
    random::bytes().map_err(|e| Error::because("seeding", &e))
}

fn random_text() -> Result<String> {
    random_bytes::<16>().map(|bytes| hex::encode(&bytes))
}

/// Writes a file so that it is there whole or not at all, and readable by its owner alone.
pub fn write_whole(path: &Path, text: &[u8]) -> Result<()> {
    let failed = |e: &std::io::Error| Error::because(&format!("writing {}", path.display()), e);
    let beside = path.with_extension("new");
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&beside).map_err(|e| failed(&e))?;
    file.write_all(text).and_then(|()| file.sync_all()).map_err(|e| failed(&e))?;
    fs::rename(&beside, path).map_err(|e| failed(&e))
}
