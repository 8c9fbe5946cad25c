//! Which acquirer takes an account's live payments, and how it is reached and paid through: what an operator sets. A row
//! of its own beside the account, read by whoever calls the acquirer; keys, which every request reads, carry none of it.
//!
//! Nothing calls one yet: live keys are refused whatever stands here.

use std::fmt;
use std::str::FromStr;

use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error as TlsError, InconsistentKeys};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};
use strum::{IntoStaticStr, VariantArray};
use url::Url;

use domain::audit::{Audit, Operator};
use domain::hex;
use domain::ids::AccountId;
use domain::pix_key::PixKey;
use domain::row::{Key, Row};
use domain::text::serde_as_text;
use domain::time::Timestamp;
use domain::url_policy::{AddressPolicy, LocalNames, check_url};

use crate::audit;
use crate::random::RandomError;
use crate::store::{Plan, Store, StoreError, Write};

/// The longest client id and secret, in characters.
const MAX_CREDENTIAL_CHARS: usize = 512;

/// The longest PEM file, in bytes: a chain of certificates has some 8 KB, and a row at most 400.
pub const MAX_PEM_BYTES: usize = 64 * 1024;

/// Hex digits of a secret's fingerprint: enough to tell secrets apart, and not the whole hash of what may be guessed.
const FINGERPRINT_DIGITS: usize = 16;

/// Characters of a merchant's Pix key that the audit has, from its end.
const PIX_KEY_ENDING: usize = 4;

/// What kind of acquirer it is.
#[derive(Clone, Copy, Debug, Deserialize, Eq, IntoStaticStr, PartialEq, Serialize, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum AcquirerKind {
    /// A bank that speaks the Central Bank's API Pix.
    Pix,
}

/// A value that can't be configured, with what is wrong; holds nothing of a secret.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(String);

impl Refused {
    fn because(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

/// An acquirer's address, normalised.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AcquirerUrl(String);

impl AcquirerUrl {
    /// The address that `/cob/{txid}` and the like are appended to.
    ///
    /// # Errors
    ///
    /// When it is not https to a public host (on one machine: or http to itself), or has a query.
    pub fn base(text: &str, policy: &AddressPolicy) -> Result<Self, Refused> {
        let url = checked(text, policy)?;
        if url.query().is_some() {
            return Err(Refused::because("a base URL must not carry a query"));
        }
        Ok(Self(url.as_str().trim_end_matches('/').to_owned()))
    }

    /// The address that gives OAuth 2 tokens.
    ///
    /// # Errors
    ///
    /// As for [`AcquirerUrl::base`], but that it may have a query: some banks want the kind of grant there.
    pub fn token(text: &str, policy: &AddressPolicy) -> Result<Self, Refused> {
        checked(text, policy).map(|url| Self(url.into()))
    }

    /// Without what its query says, which may be a credential.
    fn without_query(&self) -> String {
        self.0.split_once('?').map_or_else(|| self.0.clone(), |(address, _)| format!("{address}?…"))
    }

    /// As it was normalised.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn checked(text: &str, policy: &AddressPolicy) -> Result<Url, Refused> {
    check_url(text, policy).map_err(|refusal| Refused::because(refusal.to_string()))
}

impl fmt::Display for AcquirerUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// What is stored was checked by the policy of its time.
impl FromStr for AcquirerUrl {
    type Err = Refused;

    fn from_str(text: &str) -> Result<Self, Refused> {
        checked(text, &AddressPolicy::PublicOrLocal(LocalNames::default())).map(|_| Self(text.to_owned()))
    }
}

serde_as_text!(AcquirerUrl);

/// The characters of an OAuth 2 client's id and secret (RFC 6749, appendix A), none of which is at an end of a line.
fn check_credential(text: &str) -> Result<(), Refused> {
    let fits = (1..=MAX_CREDENTIAL_CHARS).contains(&text.len());
    if fits && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(())
    } else {
        Err(Refused::because(format!("must be 1 to {MAX_CREDENTIAL_CHARS} visible ASCII characters")))
    }
}

/// An OAuth 2 client's id.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClientId(String);

impl fmt::Display for ClientId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl FromStr for ClientId {
    type Err = Refused;

    fn from_str(text: &str) -> Result<Self, Refused> {
        check_credential(text).map(|()| Self(text.to_owned()))
    }
}

serde_as_text!(ClientId);

/// A text that is stored as it is, for it must be sent or signed with, and is never shown.
#[derive(Clone)]
struct Hidden(SecretString);

impl Hidden {
    fn text(&self) -> &str {
        self.0.expose_secret()
    }

    fn fingerprint(&self) -> String {
        let mut digits = sha256(self.text().as_bytes());
        digits.truncate(FINGERPRINT_DIGITS);
        digits
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Hidden")
    }
}

impl PartialEq for Hidden {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Serialize for Hidden {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.text())
    }
}

impl<'de> Deserialize<'de> for Hidden {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(text.into()))
    }
}

fn sha256(bytes: &[u8]) -> String {
    hex::encode(&Sha256::digest(bytes))
}

/// An OAuth 2 client's secret.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(transparent)]
pub struct ClientSecret(Hidden);

impl ClientSecret {
    /// As somebody typed it.
    ///
    /// # Errors
    ///
    /// When it is empty, long, or has other characters than a client's secret may have.
    pub fn new(text: SecretString) -> Result<Self, Refused> {
        check_credential(text.expose_secret()).map(|()| Self(Hidden(text)))
    }

    /// The secret, to be sent.
    pub fn as_secret(&self) -> &SecretString {
        &self.0.0
    }
}

/// What a client proves itself with in mutual TLS: both halves or none.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ClientIdentity {
    certificate: String,
    private_key: Hidden,
}

impl ClientIdentity {
    /// From two PEM files: the client's certificate first, then those that issued it; and its key.
    ///
    /// # Errors
    ///
    /// When one is not what it should be, or they do not belong together.
    pub fn new(certificate: &str, private_key: SecretString) -> Result<Self, Refused> {
        if certificate.len().max(private_key.expose_secret().len()) > MAX_PEM_BYTES {
            return Err(Refused::because(format!("a PEM file must be at most {MAX_PEM_BYTES} bytes")));
        }
        // It is stored and fingerprinted as what everybody may see.
        if certificate.contains("PRIVATE KEY") {
            return Err(Refused::because("the certificate's file holds a private key too"));
        }
        let chain = certificates(certificate)?;
        let key = PrivateKeyDer::from_pem_slice(private_key.expose_secret().as_bytes())
            .map_err(|_| Refused::because("the private key's file holds no private key in PEM"))?;
        let key = any_supported_type(&key)
            .map_err(|_| Refused::because("the private key is of a kind that TLS has no use for here"))?;
        match CertifiedKey::new(chain, key).keys_match() {
            Ok(()) | Err(TlsError::InconsistentKeys(InconsistentKeys::Unknown)) => {}
            Err(TlsError::InconsistentKeys(_)) => {
                return Err(Refused::because("the private key is not the certificate's"));
            }
            Err(_) => return Err(Refused::because("the certificate can't be read")),
        }
        Ok(Self { certificate: certificate.to_owned(), private_key: Hidden(private_key) })
    }

    /// The certificates, in PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// The key, in PEM.
    pub fn private_key(&self) -> &SecretString {
        &self.private_key.0
    }

    /// SHA-256 of the client's own certificate, as every tool shows it.
    fn certificate_fingerprint(&self) -> Option<String> {
        certificates(&self.certificate).ok()?.first().map(|certificate| sha256(certificate))
    }
}

fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, Refused> {
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    parsed
        .ok()
        .filter(|chain| !chain.is_empty())
        .ok_or_else(|| Refused::because("the certificate's file holds no certificate in PEM"))
}

/// What an operator sets.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct AcquirerSettings {
    /// Which kind.
    pub kind: AcquirerKind,
    /// Where its API is.
    pub base_url: AcquirerUrl,
    /// Where it gives tokens for it, for client credentials.
    pub token_url: AcquirerUrl,
    /// Who we are there.
    pub client_id: ClientId,
    /// What proves it.
    pub client_secret: ClientSecret,
    /// What proves it to TLS, where the bank asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<ClientIdentity>,
    /// The merchant's key, to which payers pay.
    pub pix_key: PixKey,
    /// Whether it can send a Pix of its own, which API Pix can't: refunds by cash-out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub send_pix: bool,
}

/// The row of an account's acquirer.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct AccountAcquirer {
    /// Whose.
    pub account: AccountId,
    /// What was set.
    pub settings: AcquirerSettings,
    /// When.
    #[serde(with = "domain::time::millis")]
    pub updated_at: Timestamp,
    /// Counts the row's changes, from 1.
    pub version: u64,
}

impl AccountAcquirer {
    /// Where an account's acquirer lives.
    pub fn key_of(account: &AccountId) -> Key {
        Key { pk: format!("acquirer#{account}"), sk: "acquirer".to_owned() }
    }
}

impl Row for AccountAcquirer {
    fn key(&self) -> Key {
        Self::key_of(&self.account)
    }
}

/// An account's acquirer, as operators and the audit read it: of secrets the fingerprint.
#[derive(Debug, Serialize)]
pub struct AcquirerView<'a> {
    kind: AcquirerKind,
    base_url: &'a AcquirerUrl,
    token_url: String,
    client_id: &'a ClientId,
    client_secret_fingerprint: String,
    certificate_fingerprint: Option<String>,
    private_key_fingerprint: Option<String>,
    pix_key: String,
    send_pix: bool,
}

impl<'a> AcquirerView<'a> {
    /// As it stands.
    pub fn new(settings: &'a AcquirerSettings) -> Self {
        let identity = settings.identity.as_ref();
        Self {
            kind: settings.kind,
            base_url: &settings.base_url,
            token_url: settings.token_url.without_query(),
            client_id: &settings.client_id,
            client_secret_fingerprint: settings.client_secret.0.fingerprint(),
            certificate_fingerprint: identity.and_then(ClientIdentity::certificate_fingerprint),
            private_key_fingerprint: identity.map(|identity| identity.private_key.fingerprint()),
            pix_key: settings.pix_key.as_str().to_owned(),
            send_pix: settings.send_pix,
        }
    }

    /// For the audit, which is kept for good: the merchant's key may be their document.
    fn audited(settings: &'a AcquirerSettings) -> Result<String, serde_json::Error> {
        let shown = Self::new(settings);
        let ending = shown.pix_key.chars().rev().take(PIX_KEY_ENDING).collect::<Vec<_>>();
        let pix_key = std::iter::once('…').chain(ending.into_iter().rev()).collect();
        serde_json::to_string(&Self { pix_key, ..shown })
    }
}

/// Why an account's acquirer is not set or removed.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// DynamoDB.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The audit row has no id.
    #[error(transparent)]
    Random(#[from] RandomError),
    /// The audit row's details can't be written.
    #[error("an audit row can't be written: {0}")]
    Audit(#[from] serde_json::Error),
}

/// The acquirers of all accounts.
#[derive(Clone, Debug)]
pub struct AccountAcquirers {
    store: Store,
}

impl AccountAcquirers {
    /// In a store.
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// An account's acquirer, if it has one.
    pub async fn find(&self, account: &AccountId) -> Result<Option<AccountAcquirer>, StoreError> {
        self.store.get(&AccountAcquirer::key_of(account)).await
    }

    /// Sets the acquirer of an account that exists, with an audit row. The same again changes nothing.
    pub async fn set(
        &self,
        account: AccountId,
        settings: &AcquirerSettings,
        operator: &Operator,
        now: Timestamp,
    ) -> Result<AccountAcquirer, SettingsError> {
        let after = AcquirerView::audited(settings)?;
        let plan = |found: Option<AccountAcquirer>| {
            let seen = found.as_ref().map(|row| row.version);
            let next = AccountAcquirer {
                account,
                settings: settings.clone(),
                updated_at: now,
                version: seen.unwrap_or_default().saturating_add(1),
            };
            let (details, write) = match found {
                Some(row) if row.settings == *settings => return Ok(Plan::Finished(row)),
                Some(row) => {
                    let before = AcquirerView::audited(&row.settings)?;
                    (format!("{before} became {after}"), Write::replace(&next, row.version)?)
                }
                None => (after.clone(), Write::insert(&next)?),
            };
            let audit = audited(operator, account, "account.set-acquirer", now)?.with(details);
            Ok(Plan::Commit(vec![write, Write::insert(&audit)?], next))
        };
        self.store.update("an account's acquirer", &AccountAcquirer::key_of(&account), plan).await
    }

    /// Removes an account's acquirer, with an audit row, and gives what it was. `None`: it has none.
    pub async fn remove(
        &self,
        account: AccountId,
        operator: &Operator,
        now: Timestamp,
    ) -> Result<Option<AccountAcquirer>, SettingsError> {
        let plan = |found: Option<AccountAcquirer>| {
            let Some(found) = found else { return Ok(Plan::Finished(None)) };
            let seen = i64::try_from(found.version).unwrap_or(i64::MAX);
            let audit = audited(operator, account, "account.remove-acquirer", now)?;
            let audit = audit.with(format!("was {}", AcquirerView::audited(&found.settings)?));
            let writes = vec![Write::remove(found.key(), "version", seen), Write::insert(&audit)?];
            Ok(Plan::Commit(writes, Some(found)))
        };
        self.store.update("an account's acquirer", &AccountAcquirer::key_of(&account), plan).await
    }
}

fn audited(
    operator: &Operator,
    account: AccountId,
    action: &str,
    now: Timestamp,
) -> Result<Audit, RandomError> {
    audit::by_operator(operator, account, action, account.to_string(), now)
}

#[cfg(test)]
mod tests {
    use rcgen::generate_simple_self_signed;

    use super::*;
    use crate::store::to_item;

    fn pair() -> (String, String) {
        let made = generate_simple_self_signed(vec!["loja.example".to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    fn settings() -> AcquirerSettings {
        let (certificate, key) = pair();
        AcquirerSettings {
            kind: AcquirerKind::Pix,
            base_url: AcquirerUrl::base("https://pix.example.com/api/v2/", &AddressPolicy::PublicOnly)
                .unwrap(),
            token_url: AcquirerUrl::token("https://pix.example.com/oauth?v=2", &AddressPolicy::PublicOnly)
                .unwrap(),
            client_id: "loja".parse().unwrap(),
            client_secret: ClientSecret::new("not-to-be-seen".into()).unwrap(),
            identity: Some(ClientIdentity::new(&certificate, key.into()).unwrap()),
            pix_key: "pix@loja.example".parse().unwrap(),
            send_pix: true,
        }
    }

    #[test]
    fn an_address_is_https_but_on_one_machine() {
        let base = |text: &str, policy| AcquirerUrl::base(text, policy).map(|url| url.0);
        assert_eq!(
            base("https://PIX.example.com/api/v2/", &AddressPolicy::PublicOnly).unwrap(),
            "https://pix.example.com/api/v2"
        );
        for (text, why) in [
            ("http://pix.example.com/", "https"),
            ("https://127.0.0.1/", "loopback"),
            ("https://10.0.0.1/", "private"),
            ("https://user:pass@pix.example.com/", "user name"),
            ("https://pix.example.com/?a=b", "query"),
            ("pix.example.com", "absolute"),
        ] {
            let refused = base(text, &AddressPolicy::PublicOnly).unwrap_err().to_string();
            assert!(refused.contains(why), "{text}: {refused}");
        }
        let local = &AddressPolicy::PublicOrLocal(LocalNames::default());
        assert_eq!(base("http://127.0.0.1:9/bank", local).unwrap(), "http://127.0.0.1:9/bank");
        assert!(base("http://pix.example.com/", local).is_err());
    }

    #[test]
    fn credentials_are_visible_ascii() {
        for text in ["", " ", "a b", "a\n", "ção", &"x".repeat(513)] {
            assert!(text.parse::<ClientId>().is_err() && ClientSecret::new(text.into()).is_err(), "{text}");
        }
        assert!(ClientSecret::new("x".repeat(512).into()).is_ok());
    }

    #[test]
    fn a_certificate_and_its_key_are_taken_and_nothing_else() {
        let ((certificate, key), (another, _)) = (pair(), pair());
        let new = |certificate: &str, key: &str| {
            ClientIdentity::new(certificate, key.into()).map_err(|refused| refused.to_string())
        };
        let chain = format!("{certificate}{another}");
        assert!(new(&chain, &key).is_ok(), "with those that issued it");
        for (certificate, key, why) in [
            ("", key.as_str(), "no certificate"),
            ("hello", &key, "no certificate"),
            ("-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n", &key, "no certificate"),
            ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", &key, "can't be read"),
            (&certificate, "", "no private key"),
            (&certificate, &certificate, "no private key"),
            (&another, &key, "not the certificate's"),
            (&format!("{certificate}{key}"), &key, "holds a private key too"),
            (&certificate, &format!("{key}{}", "x".repeat(MAX_PEM_BYTES)), "at most"),
        ] {
            let refused = new(certificate, key).unwrap_err();
            assert!(refused.contains(why), "{refused}");
            assert!(!refused.contains("BEGIN"), "{refused}");
        }
    }

    #[test]
    fn no_secret_is_printed_and_each_has_a_fingerprint() {
        let settings = settings();
        let key = settings.identity.as_ref().unwrap().private_key().expose_secret().to_owned();
        let body = key.lines().nth(1).unwrap();
        let view = AcquirerView::audited(&settings).unwrap();
        for printed in [format!("{settings:?}"), view.clone()] {
            assert!(!printed.contains("not-to-be-seen") && !printed.contains(body), "{printed}");
        }
        assert!(view.contains(r#""pix_key":"…mple""#) && !view.contains("pix@loja"), "{view}");
        let with_key = "https://bank.example/token?app-key=s3cret";
        let token_url = AcquirerUrl::token(with_key, &AddressPolicy::PublicOnly).unwrap();
        let shown = AcquirerView::new(&AcquirerSettings { token_url, ..settings.clone() }).token_url;
        assert_eq!(shown, "https://bank.example/token?…");
        // printf %s not-to-be-seen | sha256sum
        assert!(view.contains(r#""client_secret_fingerprint":"9228cce372c132c1""#), "{view}");
        let other = AcquirerSettings {
            client_secret: ClientSecret::new("another".into()).unwrap(),
            ..settings.clone()
        };
        assert_ne!(AcquirerView::audited(&other).unwrap(), view);
        assert_ne!(other, settings);
    }

    #[test]
    fn a_row_is_read_as_it_was_written() {
        let row = AccountAcquirer {
            account: AccountId::new([1; 10]),
            settings: settings(),
            updated_at: Timestamp::MIN,
            version: 1,
        };
        assert_eq!(row.key().pk, format!("acquirer#{}", row.account));
        let read: AccountAcquirer = crate::store::from_item(to_item(&row).unwrap()).unwrap();
        assert_eq!(read, row);
        assert_eq!(read.settings.client_secret.as_secret().expose_secret(), "not-to-be-seen");
    }
}
