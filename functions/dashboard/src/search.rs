//! The search: leads to the page of what was found, or to the list of charges.

use axum::response::{IntoResponse as _, Redirect, Response};
use domain::wallet::PRIMARY_CURRENCY;
use maud::{Markup, html};
use pages::{Icon, empty, facts, money, time};
use services::{Located, SearchHit, SearchQuery, locate};
use shared::http::{Query, Result};

use crate::visit::{Page, Visitor};
use crate::words as w;

pub(crate) async fn search(visitor: Visitor) -> Result<Response> {
    let text = visitor.query().text("q").unwrap_or_default().to_owned();
    let query = SearchQuery::parse(&text);
    if query.is_none() && !text.trim().is_empty() {
        return Ok(Redirect::to("/dashboard/search?error=text_too_long").into_response());
    }
    let (page, found) = visitor
        .load(async |visit| {
            let Some(query) = &query else { return Ok(None) };
            let salt = visit.session.account.salt.as_bytes();
            Ok(locate(&visit.app.store, &visit.sharded_scope(), salt, query, &text, visit.now).await?)
        })
        .await?;
    if let Some(path) = found.as_ref().zip(query.as_ref()).and_then(|(found, query)| path_of(found, query)) {
        return Ok(Redirect::to(&format!("/dashboard/{path}")).into_response());
    }
    let main = html! {
        h1 { (page.say(w::SEARCH_TITLE)) }
        @match &found {
            Some(Located::Hit(hit)) => section.card { (without_page(&page, hit)) },
            _ if text.is_empty() => (empty(Icon::Search, page.say(w::SEARCH_HELP), None)),
            _ => {
                p.card dir="auto" { strong { (page.language.fill(w::SEARCH_NOTHING, &[&text])) } }
                (empty(Icon::Search, page.say(w::SEARCH_HELP), None))
            },
        }
        p.soft { (page.say(w::NAMES_FOUND)) " " (page.say(w::SEARCH_NOT)) }
    };
    Ok(page.render(page.say(w::SEARCH_TITLE), &main))
}

/// The page of an object, below `/dashboard/`; that of its charge, or the movement in the statement.
fn path_of(found: &Located, query: &SearchQuery) -> Option<String> {
    let charge = |id| format!("charges/{id}");
    Some(match found {
        Located::Charge(id) => charge(*id),
        Located::List(name, value) => format!("charges?{}", Query::parse(None).with(name, value)),
        Located::Hit(SearchHit::Charge(found)) => charge(found.id),
        Located::Hit(SearchHit::Payment(payment)) => charge(payment.charge_id()?),
        Located::Hit(SearchHit::Refund(refund)) => charge(refund.id.charge()),
        Located::Hit(SearchHit::Case(case)) => format!("disputes/{}", case.id),
        // A row of several events has another id than each of them.
        Located::Hit(SearchHit::Event(event)) => match query {
            SearchQuery::Event(id) => format!("events/{id}"),
            _ => format!("events/{}", event.id),
        },
        Located::Hit(SearchHit::Delivery(delivery)) => format!("deliveries/{}", delivery.id),
        Located::Hit(SearchHit::Endpoint(endpoint)) => format!("webhooks/{}", endpoint.id),
        Located::Hit(SearchHit::Posting(posting)) => {
            let at = posting.dated_at();
            format!("wallet?currency={}&created_after={at}&created_before={at}", posting.currency)
        }
        Located::Hit(SearchHit::Payout(payout)) => format!("payouts?id={}", payout.id),
    })
}

/// What is known of a payment that belongs to no charge.
fn without_page(page: &Page, hit: &SearchHit) -> Markup {
    let SearchHit::Payment(payment) = hit else { return html! {} };
    facts(vec![
        (page.say(w::KIND_PAYMENT), html! { code { (payment.payment_id) } }),
        (page.say(w::AMOUNT), html! { (money(payment.amount.minor(), PRIMARY_CURRENCY)) }),
        (page.say(w::WHEN), time(payment.paid_at)),
    ])
}
