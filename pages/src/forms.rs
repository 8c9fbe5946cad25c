//! Forms of the dashboard. A form posts to the function that owns what it changes, which runs the use case of the
//! API as the member and answers 303 to a page. A refusal returns to the form's page with its code.

use axum::extract::{FromRef, FromRequest, FromRequestParts, Request};
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use domain::charge::StoredCharge;
use domain::hex;
use domain::ids::{ChargeId, Mode};
use domain::money::{Currency, TypedAmount};
use domain::time::Timestamp;
use maud::{Markup, html};
use money::charge::Charges;
use serde_json::Value;
use shared::app::App;
use shared::auth::Caller;
use shared::auth::dashboard::{Dashboard, PAGES, Session, shown_mode};
use shared::clock::Clock;
use shared::http::{Detail, FormBody, JsonObject, Problem, Query, RequestContext, Result, SameOrigin, json};
use shared::random;

pub use crate::kept::{Need, disabled};

use crate::done::DONE;
use crate::kept::{Form, Refused};
use crate::layout::Shell;
use crate::words as w;
use crate::{Document, Language, SentForm, Tone, Word, alert, announced, copy_button, path_with, safe_path};

/// For how long after a log-in a member may do what moves live money or changes who may, in seconds. So a session that
/// was left open on a desk can only be looked at.
const LOGGED_IN_RECENTLY_SECONDS: i64 = 600;

/// The state of a function that handles forms of members.
pub trait Sessions {
    fn dashboard(&self) -> &Dashboard;
    fn clock(&self) -> &Clock;
}

impl<T> Sessions for App<T> {
    fn dashboard(&self) -> &Dashboard {
        &self.dashboard
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }
}

/// A form that a member sent from a page of this origin, in the mode for which the page was drawn.
pub struct MemberForm<A> {
    pub app: A,
    pub session: Session,
    pub caller: Caller,
    /// Without empty fields, and without spaces around a value.
    pub form: Query,
    /// As it was sent: spaces belong to a password.
    pub typed: Query,
    pub language: Language,
    pub now: Timestamp,
}

impl<S, A> FromRequest<S> for MemberForm<A>
where
    S: Send + Sync,
    A: Sessions + FromRef<S> + Send + Sync,
{
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self> {
        Self::sent(request, state, Standing::Active).await
    }
}

/// What a form demands of the member and the account.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Standing {
    /// Nothing.
    Any,
    /// The second factor, if the account demands it.
    Enrolled,
    /// Also that the account is not suspended.
    Active,
}

/// A form that is open in a suspended account too; without `ENROLLED`, also to a member without the second factor that
/// the account demands.
pub struct OpenForm<A, const ENROLLED: bool>(pub MemberForm<A>);

pub type UnenrolledForm<A> = OpenForm<A, false>;

/// It takes access away: the account must be able to contain a leak.
pub type ContainmentForm<A> = OpenForm<A, true>;

impl<S, A, const ENROLLED: bool> FromRequest<S> for OpenForm<A, ENROLLED>
where
    S: Send + Sync,
    A: Sessions + FromRef<S> + Send + Sync,
{
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self> {
        let standing = if ENROLLED { Standing::Enrolled } else { Standing::Any };
        Ok(Self(MemberForm::sent(request, state, standing).await?))
    }
}

impl<A: Sessions> MemberForm<A> {
    async fn sent<S>(request: Request, state: &S, standing: Standing) -> Result<Self>
    where
        S: Send + Sync,
        A: FromRef<S>,
    {
        let (mut parts, body) = request.into_parts();
        let member = Self::enter(&mut parts, state, standing).await?;
        let FormBody(form): FormBody =
            FormBody::from_request(Request::from_parts(parts, body), state).await?;
        member.filled(form)
    }

    /// Proves the session and counts the form before its body is read. 403 `totp_enrolment_required` or
    /// `account_suspended`.
    pub(crate) async fn enter<S>(parts: &mut Parts, state: &S, standing: Standing) -> Result<Self>
    where
        S: Send + Sync,
        A: FromRef<S>,
    {
        SameOrigin::from_request_parts(parts, state).await?;
        let Ok(context) = RequestContext::from_request_parts(parts, state).await;
        let app = A::from_ref(state);
        let now = app.clock().now();
        let dashboard = app.dashboard();
        let claims = dashboard.claims_of_cookie(&parts.headers, now)?;
        let session = Box::pin(dashboard.session_to_enrol(&claims, context.source)).await?;
        dashboard.count_request(PAGES, &session, &context, now).await?;
        if standing != Standing::Any && session.lacks_second_factor() {
            return Err(Problem::SecondFactorDemanded);
        }
        if standing == Standing::Active && session.account.settings.suspended {
            return Err(Problem::AccountSuspended);
        }
        let mode = shown_mode(&parts.headers);
        let language = Language::of(&parts.headers);
        let caller = Caller::of_member(&session, mode, &context);
        Ok(Self { caller, session, form: Query::parse(None), typed: Query::parse(None), language, now, app })
    }

    /// 409 `mode_changed` if the page was drawn for the other mode.
    pub(crate) fn filled(self, form: Query) -> Result<Self> {
        if form.text("mode") != Some(self.caller.scope.mode.as_str()) {
            return Err(Problem::ModeChanged);
        }
        Ok(Self { form: form.without_empty(), typed: form, ..self })
    }
}

impl<A: Sessions> MemberForm<A> {
    /// Runs `act`, or returns 409 `idempotency_key_reused` if the form was sent before. A form whose action failed can
    /// be sent again. Without this, a form that is sent twice would send two events, make two endpoints or API keys, or
    /// not find what it has deleted.
    ///
    /// `action` names what it does and to what, because all forms of a page have the same key.
    pub async fn once<T, E>(
        &self,
        action: &str,
        act: impl Future<Output = Result<T, E>>,
    ) -> Result<Result<T, E>> {
        let key = self.form.text("idempotency_key").unwrap_or_default();
        let dashboard = self.app.dashboard();
        let begun = dashboard.begin_form(self.session.user.id, (action, key), self.now).await?;
        let form = begun.ok_or(Problem::IdempotencyKeyReused)?;
        let done = act.await;
        if done.is_err() {
            dashboard.release_form(&form).await;
        }
        Ok(done)
    }

    /// Like [`Self::once`], for an action without a result: a form that was sent before is answered as it was then.
    pub async fn once_alike<E>(
        &self,
        action: &str,
        act: impl Future<Output = Result<(), E>>,
    ) -> Result<Result<(), E>> {
        match self.once(action, act).await {
            Err(Problem::IdempotencyKeyReused) => Ok(Ok(())),
            done => done,
        }
    }
}

impl<A> MemberForm<A> {
    /// 403 `role_required`. In live mode, and for what both modes share, the log-in must be recent too: 401
    /// `log_in_again`.
    pub fn require(&self, need: Need) -> Result<()> {
        self.require_role(need)?;
        let is_test = self.caller.scope.mode == Mode::Test && !matches!(need, Need::Settings | Need::Owner);
        if is_test { Ok(()) } else { self.require_recent() }
    }

    /// For what neither moves money nor changes who may: no recent log-in is needed.
    pub fn require_role(&self, need: Need) -> Result<()> {
        if need.is_met(&self.session, self.caller.scope.mode) {
            return Ok(());
        }
        Err(match need {
            Need::Keys => Problem::ApiKeyRoleRequired,
            Need::Owner => Problem::RoleRequired { role: "OWNER" },
            Need::Viewer | Need::Member => Problem::RoleRequired { role: "MEMBER" },
            Need::Admin | Need::Dossier | Need::Settings => Problem::RoleRequired { role: "ADMIN" },
        })
    }

    /// 401 `log_in_again` if the log-in, or its last confirmation, is not recent.
    pub fn require_recent(&self) -> Result<()> {
        let age = self.now.seconds().saturating_sub(self.session.logged_in_at());
        let back = safe_path(self.form.text("back")).to_owned();
        let by_code = self.session.user.second_factor_at.is_some();
        if age <= LOGGED_IN_RECENTLY_SECONDS { Ok(()) } else { Err(Problem::LogInAgain { back, by_code }) }
    }

    pub fn require_test(&self) -> Result<()> {
        self.caller.require_test()
    }

    /// A page with a secret, which is shown once.
    pub fn secret_page(&self, title: Word, secret: &str, back: &str) -> Response {
        let say = |word| self.language.say(word);
        let main = html! {
            h1 { (say(title)) }
            section.card {
                (alert(Tone::Warn, &html! { (say(w::SECRET_ONCE)) }))
                pre tabindex="0" { code #secret { (secret) } }
                div.actions {
                    (copy_button(self.language, w::COPY, secret))
                    a.btn.quiet href=(back) { (say(w::SECRET_STORED)) }
                }
            }
        };
        self.page(title, main, back)
    }

    /// The form again, with what was typed and what is wrong with it. What the form can't correct is answered by
    /// [`answer`]. `back`: the form's page.
    pub fn kept(
        &self,
        problem: Problem,
        (title, back): (Word, &str),
        form: impl FnOnce(&Form<'_>) -> Markup,
    ) -> Result<Response> {
        if [StatusCode::BAD_REQUEST, StatusCode::UNPROCESSABLE_ENTITY].contains(&problem.status()) {
            self.refused(problem.status(), (problem.code(), &problem.params()), (title, back), form)
        } else {
            answer(Err(problem), back)
        }
    }

    /// Like [`Self::kept`], whatever the status. A key that has done something else is replaced.
    pub fn refused(
        &self,
        status: StatusCode,
        (code, fields): (&str, &[&str]),
        (title, back): (Word, &str),
        form: impl FnOnce(&Form<'_>) -> Markup,
    ) -> Result<Response> {
        let (session, language, mode) = (&self.session, self.language, self.caller.scope.mode);
        let sent = self.form.text("idempotency_key").filter(|_| status != StatusCode::CONFLICT);
        let key = sent.map_or_else(new_key, |key| Ok(key.to_owned()))?;
        let refused = Some(Refused { typed: &self.typed, code, fields });
        let form = form(&Form { session, language, mode, page: back, key: &key, refused });
        let main = html! {
            p.crumb { a href=(back) { (language.say(w::BACK)) } }
            h1 { (language.say(title)) }
            (announced(Tone::Bad, &html! { (language.say(w::of_code(code))) }))
            section.card { (form) }
        };
        Ok(self.shown(status, title, main, back))
    }

    /// A page with the question of a form that was sent, and what answers it.
    pub fn asking(
        &self,
        (title, back): (Word, &str),
        sent: &SentForm,
        question: impl FnOnce(&Form<'_>) -> String,
    ) -> Result<Response> {
        let (session, language, mode) = (&self.session, self.language, self.caller.scope.mode);
        let key = self.form.text("idempotency_key").unwrap_or_default();
        let question = question(&Form { session, language, mode, page: back, key, refused: None });
        let main = html! {
            p.crumb { a href=(back) { (language.say(w::BACK)) } }
            section.card { h1 { (question) } (sent.asked(language)) }
        };
        Ok(self.page(title, main, back))
    }

    /// A page that is answered to this form alone. `back`: the page that the choices of mode and language lead to.
    pub fn page(&self, title: Word, main: Markup, back: &str) -> Response {
        self.shown(StatusCode::OK, title, main, back)
    }

    fn shown(&self, status: StatusCode, title: Word, main: Markup, back: &str) -> Response {
        let shell = Shell::of(&self.session, self.caller.scope.mode, back);
        let document =
            Document { language: self.language, title: self.language.say(title), shell: Some(&shell), main };
        crate::html(status, document.render())
    }
}

/// The key of a form that a page draws.
pub fn new_key() -> Result<String> {
    Ok(hex::encode(random::bytes::<16>()?))
}

impl<T> MemberForm<App<T>> {
    /// The charge with an id, as it is stored. 404 for a charge of another account or mode.
    pub async fn charge(&self, id: Option<ChargeId>) -> Result<StoredCharge> {
        let found = Charges::new(self.app.store.clone()).find(id).await?;
        let found = found.filter(|charge| charge.as_stored().scope == self.caller.scope);
        found.ok_or(Problem::NotFound { what: "charge" })
    }
}

/// A request's body from the values of a form; a value that is absent or null is left out.
pub fn body(fields: Value) -> Result<JsonObject> {
    let Value::Object(mut fields) = fields else { return Ok(JsonObject::new()) };
    fields.retain(|_, value| !value.is_null());
    json::parse_object(Value::Object(fields).to_string().as_bytes())
}

/// 303 to the page, which says that the form was done; or to the form's page with the refusal. An error that the
/// user can't correct in the form is an error page.
pub fn answer(done: Result<String>, back: &str) -> Result<Response> {
    let location = match done {
        Ok(path) => format!("{path}{DONE}"),
        Err(problem) => refusal(problem, back)?,
    };
    Ok(led(location))
}

/// 303 to the page, which says that the action with this name was done. For an action that shares its form with others.
pub fn done_as(action: &str, path: &str) -> Response {
    led(format!("{path}?done={action}"))
}

fn led(location: String) -> Response {
    (StatusCode::SEE_OTHER, [(LOCATION, location)]).into_response()
}

pub fn refusal(problem: Problem, back: &str) -> Result<String> {
    if !is_correctable(&problem) {
        return Err(problem);
    }
    let fields = problem.params().into_iter().map(|field| ("field", field));
    let parameters: Vec<_> = std::iter::once(("error", problem.code())).chain(fields).collect();
    Ok(path_with(back, &parameters))
}

/// Whether the user can correct the form, or send it later.
pub fn is_correctable(problem: &Problem) -> bool {
    let is_refusal = [StatusCode::BAD_REQUEST, StatusCode::CONFLICT, StatusCode::UNPROCESSABLE_ENTITY]
        .contains(&problem.status());
    match problem {
        Problem::ModeChanged => false,
        Problem::TooManyTests { .. }
        | Problem::TooManyReports { .. }
        | Problem::CustomerVelocityExceeded
        | Problem::AccountVelocityExceeded => true,
        _ => is_refusal,
    }
}

/// Parses an amount as people write it, in smallest units of the currency.
pub fn minor_units(text: &str, currency: Currency) -> Result<i64> {
    TypedAmount::parse(text).and_then(|amount| amount.minor(currency)).ok_or_else(invalid_amount)
}

pub fn invalid_amount() -> Problem {
    Problem::InvalidAmount(vec![Detail::new("amount", "must be an amount")])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_that_the_form_can_correct_returns_to_it() {
        let refused = Problem::field("amount", "must be an integer");
        assert_eq!(
            refusal(refused, "/dashboard/charges/new").unwrap(),
            "/dashboard/charges/new?error=invalid_request&field=amount"
        );
        let again = Problem::LogInAgain { back: String::new(), by_code: false };
        for problem in [again, Problem::ModeChanged, Problem::RoleRequired { role: "ADMIN" }] {
            assert!(refusal(problem, "/dashboard").is_err());
        }
    }
}
