//! The settings: the brand that payers see, and the emails about sales that the user gets.

use axum::response::Response;
use domain::account::{Brand, SalesEmails};
use maud::{Markup, html};
use pages::facts;
use pages::forms::Need;
use pages::kept::{USUAL_COLOR, brand_form};
use shared::account::{MAX_LOGO_BYTES, Users};
use shared::http::Result;

use crate::visit::{Page, Visitor};
use crate::words as w;

pub(crate) const SETTINGS: &str = "/dashboard/settings";

pages::words! { ,
    SALES_EMAILS = "E-mails sobre as suas vendas", "E-mails about your sales", "Correos sobre sus ventas";
    SALES_EMAILS_MEAN = "Só para você, em {}, e só sobre vendas de produção.", "Only for you, to {}, and only about live sales.", "Solo para usted, a {}, y solo sobre ventas de producción.";
    SAVE_CHOICE = "Salvar a escolha", "Save the choice", "Guardar la elección";
    EACH_SALE = "A cada venda (no máximo um e-mail por minuto, com todas as vendas dele)", "At each sale (at most one e-mail a minute, with all its sales)", "En cada venta (como máximo un correo por minuto, con todas sus ventas)";
    MORNING_SUMMARY = "Um resumo às 8h da manhã (horário de Brasília): vendas e devoluções da véspera, disputas que esperam resposta e falhas na entrega ao seu sistema", "A summary at 8:00 in the morning (time of Brasília): sales and refunds of the day before, disputes that wait and failures of deliveries to your system", "Un resumen a las 8 de la mañana (hora de Brasilia): ventas y devoluciones de la víspera, disputas que esperan respuesta y fallas en la entrega a su sistema";
}

pub(crate) async fn show(visitor: Visitor) -> Result<Response> {
    let (page, emails) = visitor
        .load(async |visit| {
            let (users, user) = (Users::new(visit.app.store.clone()), &visit.session.user);
            Ok(users.sales_emails(&user.account, user.id).await?)
        })
        .await?;
    let account = &page.session.account;
    let (brand, settings) = (&account.brand, &account.settings);
    let main = html! {
        h1 { (page.say(w::SETTINGS)) }
        @if page.shows(Need::Settings) { section.card {
            h2 { (page.say(w::BRAND)) }
            p { (page.say(w::BRAND_MEANS)) }
            (brand_form(&page.form(), SETTINGS, brand, &preview(&page, brand)))
        }
        section.card {
            h2 { (page.say(w::LOGO)) }
            @if let Some(logo) = &brand.logo {
                p { img.logo src={ "/checkout/" (logo.file()) } alt=(page.say(w::LOGO)); }
                div.actions {
                    (page.confirmed(&format!("{SETTINGS}/logo/remove"), (w::REMOVE, "danger"), Need::Settings, w::REMOVE_LOGO_ASK))
                }
            }
            form.fields method="post" action={ (SETTINGS) "/logo" } enctype="multipart/form-data" {
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
        (sales_emails(&page, &emails))
        section.card {
            h2 { (page.say(w::ACCOUNT)) }
            (facts(vec![
                (page.say(w::RECEIVER), html! { span dir="auto" { (settings.merchant_name) } }),
                (page.say(w::PAYER_CITY), html! { span dir="auto" { (settings.merchant_city) } }),
            ]))
            p.sm.soft { (page.say(w::ACCOUNT_MEANS)) }
        }
    };
    Ok(page.render(page.say(w::SETTINGS), &main))
}

fn sales_emails(page: &Page, emails: &SalesEmails) -> Markup {
    let choices = [
        ("each_sale", EACH_SALE, emails.each_sale),
        ("summary", MORNING_SUMMARY, emails.summary_on.is_some()),
    ];
    html! {
        section.card {
            h2 { (page.say(SALES_EMAILS)) }
            form.fields method="post" action={ (SETTINGS) "/sales-emails" } {
                (page.mode_field())
                fieldset {
                    legend { (page.language.fill(SALES_EMAILS_MEAN, &[&page.session.user.email])) }
                    @for (name, word, is_chosen) in choices {
                        label { input type="checkbox" name=(name) value="1" checked[is_chosen]; " " (page.say(word)) }
                    }
                }
                div { (page.submit((SAVE_CHOICE, ""), Need::Viewer)) }
            }
        }
    }
}

/// The checkout with this brand. A picture, because the content security policy forbids an inline style. The script shows
/// in it what is typed in the fields that the attributes name.
fn preview(page: &Page, brand: &Brand) -> Markup {
    let (name, color) =
        (brand.name.as_ref().unwrap_or(&page.session.account.settings.merchant_name), brand.color);
    let fill = color.map_or_else(|| USUAL_COLOR.to_owned(), |color| color.to_string());
    let ink = color.map_or_else(|| "#ffffff".to_owned(), |color| color.text().to_string());
    html! {
        p.sm.soft { (page.say(w::PREVIEW)) }
        svg viewBox="0 0 280 196" width="280" height="196" role="img" aria-label=(page.say(w::PREVIEW)) {
            rect x="1" y="1" width="278" height="194" rx="12" fill="#fff" stroke="#77838f" {}
            @if let Some(logo) = &brand.logo {
                image href={ "/checkout/" (logo.file()) } x="20" y="14" width="96" height="32" preserveAspectRatio="xMinYMid" {}
            }
            text x="20" y="66" font-weight="600" fill="#16202c" data-shows="name" { (name) }
            text x="20" y="98" font-size="24" font-weight="600" fill="#16202c" { "R$ 129,90" }
            rect x="20" y="112" width="240" height="44" rx="8" fill=(fill) data-fills="color" {}
            text x="140" y="139" text-anchor="middle" font-weight="600" fill=(ink) data-inks="color" { (page.say(w::PAY_NOW)) }
            text x="20" y="180" font-size="12" fill="#4b5867" data-shows="email" {
                @if let Some(email) = &brand.email { (email) }
            }
        }
    }
}
