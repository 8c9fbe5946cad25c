//! Responses with a page: their headers, and errors as pages.

use axum::extract::Request;
use axum::http::header::{
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY, RETRY_AFTER,
};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use domain::ids::Mode;
use maud::{Markup, html};
use shared::auth::dashboard::{BROWSER_COOKIE, shown_mode};
use shared::http::{Problem, RequestContext, cookie};
use url::form_urlencoded;

use crate::access::Access;
use crate::done::name_done;
use crate::layout::other_mode;
use crate::sent::{SentForm, of_request};
use crate::words as w;
use crate::{Document, Language, hidden};

/// The page loads only its own style sheet and script, fetches only its own origin, sends forms only there, and no
/// other page can frame it.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

pub fn html(status: StatusCode, page: Markup) -> Response {
    let headers: [(HeaderName, &str); 4] = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (REFERRER_POLICY, "no-referrer"),
        (OPENER_POLICY, "same-origin"),
    ];
    (status, headers, page.into_string()).into_response()
}

/// Lets the page of a response also send to another origin, such as that of the storage of files.
pub fn connecting_to(mut response: Response, origin: &str) -> Response {
    let policy = POLICY.replace("connect-src 'self'", &format!("connect-src 'self' {origin}"));
    if let Ok(policy) = HeaderValue::try_from(policy) {
        response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    }
    response
}

pub fn path_with(path: &str, parameters: &[(&str, &str)]) -> String {
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish();
    format!("{path}?{query}")
}

/// The path to return to: only one of the dashboard, so that a link can't lead to another host.
pub fn safe_path(next: Option<&str>) -> &str {
    let is_safe = |path: &&str| {
        let is_under =
            *path == "/dashboard" || path.starts_with("/dashboard/") || path.starts_with("/dashboard?");
        is_under && path.chars().all(|c| c.is_ascii_graphic() && c != '\\')
    };
    next.filter(is_safe).unwrap_or("/dashboard")
}

/// Answers an error with a page. A request without a session leads to the log-in, and from there back to the page.
pub async fn errors_as_pages(request: Request, next: Next) -> Response {
    let (language, mode) = (Language::of(request.headers()), shown_mode(request.headers()));
    let id = request.extensions().get::<RequestContext>().map(|context| context.id.as_str().to_owned());
    let here = request.uri().path_and_query().map(|path| path.as_str().to_owned());
    let (request, sent) = of_request(request).await;
    if let Some((sent, question)) = sent.as_ref().and_then(|sent| Some((sent, sent.question()?))) {
        let main = html! { div.card { h1 { (question) } (sent.asked(language)) } };
        return html(StatusCode::OK, Document { language, title: question, shell: None, main }.render());
    }
    let was_logged_in = cookie(request.headers(), BROWSER_COOKIE).is_some();
    let form = Some(request.uri().path().to_owned()).filter(|_| *request.method() == Method::POST);
    // A form's own path has no page.
    let here = here.filter(|_| *request.method() == Method::GET).unwrap_or_default();
    let mut response = next.run(request).await;
    if let Some(form) = form {
        name_done(&mut response, &form);
    }
    let Some(problem) = response.extensions_mut().remove::<Problem>() else { return response };
    if let Some(sent) = &sent
        && let Some(page) = kept((language, mode), &problem, sent)
    {
        return page;
    }
    if matches!(problem, Problem::NotLoggedIn) {
        let mut parameters = vec![("next", safe_path(Some(&here)))];
        if here.is_empty() {
            parameters.push(("error", "log_in_again"));
        } else if was_logged_in {
            parameters.push(("error", "session_ended"));
        }
        return Redirect::to(&path_with("/dashboard/login", &parameters)).into_response();
    }
    let to_page = match &problem {
        Problem::LogInAgain { back, .. } => Some(path_with("/dashboard/confirm", &[("next", back)])),
        Problem::SecondFactorDemanded => Some("/dashboard/security".to_owned()),
        _ => None,
    };
    match to_page {
        Some(path) => Redirect::to(&path).into_response(),
        None => error_page((language, mode), &problem, (&here, sent.as_ref()), &id.unwrap_or_default()),
    }
}

/// The page that asks who sent a form, and has the form. `None`: the problem is another.
fn kept((language, mode): (Language, Mode), problem: &Problem, sent: &SentForm) -> Option<Response> {
    let access = Access { language, next: sent.back(), error: None, sent: Some(sent) };
    let (title, main) = match problem {
        Problem::NotLoggedIn => {
            let access = Access { error: Some("session_ended"), ..access };
            (w::LOG_IN, access.log_in(&html! {}, None, None))
        }
        Problem::LogInAgain { by_code, .. } => (w::CONFIRM_TITLE, access.confirmation(mode, *by_code)),
        _ => return None,
    };
    let document = Document { language, title: language.say(title), shell: None, main };
    Some(html(StatusCode::UNAUTHORIZED, document.render()))
}

/// `here`: the path of the page, empty for that of a form, which can be sent again.
fn error_page(
    (language, mode): (Language, Mode),
    problem: &Problem,
    (here, sent): (&str, Option<&SentForm>),
    request_id: &str,
) -> Response {
    problem.log();
    let (say, status) = (|word| language.say(word), problem.status());
    let title = match status {
        StatusCode::NOT_FOUND => w::ERROR_NOT_FOUND,
        StatusCode::FORBIDDEN => w::ERROR_FORBIDDEN,
        StatusCode::CONFLICT => w::ERROR_CONFLICT,
        StatusCode::TOO_MANY_REQUESTS => w::ERROR_TOO_MANY,
        status if status.is_client_error() => w::ERROR_INVALID,
        _ => w::ERROR_UNAVAILABLE,
    };
    let main = html! {
        div.card {
            h1 { (say(title)) }
            p { (say(w::of_code(problem.code()))) }
            p.sm.soft { (say(w::REQUEST)) " " code { (request_id) } }
            // The link of an e-mail says nothing of the mode.
            @if status == StatusCode::NOT_FOUND && !here.is_empty() {
                @let (other, switch) = other_mode(mode);
                form method="post" action="/dashboard/mode" {
                    (hidden("next", here))
                    button.quiet name="mode" value=(other.as_str()) { (say(switch)) }
                }
            }
            @if let Some(sent) = sent.filter(|_| status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS) {
                h2 { (say(w::RETRY)) }
                (sent.filled_in(language))
            }
            p { a href="/dashboard" { (say(w::TO_HOME)) } }
        }
    };
    let document = Document { language, title: say(title), shell: None, main };
    let mut response = html(status, document.render());
    if let Problem::RateLimited { retry_after_seconds } = problem {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(*retry_after_seconds));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_path_of_the_dashboard_is_a_way_back() {
        for path in ["/dashboard", "/dashboard/charges?status=paid", "/dashboard?x=1"] {
            assert_eq!(safe_path(Some(path)), path);
        }
        for path in [
            "//evil.example",
            "https://evil.example/dashboard/",
            "/dashboardx",
            "/",
            "",
            "/dashboard/\\\\evil",
            "/dashboard/a b",
        ] {
            assert_eq!(safe_path(Some(path)), "/dashboard", "{path}");
        }
        assert_eq!(safe_path(None), "/dashboard");
    }
}
