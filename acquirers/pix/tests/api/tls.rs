//! TLS: additional authorities, client certificates, and settings that are refused.

use std::sync::Arc;

use api_pix::{ApiError, Client, ClientSettingsError, ConnectionSettings, Identity};
use bank::{Bank, Options, ServerTls};
use domain::time::Timestamp;

pub(crate) use crate::certificates::{Identity as Pair, identities};
use crate::support::{START_MS, bank_client, new_cob, settings, txid};

impl Pair {
    pub(crate) fn identity(&self) -> Identity {
        Identity { certificate_pem: self.certificate.clone(), private_key_pem: self.key.clone().into() }
    }
}

/// Starts a bank that requires certificates of the authority.
async fn mtls_bank(authority: &str, server: &Pair) -> Bank {
    let mut options = Options::new(Arc::new(|| START_MS));
    options.clients = vec![bank_client()];
    options.tls = Some(ServerTls {
        certificate_pem: server.certificate.clone(),
        key_pem: server.key.clone(),
        client_ca_pem: Some(authority.to_owned()),
    });
    Bank::start(options).await.unwrap()
}

fn settings_of(bank: &Bank) -> ConnectionSettings {
    settings(bank.behaviour(), bank.url(), bank.token_url())
}

fn client(settings: &ConnectionSettings) -> Result<Client, ClientSettingsError> {
    Client::new(settings, Arc::new(|| Timestamp::from_millis(START_MS).unwrap()))
}

#[tokio::test]
async fn an_additional_authority_and_a_client_certificate_connect_by_mtls() {
    let (authority, server, [identity, _]) = identities();
    let bank = mtls_bank(&authority, &server).await;
    let mut settings = settings_of(&bank);
    assert!(settings.base_url.starts_with("https://"));
    settings.additional_ca_pem = Some(authority);
    settings.identity = Some(identity.identity());
    let client = client(&settings).unwrap();
    client.put_cob(&txid(1), &new_cob()).await.unwrap();
    assert!(client.get_cob(&txid(1)).await.unwrap().is_some());
}

#[tokio::test]
async fn a_bank_of_another_authority_is_refused() {
    let (authority, server, [identity, _]) = identities();
    let (other_authority, ..) = identities();
    let bank = mtls_bank(&authority, &server).await;
    let mut settings = settings_of(&bank);
    settings.additional_ca_pem = Some(other_authority);
    settings.identity = Some(identity.identity());
    match client(&settings).unwrap().get_cob(&txid(1)).await {
        Err(ApiError::Tls(reason)) => {
            assert!(reason.starts_with("the bank's certificate is"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_bank_refuses_a_missing_or_foreign_client_certificate() {
    let (authority, server, _) = identities();
    let (_, _, [foreign, _]) = identities();
    let bank = mtls_bank(&authority, &server).await;
    for identity in [None, Some(foreign.identity())] {
        let mut settings = settings_of(&bank);
        settings.additional_ca_pem = Some(authority.clone());
        settings.identity = identity;
        let outcome = client(&settings).unwrap().get_cob(&txid(1)).await;
        assert!(matches!(outcome, Err(ApiError::Tls(_))), "{outcome:?}");
    }
}

#[test]
fn the_end_of_the_client_certificate_is_known() {
    let (_, _, [identity, _]) = identities();
    let mut settings = settings(
        bank::Profile::Complete.behaviour(),
        "https://bank.example/v2".to_owned(),
        "https://bank.example/token".to_owned(),
    );
    assert_eq!(settings.certificate_validity(), None);
    let mut identity = identity.identity();
    settings.identity = Some(identity.clone());
    assert_eq!(settings.certificate_validity().unwrap().1.to_iso(), "2027-03-04T00:00:00.000Z");
    // The certificate of the client comes first. Keys and the rest of the chain may follow.
    identity.certificate_pem.push_str(&identities().0);
    settings.identity = Some(identity.clone());
    assert_eq!(settings.certificate_validity().unwrap().1.to_iso(), "2027-03-04T00:00:00.000Z");
    identity.certificate_pem = "no certificate".to_owned();
    settings.identity = Some(identity);
    assert_eq!(settings.certificate_validity(), None);
}

type Change<'a> = &'a dyn Fn(&mut ConnectionSettings);

#[test]
fn settings_that_can_not_work_are_refused() {
    let (authority, _, [first, second]) = identities();
    let good = || {
        let mut settings = settings(
            bank::Profile::Complete.behaviour(),
            "https://bank.example/v2".to_owned(),
            "https://bank.example/token".to_owned(),
        );
        settings.additional_ca_pem = Some(authority.clone());
        settings.identity = Some(first.identity());
        settings
    };
    assert!(client(&good()).is_ok());
    let cases: [(&str, Change<'_>); 15] = [
        ("`base_url` must use https", &|it| it.base_url = "http://bank.example/v2".to_owned()),
        ("`base_url` must be an absolute URL", &|it| it.base_url = "bank.example".to_owned()),
        ("`base_url` must not contain a user name", &|it| {
            it.base_url = "https://a:b@bank.example".to_owned();
        }),
        ("`base_url` must be without a query", &|it| it.base_url = "https://bank.example?a=1".to_owned()),
        ("`base_url` must not contain a fragment", &|it| it.base_url = "https://bank.example#a".to_owned()),
        ("`token_url` must use https", &|it| it.token_url = "http://10.0.0.1/token".to_owned()),
        ("the header \"a b\"", &|it| it.headers = vec![("a b".to_owned(), "x".to_owned().into())]),
        ("the header \"a\"", &|it| it.headers = vec![("a".to_owned(), "x\ny".to_owned().into())]),
        ("the header \"a\"", &|it| it.webhook_headers = vec![("a".to_owned(), "\r".to_owned().into())]),
        ("`client_id` must not contain a colon", &|it| it.client_id = "a:b".to_owned()),
        ("`requests_per_second`", &|it| it.requests_per_second = Some(0)),
        ("`requests_per_second`", &|it| it.requests_per_second = Some(10_001)),
        ("the client certificate", &|it| it.identity.as_mut().unwrap().certificate_pem.clear()),
        ("the private key", &|it| {
            it.identity.as_mut().unwrap().private_key_pem = "no key".to_owned().into();
        }),
        ("the additional certificate authority", &|it| it.additional_ca_pem = Some("none".to_owned())),
    ];
    for (expected, change) in cases {
        let mut settings = good();
        change(&mut settings);
        let error = client(&settings).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{expected}: {error}");
    }
    let mut settings = good();
    settings.identity.as_mut().unwrap().private_key_pem = second.key.into();
    assert!(matches!(client(&settings), Err(ClientSettingsError::Tls(_))));
}

#[test]
fn plain_http_is_for_loopback_only() {
    for (base_url, is_allowed) in [
        ("http://127.0.0.1:4000/v2", true),
        ("http://[::1]:4000/v2", true),
        ("http://localhost:4000/v2", true),
        ("http://192.168.0.1/v2", false),
        ("http://localhost.example/v2", false),
        ("ftp://127.0.0.1/v2", false),
    ] {
        let behaviour = bank::Profile::Complete.behaviour();
        let settings = settings(behaviour, base_url.to_owned(), "http://127.0.0.1/token".to_owned());
        assert_eq!(client(&settings).is_ok(), is_allowed, "{base_url}");
    }
}
