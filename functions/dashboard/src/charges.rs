//! The list of charges, and one charge.

use axum::extract::Path;
use axum::response::Response;
use domain::charge::{Charge, PublicStatus, TransactionStatus};
use domain::ids::ChargeId;
use domain::money::{Currency, MinorUnits};
use domain::payment_method::PaymentMethod;
use domain::pt_br;
use domain::refund::RefundStatus;
use domain::tax_id::Document;
use domain::vocabulary::Vocabulary;
use maud::{Markup, html};
use pages::{Cell, Tone, copy_button, empty, facts, money, next_page, table, tag, time};
use shared::charge::{CHARGES_QUERY, ChargeFilter};
use shared::http::{Problem, Query};
use shared::services::{ChargeTimeline, TimelineEntry, TimelineKind, charge_timeline};
use shared::webhook::delivery::DeliveryStatus;

use crate::money::movement_name;
use crate::states::State as _;
use crate::visit::{Page, Visitor};
use crate::webhooks::pretty;
use crate::words as w;

const PATH: &str = "/dashboard/charges";

/// A filter of the page alone: charges of the other methods are left out, so a page may be short.
const METHOD: &str = "method";

/// The keys of `metadata` that merchants use for their order.
const ORDER_KEYS: [&str; 3] = ["order_id", "orderId", "pedido"];

pub(crate) async fn list(visitor: Visitor) -> Result<Response, Problem> {
    let query = visitor.query();
    let is_filter = |name: &str| CHARGES_QUERY.iter().any(|field| field.name() == name);
    let filter = ChargeFilter::parse(&query.only(is_filter))?;
    let method = query.text(METHOD).and_then(PaymentMethod::named);
    let (visit, cursor) = visitor
        .enter(async |visitor| Ok(visitor.pages.app.charges.find(filter.starting_after).await?))
        .await?;
    let (page, found) = visit
        .load(async |visit| {
            let charges = &visit.visitor.pages.app.charges;
            Ok(charges.list(&visit.scope(), &filter, cursor, visit.visitor.now).await?)
        })
        .await?;
    let shown =
        found.items.iter().filter(|charge| method.is_none_or(|method| charge.methods.contains(&method)));
    let rows: Vec<Vec<Markup>> = shown.map(|charge| row(&page, charge)).collect();
    let next =
        found.next_cursor.map(|id| format!("{PATH}?{}", query.with("starting_after", &id.to_string())));
    let is_filtered = is_filtered(&query);
    let main = html! {
        h1 { (page.say(w::CHARGES)) }
        (chips(&page, &query))
        (filters(&page, &query, method))
        div #list data-refresh="10" {
            @if rows.is_empty() {
                @if is_filtered {
                    (empty(page.say(w::NO_CHARGES_FOUND), Some((PATH, page.say(w::CLEAR_FILTERS)))))
                } @else {
                    (empty(page.say(w::NO_CHARGES), Some(("/docs", page.say(w::GUIDE)))))
                }
            } @else {
                section.card {
                    (table(page.say(w::CHARGES), &[
                        (Cell::Time, page.say(w::CREATED)),
                        (Cell::Main, page.say(w::ORDER_AND_CUSTOMER)),
                        (Cell::Other, page.say(w::METHOD)),
                        (Cell::State, page.say(w::STATE)),
                        (Cell::Amount, page.say(w::AMOUNT)),
                    ], rows))
                }
            }
            (next_page(page.language, w::OLDER, next))
        }
    };
    Ok(page.render(page.say(w::CHARGES), main))
}

fn is_filtered(query: &Query) -> bool {
    [METHOD, "status", "customer_id", "created_after", "created_before", "starting_after"]
        .iter()
        .any(|name| query.text(name).is_some())
}

fn row(page: &Page, charge: &Charge) -> Vec<Markup> {
    vec![
        time(charge.created_at),
        html! { a href={ (PATH) "/" (charge.id) } dir="auto" { (title(charge)) } },
        html! { (charge.method().facts().name) },
        charge.status.tag(page.language),
        html! { (money(charge.amount.minor(), charge.currency)) },
    ]
}

/// What people know a charge by: its order, its customer, or else a part of its id.
fn title(charge: &Charge) -> String {
    let known: Vec<String> = order(charge).into_iter().chain(customer(charge)).collect();
    if known.is_empty() {
        charge.id.to_string().chars().take(14).chain(['…']).collect()
    } else {
        known.join(" · ")
    }
}

fn order(charge: &Charge) -> Option<String> {
    let metadata = charge.metadata.to_map();
    let value = ORDER_KEYS.iter().find_map(|key| metadata.get(*key))?;
    value.as_str().map(str::to_owned).or_else(|| value.as_i64().map(|number| number.to_string()))
}

/// The first name, and the first letter of the last one.
fn customer(charge: &Charge) -> Option<String> {
    let mut words = charge.customer.name.as_deref()?.split_whitespace();
    let first = words.next()?;
    let initial = words.next_back().and_then(|last| last.chars().next());
    Some(initial.map_or_else(|| first.to_owned(), |initial| format!("{first} {initial}.")))
}

fn masked(document: &Document) -> String {
    document.tax_id().map_or_else(|| "***".to_owned(), |tax_id| tax_id.masked())
}

fn chips(page: &Page, query: &Query) -> Markup {
    let chosen = query.text("status").unwrap_or_default();
    let statuses = [
        PublicStatus::Paid,
        PublicStatus::Pending,
        PublicStatus::Disputed,
        PublicStatus::Refunded,
        PublicStatus::Failed,
        PublicStatus::Expired,
        PublicStatus::Cancelled,
        PublicStatus::Processing,
    ];
    html! {
        nav.chips aria-label=(page.say(w::STATE)) {
            ul {
                li { a href=(PATH) aria-current=[chosen.is_empty().then_some("true")] { (page.say(w::ALL)) } }
                @for status in statuses {
                    @let name: &str = status.into();
                    li {
                        a href={ (PATH) "?status=" (name) } aria-current=[(chosen == name).then_some("true")] {
                            (page.say(status.shown().1))
                        }
                    }
                }
            }
        }
    }
}

fn filters(page: &Page, query: &Query, method: Option<PaymentMethod>) -> Markup {
    let is_used = [METHOD, "customer_id", "created_after", "created_before"]
        .iter()
        .any(|name| query.text(name).is_some());
    html! {
        details.card open[is_used] {
            summary { (page.say(w::FILTERS)) }
            form.row method="get" action=(PATH) {
                @if let Some(status) = query.text("status") { (pages::hidden("status", status)) }
                (field("created_after", "date", page.say(w::FROM), query))
                (field("created_before", "date", page.say(w::TO), query))
                (field("customer_id", "text", page.say(w::DOCUMENT), query))
                div.f {
                    label for="method" { (page.say(w::METHOD)) }
                    select #method name="method" {
                        option value="" { (page.say(w::ALL_METHODS)) }
                        @for (name, each) in PaymentMethod::vocabulary() {
                            option value=(name) selected[method == Some(each)] { (each.facts().name) }
                        }
                    }
                }
                button { (page.say(w::FILTER)) }
                a.btn.quiet href=(PATH) { (page.say(w::CLEAR_FILTERS)) }
            }
        }
    }
}

fn field(name: &str, kind: &str, label: &str, query: &Query) -> Markup {
    html! {
        div.f {
            label for=(name) { (label) }
            input id=(name) name=(name) type=(kind) value=[query.text(name)];
        }
    }
}

pub(crate) async fn show(visitor: Visitor, Path(id): Path<String>) -> Result<Response, Problem> {
    let id = ChargeId::parse_any(&id).ok();
    let (visit, found) = visitor
        .enter(async |visitor| {
            let app = &visitor.pages.app;
            let (charge, refunds) = tokio::join!(app.charges.find(id), app.refunds.for_charge(id));
            Ok((charge?, refunds?))
        })
        .await?;
    let (charge, refunds) = found;
    let scope = visit.scope().scope;
    let stored = charge.filter(|charge| charge.as_stored().scope == scope);
    let stored = stored.ok_or(Problem::NotFound { what: "charge" });
    let (page, timeline) = visit
        .load(async |visit| {
            let stored = stored.clone()?;
            let (store, now) = (&visit.visitor.pages.store, visit.visitor.now);
            Ok((charge_timeline(store, &stored, now).await?, stored.read_at(now)))
        })
        .await?;
    let (timeline, charge) = timeline;
    let heading = order(&charge)
        .map_or_else(|| page.say(w::CHARGE).to_owned(), |order| format!("{} {order}", page.say(w::ORDER)));
    let refunds: Vec<_> = refunds.into_iter().filter(|refund| refund.scope == charge.scope).collect();
    let main = html! {
        p.crumb { a href=(PATH) { (page.say(w::CHARGES)) } " / " span dir="auto" { (heading) } }
        div #charge data-refresh=[(!is_final(charge.status)).then_some("10")] {
            h1 {
                (money(charge.amount.minor(), charge.currency)) " " (charge.status.tag(page.language))
            }
            p.soft {
                (charge.method().facts().name) " · " (time(charge.created_at))
                @if let Some(customer) = customer(&charge) { " · " span dir="auto" { (customer) } }
            }
            div.actions {
                a.btn.quiet href=(page.visit.visitor.pages.app.public_urls.checkout_url(charge.id)) { (page.say(w::CHECKOUT_PAGE)) }
                (copy_button(page.language, w::COPY_LINK, &page.visit.visitor.pages.app.public_urls.checkout_url(charge.id)))
                (copy_button(page.language, w::COPY_ID, &charge.id.to_string()))
            }
            div.two {
                div {
                    section.card {
                        h2 { (page.say(w::TIMELINE)) }
                        (timeline_list(&page, &timeline, charge.currency))
                    }
                    @if !refunds.is_empty() {
                        section.card {
                            (table(page.say(w::KIND_REFUND), &[
                                (Cell::Time, page.say(w::CREATED)),
                                (Cell::Main, "Id"),
                                (Cell::State, page.say(w::STATE)),
                                (Cell::Amount, page.say(w::AMOUNT)),
                                (Cell::Other, page.say(w::REASON)),
                            ], refunds.iter().map(|refund| vec![
                                time(refund.created_at),
                                html! { code { (refund.id) } },
                                refund.status.tag(page.language),
                                html! { (money(refund.share.gross.minor(), refund.currency)) },
                                html! { (refund.reason.as_deref().or(refund.failure_reason.as_deref()).unwrap_or_default()) },
                            ]).collect()))
                        }
                    }
                }
                div {
                    section.card { h2 { (page.say(w::DATA)) } (data(&page, &charge)?) }
                    (metadata(&page, &charge))
                    section.card {
                        details {
                            summary { (page.say(w::SAME_BY_API)) }
                            (pages::code_block(page.language, &page.curl(&format!("/v1/charges/{}", charge.id), &[], None)))
                        }
                    }
                }
            }
        }
    };
    Ok(page.render(&heading, main))
}

/// Whether nothing changes any more unless someone acts.
fn is_final(status: TransactionStatus) -> bool {
    match status {
        TransactionStatus::Pending
        | TransactionStatus::WaitingPayment
        | TransactionStatus::Processing
        | TransactionStatus::Paid
        | TransactionStatus::Approved
        | TransactionStatus::Chargeback
        | TransactionStatus::Dispute => false,
        TransactionStatus::Refused
        | TransactionStatus::Cancelled
        | TransactionStatus::Expired
        | TransactionStatus::Refunded => true,
    }
}

fn data(page: &Page, charge: &Charge) -> Result<Markup, Problem> {
    let sum = |minor: MinorUnits| html! { (money(minor.get(), charge.currency)) };
    let above_zero = |minor: MinorUnits| {
        if minor.is_positive() {
            sum(minor)
        } else {
            html! {}
        }
    };
    let settlement = charge.settlement.as_ref();
    let net = settlement.map(|settlement| settlement.net(charge.amount));
    let fee = net.map(|net| MinorUnits::from(charge.amount).checked_sub(net)).transpose()?;
    let paid = charge.applied_payment.as_ref();
    let document = charge.payer_tax_id().map(|tax_id| tax_id.masked());
    let document = document.or_else(|| charge.customer.document.as_ref().map(masked));
    let expires = !is_final(charge.status) && paid.is_none();
    let text = |text: Option<&str>| html! { @if let Some(text) = text { (text) } };
    Ok(facts(vec![
        ("Id", html! { code { (charge.id) } }),
        (page.say(w::ORDER), text(order(charge).as_deref())),
        (page.say(w::CUSTOMER), text(customer(charge).as_deref())),
        (page.say(w::DOCUMENT), text(document.as_deref())),
        (page.say(w::AMOUNT), html! { (money(charge.amount.minor(), charge.currency)) }),
        (page.say(w::FEE), fee.map(above_zero).unwrap_or_default()),
        (page.say(w::NET), net.map(sum).unwrap_or_default()),
        (page.say(w::REFUNDED_SUM), above_zero(charge.funds.refunded()?)),
        (
            page.say(w::REFUNDABLE),
            settlement
                .map(|_| charge.funds.refundable(charge.amount).map(sum))
                .transpose()?
                .unwrap_or_default(),
        ),
        (page.say(w::PAID), paid.map(|paid| time(paid.paid_at)).unwrap_or_default()),
        (
            "End-to-end id",
            html! { @if let Some(paid) = paid.filter(|paid| paid.method == PaymentMethod::Pix) { code { (paid.payment_id) } } },
        ),
        ("txid", html! { @if charge.artefacts.pix.is_some() { code { (charge.id.txid()) } } }),
        (
            page.say(w::EXPIRES),
            if expires {
                time(charge.expires_at())
            } else {
                html! {}
            },
        ),
        (page.say(w::REASON), text(charge.failure.as_ref().map(|failure| failure.reason.as_str()))),
    ]))
}

fn metadata(page: &Page, charge: &Charge) -> Markup {
    let map = charge.metadata.to_map();
    html! {
        @if !map.is_empty() {
            section.card {
                details {
                    summary { (page.say(w::METADATA)) }
                    pre tabindex="0" { (pretty(&map.into())) }
                }
            }
        }
    }
}

fn timeline_list(page: &Page, timeline: &ChargeTimeline, currency: Currency) -> Markup {
    html! {
        ol.line {
            @for entry in timeline.entries.iter().rev() { li { (timeline_entry(page, entry, currency)) } }
        }
        @if let Some(from) = timeline.partial_from {
            p.sm.soft { (page.language.fill(w::PARTIAL, &[&pt_br::format_short_minute(from)])) }
        }
    }
}

fn timeline_entry(page: &Page, entry: &TimelineEntry, currency: Currency) -> Markup {
    let kind = match entry.what {
        TimelineKind::Status => w::KIND_STATUS,
        TimelineKind::Payment => w::KIND_PAYMENT,
        TimelineKind::Refund => w::KIND_REFUND,
        TimelineKind::Case => w::KIND_CASE,
        TimelineKind::Posting => w::KIND_POSTING,
        TimelineKind::Event => w::KIND_EVENT,
        TimelineKind::Delivery => w::KIND_DELIVERY,
    };
    let state = match entry.what {
        TimelineKind::Status => {
            TransactionStatus::named(&entry.state).map(|status| status.tag(page.language))
        }
        TimelineKind::Refund => RefundStatus::named(&entry.state).map(|status| status.tag(page.language)),
        TimelineKind::Posting => serde_json::from_value(entry.state.as_str().into())
            .ok()
            .map(|kind| tag(Tone::Calm, page.say(movement_name(kind)))),
        TimelineKind::Delivery => DeliveryStatus::named(&entry.state).map(|status| status.tag(page.language)),
        TimelineKind::Case | TimelineKind::Payment | TimelineKind::Event => None,
    };
    html! {
        (page.say(kind)) " " (state.unwrap_or_else(|| tag(Tone::Calm, &entry.state)))
        @if let Some(amount) = entry.amount { " " (money(amount, currency)) }
        div.sm.soft {
            (time(entry.at))
            @if let Some(key) = &entry.by { " · " (page.language.fill(w::BY_KEY, &[&key.to_string()])) }
            @if let Some(id) = &entry.request_id { " · " (page.language.fill(w::IN_REQUEST, &[id])) }
        }
        @if let Some(details) = entry.details.as_deref().filter(|text| !text.is_empty()) { div.sm.soft { (details) } }
    }
}
