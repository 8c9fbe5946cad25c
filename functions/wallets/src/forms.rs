//! The dashboard's forms that register a payout key and request a payout.

use axum::Router;
use axum::http::StatusCode;
use axum::middleware::from_fn;
use axum::response::Response;
use axum::routing::post;
use domain::ids::PayoutId;
use domain::money::{Amount, Currency, MinorUnits};
use domain::payout::{PayoutDestination, PayoutStatus};
use domain::pix_key::PixKey;
use domain::reference::Reference;
use money::payout::PayoutError;
use pages::forms::{Need, OpenForm, answer, invalid_amount, minor_units};
use pages::kept::{payout_form, payout_key_form, payout_question};
use pages::{CONFIRMED, SentForm, errors_as_pages, words as w};
use shared::http::{Problem, Result};
use shared::random;

use crate::App;

type MemberForm = pages::forms::MemberForm<App>;

const WALLET: &str = "/dashboard/wallet";
const KEY: &str = "/dashboard/wallet/key";
const PAYOUT: &str = "/dashboard/wallet/payout";

pub(crate) fn routes() -> Router<App> {
    Router::new().route(KEY, post(register)).route(PAYOUT, post(request)).layer(from_fn(errors_as_pages))
}

/// A form that is sent twice registers one key.
async fn register(member: MemberForm) -> Result<Response> {
    member.require(Need::Owner)?;
    let MemberForm { app, caller, form, now, .. } = &member;
    let kind = form.text("type").and_then(|kind| kind.parse().ok());
    let key = kind.zip(form.text("pix_key")).and_then(|(kind, typed)| PixKey::from_typed(kind, typed).ok());
    let Some(key) = key else {
        let problem = Problem::field("pix_key", PixKey::RULE);
        return member.kept(problem, (w::PAYOUT_KEY, WALLET), |form| payout_key_form(form, KEY));
    };
    let by = caller.by.as_operator(caller.source);
    Box::pin(app.keys.register(caller.scope.account, &key, &by, *now)).await?;
    answer(Ok(WALLET.to_owned()), WALLET)
}

/// Why a request is refused, as the code of its words.
#[derive(Clone, Copy, Debug)]
enum Refusal {
    Suspended,
    NoKey,
    Requested,
    ExceedsAvailable,
    /// The form was sent before, and its payout has failed since.
    Failed,
}

impl Refusal {
    fn code(self) -> &'static str {
        match self {
            Self::Suspended => "account_suspended",
            Self::NoKey => "payout_key_missing",
            Self::Requested => "payout_requested",
            Self::ExceedsAvailable => "payout_exceeds_available",
            Self::Failed => "payout_failed",
        }
    }

    /// After a conflict, the form has a new key.
    fn status(self) -> StatusCode {
        match self {
            Self::Failed => StatusCode::CONFLICT,
            Self::Suspended | Self::NoKey | Self::Requested | Self::ExceedsAvailable => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
        }
    }
}

/// Asks first. A form that is sent twice creates one payout. 422 while the account is suspended.
async fn request(OpenForm(member): OpenForm<App, true>) -> Result<Response> {
    member.require(Need::Owner)?;
    let currency = member.form.text("currency").map_or(Ok(Currency::BRL), Currency::parse);
    let currency = currency.map_err(|error| Problem::field("currency", error.to_string()))?;
    let title = (w::REQUEST_PAYOUT, WALLET);
    let amount = match amount(&member, currency) {
        Ok(amount) => amount,
        Err(problem) => {
            return member.kept(problem, title, |form| payout_form(form, PAYOUT, currency));
        }
    };
    let is_confirmed = member.form.text(CONFIRMED).is_some();
    let refusal = if member.session.account.settings.suspended {
        Refusal::Suspended
    } else if is_confirmed {
        match Box::pin(requested(&member, (amount, currency))).await {
            Ok(Some(refusal)) => refusal,
            done => return answer(done.map(|_none| WALLET.to_owned()), WALLET),
        }
    } else {
        match Box::pin(check(&member, (amount, currency))).await? {
            Ok(destination) => {
                let sent = SentForm::typed(PAYOUT, &member.typed).ok_or_else(invalid_amount)?;
                let (amount, key) = (amount.in_currency(currency), destination.key.masked());
                return member.asking(title, &sent, |form| payout_question(form, amount, &key));
            }
            Err(refusal) => refusal,
        }
    };
    member.refused(refusal.status(), (refusal.code(), &[]), title, |form| payout_form(form, PAYOUT, currency))
}

fn amount(member: &MemberForm, currency: Currency) -> Result<Amount> {
    let text = member.form.text("amount").ok_or_else(invalid_amount)?;
    Amount::parse(minor_units(text, currency)?).map_err(|_| invalid_amount())
}

/// Returns where the payout would go. It writes nothing, so the request itself checks again.
async fn check(
    member: &MemberForm,
    (amount, currency): (Amount, Currency),
) -> Result<Result<PayoutDestination, Refusal>> {
    let MemberForm { app, caller, now, .. } = member;
    let last = app.payouts.last_request(&caller.scope, currency).await?;
    if last.is_some_and(|(_, last)| last.status == PayoutStatus::Pending) {
        return Ok(Err(Refusal::Requested));
    }
    let wallet = app.wallets.in_currency(&caller.sharded_scope(), currency).await?;
    if wallet.available()? < MinorUnits::from(amount) {
        return Ok(Err(Refusal::ExceedsAvailable));
    }
    let key = app.keys.find(&caller.scope.account).await?;
    Ok(key.and_then(|key| key.destination(*now)).ok_or(Refusal::NoKey))
}

/// Creates the payout. The reference is the key of the form.
async fn requested(member: &MemberForm, money: (Amount, Currency)) -> Result<Option<Refusal>> {
    let MemberForm { app, caller, form, now, .. } = member;
    let key = form.text("idempotency_key").map(|key| format!("form/{key}").parse::<Reference>());
    let reference = key.unwrap_or(Err("is required"));
    let reference = reference.map_err(|rule| Problem::field("idempotency_key", rule))?;
    let (id, by) = (PayoutId::new(*now, random::bytes()?), caller.by.as_operator(caller.source));
    match app.payouts.request((id, &reference), caller.scope, money, &by, *now).await {
        Ok(payout) if payout.status == PayoutStatus::Failed => Ok(Some(Refusal::Failed)),
        Ok(_) => Ok(None),
        Err(PayoutError::NoKey) => Ok(Some(Refusal::NoKey)),
        Err(PayoutError::Requested(_)) => Ok(Some(Refusal::Requested)),
        Err(PayoutError::InsufficientBalance { .. }) => Ok(Some(Refusal::ExceedsAvailable)),
        Err(PayoutError::ReferenceTaken(_)) => Err(Problem::IdempotencyKeyReused),
        Err(PayoutError::Store(error)) => Err(error.into()),
        Err(error @ (PayoutError::NotFound | PayoutError::Ended(_) | PayoutError::OverLimit(_))) => {
            Err(Problem::Internal(error.to_string()))
        }
    }
}
