//! Payment links: a new one, and those that there are.

use ::money::payment_link::request::PaymentLinkPage;
use axum::http::StatusCode;
use axum::response::Response;
use domain::charge::LookupValue;
use domain::ids::PaymentLinkId;
use domain::payment_link::{LinkTotals, PaymentLink};
use maud::{Markup, html};
use money::charge::ChargeFilter;
use pages::forms::Need;
use pages::kept::{link_change_form, link_form};
use pages::{
    Cell, Document, Tone, Word, copy_button, facts, hidden, money, path_with, qr_picture, tag, time,
};
use shared::http::{IdPath, Query, Result};

use crate::charges::{self, share_card, whatsapp};
use crate::visit::{Page, Visitor};
use crate::words as w;

const PATH: &str = "/dashboard/links";

/// Links on a page.
const SHOWN: usize = 25;

/// Charges on the page of a link. The list of charges has the others.
const CHARGES_SHOWN: usize = 10;

/// The parameter of a link's page by which it is shown to a customer in the shop.
const AT_COUNTER: &str = "counter";

pages::words! { ,
    CHARGES_OF_LINK = "Cobranças deste link", "Charges of this link", "Cobros de este enlace";
    ALL_OF_LINK = "Todas as cobranças deste link", "All charges of this link", "Todos los cobros de este enlace";
    NONE_OF_LINK = "Este link ainda não gerou cobranças.", "This link has made no charges yet.", "Este enlace aún no generó cobros.";
    SCAN = "Aponte a câmera do celular para o QR code e pague na página que abrir.", "Point the phone's camera at the QR code and pay on the page that opens.", "Apunte la cámara del teléfono al código QR y pague en la página que se abre.";
}

pub(crate) async fn list(visitor: Visitor) -> Result<Response> {
    let after = visitor.query().text("starting_after").and_then(|id| id.parse::<PaymentLinkId>().ok());
    let (page, (found, totals)) = visitor
        .load(async |visit| {
            let part = PaymentLinkPage { limit: SHOWN, starting_after: after };
            let found = visit.app.links.list(&visit.scope(), part).await?;
            let totals = visit.app.links.totals_of_all(&found.items).await?;
            Ok((found, totals))
        })
        .await?;
    let next = found.next_cursor.map(|id| format!("{PATH}?starting_after={id}"));
    let rows = found.items.iter().zip(totals).map(|(link, totals)| row(&page, link, totals)).collect();
    let columns = [
        (Cell::Main, w::PAYMENT_LINK),
        (Cell::Amount, w::RECEIVED_SUM),
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

/// One link: how to send it, what it received, and the form that changes it.
pub(crate) async fn show(visitor: Visitor, IdPath(id): IdPath<PaymentLinkId>) -> Result<Response> {
    let is_at_counter = visitor.query().text(AT_COUNTER).is_some();
    let (page, (link, totals, made)) = visitor
        .load(async |visit| {
            let link = visit.app.links.get(&visit.scope(), id).await?;
            let mut filter = ChargeFilter::parse(&Query::parse(None))?.reading(CHARGES_SHOWN);
            filter.link = Some(LookupValue::Link(link.id));
            let (scope, salt) = (visit.sharded_scope(), visit.session.account.salt.as_bytes());
            let (totals, made) = tokio::join!(
                Box::pin(visit.app.links.totals(link.id)),
                Box::pin(visit.app.charges.list(&scope, salt, &filter, None, visit.now)),
            );
            Ok((link, totals?, made?.items))
        })
        .await?;
    let url = page.app.public_urls.payment_link_url(link.id);
    let name = link.description.as_deref().unwrap_or(page.say(w::PAYMENT_LINK));
    if is_at_counter {
        return Ok(at_counter(&page, &link, (name, &url)));
    }
    let counter = format!("{PATH}/{}?{AT_COUNTER}=1", link.id);
    let more = html! {
        (copy_button(page.language, w::COPY_LINK_OF, &url))
        (activation(&page, &link, "quiet", &hidden("of", "link")))
    };
    let (tone, state) = state_of(&page, &link, totals);
    let methods: Vec<&str> = link.methods.iter().map(|method| page.say(w::of_method(*method))).collect();
    let main = html! {
        p.crumb { a href=(PATH) { (page.say(w::PAYMENT_LINKS)) } }
        h1 { span dir="auto" { (name) } " " (tag(tone, page.say(state))) }
        (share_card(&page, &qr(&page, &url, 160), (&url, &sent_text(&link, &url)), (&counter, &more)))
        section.card #data data-refresh="10" {
            h2 { (page.say(w::DATA)) }
            (facts(vec![
                ("Id", html! { code { (link.id) } }),
                (page.say(w::AMOUNT), html! { (amount_of(&link)) }),
                (page.say(w::RECEIVED_SUM), received(&page, &link, totals)),
                (page.say(w::METHOD), html! { (methods.join(", ")) }),
                (page.say(w::CREATED_ON), time(link.created_at)),
                (page.say(w::ENDS_ON), link.expires_at.map(time).unwrap_or_default()),
            ]))
        }
        section.card #charges data-refresh="10" {
            @if made.is_empty() { h2 { (page.say(CHARGES_OF_LINK)) } p.soft { (page.say(NONE_OF_LINK)) } }
            @else {
                (page.table(CHARGES_OF_LINK, &charges::COLUMNS, made.iter().map(|charge| charges::row(&page, charge)).collect()))
                p { a href=(path_with(charges::PATH, &[(charges::LINK, &link.id.to_string())])) { (page.say(ALL_OF_LINK)) } }
            }
        }
        @if page.shows(Need::Member) {
            section.card {
                h2 { (page.say(w::CHANGE_LINK)) }
                (link_change_form(&page.form(), &format!("{PATH}/{}/change", link.id), &link))
            }
        }
    };
    Ok(page.render(name, &main))
}

fn qr(page: &Page, url: &str, width: u32) -> Markup {
    let code = artefacts::qr::svg_path(url).ok();
    code.map(|(side, path)| qr_picture((side, &path), width, page.say(w::QR_OF_LINK))).unwrap_or_default()
}

/// The link as a customer in the shop sees it, on the shop's screen.
fn at_counter(page: &Page, link: &PaymentLink, (name, url): (&str, &str)) -> Response {
    let main = html! {
        section.card.empty {
            p.soft dir="auto" { (page.session.account.shop_name()) }
            h1 dir="auto" { (name) }
            p.big { (amount_of(link)) }
            (qr(page, url, 264))
            p { (page.say(SCAN)) }
            p.sm { a href=(url) { (url) } }
        }
        p { a href={ (PATH) "/" (link.id) } { (page.say(w::BACK)) } }
    };
    let document = Document { language: page.language, title: name, shell: None, main };
    pages::html(StatusCode::OK, document.render())
}

fn state_of(page: &Page, link: &PaymentLink, totals: LinkTotals) -> (Tone, Word) {
    let is_full = link.max_payments.is_some_and(|max| totals.payments >= u64::from(max));
    if link.is_open(page.now) && !is_full { (Tone::Good, w::ACTIVE) } else { (Tone::Calm, w::LINK_CLOSED) }
}

fn amount_of(link: &PaymentLink) -> String {
    let in_currency = |minor| money(minor, link.currency);
    match link.amount.bounds() {
        Some((min, max)) => format!("{} – {}", in_currency(min.minor()), in_currency(max.minor())),
        None => link.amount.fixed().map(|amount| in_currency(amount.minor())).unwrap_or_default(),
    }
}

fn received(page: &Page, link: &PaymentLink, totals: LinkTotals) -> Markup {
    let of = link.max_payments.map_or_else(String::new, |max| format!("/{max}"));
    let word = if totals.payments == 1 && of.is_empty() { w::ONE_SALE } else { w::SALES };
    html! {
        (money(totals.amount_paid, link.currency)) " "
        span.soft { (page.language.fill(word, &[&format!("{}{of}", totals.payments)])) }
    }
}

/// `more`: fields that say to which page the button leads back.
fn activation(page: &Page, link: &PaymentLink, class: &str, more: &Markup) -> Markup {
    let (active, word) = if link.active { ("false", w::DEACTIVATE) } else { ("true", w::ACTIVATE) };
    let fields = html! { (hidden("active", active)) (more) };
    page.button(&format!("{PATH}/{}/active", link.id), (word, class), Need::Member, &fields)
}

fn sent_text(link: &PaymentLink, url: &str) -> String {
    [link.description.as_deref(), Some(url)].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn row(page: &Page, link: &PaymentLink, totals: LinkTotals) -> Vec<Markup> {
    let url = &page.app.public_urls.payment_link_url(link.id);
    let (tone, state) = state_of(page, link, totals);
    vec![
        html! {
            a href={ (PATH) "/" (link.id) } dir="auto" { (link.description.as_deref().unwrap_or(page.say(w::PAYMENT_LINK))) }
            " " span.soft { (amount_of(link)) }
            " " (activation(page, link, "quiet sm", &html! {}))
        },
        received(page, link, totals),
        time(link.created_at),
        html! {
            a href=(url) { (url) } " " (copy_button(page.language, w::COPY_LINK_OF, url)) " "
            (whatsapp(page, "", &sent_text(link, url)))
        },
        tag(tone, page.say(state)),
    ]
}
