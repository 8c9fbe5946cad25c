//! The forms of the brand: what payers see of the shop.

use std::str::FromStr;

use axum::Router;
use axum::response::Response;
use axum::routing::post;
use domain::account::{Brand, Color, LogoHash, MailAddress, Phone};
use domain::audit::Action;
use maud::Markup;
use pages::forms::{MemberForm, Need, answer, body};
use pages::kept::brand_form;
use pages::upload::MemberUpload;
use pages::words as w;
use serde_json::json;
use shared::account::MAX_LOGO_BYTES;
use shared::http::field::{BodyFields, EMAIL_CHARS, Refined, Text};
use shared::http::{Fields, JsonObject, Result};

use crate::ApiKeysApp;
use crate::forms::refused;

const SETTINGS: &str = "/dashboard/settings";

pub(crate) fn routes() -> Router<ApiKeysApp> {
    Router::new()
        .route(SETTINGS, post(change))
        .route("/dashboard/settings/logo", post(upload_logo))
        .route("/dashboard/settings/logo/remove", post(remove_logo))
}

const fn parsed<T: FromStr>((min, max): (usize, usize), rule: &'static str) -> Refined<T> {
    Text::one_line(min, max).refined(|text| text.parse().ok(), rule)
}

shared::fields! {
    NAME: Text = "name", Text::one_line(1, 60), Optional, "Loja do Bairro",
        "The name at the top of the checkout page.";
    COLOR: Refined<Color> = "color", parsed((7, 7), Color::RULE), Optional, "#0f6b5c",
        "The colour of the page's buttons.";
    EMAIL: Refined<MailAddress> = "email",
        parsed(EMAIL_CHARS, "must be an e-mail address in ASCII, such as ana@loja.example"),
        Optional, "ajuda@loja.example", "Where payers ask for help.";
    PHONE: Refined<Phone> = "phone",
        parsed((3, 32), Phone::RULE),
        Optional, "(11) 4000-1234", "Where payers ask for help.";
}

const FIELDS: BodyFields = BodyFields::open(&[&NAME, &COLOR, &EMAIL, &PHONE]);

/// An empty field removes what it had. The logo has a form of its own.
fn parse(sent: &JsonObject) -> Result<Brand> {
    let mut fields = Fields::new();
    let root = fields.body(sent, FIELDS);
    let brand = Brand {
        name: fields.read(&root, &NAME),
        color: fields.read(&root, &COLOR),
        email: fields.read(&root, &EMAIL),
        phone: fields.read(&root, &PHONE),
        logo: None,
    };
    fields.finish(Some(brand))
}

async fn change(member: MemberForm<ApiKeysApp>) -> Result<Response> {
    member.require(Need::Settings)?;
    let text = |name| member.form.text(name);
    let sent = json!({
        "name": text("name"), "color": text("color"), "email": text("email"), "phone": text("phone"),
    });
    let done = match body(sent).and_then(|sent| parse(&sent)) {
        Ok(new) => store(&member, |brand| *brand = Brand { logo: brand.logo.clone(), ..new.clone() }).await,
        Err(problem) => {
            return member.kept(problem, (w::BRAND, SETTINGS), |form| {
                brand_form(form, SETTINGS, &Brand::default(), &Markup::default())
            });
        }
    };
    answer(done, SETTINGS)
}

async fn upload_logo(MemberUpload { member, file }: MemberUpload<ApiKeysApp>) -> Result<Response> {
    member.require(Need::Settings)?;
    let is_small = file.len() <= MAX_LOGO_BYTES;
    let Some(logo) = is_small.then(|| artefacts::logo::logo(&file)).flatten() else {
        return Ok(refused(SETTINGS, "invalid_logo", None));
    };
    let hash = LogoHash::of(&member.session.account.id, &logo);
    // Before the row names it. After a crash between the two, the file is unused.
    member.app.logos.put(&hash, logo).await?;
    replace_logo(&member, Some(hash)).await
}

async fn remove_logo(member: MemberForm<ApiKeysApp>) -> Result<Response> {
    member.require(Need::Settings)?;
    replace_logo(&member, None).await
}

async fn replace_logo(member: &MemberForm<ApiKeysApp>, new: Option<LogoHash>) -> Result<Response> {
    let done = store(member, |brand| brand.logo.clone_from(&new)).await;
    let old = member.session.account.brand.logo.as_ref();
    if let Some(old) = old.filter(|old| done.is_ok() && new.as_ref() != Some(*old))
        && let Err(error) = member.app.logos.delete(old).await
    {
        // The logo is replaced, so the failure must not turn the answer into an error.
        tracing::error!(logo = %old, %error, "the file of a replaced logo was not deleted");
    }
    answer(done, SETTINGS)
}

async fn store(member: &MemberForm<ApiKeysApp>, change: impl Fn(&mut Brand)) -> Result<String> {
    let MemberForm { app, session, now, .. } = member;
    let (id, operator) = (&session.account.id, session.operator());
    app.accounts.change(id, Action::SetBrand, |of| &mut of.brand, change, &operator, *now).await?;
    Ok(SETTINGS.to_owned())
}
