//! Tests of reports: what their files contain, their limits, and what becomes of a report whose worker or message is
//! lost.

use aws_sdk_dynamodb::types::{AttributeValue, PutRequest, WriteRequest};
use axum::http::Method;
use domain::account::terms::{Fee, MethodTerms};
use domain::calendar::Day;
use domain::charge::Charge;
use domain::ids::{ChargeId, Mode, PayoutId, PostingId, ReportId};
use domain::money::{Amount, Currency};
use domain::report::{MonthEnd, Report, ReportClaim};
use domain::shard::ShardCount;
use money::payout::Payouts;
use money::report::Reports;
use screen_reader::Role;
use serde_json::{Value, json};
use shared::store::{Item, number};

use crate::dashboard::Browser;
use crate::emails::MailDirectory;
use crate::invocations::{dispatch, invoke};
use crate::lambda_processes::LambdaProcess;
use crate::seeding::seed;
use crate::support::{Client, Listener, Service, eventually, id, operator};

fn path(report: &Value) -> String {
    format!("/v1/reports/{}", id(report))
}

impl Client {
    async fn ask(&self, key: &str, body: &Value) -> crate::support::Answer {
        self.post_as(&self.key(), "/v1/reports", body, &[("idempotency-key", key)]).await
    }

    async fn ended(&self, report: &Value) -> Value {
        eventually("the report has ended", async || {
            let found = self.get(&path(report)).await.expect(200);
            (found["status"] != "pending").then_some(found)
        })
        .await
    }

    async fn file(&self, report: &Value) -> String {
        let answer = self.raw(Method::GET, report["url"].as_str().unwrap(), &[], "").await;
        assert_eq!(answer.status, 200, "{answer:?}");
        String::from_utf8(answer.bytes.to_vec()).unwrap()
    }

    /// Asks for a report and returns it with its file.
    async fn report(&self, body: &Value) -> (Value, String) {
        let report = self.ask(&uuid::Uuid::new_v4().to_string(), body).await.expect(202);
        let report = self.ended(&report).await;
        assert_eq!(report["status"], "ready", "{report}");
        let file = self.file(&report).await;
        (report, file)
    }
}

impl Service {
    fn today(&self) -> String {
        Day::of(self.stack.clock.now()).to_string()
    }

    fn of_today(&self, kind: &str, format: &str) -> Value {
        json!({"type": kind, "format": format, "from": self.today(), "to": self.today()})
    }

    async fn sale(&self, amount: i64, order: &str, name: &str) -> Value {
        let body = json!({"amount": amount, "metadata": {"order_id": order}, "customer": {"name": name}});
        let charge = self.new_charge(&body).await;
        self.sandbox(&charge, "pay", &json!({})).await
    }

    /// Available, pending and retained together, of the wallet.
    async fn money(&self) -> i64 {
        let balance = self.get("/v1/wallets/balance").await.expect(200);
        balance["total"].as_i64().unwrap() + balance["retained"].as_i64().unwrap()
    }

    /// Invokes the worker with the messages of its queue. Returns how many there were.
    async fn run_worker(&self) -> usize {
        let messages = self.take_messages("ReportQueue").await;
        for body in &messages {
            let record = json!({"messageId": "m", "body": body, "eventSource": "aws:sqs"});
            let answer = invoke(&self.stack, "ReportsWorkerFunction", &[record]).await;
            assert_eq!(answer["batchItemFailures"], json!([]));
        }
        messages.len()
    }

    async fn stored_report(&self, report: &Value) -> Report {
        let id: ReportId = id(report).parse().unwrap();
        Reports::new(self.store()).find(&self.scope(), Some(id)).await.unwrap().unwrap()
    }
}

/// The cells of a CSV file without line breaks in cells.
fn cells(file: &str, delimiter: char) -> Vec<Vec<String>> {
    let line = |line: &str| line.split(delimiter).map(|cell| cell.trim_matches('"').to_owned()).collect();
    file.trim_start_matches('\u{feff}').split_terminator("\r\n").map(line).collect()
}

fn centavos(cell: &str) -> i64 {
    cell.replace(',', "").parse().unwrap()
}

#[tokio::test]
async fn a_statement_adds_up_to_the_wallet_and_opens_in_a_brazilian_spreadsheet() {
    let service = Service::start().await;
    let listener = Listener::start().await;
    service.register_endpoint(&listener.url, &["report.ready"]).await;
    service
        .set_terms(MethodTerms { platform_fee: Fee::new(0, 100).unwrap(), ..MethodTerms::default() })
        .await;
    let sold = service.sale(10_000, "1001", "=HYPERLINK(\"x\")").await;
    service.sale(2_550, "+1002", "Ana \"Bia\" Souza 529.982.247-25").await;
    service.refund(&sold, "refund-1001", json!({"amount": 4_000})).await.expect(201);
    service.adjust(-100, "  -cmd").await;
    let mut body = service.of_today("statement", "csv");
    body["locale"] = json!("pt-BR");
    let asked = service.ask("report-0001", &body).await.expect(202);
    assert_eq!(
        (&asked["status"], &asked["url"], &asked["rows"]),
        (&json!("pending"), &json!(null), &json!(null))
    );
    let report = service.ended(&asked).await;
    assert_eq!((&report["status"], &report["delimiter"]), (&json!("ready"), &json!(";")), "{report}");
    let file = service.file(&report).await;
    assert!(file.starts_with('\u{feff}'));
    let rows = cells(&file, ';');
    let movements = service.movements("?limit=100").await;
    let [header, opening, lines @ .., closing] = rows.as_slice() else { panic!("{file}") };
    assert_eq!((header.len(), header[10].as_str()), (12, "Saldo"));
    assert_eq!((report["rows"].as_u64().unwrap(), lines.len()), (4, movements.len()));
    assert_eq!((opening[1].as_str(), opening[10].as_str()), ("Saldo inicial", "0,00"));
    let mut balance = 0;
    for line in lines {
        balance += centavos(&line[9]);
        assert_eq!(balance, centavos(&line[10]), "{line:?}");
    }
    assert_eq!((balance, centavos(&closing[10])), (service.money().await, balance));
    // Texts are quoted and no formulas, and numbers are not; documents are masked, names are not.
    for expected in [
        "\"'=HYPERLINK(\"\"x\"\")\"",
        "\"'+1002\"",
        ";\"Ana \"\"Bia\"\" Souza ***.982.247-**\";25,50;0,26;25,24;",
        "\"  '-cmd\"",
        ";-1,00;0,00;-1,00;",
    ] {
        assert!(file.contains(expected), "{expected}\n{file}");
    }
    let paid = lines.iter().find(|line| line[2] == "1001").unwrap();
    assert_eq!((paid[1].as_str(), paid[3].as_str(), paid[5].as_str()), ("Pagamento", id(&sold), "Pix"));
    assert!(paid[4].starts_with("E00000000"), "{paid:?}");
    let hook = listener.wait_for_event("report.ready").await.json();
    let object = &hook["data"]["object"];
    assert_eq!((&object["id"], &object["url"]), (&report["id"], &json!(null)));

    // A repeated request finds the report; the key of another request is refused.
    let replayed = service.ask("report-0001", &body).await;
    assert_eq!(replayed.header("idempotent-replayed"), Some("true"));
    assert_eq!(replayed.expect(202)["id"], report["id"]);
    let other = service.ask("report-0001", &service.of_today("fees", "csv")).await;
    assert_eq!(other.problem(), (409, "conflict_error", "idempotency_key_reused"));
    let list = service.get("/v1/reports").await.expect(200);
    assert_eq!((list["data"].as_array().unwrap().len(), &list["data"][0]["id"]), (1, &report["id"]));
    // Neither the other mode nor another account sees it.
    for client in [service.live_client(), service.other_account()] {
        assert_eq!(client.get(&path(&report)).await.problem(), (404, "not_found_error", "not_found"));
        assert_eq!(client.delete(&path(&report)).await.status, 404);
    }
    assert_eq!(service.delete(&path(&report)).await.expect(200), json!({"deleted": true}));
    assert_eq!(service.get(&path(&report)).await.status, 404);
    let gone = service.raw(Method::GET, report["url"].as_str().unwrap(), &[], "").await;
    assert_eq!(gone.status, 404);
}

#[tokio::test]
async fn each_type_and_format_lists_what_it_names() {
    let service = Service::start().await;
    service.set_terms(MethodTerms { platform_fee: Fee::new(10, 0).unwrap(), ..MethodTerms::default() }).await;
    let sold = service.sale(1_000, "1", "Ana").await;
    service.new_charge(&json!({"amount": 2_000, "metadata": {"order_id": "2"}})).await;
    service.refund(&sold, "refund-0001", json!({"amount": 400})).await.expect(201);
    let disputed = service.sale(3_000, "3", "Caio & <Lia>").await;
    let case = service.open_case(&disputed, json!({"reason": "não reconheço"})).await;
    let now = service.stack.clock.now();
    let (payout, money) = (PayoutId::new(now, [7; 10]), (Amount::parse(100).unwrap(), Currency::BRL));
    Payouts::new(service.store())
        .create((payout, &payout.into()), service.scope(), money, &operator(), now)
        .await
        .unwrap();
    let names = |file: &str| {
        let value: Value = serde_json::from_str(file).unwrap();
        let rows = value["data"].as_array().unwrap();
        let names: Vec<String> =
            rows.iter().map(|row| format!("{} {} {}", row["type"], row["order_id"], row["gross"])).collect();
        names.join(", ").replace('"', "")
    };
    for (kind, expected) in [
        ("payments", "paid 1 1000, pending 2 2000, disputed 3 3000"),
        ("refunds", "REFUNDED 1 -400"),
        ("med_cases", "open 3 3000"),
        ("payouts", "pending null 100"),
        ("fees", "settlement 1 1000, refund 1 -400, settlement 3 3000"),
    ] {
        let found = eventually(kind, async || {
            let (report, file) = service.report(&service.of_today(kind, "json")).await;
            let found = names(&file);
            assert_eq!(report["rows"], json!(found.split(", ").count()));
            (found == expected || kind != "refunds").then_some(found)
        })
        .await;
        assert_eq!(found, expected, "{kind}");
    }
    let mut by_paid = service.of_today("payments", "json");
    by_paid["by"] = json!("paid");
    let sums = |file: &str, names: &[&str]| {
        let value: Value = serde_json::from_str(file).unwrap();
        let sums = |row: &Value| names.iter().map(|name| row[*name].as_i64().unwrap()).collect::<Vec<_>>();
        value["data"].as_array().unwrap().iter().map(sums).collect::<Vec<_>>()
    };
    let payments = service.report(&by_paid).await.1;
    assert_eq!(names(&payments), "paid 1 1000, disputed 3 3000");
    let columns = ["gross", "fee", "refunded", "dispute_lost", "net"];
    let kept = sums(&payments, &columns);
    assert_eq!(
        kept,
        [[1_000, 6, 400, 0, 594], [3_000, 10, 0, 0, 2_990]],
        "a dispute that is open took nothing"
    );
    assert_eq!(sums(&service.report(&service.of_today("med_cases", "json")).await.1, &["net"]), [[0]]);

    let (report, ofx) = service.report_bytes(&service.of_today("statement", "ofx")).await;
    let ofx: String = ofx.iter().map(|byte| char::from(*byte)).collect();
    assert!(ofx.starts_with("OFXHEADER:100\r\nDATA:OFXSGML\r\nVERSION:102\r\n"), "{ofx}");
    assert!(ofx.contains("<MEMO>Pagamento - pedido 3 - Caio &amp; &lt;Lia&gt;</STMTTRN>"), "{ofx}");
    assert!(ofx.contains("Devolução"), "it is in Windows-1252: {ofx}");
    let money = service.money().await;
    assert!(ofx.contains(&format!("<BALAMT>{}.{:02}<", money / 100, money % 100)), "{money} {ofx}");
    // The dispute retains money, which stays the merchant's.
    assert_eq!((report["rows"].as_u64(), ofx.matches("<FITID>mv_").count()), (Some(5), 4));
    for (format, magic) in [("xlsx", b"PK\x03\x04"), ("pdf", b"%PDF")] {
        let (_, file) = service.report_bytes(&service.of_today("statement", format)).await;
        assert!(file.starts_with(magic), "{format}");
        let text: String = file.iter().map(|byte| char::from(*byte)).collect();
        // A line that has other than ASCII is in hexadecimal digits.
        let totals = "bruto R$ 36,00, tarifas R$ 0,16".bytes().map(|byte| format!("{byte:02X}"));
        let totals = totals.collect::<Vec<_>>().concat();
        let sales = format == "xlsx" || text.contains(&totals);
        assert!(sales, "what a dispute holds is no negative sale: {text}");
    }
    // What a refund returned and a dispute took is neither a part of the sale's net nor of the statement's.
    service.decide_case(&case, "payer").await.expect(200);
    let payments = service.report(&by_paid).await.1;
    let kept = sums(&payments, &columns);
    assert_eq!(kept, [[1_000, 6, 400, 0, 594], [3_000, 10, 0, 3_000, -10]]);
    let cases = service.report(&service.of_today("med_cases", "json")).await.1;
    assert_eq!(sums(&cases, &["net"]), [[-3_000]]);
    by_paid["format"] = json!("csv");
    let (_, file) = service.report(&by_paid).await;
    let rows = cells(&file, ',');
    assert_eq!(rows[0][7..12], ["gross", "fee", "refunded", "dispute_lost", "net"]);
    assert_eq!(rows[2][7..12], ["30.00", "0.10", "0.00", "30.00", "-0.10"]);
    // All movements but the payout of 1,00.
    let (_, statement) = service.report(&service.of_today("statement", "csv")).await;
    let rest = cells(&statement, ',').last().unwrap()[10].replace('.', "");
    assert_eq!(kept.iter().map(|row| row[4]).sum::<i64>() - 100, rest.parse::<i64>().unwrap());

    for (kind, format, currency, param) in [
        ("payments", "ofx", "BRL", "format"),
        ("fees", "pdf", "BRL", "format"),
        ("statement", "ofx", "EUR", "currency"),
    ] {
        let mut body = service.of_today(kind, format);
        body["currency"] = json!(currency);
        let refused = service.ask("report-9999", &body).await;
        let found = &refused.body["error"]["param"];
        assert_eq!((refused.status.as_u16(), found), (422, &json!(param)), "{refused:?}");
    }
}

impl Client {
    async fn report_bytes(&self, body: &Value) -> (Value, Vec<u8>) {
        let report = self.ask(&uuid::Uuid::new_v4().to_string(), body).await.expect(202);
        let report = self.ended(&report).await;
        assert_eq!(report["status"], "ready", "{report}");
        let answer = self.raw(Method::GET, report["url"].as_str().unwrap(), &[], "").await;
        (report, answer.bytes.to_vec())
    }
}

#[tokio::test]
async fn a_scope_has_two_reports_in_progress_and_fifty_a_day() {
    let service = Service::without_event_sources().await;
    let body = service.of_today("fees", "csv");
    let first = service.ask("report-0001", &body).await.expect(202);
    service.ask("report-0002", &body).await.expect(202);
    let refused = service.ask("report-0003", &body).await;
    assert_eq!(refused.problem(), (429, "rate_limit_error", "rate_limited"));
    assert_eq!(refused.header("retry-after"), Some("30"));
    // A replay, the other mode and another account are not refused.
    service.ask("report-0001", &body).await.expect(202);
    service.live_client().ask("report-0003", &body).await.expect(202);
    service.other_account().ask("report-0003", &body).await.expect(202);
    // One that ends makes room, and so does one that is deleted.
    service.delete(&path(&first)).await.expect(200);
    service.ask("report-0003", &body).await.expect(202);
    dispatch(&service.stack).await;
    service.run_worker().await;
    let limits = format!("report-limits#{}", service.scope());
    assert_eq!(service.rows(&limits, "running").await[0]["n"], number(0));
    service.set_attributes(&limits, &service.today(), &[("n", number(49))]).await;
    service.ask("report-0050", &body).await.expect(202);
    assert_eq!(service.ask("report-0051", &body).await.status, 429);
    service.advance_seconds(24 * 60 * 60).await;
    service.ask("report-0051", &body).await.expect(202);
}

#[tokio::test]
async fn a_report_is_made_although_its_message_or_its_worker_is_lost() {
    let service = Service::without_event_sources().await;
    service.sale(1_000, "1", "Ana").await;
    let body = service.of_today("statement", "csv");
    let asked = service.ask("report-0001", &body).await.expect(202);
    dispatch(&service.stack).await;
    assert_eq!(service.take_messages("ReportQueue").await.len(), 1, "the message that is lost");
    service.run_scheduler().await;
    assert_eq!(service.take_messages("ReportQueue").await.len(), 0, "it is not due yet");
    service.advance_seconds(121).await;
    service.run_scheduler().await;
    // A worker claims it and dies. Until its lease ends, no other worker makes the file.
    let ReportClaim::Claimed(claimed) =
        service.stored_report(&asked).await.claimed(service.stack.clock.now())
    else {
        panic!("not claimed")
    };
    assert!(Reports::new(service.store()).claim(&claimed).await.unwrap());
    assert_eq!(service.run_worker().await, 1);
    assert_eq!(service.get(&path(&asked)).await.expect(200)["status"], "pending");
    service.advance_seconds(15 * 60).await;
    service.run_scheduler().await;
    assert_eq!(service.run_worker().await, 0);
    service.advance_seconds(61).await;
    service.run_scheduler().await;
    assert_eq!(service.run_worker().await, 1);
    let report = service.get(&path(&asked)).await.expect(200);
    assert_eq!((&report["status"], &report["rows"]), (&json!("ready"), &json!(1)), "{report}");
    assert!(report["url"].as_str().unwrap().contains(&format!("{}/2?", id(&asked))), "{report}");
    let late = Reports::new(service.store()).end(&claimed.ready(7, service.stack.clock.now())).await.unwrap();
    assert!(!late, "a worker whose lease has ended changes nothing");
}

#[tokio::test]
async fn a_statement_that_does_not_add_up_fails_and_is_logged_as_an_error() {
    let service = Service::without_event_sources().await;
    service.sale(1_000, "1", "Ana").await;
    let counters = format!("wallet#{}", service.scope());
    let row = service.rows(&counters, "BRL#shard#").await.remove(0);
    let sort = row["sk"].as_s().unwrap().clone();
    service.set_attributes(&counters, &sort, &[("cr_merchant_available", number(999))]).await;
    let asked = service.ask("report-0001", &service.of_today("statement", "csv")).await.expect(202);
    dispatch(&service.stack).await;
    // A posting may be written a minute after its time, so the first mismatches count for nothing.
    for _ in 0..2 {
        assert_eq!(service.run_worker().await, 1);
        assert_eq!(service.get(&path(&asked)).await.expect(200)["status"], "pending");
        service.advance_seconds(121).await;
    }
    assert!(service.run_worker().await >= 1);
    let failed = service.get(&path(&asked)).await.expect(200);
    assert_eq!(
        (&failed["status"], &failed["failure"], &failed["url"]),
        (&json!("failed"), &json!("balance_mismatch"), &json!(null))
    );
    let limits = format!("report-limits#{}", service.scope());
    assert_eq!(service.rows(&limits, "running").await[0]["n"], number(0));
}

#[tokio::test]
async fn the_balance_of_a_months_end_is_stored_and_used() {
    const DAY: i64 = 24 * 60 * 60;
    let service = Service::start().await;
    service.adjust(500, "first month").await;
    let first = Day::of(service.stack.clock.now());
    service.advance_seconds(64 * DAY).await;
    service.adjust(250, "third month").await;
    let mut body = service.of_today("statement", "json");
    let opening = async |body: &Value| {
        let (_, file) = service.report(body).await;
        let file: Value = serde_json::from_str(&file).unwrap();
        let lines = file["data"].as_array().unwrap();
        let [opening, .., closing] = lines.as_slice() else { panic!("{file}") };
        assert_eq!(
            (&opening["type"], &closing["type"]),
            (&json!("opening_balance"), &json!("closing_balance"))
        );
        (opening["balance"].as_i64().unwrap(), closing["balance"].as_i64().unwrap())
    };
    assert_eq!(opening(&body).await, (500, 750));
    let stored = service.rows(&MonthEnd::partition(&service.scope()), "BRL#").await;
    let days: Vec<&str> = stored.iter().map(|row| row["before"].as_s().unwrap().as_str()).collect();
    assert_eq!(days[0], first.next_month().to_string());
    assert!(days.len() >= 2 && stored.iter().all(|row| row["balance"] == number(500)), "{stored:?}");
    // A month before is compared with the stored balance after it.
    body["from"] = json!(first.month_start().to_string());
    body["to"] = json!(first.to_string());
    assert_eq!(opening(&body).await, (0, 500));
    // The opening balance is that of the newest month end, and not summed again.
    let newest = stored.last().unwrap();
    let (pk, sk) = (newest["pk"].as_s().unwrap(), newest["sk"].as_s().unwrap());
    service.set_attributes(pk, sk, &[("balance", number(501))]).await;
    let wrong = service.ask("report-0009", &service.of_today("statement", "json")).await.expect(202);
    eventually("the mismatch is seen", async || {
        let stored = service.stored_report(&wrong).await;
        (stored.attempts >= 1 && stored.version >= 3).then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_movements_of_all_shards_are_in_order() {
    let service = Service::start().await;
    service.raise_shards(ShardCount::try_from(4).unwrap()).await;
    for number in 0..12_i64 {
        service.sale(1_000 + number, &number.to_string(), "Ana").await;
    }
    let (report, file) = service.report(&service.of_today("statement", "csv")).await;
    assert_eq!(report["rows"], json!(12));
    let rows = cells(&file, ',');
    let orders: Vec<&str> = rows.iter().map(|row| row[2].as_str()).filter(|order| order.len() < 3).collect();
    let orders: Vec<&str> = orders.into_iter().filter(|order| !order.is_empty()).collect();
    assert_eq!(orders, (0..12).map(|number| number.to_string()).collect::<Vec<_>>());
    assert_eq!(rows.last().unwrap()[10].replace('.', "").parse(), Ok(service.money().await));
}

#[tokio::test]
async fn a_schedule_makes_the_months_file_by_six_and_mails_its_link() {
    const HOUR: i64 = 60 * 60;
    let mails = MailDirectory::new();
    let service = Service::start_with(mails.options()).await;
    let email = service.stack.ready().await.unwrap().pointer("/dashboard/email").unwrap().clone();
    let body = json!({"interval": "monthly", "type": "statement", "format": "ofx", "email": email});
    let post = async |body: &Value| service.post("/v1/reports/schedules", body).await;
    let schedule = post(&body).await.expect(201);
    let next = Day::of(service.stack.clock.now()).next_month();
    assert_eq!(schedule["next_on"], next.to_string());
    let stranger =
        post(&json!({"interval": "daily", "type": "fees", "format": "csv", "email": "x@y.example"})).await;
    assert_eq!((stranger.status.as_u16(), &stranger.body["error"]["param"]), (422, &json!("email")));
    service.sale(1_000, "1", "Ana").await;
    // 06:00 in São Paulo on the first day of the next month.
    let now = service.stack.clock.now();
    service.advance_seconds(next.starts_at().seconds() - now.seconds() + 6 * HOUR).await;
    let report = eventually("the report of the month", async || {
        let list = service.get("/v1/reports").await.expect(200);
        let found = list["data"][0].clone();
        (found["status"] == "ready").then_some(found)
    })
    .await;
    assert_eq!(report["schedule_id"], schedule["id"]);
    assert_eq!(report["to"], next.minus_days(1).to_string());
    assert_eq!(report["from"], next.minus_days(1).month_start().to_string());
    let mail = mails.received(1).await.remove(0);
    assert_eq!(json!(mail.to), email);
    assert!(mail.text.contains("/dashboard/reports\n"), "{mail:?}");

    let daily = json!({"interval": "daily", "type": "fees", "format": "csv"});
    for _ in 0..4 {
        post(&daily).await.expect(201);
    }
    assert_eq!(post(&daily).await.status, 422, "five an account");
    assert_eq!(service.live_client().post("/v1/reports/schedules", &daily).await.status, 422);
    let path = format!("/v1/reports/schedules/{}", id(&schedule));
    assert_eq!(service.delete(&path).await.expect(200), json!({"deleted": true}));
    assert_eq!(service.delete(&path).await.status, 404);
    assert_eq!(service.get("/v1/reports/schedules").await.expect(200)["data"].as_array().unwrap().len(), 4);
    post(&daily).await.expect(201);
}

#[tokio::test]
async fn a_member_asks_for_a_report_and_downloads_it_at_the_dashboard() {
    let service = Service::start().await;
    service.sale(1_000, "1", "Ana").await;
    let browser = Browser::member(&service).await;
    let page = "/dashboard/reports";
    let form = browser.page(page).await.press("Pedir", &[]);
    // A form that is sent twice asks once.
    for _ in 0..2 {
        assert_eq!(crate::dashboard::location(&browser.send(&form).await), format!("{page}?done"));
    }
    let report = eventually("the report is ready", async || {
        let list = service.get("/v1/reports").await.expect(200);
        assert_eq!(list["data"].as_array().unwrap().len(), 1);
        (list["data"][0]["status"] == "ready").then(|| list["data"][0].clone())
    })
    .await;
    assert_eq!((&report["type"], &report["locale"]), (&json!("statement"), &json!("pt-BR")));
    let shown = browser.page(page).await;
    assert!(shown.contains("Pronto") && shown.contains("Extrato"), "{shown}");
    let answer = browser.answer(&format!("{page}/{}/file", id(&report)), &[]).await;
    let file = service.raw(Method::GET, crate::dashboard::location(&answer), &[], "").await;
    assert_eq!(file.status, 200);
    assert!(file.header("content-disposition").unwrap().contains("statement-"), "{file:?}");
    for _ in 0..5 {
        assert_eq!(browser.submit(page, "Agendar", &[]).await, format!("{page}?done"));
    }
    let sixth = browser.submit(page, "Agendar", &[]).await;
    assert_eq!(sixth, format!("{page}?error=unprocessable_entity"));
    assert!(browser.page(page).await.contains("Todo dia"));
    browser.submit(page, "Remover", &[]).await;
    assert_eq!(service.get(&path(&report)).await.status, 404);
}

#[tokio::test]
async fn a_period_with_more_charges_than_lines_of_the_format_is_refused_at_once() {
    let service = Service::start().await;
    let yesterday = Day::of(service.stack.clock.now()).minus_days(1);
    let key = domain::rollup::day_key(&service.scope(), yesterday, Currency::BRL);
    let counts = [("in", number(20_001)), ("made", number(1_000_001))];
    service.set_attributes(&key.pk, &key.sk, &counts).await;
    let yesterday = yesterday.to_string();
    for (kind, format, by, status) in [
        ("statement", "pdf", "created", 422),
        ("statement", "xlsx", "created", 202),
        ("payments", "xlsx", "created", 422),
        ("payments", "xlsx", "paid", 202),
    ] {
        let mut body = json!({"type": kind, "format": format, "from": yesterday, "to": yesterday});
        if kind == "payments" {
            body["by"] = json!(by);
        }
        let answer = service.ask(&format!("{kind}-{format}-{by}"), &body).await;
        assert_eq!(answer.status, status, "{answer:?}");
        if status == 422 {
            assert_eq!(answer.body["error"]["param"], "format", "{answer:?}");
            // Another day has no such number.
            body["from"] = json!(service.today());
            body["to"] = json!(service.today());
            service.ask(&format!("{kind}-{format}-today"), &body).await.expect(202);
            eventually("no report runs", async || {
                let all = service.list("/v1/reports").await;
                all.iter().all(|report| report["status"] != "pending").then_some(())
            })
            .await;
        }
    }
}

#[tokio::test]
async fn the_list_of_charges_leads_to_a_file_with_all_sales_of_its_days() {
    let service = Service::without_event_sources().await;
    let charge = service.stored_charge(id(&service.charge().await).parse().unwrap()).await;
    seed(&service.dynamodb(), &charge, 1_066, 1, &[]).await;
    let browser = Browser::member(&service).await;
    let (from, to) = (Day::of(charge.created_at).minus_days(1), service.today());
    let list = format!("/dashboard/charges?created_after={from}&created_before={to}&status=paid");
    let link = browser.page(&list).await.get(Role::Link, "Exportar").target().to_owned();
    let form = browser.page(&link).await.press("Pedir", &[]);
    browser.send(&form).await;
    dispatch(&service.stack).await;
    service.run_worker().await;
    let list = service.get("/v1/reports").await.expect(200);
    let report = service.get(&path(&list["data"][0])).await.expect(200);
    let asked = json!([report["type"], report["format"], report["from"], report["to"], report["currency"]]);
    assert_eq!(asked, json!(["payments", "csv", from.to_string(), to, "BRL"]));
    assert_eq!((&report["status"], &report["rows"]), (&json!("ready"), &json!(1_067)));
    assert_eq!(cells(&service.file(&report).await, ';').len(), 1_068);
    let link =
        browser.page("/dashboard/wallet?currency=USD").await.get(Role::Link, "Exportar").target().to_owned();
    let fields = browser.page(&link).await.press("Pedir", &[]).fields;
    for (name, value) in [("type", "statement"), ("currency", "USD"), ("to", &*to)] {
        assert!(fields.contains(&(name.to_owned(), value.to_owned())), "{name}: {fields:?}");
    }
}

/// `REPORT_POSTINGS=1000000 cargo test -p service --release a_million_postings -- --ignored --nocapture` prints the time
/// and the memory of the worker's process. The embedded database runs on the same machine.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "to insert a million postings takes minutes"]
async fn a_million_postings_are_reported_in_little_memory() {
    let count: u32 = std::env::var("REPORT_POSTINGS").map_or(20_000, |text| text.parse().unwrap());
    let service = Service::by_machine_clock().await;
    let sold = service.sale(1_000, "1001", "Ana Souza").await;
    let (scope, store) = (service.scope(), service.store());
    let charge = store.get_item(&Charge::key_of(id(&sold).parse().unwrap())).await.unwrap().unwrap();
    let posting = service.rows(&format!("ledger#{scope}"), "wallet#BRL#").await.remove(0);
    let start = Day::of(service.stack.clock.now()).starts_at();
    let text = |text: String| AttributeValue::S(text);
    let rows = (1..=count).flat_map(|number| {
        let at = start.plus_millis(i64::from(number)).unwrap();
        let of = ChargeId::derive(b"trial", Mode::Test, "charges", &number.to_string());
        let mut charge = charge.clone();
        charge.retain(|name, _| !["_pk", "_sk"].iter().any(|end| name.ends_with(end)));
        charge.insert("pk".to_owned(), text(Charge::key_of(of).pk));
        charge.insert("id".to_owned(), text(of.to_string()));
        let moved = PostingId::derive(at, "trial", u64::from(number));
        let mut posting = posting.clone();
        posting.insert("sk".to_owned(), text(format!("wallet#BRL#{moved}")));
        posting.insert("id".to_owned(), text(moved.to_string()));
        posting.insert("charge".to_owned(), text(of.to_string()));
        [charge, posting]
    });
    let (client, mut batch) = (service.dynamodb(), Vec::new());
    let write = async |batch: Vec<Item>| {
        let put = |item| {
            let put = PutRequest::builder().set_item(Some(item)).build().unwrap();
            WriteRequest::builder().put_request(put).build()
        };
        let requests = batch.into_iter().map(put).collect();
        client.batch_write_item().request_items("StateTable", requests).send().await.unwrap();
    };
    for row in rows {
        batch.push(row);
        if batch.len() == 24 {
            write(std::mem::take(&mut batch)).await;
        }
    }
    if !batch.is_empty() {
        write(batch).await;
    }
    let counters = format!("wallet#{scope}");
    let counter = service.rows(&counters, "BRL#shard#").await.remove(0);
    let is_sum = |name: &str| name.starts_with("cr_") || name.starts_with("dr_");
    let of_all =
        |value: &AttributeValue| value.as_n().unwrap().parse::<i64>().unwrap() * (i64::from(count) + 1);
    let sums = counter.iter().filter(|(name, _)| is_sum(name));
    let sums: Vec<_> = sums.map(|(name, value)| (name.as_str(), number(of_all(value)))).collect();
    service.set_attributes(&counters, counter["sk"].as_s().unwrap(), &sums).await;
    let begun = std::time::Instant::now();
    assert_eq!(service.check_ledger().await.postings, u64::from(count) + 1);
    println!("the ledger was verified in {:.1?}", begun.elapsed());

    let variables = service.stack.environment_file("127.0.0.1", "").unwrap()["ReportsWorkerFunction"].clone();
    let binary = std::env::var("REPORTS_WORKER").map(std::path::PathBuf::from);
    let binary = match binary {
        Ok(binary) => binary,
        Err(_) => crate::support::programs(&["reports-worker"]).await.join("reports-worker"),
    };
    for format in ["csv", "xlsx", "ofx"] {
        let body = service.of_today("statement", format);
        let asked = service.ask(&format!("trial-{format}"), &body).await.expect(202);
        let worker = LambdaProcess::start(&binary, &variables).await;
        let message = json!({"scope": scope, "report": asked["id"]}).to_string();
        let record = json!({"messageId": "m", "body": message, "eventSource": "aws:sqs"});
        let begun = std::time::Instant::now();
        let answer = worker.send(json!({ "Records": [record] })).await;
        let (took, peak) = (begun.elapsed(), worker.peak_kib());
        assert_eq!(answer.unwrap()["batchItemFailures"], json!([]), "{:?}", worker.lines());
        let report = service.get(&path(&asked)).await.expect(200);
        assert_eq!((&report["status"], &report["rows"]), (&json!("ready"), &json!(count + 1)), "{report}");
        println!("{format}: {} lines, {took:.1?}, at most {} MiB", count + 1, peak / 1024);
        if let Ok(directory) = std::env::var("REPORT_FILES") {
            let file = service.raw(Method::GET, report["url"].as_str().unwrap(), &[], "").await;
            let name = std::path::Path::new(&directory).join(format!("statement.{format}"));
            std::fs::write(name, &file.bytes).unwrap();
        }
    }
}
