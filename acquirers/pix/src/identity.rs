//! Certificates: the client's own, with its private key, and the authorities that a bank's server certificate
//! is verified against besides the public ones.

use rustls::RootCertStore;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error as TlsError, InconsistentKeys};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use acquirer_http::Identity;
use acquirer_kit::setting::{InvalidSetting, Secret, sha256};
use domain::time::Timestamp;

use crate::certificate;

/// The longest PEM file, in bytes: 64 KiB. A certificate chain has about 8 KB, and a DynamoDB row may have at
/// most 400 KB.
pub const MAX_PEM_BYTES: usize = 64 * 1024;

/// The client certificate and private key for mutual TLS.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ClientIdentity {
    certificate: String,
    private_key: Secret,
}

impl ClientIdentity {
    /// Parses two PEM files: the certificate chain, and the private key of the client's own certificate. The
    /// chain begins with that certificate.
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
        Ok(Self { certificate: certificate.to_owned(), private_key: Secret::unchecked(private_key) })
    }

    /// Returns the SHA-256 hash of the client's own certificate (DER), in hex. `openssl x509 -fingerprint
    /// -sha256` shows the same digits, with colons and in capitals.
    pub(crate) fn certificate_fingerprint(&self) -> Option<String> {
        certificates(&self.certificate).ok()?.first().map(|certificate| sha256(certificate))
    }

    pub(crate) fn key_fingerprint(&self) -> String {
        self.private_key.fingerprint()
    }

    pub(crate) fn validity(&self) -> Option<(Timestamp, Timestamp)> {
        certificate::validity_of_pem(&self.certificate)
    }

    pub(crate) fn of_connection(&self) -> Identity {
        Identity {
            certificate_pem: self.certificate.clone(),
            private_key_pem: self.private_key.as_secret().clone(),
        }
    }
}

/// Certificates of authorities that may also issue a bank's server certificate, in PEM.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct ServerAuthorities(String);

impl ServerAuthorities {
    pub fn new(pem: &str) -> Result<Self, InvalidSetting> {
        if pem.len() > MAX_PEM_BYTES {
            return Err(InvalidSetting::because(format!("a PEM file must be at most {MAX_PEM_BYTES} bytes")));
        }
        if pem.contains("PRIVATE KEY") {
            return Err(InvalidSetting::because("the file of the authority holds a private key"));
        }
        let mut roots = RootCertStore::empty();
        for certificate in certificates(pem)? {
            roots
                .add(certificate)
                .map_err(|_| InvalidSetting::because("a certificate of the authority can't be read"))?;
        }
        Ok(Self(pem.to_owned()))
    }

    pub(crate) fn pem(&self) -> &str {
        &self.0
    }

    pub(crate) fn fingerprints(&self) -> Vec<String> {
        let parsed = certificates(&self.0).unwrap_or_default();
        parsed.iter().map(|certificate| sha256(certificate)).collect()
    }
}

fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, InvalidSetting> {
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    parsed
        .ok()
        .filter(|chain| !chain.is_empty())
        .ok_or_else(|| InvalidSetting::because("the certificate's file holds no certificate in PEM"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (String, String) {
        let generated = rcgen::generate_simple_self_signed(vec!["loja.example".to_owned()]).unwrap();
        (generated.cert.pem(), generated.signing_key.serialize_pem())
    }

    #[test]
    fn only_a_certificate_with_its_own_key_is_accepted() {
        let ((certificate, key), (another, _)) = (pair(), pair());
        assert_eq!(
            ServerAuthorities::new(&format!("{certificate}{another}")).unwrap().fingerprints().len(),
            2
        );
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
            (&certificate, &format!("{key}{}", "x".repeat(MAX_PEM_BYTES)), "at most"),
        ] {
            let refused = new(certificate, key).unwrap_err();
            assert!(refused.contains(why), "{refused}");
            assert!(!refused.contains("BEGIN"), "{refused}");
        }
    }
}
