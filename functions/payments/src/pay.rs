//! The form of a payment link's public page, which makes the charge of a payer.

use axum::Router;
use axum::extract::State;
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{AppendHeaders, IntoResponse as _, Redirect, Response};
use axum::routing::post;
use domain::account::Account;
use domain::actor::ActorId;
use domain::charge::Charge;
use domain::ids::PaymentLinkId;
use domain::payment_link::{AskedField, LinkAmount, NoPlace, PLACE_SECONDS, PaymentLink};
use domain::time::Timestamp;
use money::charge::payment::request::NewPayment;
use money::payment_link::Standing;
use pages::forms::{body, minor_units};
use pages::pay::{ADDRESS, PayPage, RefusedPayer};
use pages::{Language, Word, words as w};
use serde_json::{Map, Value, json};
use services::{CreateChargeError, IdempotencyNamespace, OfLink, create_charge};
use shared::auth::Caller;
use shared::http::{
    Detail, FormBody, IdPath, JsonObject, Problem, Query, RequestContext, Result, etag_of, set_cookie,
};

use crate::{App, creation};

/// The most bytes of a form.
const MAX_BODY_BYTES: usize = 16 * 1024;

/// For how long a browser finds its charge again, in seconds: a day.
const COOKIE_SECONDS: i64 = 24 * 60 * 60;

/// The most characters of a form's key.
const MAX_KEY: usize = 64;

pub(crate) fn routes() -> Router<App> {
    Router::new().route("/pay/{id}", post(pay))
}

/// Why a form makes no charge: a standing of the link, or what the payer can correct.
enum Unpaid {
    Standing(Standing),
    Refused { fields: Vec<String>, message: Word, status: StatusCode },
}

async fn pay(
    State(app): State<App>,
    context: RequestContext,
    headers: HeaderMap,
    IdPath(id): IdPath<PaymentLinkId>,
    FormBody(form): FormBody<MAX_BODY_BYTES>,
) -> Result<Response> {
    let missing = || Problem::NotFound { what: "payment link" };
    let link = app.links.find(id).await?.ok_or_else(missing)?;
    let account = app.accounts.find(&link.scope.account).await?.ok_or_else(missing)?;
    let now = app.clock.now();
    let unpaid = match Box::pin(made(&app, &context, (&link, &account), &form, now)).await? {
        Ok(charge) => {
            context.set_charge(charge.id);
            let cookie = set_cookie(&link.id.to_string(), &charge.id.raw(), COOKIE_SECONDS);
            // Relative, so that it works behind any base path.
            let location = Redirect::to(&format!("../checkout/{}", charge.id.raw()));
            return Ok((AppendHeaders([(SET_COOKIE, cookie)]), location).into_response());
        }
        Err(unpaid) => unpaid,
    };
    let language = Language::of_payer(&headers);
    let key = key_of(&form).unwrap_or_default();
    let base =
        PayPage { link: &link, account: &account, standing: Standing::Open, key, refused: None, language };
    let names: Vec<&str>;
    let (status, page) = match &unpaid {
        Unpaid::Standing(standing) => (StatusCode::GONE, PayPage { standing: *standing, ..base }),
        Unpaid::Refused { fields, message, status } => {
            names = fields.iter().map(String::as_str).collect();
            let refused = RefusedPayer { typed: &form, fields: &names, message: *message };
            (*status, PayPage { refused: Some(refused), ..base })
        }
    };
    Ok(pages::html(status, page.render()))
}

fn key_of(form: &Query) -> Option<&str> {
    form.text("key").filter(|key| !key.is_empty() && key.len() <= MAX_KEY)
}

async fn made(
    app: &App,
    context: &RequestContext,
    (link, account): (&PaymentLink, &Account),
    form: &Query,
    now: Timestamp,
) -> Result<Result<Charge, Unpaid>> {
    if !link.is_open(now) || account.settings.suspended {
        return Ok(Err(Unpaid::Standing(Standing::Ended)));
    }
    let refused = |fields: Vec<String>, message, status| Ok(Err(Unpaid::Refused { fields, message, status }));
    if app.links.count_form(link.id, account.settings.velocity.per_link, now).await?.is_err() {
        return refused(Vec::new(), w::of_code("rate_limited"), StatusCode::TOO_MANY_REQUESTS);
    }
    let parsed = request(link, form)
        .and_then(|request| NewPayment::parse(&request, &app.address_policy, link.scope.mode));
    let NewPayment { idempotency_key, charge: mut request } = match parsed {
        Ok(parsed) => parsed,
        Err(problem) => {
            return refused(inputs(&problem), w::of_code(problem.code()), StatusCode::UNPROCESSABLE_ENTITY);
        }
    };
    if link.max_payments.is_some() {
        request.pix_expires_in_seconds = Some(PLACE_SECONDS);
    }
    let caller = Caller::of_account(account, link.scope.mode, ActorId::Payer(link.id), context);
    let of = OfLink { links: &app.links, link, source: &context.source };
    let key = (IdempotencyNamespace::Links, idempotency_key.as_str());
    match create_charge(creation(app, Some(of)), &caller, key, request, now).await {
        Ok(created) => Ok(Ok(created.get().clone())),
        Err(CreateChargeError::Link(NoPlace::Address)) => {
            refused(Vec::new(), w::LINK_TWO_OPEN, StatusCode::TOO_MANY_REQUESTS)
        }
        Err(CreateChargeError::Link(no_place)) => Ok(Err(Unpaid::Standing(Standing::NoPlace(no_place)))),
        Err(error) => {
            let problem = Problem::from(error);
            problem.log();
            // Another try with the same key finds the charge, if it exists.
            refused(Vec::new(), w::of_code(problem.code()), problem.status())
        }
    }
}

/// What a payer with valid data types.
const VALID_PAYER: [(&str, &str); 8] = [
    ("name", "Ana Souza"),
    ("email", "ana@loja.example"),
    ("document", "29537995593"),
    ("phone", "+5511999999999"),
    ("line1", "Rua das Flores, 10"),
    ("city", "São Paulo"),
    ("state", "SP"),
    ("postal_code", "01001000"),
];

/// 400 if the charge of a payer with valid data would be refused, such as for metadata that are too large.
pub(crate) fn check_charges(app: &App, link: &PaymentLink) -> Result<()> {
    let amount = link.amount.range().0.decimal(link.currency.exponent());
    let typed = VALID_PAYER.into_iter().chain([("amount", &*amount)]);
    let form = typed.fold(Query::parse(None), |form, (name, value)| form.set(name, value));
    let request = request(link, &form)?;
    NewPayment::parse(&request, &app.address_policy, link.scope.mode).map(drop)
}

/// The request of the payment. The same text in all fields makes the same charge.
fn request(link: &PaymentLink, form: &Query) -> Result<JsonObject> {
    let text = |name: &str| form.text(name).map(str::trim).filter(|text| !text.is_empty());
    let mut missing = Vec::new();
    let mut asked = |name: &'static str| {
        // A text without a digit is no phone number and no postal code.
        let typed = text(name).filter(|typed| {
            !["phone", "postal_code"].contains(&name) || typed.contains(|c: char| c.is_ascii_digit())
        });
        if typed.is_none() {
            missing.push(name);
        }
        typed
    };
    let amount = match link.amount {
        LinkAmount::Fixed(amount) => amount.minor(),
        LinkAmount::Between { min, max } => {
            let typed = minor_units(asked("amount").unwrap_or_default(), link.currency)?;
            if typed < min.minor() || typed > max.minor() {
                return Err(pages::forms::invalid_amount());
            }
            typed
        }
    };
    let mut metadata = link.metadata.to_map();
    let mut customer = Map::new();
    for field in link.fields() {
        let of_customer = match field {
            AskedField::Name => Some(("customerName", "name")),
            AskedField::Email => Some(("customerEmail", "email")),
            AskedField::Document => Some(("customerDocument", "document")),
            AskedField::Phone => {
                // People type it with spaces and signs between the digits.
                let digits = asked("phone").map(|typed| {
                    typed.chars().filter(|c| *c == '+' || c.is_ascii_digit()).collect::<String>()
                });
                metadata.extend(digits.map(|digits| ("phone".to_owned(), Value::String(digits))));
                None
            }
            AskedField::Address => {
                let lines =
                    ADDRESS.map(|(name, ..)| (name.to_owned(), json!(asked(name).unwrap_or_default())));
                let mut address: Map<String, Value> = lines.into_iter().collect();
                if let Some(Value::String(code)) = address.get_mut("postal_code") {
                    code.retain(|c| c.is_ascii_digit());
                }
                if let Some(Value::String(state)) = address.get_mut("state") {
                    state.make_ascii_uppercase();
                }
                metadata.insert("payerAddress".to_owned(), Value::Object(address));
                None
            }
        };
        if let Some((name, input)) = of_customer {
            customer.insert(name.to_owned(), json!(asked(input)));
        }
    }
    if !missing.is_empty() {
        let required = |name: &'static str| Detail::new(name, "is required");
        return Err(Problem::Invalid(missing.into_iter().map(required).collect()));
    }
    metadata.extend(link.description.as_ref().map(|text| ("description".to_owned(), json!(text))));
    metadata.extend(link.success_url.as_ref().map(|url| ("returnUrl".to_owned(), json!(url))));
    let methods: Vec<&str> = link.methods.iter().map(|method| method.as_str()).collect();
    let mut request = json!({
        "amount": amount, "currency": link.currency.as_str(), "paymentMethods": methods, "metadata": metadata,
    });
    if let Some(fields) = request.as_object_mut() {
        fields.extend(customer);
        let content = Value::Object(fields.clone()).to_string();
        let key = format!("{} {} {}", link.id, key_of(form).unwrap_or_default(), etag_of(&content));
        fields.insert("idempotencyKey".to_owned(), Value::String(key));
    }
    body(request)
}

/// The inputs of refused fields.
fn inputs(problem: &Problem) -> Vec<String> {
    let name = |param: &&str| match *param {
        "customerName" => "name".to_owned(),
        "customerEmail" => "email".to_owned(),
        "customerDocument" => "document".to_owned(),
        other => other.rsplit('.').next().unwrap_or(other).to_owned(),
    };
    problem.params().iter().map(name).collect()
}
