//! Forms of the dashboard: their body, and the check that a page of this origin sent them.

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header::{HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName};

use super::intake::{MAX_BODY_BYTES, Query, read_body, require_content_type};
use super::problem::Problem;

/// A browser sets it, and no script can.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// A request that a page of this origin sent. A browser adds the session's cookie to a form of another site too,
/// so each route of a form extracts this.
#[derive(Clone, Copy, Debug)]
pub struct SameOrigin(());

impl<S: Sync> FromRequestParts<S> for SameOrigin {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        if is_same_origin(&parts.headers) { Ok(Self(())) } else { Err(Problem::CrossSiteRequest) }
    }
}

/// Whether a page of this origin sent a request. Older browsers send no `Sec-Fetch-Site`. The dashboard's pages forbid a referrer, so newer ones send
/// `Origin: null`, which then does not count.
pub fn is_same_origin(headers: &HeaderMap) -> bool {
    if let Some(site) = headers.get(SEC_FETCH_SITE) {
        return site == "same-origin";
    }
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    text(ORIGIN).zip(text(HOST)).is_some_and(|(origin, host)| {
        let bare = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
        bare.is_some_and(|origin_host| origin_host.eq_ignore_ascii_case(host))
    })
}

/// The fields of a form of at most `MAX` bytes, unchecked.
#[derive(Clone, Debug)]
pub struct FormBody<const MAX: usize = MAX_BODY_BYTES>(pub Query);

impl<S: Sync, const MAX: usize> FromRequest<S> for FormBody<MAX> {
    type Rejection = Problem;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        require_content_type(&parts.headers, "application/x-www-form-urlencoded")?;
        let bytes = read_body(body, MAX).await?;
        Ok(Self(Query::parse(Some(&String::from_utf8_lossy(&bytes)))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(headers: &[(HeaderName, &str)]) -> bool {
        let headers = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap()));
        is_same_origin(&headers.collect())
    }

    #[test]
    fn only_a_page_of_the_same_origin_may_send_a_form() {
        let host = (HOST, "pay.example:8443");
        assert!(checked(&[(SEC_FETCH_SITE, "same-origin")]));
        assert!(checked(&[(SEC_FETCH_SITE, "same-origin"), (ORIGIN, "null"), host.clone()]));
        assert!(checked(&[(ORIGIN, "https://pay.example:8443"), host.clone()]));
        for site in ["cross-site", "same-site", "none", ""] {
            let sent = [(SEC_FETCH_SITE, site), (ORIGIN, "https://pay.example:8443"), host.clone()];
            assert!(!checked(&sent), "{site}");
        }
        for origin in ["null", "", "https://evil.example", "https://pay.example", "pay.example:8443"] {
            assert!(!checked(&[(ORIGIN, origin), host.clone()]), "{origin}");
        }
        assert!(!checked(std::slice::from_ref(&host)));
        assert!(!checked(&[(ORIGIN, "https://pay.example:8443")]));
    }
}
