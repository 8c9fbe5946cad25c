//! The charges that were paid in a period: those of the settlements in the ledger, and the totals of the list of charges.

use std::collections::BTreeSet;

use axum::response::Response;
use domain::calendar::{BusinessDayRange, Day};
use domain::charge::{Charge, PublicStatus, StoredCharge};
use domain::ids::ChargeId;
use domain::money::Currency;
use domain::payment_method::PaymentMethod;
use domain::pt_br;
use domain::rollup::{Counter, Sums};
use domain::time::Timestamp;
use domain::wallet::PostingKind;
use effects::rollup::{DayRow, Rollups};
use maud::{Markup, html};
use money::charge::ChargeFilter;
use money::wallet::statement::{StatementFilter, StatementFormat};
use pages::{Cell, Word, money};
use shared::http::{Problem, Query, Result};

use crate::charges::{self, METHOD, of_rows};
use crate::money::currencies;
use crate::visit::{Page, Visit, Visitor};
use crate::words as w;

/// The days between which charges were paid, as `created_after` and `created_before` are for their creation.
pub(crate) const PAID: [&str; 2] = ["paid_after", "paid_before"];

/// Movements of a part of the ledger, and the most parts that are read until one has a sale.
const MOVEMENTS: &str = "80";
const MOST_PARTS: usize = 5;

/// The most days whose sums are read for a total. Each takes a read unit for each currency at most.
const MOST_DAYS: u64 = 92;

/// Changes that are counted after the checkpoint, as on the home page.
const MOST_CHANGES: i32 = 100;

/// Above this number a list of all time says only that there are more.
const MOST_COUNTED: i64 = 1_000;

pages::words! { pub(crate),
    RECEIVED_LIST = "Cobranças recebidas", "Charges received", "Cobros recibidos";
    PAID_AT = "Paga em", "Paid on", "Pagado el";
    ALL_RECEIVED = "Todas as datas de pagamento", "All dates of payment", "Todas las fechas de pago";
    ONE_CHARGE = "{} cobrança", "{} charge", "{} cobro";
    CHARGES_OF = "{} cobranças", "{} charges", "{} cobros";
    MORE_THAN = "mais de {} cobranças", "more than {} charges", "más de {} cobros";
    COUNTED_TO = "contadas até {}, sem as mais novas", "counted up to {}, without the newest", "contadas hasta {}, sin las más nuevas";
    BY_CREATION = "antes de devoluções; vendas pelo dia da criação", "before refunds; sales by the day of creation", "antes de devoluciones; ventas por el día de creación";
    BY_PAYMENT = "antes de devoluções; pelo dia do pagamento", "before refunds; by the day of payment", "antes de devoluciones; por el día del pago";
    OF_ALL_METHODS = "de todos os métodos juntos, antes de devoluções; pelo dia do pagamento não há soma de um só método", "of all methods together, before refunds; by the day of payment there is no sum of one method", "de todos los métodos juntos, antes de devoluciones; por el día del pago no hay suma de un solo método";
}

/// What a list adds up to, from the sums of days.
#[derive(Default)]
pub(crate) struct Totals {
    charges: Option<i64>,
    is_of_all_time: bool,
    /// The number of sales and the sum of their amounts.
    sales: Vec<(Currency, i64, i64)>,
    counted_to: Option<Timestamp>,
    by: Option<Word>,
}

impl Totals {
    /// Of the charges that a filter by days of creation, status and method leaves. Without days, only their number.
    pub(crate) async fn of_list(
        rollups: &Rollups,
        visit: &Visit,
        query: &Query,
        (status, method): (Option<PublicStatus>, Option<PaymentMethod>),
    ) -> Result<Self> {
        if charges::is_filtered_but(query, &["created_after", "created_before", METHOD]) {
            return Ok(Self::default());
        }
        let scope = visit.sharded_scope();
        let days = ["created_after", "created_before"].map(|name| query.text(name));
        if days == [None, None] && method.is_none() {
            let (sums, counted_to) = rollups.all_time_latest(&scope, MOST_CHANGES).await?;
            let charges = Some(number(&sums, status));
            return Ok(Self { charges, is_of_all_time: true, counted_to, ..Self::default() });
        }
        let Some((rows, counted_to)) = rows_of(rollups, visit, days).await? else {
            return Ok(Self::default());
        };
        let counters = match method {
            Some(method) => (Counter::PaidBy(method), Counter::VolumeBy(method)),
            None => (Counter::Paid, Counter::Volume),
        };
        let charges = rows.iter().map(|row| number(&row.sums, status)).fold(0, i64::saturating_add);
        let paid = rows.iter().map(|row| row.sums.get(Counter::Paid)).fold(0, i64::saturating_add);
        // A sale that was disputed or refunded since has another status, and is not in the list of the paid ones.
        let has_sales = status.is_none_or(|status| status == PublicStatus::Paid && paid == charges);
        Ok(Self {
            charges: method.is_none().then_some(charges),
            sales: if has_sales { sales(&rows, counters) } else { Vec::new() },
            counted_to,
            by: Some(BY_CREATION),
            ..Self::default()
        })
    }

    /// Of the charges that were paid in a period, if nothing but their method is filtered. The sums of a day of payment
    /// are of all methods.
    async fn received(
        rollups: &Rollups,
        visit: &Visit,
        (query, method): (&Query, Option<PaymentMethod>),
    ) -> Result<Self> {
        if charges::is_filtered_but(query, &[PAID[0], PAID[1], METHOD]) || query.text("status").is_some() {
            return Ok(Self::default());
        }
        let Some((rows, counted_to)) = rows_of(rollups, visit, PAID.map(|name| query.text(name))).await?
        else {
            return Ok(Self::default());
        };
        let sales = sales(&rows, (Counter::Received, Counter::ReceivedVolume));
        let by = Some(if method.is_some() { OF_ALL_METHODS } else { BY_PAYMENT });
        Ok(Self { sales, counted_to, by, ..Self::default() })
    }

    pub(crate) fn render(&self, page: &Page) -> Markup {
        let say = |word, number: i64| page.language.fill(word, &[&number.to_string()]);
        let charges = self.charges.map(|count| match count {
            1 => say(ONE_CHARGE, 1),
            _ if self.is_of_all_time && count > MOST_COUNTED => say(MORE_THAN, MOST_COUNTED),
            _ => say(CHARGES_OF, count),
        });
        let sales = self.sales.iter().map(|(currency, count, minor)| {
            let word = if *count == 1 { w::ONE_SALE } else { w::SALES };
            format!("{}: {}", say(word, *count), money(*minor, *currency))
        });
        let parts: Vec<String> = charges.into_iter().chain(sales).collect();
        let by = self.by.filter(|_| !self.sales.is_empty()).map(|word| page.say(word));
        // More changes than are read at once: within a minute, the sums have them.
        let to = self.counted_to.map(|at| page.language.fill(COUNTED_TO, &[&pt_br::format_second(at)]));
        let more: Vec<String> = by.map(str::to_owned).into_iter().chain(to).collect();
        html! {
            @if !parts.is_empty() {
                p {
                    strong { (parts.join(" · ")) }
                    @if !more.is_empty() { " " span.sm.soft { "(" (more.join("; ")) ")" } }
                }
            }
        }
    }
}

/// The number of charges that are in a status now.
fn number(sums: &Sums, status: Option<PublicStatus>) -> i64 {
    let Some(status) = status else { return sums.get(Counter::Created) };
    let of_status = status.transaction_statuses().iter().map(|status| sums.get(Counter::InStatus(*status)));
    of_status.fold(0, i64::saturating_add)
}

fn sales(rows: &[DayRow], (count, volume): (Counter, Counter)) -> Vec<(Currency, i64, i64)> {
    let sums_of = |currency: Currency| {
        let of_currency = || rows.iter().filter(move |row| row.currency == currency);
        let sum = |counter| of_currency().map(|row| row.sums.get(counter)).fold(0, i64::saturating_add);
        (currency, sum(count), sum(volume))
    };
    let currencies: BTreeSet<Currency> = rows.iter().map(|row| row.currency).collect();
    currencies.into_iter().map(sums_of).filter(|(_, count, _)| *count > 0).collect()
}

/// The sums of the days between two, and up to when they have all changes. `None`: the days are not two dates, the
/// second of which may be missing, or too many.
async fn rows_of(
    rollups: &Rollups,
    visit: &Visit,
    [first, last]: [Option<&str>; 2],
) -> Result<Option<(Vec<DayRow>, Option<Timestamp>)>> {
    let today = Day::of(visit.now);
    let Some(first) = first.and_then(|day| day.parse::<Day>().ok()) else { return Ok(None) };
    let last = match last.map(str::parse::<Day>) {
        None => today,
        Some(Ok(day)) => day.min(today),
        Some(Err(_)) => return Ok(None),
    };
    if first > last || first.days_until(last) >= MOST_DAYS {
        return Ok(None);
    }
    let window = BusinessDayRange { first, today };
    let (mut rows, counted_to) = rollups.latest(&visit.sharded_scope(), window, MOST_CHANGES).await?;
    rows.retain(|row| row.day <= last);
    Ok(Some((rows, counted_to)))
}

pub(crate) fn is_asked(query: &Query) -> bool {
    PAID.iter().any(|name| query.text(name).is_some())
}

/// The statement in which the settlements of the period are. In a problem, its fields have the names of the form.
pub(crate) fn statement_of(query: &Query) -> Result<StatementFilter> {
    let fields = [("created_after", PAID[0]), ("created_before", PAID[1])];
    let same = ["currency", "starting_after"].map(|name| (name, name));
    let mut asked = Query::parse(None).set("limit", MOVEMENTS);
    for (name, from) in fields.into_iter().chain(same) {
        if let Some(value) = query.text(from) {
            asked = asked.set(name, value);
        }
    }
    StatementFilter::parse(&asked, StatementFormat::Json).map_err(|mut problem| {
        if let Problem::Invalid(details) = &mut problem {
            for detail in details {
                let typed = fields.iter().find(|(name, _)| *name == detail.param);
                detail.param = typed.map_or(detail.param.as_str(), |(_, typed)| *typed).to_owned();
            }
        }
        problem
    })
}

/// The list of charges by the time of their payment. The other filters leave some of them.
pub(crate) async fn list(
    visitor: Visitor,
    (filter, method): (ChargeFilter, Option<PaymentMethod>),
    mut statement: StatementFilter,
) -> Result<Response> {
    let query = visitor.query();
    let currency = statement.currency;
    let (page, (wallets, totals, (rows, next))) = visitor
        .load(async |visit| {
            let (app, scope) = (&visit.app, visit.sharded_scope());
            let rows = async {
                let mut shown: Vec<(Timestamp, Charge)> = Vec::new();
                for _part in 0..MOST_PARTS {
                    let part = app.wallets.statement(&scope, &statement).await?;
                    let is_sale = |kind| matches!(kind, PostingKind::Settlement | PostingKind::SelfCustody);
                    let sales = part.items.iter().filter(|posting| is_sale(posting.kind));
                    let sales: Vec<_> = sales
                        .filter_map(|posting| Some((posting.id, posting.at, posting.subject.charge?)))
                        .collect();
                    let ids: Vec<ChargeId> = sales.iter().map(|(_, _, id)| *id).collect();
                    let read = of_rows(&app.store, ids.into_iter()).await?;
                    for (id, at, charge) in sales {
                        let charge = read.iter().map(StoredCharge::as_stored).find(|row| row.id == charge);
                        let matching = charge.filter(|charge| {
                            filter.matches(charge)
                                && method.is_none_or(|method| charge.methods.contains(&method))
                        });
                        shown.extend(matching.map(|charge| (at, charge.clone())));
                        if shown.len() == filter.limit {
                            return Ok::<_, Problem>((shown, Some(id)));
                        }
                    }
                    match part.next_cursor {
                        Some(next) if shown.is_empty() => statement = statement.clone().after(next),
                        next => return Ok((shown, next)),
                    }
                }
                Ok((shown, None))
            };
            let (wallets, totals, rows) = tokio::join!(
                Box::pin(app.wallets.for_scope(&scope)),
                Box::pin(Totals::received(&app.rollups, visit, (&query, method))),
                Box::pin(rows),
            );
            Ok((wallets?, totals?, rows?))
        })
        .await?;
    let rows = rows.iter().map(|(at, charge)| charges::row_at(&page, charge, *at));
    let columns =
        charges::COLUMNS.map(|column| if column.0 == Cell::Time { (Cell::Time, PAID_AT) } else { column });
    let next = next.map(|id| format!("{}?{}", charges::PATH, query.with("starting_after", &id.to_string())));
    let of_currency = format!("{}?{}", charges::PATH, query.only(|name| PAID.contains(&name)).encoded());
    let none = (w::NO_CHARGES_FOUND, Some((charges::PATH, ALL_RECEIVED)));
    let main = html! {
        div.head { h1 { (page.say(RECEIVED_LIST)) } p { a href=(charges::PATH) { (page.say(ALL_RECEIVED)) } } }
        (currencies(&page, &of_currency, currency, &wallets))
        (totals.render(&page))
        (charges::filters(&page, &query, None))
        (page.list((RECEIVED_LIST, &columns), rows.collect(), none, next))
        (page.sizes())
    };
    Ok(page.render(page.say(RECEIVED_LIST), &main))
}
