//! The sandbox's 3-D Secure page, which acts as the card issuer. The payer of a test charge begins the
//! payment, then approves or declines it. Then the browser returns to the merchant's `returnUrl`.
//!
//! The page is public, like an issuer's page: anyone with its URL can approve or decline. It does not ask for
//! a card number. It exists only for charges of the sandbox acquirer.

use std::sync::LazyLock;

use axum::extract::rejection::RawFormRejection;
use axum::extract::{RawForm, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use domain::charge::transition::{Command, Payment};
use domain::charge::{Charge, StoredCharge, TransactionStatus};
use domain::ids::AcquirerPaymentId;
use domain::payment_method::PaymentMethod;
use domain::pt_br;
use domain::time::Timestamp;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use shared::app::App;
use shared::http::field::{Definitions, Word};
use shared::http::{Fields, Problem, Query, csp_source};

use crate::{RawId, charge_id, terms_of};

const STYLE: &str = include_str!("three_d_secure.css");

static CONTENT_SECURITY_POLICY: LazyLock<String> = LazyLock::new(|| {
    format!(
        "default-src 'none'; style-src '{}'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
        csp_source(STYLE)
    )
});

const SECONDS_BEFORE_RETURN: u32 = 2;

const DECLINED_CODE: &str = "authentication_failed";

pub(crate) async fn show(State(app): State<App>, raw_id: RawId) -> Response {
    let now = app.clock.now();
    match find(&app, raw_id).await {
        Ok(Some(charge)) => page(&charge.read_at(now), now),
        Ok(None) => not_found(),
        Err(problem) => unavailable(&problem),
    }
}

pub(crate) async fn decide(
    State(app): State<App>,
    raw_id: RawId,
    form: Result<RawForm, RawFormRejection>,
) -> Response {
    let now = app.clock.now();
    let step = form.ok().and_then(|RawForm(bytes)| {
        let form = Query::parse(Some(&String::from_utf8_lossy(&bytes)));
        form.read(&mut Fields::new(), &STEP)
    });
    let decided = match find(&app, raw_id).await {
        Ok(Some(charge)) => apply(&app, charge, step, now).await,
        Ok(None) => return not_found(),
        Err(problem) => Err(problem),
    };
    match decided {
        // 303 See Other: reloading the page does not repeat the decision. When the charge no longer allows
        // the step, the page shows the charge's current state.
        Ok(_) | Err(Problem::Unprocessable(_)) => {
            (StatusCode::SEE_OTHER, [(header::LOCATION, HeaderValue::from_static("card"))]).into_response()
        }
        Err(problem) => unavailable(&problem),
    }
}

async fn find(app: &App, raw_id: RawId) -> Result<Option<StoredCharge>, Problem> {
    let charge = app.charges.find(charge_id(raw_id)).await?;
    let is_by_card =
        |charge: &Charge| charge.acquirer.traits().simulates_issuer && charge.artefacts.card.is_some();
    Ok(charge.filter(|charge| is_by_card(charge.as_stored())))
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

async fn apply(
    app: &App,
    stored: StoredCharge,
    choice: Option<Choice>,
    now: Timestamp,
) -> Result<Charge, Problem> {
    let charge = stored.clone().read_at(now);
    let command = match (CardStep::of(&charge, now), choice) {
        (CardStep::Begin, Some(Choice::Begin)) => Command::Authenticate,
        (CardStep::Decide, Some(Choice::Approve)) => {
            let payment = Payment {
                // The id is derived from the charge, so approving twice yields one payment.
                id: AcquirerPaymentId::for_card_authorisation(charge.id),
                method: PaymentMethod::CreditCard,
                amount: charge.amount,
                payer_document: charge.payer_tax_id(),
                paid_at: now,
                is_in_time: false,
            };
            Command::Pay { payment, terms: terms_of(app, &charge, PaymentMethod::CreditCard).await? }
        }
        (CardStep::Decide, Some(Choice::Decline)) => Command::Decline {
            reason: "The holder did not authenticate the payment.".to_owned(),
            code: DECLINED_CODE.to_owned(),
        },
        _ => return Ok(charge),
    };
    Ok(app.charges.apply(stored, &command, now).await?)
}

pub(crate) fn page(charge: &Charge, now: Timestamp) -> Response {
    let amount = pt_br::format_amount(charge.amount, charge.currency);
    let step = CardStep::of(charge, now);
    let (title, content) = match step {
        CardStep::Begin => (
            "Pagar com cartão",
            html! {
                p { "Este é o cartão de teste: nenhum número é pedido. Continue para a autenticação do emissor." }
                form method="post" { button name="step" value="begin" { "Continuar" } }
            },
        ),
        CardStep::Decide => (
            "Autenticação 3-D Secure",
            html! {
                p { "Aqui o emissor do cartão pergunta se foi você. Escolha o que o titular responde." }
                form method="post" {
                    button name="step" value="approve" { "Aprovar" }
                    button.decline name="step" value="decline" { "Recusar" }
                }
            },
        ),
        CardStep::Ended => (end_of(charge), html! {}),
    };
    let return_url = charge.artefacts.card.as_ref().and_then(|card| card.return_url.as_deref());
    let ended = step == CardStep::Ended;
    let content = html! {
        h1 { (title) }
        p.amount { (amount) }
        (content)
        @if ended { (back(return_url)) }
    };
    framed(StatusCode::OK, title, return_url.filter(|_| ended), &content)
}

fn end_of(charge: &Charge) -> &'static str {
    match charge.status {
        TransactionStatus::Approved => "Pagamento aprovado",
        TransactionStatus::Refused => "Pagamento recusado",
        TransactionStatus::Pending
        | TransactionStatus::WaitingPayment
        | TransactionStatus::Processing
        | TransactionStatus::Paid
        | TransactionStatus::Cancelled
        | TransactionStatus::Expired
        | TransactionStatus::Refunded
        | TransactionStatus::Chargeback
        | TransactionStatus::Dispute => "Esta cobrança não pode mais ser paga com cartão",
    }
}

fn back(return_url: Option<&str>) -> Markup {
    html! {
        @if let Some(url) = return_url { a.back href=(url) { "Voltar para a loja" } }
        @else { p { "Você já pode fechar esta página." } }
    }
}

fn not_found() -> Response {
    let content = html! {
        h1 { "Cobrança não encontrada" }
        p { "Confira se o endereço está completo ou peça um novo link à loja." }
    };
    framed(StatusCode::NOT_FOUND, "Cobrança não encontrada", None, &content)
}

fn unavailable(problem: &Problem) -> Response {
    tracing::error!(?problem, "the 3-D Secure page failed");
    let body = html! {
        h1 { "Página indisponível no momento" }
        p { "Nada foi decidido. Tente de novo em alguns segundos." }
    };
    framed(StatusCode::SERVICE_UNAVAILABLE, "Página indisponível no momento", None, &body)
}

/// Renders a whole page. `leave_for` is the URL to which the browser goes after [`SECONDS_BEFORE_RETURN`].
fn framed(status: StatusCode, title: &str, leave_for: Option<&str>, content: &Markup) -> Response {
    let body = html! {
        (DOCTYPE)
        html lang="pt-BR" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="robots" content="noindex, nofollow";
                @if let Some(url) = leave_for {
                    meta http-equiv="refresh" content={ (SECONDS_BEFORE_RETURN) "; url=" (url) };
                }
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header { p.test { strong { "Ambiente de teste" } ": nenhum dinheiro é cobrado." } }
                main { (content) }
            }
        }
    };
    let headers: [(HeaderName, &str); 3] = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, &CONTENT_SECURITY_POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    (status, headers, body.into_string()).into_response()
}
