//! A bank with a clock that the test moves, and a client of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use api_pix::{Client, ConnectionSettings, Debtor, NewCob, Now, Pix, PixQuery, TokenAuthentication};
use bank::{Bank, FaultKind, Options, Paid, PayRequest, Profile};
use domain::ids::EndToEndId;
use domain::money::Amount;
use domain::pix_key::PixKey;
use domain::tax_id::TaxId;
use domain::time::Timestamp;

use crate::proxy::Proxy;

/// 2026-11-22T12:00:00Z in Unix milliseconds.
pub(crate) const START_MS: i64 = 1_795_348_800_000;
pub(crate) const KEY: &str = "7d9f0335-8dcc-4054-9bf9-0dbd61d36906";
pub(crate) const PHONE_KEY: &str = "+5511999990000";
pub(crate) const MAIL_KEY: &str = "loja@example.com";
pub(crate) const SECRET: &str = "client-secret-9f2";
pub(crate) const CPF: &str = "52998224725";
pub(crate) const OTHER_CPF: &str = "29537995593";

/// Returns a txid that ends with the number.
pub(crate) fn txid(number: u32) -> String {
    format!("charge{number:026}")
}

pub(crate) fn key(text: &str) -> PixKey {
    text.parse().unwrap()
}

pub(crate) fn reais(reais: i64) -> Amount {
    Amount::parse(reais * 100).unwrap()
}

pub(crate) fn tax_id(text: &str) -> TaxId {
    TaxId::parse(text).unwrap()
}

pub(crate) fn id(text: &str) -> EndToEndId {
    text.parse().unwrap()
}

/// A cob of 10.00 with a debtor.
pub(crate) fn new_cob() -> NewCob {
    NewCob {
        amount: reais(10),
        expires_in_seconds: 3_600,
        key: key(KEY),
        debtor: Some(Debtor { tax_id: tax_id(CPF), name: "Maria da Silva".to_owned() }),
        payer_request: Some("Pedido 1".to_owned()),
    }
}

/// Waits until a condition holds.
pub(crate) async fn eventually(expected: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while !holds() {
        assert!(Instant::now() < deadline, "not within a minute: {expected}");
        tokio::task::yield_now().await;
    }
}

/// A bank, a proxy in front of it, a client, and their clock.
pub(crate) struct World {
    pub(crate) bank: Bank,
    pub(crate) proxy: Proxy,
    pub(crate) client: Client,
    pub(crate) settings: ConnectionSettings,
    clock: Arc<AtomicI64>,
}

impl World {
    pub(crate) async fn start() -> Self {
        Self::start_as(Profile::Complete).await
    }

    pub(crate) async fn start_as(profile: Profile) -> Self {
        Self::start_with(profile, |_| {}).await
    }

    /// Starts a bank, and a client with other settings.
    pub(crate) async fn start_with(profile: Profile, change: impl FnOnce(&mut ConnectionSettings)) -> Self {
        let clock = Arc::new(AtomicI64::new(START_MS));
        let read = Arc::clone(&clock);
        let mut options = Options::new(Arc::new(move || read.load(Ordering::SeqCst)));
        options.profile = profile;
        options.clients = vec![bank_client()];
        let bank = Bank::start(options).await.unwrap();
        let behaviour = bank.behaviour();
        let origin = bank.url().trim_end_matches(behaviour.base_path).to_owned();
        let proxy = Proxy::start(origin, behaviour).await;
        let mut settings = settings(
            behaviour,
            format!("{}{}", proxy.origin, behaviour.base_path),
            format!("{}{}", proxy.origin, behaviour.token_path),
        );
        change(&mut settings);
        let client = Client::new(&settings, now(&clock)).unwrap();
        Self { bank, proxy, client, settings, clock }
    }

    /// Returns the service's clock.
    pub(crate) fn now(&self) -> Now {
        now(&self.clock)
    }

    /// Moves the clock.
    pub(crate) fn advance_s(&self, seconds: i64) {
        self.clock.fetch_add(seconds * 1_000, Ordering::SeqCst);
        self.bank.wake();
    }

    pub(crate) fn fault(&self, kind: FaultKind, count: u32) {
        self.bank.inject_fault(kind, count);
    }

    /// Creates a cob.
    pub(crate) async fn cob(&self, number: u32) -> api_pix::Cob {
        self.client.put_cob(&txid(number), &new_cob()).await.unwrap()
    }

    pub(crate) fn pay(&self, number: u32) -> Paid {
        self.bank.pay(&PayRequest { txid: txid(number), ..PayRequest::default() }).unwrap()
    }

    /// Creates and pays a cob.
    pub(crate) async fn paid_cob(&self, number: u32) -> EndToEndId {
        self.cob(number).await;
        id(&self.pay(number).end_to_end_id)
    }

    pub(crate) async fn pix(&self, end_to_end_id: &EndToEndId) -> Pix {
        self.client.get_pix(end_to_end_id).await.unwrap().unwrap()
    }

    /// Returns the number of API requests so far.
    pub(crate) fn sent(&self) -> usize {
        self.proxy.api_requests().len()
    }

    /// Returns the number of token requests so far.
    pub(crate) fn tokens(&self) -> usize {
        self.proxy.token_requests().len()
    }
}

/// Checks all requests of the test against the Central Bank's document.
impl Drop for World {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(self.proxy.invalid_requests(), Vec::<String>::new());
        }
    }
}

fn now(clock: &Arc<AtomicI64>) -> Now {
    let clock = Arc::clone(clock);
    Arc::new(move || Timestamp::from_millis(clock.load(Ordering::SeqCst)).unwrap())
}

/// The receiver's account at the bank.
pub(crate) fn bank_client() -> bank::Client {
    bank::Client {
        client_id: "client-1".to_owned(),
        client_secret: SECRET.to_owned(),
        keys: [KEY, PHONE_KEY, MAIL_KEY].map(str::to_owned).to_vec(),
        name: "Loja de Testes".to_owned(),
        city: "Sao Paulo".to_owned(),
        cnpj: "12ABC34501DE35".to_owned(),
    }
}

/// Returns the settings that a profile requires.
pub(crate) fn settings(
    behaviour: &bank::Behaviour,
    base_url: String,
    token_url: String,
) -> ConnectionSettings {
    let pairs = |pair: Option<(&str, &str)>| {
        pair.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned().into())).collect()
    };
    ConnectionSettings {
        base_url,
        token_url,
        scope: None,
        token_authentication: match behaviour.token_authentication {
            bank::TokenAuthentication::Basic => TokenAuthentication::Basic,
            bank::TokenAuthentication::Body => TokenAuthentication::Body,
        },
        client_id: "client-1".to_owned(),
        client_secret: SECRET.to_owned().into(),
        identity: None,
        additional_ca_pem: None,
        headers: pairs(behaviour.required_header),
        query_parameters: pairs(behaviour.required_parameter),
        webhook_headers: pairs(behaviour.webhook_header),
        requests_per_second: None,
    }
}

/// A query of the day of the tests.
pub(crate) fn day() -> PixQuery {
    let at = |ms| Timestamp::from_millis(ms).unwrap();
    PixQuery::period(at(START_MS - 4 * 3_600_000), at(START_MS + 86_400_000))
}
