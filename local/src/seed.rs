//! Seeds a new state with two accounts, their API keys and dashboard users, so that a developer can start at
//! once.
//!
//! `seed.json` in the state directory contains the keys and passwords in cleartext. Only the file's owner can
//! read it. The tables contain only hashes, as in a deployed stack.

use std::path::Path;
use std::sync::LazyLock;

use domain::account::{Account, AccountSettings, Brand, Contact};
use domain::hex;
use domain::ids::{AccountId, Mode};
use domain::time::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use shared::account::password::PasswordHash;
use shared::account::{Role, TokenGeneration, User};
use shared::api_key::{self, ApiKey, ApiKeys};
use shared::auth::dashboard::IssuedToken;
use shared::auth::dashboard::log_in::NewToken;
use shared::auth::dashboard::token::{TokenKind, Tokens, public_key_of};
use shared::random;
use shared::store::{Inserted, Store};

use crate::error::{Context, Error, Result};
use crate::files::{read_if_exists, write_atomically};

/// The rate limit of the seeded accounts, in requests per minute for each key. It allows load tests on a
/// laptop.
const RATE_LIMIT_PER_MINUTE: u64 = 60_000;

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct SeededAccount {
    pub id: AccountId,
    pub merchant_name: String,
    pub test_api_key: String,
    pub live_api_key: String,
    pub owner_email: String,
    pub password: String,
    /// Stored, because hashing takes long.
    password_hash: PasswordHash,
    salt: String,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct BankClient {
    pub client_id: String,
    pub client_secret: String,
    pub pix_key: String,
}

/// The version of rows, tables and indexes. A state directory with another version is rejected, because its
/// rows would be misread, or an index would be missing.
const STATE_FORMAT: u32 = 14;

/// The seeded accounts, users and secrets.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Seed {
    state_format: u32,
    pub first: SeededAccount,
    /// A second account, to verify that accounts can't access each other's data.
    pub other: SeededAccount,
    /// A member can't manage API keys.
    pub member_email: String,
    pub bank: BankClient,
    /// The API key of the stand-in of Stripe.
    pub card_key: String,
    /// The private key of dashboard tokens is derived from it.
    token_secret: String,
    tokens: TokenGeneration,
}

impl Seed {
    /// Without a directory, creates a seed and does not save it.
    pub(crate) fn load_or_create(directory: Option<&Path>) -> Result<Self> {
        let Some(directory) = directory else {
            return Self::in_memory();
        };
        let path = directory.join("seed.json");
        let Some(text) = read_if_exists(&path)? else {
            return Self::generate(passwords()?)?.saved(&path);
        };
        let stored: Value = serde_json::from_str(&text).context("reading seed.json")?;
        if stored.get("state_format").and_then(Value::as_u64) != Some(u64::from(STATE_FORMAT)) {
            return Err(Error::new(format!(
                "{}/ contains the state of another version of the service; delete the directory to start with an empty state",
                directory.display()
            )));
        }
        serde_json::from_value(stored).context("reading seed.json")
    }

    fn saved(self, path: &Path) -> Result<Self> {
        let text = serde_json::to_vec_pretty(&self).context("writing seed.json")?;
        write_atomically(path, &text)?;
        Ok(self)
    }

    /// Creates a seed that is not saved. All such seeds of a process have the same passwords, because hashing one
    /// takes long and tests start many services.
    fn in_memory() -> Result<Self> {
        static PASSWORDS: LazyLock<Result<[Password; 2]>> = LazyLock::new(passwords);
        Self::generate(PASSWORDS.clone()?)
    }

    fn generate([first, other]: [Password; 2]) -> Result<Self> {
        Ok(Self {
            state_format: STATE_FORMAT,
            first: SeededAccount::generate("Loja Exemplo", "owner@loja.example", first)?,
            other: SeededAccount::generate("Outra Loja", "owner@outra.example", other)?,
            member_email: "member@loja.example".to_owned(),
            bank: BankClient::generate()?,
            card_key: format!("sk_live_{}", random_text()?),
            token_secret: random_text()?,
            tokens: TokenGeneration::new(random_bytes()?),
        })
    }

    pub(crate) async fn insert_rows(&self, store: &Store, api_keys: &ApiKeys, now: Timestamp) -> Result<()> {
        for account in [&self.first, &self.other] {
            let row = account.row(now)?;
            // The account's row is inserted last. If it exists, an earlier run inserted the other rows too.
            // If it is missing, this run inserts the rows that an interrupted run did not insert.
            let existing: Option<Account> =
                store.get(&domain::row::Row::key(&row)).await.context("seeding")?;
            if existing.is_some() {
                continue;
            }
            for (mode, key) in [(Mode::Test, &account.test_api_key), (Mode::Live, &account.live_api_key)] {
                let key = SecretString::from(key.clone());
                let key = ApiKey::new(&key, &row, mode, "Chave de exemplo", now);
                api_keys.put(&key).await.context("seeding")?;
            }
            for user in self.users(account, now) {
                let _inserted_now_or_before: Inserted<User> = store.insert(&user).await.context("seeding")?;
            }
            let _inserted_now_or_before: Inserted<Account> = store.insert(&row).await.context("seeding")?;
        }
        Ok(())
    }

    fn users(&self, account: &SeededAccount, now: Timestamp) -> Vec<User> {
        let hash = &account.password_hash;
        let user = |email: &str, role| User::new(email, hash.clone(), account.id, role, self.tokens, now);
        let mut users = vec![user(&account.owner_email, Role::Owner)];
        if account.id == self.first.id {
            users.push(user(&self.member_email, Role::Member));
        }
        users
    }

    /// Returns the secret from which the private key of dashboard tokens is derived.
    pub(crate) fn token_secret(&self) -> SecretString {
        self.token_secret.clone().into()
    }

    pub(crate) fn token_key(&self) -> Result<String> {
        public_key_of(&self.token_secret()).context("issuing a token")
    }

    /// Returns a new token of a seeded user, and the row of its session. `row`: the user's, if it is inserted already.
    pub(crate) fn session(
        &self,
        kind: TokenKind,
        ((account, email), row): ((&SeededAccount, &str), Option<&User>),
        now: Timestamp,
    ) -> Result<(NewToken, IssuedToken)> {
        let doing = "issuing a token";
        let tokens = Tokens::new(&self.token_key()?, Some(&self.token_secret())).context(doing)?;
        let user = self.users(account, now).into_iter().find(|user| user.email == email);
        let user = user.ok_or_else(|| Error::new(format!("{email} is not seeded")))?;
        let issued = IssuedToken::new(&tokens, (kind, row.unwrap_or(&user)), Default::default(), now);
        issued.map_err(|problem| Error::new(format!("{doing}: {problem:?}")))
    }
}

impl BankClient {
    fn generate() -> Result<Self> {
        let pix_key = uuid::Builder::from_random_bytes(random_bytes()?).into_uuid().to_string();
        Ok(Self { client_id: random_text()?, client_secret: random_text()?, pix_key })
    }
}

impl SeededAccount {
    fn generate(merchant_name: &str, owner_email: &str, (password, password_hash): Password) -> Result<Self> {
        let key =
            |mode| random_bytes().map(|bytes| api_key::generate(mode, bytes).expose_secret().to_owned());
        Ok(Self {
            id: AccountId::new(random_bytes()?),
            merchant_name: merchant_name.to_owned(),
            test_api_key: key(Mode::Test)?,
            live_api_key: key(Mode::Live)?,
            owner_email: owner_email.to_owned(),
            password,
            password_hash,
            salt: random_text()?,
        })
    }

    fn row(&self, now: Timestamp) -> Result<Account> {
        // The owner is also the account's contact, so that a developer can see the emails to merchants.
        let address = self.owner_email.parse().context("seeding")?;
        let contact = Contact { address: Some(address), mail_off: false };
        let (settings, salt) = (self.settings(), self.salt.clone());
        Ok(Account {
            id: self.id,
            settings,
            contact,
            document: None,
            brand: Brand::default(),
            requires_second_factor: false,
            salt,
            created_at: now,
            version: 1,
        })
    }

    fn settings(&self) -> AccountSettings {
        AccountSettings {
            rate_limit_per_minute: RATE_LIMIT_PER_MINUTE,
            ..AccountSettings::new(&self.merchant_name, "Sao Paulo")
        }
    }
}

type Password = (String, PasswordHash);

fn passwords() -> Result<[Password; 2]> {
    let new = || {
        let password = random_text()?;
        let hash = PasswordHash::of(&password.clone().into());
        Ok((password, hash.context("hashing a password")?))
    };
    Ok([new()?, new()?])
}

fn random_bytes<const N: usize>() -> Result<[u8; N]> {
    random::bytes().context("seeding")
}

fn random_text() -> Result<String> {
    random_bytes::<16>().map(hex::encode)
}
