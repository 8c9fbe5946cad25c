//! The home page.

use axum::response::Response;
use domain::calendar::{BusinessDayRange, Day};
use domain::charge::Charge;
use domain::ids::MedCaseId;
use domain::money::{Currency, MinorUnits};
use domain::payment_method::PaymentMethod;
use domain::pt_br;
use domain::rollup::Counter;
use domain::time::Timestamp;
use domain::vocabulary::Vocabulary as _;
use domain::wallet::{PRIMARY_CURRENCY, Wallet};
use effects::email::Emails;
use effects::rollup::DayRow;
use effects::webhook::endpoint::Endpoint;
use maud::{Markup, html};
use money::charge::ChargeFilter;
use money::med::OpenCase;
use pages::forms::Need;
use pages::{Bar, Chart, Icon, Tone, alert, code_block, money};
use services::{DayMoney, EndpointTrouble, WaitingDisputes};
use shared::http::{Problem, Query, Result};

use crate::account::{NOTICES, keep_shown, notices_table};
use crate::charges::{COLUMNS, Titles, of_rows, row, titles};
use crate::disputes::deadline;
use crate::visit::{Page, Visitor};
use crate::words as w;

/// The longest period of the chart.
const MOST_DAYS: u64 = 90;

/// The days of the chart if the query does not name them.
const USUAL_DAYS: u64 = 30;

/// Above this number of days a bar is a week.
const MOST_BARS: u64 = 31;

const DISPUTES_SHOWN: usize = 3;

const SALES_SHOWN: usize = 10;

/// The newest of both modes, among which those of the shown mode are.
const NOTICES_READ: usize = 20;
const NOTICES_SHOWN: usize = 3;

/// Changes that are counted after the checkpoint: about 15 read units. A shop with more has a checkpoint of the
/// last minutes.
const MOST_CHANGES: i32 = 100;

/// In seconds. The sums change slowly, and the page reads more than others.
const REFRESH_SECONDS: u32 = 60;

pub(crate) async fn home(visitor: Visitor) -> Result<Response> {
    let asked = visitor.query().text("days").and_then(|days| days.parse::<u64>().ok());
    let shown_days = asked.filter(|days| [7, MOST_DAYS].contains(days)).unwrap_or(USUAL_DAYS);
    let window = {
        let today = Day::of(visitor.now);
        BusinessDayRange { first: today.minus_days(shown_days.saturating_sub(1)), today }
    };
    let (page, ((days, counted_to), wallet, cases, charges, endpoints, notices, sales)) = visitor
        .load(async |visit| {
            let (app, scope) = (&visit.app, visit.sharded_scope());
            let emails = Emails::new(visit.app.store.clone());
            let disputed = async {
                let cases = app.cases.open_by_deadline(&scope.scope).await?;
                let first = first_due(&cases, visit.now).map(|(id, _)| id.charge());
                let charges = of_rows(&app.store, first).await?;
                Ok::<_, Problem>((cases, charges))
            };
            let salt = visit.session.account.salt.as_bytes();
            let paid = ChargeFilter::parse(&Query::parse(Some("status=paid")))?.reading(SALES_SHOWN);
            let (days, wallet, disputed, endpoints, notices, sales) = tokio::join!(
                Box::pin(app.rollups.latest(&scope, window, MOST_CHANGES)),
                Box::pin(app.wallets.in_currency(&scope, PRIMARY_CURRENCY)),
                Box::pin(disputed),
                Box::pin(app.endpoints.list(&scope.scope)),
                Box::pin(emails.list(&scope.scope.account, None, NOTICES_READ)),
                Box::pin(app.charges.list(&scope, salt, &paid, None, visit.now)),
            );
            let (mut notices, _) = notices?;
            keep_shown(&mut notices, scope.scope);
            notices.truncate(NOTICES_SHOWN);
            let (cases, charges) = disputed?;
            Ok((days?, wallet?, cases, charges, endpoints?, notices, sales?.items))
        })
        .await?;
    let titles = titles(&page, &charges);
    let is_new = sales.is_empty() && days.iter().all(|row| row.sums.get(Counter::Created) == 0);
    let main = html! {
        div.head {
            h1 { (page.say(w::HOME)) }
            @if page.may(Need::Member) { p { a.btn href="/dashboard/charges/new" { (Icon::Plus) (page.say(w::NEW_CHARGE)) } } }
        }
        div #now data-refresh=(REFRESH_SECONDS) {
            (alerts(&page, (&cases, &titles), &endpoints))
            div.grid {
                (today(&page, &days, window.today, counted_to))
                (balance(&page, &wallet)?)
                (releases(&page, &wallet)?)
            }
            @if is_new { (first_steps(&page, endpoints.is_empty())) } @else {
                section.card #sales { (chart(&page, &days, window.today, shown_days)) }
                (last_sales(&page, &sales))
            }
            @if !notices.is_empty() {
                section.card {
                    (notices_table(&page, &notices, &titles))
                    p { a href=(NOTICES) { (page.say(w::NOTICES)) } }
                }
            }
        }
    };
    Ok(page.render(page.say(w::HOME), &main))
}

/// The first disputes that can still be answered, with their deadlines. Those without one come last.
fn first_due(cases: &[OpenCase], now: Timestamp) -> impl Iterator<Item = (MedCaseId, Option<Timestamp>)> {
    let waiting = cases.iter().filter(move |case| case.due.is_none_or(|due| due > now));
    waiting.map(|case| (case.id, case.due)).take(DISPUTES_SHOWN)
}

fn alerts(page: &Page, (cases, titles): (&[OpenCase], &Titles), endpoints: &[Endpoint]) -> Markup {
    let waiting = WaitingDisputes::of(cases, page.now);
    let due: Vec<(MedCaseId, Option<Timestamp>)> = first_due(cases, page.now).collect();
    let number = waiting.to_string();
    let failing = endpoints.iter().filter_map(|endpoint| match EndpointTrouble::of(endpoint)? {
        EndpointTrouble::SwitchedOff(at) => Some((endpoint, w::ENDPOINT_OFF, at)),
        EndpointTrouble::Fails(since) => Some((endpoint, w::ENDPOINT_FAILS, since)),
    });
    html! {
        @if !waiting.is_none() {
            (alert(Tone::Warn, &html! {
                (page.language.fill(if number == "1" { w::DISPUTE_WAITS } else { w::DISPUTES_WAIT }, &[&number]))
                @if let Some((_, Some(due))) = due.first() { " " (page.language.fill(w::FIRST_DUE, &[&minute(*due)])) }
                " " a href="/dashboard/disputes" { (page.say(w::ANSWER)) }
            }))
            div.grid {
                @for (id, due) in due {
                    section.card { p { a href={ "/dashboard/disputes/" (id) } { (page.say(w::KIND_CASE)) @if let Some(title) = titles.get(&id.charge()) { " · " span dir="auto" { (title) } } } @if let Some(due) = due { " " (page.say(w::ANSWER_BY)) " " (deadline(page, due, true)) } } }
                }
            }
        }
        @for (endpoint, word, since) in failing {
            (alert(Tone::Bad, &html! {
                (page.language.fill(word, &[&endpoint.url, &minute(since)])) " "
                a href={ "/dashboard/webhooks/" (endpoint.id) } { (page.say(w::SEE_CAUSE)) }
            }))
        }
    }
}

fn minute(at: Timestamp) -> String {
    pt_br::format_short_minute(at)
}

/// What was received on the day, by the day of payment, beside the day before; and the refunds that ended on it.
fn today(page: &Page, days: &[DayRow], today: Day, counted_to: Option<Timestamp>) -> Markup {
    let (received, others) = DayMoney::of(days, today);
    let (before, _) = DayMoney::of(days, today.minus_days(1));
    let sales = |of: &DayMoney| {
        let word = if of.sales == 1 { w::ONE_SALE } else { w::SALES };
        page.language.fill(word, &[&of.sales.to_string()])
    };
    html! {
        section.card {
            h2 { a href={ "/dashboard/charges?paid_after=" (today) "&paid_before=" (today) } { (page.say(w::RECEIVED_TODAY)) } }
            p.big { (money(received.received, received.currency)) }
            p.sm.soft {
                (sales(&received)) " · "
                (page.language.fill(w::COUNTED_TO, &[&pt_br::format_time_of_day(counted_to.unwrap_or_else(|| page.now))]))
            }
            @for other in others.iter().filter(|other| other.received > 0) {
                p { (money(other.received, other.currency)) " " span.sm.soft { (sales(other)) } }
            }
            @if received.refunded > 0 {
                p.sm.soft { (page.language.fill(w::REFUNDED_TODAY, &[&money(received.refunded, received.currency)])) }
            }
            p.sm.soft { (page.language.fill(w::RECEIVED_YESTERDAY, &[&money(before.received, before.currency)])) }
        }
    }
}

pub(crate) fn balance(page: &Page, wallet: &Wallet) -> Result<Markup> {
    let retained = wallet.retained()?;
    Ok(html! {
        section.card {
            h2 { (page.say(w::AVAILABLE)) }
            p.big { (shown(wallet.available()?, wallet.currency)) }
            @if wallet.available()?.is_negative() { p.sm { (page.say(w::NEGATIVE_MEANS)) } }
            @if !retained.is_zero() {
                p.sm.soft {
                    (page.language.fill(w::RETAINED_IS, &[&shown(retained, wallet.currency)]))
                }
            }
        }
    })
}

pub(crate) fn releases(page: &Page, wallet: &Wallet) -> Result<Markup> {
    let next = wallet.releases().next();
    Ok(html! {
        section.card {
            h2 { (page.say(w::PENDING)) }
            p.big { (shown(wallet.pending()?, wallet.currency)) }
            p.sm.soft {
                @match next {
                    Some(next) => (page.language.fill(w::NEXT_RELEASE, &[
                        &shown(next.minor, wallet.currency), &minute(next.at()),
                    ])),
                    None => (page.say(w::NOTHING_PENDING)),
                }
            }
        }
    })
}

pub(crate) fn shown(minor: MinorUnits, currency: Currency) -> String {
    money(minor.get(), currency)
}

/// The sales by the day of their creation, split by method, and beside them what was received by the day of payment.
fn chart(page: &Page, rows: &[DayRow], today: Day, days: u64) -> Markup {
    let bar_days = if days > MOST_BARS { 7 } else { 1 };
    let in_period = |row: &&DayRow| row.currency == PRIMARY_CURRENCY && row.day.days_until(today) < days;
    let sum_of = |index: u64, counter: Counter| {
        let of_bar = |row: &&DayRow| {
            row.day <= today && row.day.days_until(today).checked_div(bar_days) == Some(index)
        };
        rows.iter()
            .filter(in_period)
            .filter(of_bar)
            .map(|row| row.sums.get(counter))
            .fold(0, i64::saturating_add)
    };
    let methods: Vec<PaymentMethod> = PaymentMethod::all()
        .filter(|method| {
            rows.iter().filter(in_period).any(|row| row.sums.get(Counter::VolumeBy(*method)) > 0)
        })
        .collect();
    // Newest first: a period that is no number of weeks begins with a short one.
    let bars = (0..days.div_ceil(bar_days)).rev().map(|index| {
        let last = today.minus_days(index.saturating_mul(bar_days));
        let oldest = index.saturating_add(1).saturating_mul(bar_days).min(days).saturating_sub(1);
        let first = today.minus_days(oldest);
        let short = |day: Day| day.date().format("%d/%m").to_string();
        Bar {
            label: if first == last { short(last) } else { format!("{}–{}", short(first), short(last)) },
            href: format!("/dashboard/charges?status=paid&created_after={first}&created_before={last}"),
            parts: methods.iter().map(|method| sum_of(index, Counter::VolumeBy(*method))).collect(),
            beside: sum_of(index, Counter::ReceivedVolume),
        }
    });
    let chart = Chart {
        title: page.say(w::VOLUME),
        of: page.say(w::DAY),
        parts: methods.iter().map(|method| page.say(w::of_method(*method))).collect(),
        beside: page.say(w::RECEIVED_SUM),
        bars: bars.collect(),
        shown: &|minor| money(minor, PRIMARY_CURRENCY),
    };
    let periods =
        [("7", w::DAYS_7), ("", w::DAYS_30), ("90", w::DAYS_90)].map(|(value, word)| (value, page.say(word)));
    let chosen = if days == USUAL_DAYS { String::new() } else { days.to_string() };
    html! {
        (pages::chips(page.say(w::PERIOD), ("/dashboard", "days"), &chosen, periods.into_iter()))
        (chart.render(page.language))
        p.sm.soft { (page.say(w::VOLUME_MEANS)) }
    }
}

fn last_sales(page: &Page, sales: &[Charge]) -> Markup {
    html! {
        @if !sales.is_empty() {
            section.card {
                (page.table(w::LAST_SALES, &COLUMNS, sales.iter().map(|charge| row(page, charge)).collect()))
                p { a href="/dashboard/charges?status=paid" { (page.say(w::CHARGES)) } }
            }
        }
    }
}

fn first_steps(page: &Page, has_no_endpoint: bool) -> Markup {
    let command = page.curl_first_charge();
    html! {
        section.card {
            h2 { (page.say(w::FIRST_STEPS)) }
            ol {
                @if page.is_test() {
                    li { p { (page.say(w::STEP_KEY)) } }
                    li { p { (page.say(w::STEP_CHARGE)) } (code_block(page.language, &command)) }
                    li { p { (page.say(w::STEP_PAY)) } }
                } @else {
                    li { p { a href="/dashboard/charges/new" { (page.say(w::NEW_CHARGE)) } } }
                }
                @if has_no_endpoint { li { p { (page.say(w::STEP_WEBHOOK)) } } }
            }
            p { a href="/docs" { (page.say(w::GUIDE)) } }
        }
    }
}
