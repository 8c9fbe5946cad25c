//! The sandbox's 3-D Secure page, which acts as the card issuer. The payer of a test charge begins the
//! payment, then approves or declines it. Then the browser returns to the merchant's `returnUrl`.
//!
//! The page is public, like an issuer's page: anyone with its URL can approve or decline. It does not ask for
//! a card number. It exists only for charges of the sandbox acquirer. For a live charge, the route leads to the
//! acquirer's page, and the acquirer's page leads back to the route.

use std::time::Duration;

use crate::{App, simulation};
use acquirer_core::AcquirerMessage;
use axum::extract::rejection::RawFormRejection;
use axum::extract::{RawForm, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use domain::charge::transition::Command;
use domain::charge::{Charge, FailureReason, StoredCharge, TransactionStatus};
use domain::ids::{ChargeId, RawChargeId};
use domain::payment_method::PaymentMethod;
use domain::pt_br;
use domain::time::Timestamp;
use maud::{Markup, html};
use pages::{Document, Language, Word as Text, words as w};
use shared::http::field::{Definitions, Word};
use shared::http::{Fields, IdPath, Problem, Query, RequestContext, Result};

const SECONDS_BEFORE_RETURN: u32 = 2;

pages::words! { pub(crate),
    TEST = "Ambiente de teste: nenhum dinheiro é cobrado.", "Test mode: no money is charged.", "Modo de prueba: no se cobra dinero.";
    PAY_MEANS = "Este é o cartão de teste: nenhum número é pedido. Continue para a autenticação do emissor.",
        "This is the test card: no number is asked for. Continue to the authentication by the issuer.",
        "Esta es la tarjeta de prueba: no se pide ningún número. Continúe a la autenticación del emisor.";
    CONTINUE = "Continuar", "Continue", "Continuar";
    AUTHENTICATE = "Autenticação 3-D Secure", "3-D Secure authentication", "Autenticación 3-D Secure";
    AUTHENTICATE_MEANS = "Aqui o emissor do cartão pergunta se foi você. Escolha o que o titular responde.",
        "Here the card's issuer asks whether it was you. Choose what the holder answers.",
        "Aquí el emisor de la tarjeta pregunta si fue usted. Elija lo que responde el titular.";
    APPROVE = "Aprovar", "Approve", "Aprobar";
    DECLINE = "Recusar", "Decline", "Rechazar";
    APPROVED = "Pagamento aprovado", "Payment approved", "Pago aprobado";
    ENDED = "Esta cobrança não pode mais ser paga com cartão", "This charge can no longer be paid by card", "Este cobro ya no puede pagarse con tarjeta";
    CLOSE = "Você já pode fechar esta página.", "You may close this page now.", "Ya puede cerrar esta página.";
    UNAVAILABLE_MEANS = "Nada foi decidido. Tente de novo em alguns segundos.", "Nothing was decided. Retry in a few seconds.", "No se decidió nada. Inténtelo de nuevo en unos segundos.";
}

pub(crate) async fn show(
    State(app): State<App>,
    request: RequestContext,
    headers: HeaderMap,
    IdPath(id): IdPath<RawChargeId>,
) -> Response {
    let (now, language) = (app.clock.now(), Language::of_payer(&headers));
    match find(&app, id).await {
        Ok(Some(charge)) => {
            let charge = charge.read_at(now);
            if charge.acquirer.is_remote() {
                live(&app, &charge, &request, now).await
            } else {
                page(&charge, now, language)
            }
        }
        Ok(None) => not_found(language),
        Err(problem) => unavailable(&problem, language),
    }
}

/// 303 to the acquirer's page while the charge can be paid there and no payment awaits its confirmation, else to the
/// checkout page. With `back`, the payer comes from the acquirer's page, and goes on to `metadata.returnUrl` or to the
/// checkout page. `back` has the time of the return, once it is known: then the checkout page looks again. `cancelled`:
/// the payer gave up there.
async fn live(app: &App, charge: &Charge, request: &RequestContext, now: Timestamp) -> Response {
    let card = charge.artefacts.card.as_ref();
    let checkout = format!("../{}", charge.id.raw());
    let Some(back) = request.query.text("back") else {
        let page = card
            .and_then(|card| card.page.as_ref())
            .filter(|_| charge.is_payable_by_card(now) && charge.unconfirmed.is_none());
        return see_other(&page.map_or(checkout, |page| page.url.clone()));
    };
    let known = back.parse().ok().and_then(|millis| Timestamp::from_millis(millis).ok());
    let known = known.filter(|at| (charge.created_at..=now).contains(at));
    if charge.is_open() {
        look(app, charge, now).await;
    }
    let return_url = card.and_then(|card| card.return_url.clone()).filter(|_| known.is_none());
    let at = known.unwrap_or(now).millis();
    let cancelled = if request.query.text("cancelled").is_some() { "&cancelled=1" } else { "" };
    see_other(&return_url.unwrap_or_else(|| format!("{checkout}?back={at}{cancelled}")))
}

/// Requests a read of the charge at its acquirer. A failure is only logged, because the notification and the sweep lead
/// to the same read.
async fn look(app: &App, charge: &Charge, now: Timestamp) {
    let requested = match app.charges.claim_look(charge.id, now).await {
        Ok(false) => return,
        Ok(true) => app
            .acquirer_queue
            .send_later(&AcquirerMessage::Look(charge.id), Duration::ZERO)
            .await
            .map_err(Problem::from),
        Err(error) => Err(error.into()),
    };
    if let Err(problem) = requested {
        tracing::warn!(charge = %charge.id, ?problem, "the return of a payer led to no read");
    }
}

fn see_other(url: &str) -> Response {
    let headers = [
        (header::LOCATION, url),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    (StatusCode::SEE_OTHER, headers).into_response()
}

pub(crate) async fn decide(
    State(app): State<App>,
    headers: HeaderMap,
    IdPath(id): IdPath<RawChargeId>,
    form: Result<RawForm, RawFormRejection>,
) -> Response {
    let (now, language) = (app.clock.now(), Language::of_payer(&headers));
    let step = form.ok().and_then(|RawForm(bytes)| {
        let form = Query::parse(Some(&String::from_utf8_lossy(&bytes)));
        form.read(&mut Fields::new(), &STEP)
    });
    let found = find(&app, id).await.map(|found| {
        // A real acquirer decides on its own page.
        found.filter(|charge| !charge.as_stored().acquirer.is_remote())
    });
    let decided = match found {
        Ok(Some(charge)) => apply(&app, charge, step, now).await,
        Ok(None) => return not_found(language),
        Err(problem) => Err(problem),
    };
    match decided {
        // 303 See Other: reloading the page does not repeat the decision. When the charge no longer allows
        // the step, the page shows the charge's current state.
        Ok(_) | Err(Problem::Unprocessable(_)) => {
            (StatusCode::SEE_OTHER, [(header::LOCATION, HeaderValue::from_static("card"))]).into_response()
        }
        Err(problem) => unavailable(&problem, language),
    }
}

async fn find(app: &App, id: Option<RawChargeId>) -> Result<Option<StoredCharge>> {
    let charge = app.charges.find(id.map(ChargeId::from)).await?;
    Ok(charge.filter(|charge| charge.as_stored().artefacts.card.is_some()))
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Choice {
    Begin,
    Approve,
    Decline,
}

shared::fields! {
    STEP: Word<Choice> = "step",
        Word {
            words: || vec![("begin", Choice::Begin), ("approve", Choice::Approve), ("decline", Choice::Decline)],
        },
        Optional, "begin",
        "The payer's choice. A choice that the charge's status no longer allows changes nothing, and so does any other word.";
}

pub const CARD_FORM: Definitions = &[&STEP];

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum CardStep {
    Begin,
    Decide,
    /// No step is left: the charge is paid, or can no longer be paid by card.
    Ended,
}

impl CardStep {
    fn of(charge: &Charge, now: Timestamp) -> Self {
        if !charge.is_payable_by_card(now) {
            Self::Ended
        } else if charge.status == TransactionStatus::Processing {
            Self::Decide
        } else {
            Self::Begin
        }
    }
}

async fn apply(app: &App, stored: StoredCharge, choice: Option<Choice>, now: Timestamp) -> Result<Charge> {
    let charge = stored.clone().read_at(now);
    let command = match (CardStep::of(&charge, now), choice) {
        (CardStep::Begin, Some(Choice::Begin)) => Command::Authenticate,
        (CardStep::Decide, Some(Choice::Approve)) => {
            simulation::pay_command(app, &charge, PaymentMethod::CreditCard, now).await?
        }
        (CardStep::Decide, Some(Choice::Decline)) => {
            Command::Decline(FailureReason::NotAuthenticatedByHolder)
        }
        _ => return Ok(charge),
    };
    Ok(app.charges.apply(stored, &command, now).await?)
}

pub(crate) fn page(charge: &Charge, now: Timestamp, language: Language) -> Response {
    let say = |word| language.say(word);
    let step = CardStep::of(charge, now);
    let (title, content) = match step {
        CardStep::Begin => (
            w::PAY_BY_CARD,
            html! {
                p { (say(PAY_MEANS)) }
                form.actions method="post" { button name="step" value="begin" { (say(CONTINUE)) } }
            },
        ),
        CardStep::Decide => (
            AUTHENTICATE,
            html! {
                p { (say(AUTHENTICATE_MEANS)) }
                form.actions method="post" {
                    button name="step" value="approve" { (say(APPROVE)) }
                    button.danger name="step" value="decline" { (say(DECLINE)) }
                }
            },
        ),
        CardStep::Ended => (end_of(charge), html! {}),
    };
    let return_url = charge.artefacts.card.as_ref().and_then(|card| card.return_url.as_deref());
    let return_url = return_url.filter(|_| step == CardStep::Ended);
    let content = html! {
        p.big { (pt_br::format_amount(charge.amount, charge.currency)) }
        (content)
        @if let Some(url) = return_url { p { a.btn href=(url) { (say(w::BACK_TO_SHOP)) } } }
        @else if step == CardStep::Ended { p { (say(CLOSE)) } }
    };
    let content = html! {
        p.alert.warn { strong { (language.say(TEST)) } }
        div.card { h1 { (language.say(title)) } (content) }
    };
    let document = Document { language, title: language.say(title), shell: None, main: content };
    let mut response = pages::html(StatusCode::OK, document.render());
    let refresh = return_url.map(|url| format!("{SECONDS_BEFORE_RETURN}; url={url}"));
    if let Some(refresh) = refresh.and_then(|text| HeaderValue::from_str(&text).ok()) {
        response.headers_mut().insert(header::REFRESH, refresh);
    }
    response
}

fn end_of(charge: &Charge) -> Text {
    match charge.status {
        TransactionStatus::Approved => APPROVED,
        TransactionStatus::Refused => w::PAYMENT_REFUSED,
        TransactionStatus::Pending
        | TransactionStatus::WaitingPayment
        | TransactionStatus::Processing
        | TransactionStatus::Paid
        | TransactionStatus::Cancelled
        | TransactionStatus::Expired
        | TransactionStatus::Refunded
        | TransactionStatus::Chargeback
        | TransactionStatus::Dispute => ENDED,
    }
}

fn not_found(language: Language) -> Response {
    let content = html! { p { (language.say(w::CHARGE_NOT_FOUND_MEANS)) } };
    framed(StatusCode::NOT_FOUND, w::CHARGE_NOT_FOUND, &content, language)
}

fn unavailable(problem: &Problem, language: Language) -> Response {
    tracing::error!(?problem, "the 3-D Secure page failed");
    let content = html! { p { (language.say(UNAVAILABLE_MEANS)) } };
    framed(StatusCode::SERVICE_UNAVAILABLE, w::PAGE_UNAVAILABLE, &content, language)
}

/// A page without a charge, which may be a live one.
fn framed(status: StatusCode, title: Text, content: &Markup, language: Language) -> Response {
    let title = language.say(title);
    let main = html! { div.card { h1 { (title) } (content) } };
    pages::html(status, Document { language, title, shell: None, main }.render())
}
