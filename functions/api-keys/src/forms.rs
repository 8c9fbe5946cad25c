//! The dashboard's forms for log-in, log-out and API keys.

use axum::Router;
use axum::extract::State;
use axum::http::header::{LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::middleware::from_fn;
use axum::response::{AppendHeaders, IntoResponse, Response};
use axum::routing::post;
use domain::ids::{ApiKeyId, Mode};
use domain::source_address::SourceAddress;
use domain::time::Timestamp;
use maud::{Markup, html};
use pages::forms::{ContainmentForm, MemberForm, Need, OpenForm, Sessions, answer, body};
use pages::{Access, Document, Language, SentForm, Word, errors_as_pages, path_with, safe_path, words as w};
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use shared::api_key::request::NewApiKey;
use shared::api_key::{ApiKeyError, IssuedApiKey};
use shared::auth::dashboard::log_in::{Credentials, LogIn, NewToken};
use shared::auth::dashboard::token::{PENDING_SECONDS, TokenKind};
use shared::auth::dashboard::{BROWSER_COOKIE, Dashboard, PENDING_COOKIE, SESSION_COOKIE, Session};
use shared::clock::Clock;
use shared::http::{FormBody, IdPath, Problem, RequestContext, Result, SameOrigin, cookie, set_cookie};

use crate::security::CODE;
use crate::{ApiKeysApp, team};

const CLEAR_SITE_DATA: HeaderName = HeaderName::from_static("clear-site-data");

const DEVELOPERS: &str = "/dashboard/developers";

pub(crate) const LOG_IN: &str = "/dashboard/login";

pub(crate) fn routes() -> Router<ApiKeysApp> {
    Router::new()
        .route(LOG_IN, post(log_in))
        .route("/dashboard/logout", post(log_out))
        .route("/dashboard/language", post(team::choose_language))
        .route("/dashboard/settings/sales-emails", post(team::choose_sales_emails))
        .route("/dashboard/team/invites", post(team::invite))
        .route("/dashboard/team/invites/{hash}/withdraw", post(team::withdraw))
        .route("/dashboard/team/{id}/role", post(team::set_role))
        .route("/dashboard/team/{id}/remove", post(team::remove))
        .route("/dashboard/invite/{token}", post(team::accept))
        .route("/dashboard/reset", post(team::request_reset))
        .route("/dashboard/reset/{token}", post(team::reset))
        .route("/dashboard/developers/keys", post(issue))
        .route("/dashboard/developers/keys/{id}/rotate", post(rotate))
        .route("/dashboard/developers/keys/{id}/revoke", post(revoke))
        .merge(crate::brand::routes())
        .layer(from_fn(errors_as_pages))
}

async fn log_in(
    State(app): State<ApiKeysApp>,
    _: SameOrigin,
    (context, headers): (RequestContext, HeaderMap),
    FormBody(form): FormBody,
) -> Result<Response> {
    let next = safe_path(form.text("next"));
    let text = |name| form.text(name).unwrap_or_default().to_owned();
    let after = After { next, sent: SentForm::parse(form.text("sent")), language: Language::of(&headers) };
    enter(&app, (text("email"), text("password").into()), (&context, &headers), &after).await
}

/// What follows a log-in: a page, or a form that waited for it.
pub(crate) struct After<'a> {
    pub(crate) next: &'a str,
    pub(crate) sent: Option<SentForm>,
    pub(crate) language: Language,
}

impl After<'_> {
    /// The page, or for the user who had sent it the form filled in, which waits for its button.
    pub(crate) fn done(&self, token: &NewToken) -> Response {
        let Some(sent) = self.sent.as_ref().filter(|sent| sent.is_of(token.user)) else {
            return led(self.next.to_owned(), token.cookies());
        };
        let say = |word| self.language.say(word);
        let main = html! {
            div.card {
                h1 { (say(w::FILLED_IN)) ": " (say(sent.action_word())) }
                p { (say(w::FILLED_IN_MEANS)) }
                (sent.filled_in(self.language))
            }
        };
        self.page(StatusCode::OK, w::FILLED_IN, main, token.cookies())
    }

    /// Asks again: a page with the form that waits, or without one 303 to the page that explains the refusal.
    pub(crate) fn refused(
        &self,
        (path, title): (&str, Word),
        code: &str,
        card: impl FnOnce(Access<'_>) -> Markup,
    ) -> Response {
        if self.sent.is_none() {
            return refused(path, code, Some(self.next));
        }
        self.page(StatusCode::UNAUTHORIZED, title, card(self.access(Some(code))), [])
    }

    /// With what was typed as the e-mail address, the form is on the answer itself, so that the address is in no URL.
    pub(crate) fn to_log_in(&self, code: &str, typed: Option<&str>) -> Response {
        let card = |access: Access<'_>| access.log_in(&html! {}, typed, None);
        if typed.is_some() {
            return self.page(StatusCode::UNAUTHORIZED, w::LOG_IN, card(self.access(Some(code))), []);
        }
        self.refused((LOG_IN, w::LOG_IN), code, card)
    }

    fn access<'a>(&'a self, error: Option<&'a str>) -> Access<'a> {
        Access { language: self.language, next: self.next, error, sent: self.sent.as_ref() }
    }

    /// A page without the frame of the dashboard.
    fn page(
        &self,
        status: StatusCode,
        title: Word,
        main: Markup,
        cookies: impl IntoIterator<Item = String>,
    ) -> Response {
        let (language, title) = (self.language, self.language.say(title));
        with_cookies(cookies, pages::html(status, Document { language, title, shell: None, main }.render()))
    }
}

/// Logs in, and leads to what follows, to the form for the second factor, or back to the log-in.
pub(crate) async fn enter(
    app: &ApiKeysApp,
    (email, password): (String, SecretString),
    (context, headers): (&RequestContext, &HeaderMap),
    after: &After<'_>,
) -> Result<Response> {
    let browser = cookie(headers, BROWSER_COOKIE).map(SecretString::from);
    let credentials = Credentials { email: email.clone(), password, totp: None, browser };
    match app.dashboard.log_in(TokenKind::Session, credentials, context, app.clock.now()).await {
        Ok(LogIn::Done(token)) => Ok(after.done(&token)),
        Ok(LogIn::Pending(token)) => {
            let cookie = set_cookie(PENDING_COOKIE, token.expose_secret(), PENDING_SECONDS);
            if after.sent.is_some() {
                return Ok(after.page(StatusCode::OK, w::SECOND_FACTOR, after.access(None).code(), [cookie]));
            }
            Ok(led(path_with(CODE, &[("next", after.next)]), [cookie]))
        }
        Err(problem @ (Problem::WrongCredentials | Problem::TooManyLogins { .. })) => {
            Ok(after.to_log_in(problem.code(), Some(&email)))
        }
        Err(problem) => Err(problem),
    }
}

/// 303 to a page that explains the refusal.
pub(crate) fn refused(page: &str, code: &str, next: Option<&str>) -> Response {
    let next = next.map(|next| ("next", next));
    led(path_with(page, &std::iter::once(("error", code)).chain(next).collect::<Vec<_>>()), [])
}

/// 303 with cookies.
pub(crate) fn led(path: String, cookies: impl IntoIterator<Item = String>) -> Response {
    with_cookies(cookies, (StatusCode::SEE_OTHER, [(LOCATION, path)]))
}

pub(crate) fn with_cookies(
    cookies: impl IntoIterator<Item = String>,
    response: impl IntoResponse,
) -> Response {
    let cookies = AppendHeaders(cookies.into_iter().map(|cookie| (SET_COOKIE, cookie)));
    (cookies, response).into_response()
}

/// Ends the session, if there is one, and removes what the browser keeps of the pages.
async fn log_out(
    State(app): State<ApiKeysApp>,
    _: SameOrigin,
    context: RequestContext,
    headers: HeaderMap,
) -> Result<Response> {
    let now = app.clock.now();
    if let Some(session) = session_of(&app, (&headers, context.source), now).await? {
        app.dashboard.log_out(&session, now).await?;
    }
    let headers = [
        (SET_COOKIE, set_cookie(SESSION_COOKIE, "", 0)),
        (CLEAR_SITE_DATA, "\"cache\", \"storage\"".to_owned()),
        (LOCATION, LOG_IN.to_owned()),
    ];
    Ok((StatusCode::SEE_OTHER, headers).into_response())
}

/// `None` without a session, or if it has ended.
pub(crate) async fn session_of(
    app: &ApiKeysApp,
    (headers, source): (&HeaderMap, SourceAddress),
    now: Timestamp,
) -> Result<Option<Session>> {
    let Ok(claims) = app.dashboard.claims_of_cookie(headers, now) else { return Ok(None) };
    match app.dashboard.session_to_enrol(&claims, source).await {
        Ok(session) => Ok(Some(session)),
        Err(Problem::NotLoggedIn) => Ok(None),
        Err(problem) => Err(problem),
    }
}

impl Sessions for ApiKeysApp {
    fn dashboard(&self) -> &Dashboard {
        &self.dashboard
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }
}

async fn issue(OpenForm(member): ContainmentForm<ApiKeysApp>) -> Result<Response> {
    member.require(Need::Keys)?;
    let MemberForm { app, session, caller, form, now, .. } = &member;
    let is_test = caller.scope.mode == Mode::Test;
    let fields = json!({"label": form.text("label"), "test": is_test});
    let request = match body(fields).and_then(|fields| NewApiKey::parse(&fields)) {
        Ok(request) => request,
        Err(problem) => return answer(Err(problem), DEVELOPERS),
    };
    let operator = session.operator();
    let issue = Box::pin(app.api_keys.issue(&session.account.id, &request, &operator, *now));
    key_page(&member, member.once("key", issue).await)
}

fn key_page(
    member: &MemberForm<ApiKeysApp>,
    issued: Result<Result<IssuedApiKey, ApiKeyError>>,
) -> Result<Response> {
    match issued {
        Ok(issued) => Ok(member.secret_page(w::NEW_KEY, issued?.cleartext.expose_secret(), DEVELOPERS)),
        Err(problem) => answer(Err(problem), DEVELOPERS),
    }
}

/// 404 for a key of another account or mode.
async fn require_own_key(member: &MemberForm<ApiKeysApp>, id: &ApiKeyId) -> Result<(), ApiKeyError> {
    let key = member.app.api_keys.find(&member.session.account.id, Some(id)).await?;
    if key.mode == member.caller.scope.mode { Ok(()) } else { Err(ApiKeyError::NotFound) }
}

async fn rotate(
    IdPath(id): IdPath<ApiKeyId>,
    OpenForm(member): ContainmentForm<ApiKeysApp>,
) -> Result<Response> {
    member.require(Need::Keys)?;
    let MemberForm { app, session, now, .. } = &member;
    let id = id.ok_or(ApiKeyError::NotFound)?;
    let rotate = async {
        require_own_key(&member, &id).await?;
        app.api_keys.rotate(&session.account.id, Some(&id), None, &session.operator(), *now).await
    };
    key_page(&member, member.once(&format!("rotate#{id}"), Box::pin(rotate)).await)
}

async fn revoke(
    IdPath(id): IdPath<ApiKeyId>,
    OpenForm(member): ContainmentForm<ApiKeysApp>,
) -> Result<Response> {
    member.require(Need::Keys)?;
    let MemberForm { app, session, now, .. } = &member;
    let id = id.ok_or(ApiKeyError::NotFound)?;
    let revoke = async {
        require_own_key(&member, &id).await?;
        app.api_keys.revoke(&session.account.id, Some(&id), &session.operator(), *now).await.map(drop)
    };
    member.once_alike(&format!("revoke#{id}"), Box::pin(revoke)).await??;
    answer(Ok(DEVELOPERS.to_owned()), DEVELOPERS)
}
