//! The commands about payout keys, and about payouts that owners request at the dashboard.

use super::*;

const DOCUMENT: &str = "11222333000181";
const KEY: &str = "financeiro@loja.example";
const MASKED: &str = "f***@l***.example";

impl AdminFixture {
    /// Sends a form of the dashboard. Returns the status.
    async fn send_form(&self, cookie: &str, path: &str, body: &str) -> (u16, HeaderMap) {
        let request = Request::post(format!("{}{path}", self.stack.base_url));
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        let request = request.header("sec-fetch-site", "same-origin").header("cookie", cookie);
        let (status, headers, _) = exchange(request, body).await;
        (status, headers)
    }

    /// Registers a payout key, which works afterwards.
    pub(crate) async fn register_approved_key(&self) {
        let (account, owner) = (self.account(), self.owner_of_live().await);
        let register = format!("mode=live&type=email&pix_key={KEY}");
        assert_eq!(self.send_form(&owner, "/dashboard/wallet/key", &register).await.0, 303);
        self.change(&format!("accounts set-document {account} --document {DOCUMENT}")).await;
        self.change(&format!("payouts approve-key {account} --key {KEY} --holder-document {DOCUMENT}")).await;
        self.stack.clock.advance(172_800_000);
    }

    /// Logs the first account's owner in. Returns the cookies, with that of live mode.
    pub(crate) async fn owner_of_live(&self) -> String {
        let seed = &self.stack.seed.first;
        let body = format!("email={}&password={}", seed.owner_email, seed.password);
        let (status, headers) = self.send_form("", "/dashboard/login", &body).await;
        assert_eq!(status, 303, "{headers:?}");
        let session = headers["set-cookie"].to_str().unwrap().split(';').next().unwrap();
        format!("{session}; __Host-mode=live")
    }

    pub(crate) async fn request_payout(&self, cookie: &str, amount: &str, key: &str) -> u16 {
        let body = format!("mode=live&confirmed=1&amount={amount}&idempotency_key={key}");
        self.send_form(cookie, "/dashboard/wallet/payout", &body).await.0
    }
}

#[tokio::test]
async fn an_operator_checks_a_payout_key_and_pays_what_an_owner_requests() {
    let service = AdminFixture::start().await;
    let account = service.account();
    let scope = format!("--account {account} --mode live");
    service.change(&format!("ledger adjust {scope} --amount 10000 --reference c1")).await;
    let owner = service.owner_of_live().await;
    let register = format!("mode=live&type=email&pix_key={KEY}");
    assert_eq!(service.send_form(&owner, "/dashboard/wallet/key", &register).await.0, 303);

    // The key is listed whole, beside the account's document.
    let listed = service.object("payouts keys").await;
    assert_eq!(fields(&listed, &["account", "key", "state"]), json!([account, KEY, "waiting"]));
    assert_eq!(listed["account_document"], Value::Null);
    let approve = |key: &str, document: &str| {
        format!("payouts approve-key {account} --key {key} --holder-document {document} --reason checked")
    };
    service.refuses(&approve(KEY, DOCUMENT), "set it with `accounts set-document`").await;
    let set = service.change(&format!("accounts set-document {account} --document {DOCUMENT}")).await;
    assert_eq!(set["document"], DOCUMENT);
    assert_eq!(service.object("payouts keys").await["account_document"], DOCUMENT);
    service.refuses(&approve(KEY, "29537995593"), "the holder's document is not the account's").await;
    service.refuses(&approve(KEY, "29537995594"), "check digits").await;
    service.refuses(&approve("eva@loja.example", DOCUMENT), "another payout key now").await;
    let other = service.stack.seed.other.id.to_string();
    service.refuses(&approve(KEY, DOCUMENT).replace(&account, &other), "has no payout key").await;
    // Two operators at once.
    let approvals = [approve(KEY, DOCUMENT), approve(KEY, DOCUMENT)];
    let (one, two) = tokio::join!(service.object(&approvals[0]), service.object(&approvals[1]));
    assert_eq!((&one, &one["state"]), (&two, &json!({"approved": {"holder": DOCUMENT}})));
    assert!(service.objects("payouts keys").await.is_empty());

    assert_eq!(service.request_payout(&owner, "60", "k1").await, 422, "before 48 hours");
    service.stack.clock.advance(172_800_000);
    let owner = service.owner_of_live().await;
    assert_eq!(service.request_payout(&owner, "60", "k1").await, 303);
    assert_eq!(service.request_payout(&owner, "60", "k2").await, 422);
    let create = format!("payouts create {scope} --amount 100 --reference p1");
    let of_operator = service.change(&create).await;
    let pending = service.objects("payouts list --all --status pending").await;
    let [of_operator_again, requested] = pending.as_slice() else { panic!("{pending:?}") };
    assert_eq!(id(of_operator_again), id(&of_operator));
    assert_eq!(of_operator_again["merchant_name"], "Loja Exemplo");
    assert_eq!(fields(&of_operator, &["key", "holder_document"]), json!([null, null]));
    assert_eq!(
        fields(requested, &["amount", "scope", "key"]),
        json!([6_000, format!("{account}:live"), MASKED])
    );
    assert!(!requested.to_string().contains(DOCUMENT), "{requested}");
    let payout = id(requested);
    let shown = service.object(&format!("payouts show {payout}")).await;
    assert_eq!(fields(&shown, &["key", "holder_document"]), json!([KEY, DOCUMENT]));
    assert!(service.objects("payouts list --all --status pending --mode test").await.is_empty());
    let file = service.run("payouts file").await;
    let rows = text(&file.stdout);
    let row = rows.strip_prefix("payout;pix_key;amount;holder_document;merchant_name;account\r\n").unwrap();
    assert!(row.starts_with(&format!("{payout};{KEY};60,00;{DOCUMENT};")), "{rows}");
    assert!(row.ends_with(&format!(";{account}\r\n")) && row.lines().count() == 1, "{rows}");
    let left_out = format!("left out {}: without a Pix key\n", id(&of_operator));
    assert!(text(&file.stderr).ends_with(&left_out), "{file:?}");
    let itau = "payouts file --itau-account 1234/56789-0 --company 'Pagamentos São José S.A.' \
                --company-document 11444777000161";
    let file = text(&service.run(itau).await.stdout);
    let lines: Vec<&str> = file.split_terminator("\r\n").collect();
    assert!(lines.len() == 6 && lines.iter().all(|line| line.len() == 240), "{file}");
    let at = |line: usize, range: std::ops::Range<usize>| lines[line].get(range).unwrap().trim_end();
    let payer =
        "34100000      081211444777000161                    01234 000000056789 0PAGAMENTOS SAO JOSE S.A.";
    assert_eq!(at(0, 0..102), payer);
    assert!(payout.ends_with(at(2, 73..93)) && at(2, 73..93).len() == 20, "{file}");
    assert_eq!(at(2, 119..134), "000000000006000");
    assert_eq!((at(3, 14..32), at(3, 127..227)), ("02 211222333000181", KEY));
    // `.ci/payout_file.py` reads it.
    std::fs::write(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("itau.rem"), &file).unwrap();
    service.refuses(&format!("{itau} --pay-on 2020-01-01"), "2020-01-01 is over").await;
    service.refuses("payouts file --itau-account 1234/56789", "a branch, an account and its digit").await;
    service.refuses("payouts file --itau-account 1234/56789-0", "--company").await;
    service.change(&format!("accounts suspend {account}")).await;
    service.refuses(itau, "there is no payout for the file").await;
    let file = service.run("payouts file").await;
    assert_eq!(text(&file.stdout).lines().count(), 1, "{file:?}");
    assert!(text(&file.stderr).contains(&format!("left out {payout}: {account} is suspended")), "{file:?}");
    service.change(&format!("accounts resume {account}")).await;
    service.refuses("payouts list --all --status paid", "add --status pending").await;
    service.refuses("payouts list --all", "--status").await;
    service.refuses(&format!("payouts list --account {account}"), "--mode").await;
    service.refuses("payouts list", "--account").await;

    // A rejected key gets no further payout; the pending one keeps it.
    let reject = format!("payouts reject-key {account} --key {KEY} --reason 'the holder changed'");
    let rejected = service.object(&reject).await;
    assert_eq!(rejected["state"], json!({"rejected": {"reason": "the holder changed"}}));
    assert_eq!(service.object(&reject).await, rejected);
    service.refuses(&approve(KEY, DOCUMENT), "an owner must register it again").await;
    let file = service.run("payouts file").await;
    assert!(text(&file.stderr).contains(&format!("left out {payout}: its Pix key was rejected")), "{file:?}");
    assert_eq!(text(&file.stdout).lines().count(), 1, "{file:?}");
    let fail = format!("payouts fail {payout} --reason 'the bank refused it'");
    let failed = service.object(&fail).await;
    assert_eq!(fields(&failed, &["status", "key"]), json!(["failed", MASKED]));
    assert!(text(&service.run(&fail).await.stderr).contains("is failed already; nothing changed"));
    assert_eq!(service.request_payout(&owner, "60", "k3").await, 422, "the key is rejected");
    assert_eq!(service.send_form(&owner, "/dashboard/wallet/key", &register).await.0, 303);
    service.object(&approve(KEY, DOCUMENT)).await;
    service.stack.clock.advance(172_800_000);
    let owner = service.owner_of_live().await;
    service.change(&format!("accounts suspend {account}")).await;
    assert_eq!(service.request_payout(&owner, "99", "k4").await, 422, "the account is suspended");
    service.change(&format!("accounts resume {account}")).await;
    assert_eq!(service.request_payout(&owner, "99", "k4").await, 303);
    let list = "payouts list --all --status pending --mode live";
    let requested = service.objects(list).await.remove(0);
    service.change(&format!("payouts settle {}", id(&requested))).await;
    let left = service.objects(list).await;
    assert_eq!(left.iter().map(id).collect::<Vec<_>>(), [id(&of_operator)]);
    let available = service.object(&format!("ledger show {scope}")).await["available"].clone();
    assert_eq!(available, 0);
    service.verify_ledger("live").await;
    let actions = service.actions(&account).await;
    let of_keys: Vec<&str> =
        actions.iter().map(String::as_str).filter(|action| action.starts_with("payout-key.")).collect();
    let [register, approve, reject] =
        ["register", "approve", "reject"].map(|name| format!("payout-key.{name}"));
    assert_eq!(of_keys, [&register, &approve, &reject, &register, &approve]);
    let audit = format!("{:?}", service.audit(&account).await);
    assert!(audit.contains(MASKED) && !audit.contains(KEY), "{audit}");
}
