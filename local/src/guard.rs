//! Protects the routes under `/_local/`. Programs on this machine may call these routes; web pages of other
//! sites may not.
//!
//! Any web page can make the browser send requests to loopback. Three checks reject the requests of other
//! sites' pages:
//!
//! - A POST request must have the content type `application/json`. A browser sends this content type to
//!   another site only after a CORS preflight, which this service does not answer.
//! - The headers `Origin` and `Sec-Fetch-Site`, which the browser sets, must not name another site.
//! - The header `Host` must name loopback or an allowed host. A site can resolve its own name to loopback
//!   (DNS rebinding), but then `Host` contains the name of that site.

use std::str::FromStr;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, HOST, HeaderMap, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, Request, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use domain::url_policy::AddressKind;
use serde_json::json;
use url::{Host, Url};

const SEC_FETCH_SITE: &str = "sec-fetch-site";

/// A host, besides loopback, that a request to `/_local/*` may have in its header `Host`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AllowedHost(Host<String>);

/// The error for a text that is not a host.
#[derive(Debug, thiserror::Error)]
#[error("must be a host name or an IP address, without a port")]
pub struct InvalidHost;

impl FromStr for AllowedHost {
    type Err = InvalidHost;

    fn from_str(text: &str) -> Result<Self, InvalidHost> {
        let host = Host::parse(text).map_err(|_| InvalidHost)?;
        Ok(Self(without_root_dot(host)))
    }
}

/// Middleware that rejects a request that fails a check, with the reason.
pub(crate) async fn guard(
    State(allowed): State<Arc<[AllowedHost]>>,
    request: axum::extract::Request,
    next: Next,
) -> Response {
    let (head, body) = request.into_parts();
    match check(&head, &allowed) {
        Ok(()) => next.run(Request::from_parts(head, body)).await,
        Err((status, error)) => (status, Json(json!({ "error": error }))).into_response(),
    }
}

fn check(head: &Parts, allowed: &[AllowedHost]) -> Result<(), (StatusCode, &'static str)> {
    let forbidden = |error| Err((StatusCode::FORBIDDEN, error));
    let hosts = hosts(&head.headers, &head.uri);
    let is_permitted = |text: &&[u8]| {
        parse_authority("http", text)
            .and_then(|url| host_of(&url))
            .is_some_and(|host| is_loopback_or_allowed(&host, allowed))
    };
    if hosts.is_empty() || !hosts.iter().all(is_permitted) {
        return forbidden("Host must be loopback (localhost, 127.0.0.1) or a host given by --allow-host");
    }
    let same_origin = |origin: &[u8]| {
        let origin = std::str::from_utf8(origin).ok().and_then(|origin| Url::parse(origin).ok());
        origin.is_some_and(|origin| {
            let same = |text: &&[u8]| {
                parse_authority(origin.scheme(), text).is_some_and(|url| url.origin() == origin.origin())
            };
            origin.has_host() && hosts.iter().all(same)
        })
    };
    if !values(&head.headers, &ORIGIN).all(same_origin) {
        return forbidden("Origin must be this service's own; a page of another site can't use these routes");
    }
    if head.headers.get_all(SEC_FETCH_SITE).iter().any(|site| site == "cross-site") {
        return forbidden(
            "Sec-Fetch-Site must not be cross-site; a page of another site can't use these routes",
        );
    }
    let is_json = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).is_some_and(|text| {
        text.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
    });
    if head.method == Method::POST && !is_json {
        return Err((StatusCode::BAD_REQUEST, "Content-Type must be application/json, also without a body"));
    }
    Ok(())
}

fn values<'a>(headers: &'a HeaderMap, name: &axum::http::HeaderName) -> impl Iterator<Item = &'a [u8]> {
    headers.get_all(name).iter().map(axum::http::HeaderValue::as_bytes)
}

/// `None`: the text is malformed or contains anything else.
fn parse_authority(scheme: &str, text: &[u8]) -> Option<Url> {
    let text = std::str::from_utf8(text).ok()?;
    let url = Url::parse(&format!("{scheme}://{text}/")).ok()?;
    let is_bare =
        url.path() == "/" && url.username().is_empty() && url.query().is_none() && url.fragment().is_none();
    is_bare.then_some(url)
}

fn host_of(url: &Url) -> Option<Host<String>> {
    url.host().map(|host| without_root_dot(host.to_owned()))
}

/// Whether an `Origin` is that of a page which this machine serves.
pub(crate) fn is_of_this_machine(origin: &HeaderValue) -> bool {
    origin.to_str().is_ok_and(is_loopback_url)
}

pub(crate) fn is_loopback_url(url: &str) -> bool {
    let url = Url::parse(url).ok();
    url.and_then(|url| host_of(&url)).is_some_and(|host| is_loopback_or_allowed(&host, &[]))
}

/// Whether a request to an embedded service names no foreign host. An address passes, because a site that rebinds its
/// name sends that name.
pub(crate) fn names_no_foreign_host<B>(request: &Request<B>, allowed: &[AllowedHost]) -> bool {
    let hosts = hosts(request.headers(), request.uri());
    let passes = |text: &&[u8]| {
        let host = parse_authority("http", text).and_then(|url| host_of(&url));
        host.is_some_and(|host| !matches!(host, Host::Domain(_)) || is_loopback_or_allowed(&host, allowed))
    };
    !hosts.is_empty() && hosts.iter().all(passes)
}

/// Those of the header `Host` and of the request's target.
fn hosts<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> Vec<&'a [u8]> {
    let in_target = uri.authority().map(|authority| authority.as_str().as_bytes());
    values(headers, &HOST).chain(in_target).collect()
}

fn without_root_dot(host: Host<String>) -> Host<String> {
    match host {
        Host::Domain(name) => Host::Domain(name.strip_suffix('.').unwrap_or(&name).to_owned()),
        Host::Ipv4(_) | Host::Ipv6(_) => host,
    }
}

fn is_loopback_or_allowed(host: &Host<String>, allowed: &[AllowedHost]) -> bool {
    let is_loopback = match host {
        Host::Domain(name) => name == "localhost" || name.ends_with(".localhost"),
        Host::Ipv4(address) => AddressKind::of((*address).into()) == AddressKind::Loopback,
        Host::Ipv6(address) => AddressKind::of((*address).into()) == AddressKind::Loopback,
    };
    is_loopback || allowed.iter().any(|AllowedHost(known)| known == host)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the status of the rejection. `None`: the request passes.
    fn checked(headers: &[(&str, &str)], uri: &str, method: Method) -> Option<u16> {
        let mut request = axum::http::Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        let allowed = ["dev.example".parse().unwrap(), "192.168.1.7".parse().unwrap()];
        check(&head, &allowed).err().map(|(status, _)| status.as_u16())
    }

    const JSON: (&str, &str) = ("content-type", "application/json; charset=utf-8");

    #[test]
    fn a_request_from_a_program_on_this_machine_passes() {
        for host in [
            "127.0.0.1:3000",
            "localhost",
            "LOCALHOST.:3000",
            "pay.localhost:1",
            "[::1]:3000",
            "127.9.9.9",
            "dev.example:80",
            "DEV.example.",
            "192.168.1.7",
        ] {
            assert_eq!(checked(&[JSON, ("host", host)], "/", Method::POST), None, "{host}");
        }
        let same = [
            JSON,
            ("host", "localhost:3000"),
            ("origin", "http://localhost:3000"),
            ("sec-fetch-site", "same-origin"),
        ];
        assert_eq!(checked(&same, "/", Method::POST), None);
        let proxied = [JSON, ("host", "dev.example"), ("origin", "https://dev.example")];
        assert_eq!(checked(&proxied, "/", Method::POST), None);
        assert_eq!(checked(&[("host", "127.0.0.1")], "/", Method::GET), None);
    }

    #[test]
    fn a_foreign_host_origin_or_site_is_forbidden() {
        for host in [
            "evil.example",
            "localhost.evil.example",
            "10.0.0.1",
            "",
            "a@localhost",
            "localhost/x",
            "localhost?",
            "192.168.1.70",
        ] {
            assert_eq!(checked(&[JSON, ("host", host)], "/", Method::POST), Some(403), "{host}");
        }
        assert_eq!(checked(&[JSON], "/", Method::POST), Some(403), "no host");
        assert_eq!(
            checked(&[JSON, ("host", "localhost"), ("host", "evil.example")], "/", Method::POST),
            Some(403)
        );
        assert_eq!(checked(&[JSON, ("host", "localhost")], "http://evil.example/", Method::POST), Some(403));
        for origin in [
            "http://evil.example",
            "null",
            "",
            "http://localhost:8080",
            "http://127.0.0.1:3000",
            "file://",
            "chrome-extension://localhost",
        ] {
            let headers = [JSON, ("host", "localhost:3000"), ("origin", origin)];
            assert_eq!(checked(&headers, "/", Method::POST), Some(403), "{origin}");
        }
        let site = [JSON, ("host", "localhost:3000"), ("sec-fetch-site", "cross-site")];
        assert_eq!(checked(&site, "/", Method::POST), Some(403));
    }

    #[test]
    fn an_embedded_service_refuses_a_foreign_name_and_takes_each_address() {
        let allowed = ["dev.example".parse().unwrap()];
        for (host, passes) in [
            ("127.0.0.1:4566", true),
            ("localhost", true),
            ("172.17.0.1:4566", true),
            ("dev.example:4567", true),
            ("evil.example", false),
            ("evil.example:4566", false),
            ("127.0.0.1.evil.example", false),
            ("", false),
        ] {
            let request = Request::get("/").header(HOST, host).body(()).unwrap();
            assert_eq!(names_no_foreign_host(&request, &allowed), passes, "{host}");
        }
        assert!(!names_no_foreign_host(&Request::get("/").body(()).unwrap(), &allowed));
    }

    #[test]
    fn a_post_request_must_have_the_content_type_of_json() {
        for content_type in
            [None, Some("text/plain"), Some("application/x-www-form-urlencoded"), Some("application/jsonx")]
        {
            let mut headers = vec![("host", "localhost:3000")];
            headers.extend(content_type.map(|content_type| ("content-type", content_type)));
            assert_eq!(checked(&headers, "/", Method::POST), Some(400), "{content_type:?}");
        }
    }

    #[test]
    fn an_allowed_host_has_no_port_scheme_or_path() {
        for text in ["", "dev.example:3000", "http://dev.example", "a b", "dev.example/x"] {
            assert!(text.parse::<AllowedHost>().is_err(), "{text}");
        }
    }
}
