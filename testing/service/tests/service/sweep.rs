//! Tests of the sweep of a bank connection through the whole service. In each of them the notification is
//! lost, so only the sweep can find the Pix or the devolução.

use std::collections::{BTreeSet, HashMap};

use bank::{Cents, FaultKind, PayRequest, Profile, ReportedTxid};
use domain::acquirer::ConnectionSweep;
use domain::ids::ConnectionId;
use domain::time::Timestamp;
use local::stack::Options;
use money::charge::Charges;
use serde_json::{Value, json};

use crate::bank_books::Fates;
use crate::bank_proxy::BankProxy;
use crate::invocations::run_acquirer_worker_with;
use crate::live_charges::Live;
use crate::support::{CapturedLog, Service, eventually, operator, wait_until};

const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;

/// Starts a service whose bank is behind a proxy.
async fn start_with_proxy(max_period_seconds: Option<u32>) -> (Live, BankProxy) {
    let live = Live::start().await;
    let proxy = BankProxy::start(&live.service, |settings| {
        let pix = settings.pix_mut().unwrap();
        pix.max_period_seconds = max_period_seconds.unwrap_or(pix.max_period_seconds);
    })
    .await;
    // The functions cache the former settings for a minute.
    live.service.advance_seconds(61).await;
    live.wait_for_first_sweep().await;
    (live, proxy)
}

/// Returns the numbers of the requested pages.
fn pages(lists: &[HashMap<String, String>]) -> Vec<String> {
    lists.iter().map(|list| list["paginacao.paginaAtual"].clone()).collect()
}

#[tokio::test]
async fn a_pix_that_appears_30_minutes_late_is_found_and_one_hours_late_by_the_daily_sweep() {
    for (minutes_late, sweeps, last) in [(30, [10 * 60, 10 * 60], 15 * 60), (130, [125 * 60, 15 * 60], DAY)] {
        let live = Live::start().await;
        let charge = live.create("order-00001", &json!({"amount": 1000, "expires_in": 2 * DAY})).await;
        let visible_after_ms = minutes_late * 60_000;
        live.pay_unnoticed(&charge, PayRequest { visible_after_ms, ..PayRequest::default() });
        let paid_at = live.service.stack.clock.now();
        for seconds in sweeps {
            live.sweep_after(seconds).await;
        }
        assert!(live.sweep_row().await.watermark > paid_at.plus_seconds(15 * 60).unwrap());
        assert_eq!(live.client.get_charge(&charge).await["status"], "pending");
        live.sweep_after(last).await;
        live.wait_for_status(&charge, "paid").await;
        assert_eq!(live.check_books().await, Fates::credited(1));
    }
}

/// Without event sources, because they would read the rows of all these payments too.
#[tokio::test]
async fn all_of_2500_pix_in_one_window_are_recorded_once() {
    const PAID_CHARGES: usize = 20;
    let service = Service::without_event_sources().await;
    let live = Live::of(service);
    let proxy = BankProxy::start(&live.service, |_settings| {}).await;
    let mut charges = Vec::new();
    for order in 0..PAID_CHARGES {
        charges.push(live.create(&format!("order-{order:05}"), &json!({"amount": 1000})).await);
    }
    for charge in &charges {
        live.pay_unnoticed(charge, PayRequest::default());
    }
    for _ in PAID_CHARGES..2_500 {
        let amount = Cents::new(7);
        let request = PayRequest { reported_txid: ReportedTxid::Missing, amount, ..PayRequest::default() };
        live.pay(&charges[0], request);
    }
    // The second sweep lists the same Pix again, and changes nothing.
    for _ in 0..2 {
        proxy.take_requests();
        live.service.advance_seconds(301).await;
        let message = json!({ "sweep": live.sweep_row().await.connection });
        run_acquirer_worker_with(&live.service.stack, &message).await;
        assert_eq!(pages(&proxy.take_lists()), ["0", "1", "2"]);
        assert_eq!(live.balance().await, 20_000);
    }
    for charge in &charges {
        assert_eq!(live.client.get_charge(charge).await["status"], "paid");
    }
    let unapplied = 2_500 - PAID_CHARGES;
    let expected = Fates { credited: PAID_CHARGES, unapplied, ..Fates::default() };
    assert_eq!(live.check_books().await, expected);
}

/// Lists five Pix in pages of two while the list changes. Returns the requested pages of the sweep.
async fn sweep_while_the_list_changes(
    edit: impl Fn(usize, &mut Vec<Value>) + Send + Sync + 'static,
) -> Vec<String> {
    let (live, proxy) = start_with_proxy(None).await;
    let mut charges = Vec::new();
    for order in 0..5 {
        let charge = live.create(&format!("order-{order:05}"), &json!({"amount": 1000})).await;
        live.pay_unnoticed(&charge, PayRequest::default());
        charges.push(charge);
        // The bank sorts the list by time.
        live.service.stack.clock.advance(1_000);
    }
    proxy.edit_list(2, edit);
    proxy.take_requests();
    live.sweep_after(301).await;
    let lists = proxy.take_lists();
    let periods: BTreeSet<(&String, &String)> =
        lists.iter().map(|list| (&list["inicio"], &list["fim"])).collect();
    assert_eq!(periods.len(), 1, "one sweep found them: {periods:?}");
    for charge in &charges {
        assert_eq!(live.client.get_charge(charge).await["status"], "paid");
    }
    assert_eq!(live.balance().await, 5_000);
    assert_eq!(live.check_books().await, Fates::credited(5));
    pages(&lists)
}

#[tokio::test]
async fn a_pix_that_the_list_shifts_to_a_page_that_was_read_is_found() {
    // Either the first Pix appears late, or it disappears for a while, so that the third one is on neither page.
    for (incomplete, read) in [(0, &["0", "1", "2", "0", "1", "2"][..]), (1, &["0", "1", "0", "1", "2"])] {
        let edit = move |request, items: &mut Vec<Value>| {
            if request == incomplete {
                items.remove(0);
            }
        };
        assert_eq!(Box::pin(sweep_while_the_list_changes(edit)).await, read);
    }
}

#[tokio::test]
async fn a_sweep_resumes_at_its_watermark_after_the_bank_was_away_for_a_day() {
    const LONGEST: i64 = 6 * HOUR;
    let (live, proxy) = start_with_proxy(Some(u32::try_from(LONGEST).unwrap())).await;
    live.sweep_after(3 * HOUR).await;
    let mut charges = Vec::new();
    for order in 0..4 {
        let body = json!({"amount": 1000, "expires_in": 2 * DAY});
        charges.push(live.create(&format!("order-{order:05}"), &body).await);
    }
    proxy.set_away(true);
    let before = live.sweep_row().await;
    for charge in &charges {
        live.pay_unnoticed(charge, PayRequest::default());
        let version = live.sweep_row().await.version;
        live.service.advance_seconds(DAY / 4).await;
        wait_until("a sweep fails", async || {
            let row = live.sweep_row().await;
            row.version > version && row.failing_since.is_some()
        })
        .await;
        assert_eq!(live.client.get_charge(charge).await["status"], "pending");
    }
    assert_eq!(live.sweep_row().await.watermark, before.watermark);

    proxy.take_requests();
    proxy.set_away(false);
    live.sweep_after(301).await;
    assert_eq!(live.sweep_row().await.failing_since, None);
    let lists = proxy.take_lists();
    let time = |text: &String| Timestamp::parse_floor(text).unwrap();
    let periods: Vec<(Timestamp, Timestamp)> = lists
        .iter()
        .filter(|list| !list.contains_key("devolucaoPresente"))
        .map(|list| (time(&list["inicio"]), time(&list["fim"])))
        .collect();
    // After the periods of the watermark, the list of the last days is read again.
    let late =
        periods.windows(2).position(|pair| pair[1].0 < pair[0].1).map_or(periods.len(), |last| last + 1);
    let periods = &periods[..late];
    assert_eq!(periods[0].0, before.watermark.plus_seconds(-2 * HOUR).unwrap());
    assert!(periods.windows(2).all(|pair| pair[0].1 == pair[1].0), "{periods:?}");
    let mut all_lengths = lists.iter().map(|list| time(&list["fim"]).millis_since(time(&list["inicio"])));
    assert!(all_lengths.all(|length| length <= LONGEST * 1_000), "{lists:?}");
    for charge in &charges {
        assert_eq!(live.client.get_charge(charge).await["status"], "paid");
    }
    assert_eq!(live.balance().await, 4_000);
    assert_eq!(live.check_books().await, Fates::credited(4));
}

/// The bank of this profile lists at most five days at once.
#[tokio::test]
async fn a_devolucao_in_the_last_hour_of_90_days_is_found() {
    let live =
        Live::start_with(Options { bank_profile: Some(Profile::AppKey), ..Options::in_memory() }).await;
    let charge = live.paid("order-00001").await;
    live.sweep_after(90 * DAY - HOUR).await;
    live.fault(FaultKind::LostNotification, 1);
    let end_to_end_id = charge["settlement"]["end_to_end_id"].as_str().unwrap();
    live.return_at_bank(end_to_end_id, "4.00").await;
    live.sweep_after(600).await;
    assert_eq!(live.balance().await, 1000, "only the daily sweep reads Pix as old as this");
    live.sweep_after(DAY).await;
    let refund = live.wait_for_refund(&charge, "REFUNDED").await;
    assert_eq!(refund["amount"], 400);
    assert_eq!(live.balance().await, 600);
    assert_eq!(live.check_books().await, Fates::credited(1));
    live.sweep_after(DAY).await;
    assert_eq!(live.balance().await, 600);
    let reported = live.service.reported_pix(end_to_end_id).await.unwrap();
    assert_eq!(reported.returns.len(), 1, "no sweep processes the devolução again");
}

/// Lets time pass until another sweep of this connection fails.
async fn let_a_sweep_fail(live: &Live, connection: ConnectionId, seconds: i64) -> ConnectionSweep {
    let key = ConnectionSweep::key_of(connection);
    let row = async || live.service.store().get::<ConnectionSweep>(&key).await.unwrap().unwrap();
    live.service.advance_seconds(seconds).await;
    // The scheduler moves the row on by five minutes, a sweep that fails by one.
    let is_next = |row: &ConnectionSweep| {
        (1..=60_000).contains(&row.next_at.millis_since(live.service.stack.clock.now()))
    };
    eventually("a sweep fails", async || {
        Some(row().await).filter(|row| row.accounts.is_empty() || is_next(row))
    })
    .await
}

#[tokio::test]
async fn a_bank_that_is_away_is_reported_once_and_that_of_a_removed_connection_is_given_up_after_a_week() {
    let (live, proxy) = start_with_proxy(None).await;
    let log = CapturedLog::start();
    let acquirer = live.service.bank().await;
    let (account, connection) = (acquirer.acquirer.account, acquirer.acquirer.connection);
    let charges = Charges::new(live.service.store());
    let scope = live.service.sharded(&live.scope()).await;
    let waits = async || charges.any_waiting_at(&scope, connection).await.unwrap();
    assert!(!waits().await);
    let charge = live.create("order-00001", &json!({"amount": 1000, "expires_in": DAY})).await;
    assert!(waits().await);
    proxy.set_away(true);
    live.pay_unnoticed(&charge, PayRequest::default());
    let reports = || log.text().matches("a bank has not been readable for more than 15 minutes").count();
    for (seconds, expected) in [(301, 0), (14 * 60, 0), (2 * 60, 1), (61, 1), (61, 1)] {
        let sweep = let_a_sweep_fail(&live, connection, seconds).await;
        assert_eq!((sweep.is_reported, reports()), (expected > 0, expected), "after {seconds} s");
    }
    // An error would stop the deployments of all merchants.
    let text = log.text();
    assert!(!text.lines().any(|line| line.contains("ERROR") && line.contains("a bank")), "{text}");

    // A connection that takes charges is swept on, however long its bank is away.
    assert_eq!(let_a_sweep_fail(&live, connection, 8 * DAY).await.accounts, [account]);
    let (acquirers, now) = (live.service.acquirers(), live.service.stack.clock.now());
    acquirers.remove(account, None, &operator(), now).await.unwrap();
    // The functions cache the former settings for a minute.
    live.service.advance_seconds(61).await;
    assert_eq!(let_a_sweep_fail(&live, connection, 61).await.accounts, []);

    proxy.set_away(false);
    let now = live.service.stack.clock.now();
    acquirers.set(account, &acquirer.choice(), Some(&operator()), now).await.unwrap();
    live.service.advance_seconds(61).await;
    live.wait_for_status(&charge, "paid").await;
    let sweep = live.sweep_row().await;
    assert_eq!((sweep.accounts, sweep.failing_since, sweep.is_reported), (vec![account], None, false));
    assert_eq!(live.check_books().await, Fates::credited(1));
}
