//! Tests of the commands about the acquirer of an account's live payments. A bank of the crate `bank` runs in
//! the process of the test.

use std::ops::Range;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use acquirer_core::configuration::{AccountAcquirers, Callback, ConfiguredAcquirer, PixKeyClaim};
use api_pix::{Client, NewCob};
use bank::{Bank, Client as Receiver, FaultKind, PayRequest, Payer, Profile};
use domain::acquirer::ConnectionSweep;
use domain::money::Amount;
use domain::payment_method::PaymentMethod;
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use shared::store::Store;

use crate::{AdminFixture, Merchant, MerchantServer, eventually, id, lines, text};

const UNREACHABLE_BANK: &str = "https://pix.banco.example/api/v2/";
pub(crate) const BANK_SECRET: &str = "s3cr3t-of-the-bank";
const KEY: &str = "7d9f0335-8dcc-4054-9bf9-0dbd61d36906";
const OTHER_KEY: &str = "pix@loja.example";

/// The values of the extra header and parameter that profiles of the bank require.
const ACCOUNT_HEADER: &str = "1234567";
const APP_KEY: &str = "d27b67790cffab50136be17db0050c56b9d1a5b1";

/// The options without which `set-acquirer` calls the bank.
const OFFLINE: &str = "--no-check --no-register-webhook";

/// A service with an account that has no acquirer, and a bank at which the account has two keys.
struct BankFixture {
    service: AdminFixture,
    bank: Bank,
    account: String,
    /// The file with the client secret.
    secret: String,
}

impl BankFixture {
    async fn start(profile: Profile) -> Self {
        let service = AdminFixture::start().await;
        let account = service.open_account().await;
        let bank = service.start_bank(profile, &[KEY, OTHER_KEY]).await;
        let secret = service.file("secret", format!("{BANK_SECRET}\n"));
        Self { service, bank, account, secret }
    }

    /// Runs `set-acquirer` for an account with a key at the bank.
    async fn set(&self, account: &str, key: &str, more: &str) -> Output {
        let (base_url, token_url) = (self.bank.url(), self.bank.token_url());
        let secret = if more.contains("--client-secret-file") {
            String::new()
        } else {
            format!("--client-secret-file {}", self.secret)
        };
        let command = format!(
            "accounts set-acquirer {account} pix --base-url {base_url} --token-url {token_url} \
             --client-id loja-1 --pix-key {key} --callback-auth token --reason agreed {secret} {more}"
        );
        self.service.run(&command).await
    }

    /// Runs `set-acquirer`, which must succeed. Returns the printed objects.
    async fn set_objects(&self, account: &str, key: &str, more: &str) -> Vec<Value> {
        let output = self.set(account, key, more).await;
        assert!(output.status.success(), "{output:?}");
        lines(&output)
    }

    /// Sets the account's acquirer. Returns the URL for notifications.
    async fn set_up(&self) -> String {
        callback_url(&self.set_objects(&self.account, KEY, "").await)
    }

    async fn callback(&self) -> Callback {
        self.service.bank_of(&self.account).await.unwrap().acquirer.callback
    }

    async fn client(&self) -> Client {
        self.service.client_of(&self.service.bank_of(&self.account).await.unwrap())
    }

    /// The URL that is registered at the bank.
    async fn registered_url(&self) -> Option<String> {
        let registered = self.client().await.get_webhook(&KEY.parse().unwrap()).await.unwrap();
        registered.map(|webhook| webhook.url)
    }

    async fn show(&self) -> Value {
        self.service.object(&format!("accounts show-acquirer {}", self.account)).await
    }

    /// Replaces the callback token. Returns the URL for notifications.
    async fn rotate(&self, more: &str) -> String {
        let rotate = format!("accounts rotate-callback-token {} --reason agreed {more}", self.account);
        callback_url(&self.service.objects(&rotate).await)
    }

    async fn run_check(&self, more: &str) -> Output {
        self.service.run(&format!("accounts check-acquirer {} {more}", self.account)).await
    }

    /// Runs `check-acquirer`. Returns the results by check, and the exit code.
    async fn check(&self, more: &str) -> (Value, Option<i32>) {
        let output = self.run_check(more).await;
        let lines = lines(&output);
        assert!(!lines.is_empty(), "{output:?}");
        let results =
            lines.iter().map(|line| (line["check"].as_str().unwrap().to_owned(), line["result"].clone()));
        (Value::Object(results.collect()), output.status.code())
    }

    /// Creates a cob and pays it. Returns the end-to-end id.
    async fn pay(&self, payer: Payer) -> String {
        let client = self.client().await;
        let txid = format!("txid{:028}", shared::random::below(1_000_000_000));
        let cob = NewCob {
            amount: Amount::parse(1_000).unwrap(),
            expires_in_seconds: 3_600,
            key: KEY.parse().unwrap(),
            debtor: None,
            payer_request: None,
        };
        client.put_cob(&txid, &cob).await.unwrap();
        let paid = self.bank.pay(&PayRequest { txid, payer, ..PayRequest::default() }).unwrap();
        let end_to_end_id = paid.end_to_end_id.parse().unwrap();
        eventually("the Pix can be read", async || client.get_pix(&end_to_end_id).await.unwrap()).await;
        paid.end_to_end_id
    }
}

impl AdminFixture {
    /// Starts a bank at which the client `loja-1` has these keys.
    pub(crate) async fn start_bank(&self, profile: Profile, keys: &[&str]) -> Bank {
        let clock = self.stack.clock.clone();
        let receiver = Receiver {
            client_id: "loja-1".to_owned(),
            client_secret: BANK_SECRET.to_owned(),
            keys: keys.iter().map(ToString::to_string).collect(),
            name: "Loja".to_owned(),
            city: "Recife".to_owned(),
            cnpj: "11222333000181".to_owned(),
        };
        let options = bank::Options::new(Arc::new(move || clock.now().millis()));
        let options = bank::Options { profile, clients: vec![receiver], seed: 2, ..options };
        Bank::start(options).await.unwrap()
    }

    /// A client of the bank of an acquirer, as the functions use it.
    pub(crate) fn client_of(&self, acquirer: &ConfiguredAcquirer) -> Client {
        let clock = self.stack.clock.clone();
        Client::new(&acquirer.pix_connection().unwrap(), Arc::new(move || clock.now())).unwrap()
    }

    /// Writes a client certificate that is valid until a date, and its private key. Returns their paths.
    pub(crate) fn identity(&self, name: &str, until: (i32, u8, u8)) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["loja.example".to_owned()]).unwrap();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(until.0, until.1, until.2);
        let certificate = params.self_signed(&key).unwrap().pem();
        (
            self.file(&format!("{name}.pem"), certificate),
            self.file(&format!("{name}.key"), key.serialize_pem()),
        )
    }

    pub(crate) fn table(&self, name: &str) -> Store {
        Store::new(local::sdk::dynamodb(&self.stack.endpoints.dynamodb_url), name)
    }

    pub(crate) fn acquirers(&self) -> AccountAcquirers {
        AccountAcquirers::new(self.table("StateTable"), self.table("SecretsTable"))
    }

    /// The secret that signs the MED notices of an account's current bank.
    pub(crate) async fn med_secret(&self, account: &str) -> Option<SecretString> {
        let bank = self.bank_of(account).await?.acquirer;
        let secrets = self.acquirers().signing_secrets(&bank.account, bank.connection).await.unwrap();
        secrets.into_iter().next()
    }

    /// The bank that takes an account's new charges.
    pub(crate) async fn bank_of(&self, account: &str) -> Option<ConfiguredAcquirer> {
        self.acquirers().current(&account.parse().unwrap(), PaymentMethod::Pix).await.unwrap()
    }

    pub(crate) async fn open_account(&self) -> String {
        let open = "accounts open --merchant-name Padaria --merchant-city Recife --another";
        id(&self.change(open).await).to_owned()
    }

    /// The accounts in the sweep of the connection of an account's acquirer. `None`: there is no sweep.
    async fn swept_accounts(&self, connection: &str) -> Option<Vec<String>> {
        let key = ConnectionSweep::key_of(connection.parse().unwrap());
        let sweep: Option<ConnectionSweep> = self.table("StateTable").get(&key).await.unwrap();
        sweep.map(|sweep| sweep.accounts.iter().map(ToString::to_string).collect())
    }

    async fn claim(&self, key: &str) -> Option<PixKeyClaim> {
        self.acquirers().claim_of_key(&key.parse().unwrap()).await.unwrap()
    }

    /// The account that has claimed a key.
    async fn owner(&self, key: &str) -> String {
        self.claim(key).await.unwrap().account.to_string()
    }

    async fn refuses_to_show(&self, account: &str) {
        self.refuses(&format!("accounts show-acquirer {account}"), "has no acquirer").await;
    }

    /// Sets an account's acquirer at a bank that is not called, and passes the client secret on standard
    /// input.
    async fn set_unreachable(&self, account: &str, base_url: &str, more: &str, secret: &str) -> Output {
        let mut command = format!(
            "accounts set-acquirer {account} pix --base-url {base_url} --client-id loja-1 \
             --token-url https://pix.banco.example/oauth/token {OFFLINE} --reason agreed {more}"
        );
        for (option, value) in [(" --pix-key ", OTHER_KEY), (" --callback-auth ", "token")] {
            if !command.contains(option) {
                command.extend([option, value]);
            }
        }
        self.run_with(&command, secret).await
    }
}

fn callback_url(printed: &[Value]) -> String {
    printed.iter().find_map(|line| line["callback_url"].as_str()).unwrap().to_owned()
}

fn token_of(url: &str) -> &str {
    url.rsplit('/').next().unwrap()
}

fn stderr(output: &Output) -> String {
    text(&output.stderr)
}

/// Runs `forget-acquirer` without a call of the bank.
fn forget_offline(account: &str, connection: &str) -> String {
    format!("accounts forget-acquirer {account} {connection} --no-remove-webhook --reason refunded")
}

/// Removes an account's acquirer, and forgets it and the one that it replaced.
async fn remove_and_forget(service: &AdminFixture, account: &str, [replaced, current]: [&str; 2]) {
    let remove = format!("accounts remove-acquirer {account} --reason left");
    let forget_current = forget_offline(account, current);
    service.refuses(&forget_current, "has no retired acquirer").await;
    assert_eq!(service.object(&remove).await["removed"], true);
    service.refuses(&remove, "has no acquirer").await;
    let shown = service.object(&format!("accounts show-acquirer {account}")).await;
    assert_eq!(shown["retired"].as_array().unwrap().len(), 2);
    for forget in [forget_offline(account, replaced), forget_current] {
        assert_eq!(service.object(&forget).await["forgotten"], true);
        service.refuses(&forget, "has no retired acquirer").await;
    }
    service.refuses_to_show(account).await;
    assert_eq!(service.claim(OTHER_KEY).await, None);
    assert_eq!(service.acquirers().all(&account.parse().unwrap()).await.unwrap(), []);
}

#[tokio::test]
async fn an_operator_sets_reads_and_removes_an_acquirer_and_never_sees_its_secrets() {
    let service = AdminFixture::start().await;
    let account = service.open_account().await;
    service.refuses_to_show(&account).await;
    let (certificate, key) = service.identity("client", (2055, 12, 24));
    let more = format!(
        "--certificate {certificate} --private-key {key} --additional-ca {certificate} \
         --header-file x-conta-corrente={} --query-file app-key={} --webhook-header-file x-skip={} \
         --scope 'cob.write pix.read' --token-authentication body --max-period-seconds 432000 \
         --requests-per-second 5 --expire-after-seconds 90 --callback-auth mtls \
         --certificate-subject CN=pix.banco.example --callback-base-url https://eventos.example.com/",
        service.file("header", "1234567\n"),
        service.file("query", "k3y-of-the-app"),
        service.file("webhook", "true"),
    );
    let secret = format!("{BANK_SECRET}\n");
    let set = service.set_unreachable(&account, UNREACHABLE_BANK, &more, &secret).await;
    assert!(set.status.success(), "{set:?}");
    let show = format!("accounts show-acquirer {account}");
    let shown = service.object(&show).await;
    let printed = lines(&set);
    assert_eq!(printed[0], shown);
    let url = callback_url(&printed);
    let ours = format!("https://eventos.example.com/v1/acquirer-events/{account}/");
    assert_eq!(url.strip_prefix(&ours).unwrap().len(), 64);
    for (field, value) in [
        ("account", json!(account)),
        ("kind", json!("pix")),
        ("name", json!("pix")),
        ("base_url", json!("https://pix.banco.example/api/v2")),
        ("token_url", json!("https://pix.banco.example/oauth/token")),
        ("token_authentication", json!("body")),
        ("scope", json!("cob.write pix.read")),
        ("client_id", json!("loja-1")),
        ("certificate_ends_at", json!("2055-12-24T00:00:00.000Z")),
        // printf %s 1234567 | sha256sum
        ("headers", json!(["x-conta-corrente (8bb0…)"])),
        ("max_period_seconds", json!(432_000)),
        ("requests_per_second", json!(5)),
        ("expire_after_seconds", json!(90)),
        ("pix_key", json!(OTHER_KEY)),
        ("send_pix", json!("none")),
        ("filter_verified", json!(false)),
    ] {
        assert_eq!(shown[field], value, "{field}");
    }
    let callback = &shown["callback"];
    assert_eq!(callback["authentication"], "mtls");
    assert_eq!(callback["certificate_subject"], "CN=pix.banco.example");
    assert_eq!(callback["tokens"].as_array().unwrap().len(), 1);
    for (field, digits) in
        [("client_secret_fingerprint", 16), ("certificate_fingerprint", 64), ("private_key_fingerprint", 16)]
    {
        assert_eq!(shown[field].as_str().unwrap().len(), digits, "{field}");
    }
    // Reads the stored settings with their secrets, as the functions do.
    let stored = service.bank_of(&account).await.unwrap();
    assert_eq!(shown["connection"], stored.acquirer.connection.to_string());
    let settings = stored.pix_connection().unwrap();
    assert_eq!(settings.client_secret.expose_secret(), BANK_SECRET);
    let identity = settings.identity.unwrap();
    assert_eq!(identity.certificate_pem, std::fs::read_to_string(&certificate).unwrap());
    assert_eq!(identity.private_key_pem.expose_secret(), std::fs::read_to_string(&key).unwrap());
    for (extras, name, value) in [
        (&settings.headers, "x-conta-corrente", "1234567"),
        (&settings.query_parameters, "app-key", "k3y-of-the-app"),
        (&settings.webhook_headers, "x-skip", "true"),
    ] {
        assert_eq!((extras[0].0.as_str(), extras[0].1.expose_secret()), (name, value));
    }

    // Setting the same values twice changes nothing, adds no audit row and prints no URL.
    for is_first in [true, false] {
        let local = "--name other --send-pix local";
        let output = service.set_unreachable(&account, "http://127.0.0.1:9/bank", local, BANK_SECRET).await;
        assert!(output.status.success(), "{output:?}");
        assert_eq!(lines(&output).len(), if is_first { 2 } else { 1 });
    }
    let now = service.object(&show).await;
    assert_eq!((&now["send_pix"], &now["certificate_fingerprint"]), (&json!("local"), &json!(null)));
    assert_eq!(now["client_secret_fingerprint"], shown["client_secret_fingerprint"]);
    let connections = [&shown, &now].map(|shown| shown["connection"].as_str().unwrap());
    remove_and_forget(&service, &account, connections).await;

    let expected =
        ["open", "set-acquirer", "set-acquirer", "remove-acquirer", "forget-acquirer", "forget-acquirer"];
    assert_eq!(service.actions(&account).await, expected.map(|action| format!("account.{action}")));
    let audit = service.audit(&account).await;
    let fingerprint = shown["client_secret_fingerprint"].as_str().unwrap();
    assert!(audit.iter().take(5).all(|row| row["details"].to_string().contains(fingerprint)));
    let printed = format!("{audit:?} {shown} {now}");
    for secret in [BANK_SECRET, "BEGIN", "k3y-of-the-app", "1234567", token_of(&url)] {
        assert!(!printed.contains(secret), "{secret}: {printed}");
    }
}

#[tokio::test]
async fn an_invalid_acquirer_is_refused_and_live_charges_stay_unavailable() {
    let service = AdminFixture::start().await;
    let account = service.stack.seed.other.id.to_string();
    let (certificate, key) = service.identity("client", (2055, 12, 24));
    let (_, other_key) = service.identity("other", (2055, 12, 24));
    let both = |certificate: &str, key: &str| format!("--certificate {certificate} --private-key {key}");
    let (words, value) = (service.file("words", "of two words"), service.file("value", "v"));
    let bank = UNREACHABLE_BANK;
    for (base_url, more, secret, says) in [
        ("http://pix.banco.example/", "", BANK_SECRET, "--base-url: must use https"),
        ("https://10.0.0.1/", "", BANK_SECRET, "private"),
        ("https://pix.banco.example/?a=b", "", BANK_SECRET, "query"),
        (bank, &format!("--certificate {certificate}"), BANK_SECRET, "--private-key"),
        (bank, &format!("--private-key {key}"), BANK_SECRET, "--certificate"),
        (bank, &both(&certificate, &other_key), BANK_SECRET, "does not match the certificate"),
        (bank, &both(&key, &key), BANK_SECRET, "holds a private key too"),
        (bank, &both(&certificate, "absent.key"), BANK_SECRET, "absent.key"),
        (bank, &format!("--additional-ca {key}"), BANK_SECRET, "holds a private key"),
        (bank, "", "", "the client secret must be"),
        (bank, "", "of two words", "the client secret must be"),
        (bank, "", "of\ntwo-lines", "more than one line"),
        (bank, "--client-secret-file absent.txt", "", "absent.txt"),
        (bank, "--pix-key loja", BANK_SECRET, "pix-key"),
        (bank, &format!("--client-secret {BANK_SECRET}"), "", "unexpected argument"),
        (bank, &format!("--header-file x-key={words}"), BANK_SECRET, "the value of `x-key` must be"),
        (bank, "--header-file x-key", BANK_SECRET, "must be NAME=FILE"),
        (
            bank,
            &format!("--webhook-header-file authorization={value}"),
            BANK_SECRET,
            "the service sets itself",
        ),
        (bank, &format!("--query-file cpf={value}"), BANK_SECRET, "API Pix defines"),
        (bank, "--send-pix local", BANK_SECRET, "must be a loopback address"),
        (bank, "--requests-per-second 0", BANK_SECRET, "`requests-per-second` must be 1 to"),
        (bank, "--callback-auth mtls", BANK_SECRET, "needs `certificate-subject`"),
        (bank, "--source-address 203.0.113.1/24", BANK_SECRET, "IP address or a range"),
        (bank, "--callback-base-url http://eventos.example.com", BANK_SECRET, "must use https"),
    ] {
        let output = service.set_unreachable(&account, base_url, more, secret).await;
        let message = stderr(&output);
        assert!(!output.status.success() && message.contains(says), "{more:?}: {message}");
        assert!(!message.contains("BEGIN") && !message.contains(BANK_SECRET), "{message}");
    }
    service.refuses_to_show(&account).await;
    assert!(service.audit(&account).await.is_empty());
    service.refuses("accounts show-acquirer acc_0000000000000000", "there is no account").await;

    let live = Merchant { key: service.stack.seed.other.live_api_key.clone(), ..Merchant::of(&service) };
    let (status, refused) = live.answer("POST", "/v1/pix/charges", json!({"amount": 1000})).await;
    assert_eq!((status, &refused["error"]["code"]), (422, &json!("unprocessable_entity")));
}

#[tokio::test]
async fn a_mistyped_pix_key_is_not_stored() {
    let bank = BankFixture::start(Profile::Complete).await;
    let refused = bank.set(&bank.account, "pix@loja.exmaple", "").await;
    let message = stderr(&refused);
    assert!(message.contains("nothing was changed") && message.contains("--pix-key"), "{message}");
    bank.service.refuses_to_show(&bank.account).await;
    let unchecked = bank.set(&bank.account, "pix@loja.exmaple", "--no-check").await;
    let message = stderr(&unchecked);
    assert!(message.contains("Run `accounts set-acquirer` again with the Pix key"), "{message}");
}

#[tokio::test]
async fn new_credentials_are_tried_before_they_replace_the_old_ones() {
    let fixture = BankFixture::start(Profile::Complete).await;
    let url = fixture.set_up().await;
    assert_eq!(fixture.registered_url().await, Some(url));
    let before = fixture.show().await;

    let wrong = format!("--client-secret-file {}", fixture.service.file("wrong", "an-expired-secret"));
    let refused = fixture.set(&fixture.account, KEY, &wrong).await;
    assert_eq!(refused.status.code(), Some(1));
    let message = stderr(&refused);
    assert!(message.contains("nothing was changed") && message.contains("credentials"), "{message}");
    assert!(refused.stdout.is_empty());
    assert_eq!(fixture.show().await, before);

    let output = fixture.set(&fixture.account, KEY, &format!("{wrong} {OFFLINE}")).await;
    assert!(output.status.success(), "{output:?}");
    assert!(stderr(&output).contains("the credentials were not tried"));
    let after = fixture.show().await;
    assert_ne!(after["client_secret_fingerprint"], before["client_secret_fingerprint"]);
    assert_eq!(after["callback"], before["callback"]);
}

#[tokio::test]
async fn a_failed_registration_is_an_error_and_is_repeated_by_a_rotation() {
    let fixture = BankFixture::start(Profile::Complete).await;
    fixture.set_objects(&fixture.account, KEY, OFFLINE).await;
    let again = fixture.set(&fixture.account, KEY, "").await;
    assert_eq!(again.status.code(), Some(1));
    assert!(stderr(&again).contains("rotate-callback-token"), "{again:?}");
    assert_eq!(fixture.registered_url().await, None);

    // More than one, because a sweep of the service may meet one too.
    fixture.bank.inject_fault(FaultKind::Http500, 100);
    let changed = "--callback-base-url http://127.0.0.1:9 --no-check";
    let failed = fixture.set(&fixture.account, KEY, changed).await;
    fixture.bank.clear_faults();
    assert_eq!(failed.status.code(), Some(1));
    assert!(stderr(&failed).contains("the bank did not register the URL"), "{failed:?}");
    assert!(callback_url(&lines(&failed)).starts_with("http://127.0.0.1:9/v1/acquirer-events/"));

    let url = fixture.rotate("").await;
    assert_eq!(fixture.registered_url().await, Some(url));
}

#[tokio::test]
async fn a_pix_key_belongs_to_one_account() {
    let fixture = BankFixture::start(Profile::Complete).await;
    let (service, first) = (&fixture.service, fixture.account.as_str());
    let second = service.open_account().await;
    let shown = fixture.set_objects(first, KEY, "").await;
    let connection = shown[0]["connection"].as_str().unwrap().to_owned();
    let refused = fixture.set(&second, KEY, "").await;
    assert_eq!(refused.status.code(), Some(1));
    let message = stderr(&refused);
    assert!(message.contains(&format!("the Pix key is claimed by the account {first}")), "{message}");
    service.refuses_to_show(&second).await;
    assert_eq!(service.swept_accounts(&connection).await.unwrap(), [first]);

    // When the first account changes its key, the second can have the old one. Both share the connection.
    fixture.set_objects(first, OTHER_KEY, "").await;
    assert_eq!(service.claim(KEY).await, None);
    fixture.set_objects(&second, KEY, "").await;
    let claim = service.claim(KEY).await.unwrap();
    assert_eq!([claim.account.to_string(), claim.connection.to_string()], [&*second, &*connection]);
    assert_eq!(service.owner(OTHER_KEY).await, first);
    assert_eq!(service.swept_accounts(&connection).await.unwrap(), [first, &second]);

    // Another base URL or client id is the same connection, and another name is another one.
    let set = async |more: &str| {
        let output = service.set_unreachable(first, UNREACHABLE_BANK, more, BANK_SECRET).await;
        assert!(output.status.success(), "{output:?}");
        lines(&output)
    };
    let changed = set("").await;
    assert_eq!(changed[0]["connection"], connection);
    assert!(changed[1]["callback_url"].is_string(), "the bank has no URL for the new settings");
    let show = fixture.show().await;
    assert_eq!((&show["connection"], &show["retired"]), (&json!(connection), &json!(null)));
    let moved_to = set("--name other").await[0]["connection"].as_str().unwrap().to_owned();
    assert_ne!(moved_to, connection);
    // The first account's charges of the former connection are still open.
    assert_eq!(service.swept_accounts(&connection).await.unwrap(), [first, &second]);
    assert_eq!(service.swept_accounts(&moved_to).await.unwrap(), [first]);
    assert_eq!(service.claim(OTHER_KEY).await.unwrap().connection.to_string(), moved_to);

    // The name of a retired connection makes it the current one again.
    for (name, expected) in [("pix", &connection), ("other", &moved_to)] {
        assert_eq!(set(&format!("--name {name}")).await[0]["connection"], **expected);
    }
    service.object(&forget_offline(first, &connection)).await;
    assert_eq!(service.claim(OTHER_KEY).await.unwrap().connection.to_string(), moved_to);
    assert_eq!(service.swept_accounts(&connection).await.unwrap(), [second.as_str()]);
    for account in [first, &second] {
        service.change(&format!("accounts remove-acquirer {account}")).await;
    }
    assert!(service.claim(KEY).await.is_some() && service.claim(OTHER_KEY).await.is_some());
    service.object(&forget_offline(first, &moved_to)).await;
    service.object(&forget_offline(&second, &connection)).await;
    assert!(service.claim(KEY).await.is_none() && service.claim(OTHER_KEY).await.is_none());
    for connection in [&connection, &moved_to] {
        assert!(service.swept_accounts(connection).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn one_of_two_accounts_that_claim_a_key_at_the_same_time_gets_it() {
    let fixture = BankFixture::start(Profile::Complete).await;
    let (service, first) = (&fixture.service, fixture.account.as_str());
    let second = service.open_account().await;
    let (one, other) = tokio::join!(fixture.set(first, KEY, OFFLINE), fixture.set(&second, KEY, OFFLINE));
    assert_ne!(one.status.success(), other.status.success(), "{one:?} {other:?}");
    let (owner, won, lost) = if one.status.success() { (first, one, other) } else { (&*second, other, one) };
    assert!(stderr(&lost).contains(&format!("claimed by the account {owner}")), "{lost:?}");
    assert_eq!(service.owner(KEY).await, owner);
    let connection = lines(&won)[0]["connection"].as_str().unwrap().to_owned();
    assert_eq!(service.swept_accounts(&connection).await.unwrap(), [owner]);
}

#[tokio::test]
async fn two_callback_tokens_are_valid_until_the_old_one_is_dropped() {
    let fixture = BankFixture::start(Profile::Complete).await;
    let (service, account) = (&fixture.service, fixture.account.as_str());
    let rotate = format!("accounts rotate-callback-token {account} --reason agreed");
    let drop_old = format!("{rotate} --drop-old");
    service.refuses(&rotate, "has no acquirer").await;
    let first = fixture.set_up().await;
    let second = fixture.rotate("").await;
    assert_eq!(fixture.registered_url().await.as_ref(), Some(&second));
    let callback = fixture.callback().await;
    assert!([&first, &second].iter().all(|url| callback.accepts_token(token_of(url))));

    // The bank goes back to the first URL. The rotation then keeps its token, and --drop-old refuses.
    let key = KEY.parse().unwrap();
    fixture.client().await.put_webhook(&key, &first).await.unwrap();
    service.refuses(&drop_old, "does not use the newest token").await;
    fixture.bank.inject_fault(FaultKind::Http500, 100);
    service.refuses(&rotate, "nothing was changed").await;
    fixture.bank.clear_faults();
    assert_eq!(fixture.callback().await, callback);
    let third = fixture.rotate("").await;
    let callback = fixture.callback().await;
    let accepted = [&first, &second, &third].map(|url| callback.accepts_token(token_of(url)));
    assert_eq!(accepted, [true, false, true]);

    let dropped = service.object(&drop_old).await;
    assert_eq!(dropped["callback"]["tokens"].as_array().unwrap().len(), 1);
    let callback = fixture.callback().await;
    let accepted = [&first, &third].map(|url| callback.accepts_token(token_of(url)));
    assert_eq!(accepted, [false, true]);
    let fourth = fixture.rotate("--no-register-webhook").await;
    assert_eq!(fixture.registered_url().await, Some(third.clone()));

    let rotated = "account.rotate-callback-token";
    let dropped = "account.drop-old-callback-tokens";
    let expected = ["account.open", "account.set-acquirer", rotated, rotated, dropped, rotated];
    assert_eq!(service.actions(account).await, expected);
    let audit = format!("{:?}", service.audit(account).await);
    for url in [&first, &second, &third, &fourth] {
        assert!(!audit.contains(token_of(url)), "{audit}");
    }
}

#[tokio::test]
async fn the_med_secret_is_shown_once() {
    let fixture = BankFixture::start(Profile::Complete).await;
    fixture.set_up().await;
    let (service, account) = (&fixture.service, &fixture.account);
    let stored = async || service.med_secret(account).await.unwrap();
    let before = stored().await;
    let printed = service.change(&format!("accounts rotate-med-secret {account}")).await;
    let secret: SecretString = printed["med_secret"].as_str().unwrap().into();
    assert_eq!(stored().await.expose_secret(), secret.expose_secret());
    assert_ne!(before.expose_secret(), secret.expose_secret());
    assert_eq!(secret.expose_secret().len(), 64);
    let (show, audit) = (fixture.show().await, service.audit(account).await);
    assert_eq!(audit[0]["action"], "account.rotate-med-secret");
    assert!(!format!("{audit:?} {show}").contains(secret.expose_secret()));
}

#[tokio::test]
async fn check_acquirer_says_what_works() {
    let fixture = BankFixture::start(Profile::Complete).await;
    let set_identity = async |name: &str, until: (i32, u8, u8)| {
        let (certificate, key) = fixture.service.identity(name, until);
        let identity = format!("--certificate {certificate} --private-key {key}");
        fixture.set_objects(&fixture.account, KEY, &identity).await
    };
    let url = callback_url(&set_identity("client", (2055, 12, 24)).await);
    let all_well = |filter: &str| {
        json!({
            "client certificate": "ok", "token": "ok", "GET /cob/{txid}": "ok", "PUT /cob/{txid}": "ok",
            "GET /pix": "ok", "PUT /pix/{e2eid}/devolucao/{id}": "ok", "GET /webhook/{chave}": "ok",
            "clock": "ok", "payer filter": filter,
        })
    };
    assert_eq!(fixture.check("").await, (all_well("not_verified"), Some(0)));

    // The bank knows another URL.
    let (client, pix_key) = (fixture.client().await, KEY.parse().unwrap());
    client.put_webhook(&pix_key, "http://127.0.0.1:9/v1/other/secret-of-another-service").await.unwrap();
    let output = fixture.run_check("").await;
    assert_eq!(output.status.code(), Some(1));
    let printed = format!("{output:?}");
    assert!(
        printed.contains("is not that of the account") && !printed.contains("another-service"),
        "{printed}"
    );
    client.put_webhook(&pix_key, &url).await.unwrap();

    // A certificate that ends in less than 30 days. The clock moves on to that time.
    let ends_at = shared::clock::Clock::default().now().plus_seconds(40 * 86_400).unwrap().to_iso();
    let part = |range: Range<usize>| ends_at.get(range).unwrap().parse::<u16>().unwrap();
    let date = (i32::from(part(0..4)), u8::try_from(part(5..7)).unwrap(), u8::try_from(part(8..10)).unwrap());
    set_identity("short", date).await;
    assert_eq!(fixture.check("").await, (all_well("not_verified"), Some(0)));
    fixture.service.stack.clock.advance(12 * 86_400_000);
    let (results, code) = fixture.check("").await;
    assert_eq!(
        (&results["client certificate"], &results["token"], code),
        (&json!("failed"), &json!("ok"), Some(1))
    );

    // Credentials that the bank does not accept.
    let wrong = fixture.service.file("wrong", "an-expired-secret");
    let untried = format!("--client-secret-file {wrong} --unset certificate {OFFLINE}");
    fixture.set_objects(&fixture.account, KEY, &untried).await;
    let expected = json!({
        "client certificate": "ok", "token": "failed", "GET /cob/{txid}": "skipped",
        "PUT /cob/{txid}": "skipped", "GET /pix": "skipped", "PUT /pix/{e2eid}/devolucao/{id}": "skipped",
        "GET /webhook/{chave}": "skipped", "clock": "skipped", "payer filter": "skipped",
    });
    assert_eq!(fixture.check("").await, (expected, Some(1)));
}

#[tokio::test]
async fn check_acquirer_finds_a_key_a_scope_and_a_bank_that_do_not_work() {
    let fixture = BankFixture::start(Profile::Complete).await;
    fixture.set_up().await;
    let check = async || lines(&fixture.run_check("").await);
    let failed = |lines: &[Value]| {
        let failed = lines.iter().filter(|line| line["result"] == "failed").cloned();
        failed.map(|line| (line["check"].clone(), line["detail"].to_string())).collect::<Vec<_>>()
    };
    let all = check().await;
    assert_eq!(failed(&all), []);
    assert!(all.iter().all(|line| line["account"] == fixture.account && line["name"] == "pix"), "{all:?}");
    // The cob of the trial is removed.
    let cobs = fixture.bank.snapshot()["cobs"].clone();
    assert_eq!(
        (cobs[0]["status"].as_str(), cobs[1].as_str()),
        (Some("REMOVIDA_PELO_USUARIO_RECEBEDOR"), None)
    );

    // All requests fail for one cause, which is one line.
    fixture.bank.inject_fault(FaultKind::Http500, 100);
    let found = failed(&check().await);
    fixture.bank.clear_faults();
    assert_eq!((found.len(), &found[0].0), (1, &json!("GET /cob/{txid}")), "{found:?}");
    assert!(found[0].1.contains("the bank answered 500: ErroInternoDoServidor"), "{found:?}");

    // A key that is not the client's, and a token without scopes.
    fixture.set_objects(&fixture.account, "not-ours@loja.example", OFFLINE).await;
    let found = failed(&check().await);
    assert_eq!(found[0].0, "PUT /cob/{txid}", "{found:?}");
    assert!(found[0].1.contains("cob.chave"), "{found:?}");
    let scope = format!("--scope 'cob.read pix.read webhook.read' {OFFLINE}");
    fixture.set_objects(&fixture.account, KEY, &scope).await;
    let found = failed(&check().await);
    let checks: Vec<&Value> = found.iter().map(|(check, _)| check).collect();
    let expected = ["token", "PUT /cob/{txid}", "PUT /pix/{e2eid}/devolucao/{id}", "GET /webhook/{chave}"];
    assert_eq!(checks, expected, "{found:?}");
    assert!(found[0].1.contains("lacks the scopes: cob.write pix.write webhook.write"), "{found:?}");
}

#[tokio::test]
async fn the_payer_filter_is_verified_by_a_known_payment() {
    let fixture = BankFixture::start(Profile::Complete).await;
    fixture.set_up().await;
    let verified = async || fixture.show().await["filter_verified"].as_bool().unwrap();
    // The bank does not report who paid this Pix.
    fixture.pay(Payer::Unreported).await;
    assert_eq!(fixture.check("").await.0["payer filter"], "not_verified");
    // The payer has the first document that the check tries, so it must try another one.
    let payer = "29537995593";
    let person = |tax_id: &str| Payer::Person { tax_id: tax_id.to_owned(), name: "Maria".to_owned() };
    fixture.pay(person(payer)).await;
    let (results, code) = fixture.check("").await;
    assert_eq!((&results["payer filter"], code, verified().await), (&json!("ok"), Some(0), true));
    // The outcome survives a change of other settings, but not a change of the connection.
    fixture.set_objects(&fixture.account, KEY, "--requests-per-second 9").await;
    assert!(verified().await);

    // The check lists the Pix of two documents.
    fixture.bank.inject_fault(FaultKind::FilterIgnored, 2);
    let (results, code) = fixture.check("").await;
    assert_eq!((&results["payer filter"], code, verified().await), (&json!("failed"), Some(1), false));
    fixture.check("").await;
    assert!(verified().await);
    let audit = fixture.service.audit(&fixture.account).await;
    assert_eq!(audit.iter().filter(|row| row["action"] == "account.check-acquirer").count(), 3);
    assert!(!format!("{audit:?}").contains(payer), "{audit:?}");

    let moved =
        fixture.service.set_unreachable(&fixture.account, "http://127.0.0.1:9/v2", "", BANK_SECRET).await;
    assert!(moved.status.success(), "{moved:?}");
    assert!(!verified().await);
}

#[tokio::test]
async fn a_payment_that_the_operator_knows_verifies_the_filter_of_a_bank_without_payers() {
    let fixture = BankFixture::start(Profile::AppKey).await;
    let app_key = fixture.service.file("app-key", APP_KEY);
    let more = format!("--query-file app-key={app_key} --max-period-seconds 432000");
    fixture.set_objects(&fixture.account, KEY, &more).await;
    let payer = "11222333000181";
    let end_to_end_id =
        fixture.pay(Payer::Person { tax_id: payer.to_owned(), name: "Maria Ltda".to_owned() }).await;
    assert_eq!(fixture.check("").await.0["payer filter"], "not_verified");
    let unknown = "E0000000000000000000000000000000";
    for (payment, known_payer, outcome) in [
        (end_to_end_id.as_str(), "12ABC34501DE35", "failed"),
        (&end_to_end_id, payer, "ok"),
        (unknown, payer, "failed"),
    ] {
        let known = format!("--known-payment {payment} --known-payer {known_payer}");
        assert_eq!(fixture.check(&known).await.0["payer filter"], outcome);
    }
}

#[tokio::test]
async fn banks_with_other_habits_can_be_set_up() {
    for profile in [Profile::AccountHeader, Profile::Minimal] {
        let fixture = BankFixture::start(profile).await;
        let server = MerchantServer::start().await;
        server.up.store(true, Ordering::SeqCst);
        let file = |name: &str, value: &str| format!("{name}={}", fixture.service.file(name, value));
        let (header, skip) = (file("x-conta-corrente", ACCOUNT_HEADER), file("x-skip-mtls-checking", "true"));
        let more = match profile {
            Profile::AccountHeader => format!("--header-file {header} --token-authentication body"),
            // This bank tests the URL before it registers it.
            _ => format!("--webhook-header-file {skip} --callback-base-url {}", server.url),
        };
        let url = callback_url(&fixture.set_objects(&fixture.account, KEY, &more).await);
        assert_eq!(fixture.registered_url().await, Some(url));
        let (results, code) = fixture.check("").await;
        assert_eq!(code, Some(0), "{results}");
    }
}

#[tokio::test]
async fn only_commands_about_acquirers_need_the_table_of_secrets() {
    let service = AdminFixture::start().await;
    let account = service.open_account().await;
    let run = async |arguments: &str| service.run_on_tables(["StateTable", "ApiKeysTable"], arguments).await;
    assert!(run("accounts list").await.status.success());
    let show = format!("accounts show-acquirer {account}");
    let secret = service.file("secret", BANK_SECRET);
    let set = format!(
        "accounts set-acquirer {account} pix --base-url {UNREACHABLE_BANK} --token-url {UNREACHABLE_BANK} \
         --client-id loja-1 --client-secret-file {secret} --pix-key {KEY} --callback-auth token --no-check \
         --reason agreed"
    );
    for (command, says) in [
        (&show, "--secrets-table or SECRETS_TABLE_NAME"),
        (&format!("--secrets-table SecretsTable {show}"), "has no acquirer"),
        // A deployed stack has no default for the URL of notifications.
        (&format!("--secrets-table SecretsTable {set}"), "--callback-base-url is required"),
    ] {
        let refused = run(command).await;
        assert!(stderr(&refused).contains(says), "{refused:?}");
    }
}
