//! The form of the checkout page that simulates the payment of a test charge, or its decline.
//!
//! The route is public, like the page: the charge's URL is the credential. The browser sends no cookie, so a
//! form on another site can do no more than anyone who knows the URL. The page forbids a referrer, so a browser
//! sends `Origin: null`, which shows nothing.

use crate::{App, terms_of};
use axum::extract::State;
use axum::response::Redirect;
use domain::charge::transition::{Command, Payment};
use domain::charge::{Charge, FailureReason};
use domain::ids::{AcquirerPaymentId, ChargeId, EndToEndId, Mode, RawChargeId};
use domain::payment_method::PaymentMethod;
use domain::time::Timestamp;
use shared::http::field::{Definitions, Word};
use shared::http::{Fields, FormBody, IdPath, Problem, Query, RequestContext, Result};

/// The largest form, in bytes. The form of the page has fewer than 50.
const MAX_BODY_BYTES: usize = 1_024;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Simulated {
    Paid,
    Declined,
}

shared::fields! {
    OUTCOME: Word<Simulated> = "outcome",
        Word { words: || vec![("paid", Simulated::Paid), ("declined", Simulated::Declined)] },
        Required, "paid",
        "What the simulation does.";
    METHOD: Word<PaymentMethod> = "method", Word::ALL, Optional, "PIX",
        "One of the charge's payment methods. The default is the first that can be paid.";
}

pub const SIMULATION_FORM: Definitions = &[&OUTCOME, &METHOD];

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Simulation {
    pub(crate) outcome: Simulated,
    pub(crate) method: Option<PaymentMethod>,
}

impl Simulation {
    fn parse(form: &Query) -> Result<Self> {
        let mut fields = Fields::new();
        form.allow_only(&mut fields, SIMULATION_FORM);
        let outcome = form.read(&mut fields, &OUTCOME);
        let method = form.read(&mut fields, &METHOD);
        fields.finish(outcome.map(|outcome| Self { outcome, method }))
    }
}

/// Handles the form `POST /checkout/{raw_id}/simulate`, and returns the browser to the checkout page. A
/// simulation that the charge's state no longer allows changes nothing, because the page shows that state.
pub(crate) async fn simulate(
    State(app): State<App>,
    request: RequestContext,
    IdPath(id): IdPath<RawChargeId>,
    FormBody(form): FormBody<MAX_BODY_BYTES>,
) -> Result<Redirect> {
    let simulation = Simulation::parse(&form)?;
    let found = app.charges.find(id.map(ChargeId::from)).await?;
    // A live charge is answered as an unknown one.
    let stored = found
        .filter(|charge| charge.as_stored().scope.mode == Mode::Test)
        .ok_or(Problem::NotFound { what: "charge" })?;
    let now = app.clock.now();
    let charge = stored.clone().read_at(now);
    app.charges.count_simulation(&charge, &request, now).await?;
    if let Some(command) = command(&app, &charge, simulation, now).await? {
        app.charges.apply(stored, &command, now).await?;
    }
    // 303 See Other: reloading the page does not repeat the simulation. The URL is relative to the route's, so
    // that it works behind any base path.
    Ok(Redirect::to(&format!("../{}", charge.id.raw())))
}

/// Returns the command of a simulation. `None`: the charge can't be paid now.
pub(crate) async fn command(
    app: &App,
    charge: &Charge,
    simulation: Simulation,
    now: Timestamp,
) -> Result<Option<Command>> {
    if simulation.method.is_some_and(|method| !charge.methods.contains(&method)) {
        return Err(Problem::field("method", "must be one of the charge's payment methods"));
    }
    let is_wanted = |method: &PaymentMethod| simulation.method.is_none_or(|wanted| wanted == *method);
    let Some(method) = charge.payable_methods(now).map(|(method, _)| method).find(is_wanted) else {
        return Ok(None);
    };
    Ok(Some(match simulation.outcome {
        Simulated::Paid => pay_command(app, charge, method, now).await?,
        Simulated::Declined => Command::Decline(FailureReason::DeclinedInSimulation),
    }))
}

/// Returns the command by which the expected payer pays a charge in full.
pub(crate) async fn pay_command(
    app: &App,
    charge: &Charge,
    method: PaymentMethod,
    now: Timestamp,
) -> Result<Command> {
    let payment = Payment {
        id: payment_id(charge, method),
        method,
        amount: charge.amount,
        payer_document: charge.payer_tax_id(),
        paid_at: now,
        is_in_time: false,
        charged: None,
    };
    Ok(Command::Pay { payment, terms: terms_of(app, charge, method).await? })
}

/// Derives the id of the payment from the charge, so that a form that is sent twice yields one payment.
fn payment_id(charge: &Charge, method: PaymentMethod) -> AcquirerPaymentId {
    match method {
        PaymentMethod::Pix => EndToEndId::simulated(charge.id, charge.created_at).into(),
        PaymentMethod::CreditCard => AcquirerPaymentId::for_card_authorisation(charge.id),
        PaymentMethod::Mbway | PaymentMethod::Multibanco | PaymentMethod::Boleto | PaymentMethod::Crypto => {
            AcquirerPaymentId::simulated(charge.id, charge.created_at)
        }
    }
}
