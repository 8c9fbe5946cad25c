//! The documentation for merchants: the guide and reference as a page and as Markdown, `llms.txt`, and the
//! description of the API. The crate `openapi` generates the files; they are a part of the program.
//!
//! Each file has a strong `ETag`, the hash of its content. A client that has the file receives 304.

use std::sync::LazyLock;

use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY,
};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use domain::hex;
use sha2::{Digest, Sha256};
use shared::http::{Problem, RequestContext, csp_source};

/// A new release can change the files, so caches keep them for five minutes. After that, an unchanged file
/// costs a 304.
const MAX_AGE: &str = "public, max-age=300";

static PAGE: LazyLock<File> =
    LazyLock::new(|| File::new("text/html; charset=utf-8", include_str!("../../../docs/site/index.html")));

static MARKDOWN: LazyLock<File> =
    LazyLock::new(|| File::new("text/markdown; charset=utf-8", include_str!("../../../docs/site/docs.md")));

static INDEX: LazyLock<File> =
    LazyLock::new(|| File::new("text/plain; charset=utf-8", include_str!("../../../docs/site/llms.txt")));

static DESCRIPTION: LazyLock<File> =
    LazyLock::new(|| File::new("application/json", include_str!("../../../docs/openapi.json")));

static PAGE_SECURITY_POLICY: LazyLock<String> = LazyLock::new(|| {
    let style = between(PAGE.content, "<style>", "</style>");
    format!(
        "default-src 'none'; style-src '{}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        csp_source(style),
    )
});

struct File {
    content_type: &'static str,
    content: &'static str,
    etag: String,
}

impl File {
    fn new(content_type: &'static str, content: &'static str) -> Self {
        let etag = format!("\"{}\"", hex::encode(&Sha256::digest(content)));
        Self { content_type, content, etag }
    }

    fn respond(&self, request: &HeaderMap) -> Response {
        let headers = [(ETAG, self.etag.as_str()), (CACHE_CONTROL, MAX_AGE)];
        if is_known(request, &self.etag) {
            return (StatusCode::NOT_MODIFIED, headers).into_response();
        }
        (headers, [(CONTENT_TYPE, self.content_type)], self.content).into_response()
    }
}

pub(crate) async fn page(request: HeaderMap) -> Response {
    let policies =
        [(CONTENT_SECURITY_POLICY, PAGE_SECURITY_POLICY.as_str()), (REFERRER_POLICY, "no-referrer")];
    (policies, PAGE.respond(&request)).into_response()
}

pub(crate) async fn markdown(request: HeaderMap) -> Response {
    MARKDOWN.respond(&request)
}

pub(crate) async fn index(request: HeaderMap) -> Response {
    INDEX.respond(&request)
}

/// `GET /v1/openapi.json`.
pub(crate) async fn description(context: RequestContext, request: HeaderMap) -> Result<Response, Problem> {
    context.query.require_empty()?;
    Ok(DESCRIPTION.respond(&request))
}

/// The comparison is weak, because a cache may have marked the tag as weak (RFC 9110, section 13.1.2).
fn is_known(request: &HeaderMap, etag: &str) -> bool {
    let values = request.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut listed = values.flat_map(|value| value.split(',')).map(str::trim);
    listed.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}

/// Returns the text between two marks; empty if one is missing.
fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let rest = text.split_once(start).map(|(_, rest)| rest);
    rest.and_then(|rest| rest.split_once(end)).map_or("", |(inner, _)| inner)
}
