use domain::ids::AccountId;
use domain::time::Timestamp;
use domain::url_policy::AddressPolicy;
use rcgen::generate_simple_self_signed;
use secrecy::ExposeSecret;

use super::*;

fn pair() -> (String, String) {
    let generated = generate_simple_self_signed(vec!["loja.example".to_owned()]).unwrap();
    (generated.cert.pem(), generated.signing_key.serialize_pem())
}

fn choice() -> AcquirerChoice {
    let (certificate, key) = pair();
    let credentials = Credentials::Pix(PixCredentials {
        token_url: AcquirerUrl::token("https://pix.example.com/oauth?v=2", &AddressPolicy::PublicOnly)
            .unwrap(),
        client_secret: Secret::credential("not-to-be-seen".into()).unwrap(),
        identity: Some(ClientIdentity::new(&certificate, key.into()).unwrap()),
        headers: vec![NamedSecret::header("X-Conta-Corrente", "1234567".into()).unwrap()],
        query_parameters: vec![NamedSecret::query_parameter("app-key", "k3y-of-app".into()).unwrap()],
        webhook_headers: vec![NamedSecret::header("x-skip", "true".into()).unwrap()],
    });
    let settings = AcquirerSettings {
        name: ConnectionName::default(),
        base_url: AcquirerUrl::base("https://pix.example.com/api/v2/", &AddressPolicy::PublicOnly).unwrap(),
        requests_per_second: DEFAULT_REQUESTS_PER_SECOND,
        expire_after_seconds: DEFAULT_EXPIRE_AFTER_SECONDS,
        kind: KindSettings::Pix(PixSettings {
            client_id: "loja".parse().unwrap(),
            pix_key: "pix@loja.example".parse().unwrap(),
            token_authentication: TokenAuthentication::Body,
            scope: Some("cob.write pix.read".parse().unwrap()),
            additional_ca: Some(ServerAuthorities::new(&pair().0).unwrap()),
            max_period_seconds: DEFAULT_MAX_PERIOD_SECONDS,
            send_pix: SendPix::None,
            filter_verified: true,
        }),
    };
    let callback = CallbackChoice {
        base_url: AcquirerUrl::base("https://eventos.example.com", &AddressPolicy::PublicOnly).unwrap(),
        authentication: CallbackAuthentication::Token,
        certificate_subject: None,
        source_addresses: Vec::new(),
    };
    AcquirerChoice { settings, credentials, callback }
}

fn configured(choice: &AcquirerChoice) -> ConfiguredAcquirer {
    let acquirer = AccountAcquirer {
        account: AccountId::new([1; 10]),
        connection: choice.settings.new_connection(),
        settings: choice.settings.clone(),
        callback: Callback { choice: choice.callback.clone(), tokens: Vec::new() },
        is_retired: false,
        updated_at: now(),
        version: 1,
    };
    ConfiguredAcquirer { acquirer, credentials: choice.credentials.clone() }
}

fn now() -> Timestamp {
    Timestamp::parse_floor("2026-11-22T12:00:00Z").unwrap()
}

#[test]
fn secrets_are_never_shown_and_each_has_a_fingerprint() {
    let mut choice = choice();
    let (certificate, key) = pair();
    let identity = ClientIdentity::new(&certificate, key.clone().into()).unwrap();
    choice.credentials.pix_mut().unwrap().identity = Some(identity);
    let body = key.lines().nth(1).unwrap();
    let for_audit = |choice: &AcquirerChoice| configured(choice).audit_view().to_string();
    let view = for_audit(&choice);
    for printed in [format!("{choice:?}"), view.clone()] {
        for secret in ["not-to-be-seen", body, "1234567", "k3y-of-app"] {
            assert!(!printed.contains(secret), "{printed}");
        }
    }
    assert!(view.contains(r#""pix_key":"…mple""#) && !view.contains("pix@loja"), "{view}");
    let with = |change: &dyn Fn(&mut PixCredentials)| {
        let mut changed = choice.clone();
        change(changed.credentials.pix_mut().unwrap());
        changed
    };
    let with_key = "https://bank.example/token?app-key=s3cret";
    let token_url = AcquirerUrl::token(with_key, &AddressPolicy::PublicOnly).unwrap();
    let shown = for_audit(&with(&|credentials| credentials.token_url = token_url.clone()));
    assert!(shown.contains(r#""token_url":"https://bank.example/token?…""#), "{shown}");
    // printf %s 1234567 | sha256sum
    assert!(view.contains(r#""headers":["x-conta-corrente (8bb0…)"]"#), "{view}");
    // printf %s not-to-be-seen | sha256sum
    assert!(view.contains(r#""client_secret_fingerprint":"9228cce372c132c1""#), "{view}");
    let other =
        with(&|credentials| credentials.client_secret = Secret::credential("another".into()).unwrap());
    assert_ne!(for_audit(&other), view);
    assert_ne!(other, choice);
}

#[test]
fn a_new_connection_depends_on_name_base_url_and_client_id_alone() {
    let first = choice().settings;
    let mut other_key = first.clone();
    other_key.pix_mut().unwrap().pix_key = "11222333000181".parse().unwrap();
    assert_eq!(other_key.new_connection(), first.new_connection());
    let mut other_client = first.clone();
    other_client.pix_mut().unwrap().client_id = "loja-2".parse().unwrap();
    assert_ne!(other_client.new_connection(), first.new_connection());
    let other_name = AcquirerSettings { name: "itau-2".parse().unwrap(), ..first.clone() };
    assert_ne!(other_name.new_connection(), first.new_connection());
    for name in ["", "Itau", "a b", "é", &"x".repeat(41)] {
        assert!(name.parse::<ConnectionName>().is_err(), "{name}");
    }
}

#[test]
fn settings_that_contradict_each_other_are_refused() {
    type Change<'a> = &'a dyn Fn(&mut AcquirerChoice);
    let valid = choice();
    valid.check().unwrap();
    let header = |name: &str| NamedSecret::header(name, "v".into()).unwrap();
    let many: Vec<_> = (0..=10).map(|index| header(&format!("h{index}"))).collect();
    let cases: [(Change, &str); 4] = [
        (
            &|choice| choice.settings.pix_mut().unwrap().max_period_seconds = 3_599,
            "`max-period-seconds` must be 3600",
        ),
        (&|choice| choice.settings.expire_after_seconds = 3_601, "`expire-after-seconds` must be 0"),
        (
            &|choice| choice.credentials.pix_mut().unwrap().headers = vec![header("a"), header("A")],
            "`a` occurs twice",
        ),
        (&|choice| choice.credentials.pix_mut().unwrap().webhook_headers = many.clone(), "at most 10"),
    ];
    for (change, why) in cases {
        let mut refused = valid.clone();
        change(&mut refused);
        let message = refused.check().unwrap_err().to_string();
        assert!(message.contains(why), "{message}");
    }
}

#[test]
fn a_callback_token_is_stored_as_a_hash_and_its_url_names_it() {
    let (token, stored) = CallbackToken::create(now()).unwrap();
    let (other, _) = CallbackToken::create(now()).unwrap();
    let callback = Callback { choice: choice().callback, tokens: vec![stored.clone()] };
    assert_eq!(token.expose_secret().len(), 64);
    assert!(callback.accepts_token(token.expose_secret()));
    assert!(!callback.accepts_token("") && !callback.accepts_token(&stored.sha256));
    let account = AccountId::new([1; 10]);
    let url = callback.url(account, &token).expose_secret().to_owned();
    let path = format!("/v1/acquirer-events/{account}/{}", token.expose_secret());
    assert_eq!(url, format!("https://eventos.example.com{path}"));
    assert_eq!(callback.token_of_url(account, &url), Some(&stored));
    for host in ["https://other.example.com", ""] {
        assert_eq!(callback.token_of_url(account, &format!("{host}{path}")), None);
    }
    assert_eq!(callback.token_of_url(account, callback.url(account, &other).expose_secret()), None);
    assert!(!format!("{callback:?}").contains(token.expose_secret()));
    assert!(!callback.view().to_string().contains(&stored.sha256));
}

#[test]
fn notifications_are_accepted_from_the_configured_addresses_only() {
    let any = Callback { choice: choice().callback, tokens: Vec::new() };
    let mut some = any.clone();
    let ranges = ["203.0.113.0/24", "198.51.100.7", "2001:db8::/32", "0.0.0.0/1"];
    some.choice.source_addresses = ranges.map(|range| range.parse().unwrap()).into();
    for (address, is_accepted) in [
        ("203.0.113.0", true),
        ("203.0.113.255", true),
        ("::ffff:203.0.113.9", true),
        ("198.51.100.7", true),
        ("2001:db8:ffff::1", true),
        ("127.0.0.1", true),
        ("203.0.114.0", false),
        ("198.51.100.8", false),
        ("2001:db9::1", false),
        ("::1", false),
    ] {
        let address = address.parse().unwrap();
        assert_eq!(
            (some.accepts_source(address), any.accepts_source(address)),
            (is_accepted, true),
            "{address}"
        );
    }
    let written: Vec<String> = some.choice.source_addresses.iter().map(ToString::to_string).collect();
    assert_eq!(written, ["203.0.113.0/24", "198.51.100.7/32", "2001:db8::/32", "0.0.0.0/1"]);
    for text in [
        "",
        "203.0.113.1/24",
        "203.0.113.0/33",
        "203.0.113.0/+24",
        "203.0.113.0/",
        "::ffff:203.0.113.0/120",
        "bank.example",
    ] {
        assert!(text.parse::<AddressRange>().is_err(), "{text}");
    }
}

#[test]
fn mtls_needs_a_subject_and_source_addresses_belong_to_a_token() {
    let token = choice().callback;
    token.check().unwrap();
    let subject = |subject: &str| Some(subject.to_owned());
    let mtls = CallbackChoice {
        authentication: CallbackAuthentication::Mtls,
        certificate_subject: subject("CN=pix.banco.example,O=Banco"),
        ..token.clone()
    };
    mtls.check().unwrap();
    for (refused, why) in [
        (CallbackChoice { certificate_subject: None, ..mtls.clone() }, "needs `certificate-subject`"),
        (CallbackChoice { certificate_subject: subject(""), ..mtls.clone() }, "1 to 500"),
        (CallbackChoice { certificate_subject: subject("CN=a\nb"), ..mtls.clone() }, "1 to 500"),
        (
            CallbackChoice { source_addresses: vec!["203.0.113.7".parse().unwrap()], ..mtls },
            "`callback-auth token` only",
        ),
        (
            CallbackChoice { certificate_subject: subject("CN=a"), ..token.clone() },
            "`callback-auth mtls` only",
        ),
        (
            CallbackChoice { source_addresses: vec!["203.0.113.7".parse().unwrap(); 51], ..token },
            "at most 50",
        ),
    ] {
        let message = refused.check().unwrap_err().to_string();
        assert!(message.contains(why), "{message}");
    }
}
