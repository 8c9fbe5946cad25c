//! Payment links: a new one, and those that there are.

use ::money::payment_link::request::PaymentLinkPage;
use axum::response::Response;
use domain::ids::PaymentLinkId;
use domain::payment_link::{LinkTotals, PaymentLink};
use maud::{Markup, html};
use pages::forms::Need;
use pages::kept::link_form;
use pages::{Cell, Tone, copy_button, hidden, money, tag, time};
use shared::http::Result;

use crate::charges::whatsapp;
use crate::visit::{Page, Visitor};
use crate::words as w;

const PATH: &str = "/dashboard/links";

/// Links on a page.
const SHOWN: usize = 25;

pub(crate) async fn list(visitor: Visitor) -> Result<Response> {
    let after = visitor.query().text("starting_after").and_then(|id| id.parse::<PaymentLinkId>().ok());
    let (page, (found, totals, urls)) = visitor
        .load(async |visit| {
            let part = PaymentLinkPage { limit: SHOWN, starting_after: after };
            let found = visit.app.links.list(&visit.scope(), part).await?;
            let totals = visit.app.links.totals_of_all(&found.items).await?;
            let urls: Vec<String> =
                found.items.iter().map(|link| visit.app.public_urls.payment_link_url(link.id)).collect();
            Ok((found, totals, urls))
        })
        .await?;
    let next = found.next_cursor.map(|id| format!("{PATH}?starting_after={id}"));
    let shown = found.items.iter().zip(totals).zip(&urls);
    let rows = shown.map(|((link, totals), url)| row(&page, link, totals, url)).collect();
    let columns = [
        (Cell::Main, w::PAYMENT_LINK),
        (Cell::Amount, w::LINK_RECEIVED),
        (Cell::Time, w::WHEN),
        (Cell::Other, w::URL),
        (Cell::State, w::STATE),
    ];
    let main = html! {
        h1 { (page.say(w::PAYMENT_LINKS)) }
        @if page.may(Need::Member) {
            section.card #new {
                h2 { (page.say(w::NEW_LINK)) }
                p.soft { (page.say(w::LINKS_MEAN)) }
                (link_form(&page.form()))
            }
        }
        div #list { (page.list((w::PAYMENT_LINKS, &columns), rows, (w::NO_LINKS, page.may(Need::Member).then_some(("#new", w::NEW_LINK))), next)) }
    };
    Ok(page.render(page.say(w::PAYMENT_LINKS), &main))
}

fn row(page: &Page, link: &PaymentLink, totals: LinkTotals, url: &str) -> Vec<Markup> {
    let in_currency = |minor| money(minor, link.currency);
    let amount = match link.amount.bounds() {
        Some((min, max)) => format!("{} – {}", in_currency(min.minor()), in_currency(max.minor())),
        None => link.amount.fixed().map(|amount| in_currency(amount.minor())).unwrap_or_default(),
    };
    let (tone, state) =
        if link.is_open(page.now) { (Tone::Good, w::LINK_OPEN) } else { (Tone::Calm, w::LINK_CLOSED) };
    let (active, word) = if link.active { ("false", w::DEACTIVATE) } else { ("true", w::ACTIVATE) };
    vec![
        html! {
            span dir="auto" { (link.description.as_deref().unwrap_or(page.say(w::PAYMENT_LINK))) }
            " " span.soft { (amount) }
            " " (page.button(&format!("{PATH}/{}/active", link.id), (word, "quiet sm"), Need::Member, &hidden("active", active)))
        },
        html! {
            (in_currency(totals.amount_paid)) " "
            span.soft { (totals.payments) @if let Some(max) = link.max_payments { "/" (max) } }
        },
        time(link.created_at),
        html! {
            @let text = [link.description.as_deref(), Some(url)].into_iter().flatten().collect::<Vec<_>>().join(" ");
            a href=(url) { (url) } " " (copy_button(page.language, w::COPY_LINK_OF, url)) " "
            a href=(whatsapp(&text)) rel="noreferrer" { (page.say(w::BY_WHATSAPP)) }
        },
        tag(tone, page.say(state)),
    ]
}
