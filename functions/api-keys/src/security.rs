//! Forms about a user's own access: code of the log-in, confirmation of a session, second factor, password, sessions.
//! Each is open to a member without the second factor that the account demands, except the demand itself.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::middleware::from_fn;
use axum::response::Response;
use axum::routing::post;
use maud::{Markup, html};
use pages::forms::{ContainmentForm, MemberForm, Need, OpenForm, UnenrolledForm, answer};
use pages::{
    Access, Language, SentForm, Tone, announced, code_block, errors_as_pages, hidden, qr_picture, safe_path,
    words as w,
};
use secrecy::{ExposeSecret, SecretString};
use shared::account::password::is_acceptable;
use shared::auth::dashboard::{BROWSER_COOKIE, Enrolment, PENDING_COOKIE, SESSION_COOKIE};
use shared::http::{FormBody, Problem, RequestContext, Result, SameOrigin, cookie, set_cookie};

use crate::forms::{After, LOG_IN, led, with_cookies};
use crate::{ApiKeysApp, forms};

/// The page that asks for the code of a log-in.
pub(crate) const CODE: &str = "/dashboard/totp";
const CONFIRM: &str = "/dashboard/confirm";
const SECURITY: &str = "/dashboard/security";

type Form = UnenrolledForm<ApiKeysApp>;

pages::words! { ,
    SCAN = "Escaneie o QR code", "Scan the QR code", "Escanee el código QR";
    SCAN_MEANS = "Escaneie com um app autenticador, ou digite a chave nele. Mostrado só agora.", "Scan it with an authenticator app, or type the key there. Shown only now.", "Escanéelo con una app de autenticación, o escriba la clave en ella. Se muestra solo ahora.";
    APP_CODE = "Código de 6 dígitos que o app mostra", "6-digit code that the app shows", "Código de 6 dígitos que muestra la app";
    RECOVERY_CODES = "Códigos de recuperação", "Recovery codes", "Códigos de recuperación";
}

pub(crate) fn routes() -> Router<ApiKeysApp> {
    Router::new()
        .route("/dashboard/totp", post(log_in_with_code))
        .route("/dashboard/confirm", post(confirm))
        .route("/dashboard/security/totp", post(begin))
        .route("/dashboard/security/totp/on", post(turn_on))
        .route("/dashboard/security/totp/off", post(turn_off))
        .route("/dashboard/security/demand", post(demand))
        .route("/dashboard/security/password", post(change_password))
        .route("/dashboard/security/sessions", post(end_sessions))
        .route("/dashboard/security/sessions/{id}/end", post(end_session))
        .layer(from_fn(errors_as_pages))
}

/// 303 to the form's page, if the user can correct the refusal there. A wrong password, a wrong code and a used code
/// have the same words.
fn refused(problem: Problem, path: &str, next: Option<&str>) -> Result<Response> {
    match proof_code(&problem) {
        Some(code) => Ok(forms::refused(path, code, next)),
        None => answer(Err(problem), path),
    }
}

fn proof_code(problem: &Problem) -> Option<&'static str> {
    match problem {
        Problem::WrongCredentials => Some("wrong_proof"),
        Problem::TooManyLogins { .. } => Some(problem.code()),
        _ => None,
    }
}

async fn log_in_with_code(
    State(app): State<ApiKeysApp>,
    _: SameOrigin,
    context: RequestContext,
    headers: HeaderMap,
    FormBody(form): FormBody,
) -> Result<Response> {
    let next = safe_path(form.text("next"));
    let after = After { next, sent: SentForm::parse(form.text("sent")), language: Language::of(&headers) };
    let code = form.text("code").unwrap_or_default();
    let sent = (cookie(&headers, PENDING_COOKIE), cookie(&headers, BROWSER_COOKIE));
    // The cookie of the log-in expires by itself. Without a code it is worth nothing.
    match app.dashboard.log_in_with_code(sent, code, &context, app.clock.now()).await {
        Ok(token) => Ok(after.done(&token)),
        // The password was right more than five minutes ago.
        Err(Problem::NotLoggedIn) => Ok(after.to_log_in("log_in_again", None)),
        Err(problem) => match proof_code(&problem) {
            Some(code) => Ok(after.refused((CODE, w::SECOND_FACTOR), code, |access| access.code())),
            None => answer(Err(problem), CODE),
        },
    }
}

async fn confirm(OpenForm(member): Form) -> Result<Response> {
    let MemberForm { app, session, typed, now, .. } = &member;
    let next = safe_path(typed.text("next"));
    let shown = typed.text("code").or(typed.text("password")).unwrap_or_default();
    let sent = SentForm::parse(typed.text("sent")).filter(|sent| sent.is_of(session.user.id));
    let confirmed = app.dashboard.confirm(session, shown, *now).await;
    let Some(sent) = sent else {
        return match confirmed {
            Ok(token) => Ok(led(next.to_owned(), token.cookies())),
            Err(problem) => refused(problem, CONFIRM, Some(next)),
        };
    };
    let (title, language) = (w::CONFIRM_TITLE, member.language);
    match confirmed {
        // The action goes on. Its form has a key, so it is done once.
        Ok(token) => {
            let main = html! { section.card { h1 { (language.say(title)) } (sent.goes_on(language)) } };
            Ok(with_cookies(token.cookies(), member.page(title, main, next)))
        }
        Err(problem) => {
            let Some(code) = proof_code(&problem) else { return answer(Err(problem), CONFIRM) };
            let access = Access { language, next, error: Some(code), sent: Some(&sent) };
            let by_code = session.user.second_factor_at.is_some();
            let main = access.confirmation(member.caller.scope.mode, by_code);
            Ok(member.page(title, main, next))
        }
    }
}

/// Shows a new seed once. A recent log-in is needed in both modes: who finds an open session must not be able to lock
/// its user out.
async fn begin(OpenForm(member): Form) -> Result<Response> {
    member.require_recent()?;
    match member.app.dashboard.begin_second_factor(&member.session).await {
        Ok(enrolment) => Ok(member.page(SCAN, seed(&member, &enrolment, None), SECURITY)),
        Err(problem) => refused(problem, SECURITY, None),
    }
}

fn seed(member: &MemberForm<ApiKeysApp>, enrolment: &Enrolment, error: Option<&str>) -> Markup {
    let say = |word| member.language.say(word);
    html! {
        h1 { (say(SCAN)) }
        @if let Some(code) = error { (announced(Tone::Bad, &html! { (say(w::of_code(code))) })) }
        section.card {
            p { (say(SCAN_MEANS)) }
            // A URL that is too long for a QR code has the longest of addresses. Its user types the key.
            @if let Ok((side, path)) = artefacts::qr::svg_path(enrolment.url.expose_secret()) {
                (qr_picture((side, &path), 240, say(SCAN)))
            }
            (code_block(member.language, enrolment.seed.expose_secret()))
            form.fields method="post" action="/dashboard/security/totp/on" {
                (hidden("mode", member.caller.scope.mode.as_str()))
                (hidden("back", SECURITY))
                div {
                    label for="code" { (say(APP_CODE)) }
                    input #code name="code" inputmode="numeric" autocomplete="one-time-code" required maxlength="16";
                }
                div { button { (say(w::TURN_ON)) } }
            }
        }
    }
}

async fn turn_on(OpenForm(member): Form) -> Result<Response> {
    member.require_recent()?;
    let code = member.form.text("code").unwrap_or_default();
    match member.app.dashboard.turn_on_second_factor(&member.session, code, member.now).await {
        Ok((codes, token)) => {
            Ok(with_cookies(token.cookies(), member.secret_page(RECOVERY_CODES, &codes.join("\n"), SECURITY)))
        }
        // The app has the seed already, so the page shows it again.
        Err(problem @ Problem::WrongCredentials) => {
            match member.app.dashboard.begun_second_factor(&member.session).await? {
                Some(enrolment) => {
                    Ok(member.page(SCAN, seed(&member, &enrolment, proof_code(&problem)), SECURITY))
                }
                None => refused(problem, SECURITY, None),
            }
        }
        Err(problem) => refused(problem, SECURITY, None),
    }
}

async fn turn_off(OpenForm(member): Form) -> Result<Response> {
    let MemberForm { app, session, form, now, .. } = &member;
    let shown = (password(&member, "password"), form.text("code").unwrap_or_default());
    match app.dashboard.turn_off_second_factor(session, shown, *now).await {
        Ok(token) => Ok(led(format!("{SECURITY}?done=1"), token.cookies())),
        Err(problem) => refused(problem, SECURITY, None),
    }
}

fn password(member: &MemberForm<ApiKeysApp>, field: &str) -> SecretString {
    member.typed.text(field).unwrap_or_default().into()
}

async fn demand(OpenForm(member): ContainmentForm<ApiKeysApp>) -> Result<Response> {
    member.require(Need::Owner)?;
    let is_required = member.form.text("required") == Some("1");
    // Else this form would lock its sender in the page of the second factor.
    if is_required && member.session.user.second_factor_at.is_none() {
        return Ok(forms::refused(SECURITY, "own_factor_first", None));
    }
    let done = member.app.dashboard.demand_second_factor(&member.session, is_required, member.now).await;
    answer(done.map(|()| SECURITY.to_owned()), SECURITY)
}

async fn change_password(OpenForm(member): Form) -> Result<Response> {
    let MemberForm { app, session, now, .. } = &member;
    let new = password(&member, "new");
    if !is_acceptable(new.expose_secret(), &session.user.email) {
        return Ok(forms::refused(SECURITY, "weak_password", None));
    }
    let shown = (password(&member, "old"), member.form.text("code").unwrap_or_default());
    match app.dashboard.change_password(session, shown, new, *now).await {
        Ok(token) => Ok(led(format!("{SECURITY}?done=1"), token.cookies())),
        Err(problem) => refused(problem, SECURITY, None),
    }
}

async fn end_session(Path(id): Path<String>, OpenForm(member): Form) -> Result<Response> {
    let end = member.app.dashboard.end_session(&member.session, &id, member.now);
    let ended = member.once_alike(&format!("end#{id}"), Box::pin(end)).await?;
    answer(ended.map(|()| SECURITY.to_owned()), SECURITY)
}

/// Also ends the session of this form.
async fn end_sessions(OpenForm(member): Form) -> Result<Response> {
    member.app.dashboard.end_sessions(&member.session, member.now).await?;
    Ok(led(LOG_IN.to_owned(), [set_cookie(SESSION_COOKIE, "", 0)]))
}
