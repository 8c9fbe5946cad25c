//! The settings of the account: the brand that payers see.

use axum::response::Response;
use domain::account::Color;
use maud::{Markup, html};
use pages::facts;
use pages::forms::Need;
use pages::kept::brand_form;
use shared::account::MAX_LOGO_BYTES;
use shared::http::Result;

use crate::visit::{Page, Visitor};
use crate::words as w;

const PATH: &str = "/dashboard/settings";

pub(crate) async fn show(visitor: Visitor) -> Result<Response> {
    let (page, ()) = visitor.load(async |_| Ok(())).await?;
    let account = &page.session.account;
    let (brand, settings) = (&account.brand, &account.settings);
    let main = html! {
        h1 { (page.say(w::SETTINGS)) }
        @if page.shows(Need::Settings) { section.card {
            h2 { (page.say(w::BRAND)) }
            p { (page.say(w::BRAND_MEANS)) }
            (brand_form(&page.form(), PATH, brand, &brand.color.map(|color| preview(&page, color)).unwrap_or_default()))
        }
        section.card {
            h2 { (page.say(w::LOGO)) }
            @if let Some(logo) = &brand.logo {
                p { img.logo src={ "/checkout/" (logo.file()) } alt=(page.say(w::LOGO)); }
                div.actions {
                    (page.confirmed(&format!("{PATH}/logo/remove"), (w::REMOVE, "danger"), Need::Settings, w::REMOVE_LOGO_ASK))
                }
            }
            form.fields method="post" action={ (PATH) "/logo" } enctype="multipart/form-data" {
                (page.mode_field())
                div {
                    label for="logo" { (page.say(w::LOGO_RULE)) }
                    input #logo name="logo" type="file" accept="image/png,image/jpeg,image/webp" data-logo=(MAX_LOGO_BYTES) required;
                }
                div { (page.submit((w::UPLOAD_LOGO, ""), Need::Settings)) }
            }
        } } @else {
            section.card {
                h2 { (page.say(w::BRAND)) }
                (facts(vec![
                    (page.say(w::SHOP_NAME), html! { @if let Some(name) = &brand.name { span dir="auto" { (name) } } }),
                    (page.say(w::SUPPORT_EMAIL), html! { @if let Some(email) = &brand.email { (email) } }),
                    (page.say(w::SUPPORT_PHONE), html! { @if let Some(phone) = &brand.phone { (phone) } }),
                ]))
            }
        }
        section.card {
            h2 { (page.say(w::ACCOUNT)) }
            (facts(vec![
                (page.say(w::RECEIVER), html! { span dir="auto" { (settings.merchant_name) } }),
                (page.say(w::CITY), html! { span dir="auto" { (settings.merchant_city) } }),
            ]))
            p.sm.soft { (page.say(w::ACCOUNT_MEANS)) }
        }
    };
    Ok(page.render(page.say(w::SETTINGS), &main))
}

/// A picture, because the content security policy forbids an inline style.
fn preview(page: &Page, color: Color) -> Markup {
    let label = page.say(w::COLOR_PREVIEW);
    html! {
        svg viewBox="0 0 240 44" width="240" height="44" role="img" aria-label=(label) {
            rect width="240" height="44" rx="8" fill=(color) {}
            text x="120" y="27" text-anchor="middle" font-weight="600" fill=(color.text()) { (label) }
        }
    }
}
