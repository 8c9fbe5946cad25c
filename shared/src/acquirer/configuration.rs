//! The configuration of an account's acquirer for live payments: URLs, credentials and the merchant's Pix
//! key. An operator sets the configuration.
//!
//! The configuration has a row of its own, which the functions that serve merchants may not read (policy
//! `NoAcquirerCredentials` in `template.yaml`). The account's other settings are copied into the rows of its
//! API keys, which every request reads. Credentials must not be in those rows. The service can't call a bank
//! yet, so live charges are refused even if an acquirer is configured.

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

/// The longest client id or client secret, in characters.
const MAX_CREDENTIAL_CHARS: usize = 512;

/// The longest PEM file, in bytes: 64 KiB. A certificate chain has about 8 KB, and a DynamoDB row may have at
/// most 400 KB.
pub const MAX_PEM_BYTES: usize = 64 * 1024;

/// The number of hex digits of a secret's hash that are shown as its fingerprint. These digits suffice to
/// distinguish secrets. The whole hash is not shown, because a weak secret could be guessed from it.
const FINGERPRINT_DIGITS: usize = 16;

/// The number of characters at the end of a merchant's Pix key that audit rows contain.
const PIX_KEY_ENDING: usize = 4;

/// The kind of an acquirer.
#[derive(Clone, Copy, Debug, Deserialize, Eq, IntoStaticStr, PartialEq, Serialize, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum AcquirerKind {
    /// A bank that offers the API Pix of Brazil's Central Bank.
    Pix,
}

/// A configured value is not valid. The message states the rule that the value breaks. It contains no part of
/// a secret.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSetting(String);

impl InvalidSetting {
    fn because(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

/// A valid and normalised URL of an acquirer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AcquirerUrl(String);

impl AcquirerUrl {
    /// Parses the base URL of the API, to which paths such as `/cob/{txid}` are appended.
    ///
    /// # Errors
    ///
    /// When the URL does not use https, its host is not public, or it has a query. A local stack also accepts
    /// URLs of its own machine, with http or https.
    pub fn base(text: &str, policy: &AddressPolicy) -> Result<Self, InvalidSetting> {
        let url = checked(text, policy)?;
        if url.query().is_some() {
            return Err(InvalidSetting::because("a base URL must not have a query"));
        }
        Ok(Self(url.as_str().trim_end_matches('/').to_owned()))
    }

    /// Parses the URL that issues OAuth 2 tokens.
    ///
    /// # Errors
    ///
    /// The same as for [`AcquirerUrl::base`], but a query is allowed, because some banks expect the grant
    /// type in the query.
    pub fn token(text: &str, policy: &AddressPolicy) -> Result<Self, InvalidSetting> {
        checked(text, policy).map(|url| Self(url.into()))
    }

    /// Returns the URL with `…` in place of its query, which may contain a credential.
    fn without_query(&self) -> String {
        self.0.split_once('?').map_or_else(|| self.0.clone(), |(address, _)| format!("{address}?…"))
    }

    /// The normalised URL as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn checked(text: &str, policy: &AddressPolicy) -> Result<Url, InvalidSetting> {
    check_url(text, policy).map_err(|refusal| InvalidSetting::because(refusal.to_string()))
}

impl fmt::Display for AcquirerUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Parses a stored URL with the most permissive policy. The deployment's policy was applied when an operator
/// set the URL.
impl FromStr for AcquirerUrl {
    type Err = InvalidSetting;

    fn from_str(text: &str) -> Result<Self, InvalidSetting> {
        checked(text, &AddressPolicy::PublicOrLocal(LocalNames::default())).map(|_| Self(text.to_owned()))
    }
}

serde_as_text!(AcquirerUrl);

/// Checks an OAuth 2 client id or secret: only visible ASCII characters (RFC 6749, appendix A). Whitespace is
/// refused, so that an operator notices a line break at the end of a file.
fn check_credential(text: &str) -> Result<(), InvalidSetting> {
    let has_valid_length = (1..=MAX_CREDENTIAL_CHARS).contains(&text.len());
    if has_valid_length && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(())
    } else {
        Err(InvalidSetting::because(format!("must be 1 to {MAX_CREDENTIAL_CHARS} visible ASCII characters")))
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
    type Err = InvalidSetting;

    fn from_str(text: &str) -> Result<Self, InvalidSetting> {
        check_credential(text).map(|()| Self(text.to_owned()))
    }
}

serde_as_text!(ClientId);

/// A secret that is stored in cleartext, because the service must send it or sign with it. It is never shown.
#[derive(Clone)]
struct StoredSecret(SecretString);

impl StoredSecret {
    fn text(&self) -> &str {
        self.0.expose_secret()
    }

    fn fingerprint(&self) -> String {
        let mut digits = sha256(self.text().as_bytes());
        digits.truncate(FINGERPRINT_DIGITS);
        digits
    }
}

impl fmt::Debug for StoredSecret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("StoredSecret")
    }
}

impl PartialEq for StoredSecret {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Serialize for StoredSecret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.text())
    }
}

impl<'de> Deserialize<'de> for StoredSecret {
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
pub struct ClientSecret(StoredSecret);

impl ClientSecret {
    /// Parses a client secret.
    ///
    /// # Errors
    ///
    /// When it is empty, has more than 512 characters, or has a character that is not visible ASCII.
    pub fn new(text: SecretString) -> Result<Self, InvalidSetting> {
        check_credential(text.expose_secret()).map(|()| Self(StoredSecret(text)))
    }

    /// The secret in cleartext, for requests to the acquirer.
    pub fn as_secret(&self) -> &SecretString {
        &self.0.0
    }
}

/// The client certificate and private key for mutual TLS.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ClientIdentity {
    certificate: String,
    private_key: StoredSecret,
}

impl ClientIdentity {
    /// Parses two PEM files: the certificate chain, and the private key of the client's own certificate. The
    /// chain begins with that certificate.
    ///
    /// # Errors
    ///
    /// When a file is not valid or is too long, or the key does not match the certificate.
    pub fn new(certificate: &str, private_key: SecretString) -> Result<Self, InvalidSetting> {
        if certificate.len().max(private_key.expose_secret().len()) > MAX_PEM_BYTES {
            return Err(InvalidSetting::because(format!("a PEM file must be at most {MAX_PEM_BYTES} bytes")));
        }
        // The certificate is handled as public data, so a private key in its file would not be protected.
        if certificate.contains("PRIVATE KEY") {
            return Err(InvalidSetting::because(
                "the certificate's file holds a private key too; remove it from this file",
            ));
        }
        let chain = certificates(certificate)?;
        let key = PrivateKeyDer::from_pem_slice(private_key.expose_secret().as_bytes())
            .map_err(|_| InvalidSetting::because("the private key's file holds no private key in PEM"))?;
        let key = any_supported_type(&key).map_err(|_| {
            InvalidSetting::because("the private key is of a type that TLS does not support here")
        })?;
        match CertifiedKey::new(chain, key).keys_match() {
            Ok(()) | Err(TlsError::InconsistentKeys(InconsistentKeys::Unknown)) => {}
            Err(TlsError::InconsistentKeys(_)) => {
                return Err(InvalidSetting::because("the private key does not match the certificate"));
            }
            Err(_) => return Err(InvalidSetting::because("the certificate can't be read")),
        }
        Ok(Self { certificate: certificate.to_owned(), private_key: StoredSecret(private_key) })
    }

    /// The certificate chain, in PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// The private key, in PEM.
    pub fn private_key(&self) -> &SecretString {
        &self.private_key.0
    }

    /// Returns the SHA-256 hash of the client's own certificate (DER), in hex. `openssl x509 -fingerprint
    /// -sha256` shows the same digits, with colons and in capitals.
    fn certificate_fingerprint(&self) -> Option<String> {
        certificates(&self.certificate).ok()?.first().map(|certificate| sha256(certificate))
    }
}

fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, InvalidSetting> {
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    parsed
        .ok()
        .filter(|chain| !chain.is_empty())
        .ok_or_else(|| InvalidSetting::because("the certificate's file holds no certificate in PEM"))
}

/// The settings of an account's acquirer.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct AcquirerSettings {
    /// The kind of acquirer.
    pub kind: AcquirerKind,
    /// The base URL of the acquirer's API.
    pub base_url: AcquirerUrl,
    /// The URL that issues OAuth 2 tokens for client credentials.
    pub token_url: AcquirerUrl,
    /// The OAuth 2 client id.
    pub client_id: ClientId,
    /// The OAuth 2 client secret.
    pub client_secret: ClientSecret,
    /// The client certificate, if the bank requires mutual TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<ClientIdentity>,
    /// The merchant's Pix key, which receives the payments.
    pub pix_key: PixKey,
    /// Whether the acquirer can send a Pix. Refunds by cash-out require this, and it is not a part of API
    /// Pix.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub send_pix: bool,
}

/// The row of an account's acquirer.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct AccountAcquirer {
    /// The account.
    pub account: AccountId,
    /// The current settings.
    pub settings: AcquirerSettings,
    /// When the settings were last changed.
    #[serde(with = "domain::time::millis")]
    pub updated_at: Timestamp,
    /// The version of the row, from 1.
    pub version: u64,
}

impl AccountAcquirer {
    /// The primary key of the row of an account's acquirer.
    pub fn key_of(account: &AccountId) -> Key {
        Key { pk: format!("acquirer#{account}"), sk: "acquirer".to_owned() }
    }
}

impl Row for AccountAcquirer {
    fn key(&self) -> Key {
        Self::key_of(&self.account)
    }
}

/// The settings of an acquirer for operators and audit rows. The view contains fingerprints instead of
/// secrets.
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
    /// Builds the view of settings.
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

    /// Returns the view as JSON for an audit row, with only the end of the merchant's Pix key. The Pix key
    /// may be a tax id, and audit rows are stored forever.
    fn json_for_audit(settings: &'a AcquirerSettings) -> Result<String, serde_json::Error> {
        let shown = Self::new(settings);
        let ending = shown.pix_key.chars().rev().take(PIX_KEY_ENDING).collect::<Vec<_>>();
        let pix_key = std::iter::once('…').chain(ending.into_iter().rev()).collect();
        serde_json::to_string(&Self { pix_key, ..shown })
    }
}

/// Why an account's acquirer can't be set or removed.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// DynamoDB failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The operating system returned no random bytes for the id of the audit row.
    #[error(transparent)]
    Random(#[from] RandomError),
    /// The details of the audit row can't be serialised.
    #[error("an audit row can't be written: {0}")]
    Audit(#[from] serde_json::Error),
}

/// The repository of the accounts' acquirers.
#[derive(Clone, Debug)]
pub struct AccountAcquirers {
    store: Store,
}

impl AccountAcquirers {
    /// Creates the repository over `store`.
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// Reads an account's acquirer. `None`: the account has none.
    pub async fn find(&self, account: &AccountId) -> Result<Option<AccountAcquirer>, StoreError> {
        self.store.get(&AccountAcquirer::key_of(account)).await
    }

    /// Sets an account's acquirer, and writes an audit row. If the settings are unchanged, nothing is
    /// written. The caller must check that the account exists.
    pub async fn set(
        &self,
        account: AccountId,
        settings: &AcquirerSettings,
        operator: &Operator,
        now: Timestamp,
    ) -> Result<AccountAcquirer, SettingsError> {
        let after = AcquirerView::json_for_audit(settings)?;
        let plan = |found: Option<AccountAcquirer>| {
            let stored_version = found.as_ref().map(|row| row.version);
            let next = AccountAcquirer {
                account,
                settings: settings.clone(),
                updated_at: now,
                version: stored_version.unwrap_or_default().saturating_add(1),
            };
            let (details, write) = match found {
                Some(row) if row.settings == *settings => return Ok(Plan::Finished(row)),
                Some(row) => {
                    let before = AcquirerView::json_for_audit(&row.settings)?;
                    (format!("{before} became {after}"), Write::replace(&next, row.version)?)
                }
                None => (after.clone(), Write::insert(&next)?),
            };
            let audit = audit_row(operator, account, "account.set-acquirer", now)?.with_details(details);
            Ok(Plan::Commit(vec![write, Write::insert(&audit)?], next))
        };
        self.store.update("an account's acquirer", &AccountAcquirer::key_of(&account), plan).await
    }

    /// Removes an account's acquirer, and writes an audit row. Returns the removed row; `None`: the account
    /// has none.
    pub async fn remove(
        &self,
        account: AccountId,
        operator: &Operator,
        now: Timestamp,
    ) -> Result<Option<AccountAcquirer>, SettingsError> {
        let plan = |found: Option<AccountAcquirer>| {
            let Some(found) = found else { return Ok(Plan::Finished(None)) };
            let version = i64::try_from(found.version).unwrap_or(i64::MAX);
            let audit = audit_row(operator, account, "account.remove-acquirer", now)?;
            let audit = audit.with_details(format!("was {}", AcquirerView::json_for_audit(&found.settings)?));
            let writes = vec![Write::remove(found.key(), "version", version), Write::insert(&audit)?];
            Ok(Plan::Commit(writes, Some(found)))
        };
        self.store.update("an account's acquirer", &AccountAcquirer::key_of(&account), plan).await
    }
}

fn audit_row(
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
        let generated = generate_simple_self_signed(vec!["loja.example".to_owned()]).unwrap();
        (generated.cert.pem(), generated.signing_key.serialize_pem())
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
    fn a_url_must_be_https_to_a_public_host_except_in_a_local_stack() {
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
    fn credentials_must_be_visible_ascii() {
        for text in ["", " ", "a b", "a\n", "ção", &"x".repeat(513)] {
            assert!(text.parse::<ClientId>().is_err() && ClientSecret::new(text.into()).is_err(), "{text}");
        }
        assert!(ClientSecret::new("x".repeat(512).into()).is_ok());
    }

    #[test]
    fn only_a_certificate_with_its_own_key_is_accepted() {
        let ((certificate, key), (another, _)) = (pair(), pair());
        let new = |certificate: &str, key: &str| {
            ClientIdentity::new(certificate, key.into()).map_err(|refused| refused.to_string())
        };
        let chain = format!("{certificate}{another}");
        assert!(new(&chain, &key).is_ok(), "a chain with the issuer's certificate");
        for (certificate, key, why) in [
            ("", key.as_str(), "no certificate"),
            ("hello", &key, "no certificate"),
            ("-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n", &key, "no certificate"),
            ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", &key, "can't be read"),
            (&certificate, "", "no private key"),
            (&certificate, &certificate, "no private key"),
            (&another, &key, "does not match the certificate"),
            (&format!("{certificate}{key}"), &key, "holds a private key too"),
            (&certificate, &format!("{key}{}", "x".repeat(MAX_PEM_BYTES)), "at most"),
        ] {
            let refused = new(certificate, key).unwrap_err();
            assert!(refused.contains(why), "{refused}");
            assert!(!refused.contains("BEGIN"), "{refused}");
        }
    }

    #[test]
    fn secrets_are_never_shown_and_each_has_a_fingerprint() {
        let settings = settings();
        let key = settings.identity.as_ref().unwrap().private_key().expose_secret().to_owned();
        let body = key.lines().nth(1).unwrap();
        let view = AcquirerView::json_for_audit(&settings).unwrap();
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
        assert_ne!(AcquirerView::json_for_audit(&other).unwrap(), view);
        assert_ne!(other, settings);
    }

    #[test]
    fn a_row_can_be_read_back_unchanged() {
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
