//! Tests of payout keys and of payouts that owners request at the dashboard.

use domain::audit::Action;
use domain::ids::Mode;
use domain::money::Currency;
use domain::payout::{KeyRefusal, Payout, PayoutOutcome, PayoutStatus};
use domain::pix_key::PixKey;
use domain::tax_id::TaxId;
use domain::wallet::LedgerAccount::{self, MerchantAvailable};
use money::payout::{PayoutKeyError, PayoutKeys, Payouts};
use screen_reader::Role as Part;
use shared::account::{Accounts, Role};

use crate::api_keys::change_user;
use crate::dashboard::{Browser, location, shown, text};
use crate::emails::MailDirectory;
use crate::support::{Answer, Listener, Service, operator};

const WALLET: &str = "/dashboard/wallet";
const DONE: &str = "/dashboard/wallet?done";
const PAYOUT: &str = "/dashboard/wallet/payout";
const REQUEST: &str = "Pedir repasse";
const REGISTER: &str = "Registrar chave";

const DOCUMENT: &str = "11222333000181";
const KEY: &str = "financeiro@loja.example";
const MASKED: &str = "f***@l***.example";
/// The mode of a form.
const TEST: &[(&str, &str)] = &[("mode", "test")];
const HOURS_48: i64 = 172_800;

impl Service {
    fn payout_keys(&self) -> PayoutKeys {
        PayoutKeys::new(self.store())
    }

    async fn set_document(&self, document: &str) {
        let document = TaxId::parse(document).unwrap();
        let (accounts, now) = (Accounts::new(self.store()), self.stack.clock.now());
        let (id, by) = (self.scope().account, operator());
        let set = |of: &mut Option<TaxId>| *of = Some(document);
        accounts.change(&id, Action::SetDocument, |of| &mut of.document, set, &by, now).await.unwrap();
    }

    /// Approves a key as the operator's command does.
    async fn approve(&self, key: &str, holder: &str) -> Result<(), PayoutKeyError> {
        let account = Accounts::new(self.store()).find(&self.scope().account).await.unwrap().unwrap();
        let (key, holder): (PixKey, TaxId) = (key.parse().unwrap(), TaxId::parse(holder).unwrap());
        let now = self.stack.clock.now();
        let checked = (&key, holder);
        self.payout_keys().approve(account.id, checked, account.document, &operator(), now).await.map(drop)
    }

    /// Gives the account a key that works.
    async fn work_key(&self) {
        self.set_document(DOCUMENT).await;
        let (key, now) = (KEY.parse().unwrap(), self.stack.clock.now());
        let registered_at = now.plus_seconds(-HOURS_48).unwrap();
        let keys = self.payout_keys();
        keys.register(self.scope().account, &key, &operator(), registered_at).await.unwrap();
        self.approve(KEY, DOCUMENT).await.unwrap();
    }

    async fn last_request(&self, mode: Mode) -> Option<Payout> {
        let scope = domain::ids::Scope { mode, ..self.scope() };
        let last = Payouts::new(self.store()).last_request(&scope, Currency::BRL).await.unwrap();
        last.map(|(_, payout)| payout)
    }

    async fn end(&self, payout: &Payout, outcome: &PayoutOutcome) {
        let now = self.stack.clock.now();
        Payouts::new(self.store()).end(payout.id, outcome, &operator(), now).await.unwrap();
    }

    /// The test balance of a ledger account in centavos.
    async fn centavos(&self, account: LedgerAccount) -> i64 {
        let scope = self.sharded(&self.scope()).await;
        let wallet = self.wallets().in_currency(&scope, Currency::BRL).await.unwrap();
        wallet.balance(account).unwrap().get()
    }

    async fn payout_actions(&self) -> Vec<&'static str> {
        let from = domain::time::Timestamp::MIN;
        let rows = shared::audit::since(&self.store(), &self.scope().account, from).await.unwrap();
        let of_payouts = rows.iter().rev().map(|row| row.action.name());
        of_payouts.filter(|name| name.starts_with("payout")).collect()
    }
}

/// Sends the confirmed form of a request.
async fn confirm(browser: &Browser<'_>, (amount, key): (&str, &str), mode: &[(&str, &str)]) -> Answer {
    let fields = [("amount", amount), ("idempotency_key", key), ("currency", "BRL"), ("confirmed", "1")];
    browser.post(PAYOUT, &[&fields[..], mode].concat()).await
}

fn refused(answer: &Answer) -> String {
    assert_eq!(answer.status, 422, "{}", text(answer));
    shown(answer).names(Part::Alert).remove(0)
}

#[tokio::test]
async fn an_owner_requests_payouts_to_a_key_that_an_operator_approved_one_at_a_time() {
    let mails = MailDirectory::new();
    let service = Service::start_with(mails.options()).await;
    let listener = Listener::start().await;
    service.register_endpoint(&listener.url, &["payout.created", "payout.paid", "payout.failed"]).await;
    service.pay(10_000).await;
    service.begin_minute().await;
    let browser = Browser::owner(&service).await;

    // A key of another type than the chosen one is refused.
    let typed = [("Tipo", "Celular"), ("Chave Pix", KEY)];
    let answer = browser.send(&browser.page(WALLET).await.press(REGISTER, &typed)).await;
    let page = shown(&answer);
    assert_eq!((answer.status.as_u16(), page.get(Part::Field, "Chave Pix").value().as_str()), (400, KEY));
    assert!(page.contains("Um celular começa com +55."), "{page}");
    let typed = [("Tipo", "E-mail"), ("Chave Pix", "Financeiro@Loja.example")];
    let form = browser.page(WALLET).await.press(REGISTER, &typed);
    for _ in 0..2 {
        assert_eq!(location(&browser.send(&form).await), DONE);
    }
    let page = browser.page(WALLET).await;
    assert!(page.contains(MASKED) && page.contains("Em análise pelo suporte"), "{page}");
    assert!(!page.source().contains(KEY) && !page.has(Part::Button, REQUEST), "{page}");
    let missing = "Nenhuma chave Pix para repasses funciona agora.";
    assert!(refused(&confirm(&browser, ("10", "k-0"), TEST).await).starts_with(missing));

    // An operator approves it, if its holder is the account's.
    let refusal = |result: Result<(), PayoutKeyError>| match result {
        Err(PayoutKeyError::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    };
    assert_eq!(refusal(service.approve(KEY, DOCUMENT).await), KeyRefusal::NoDocument);
    service.set_document(DOCUMENT).await;
    assert_eq!(refusal(service.approve(KEY, "29537995593").await), KeyRefusal::OtherHolder);
    assert_eq!(refusal(service.approve("eva@loja.example", DOCUMENT).await), KeyRefusal::OtherKey);
    service.approve(KEY, DOCUMENT).await.unwrap();
    service.approve(KEY, DOCUMENT).await.unwrap();
    assert_eq!(service.payout_actions().await, ["payout-key.register", "payout-key.approve"]);
    let page = browser.page(WALLET).await;
    assert!(page.contains("Aprovada") && page.contains("Funciona a partir de"), "{page}");
    assert!(refused(&confirm(&browser, ("10", "k-0"), TEST).await).starts_with(missing), "before 48 hours");
    service.advance_seconds(160).await;
    let mail = mails.received(1).await.remove(0);
    assert_eq!(mail.to, service.stack.seed.first.owner_email);
    for line in ["nova chave Pix para repasses: ", "chave Pix para repasses aprovada: "] {
        assert!(mail.text.contains(&format!("{line}{MASKED}")), "{}", mail.text);
    }
    assert!(!mail.text.contains(KEY));

    service.advance_seconds(HOURS_48).await;
    let browser = Browser::owner(&service).await;
    let exceeds = "O valor é maior do que o saldo disponível.";
    for (amount, status, rule) in
        [("", 400, "O valor não é válido."), ("0", 400, "O valor não é válido."), ("100,01", 422, exceeds)]
    {
        let answer = browser.send(&browser.page(WALLET).await.press(REQUEST, &[("Valor", amount)])).await;
        assert_eq!(answer.status, status, "{amount}");
        assert!(shown(&answer).names(Part::Alert)[0].starts_with(rule), "{amount}: {}", text(&answer));
    }
    assert_eq!(refused(&confirm(&browser, ("100,01", "k-0"), TEST).await), exceeds);
    let form = browser.page(WALLET).await.press(REQUEST, &[("Valor", "60")]);
    let question = shown(&browser.post(&form.action, &form.pairs()).await);
    assert!(question.contains(&format!("Pedir o repasse de R$ 60,00 para a chave Pix {MASKED}?")));
    assert_eq!(service.centavos(MerchantAvailable).await, 10_000, "a question debits nothing");
    let confirmed = question.press("Confirmar", &[]);
    // A form that is sent twice requests one payout.
    for _ in 0..2 {
        let answer = browser.post(&confirmed.action, &confirmed.pairs()).await;
        assert_eq!(location(&answer), DONE, "{}", text(&answer));
    }
    let first = service.last_request(Mode::Test).await.unwrap();
    assert_eq!((first.status, first.amount.minor()), (PayoutStatus::Pending, 6_000));
    assert_eq!(service.centavos(MerchantAvailable).await, 4_000);
    let created = listener.wait_for_event("payout.created").await.json()["data"]["object"].clone();
    assert_eq!(created["id"], first.id.to_string());
    assert!(!created.to_string().contains("loja.example"), "{created}");
    let page = browser.page(WALLET).await;
    assert!(page.contains("Último repasse pedido: R$ 60,00 Em andamento"), "{page}");
    assert!(!page.has(Part::Button, REQUEST), "{page}");
    let requested = "Já há um repasse pedido nesta moeda.";
    assert!(refused(&confirm(&browser, ("10", "k-1"), TEST).await).starts_with(requested));
    let unconfirmed = [("mode", "test"), ("amount", "10"), ("idempotency_key", "k-1")];
    assert!(refused(&browser.post(PAYOUT, &unconfirmed).await).starts_with(requested));

    // Another key begins again. The payout keeps the one that it was requested with.
    let typed = [("Tipo", "CNPJ"), ("Chave Pix", "11.222.333/0001-81")];
    assert_eq!(browser.submit(WALLET, REGISTER, &typed).await, DONE);
    service.end(&first, &PayoutOutcome::Failed { reason: "the key was closed".to_owned() }).await;
    listener.wait_for_event("payout.failed").await;
    assert_eq!(service.centavos(MerchantAvailable).await, 10_000);
    // The same form is not answered as done any more, and requests no other payout.
    let answer = browser.post(&confirmed.action, &confirmed.pairs()).await;
    assert_eq!(answer.status, 409, "{}", text(&answer));
    let page = shown(&answer);
    assert!(page.names(Part::Alert)[0].starts_with("Este repasse já foi pedido e falhou"), "{page}");
    let again = page.press(REQUEST, &[]).fields;
    assert!(!again.iter().any(|field| confirmed.fields.contains(field) && field.0 == "idempotency_key"));
    assert_eq!(service.centavos(MerchantAvailable).await, 10_000);
    let page = browser.page(WALLET).await;
    for shown in ["Último repasse pedido: R$ 60,00 Falhou", MASKED, "the key was closed", "************81"] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    let payouts = browser.page("/dashboard/payouts").await;
    assert!(payouts.contains(MASKED) && !payouts.source().contains(KEY), "{payouts}");
    assert!(refused(&confirm(&browser, ("10", "k-2"), TEST).await).starts_with(missing), "the former key");
    service.approve(DOCUMENT, DOCUMENT).await.unwrap();
    service.advance_seconds(HOURS_48).await;
    let browser = Browser::owner(&service).await;
    assert_eq!(browser.submit(WALLET, REQUEST, &[("Valor", "100,00")]).await, DONE);
    let second = service.last_request(Mode::Test).await.unwrap();
    assert_eq!(second.destination.as_ref().unwrap().key.as_str(), DOCUMENT);
    service.end(&second, &PayoutOutcome::Paid).await;
    listener.wait_for_event("payout.paid").await;
    assert!(browser.page(WALLET).await.contains("Último repasse pedido: R$ 100,00 Transferido"));
    assert_eq!(service.centavos(MerchantAvailable).await, 0);
    let ended = ["payout.create", "payout-key.register", "payout.fail", "payout-key.approve"];
    let paid = ["payout.create", "payout.settle"];
    assert_eq!(service.payout_actions().await.split_off(2), [&ended[..], &paid].concat());
    service.check_ledger().await;
}

#[tokio::test]
async fn of_requests_at_once_one_creates_a_payout_in_each_mode() {
    let service = Service::start().await;
    service.pay(10_000).await;
    service.work_key().await;
    // Another owner.
    let other = service.stack.seed.member_email.clone();
    change_user(&service.store(), &other, |user| user.role = Role::Owner).await;
    let (first, second) = (Browser::owner(&service).await, Browser::member(&service).await);
    for round in 0..3 {
        let keys = [format!("a-{round}"), format!("b-{round}"), format!("c-{round}")];
        // One of the forms is sent twice.
        let (a, b, c, again) = tokio::join!(
            confirm(&first, ("20", &keys[0]), TEST),
            confirm(&second, ("20", &keys[1]), TEST),
            confirm(&second, ("20", &keys[2]), TEST),
            confirm(&first, ("20", &keys[0]), TEST),
        );
        assert_eq!(a.status, again.status, "{} {}", text(&a), text(&again));
        let done = [&a, &b, &c].iter().filter(|answer| answer.status == 303).count();
        let refused = [&a, &b, &c].iter().filter(|answer| answer.status == 422).count();
        assert_eq!((done, refused), (1, 2), "{} {} {}", text(&a), text(&b), text(&c));
        let payout = service.last_request(Mode::Test).await.unwrap();
        assert_eq!(service.centavos(MerchantAvailable).await, 10_000 - 2_000 * (round + 1));
        assert_eq!(service.centavos(LedgerAccount::Payouts).await, 2_000);
        service.end(&payout, &PayoutOutcome::Paid).await;
    }
    assert_eq!(service.payout_actions().await.iter().filter(|name| **name == "payout.create").count(), 3);
    service.check_ledger().await;

    // A key of a form that did something else is refused.
    let reused = confirm(&first, ("30", "a-9"), TEST).await;
    assert_eq!(location(&reused), DONE);
    let reused = confirm(&first, ("31", "a-9"), TEST).await;
    assert_eq!(location(&reused), "/dashboard/wallet?error=idempotency_key_reused");
    assert_eq!(confirm(&first, ("30", ""), TEST).await.status, 303, "a form without a key leads to its page");
    // The other mode has a balance and a request of its own.
    let live = Browser::owner(&service).await.in_mode(Mode::Live);
    let answer = confirm(&live, ("30", "live"), &[("mode", "live")]).await;
    assert_eq!(refused(&answer), "O valor é maior do que o saldo disponível.");
    assert!(service.last_request(Mode::Live).await.is_none());
    assert_eq!(service.last_request(Mode::Test).await.unwrap().amount.minor(), 3_000);
}

#[tokio::test]
async fn only_an_owner_of_an_account_that_is_not_suspended_requests_a_payout() {
    let service = Service::start().await;
    service.pay(10_000).await;
    service.work_key().await;
    let email = service.stack.seed.member_email.clone();
    for role in [Role::Viewer, Role::Member, Role::Admin] {
        change_user(&service.store(), &email, |user| user.role = role).await;
        let browser = Browser::member(&service).await;
        let page = browser.page(WALLET).await;
        let button = format!("{REQUEST} (precisa do proprietário)");
        assert_eq!(page.has(Part::Button, &button), role != Role::Viewer, "{role:?}: {page}");
        assert!(page.contains(MASKED), "{page}");
        assert_eq!(confirm(&browser, ("10", "k"), TEST).await.status, 403, "{role:?}");
    }
    let owner = Browser::owner(&service).await;
    service.advance_seconds(601).await;
    let answer = confirm(&owner, ("10", "k"), TEST).await;
    assert!(text(&answer).contains("Confirme que é você") || answer.status == 303, "{}", text(&answer));
    assert!(service.last_request(Mode::Test).await.is_none(), "the log-in is not recent");
    let owner = Browser::owner(&service).await;
    service.change_settings(|settings| settings.suspended = true).await;
    let suspended = "A conta está suspensa. Fale com o suporte.";
    assert_eq!(refused(&confirm(&owner, ("10", "k"), TEST).await), suspended);
    let key = [("mode", "test"), ("type", "cnpj"), ("pix_key", DOCUMENT)];
    assert_eq!(owner.post("/dashboard/wallet/key", &key).await.status, 403);
    let page = owner.page(WALLET).await;
    assert!(page.contains(suspended) && !page.has(Part::Button, REQUEST), "{page}");
    assert_eq!(
        (service.centavos(MerchantAvailable).await, service.last_request(Mode::Test).await),
        (10_000, None)
    );
    service.change_settings(|settings| settings.suspended = false).await;
    assert_eq!(location(&confirm(&owner, ("10", "k"), TEST).await), DONE);
}
