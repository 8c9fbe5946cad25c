//! The list of charges, and one charge.

use std::collections::{BTreeSet, HashMap};

use axum::response::Response;
use domain::charge::{
    Charge, IncomingPayment, LookupValue, PayerAddress, PublicStatus, RefundRefused, StoredCharge,
    TransactionStatus,
};
use domain::hex;
use domain::ids::{ApiKeyId, ChargeId, Scoped as _};
use domain::money::MinorUnits;
use domain::payment_method::PaymentMethod;
use domain::report::ReportKind;
use domain::row::Key;
use domain::time::Timestamp;
use domain::vocabulary::Vocabulary;
use domain::wallet::ReturnStatus;
use effects::webhook::delivery::DeliveryStatus;
use maud::{Markup, html};
use money::charge::{CHARGES_QUERY, ChargeFilter};
use money::refund::{RefundError, refusal};
use pages::forms::Need;
use pages::kept::{Form, charge_form, refund_form};
use pages::{
    Cell, Icon, ReceiptDetails, Tone, Word, alert, announced, copy_button, facts, masked_payer, money,
    path_with, tag, time, without_documents,
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use services::{ChargeRows, ChargeTimeline, TimelineEntry, TimelineFact, TimelinePart, charge_timeline};
use sha2::{Digest, Sha256};
use shared::http::{IdPath, Problem, Query, Result};
use shared::store::Store;

use crate::account::{AUDIT, ActorEmails, short};
use crate::fields::rule;
use crate::received::{self, Totals};
use crate::reports;
use crate::states::{BackWords, State as _, all, charge_tag, short_tag};
use crate::translations::{details_of, failure_reason, refund_failure, refund_reason, sentence, words_of};
use crate::visit::{Page, Visitor};
use crate::webhooks::{pretty, resend_button};
use crate::words as w;

pub(crate) const PATH: &str = "/dashboard/charges";

/// How long after the last change a charge still refreshes, in milliseconds.
const SETTLED_AFTER_MS: i64 = 60_000;

/// A filter of the page alone: charges of the other methods are left out, so a page may be short.
pub(crate) const METHOD: &str = "method";

/// Parts of the list that are read until one has a charge that the filters leave.
const MOST_PAGES: usize = 5;

/// The filter of the charges of a payment link, which its page has.
pub(crate) const LINK: &str = "payment_link";

const FILTERS: [&str; 13] = [
    METHOD,
    LINK,
    "amount",
    "order_id",
    "customer_id",
    "customer_email",
    "customer_name",
    "end_to_end_id",
    "txid",
    "created_after",
    "created_before",
    "paid_after",
    "paid_before",
];

pub(crate) async fn list(visitor: Visitor) -> Result<Response> {
    let query = visitor.query();
    let is_received = received::is_asked(&query);
    let (filter, method) = match filter_of(&query, is_received) {
        Ok(filter) => filter,
        Err(problem) => return refused(visitor, &query, &problem).await,
    };
    if is_received {
        return match received::statement_of(&query) {
            Ok(statement) => received::list(visitor, (filter, method), statement).await,
            Err(problem) => refused(visitor, &query, &problem).await,
        };
    }
    let (visit, cursor) =
        visitor.enter(async |visitor| Ok(visitor.app.charges.find(filter.starting_after).await?)).await?;
    let (page, (found, totals)) = visit
        .load(async |visit| {
            let charges = &visit.app.charges;
            let salt = visit.session.account.salt.as_bytes();
            let (part, scope) = ((&filter, cursor), visit.sharded_scope());
            let (found, totals) = tokio::join!(
                Box::pin(charges.list_on(&scope, salt, part, MOST_PAGES, visit.now)),
                Box::pin(Totals::of_list(&visit.app.rollups, visit, &query, (filter.status, method))),
            );
            Ok((found?, totals?))
        })
        .await?;
    let shown =
        found.items.iter().filter(|charge| method.is_none_or(|method| charge.methods.contains(&method)));
    let rows: Vec<Vec<Markup>> = shown.map(|charge| row(&page, charge)).collect();
    let is_by_name = rows.is_empty() && query.text("customer_name").is_some();
    let next =
        found.next_cursor.map(|id| format!("{PATH}?{}", query.with("starting_after", &id.to_string())));
    let none = if is_filtered(&query) {
        (w::NO_CHARGES_FOUND, Some((PATH, w::CLEAR_FILTERS)))
    } else {
        (w::NO_CHARGES, page.new_charge())
    };
    let main = html! {
        div.head {
            h1 { (page.say(w::CHARGES)) }
            p {
                (reports::link(&page, ReportKind::Payments, &query)) " · "
                a href="/dashboard/refunds" { (page.say(w::REFUNDS)) } " "
                @if page.may(Need::Member) { a.btn href={ (PATH) "/new" } { (Icon::Plus) (page.say(w::NEW_CHARGE)) } }
            }
        }
        (chips(&page, &query))
        (filters(&page, &query, None))
        div #list data-refresh="10" {
            (totals.render(&page))
            (page.list((w::CHARGES, &COLUMNS), rows, none, next))
            @if is_by_name { p.soft { (page.say(w::NAMES_FOUND)) } }
        }
        (page.sizes())
    };
    Ok(page.render(page.say(w::CHARGES), &main))
}

/// The form with what was typed and the rule beside each refused field, in place of the list.
async fn refused(visitor: Visitor, query: &Query, problem: &Problem) -> Result<Response> {
    let (page, ()) = visitor.load(async |_| Ok(())).await?;
    let main = html! {
        h1 { (page.say(w::CHARGES)) }
        (announced(Tone::Bad, &html! { (page.say(w::of_code(problem.code()))) }))
        (chips(&page, query))
        (filters(&page, query, Some(problem)))
        p { a href=(PATH) { (page.say(w::CLEAR_FILTERS)) } }
    };
    let mut response = page.render(page.say(w::CHARGES), &main);
    *response.status_mut() = problem.status();
    Ok(response)
}

/// The filter of the API, and the method, which is a filter of the page alone. People write amounts with a comma.
/// `is_received`: the cursor is a movement.
fn filter_of(query: &Query, is_received: bool) -> Result<(ChargeFilter, Option<PaymentMethod>)> {
    let known = query.known(CHARGES_QUERY).only(|name| !is_received || name != "starting_after");
    Ok((
        ChargeFilter::parse_typed(&known)?.with_bare_documents(),
        query.text(METHOD).and_then(PaymentMethod::named),
    ))
}

fn is_filtered(query: &Query) -> bool {
    FILTERS.iter().chain(&["status", "starting_after"]).any(|name| query.text(name).is_some())
}

/// Whether the list has another filter than its status and these. A form sends empty fields, too.
pub(crate) fn is_filtered_but(query: &Query, names: &[&str]) -> bool {
    FILTERS.iter().any(|name| !names.contains(name) && query.text(name).is_some())
}

/// The columns of [`row`].
pub(crate) const COLUMNS: [(Cell, Word); 5] = [
    (Cell::Main, w::CUSTOMER_AND_ORDER),
    (Cell::Time, w::CREATED),
    (Cell::Other, w::METHOD),
    (Cell::State, w::STATE),
    (Cell::Amount, w::AMOUNT),
];

pub(crate) fn row(page: &Page, charge: &Charge) -> Vec<Markup> {
    row_at(page, charge, charge.created_at)
}

pub(crate) fn row_at(page: &Page, charge: &Charge, at: Timestamp) -> Vec<Markup> {
    vec![
        html! { a href={ (PATH) "/" (charge.id) } dir="auto" { (title(page, charge)) } },
        page.when(at),
        html! { (page.say(w::of_method(charge.method()))) },
        short_tag(charge, page.language),
        html! { (money(charge.amount.minor(), charge.currency)) },
    ]
}

/// What people know a charge by: its customer, or else its description, and its order; or else the customer's e-mail
/// address, or a part of its id.
pub(crate) fn title(page: &Page, charge: &Charge) -> String {
    let masked = |text: String| Some(without_documents(&text)).filter(|text| !text.trim().is_empty());
    let who = charge.customer_name(page.session.user.role);
    let who = who.or_else(|| description(charge).and_then(masked));
    let known: Vec<String> = who.into_iter().chain(order(charge)).collect();
    if !known.is_empty() {
        return known.join(" · ");
    }
    charge.customer.email.clone().and_then(masked).unwrap_or_else(|| short(&charge.id.to_string(), 14))
}

/// The titles of the charges of other rows, such as disputes.
pub(crate) type Titles = HashMap<ChargeId, String>;

pub(crate) fn titles(page: &Page, charges: &[StoredCharge]) -> Titles {
    let title = |charge: &StoredCharge| (charge.as_stored().id, title(page, charge.as_stored()));
    charges.iter().map(title).collect()
}

/// Reads the charges of other rows, each once.
pub(crate) async fn of_rows(store: &Store, ids: impl Iterator<Item = ChargeId>) -> Result<Vec<StoredCharge>> {
    let ids: BTreeSet<ChargeId> = ids.collect();
    Ok(store.get_in_order(&ids.into_iter().map(Charge::key_of).collect::<Vec<Key>>()).await?)
}

pub(crate) fn description(charge: &Charge) -> Option<String> {
    charge.metadata.text("description").filter(|text| !text.trim().is_empty())
}

/// A shop may use a document as its order number.
pub(crate) fn order(charge: &Charge) -> Option<String> {
    charge.metadata.order_number().map(|order| without_documents(&order))
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
    let word = |status: PublicStatus| {
        if status == PublicStatus::Refunded { w::REFUNDED_OR_REVERSED } else { status.shown().1 }
    };
    let choices = statuses.map(|status| (status.into(), page.say(word(status))));
    let path = format!("{PATH}?{}", query.only(|name| FILTERS.contains(&name)).encoded());
    pages::chips(page.say(w::STATE), (path.trim_end_matches('?'), "status"), chosen, all(page).chain(choices))
}

pub(crate) fn filters(page: &Page, query: &Query, problem: Option<&Problem>) -> Markup {
    let method = query.text(METHOD).unwrap_or_default();
    let all = std::iter::once(("", page.say(w::ALL_METHODS)));
    let methods =
        PaymentMethod::vocabulary().into_iter().map(|(name, each)| (name, page.say(w::of_method(each))));
    let field = |name: &str, kind: &str, label: &str| {
        let is_refused = problem.is_some_and(|problem| problem.params().contains(&name));
        field((name, kind, label), query, is_refused.then(|| page.say(rule(name))))
    };
    let fields = html! {
        @for name in ["status", LINK] {
            @if let Some(value) = query.text(name) { (pages::hidden(name, value)) }
        }
        (field("created_after", "date", page.say(w::FROM)))
        (field("created_before", "date", page.say(w::TO)))
        (field("paid_after", "date", page.say(w::PAID_FROM)))
        (field("paid_before", "date", page.say(w::PAID_TO)))
        (field("amount", "text", page.say(w::AMOUNT)))
        (field("order_id", "text", page.say(w::ORDER)))
        (field("customer_id", "text", page.say(w::DOCUMENT)))
        (field("customer_email", "email", page.say(w::EMAIL)))
        (field("customer_name", "text", page.say(w::CUSTOMER)))
        (field("end_to_end_id", "text", "End-to-end id"))
        (field("txid", "text", "txid"))
        (pages::choice(page.say(w::METHOD), (METHOD, METHOD), method, all.chain(methods)))
    };
    page.filters(PATH, (query, &FILTERS, problem.is_some()), &fields)
}

/// `rule`: what the value must be, if it was refused.
pub(crate) fn field((name, kind, label): (&str, &str, &str), query: &Query, rule: Option<&str>) -> Markup {
    let id = format!("{name}-rule");
    html! {
        div.f {
            label for=(name) { (label) }
            input id=(name) name=(name) type=(kind) value=[query.text(name)]
                aria-invalid=[rule.map(|_| "true")] aria-describedby=[rule.map(|_| &id)];
            @if let Some(rule) = rule { p.sm.bad id=(id) { (rule) } }
        }
    }
}

pub(crate) async fn show(visitor: Visitor, IdPath(id): IdPath<ChargeId>) -> Result<Response> {
    let (visit, rows) = visitor.enter(async |visitor| own_rows(visitor, id, "charge").await).await?;
    let (page, (timeline, emails)) = visit
        .load(async |visit| {
            let store = &visit.app.store;
            let timeline = charge_timeline(store, rows, TimelinePart::Newest, visit.now).await?;
            let actors = timeline.entries.iter().filter_map(|entry| entry.by.as_deref());
            let emails = ActorEmails::read(store, actors).await?;
            Ok((timeline, emails))
        })
        .await?;
    let ChargeTimeline { charge, refunds, cases, .. } = &timeline;
    let heading = order(charge)
        .map_or_else(|| page.say(w::CHARGE).to_owned(), |order| format!("{} {order}", page.say(w::ORDER)));
    let main = html! {
        p.crumb { a href=(PATH) { (page.say(w::CHARGES)) } " / " span dir="auto" { (heading) } }
        div #charge data-refresh=[may_change(&timeline, page.now).then_some("10")] {
            h1 {
                (money(charge.amount.minor(), charge.currency)) " " (charge_tag(charge, page.language))
            }
            @if charge.is_held_for_review() { (alert(Tone::Warn, &html! { (page.say(w::HELD_MEANS)) })) }
            p.soft {
                (page.say(w::of_method(charge.method()))) " · " (time(charge.created_at))
                @if let Some(customer) = charge.customer_name(page.session.user.role) { " · " span dir="auto" { (customer) } }
            }
            (actions(&page, charge, cases.is_empty())?)
            @if charge.is_open() { (share(&page, charge)) }
            div.two {
                div {
                    section.card {
                        h2 { (page.say(w::TIMELINE)) }
                        (timeline_list(&page, &timeline, &emails))
                    }
                    @for case in cases {
                        section.card {
                            h2 { a href={ "/dashboard/disputes/" (case.id) } { (page.say(w::KIND_CASE)) } " " (case.status.tag(page.language)) }
                            p { (money(case.amount.minor(), case.currency)) " · " (time(case.created_at)) }
                        }
                    }
                    @if !refunds.is_empty() {
                        section.card {
                            (page.table(BackWords::of(charge).kind, &[
                                (Cell::Time, w::CREATED),
                                (Cell::Main, w::ID),
                                (Cell::State, w::STATE),
                                (Cell::Amount, w::AMOUNT),
                                (Cell::Other, w::REASON),
                            ], refunds.iter().map(|refund| vec![
                                time(refund.created_at),
                                html! { code { (refund.id) } },
                                BackWords::of(charge).tag(refund.status, page.language),
                                html! { (money(refund.share.gross.minor(), refund.currency)) },
                                html! {
                                    @if let Some(reason) = &refund.reason { (refund_reason(page.language, reason)) " " }
                                    @if let Some(failure) = &refund.failure_reason { (refund_failure(page.language, failure)) }
                                },
                            ]).collect()))
                        }
                    }
                }
                div {
                    (kept_sum(&page, &timeline)?)
                    (customer_card(&page, charge))
                    section.card { h2 { (page.say(w::DATA)) } (data(&page, charge)?) }
                    (metadata(&page, charge))
                    section.card {
                        details {
                            summary { (page.say(w::SAME_BY_API)) }
                            (pages::code_block(page.language, &page.curl(&format!("/v1/charges/{}", charge.id))))
                        }
                    }
                }
            }
        }
    };
    Ok(page.render(&heading, &main))
}

pub(crate) async fn receipt(visitor: Visitor, IdPath(id): IdPath<ChargeId>) -> Result<Response> {
    let (visit, rows) = visitor.enter(async |visitor| own_rows(visitor, id, "charge").await).await?;
    let (page, ()) = visit.load(async |_| Ok(())).await?;
    let ChargeRows { charge, refunds, .. } = &rows;
    let charge = charge.as_stored();
    let details = ReceiptDetails {
        payer: charge.customer_name(page.session.user.role),
        document: masked_payer(charge),
        refunds,
    };
    let receipt = pages::receipt(charge, &page.session.account, details, page.language);
    let main = html! {
        p.crumb { a href={ (PATH) "/" (charge.id) } { (page.say(w::CHARGE)) } }
        (receipt.ok_or(Problem::NotFound { what: "receipt" })?)
    };
    Ok(page.render(page.say(w::RECEIPT), &main))
}

/// The rows of a charge of the page's scope, which have the object `what`.
pub(crate) async fn own_rows(
    visitor: &Visitor,
    id: Option<ChargeId>,
    what: &'static str,
) -> Result<ChargeRows> {
    let unknown = || Problem::NotFound { what };
    let rows = ChargeRows::read(&visitor.app.store, id.ok_or_else(unknown)?).await?;
    rows.filter(|rows| rows.scope() == visitor.scope()).ok_or_else(unknown)
}

pub(crate) async fn new(visitor: Visitor) -> Result<Response> {
    let (page, ()) = visitor.load(async |_| Ok(())).await?;
    let main = html! {
        p.crumb { a href=(PATH) { (page.say(w::CHARGES)) } }
        h1 { (page.say(w::NEW_CHARGE)) }
        @if page.may(Need::Member) { section.card { (charge_form(&page.form())) } }
        @else { (alert(Tone::Warn, &html! { (page.say(w::of_code("role_required"))) })) }
    };
    Ok(page.render(page.say(w::NEW_CHARGE), &main))
}

/// A text in a URL. Other programs show `+` as it is.
fn percent(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// Opens `WhatsApp` with a text, for whom its user chooses. The page stays open beside it.
pub(crate) fn whatsapp(page: &Page, class: &str, text: &str) -> Markup {
    html! {
        a class=[Some(class).filter(|class| !class.is_empty())] href={ "https://wa.me/?text=" (percent(text)) }
            target="_blank" rel="noopener" { (page.say(w::BY_WHATSAPP)) }
    }
}

/// How the payer gets the link of a charge that can be paid.
fn share(page: &Page, charge: &Charge) -> Markup {
    let url = page.app.public_urls.checkout_url(charge.id);
    let amount = money(charge.amount.minor(), charge.currency);
    let text = page.language.fill(w::PAY_HERE, &[&amount, &url]);
    let shop = page.session.account.shop_name();
    let mail = format!(
        "mailto:{}?subject={}&body={}",
        percent(charge.customer.email.as_deref().unwrap_or_default()).replace("%40", "@"),
        percent(&format!("{shop}: {amount}")),
        percent(&text),
    );
    let picture = html! {
        @if charge.artefacts.pix.is_some() {
            img src={ "/checkout/" (charge.id.raw()) "/qr.png" } width="160" height="160" alt=(page.say(w::QR_OF_CHARGE));
        }
    };
    let more = html! { a.btn.quiet href=(mail) { (page.say(w::EMAIL)) } };
    share_card(page, &picture, (&url, &text), (&url, &more))
}

/// How a customer gets a link: by a message, or on the screen of the shop, whose page is `counter`.
pub(crate) fn share_card(
    page: &Page,
    picture: &Markup,
    (url, text): (&str, &str),
    (counter, more): (&str, &Markup),
) -> Markup {
    html! {
        section.card {
            h2 { (page.say(w::SEND_LINK_TO_CUSTOMER)) }
            div.share {
                (picture)
                div.fields {
                    div.f { label for="link" { (page.say(w::PAYMENT_LINK)) } input #link type="text" readonly value=(url); }
                    div.actions {
                        (whatsapp(page, "btn quiet", text))
                        a.btn.quiet href=(counter) target="_blank" rel="noopener" { (page.say(w::AT_COUNTER)) }
                        (more)
                    }
                }
            }
        }
    }
}

/// What the user may do with the charge now, in one row. In the place of an action that would be refused, the menu says
/// why.
fn actions(page: &Page, charge: &Charge, has_no_case: bool) -> Result<Markup> {
    let action = |name: &str| format!("{PATH}/{}/{name}", charge.id);
    let checkout = page.app.public_urls.checkout_url(charge.id);
    let refundable = charge.funds.refundable(charge.amount)?;
    let is_paid = matches!(charge.status, TransactionStatus::Paid | TransactionStatus::Approved);
    let simulate = |(outcome, word): (&str, Word), class| {
        page.button(&action("simulate"), (word, class), Need::Member, &pages::hidden("outcome", outcome))
    };
    let others: &[(&str, Word)] = if !page.is_test() {
        &[]
    } else if charge.is_open() {
        &[("declined", w::SIMULATE_DECLINED), ("expired", w::SIMULATE_EXPIRED)]
    } else if is_paid && has_no_case {
        &[("disputed", w::SIMULATE_DISPUTED)]
    } else {
        &[]
    };
    let (is_shown, refused) = (page.shows(Need::Member), refund_refused(page, charge));
    Ok(html! {
        div.actions {
            @if page.is_test() && charge.is_open() { (simulate(("paid", w::SIMULATE_PAID), "")) }
            (copy_button(page.language, w::COPY_LINK, &checkout))
            @if is_shown && refused.is_none() {
                details.pop {
                    summary.btn.quiet { (Icon::Undo) (page.say(BackWords::of(charge).action)) }
                    div.card {
                        @let form = Form { key: &refund_key(page, charge), ..page.form() };
                        (refund_form(&form, &action("refund"), charge, refundable))
                    }
                }
            }
            details.pop {
                summary.btn.quiet { (Icon::Ellipsis) (page.say(w::MORE)) }
                div.card {
                    a href=(checkout) target="_blank" rel="noopener" { (page.say(w::CHECKOUT_PAGE)) }
                    @if charge.settlement.is_some() { a href={ (PATH) "/" (charge.id) "/receipt" } { (page.say(w::RECEIPT)) } }
                    (copy_button(page.language, w::COPY_ID, &charge.id.to_string()))
                    @for other in others { (simulate(*other, "quiet")) }
                    @if is_shown {
                        @if let Some(why) = refused { (refused_action(page, BackWords::of(charge).action, why)) }
                        @if charge.is_open() || charge.is_held_for_review() {
                            (page.confirmed(&action("cancel"), (w::CANCEL, "danger"), Need::Admin, w::CANCEL_ASK))
                        } @else {
                            (refused_action(page, w::CANCEL, w::of_code("payment_not_cancellable")))
                        }
                    }
                }
            }
        }
    })
}

/// What became of the money: the amount, what was taken from it, and what the shop keeps. The movements of the ledger
/// say what it keeps, so the fees are the rest.
fn kept_sum(page: &Page, timeline: &ChargeTimeline) -> Result<Markup> {
    let (charge, funds) = (&timeline.charge, &timeline.charge.funds);
    if charge.settlement.is_none() || !timeline.is_complete {
        return Ok(html! {});
    }
    let amount = MinorUnits::from(charge.amount);
    // The payer sent it to the shop itself, so that no movement has it.
    let own = if charge.method().is_self_custody() { amount } else { MinorUnits::ZERO };
    let kept = timeline.postings.iter().try_fold(own, |sum, posting| sum.checked_add(posting.net()?))?;
    let (refunded, lost) = (funds.refunded()?, funds.med_lost);
    let reserved = funds.devolution_reserved.checked_add(funds.cashout_reserved)?;
    let fees = amount.checked_sub(MinorUnits::checked_sum([kept, refunded, reserved, lost])?)?;
    let less = |minor: MinorUnits| -> Result<Markup> {
        let text = money(MinorUnits::ZERO.checked_sub(minor)?.get(), charge.currency);
        Ok(html! { @if !minor.is_zero() { (text) } })
    };
    Ok(html! {
        section.card.sum {
            h2 { (page.say(w::MONEY)) }
            (facts(vec![
                (page.say(w::AMOUNT), html! { (money(amount.get(), charge.currency)) }),
                (page.say(w::FEE), less(fees)?),
                (page.say(BackWords::of(charge).sum), less(refunded)?),
                (page.say(BackWords::of(charge).in_progress), less(reserved)?),
                (page.say(w::DISPUTE_LOST), less(lost)?),
                (page.say(w::KEPT), html! { (money(kept.get(), charge.currency)) }),
            ]))
            @if !funds.med_held.is_zero() {
                p.sm.soft { (page.language.fill(w::RETAINED_IS, &[&money(funds.med_held.get(), charge.currency)])) }
            }
        }
    })
}

/// The customer, with a link to all their charges: by the e-mail address, or by the name if the role sees it whole. A
/// document is never in a link.
fn customer_card(page: &Page, charge: &Charge) -> Markup {
    let role = page.session.user.role;
    let (name, email) = (charge.customer_name(role), charge.customer.email.as_deref());
    let document = masked_payer(charge);
    let text = |text: Option<&str>| html! { @if let Some(text) = text { span dir="auto" { (without_documents(text)) } } };
    let all = match (email, &charge.customer.name) {
        (Some(email), _) => Some(("customer_email", email)),
        (None, Some(name)) if role.sees_names() && LookupValue::name(name).is_some() => {
            Some(("customer_name", name.as_str()))
        }
        (None, _) => None,
    };
    html! {
        @if name.is_some() || email.is_some() || document.is_some() || charge.customer.phone.is_some() {
            section.card {
                h2 { (page.say(w::CUSTOMER)) }
                (facts(vec![
                    (page.say(w::NAME), text(name.as_deref())),
                    (page.say(w::DOCUMENT), html! {
                        @if let Some(masked) = document {
                            (masked) " "
                            (page.button(&format!("{PATH}/{}/document", charge.id), (w::REVEAL, "quiet sm"), Need::Admin, &html! {}))
                        }
                    }),
                    (page.say(w::EMAIL), text(email)),
                    (page.say(w::PHONE), text(charge.customer.phone.as_deref())),
                ]))
                @if let Some(all) = all { p { a href=(path_with(PATH, &[all])) { (page.say(w::ALL_OF_CUSTOMER)) } } }
            }
        }
    }
}

/// The same until the charge changes, so that a form that is sent twice refunds once, and a page that did not
/// change has the same `ETag`.
fn refund_key(page: &Page, charge: &Charge) -> String {
    let user = page.session.user.id;
    hex::encode(Sha256::digest(format!("refund {user} {} {}", charge.id, charge.version)))
        .chars()
        .take(32)
        .collect()
}

fn refused_action(page: &Page, label: Word, why: Word) -> Markup {
    html! { p.sm { strong { (page.say(label)) ":" } " " span.soft { (page.say(why)) } } }
}

/// Why the service would refuse a refund now, if the balance covers it.
fn refund_refused(page: &Page, charge: &Charge) -> Option<Word> {
    match refusal(charge, &page.session.account.settings, page.now)? {
        RefundError::TooOldForDevolution => Some(w::REFUND_TOO_LATE),
        RefundError::Refused { why: RefundRefused::ExceedsRemaining { .. }, .. }
        | RefundError::Refused { status: TransactionStatus::Refunded, .. } => {
            Some(BackWords::of(charge).nothing_left)
        }
        error => Some(w::of_code(Problem::from(error).code())),
    }
}

/// Whether the page may change although the user does nothing.
fn may_change(timeline: &ChargeTimeline, now: Timestamp) -> bool {
    let ChargeTimeline { charge, refunds, cases, payments, entries, .. } = timeline;
    let waits = |entry: &TimelineEntry| matches!(&entry.fact, TimelineFact::Delivery(delivery) if !delivery.is_done());
    let is_returning = |payment: &IncomingPayment| {
        payment.returned.as_ref().is_some_and(|returned| returned.status == ReturnStatus::Requested)
    };
    charge.is_open()
        || charge.is_held_for_review()
        || refunds.iter().any(|refund| !refund.is_done())
        || cases.iter().any(|case| !case.status.is_over())
        || payments.iter().any(is_returning)
        || entries.iter().any(waits)
        // The events of a change, and their deliveries, appear some seconds after it.
        || entries.last().is_some_and(|last| now.millis_since(last.at) < SETTLED_AFTER_MS)
}

fn data(page: &Page, charge: &Charge) -> Result<Markup> {
    let (settlement, paid) = (charge.settlement.as_ref(), charge.applied_payment.as_ref());
    let refundable = settlement.map(|_| charge.funds.refundable(charge.amount)).transpose()?;
    let is_by_pix = charge.paid_with().map_or(charge.is_open(), |method| method == PaymentMethod::Pix);
    let text = |text: Option<&str>| html! { @if let Some(text) = text { (without_documents(text)) } };
    Ok(facts(vec![
        ("Id", html! { code { (charge.id) } }),
        (page.say(w::ORDER), text(order(charge).as_deref())),
        (page.say(w::DESCRIPTION), text(description(charge).as_deref())),
        (
            page.say(BackWords::of(charge).left),
            html! { @if let Some(minor) = refundable { (money(minor.get(), charge.currency)) } },
        ),
        (page.say(paid_word(charge)), paid.map(|paid| time(paid.paid_at)).unwrap_or_default()),
        (
            "End-to-end id",
            html! { @if let Some(paid) = paid.filter(|paid| paid.method == PaymentMethod::Pix) { code { (paid.payment_id) } } },
        ),
        ("txid", html! { @if charge.artefacts.pix.is_some() && is_by_pix { code { (charge.id.txid()) } } }),
        (
            page.say(w::EXPIRES),
            if charge.is_open() {
                time(charge.expires_at())
            } else {
                html! {}
            },
        ),
        (
            page.say(w::REASON),
            html! { @if let Some(failure) = &charge.failure { (failure_reason(page.language, &failure.reason)) } },
        ),
    ]))
}

/// A payment that is held for review, or that was returned at once, has arrived, and the charge is not paid.
pub(crate) fn paid_word(charge: &Charge) -> Word {
    if charge.settlement.is_some() { w::PAID } else { w::RECEIVED }
}

fn metadata(page: &Page, charge: &Charge) -> Markup {
    let mut map = charge.metadata.to_map();
    if let Some(address) = map.get_mut(PayerAddress::KEY) {
        *address = "***".into();
    }
    html! {
        @if !map.is_empty() {
            section.card {
                details {
                    summary { (page.say(w::METADATA)) }
                    pre tabindex="0" { (pretty(page, &map.into())) }
                }
            }
        }
    }
}

/// The steps in sentences, newest first, and the technical ones folded.
fn timeline_list(page: &Page, timeline: &ChargeTimeline, emails: &ActorEmails) -> Markup {
    let said = |entry: &&TimelineEntry| sentence(page.language, timeline, entry, None).is_some();
    let (steps, technical): (Vec<_>, Vec<_>) = timeline.merchants_entries().rev().partition(said);
    let requests: Vec<_> =
        steps.iter().filter_map(|entry| Some((*entry, entry.request_id.as_deref()?))).collect();
    let folded = technical.len().saturating_add(requests.len());
    let decline = timeline.charge.last_decline.as_ref();
    let has_failed = technical.iter().any(|entry| matches!(&entry.fact, TimelineFact::Delivery(delivery) if delivery.status == DeliveryStatus::Failed));
    html! {
        ol.line {
            @for (index, entry) in steps.iter().enumerate() {
                // The first step is the creation. The time of a decline is not stored.
                @if let Some(decline) = decline.filter(|_| index.saturating_add(1) == steps.len()) {
                    li { (page.say(w::TRY_DECLINED)) div.sm.soft { (failure_reason(page.language, decline)) } }
                }
                li { (step(page, timeline, entry)) (about(page, emails, entry)) }
            }
        }
        @if folded > 0 {
            details {
                summary {
                    (page.language.fill(w::TECHNICAL, &[&folded.to_string()]))
                    @if has_failed { " " (tag(Tone::Bad, page.say(w::DELIVERY_FAILED))) }
                }
                ol.line {
                    @for entry in technical {
                        li { (timeline_entry(page, (timeline, emails), entry)) (resend(page, timeline, entry)) }
                    }
                    @for (entry, id) in requests {
                        li { (step(page, timeline, entry)) div.sm.soft { (page.language.fill(w::IN_REQUEST, &[id])) } }
                    }
                }
            }
        }
        @if !timeline.is_complete { p.sm.soft { (page.say(w::PARTIAL)) } }
    }
}

/// The customer, unless another document paid.
fn paying_customer(page: &Page, charge: &Charge) -> Option<String> {
    let paid = charge.applied_payment.as_ref().and_then(|paid| paid.payer_document);
    let asked = charge.customer.document.as_ref().and_then(domain::tax_id::Document::tax_id);
    let is_other = paid.zip(asked).is_some_and(|(paid, asked)| paid != asked);
    charge.customer_name(page.session.user.role).filter(|_| !is_other)
}

/// A step as a sentence; that of a dispute leads to it.
fn step(page: &Page, timeline: &ChargeTimeline, entry: &TimelineEntry) -> Markup {
    let payer = paying_customer(page, &timeline.charge);
    let said = sentence(page.language, timeline, entry, payer.as_deref());
    let Some((text, state)) = said else { return html! {} };
    html! {
        @match (&entry.fact, &entry.id) {
            (TimelineFact::Case(..), Some(id)) => a href={ "/dashboard/disputes/" (id) } { (text) },
            _ => (text),
        }
        @if let Some((tone, word)) = state { " " (tag(tone, page.say(word))) }
    }
}

/// When a step was, who did it, and what is known beside it.
fn about(page: &Page, emails: &ActorEmails, entry: &TimelineEntry) -> Markup {
    html! {
        div.sm.soft {
            (time(entry.at))
            @if let Some(by) = &entry.by {
                @let is_key = by.parse::<ApiKeyId>().is_ok();
                " · " @if !is_key { (page.say(w::BY)) " " }
                a href={ (AUDIT) "?actor=" (by) } title=(by) { @if is_key { (page.say(w::BY_API)) } @else { (emails.name_of(by)) } }
            }
        }
        @if let Some(details) = details_of(page.language, entry) { div.sm.soft { (details) } }
    }
}

fn timeline_entry(
    page: &Page,
    (timeline, emails): (&ChargeTimeline, &ActorEmails),
    entry: &TimelineEntry,
) -> Markup {
    let (kind, state) = words_of(&timeline.charge, entry);
    html! {
        @match (&entry.fact, &entry.id) {
            (TimelineFact::Delivery(_), Some(id)) => a href={ "/dashboard/deliveries/" (id) } { (page.say(kind)) },
            (TimelineFact::Event(_), Some(id)) => a href={ "/dashboard/events/" (id) } { (page.say(kind)) },
            (TimelineFact::Case(..), Some(id)) => a href={ "/dashboard/disputes/" (id) } { (page.say(kind)) },
            _ => (page.say(kind)),
        }
        " " (state.map_or_else(|| tag(Tone::Calm, &entry.state), |(tone, word)| tag(tone, page.say(word))))
        @if let Some(amount) = entry.amount { " " (money(amount, timeline.charge.currency)) }
        (about(page, emails, entry))
    }
}

fn resend(page: &Page, timeline: &ChargeTimeline, entry: &TimelineEntry) -> Markup {
    let TimelineFact::Delivery(delivery) = &entry.fact else { return html! {} };
    let endpoint = timeline.endpoints.iter().find(|endpoint| Some(endpoint.id) == delivery.endpoint);
    let event = timeline.events.iter().find(|event| event.id == delivery.event);
    let has_event = event.is_some_and(|event| event.is_kept(page.now));
    resend_button(page, delivery, (has_event, endpoint), "quiet sm")
}
