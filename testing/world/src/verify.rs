//! The one verifier: compares what was answered to merchants, payers and operators, and the acquirers' books, with
//! what the service shows at the end. It has its own logic and shares none with the reconciliation of the service.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::{Value, json};

use crate::http::{Api, items, text};
use crate::{Counts, Result, count};

/// The statuses of a charge that was paid.
pub const PAID: [&str; 3] = ["paid", "refunded", "disputed"];

/// What was answered about a charge.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about one charge")]
pub struct Answered {
    pub scope: usize,
    /// All ids that the requests with its idempotency key returned.
    pub ids: BTreeSet<String>,
    pub has_own_url: bool,
    /// What credited a test charge, as in `credited`.
    pub paid: Option<String>,
    /// What is held for review because its payer is not known, likewise; and whether something was.
    pub held: Option<String>,
    pub was_held: bool,
    /// Its payment was returned because of its payer.
    pub is_returned: bool,
    /// It is not known which of its payments counts.
    pub is_uncertain: bool,
    /// The status with which it ended in test mode without a payment.
    pub ended: Option<&'static str>,
    /// `Some(false)`: every cancellation was refused.
    pub cancelled: Option<bool>,
    /// The bodies of the requests for refunds that were answered with 201, with the answered amount, by refund.
    pub refunds: BTreeMap<String, Value>,
    /// The MED case in test mode.
    pub case: Option<String>,
    /// The bank sent a notice of a MED case.
    pub is_noticed: bool,
    /// The dispute at the acquirer of cards.
    pub dispute: Option<String>,
    /// Its Pix with a foreign txid or none.
    pub unmatched: Vec<String>,
    /// The operator approved its review, or applied a payment to it.
    pub is_accepted: bool,
}

impl Answered {
    /// Whether a payment of the right amount was taken.
    pub fn is_paid(&self) -> bool {
        self.paid.is_some() || self.held.is_some() || self.is_returned
    }

    /// A payment made the charge have this status.
    pub fn take(&mut self, status: &str, payment: String) {
        match status {
            "processing" => (self.held, self.was_held) = (Some(payment), true),
            "refunded" => self.is_returned = true,
            _ => self.paid = Some(payment),
        }
    }

    /// The review of the payment that was held has ended.
    pub fn review(&mut self, is_approved: bool) {
        let held = self.held.take();
        self.is_returned = !is_approved;
        self.paid = held.filter(|_| is_approved);
        self.is_accepted |= is_approved;
    }
}

/// The paths of the merchants' webhook server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Paths {
    /// Receives all events.
    pub all: &'static str,
    /// Receives `charge.paid`, and fails for some requests.
    pub failing: Option<&'static str>,
    /// Receives the legacy events of payments with a URL of their own.
    pub own: &'static str,
}

/// How many events were received, by path, type of event and id of its object.
pub type Events = BTreeMap<(&'static str, String), BTreeMap<String, usize>>;

/// Everything of an account in one mode that is compared at the end. Objects are as the API, the bank's books and
/// the operator's command show them.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The bank's books, with those of the other acquirers by [`add_stripe`] and [`add_btcpay`]; null in test mode.
    pub books: Value,
    /// By the number of the charge.
    pub answered: BTreeMap<usize, Answered>,
    pub charges: Vec<Value>,
    /// Each with its charge as `charge`.
    pub refunds: Vec<Value>,
    pub cases: Vec<Value>,
    pub movements: Vec<Value>,
    pub balance: Value,
    /// What came to the merchant's own wallet, by currency.
    pub own: BTreeMap<String, i64>,
    pub statistics: Value,
    /// By list, `total` and the number of objects on all pages.
    pub totals: BTreeMap<&'static str, (i64, usize)>,
    /// Payments that match no charge, or that could not be returned.
    pub unapplied: Vec<Value>,
    /// Payments that are held for review.
    pub held: Vec<Value>,
    pub paths: Paths,
    /// What the merchant's endpoint receives.
    pub subscribed: Vec<&'static str>,
    pub events: Events,
    /// The payouts that ended, and whether they were paid.
    pub payouts: Vec<(String, bool)>,
    /// Whether nothing happened at once, so that the answers determine all statuses and events.
    pub is_exact: bool,
    /// How often the bank ignored the filter by payer.
    pub ignored_filters: u64,
    /// The fee of each Pix, and that of a cash-out, in centavos. Refunds do not return them.
    pub fees: [i64; 2],
}

/// The statistics of the whole run.
const STATISTICS: &str = "/v1/payments/stats?days=365";

/// The lists that show how many objects they have.
const TOTALS: [(&str, &str); 2] = [("payments", "/v1/payments"), ("deliveries", "/v1/webhooks/deliveries")];

fn integer(value: &Value, field: &str) -> i64 {
    value[field].as_i64().unwrap_or_default()
}

/// Returns an amount of API Pix, such as `12.34`, in centavos. −1, which no amount is: it has another form.
fn centavos(value: &Value) -> i64 {
    let parts = value.as_str().and_then(|text| text.split_once('.')).filter(|(_, cents)| cents.len() == 2);
    parts.and_then(|(reais, cents)| format!("{reais}{cents}").parse().ok()).unwrap_or(-1)
}

fn is_pix(charge: &Value) -> bool {
    charge["payment_method"] == "pix"
}

/// Whether the charge was paid to the merchant's own wallet.
fn is_own(charge: &Value) -> bool {
    charge["payment_method"] == "crypto" && credited(charge).is_some()
}

/// Returns the Pix that was credited to a charge; of another method, the charge's id.
fn credited(charge: &Value) -> Option<&str> {
    let paid = charge["paid_at"].as_str().filter(|_| !is_pix(charge));
    charge["settlement"]["end_to_end_id"].as_str().or(paid.map(|_| text(charge, "id")))
}

/// The `natureza` of a dispute by card in the books.
const DISPUTE: &str = "MED_DISPUTE";

/// Writes an amount as API Pix does.
fn reais(amount: i64) -> String {
    format!("{}.{:02}", amount / 100, amount % 100)
}

fn append(books: &mut Value, pix: &[Value], cobs: &[Value]) {
    for (book, added) in [("pix", pix), ("cobs", cobs)] {
        books[book] = [items(&books[book]), added].concat().into();
    }
}

fn cob(charge: &Value, amount: &str, is_open: bool) -> Value {
    json!({"txid": charge, "valor": {"original": amount}, "status": if is_open { "ATIVA" } else { "CONCLUIDA" }})
}

/// Adds the books of a BTCPay Server to those of the bank, in the same form. The confirmed transactions of a charge are one
/// payment with its id.
pub fn add_btcpay(books: &mut Value, btcpay: &Value) {
    let mut confirmed_of: BTreeMap<&str, i64> = BTreeMap::new();
    for invoice in items(&btcpay["invoices"]) {
        let (charge, method) = (&invoice["metadata"]["orderId"], &invoice["paymentMethods"][0]);
        let confirmed = items(&method["payments"]).iter().filter(|payment| payment["status"] == "Settled");
        let satoshis =
            confirmed.filter_map(|payment| text(payment, "value").replace('.', "").parse::<i64>().ok());
        let amount = sum(satoshis).saturating_mul(centavos(&method["rate"])) / 100_000_000;
        let paid = confirmed_of.entry(charge.as_str().unwrap_or_default()).or_default();
        *paid = paid.saturating_add(amount);
        let is_open = ["New", "Processing"].contains(&text(invoice, "status"));
        append(books, &[], &[cob(charge, text(invoice, "amount"), is_open)]);
    }
    let paid = confirmed_of.into_iter().filter(|(_, amount)| *amount > 0).map(|(charge, amount)| {
        json!({"endToEndId": charge, "valor": reais(amount), "method": "crypto", "is_own": true})
    });
    append(books, &paid.collect::<Vec<_>>(), &[]);
}

/// The same of an account at Stripe. Refunds are devoluções, as are disputes, which are executed if they are lost.
pub fn add_stripe(books: &mut Value, cards: &Value) {
    let by_id: BTreeMap<&str, &Value> = ["charges", "balance_transactions"]
        .into_iter()
        .flat_map(|book| items(&cards[book]))
        .map(|one| (text(one, "id"), one))
        .collect();
    let back = |book: &str, intent: &Value| -> Vec<Value> {
        let of_intent = items(&cards[book]).iter().filter(|one| one["payment_intent"] == intent["id"]);
        let transfer = |one: &Value| {
            let status = text(one, "status");
            let (state, outcome) = match status {
                "succeeded" | "lost" => ("DEVOLVIDO", "lost"),
                "failed" | "canceled" | "won" | "warning_closed" => ("NAO_REALIZADO", "refunded_to_merchant"),
                _ => ("EM_PROCESSAMENTO", ""),
            };
            json!({
                "id": one["id"], "valor": reais(integer(one, "amount")), "status": state, "outcome": outcome,
                "natureza": if book == "disputes" { DISPUTE } else { "ORIGINAL" },
                "kind": if status.starts_with("warning_") { "dispute" } else { "chargeback" },
            })
        };
        of_intent.map(transfer).collect()
    };
    let paid = items(&cards["payment_intents"]).iter().filter(|intent| intent["status"] == "succeeded");
    let payments = paid.map(|intent| {
        let moved =
            by_id.get(text(intent, "latest_charge")).map(|charge| text(charge, "balance_transaction"));
        let fee = moved.and_then(|moved| by_id.get(moved)).map(|moved| integer(moved, "fee"));
        let returns = [back("refunds", intent), back("disputes", intent)].concat();
        let its = |source: &Value| {
            *source == intent["latest_charge"] || returns.iter().any(|one| one["id"] == *source)
        };
        let moved = items(&cards["balance_transactions"]).iter().filter(|moved| its(&moved["source"]));
        let balance = sum(moved.map(|moved| integer(moved, "amount")));
        json!({
            "endToEndId": intent["metadata"]["charge"], "valor": reais(integer(intent, "amount_received")),
            "fee": fee, "balance": balance, "devolucoes": returns, "method": intent["_method"].as_str().unwrap_or("card"),
        })
    });
    let sessions = items(&cards["sessions"]).iter().map(|session| {
        cob(
            &session["metadata"]["charge"],
            &reais(integer(session, "amount_total")),
            session["status"] == "open",
        )
    });
    // A bank may have accepted a voucher that is processed, and confirm it at any time.
    let direct = items(&cards["payment_intents"]).iter().filter(|intent| intent["_method"].is_string());
    let direct = direct.map(|intent| {
        let is_push = intent["_method"] == "mb_way" && intent["status"] == "processing";
        let is_open = is_push || intent["status"] == "requires_action";
        cob(&intent["metadata"]["charge"], &reais(integer(intent, "amount")), is_open)
    });
    append(books, &payments.collect::<Vec<_>>(), &sessions.chain(direct).collect::<Vec<_>>());
}

/// Whether a devolução or a Pix that was sent is neither executed nor refused.
fn is_open(transfer: &Value) -> bool {
    transfer["status"] == "EM_PROCESSAMENTO"
}

/// Returns the sorted amounts of the transfers that have left the account.
fn executed<'a>(transfers: impl IntoIterator<Item = &'a Value>) -> Vec<i64> {
    let is_executed = |transfer: &&Value| ["DEVOLVIDO", "REALIZADO"].contains(&text(transfer, "status"));
    let mut amounts: Vec<i64> =
        transfers.into_iter().filter(is_executed).map(|transfer| centavos(&transfer["valor"])).collect();
    amounts.sort_unstable();
    amounts
}

fn is_med(transfer: &Value) -> bool {
    text(transfer, "natureza").starts_with("MED_")
}

fn payer(pix: &Value) -> Option<&str> {
    pix["pagador"]["cpf"].as_str().or(pix["pagador"]["cnpj"].as_str())
}

fn sum(amounts: impl IntoIterator<Item = i64>) -> i64 {
    amounts.into_iter().fold(0, i64::saturating_add)
}

impl View {
    /// Reads what the API shows of an account in one mode.
    pub async fn read(api: &Api) -> Result<Self> {
        let charges = api.list("/v1/charges?limit=100").await?;
        let mut refunds = Vec::new();
        for id in charges.iter().filter(|charge| credited(charge).is_some()).map(|charge| text(charge, "id"))
        {
            let listed = api.read(format!("/v1/payments/{id}/refunds")).await?;
            for refund in items(&listed["data"]) {
                let mut refund = refund.clone();
                refund["charge"] = id.into();
                refunds.push(refund);
            }
        }
        let cases = api.list("/v1/med/cases?limit=100").await?;
        let balance = api.read("/v1/wallets/balance").await?;
        let statistics = api.read(STATISTICS).await?;
        let mut totals = BTreeMap::new();
        for (list, path) in TOTALS {
            let first = api.read(format!("{path}?limit=1")).await?;
            totals.insert(
                list,
                (integer(&first, "total"), api.list(&format!("{path}?limit=100")).await?.len()),
            );
        }
        let mut movements = Vec::new();
        for currency in items(&balance["balances"]).iter().map(|one| text(one, "currency")) {
            let path = format!("/v1/wallets/transactions?limit=100&currency={currency}");
            movements.extend(api.list(&path).await?);
        }
        let wallets = api.read("/v1/wallets").await?;
        let own = items(&wallets).iter().filter(|wallet| wallet["walletType"] == "SELF_CUSTODY");
        let own =
            own.map(|wallet| (text(wallet, "currency").to_owned(), integer(wallet, "balance"))).collect();
        Ok(Self { charges, refunds, cases, movements, balance, own, statistics, totals, ..Self::default() })
    }

    /// Returns how many events of each type were received, each at each path once.
    pub fn received(&self) -> BTreeMap<&str, usize> {
        let events =
            self.events.iter().flat_map(|((_, event), of)| of.values().map(|n| (event.as_str(), *n)));
        totals(events)
    }

    fn is_live(&self) -> bool {
        !self.books.is_null()
    }

    fn requested(&self, refund: &Value) -> Option<&Value> {
        self.answered.values().find_map(|answered| answered.refunds.get(text(refund, "id")))
    }

    /// Returns what a charge lost by a case that a notice opened, which the bank's books do not show.
    fn lost_by_notice(&self, charge: &Value) -> i64 {
        let id = text(charge, "id");
        let is_noticed = |answered: &Answered| answered.is_noticed && answered.ids.contains(id);
        if self.answered.values().any(is_noticed) { self.lost(charge) } else { 0 }
    }

    /// Returns what a charge lost by its cases.
    fn lost(&self, charge: &Value) -> i64 {
        let lost = self.cases.iter().filter(|case| case["money_outcome"] == "lost");
        let lost =
            sum(lost.filter(|case| case["charge_id"] == charge["id"]).map(|case| integer(case, "amount")));
        // MED takes at most what devolutions left. A scheme takes the amount of its dispute.
        if is_pix(charge) { lost.min(self.left(charge)) } else { lost }
    }

    /// Returns what devolutions left of a charge.
    fn left(&self, charge: &Value) -> i64 {
        let devolutions = self.completed().filter(|refund| refund["strategy"] != "cashout");
        let devolutions = devolutions.filter(|refund| refund["charge"] == charge["id"]);
        integer(charge, "amount").saturating_sub(sum(devolutions.map(|refund| integer(refund, "amount"))))
    }

    fn completed(&self) -> impl Iterator<Item = &Value> {
        self.refunds.iter().filter(|refund| refund["status"] == "REFUNDED")
    }

    /// Returns the fee of a charge's payment. That of a live payment by card is in the books.
    fn fee(&self, charge: &Value, pix: &BTreeMap<&str, &Value>) -> i64 {
        match credited(charge) {
            Some(_) if is_pix(charge) => self.fees[0],
            Some(id) => pix.get(id).map_or(0, |card| integer(card, "fee")),
            None => 0,
        }
    }

    /// Returns the fee of a refund that the merchant bears.
    fn refund_fee(&self, refund: &Value) -> i64 {
        if self.requested(refund).is_some_and(|request| request["passFeeToTenant"] == true) {
            self.fees[1]
        } else {
            0
        }
    }

    fn pix(&self) -> BTreeMap<&str, &Value> {
        items(&self.books["pix"]).iter().map(|pix| (text(pix, "endToEndId"), pix)).collect()
    }

    /// Returns the balances, with what MED cases retain, by currency.
    fn balances(&self) -> BTreeMap<&str, i64> {
        let balance = &self.balance;
        let balances = items(&balance["balances"]).iter().map(|one| {
            let is_primary = one["currency"] == balance["currency"];
            let retained = if is_primary { integer(balance, "retained") } else { 0 };
            (text(one, "currency"), integer(one, "total").saturating_add(retained))
        });
        balances.collect()
    }
}

/// The result of the comparison: what must not be, and the objects by kind and outcome.
#[derive(Debug, Default)]
pub struct Findings {
    pub violations: Vec<String>,
    pub counts: Counts,
}

impl Findings {
    fn violation(&mut self, text: String) {
        self.violations.push(text);
    }

    fn count(&mut self, name: fmt::Arguments<'_>) {
        count(&mut self.counts, name);
    }

    /// Each key must have what is expected, and no other key anything.
    fn compare<K: Ord + fmt::Debug, V: PartialEq + fmt::Debug>(
        &mut self,
        what: &str,
        expected: &BTreeMap<K, V>,
        found: &BTreeMap<K, V>,
    ) {
        for key in expected.keys().chain(found.keys()).collect::<BTreeSet<_>>() {
            let (expected, found) = (expected.get(key), found.get(key));
            if expected != found {
                self.violation(format!("the {what} {key:?} are {found:?}, not {expected:?}"));
            }
        }
    }
}

pub fn verify(view: &View) -> Findings {
    let mut findings = Findings::default();
    charges(view, &mut findings);
    settlements(view, &mut findings);
    refunds(view, &mut findings);
    balances(view, &mut findings);
    statistics(view, &mut findings);
    events(view, &mut findings);
    if view.is_live() {
        cobs(view, &mut findings);
        payments(view, &mut findings);
        sent(view, &mut findings);
        money(view, &mut findings);
        payer_lock(view, &mut findings);
        disputes(view, &mut findings);
    }
    if view.is_exact || !view.is_live() {
        statuses(view, &mut findings);
    }
    findings
}

/// One charge for each idempotency key, and none is pending.
fn charges(view: &View, findings: &mut Findings) {
    let mut listed: BTreeSet<&str> = BTreeSet::new();
    for charge in &view.charges {
        let (id, status) = (text(charge, "id"), text(charge, "status"));
        findings.count(format_args!("charges {status}"));
        if !listed.insert(id) {
            findings.violation(format!("charge {id} is listed twice"));
        }
        let is_held = if view.is_live() {
            view.held.iter().any(|held| held["charge"] == charge["id"])
        } else {
            view.answered.values().any(|answered| answered.held.is_some() && answered.ids.contains(id))
        };
        if status == "pending" || (status == "processing" && !is_held) {
            findings.violation(format!("charge {id} is still {status}"));
        }
    }
    for (number, Answered { ids, .. }) in &view.answered {
        if ids.len() != 1 {
            findings.violation(format!("the key of charge {number} created {} charges: {ids:?}", ids.len()));
        }
        for id in ids.iter().filter(|id| !listed.remove(id.as_str())) {
            findings.violation(format!("charge {id} of charge {number} is not listed, or has two keys"));
        }
    }
    for id in listed {
        findings.violation(format!("charge {id} is listed, and no request created it"));
    }
}

/// Each charge is as the answers imply.
fn statuses(view: &View, findings: &mut Findings) {
    let listed: BTreeMap<&str, &Value> =
        view.charges.iter().map(|charge| (text(charge, "id"), charge)).collect();
    for answered in view.answered.values().filter(|answered| !answered.is_uncertain) {
        let Answered { ids, paid, held, is_returned, ended, cancelled, .. } = answered;
        let Some(charge) = ids.first().and_then(|id| listed.get(id.as_str())) else { continue };
        let expected: &[&str] = match (paid, held, is_returned, ended, cancelled) {
            (Some(_), ..) => &PAID,
            (None, Some(_), ..) => &["processing"],
            (None, None, true, ..) => &["refunded"],
            (None, None, false, Some(ended), _) => &[ended],
            (None, None, false, None, Some(true)) => &["cancelled"],
            // The answer to a cancellation may be lost, and its repetition refused.
            (None, None, false, None, Some(false)) => &["cancelled", "expired"],
            (None, None, false, None, None) => &["expired"],
        };
        let (id, status, credited) = (text(charge, "id"), text(charge, "status"), credited(charge));
        if credited != paid.as_deref() || !expected.contains(&status) {
            findings.violation(format!("{id} is {status}, credited {credited:?}; answered: {answered:?}"));
        }
    }
}

/// Each charge has one cob, or one page of the acquirer of cards, of its amount, and none can still be paid.
fn cobs(view: &View, findings: &mut Findings) {
    // A charge that failed before the service read its cob does not show the txid.
    let failed = view.charges.iter().filter(|one| one["status"] == "failed" && one["pix"].is_null());
    let mut failed: Vec<i64> = failed.map(|charge| integer(charge, "amount")).collect();
    let txid = |charge: &'_ Value| charge["pix"]["txid"].as_str().unwrap_or(text(charge, "id")).to_owned();
    let by_txid: BTreeMap<String, &Value> =
        view.charges.iter().map(|charge| (txid(charge), charge)).collect();
    let mut seen = BTreeSet::new();
    for cob in items(&view.books["cobs"]) {
        let (txid, status) = (text(cob, "txid"), text(cob, "status"));
        let amount = centavos(&cob["valor"]["original"]);
        if !seen.insert(txid) {
            findings.violation(format!("the bank has several cobs {txid}"));
        }
        match by_txid.get(txid) {
            Some(charge) if integer(charge, "amount") == amount => {}
            Some(charge) => {
                findings.violation(format!("the cob {txid} has another amount than {}", text(charge, "id")));
            }
            // `admin accounts check-acquirer` tries the Pix key by a cob of one centavo, and removes it.
            None if (amount, status) == (1, "REMOVIDA_PELO_USUARIO_RECEBEDOR") => {}
            None if failed.extract_if(.., |one| *one == amount).next().is_some() => {}
            None => findings.violation(format!("the cob {txid} belongs to no charge")),
        }
        if status == "ATIVA" {
            findings.violation(format!("the cob {txid} can still be paid"));
        }
    }
}

/// Each Pix that the bank received is exactly once credited, returned, held or unapplied, and no other Pix is.
fn payments(view: &View, findings: &mut Findings) {
    let mut recorded: BTreeMap<&str, Vec<(&str, i64)>> = BTreeMap::new();
    let credited = view.charges.iter().filter_map(|charge| Some((credited(charge)?, "credited", charge)));
    let held = view.held.iter().map(|held| (text(held, "payment"), "held for review", held));
    // The books name a payment that is no Pix by its charge.
    let is_pix = |one: &Value| one["method"].as_str().is_none_or(|method| method == "pix");
    let name = |one| text(one, if is_pix(one) { "end_to_end_id" } else { "charge" });
    let unapplied = view.unapplied.iter().map(|one| (name(one), "unapplied", one));
    for (id, outcome, object) in credited.chain(held).chain(unapplied) {
        recorded.entry(id).or_default().push((outcome, integer(object, "amount")));
    }
    for (id, pix) in view.pix() {
        let mut found = recorded.remove(id).unwrap_or_default();
        let amount = centavos(&pix["valor"]);
        let returns = items(&pix["devolucoes"]);
        // A payer who disputes a payment that is on its way back changes nothing at the service.
        let returned = sum(executed(returns.iter().filter(|item| item["natureza"] != DISPUTE)));
        if returned > 0 && found.iter().all(|(outcome, _)| *outcome != "credited") {
            found.push(("returned", returned));
        }
        for item in returns {
            findings.count(format_args!("devoluções {} {}", text(item, "natureza"), text(item, "status")));
            if is_open(item) {
                findings.violation(format!("the devolução {} of Pix {id} is not final", text(item, "id")));
            }
        }
        // Several transactions may pay an invoice, and each that exceeds it is a receipt.
        if pix["is_own"] == true && found.len() > 1 {
            found = vec![("in parts", sum(found.iter().map(|(_, amount)| *amount)))];
        }
        let method = pix["method"].as_str().map_or("Pix".to_owned(), |method| format!("{method} payments"));
        match found.as_slice() {
            [(outcome, found)] if *found == amount => findings.count(format_args!("{method} {outcome}")),
            [] => findings.violation(format!("Pix {id} of {amount} is nowhere")),
            _ => findings.violation(format!("Pix {id} of {amount} is {found:?}; devoluções: {returns:?}")),
        }
    }
    for id in recorded.into_keys() {
        findings.violation(format!("Pix {id} is recorded, and the bank did not receive it"));
    }
}

/// Each credited charge has one settlement in the statement, and no other charge has one.
fn settlements(view: &View, findings: &mut Findings) {
    let pix = view.pix();
    let mut found: BTreeMap<&str, Vec<[i64; 3]>> = BTreeMap::new();
    for movement in view.movements.iter().filter(|movement| movement["type"] == "settlement") {
        let settlement = ["amount", "fee", "net"].map(|field| integer(movement, field));
        found.entry(text(movement, "charge_id")).or_default().push(settlement);
    }
    let paid = view.charges.iter().filter(|charge| credited(charge).is_some() && !is_own(charge));
    let expected = paid.map(|charge| {
        let (amount, fee) = (integer(charge, "amount"), view.fee(charge, &pix));
        (text(charge, "id"), vec![[amount, fee, amount.saturating_sub(fee)]])
    });
    findings.compare("settlements of", &expected.collect(), &found);
    let ids: BTreeSet<&str> = view.movements.iter().map(|movement| text(movement, "id")).collect();
    if ids.len() != view.movements.len() {
        findings.violation("the statement lists a movement twice".to_owned());
    }
}

/// Each refund that was answered is there once and final. The devoluções of a charge's Pix are its refunds by devolução
/// and its losses by MED, and the statement has what is left of the charge.
fn refunds(view: &View, findings: &mut Findings) {
    let mut listed = BTreeSet::new();
    for refund in &view.refunds {
        let (strategy, status) = (text(refund, "strategy"), text(refund, "status"));
        findings.count(format_args!("refunds {strategy} {status}"));
        if ["PENDING", "IN_PROGRESS"].contains(&status) {
            findings.violation(format!("refund {} is not final", text(refund, "id")));
        }
        // At the bank, the answer may be unknown, and a refund may fail.
        let request = view.requested(refund);
        let is_as_answered = match request {
            Some(request) => request["amount"] == refund["amount"],
            None => view.is_live(),
        };
        if !is_as_answered || !(view.is_live() || status == "REFUNDED") || !listed.insert(text(refund, "id"))
        {
            findings.violation(format!("the refund {refund} was answered as {request:?}"));
        }
    }
    let answered = view.answered.values().flat_map(|answered| answered.refunds.keys());
    for id in answered.filter(|id| !listed.contains(id.as_str())) {
        findings.violation(format!("the refund {id} was answered and is not listed"));
    }
    let mut nets: BTreeMap<&str, i64> = BTreeMap::new();
    for movement in view.movements.iter().filter(|one| !text(one, "type").starts_with("payout")) {
        let net = nets.entry(text(movement, "charge_id")).or_default();
        *net = net.saturating_add(integer(movement, "net"));
    }
    let pix = view.pix();
    for charge in &view.charges {
        let id = text(charge, "id");
        let completed: Vec<&Value> = view.completed().filter(|refund| refund["charge"] == id).collect();
        let credited_pix = credited(charge).and_then(|id| pix.get(id));
        let returns = credited_pix.map(|pix| items(&pix["devolucoes"]));
        let devolutions = completed.iter().filter(|refund| refund["strategy"] != "cashout");
        let mut devolutions: Vec<i64> = devolutions.map(|refund| integer(refund, "amount")).collect();
        devolutions.sort_unstable();
        let lost = if let Some(returns) = returns {
            let at_bank = executed(returns.iter().filter(|item| !is_med(item)));
            if at_bank != devolutions {
                findings.violation(format!(
                    "charge {id}: the bank returned {at_bank:?}, refunds completed {devolutions:?}"
                ));
            }
            let by_med = sum(executed(returns.iter().filter(|item| is_med(item))));
            by_med.saturating_add(view.lost_by_notice(charge))
        } else {
            view.lost(charge)
        };
        let refunded = sum(completed.iter().map(|refund| integer(refund, "amount")));
        if refunded != integer(charge, "amount_refunded") {
            findings.violation(format!("charge {id} shows {} refunded", charge["amount_refunded"]));
        }
        let is_whole = refunded == integer(charge, "amount");
        let has_case = view.cases.iter().any(|case| case["charge_id"] == id);
        if credited(charge).is_some() && !has_case && is_whole != (charge["status"] == "refunded") {
            findings.violation(format!("charge {id} with {refunded} refunded is {}", charge["status"]));
        }
        let fees = sum(completed.iter().map(|refund| view.refund_fee(refund)));
        let is_here = credited(charge).is_some() && !is_own(charge);
        let credited = if is_here { integer(charge, "amount") } else { 0 };
        let expected =
            [view.fee(charge, &pix), refunded, fees, lost].into_iter().fold(credited, i64::saturating_sub);
        let net = nets.remove(id).unwrap_or_default();
        // What the acquirer's balance has of a payment by card is the merchant's, but for the fee of the payment.
        let balance = credited_pix.and_then(|pix| pix["balance"].as_i64());
        if let Some(balance) = balance.filter(|balance| balance.saturating_sub(view.fee(charge, &pix)) != net)
        {
            findings
                .violation(format!("charge {id}: the acquirer's balance has {balance}, the statement {net}"));
        }
        if net != expected {
            findings.violation(format!(
                "charge {id}: {credited} credited, {refunded} refunded for {fees}, {lost} lost by MED or dispute; the statement \
                 has {net}, not {expected}"
            ));
        }
    }
    for (charge, net) in nets.into_iter().filter(|(_, net)| *net != 0) {
        findings.violation(format!("the statement has {net} of the unknown charge {charge:?}"));
    }
}

/// Each Pix that was sent is a completed cash-out, to the key that the request named.
fn sent(view: &View, findings: &mut Findings) {
    let (mut at_bank, mut completed) = (BTreeMap::<(&str, i64), usize>::new(), BTreeMap::new());
    for transfer in items(&view.books["pixOut"]) {
        findings.count(format_args!("Pix out {}", text(transfer, "status")));
        if is_open(transfer) {
            findings.violation(format!("the Pix out {} is not final", text(transfer, "id")));
        }
        for amount in executed([transfer]) {
            let copies = at_bank.entry((text(transfer, "chave"), amount)).or_default();
            *copies = copies.saturating_add(1);
        }
    }
    let pix = view.pix();
    // A payment by another payer than the expected one is credited only if the bank confirmed the expected one.
    let payer_of = |refund: &Value| {
        let charge = view.charges.iter().find(|charge| charge["id"] == refund["charge"])?;
        let expected = charge["expected_payer_tax_id"].as_str();
        expected.or_else(|| payer(pix.get(credited(charge)?)?))
    };
    for refund in view.completed().filter(|refund| refund["strategy"] == "cashout") {
        let named = view.requested(refund).and_then(|request| request["destinationKey"].as_str());
        let Some(key) = named.or_else(|| payer_of(refund)) else {
            findings.violation(format!("the cash-out {refund} was completed without a key"));
            continue;
        };
        let copies: &mut usize = completed.entry((key, integer(refund, "amount"))).or_default();
        *copies = copies.saturating_add(1);
    }
    findings.compare("Pix out by key and amount", &completed, &at_bank);
}

/// Each balance is the sum of the statement in its currency.
fn balances(view: &View, findings: &mut Findings) {
    let mut sums: BTreeMap<&str, i64> = BTreeMap::new();
    for movement in &view.movements {
        let sum = sums.entry(text(movement, "currency")).or_default();
        *sum = sum.saturating_add(integer(movement, "net"));
    }
    let mut balances = view.balances();
    balances.retain(|currency, balance| *balance != 0 || sums.contains_key(currency));
    if sums != balances {
        findings.violation(format!("the statement adds up to {sums:?}, the balances are {balances:?}"));
    }
    let mut own: BTreeMap<String, i64> = BTreeMap::new();
    let charges = view.charges.iter().filter(|charge| is_own(charge) && !view.is_live());
    let charges = charges.map(|charge| (text(charge, "currency"), integer(charge, "amount")));
    let books = items(&view.books["pix"]).iter().filter(|pix| pix["is_own"] == true);
    for (currency, amount) in charges.chain(books.map(|pix| ("BRL", centavos(&pix["valor"])))) {
        let sum = own.entry(currency.to_owned()).or_default();
        *sum = sum.saturating_add(amount);
    }
    findings.compare("the merchant's own wallet in", &own, &view.own);
    let is_open = |charge: &&Value| {
        view.cases.iter().any(|case| case["charge_id"] == charge["id"] && case["money_outcome"].is_null())
    };
    let retained = sum(view.charges.iter().filter(is_open).map(|charge| view.left(charge)));
    if view.is_exact && retained != integer(&view.balance, "retained") {
        findings.violation(format!("{} is retained, not {retained}", view.balance["retained"]));
    }
}

/// The statistics and the totals of lists are what counting the objects results in.
fn statistics(view: &View, findings: &mut Findings) {
    let mut volumes: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
    for charge in view.charges.iter().filter(|charge| credited(charge).is_some()) {
        let (volume, count) = volumes.entry(text(charge, "currency")).or_default();
        *volume = volume.saturating_add(integer(charge, "amount"));
        *count = count.saturating_add(1);
    }
    let shown = items(&view.statistics["volumeByCurrency"]).iter();
    let shown: BTreeMap<&str, (i64, i64)> =
        shown.map(|one| (text(one, "currency"), (integer(one, "volume"), integer(one, "count")))).collect();
    if shown != volumes {
        findings.violation(format!("the statistics show the volumes {shown:?}, not {volumes:?}"));
    }
    let total = integer(&view.statistics, "totalTransactions");
    if usize::try_from(total).ok() != Some(view.charges.len()) {
        findings.violation(format!("the statistics show {total} charges, not {}", view.charges.len()));
    }
    for (list, (total, listed)) in &view.totals {
        if usize::try_from(*total).ok() != Some(*listed) {
            findings.violation(format!("`total` of the {list} is {total}, and {listed} are listed"));
        }
    }
}

/// The balance is what the bank received for charges, less what left the account and the fees.
fn money(view: &View, findings: &mut Findings) {
    let pix = view.pix();
    let charges = || view.charges.iter().filter(|charge| !is_own(charge));
    let paid = || charges().filter_map(|charge| pix.get(credited(charge)?));
    let received = sum(paid().map(|pix| centavos(&pix["valor"])));
    let returned = sum(executed(paid().flat_map(|pix| items(&pix["devolucoes"]))));
    let sent = sum(executed(items(&view.books["pixOut"])));
    let refund_fees = sum(view.completed().map(|refund| view.refund_fee(refund)));
    let fees = sum(view.charges.iter().map(|charge| view.fee(charge, &pix))).saturating_add(refund_fees);
    let noticed = sum(view.charges.iter().map(|charge| view.lost_by_notice(charge)));
    let payouts = view.movements.iter().filter(|one| text(one, "type").starts_with("payout"));
    let paid_out = sum(payouts.map(|one| integer(one, "net").saturating_neg()));
    let expected = [returned, sent, fees, noticed, paid_out].into_iter().fold(received, i64::saturating_sub);
    let balance = sum(view.balances().into_values());
    if expected != balance {
        findings.violation(format!(
            "the balance is {balance}, and the bank's books lead to {expected}: {received} received, {returned} \
             returned, {sent} sent, {fees} fees"
        ));
    }
}

/// A payment by another payer than the expected one is credited only by an operator, or if the bank ignored
/// the filter by payer.
fn payer_lock(view: &View, findings: &mut Findings) {
    let pix = view.pix();
    let accepted = view.answered.values().filter(|answered| answered.is_accepted);
    let accepted: BTreeSet<&str> = accepted.flat_map(|answered| &answered.ids).map(String::as_str).collect();
    let is_wrong = |charge: &&Value| {
        let locked = charge["expected_payer_tax_id"].as_str().zip(credited(charge));
        locked.is_some_and(|(expected, credited)| {
            pix.get(credited).and_then(|pix| payer(pix)) != Some(expected)
        })
    };
    let wrong: Vec<&str> = view.charges.iter().filter(is_wrong).map(|charge| text(charge, "id")).collect();
    let wrong: Vec<&str> = wrong.into_iter().filter(|id| !accepted.contains(id)).collect();
    if u64::try_from(wrong.len()).unwrap_or(u64::MAX) > view.ignored_filters {
        findings.violation(format!("charges that another payer paid were credited: {}", wrong.join(", ")));
    }
}

/// Each dispute about a credited payment by card is a case with its amount and decision. An inquiry that became formal
/// may be a second case.
fn disputes(view: &View, findings: &mut Findings) {
    let pix = view.pix();
    for charge in view.charges.iter().filter(|charge| !is_pix(charge)) {
        let of_charge = |case: &&Value| case["charge_id"] == charge["id"];
        let mut cases: Vec<&Value> = view.cases.iter().filter(of_charge).collect();
        let payment = credited(charge).and_then(|id| pix.get(id));
        let disputes = payment.into_iter().flat_map(|card| items(&card["devolucoes"]));
        for dispute in disputes.filter(|item| is_med(item)) {
            findings.count(format_args!("disputes {} {}", text(dispute, "kind"), text(dispute, "outcome")));
            let is_same = |case: &&Value| {
                case["type"] == dispute["kind"]
                    && case["money_outcome"] == dispute["outcome"]
                    && integer(case, "amount") == centavos(&dispute["valor"])
            };
            match cases.iter().position(is_same) {
                Some(place) => drop(cases.swap_remove(place)),
                None => findings.violation(format!("the dispute {dispute} is none of {cases:?}")),
            }
            if dispute["kind"] == "chargeback" {
                cases.retain(|case| case["type"] != "dispute");
            }
        }
        if !cases.is_empty() {
            findings.violation(format!("no dispute at the acquirer is of {cases:?}"));
        }
    }
}

/// The events of a change, of both families.
const CREATED: &[&str] = &["charge.created", "payment.created", "payment.status_changed"];
const WAS_PAID: &[&str] = &["charge.paid", "payment.completed", "payment.status_changed"];
const CHANGED: &[&str] = &["payment.status_changed"];
/// A payment that was not credited goes back.
const RETURNED: &[&str] = &["charge.refunded", "payment.refunded", "payment.status_changed"];
const FAILED: &[&str] = &["charge.failed", "payment.failed", "payment.status_changed"];
const EXPIRED: &[&str] = &["charge.expired", "payment.expired", "payment.failed", "payment.status_changed"];
/// A refund is created, in progress, and then completed or failed.
const REFUND: &[&str] = &["refund.created", "payment.refunded", "payment.refunded", "payment.refunded"];
const ALL_REFUNDED: &[&str] = &["charge.refunded", "payment.status_changed"];
const CASE: &[&str] = &["med_case.created", "payment.failed", "payment.status_changed"];
const CASE_DECIDED: &[&str] = &["med_case.updated", "med.resolved"];
const PAYOUT_PAID: &[&str] = &["payout.paid", "withdrawal.completed", "withdrawal.status_changed"];
const PAYOUT_FAILED: &[&str] = &["payout.failed", "withdrawal.failed", "withdrawal.status_changed"];

fn totals<'a>(numbers: impl IntoIterator<Item = (&'a str, usize)>) -> BTreeMap<&'a str, usize> {
    let mut totals = BTreeMap::new();
    for (name, number) in numbers {
        let total: &mut usize = totals.entry(name).or_default();
        *total = total.saturating_add(number);
    }
    totals
}

/// Each change had its events at each endpoint that was subscribed, under one id, and no unpaid charge was reported paid.
/// If the view is exact, no object had others.
fn events(view: &View, findings: &mut Findings) {
    let Paths { failing, .. } = view.paths;
    let mut received = BTreeMap::<String, Vec<(&str, usize)>>::new();
    for ((path, event), objects) in &view.events {
        for (object, number) in objects.iter().filter(|_| Some(*path) != failing) {
            received.entry(object.clone()).or_default().push((event, *number));
        }
    }
    let mut compare = |objects: &[&str], changes: &[&[&'static str]], has_own_url: bool, is_exact: bool| {
        // The legacy events of a payment with a URL of its own are sent to that URL only, whatever is subscribed.
        let is_sent = |event: &&&str| {
            view.subscribed.contains(*event) || (has_own_url && event.starts_with("payment."))
        };
        let found = totals(objects.iter().filter_map(|object| received.remove(*object)).flatten());
        let expected = changes.iter().copied().flatten().filter(is_sent);
        let expected = totals(expected.map(|event| (*event, 1)));
        if is_exact && found != expected {
            findings.violation(format!("the events of {objects:?} are {found:?}, not {expected:?}"));
        }
        for event in expected.keys().filter(|event| !found.contains_key(*event)) {
            findings.violation(format!("{event} of {objects:?} was not received"));
        }
        for (event, number) in found {
            let most = expected.get(event).copied().unwrap_or_default();
            // A payment can be refunded twice.
            if number > most.max(1) && event != "payment.refunded" {
                findings.violation(format!("{event} of {objects:?} was received under {number} ids"));
            }
            if event == "charge.paid" && most == 0 {
                findings.violation(format!("{event} was received for {objects:?}, which is not paid"));
            }
        }
    };
    for (payout, is_paid) in &view.payouts {
        let outcome = if *is_paid { PAYOUT_PAID } else { PAYOUT_FAILED };
        compare(&[payout], &[&["payout.created", "withdrawal.created"], outcome], false, view.is_exact);
    }
    let mut at_failing = Vec::new();
    for answered in view.answered.values() {
        let charge = view.charges.iter().find(|charge| answered.ids.contains(text(charge, "id")));
        let Some(charge) = charge else { continue };
        let (id, status) = (text(charge, "id"), text(charge, "status"));
        let (mut objects, mut changes) = (vec![id, id.trim_start_matches("ch_")], Vec::new());
        // A live charge that failed may have had no artefacts, so it was not created for the payer.
        changes.extend((!view.is_live() || status != "failed").then_some(CREATED));
        changes.extend(answered.was_held.then_some(CHANGED));
        changes.extend(match status {
            _ if credited(charge).is_some() => Some(WAS_PAID),
            "refunded" => Some(RETURNED),
            "failed" | "cancelled" => Some(FAILED),
            "expired" => Some(EXPIRED),
            _ => None,
        });
        let refunds: Vec<&Value> = view.refunds.iter().filter(|refund| refund["charge"] == id).collect();
        for refund in &refunds {
            let outcome: &[&str] =
                if refund["status"] == "FAILED" { &["refund.failed"] } else { &["refund.succeeded"] };
            changes.extend([REFUND, outcome]);
            objects.push(text(refund, "id"));
        }
        let is_whole = credited(charge).is_some() && status == "refunded";
        changes.extend(is_whole.then_some(ALL_REFUNDED));
        let cases: Vec<&Value> = view.cases.iter().filter(|case| case["charge_id"] == id).collect();
        for case in &cases {
            changes.push(CASE);
            changes.extend(case["appealed_at"].is_string().then_some(&["med_case.updated"][..]));
            changes.extend((!case["money_outcome"].is_null()).then_some(CASE_DECIDED));
            changes.extend((case["money_outcome"] == "refunded_to_merchant").then_some(CHANGED));
            objects.push(text(case, "id"));
        }
        // Whether a refund ends before a case is opened, or meanwhile, makes a difference.
        let is_certain = !answered.is_uncertain && (refunds.is_empty() || cases.is_empty());
        compare(&objects, &changes, answered.has_own_url, view.is_exact && is_certain);
        let Some(failing) = failing else { continue };
        let received = view.events.get(&(failing, "charge.paid".to_owned())).and_then(|of| of.get(id));
        if received.copied().unwrap_or_default() != usize::from(credited(charge).is_some()) {
            at_failing.push(format!("at {failing}, charge.paid of {id} was received under {received:?} ids"));
        }
    }
    findings.violations.extend(at_failing);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A live charge that was credited, refunded both ways and lost a part by MED. Three other Pix are returned,
    /// held and unapplied.
    fn good() -> View {
        let returned = |valor: &str, natureza: &str, status: &str| json!({"id": "d", "valor": valor, "natureza": natureza, "status": status});
        let movement = |kind: &str, amount: i64, fee: i64, net: i64| {
            json!({"id": format!("{kind}{amount}"), "type": kind, "currency": "BRL", "amount": amount, "fee": fee,
                "net": net, "charge_id": "ch_1"})
        };
        let requested =
            |amount: i64, passes_fee: bool| json!({"amount": amount, "passFeeToTenant": passes_fee});
        let answered = Answered {
            ids: BTreeSet::from(["ch_1".to_owned()]),
            refunds: [("re_1", requested(100, false)), ("re_2", requested(200, true))]
                .map(|(id, refund)| (id.to_owned(), refund))
                .into(),
            ..Answered::default()
        };
        let events = ["charge.created", "charge.paid", "payment.refunded"].map(|event| {
            let id = if event == "payment.refunded" { "1" } else { "ch_1" };
            (("/all", event.to_owned()), BTreeMap::from([(id.to_owned(), 1)]))
        });
        View {
            books: json!({
                "cobs": [{"txid": "t1", "valor": {"original": "10.00"}, "status": "CONCLUIDA"}],
                "pix": [
                    {"endToEndId": "E1", "valor": "10.00", "pagador": {"cpf": "payer"}, "devolucoes": [
                        returned("1.00", "ORIGINAL", "DEVOLVIDO"),
                        returned("0.50", "MED_FRAUDE", "DEVOLVIDO"),
                        returned("0.30", "ORIGINAL", "NAO_REALIZADO"),
                    ]},
                    {"endToEndId": "E2", "valor": "0.07", "devolucoes": [returned("0.07", "ORIGINAL", "DEVOLVIDO")]},
                    {"endToEndId": "E3", "valor": "0.08"},
                    {"endToEndId": "E4", "valor": "0.09"},
                ],
                "pixOut": [{"id": "p", "valor": "2.00", "chave": "payer", "status": "REALIZADO"}],
            }),
            answered: BTreeMap::from([(0, answered)]),
            charges: vec![json!({
                "id": "ch_1", "status": "paid", "payment_method": "pix", "currency": "BRL", "amount": 1000, "amount_refunded": 300,
                "pix": {"txid": "t1"}, "settlement": {"end_to_end_id": "E1"}, "expected_payer_tax_id": "payer",
            })],
            refunds: [("re_1", 100, "devolution"), ("re_2", 200, "cashout")]
                .map(|(id, amount, strategy)| {
                    json!({"id": id, "charge": "ch_1", "amount": amount, "strategy": strategy, "status": "REFUNDED"})
                })
                .to_vec(),
            movements: vec![
                movement("settlement", 1000, 50, 950),
                movement("refund", 100, 0, -100),
                movement("refund", 200, 15, -215),
                movement("case_lost", 50, 0, -50),
            ],
            balance: json!({"currency": "BRL", "retained": 0, "balances": [{"currency": "BRL", "total": 585}]}),
            statistics: json!({
                "totalTransactions": 1, "volumeByCurrency": [{"currency": "BRL", "volume": 1000, "count": 1}],
            }),
            totals: BTreeMap::from([("deliveries", (3, 3))]),
            fees: [50, 15],
            subscribed: vec!["charge.created", "charge.paid", "charge.expired", "payment.refunded", "med_case.created"],
            unapplied: vec![json!({"end_to_end_id": "E4", "amount": 9})],
            held: vec![json!({"payment": "E3", "amount": 8})],
            paths: Paths { all: "/all", ..Paths::default() },
            events: events.into(),
            ..View::default()
        }
    }

    /// The same charge in test mode, without what only a bank has.
    fn sandbox() -> View {
        let mut view = View { books: Value::Null, unapplied: Vec::new(), held: Vec::new(), ..good() };
        view.cases =
            vec![json!({"id": "case_1", "charge_id": "ch_1", "money_outcome": "lost", "amount": 50})];
        let opened = ("/all", "med_case.created".to_owned());
        view.events.insert(opened, BTreeMap::from([("case_1".to_owned(), 1)]));
        view.answered.get_mut(&0).unwrap().paid = Some("E1".to_owned());
        view
    }

    /// A charge by card, whose payment was refunded in part and disputed in vain, and another, whose payment is returned.
    fn card() -> View {
        let back = |id: &str, intent: &str, amount: i64, status: &str| json!({"id": id, "payment_intent": intent, "amount": amount, "status": status});
        let paid = |id: &str, charge: &str, latest: &str| {
            json!({"id": id, "metadata": {"charge": charge}, "amount_received": 1000, "latest_charge": latest,
                "status": "succeeded"})
        };
        let session = |charge: &str, status: &str| json!({"metadata": {"charge": charge}, "amount_total": 1000, "status": status});
        let cards = json!({
            "sessions": [session("ch_1", "complete"), session("ch_2", "expired")],
            "payment_intents": [paid("pi_1", "ch_1", "c1"), paid("pi_2", "ch_2", "c2"), {"id": "pi_3", "status": "canceled"}],
            "charges": [{"id": "c1", "balance_transaction": "txn_1"}],
            "balance_transactions": [{"id": "txn_1", "fee": 50, "source": "c1", "amount": 1000},
                {"source": "re_1", "amount": -100}, {"source": "du_2", "amount": -50}],
            "refunds": [back("re_1", "pi_1", 100, "succeeded"), back("re_2", "pi_1", 9, "failed"),
                back("re_3", "pi_2", 1000, "succeeded")],
            "disputes": [back("du_1", "pi_1", 30, "won"), back("du_2", "pi_1", 50, "lost")],
        });
        let mut view = good();
        view.books = json!({});
        add_stripe(&mut view.books, &cards);
        let mut other = view.charges[0].clone();
        let first = &mut view.charges[0];
        (first["payment_method"], first["paid_at"]) = (json!("credit_card"), json!("2026-11-27T12:00:00Z"));
        (first["amount_refunded"], first["pix"], first["settlement"]) = (json!(100), Value::Null, json!({}));
        first["expected_payer_tax_id"] = Value::Null;
        other["payment_method"] = json!("credit_card");
        (other["id"], other["status"], other["amount_refunded"]) =
            (json!("ch_2"), json!("expired"), json!(0));
        (other["pix"], other["settlement"]) = (Value::Null, json!({}));
        view.charges.push(other);
        view.answered.insert(1, Answered { ids: BTreeSet::from(["ch_2".to_owned()]), ..Answered::default() });
        view.answered.values_mut().for_each(|answered| {
            answered.refunds.retain(|id, _| id == "re_1");
        });
        view.refunds.retain(|refund| refund["id"] == "re_1");
        view.refunds[0]["strategy"] = Value::Null;
        view.movements.retain(|movement| movement["net"] != -215);
        view.balance["balances"][0]["total"] = json!(800);
        view.statistics["totalTransactions"] = json!(2);
        let case = |id: &str, amount: i64, outcome: &str| json!({"id": id, "charge_id": "ch_1", "type": "chargeback", "amount": amount, "money_outcome": outcome});
        view.cases = vec![case("case_1", 30, "refunded_to_merchant"), case("case_2", 50, "lost")];
        for (event, id) in [
            ("charge.created", "ch_2"),
            ("charge.expired", "ch_2"),
            ("med_case.created", "case_1"),
            ("med_case.created", "case_2"),
        ] {
            view.events.entry(("/all", event.to_owned())).or_default().insert(id.to_owned(), 1);
        }
        (view.unapplied, view.held) = (Vec::new(), Vec::new());
        view
    }

    /// A charge by crypto. Two transactions of its payer exceed it; the excess is a receipt.
    fn crypto() -> View {
        let payment = |value: &str, status: &str| json!({"value": value, "status": status});
        let payments = [
            payment("0.00001000", "Settled"),
            payment("0.00001500", "Settled"),
            payment("0.50000000", "Invalid"),
            payment("0.50000000", "Processing"),
        ];
        let method = json!({"rate": "540000.00", "payments": payments});
        let invoice = json!({"metadata": {"orderId": "ch_1"}, "amount": "10.80", "status": "Settled", "paymentMethods": [method]});
        let mut view = good();
        (view.books, view.held) = (json!({}), Vec::new());
        add_btcpay(&mut view.books, &json!({"invoices": [invoice]}));
        let charge = &mut view.charges[0];
        (charge["payment_method"], charge["amount"]) = (json!("crypto"), json!(1080));
        (charge["paid_at"], charge["amount_refunded"]) = (json!("2026-11-27T12:00:00Z"), json!(0));
        (charge["pix"], charge["settlement"], charge["expected_payer_tax_id"]) = Default::default();
        (view.refunds, view.movements) = Default::default();
        view.answered.get_mut(&0).unwrap().refunds.clear();
        view.balance = json!({"currency": "BRL"});
        view.own = BTreeMap::from([("BRL".to_owned(), 1350)]);
        view.unapplied =
            vec![json!({"end_to_end_id": "Ek6auu", "method": "crypto", "charge": "ch_1", "amount": 270})];
        view.statistics["volumeByCurrency"][0]["volume"] = json!(1080);
        view
    }

    #[test]
    fn a_consistent_world_has_no_violations() {
        let findings = verify(&good());
        assert_eq!(findings.violations, [""; 0]);
        for outcome in ["credited", "returned", "held for review", "unapplied"] {
            assert_eq!(findings.counts[&format!("Pix {outcome}")], 1);
        }
        let mut view = sandbox();
        assert_eq!(verify(&view).violations, [""; 0]);
        view.cases[0]["amount"] = json!(1000);
        view.movements[3]["net"] = json!(-900);
        view.balance["balances"][0]["total"] = json!(-265);
        assert_eq!(verify(&view).violations, [""; 0], "a case of the whole amount after a devolution");
        let findings = verify(&card());
        assert_eq!(findings.violations, [""; 0]);
        for outcome in ["credited", "returned"] {
            assert_eq!(findings.counts[&format!("card payments {outcome}")], 1);
        }
        assert_eq!(verify(&crypto()).violations, [""; 0]);
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "one line for each kind")]
    fn each_kind_of_damage_is_a_violation() {
        type Damage = (&'static str, fn(&mut View));
        let live: [Damage; 31] = [
            ("E4 of 9 is nowhere", |view| view.unapplied.clear()),
            ("E3 of 8 is nowhere", |view| view.held.clear()),
            (r#"E3 of 8 is [("held for review", 8), ("unapplied", 8)]"#, |view| {
                view.unapplied.push(json!({"end_to_end_id": "E3", "amount": 8}));
            }),
            (r#"E4 of 9 is [("unapplied", 10)]"#, |view| view.unapplied[0]["amount"] = json!(10)),
            ("E9 is recorded", |view| view.unapplied.push(json!({"end_to_end_id": "E9", "amount": 8}))),
            (r#"E2 of 7 is [("returned", 6)]"#, |view| {
                view.books["pix"][1]["devolucoes"][0]["valor"] = json!("0.06");
            }),
            ("is not final", |view| {
                view.books["pix"][1]["devolucoes"][0]["status"] = json!("EM_PROCESSAMENTO");
            }),
            ("the bank returned [100], refunds completed []", |view| {
                view.refunds[0]["status"] = json!("FAILED");
            }),
            ("the refund re_1 was answered and is not listed", |view| drop(view.refunds.remove(0))),
            ("was answered as", |view| view.refunds[0]["amount"] = json!(99)),
            ("refund re_1 is not final", |view| view.refunds[0]["status"] = json!("PENDING")),
            ("shows 299 refunded", |view| view.charges[0]["amount_refunded"] = json!(299)),
            ("the statement has 595, not 585", |view| view.movements[3]["net"] = json!(-40)),
            (r#"Pix out by key and amount ("payer", 200) are Some(2), not Some(1)"#, |view| {
                let sent = view.books["pixOut"][0].clone();
                view.books["pixOut"].as_array_mut().unwrap().push(sent);
            }),
            (r#"Pix out by key and amount ("payer", 200) are None"#, |view| {
                view.books["pixOut"] = Value::Null;
            }),
            (r#"the statement adds up to {"BRL": 585}"#, |view| {
                view.balance["balances"][0]["total"] = json!(586);
            }),
            ("the statement has 584, not 585", |view| {
                view.balance["balances"][0]["total"] = json!(584);
                view.movements[0]["net"] = json!(949);
            }),
            (r#"settlements of "ch_1" are None"#, |view| view.movements[0]["charge_id"] = Value::Null),
            ("show the volumes", |view| {
                view.statistics["volumeByCurrency"][0]["volume"] = json!(999);
            }),
            ("show 2 charges, not 1", |view| view.statistics["totalTransactions"] = json!(2)),
            ("`total` of the deliveries is 2", |view| {
                view.totals.insert("deliveries", (2, 3));
            }),
            ("lists a movement twice", |view| view.movements.push(view.movements[1].clone())),
            ("created 2 charges", |view| {
                view.answered.get_mut(&0).unwrap().ids.insert("ch_2".to_owned());
            }),
            ("no request created it", |view| view.answered.clear()),
            ("belongs to no charge", |view| view.charges[0]["pix"] = Value::Null),
            ("the cob t9 belongs to no charge", |view| {
                let mut failed = view.charges[0].clone();
                (failed["status"], failed["pix"]) = (json!("failed"), Value::Null);
                view.charges.push(failed);
                for txid in ["t8", "t9"] {
                    let mut cob = view.books["cobs"][0].clone();
                    cob["txid"] = json!(txid);
                    view.books["cobs"].as_array_mut().unwrap().push(cob);
                }
            }),
            ("several cobs t1", |view| {
                let cob = view.books["cobs"][0].clone();
                view.books["cobs"].as_array_mut().unwrap().push(cob);
            }),
            ("t1 can still be paid", |view| view.books["cobs"][0]["status"] = json!("ATIVA")),
            ("another payer paid", |view| view.charges[0]["expected_payer_tax_id"] = json!("other")),
            (r#"charge.paid of ["ch_1", "1", "re_1", "re_2"] was not received"#, |view| view.events.clear()),
            ("under 2 ids", |view| {
                let paid = view.events.get_mut(&("/all", "charge.paid".to_owned())).unwrap();
                paid.insert("ch_1".to_owned(), 2);
            }),
        ];
        let test: [Damage; 4] = [
            ("credited Some(\"E1\"); answered: Answered", |view| {
                view.answered.get_mut(&0).unwrap().paid = None;
            }),
            ("is still pending", |view| view.charges[0]["status"] = json!("pending")),
            ("was answered as", |view| view.refunds[0]["status"] = json!("FAILED")),
            ("the statement has 585, not 635", |view| view.cases.clear()),
        ];
        let by_card: [Damage; 7] = [
            ("the acquirer's balance has 849, the statement 800", |view| {
                view.books["pix"][0]["balance"] = json!(849);
            }),
            ("ch_2 of 1000 is nowhere", |view| view.books["pix"][1]["devolucoes"] = Value::Null),
            ("ch_1 can still be paid", |view| view.books["cobs"][0]["status"] = json!("ATIVA")),
            ("[1000, 51, 949]", |view| view.books["pix"][0]["fee"] = json!(51)),
            ("the bank returned [], refunds completed [100]", |view| {
                view.books["pix"][0]["devolucoes"][0]["status"] = json!("NAO_REALIZADO");
            }),
            ("is none of", |view| view.cases[1]["money_outcome"] = json!("refunded_to_merchant")),
            ("no dispute at the acquirer is of", |view| view.cases.push(view.cases[0].clone())),
        ];
        let by_crypto: [Damage; 4] = [
            ("ch_1 of 1350 is [(\"credited\", 1080)]", |view| view.unapplied.clear()),
            ("ch_1 of 1350 is [(\"in parts\", 1620)]", |view| view.unapplied.push(view.unapplied[0].clone())),
            ("the merchant's own wallet in \"BRL\" are Some(1080)", |view| {
                view.own.insert("BRL".to_owned(), 1080);
            }),
            ("ch_1 can still be paid", |view| view.books["cobs"][0]["status"] = json!("ATIVA")),
        ];
        let cases = live.map(|damage| (good(), damage)).into_iter();
        let cases = cases.chain(by_crypto.map(|damage| (crypto(), damage)));
        let cases = cases.chain(by_card.map(|damage| (card(), damage)));
        for (mut view, (expected, damage)) in cases.chain(test.map(|damage| (sandbox(), damage))) {
            damage(&mut view);
            let violations = verify(&view).violations;
            assert!(violations.iter().any(|text| text.contains(expected)), "{expected}: {violations:?}");
        }
    }
}
