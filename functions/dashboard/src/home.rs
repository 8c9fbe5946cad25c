//! The home page.

use axum::response::Response;
use domain::calendar::{BusinessDayRange, Day};
use domain::ids::MedCaseId;
use domain::money::{Currency, MinorUnits};
use domain::pt_br;
use domain::rollup::Counter;
use domain::time::Timestamp;
use domain::wallet::{PRIMARY_CURRENCY, Wallet};
use effects::email::Emails;
use effects::rollup::DayRow;
use effects::webhook::endpoint::Endpoint;
use maud::{Markup, html};
use money::med::{MOST_SORTED, OpenCase};
use pages::{Chart, code_block, money};
use shared::http::Result;

use crate::account::{NOTICES, notices_table};
use crate::disputes::deadline;
use crate::visit::{Page, Visitor};
use crate::words as w;

const DAYS: u64 = 14;

const DISPUTES_SHOWN: usize = 3;

/// The newest of both modes, among which those of the shown mode are.
const NOTICES_READ: usize = 20;
const NOTICES_SHOWN: usize = 3;

/// Changes that are counted after the checkpoint: about 15 read units. A shop with more has a checkpoint of the
/// last minutes.
const MOST_CHANGES: i32 = 100;

/// In seconds. The sums change slowly, and the page reads more than others.
const REFRESH_SECONDS: u32 = 60;

pub(crate) async fn home(visitor: Visitor) -> Result<Response> {
    let window = {
        let today = Day::of(visitor.now);
        BusinessDayRange { first: today.minus_days(DAYS.saturating_sub(1)), today }
    };
    let (page, ((days, counted_to), wallet, cases, endpoints, notices)) = visitor
        .load(async |visit| {
            let (app, scope) = (&visit.app, visit.sharded_scope());
            let emails = Emails::new(visit.app.store.clone());
            let (days, wallet, cases, endpoints, notices) = tokio::join!(
                Box::pin(app.rollups.latest(&scope, window, MOST_CHANGES)),
                Box::pin(app.wallets.in_currency(&scope, PRIMARY_CURRENCY)),
                Box::pin(app.cases.open_by_deadline(&scope.scope)),
                Box::pin(app.endpoints.list(&scope.scope)),
                Box::pin(emails.list(&scope.scope.account, None, NOTICES_READ)),
            );
            let (mut notices, _) = notices?;
            notices.retain(|notice| notice.scope == scope.scope);
            notices.truncate(NOTICES_SHOWN);
            Ok((days?, wallet?, cases?, endpoints?, notices))
        })
        .await?;
    let is_new = days.iter().all(|row| row.sums.get(Counter::Created) == 0);
    let main = html! {
        h1 { (page.say(w::HOME)) }
        div #now data-refresh=(REFRESH_SECONDS) {
            (alerts(&page, &cases, &endpoints))
            div.grid {
                (today(&page, &days, window.today, counted_to))
                (balance(&page, &wallet)?)
                (releases(&page, &wallet)?)
            }
            @if is_new { (first_steps(&page, endpoints.is_empty())) } @else {
                section.card { (chart(&page, &days, window)) }
            }
            @if !notices.is_empty() {
                section.card {
                    (notices_table(&page, &notices))
                    p { a href=(NOTICES) { (page.say(w::NOTICES)) } }
                }
            }
        }
    };
    Ok(page.render(page.say(w::HOME), &main))
}

fn alerts(page: &Page, cases: &[OpenCase], endpoints: &[Endpoint]) -> Markup {
    let waiting = cases.iter().filter(|case| case.due.is_none_or(|due| due > page.now));
    let due: Vec<(MedCaseId, Timestamp)> =
        waiting.clone().filter_map(|case| Some((case.id, case.due?))).take(DISPUTES_SHOWN).collect();
    // The cases of the latest deadlines are not read.
    let (waiting, has_more) = (waiting.count().min(MOST_SORTED), cases.len() > MOST_SORTED);
    let number = format!("{waiting}{}", if has_more { "+" } else { "" });
    let failing = endpoints.iter().filter_map(|endpoint| {
        endpoint.failing_since.or(endpoint.disabled.as_ref().map(|d| d.at)).map(|since| (endpoint, since))
    });
    html! {
        @if waiting > 0 || has_more {
            div.alert.warn {
                @match due.first() {
                    Some((_, due)) => (page.language.fill(w::DISPUTES_WAIT, &[&number, &minute(*due)])),
                    None => (page.language.fill(w::DISPUTES_OPEN, &[&number])),
                }
                " " a href="/dashboard/disputes" { (page.say(w::ANSWER)) }
            }
            div.grid {
                @for (id, due) in due {
                    section.card { p { a href={ "/dashboard/disputes/" (id) } { (page.say(w::KIND_CASE)) } " " (page.say(w::ANSWER_BY)) " " (deadline(page, due, true)) } }
                }
            }
        }
        @for (endpoint, since) in failing {
            div.alert.bad {
                (page.language.fill(w::ENDPOINT_FAILS, &[&endpoint.url, &minute(since)])) " "
                a href={ "/dashboard/webhooks/" (endpoint.id) } { (page.say(w::SEE_CAUSE)) }
            }
        }
    }
}

fn minute(at: Timestamp) -> String {
    pt_br::format_short_minute(at)
}

fn today(page: &Page, days: &[DayRow], today: Day, counted_to: Option<Timestamp>) -> Markup {
    let of_today = || days.iter().filter(|row| row.day == today);
    let count = |counter| of_today().map(|row| row.sums.get(counter)).fold(0, i64::saturating_add);
    let (created, paid) = (count(Counter::Created), count(Counter::Paid));
    let percent = paid.min(created).saturating_mul(100).checked_div(created).unwrap_or_default();
    let counts = [paid, created, percent].map(|number| number.to_string());
    html! {
        section.card {
            h2 { (page.say(w::TODAY)) }
            p.big { (money(volume(of_today()), PRIMARY_CURRENCY)) }
            p.sm.soft {
                (page.language.fill(w::PAID_OF, &counts.each_ref().map(String::as_str))) " · "
                (page.language.fill(w::COUNTED_TO, &[&pt_br::format_time_of_day(counted_to.unwrap_or_else(|| page.now))]))
            }
        }
    }
}

fn volume<'a>(rows: impl Iterator<Item = &'a DayRow>) -> i64 {
    rows.filter(|row| row.currency == PRIMARY_CURRENCY)
        .map(|row| row.sums.get(Counter::Volume))
        .fold(0, i64::saturating_add)
}

pub(crate) fn balance(page: &Page, wallet: &Wallet) -> Result<Markup> {
    let retained = wallet.retained()?;
    Ok(html! {
        section.card {
            h2 { (page.say(w::AVAILABLE)) }
            p.big { (shown(wallet.available()?, wallet.currency)) }
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

fn chart(page: &Page, days: &[DayRow], window: BusinessDayRange) -> Markup {
    let bars = window.latest(DAYS).map(|day| {
        let sum = volume(days.iter().filter(|row| row.day == day));
        (day.date().format("%d/%m").to_string(), sum, money(sum, PRIMARY_CURRENCY))
    });
    let (title, columns) = (page.say(w::VOLUME), (page.say(w::DAY), page.say(w::AMOUNT)));
    Chart { title, columns, bars: bars.collect() }.render(page.language)
}

fn first_steps(page: &Page, has_no_endpoint: bool) -> Markup {
    let command = page.curl_first_charge();
    html! {
        section.card {
            h2 { (page.say(w::FIRST_STEPS)) }
            ol {
                li { p { (page.say(w::STEP_KEY)) } }
                li { p { (page.say(w::STEP_CHARGE)) } (code_block(page.language, &command)) }
                li { p { (page.say(w::STEP_PAY)) } }
                @if has_no_endpoint { li { p { (page.say(w::STEP_WEBHOOK)) } } }
            }
            p { a href="/docs" { (page.say(w::GUIDE)) } }
        }
    }
}
