//! The documentation for merchants: the guide of `docs/guide` with its samples of `docs/samples`, and the reference of
//! all routes from the description of the API, as pages with a search, as Markdown, and as `llms.txt`.
//!
//! Each answer has a strong `ETag`, the hash of its content. A client that has the content receives 304.

mod description;
mod guide;
mod llms;
mod reference;
mod section;
mod site;

use std::borrow::Cow;
use std::sync::LazyLock;

use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, REFERRER_POLICY};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use serde_json::Value;
use shared::http::{RequestContext, Result, csp_source, etag_of, is_known};

use self::description::Description;
use self::section::Section;
use self::site::Site;

/// A new release can change the files, so caches keep them for five minutes. After that, an unchanged file
/// costs a 304.
const MAX_AGE: &str = "public, max-age=300";

const HTML: &str = "text/html; charset=utf-8";

/// The description of the API, which the test of the crate `openapi` writes.
const DOCUMENT: &str = include_str!("../../../../docs/openapi.json");

static DESCRIPTION: LazyLock<File> = LazyLock::new(|| File::new("application/json", DOCUMENT));

/// Made at the first request for one of them.
static PAGES: LazyLock<Pages> = LazyLock::new(|| {
    // A test parses the document.
    let document: Value = serde_json::from_str(DOCUMENT).unwrap_or_default();
    let description = Description::new(&document);
    let sections: Vec<Section> = guide::sections().chain(reference::sections(description)).collect();
    Pages {
        site: Site::new(description, &sections),
        markdown: File::new("text/markdown; charset=utf-8", section::page(description, &sections)),
        index: File::new("text/plain; charset=utf-8", llms::index(description)),
    }
});

static PAGE_SECURITY_POLICY: LazyLock<String> = LazyLock::new(|| {
    format!(
        "default-src 'none'; style-src '{}'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
        csp_source(site::STYLE),
    )
});

/// The guide and the reference in all formats. Each is made from the same sections.
struct Pages {
    site: Site,
    markdown: File,
    index: File,
}

struct File {
    content_type: &'static str,
    content: Cow<'static, str>,
    etag: String,
}

impl File {
    fn new(content_type: &'static str, content: impl Into<Cow<'static, str>>) -> Self {
        let content = content.into();
        let etag = etag_of(&*content);
        Self { content_type, content, etag }
    }

    fn respond(&'static self, request: &HeaderMap) -> Response {
        let headers = [(ETAG, self.etag.as_str()), (CACHE_CONTROL, MAX_AGE)];
        if is_known(request, &self.etag) {
            return (StatusCode::NOT_MODIFIED, headers).into_response();
        }
        (headers, [(CONTENT_TYPE, self.content_type)], &*self.content).into_response()
    }
}

type Name = Result<Path<String>, PathRejection>;

pub(crate) async fn first_page(request: HeaderMap) -> Response {
    respond(PAGES.site.get(""), &request)
}

/// `GET /docs/{page}`. The page `search` finds sections by words, in the parameter `q`.
pub(crate) async fn page(context: RequestContext, name: Name, request: HeaderMap) -> Response {
    let name = name.map_or_else(|_| String::new(), |Path(name)| name);
    if name == "search" {
        let query = context.query.text("q").unwrap_or_default();
        let page = PAGES.site.page("search", "Search", &results(query));
        return with_policies(([(CONTENT_TYPE, HTML)], page.into_string()).into_response());
    }
    respond(PAGES.site.get(&name).filter(|_| !name.is_empty()), &request)
}

fn respond(page: Option<&'static File>, request: &HeaderMap) -> Response {
    with_policies(if let Some(page) = page {
        page.respond(request)
    } else {
        let content = html! {
            h1 { "There is no such page" }
            p { "Choose a page of the contents, or search for a word." }
        };
        let page = PAGES.site.page("", "No such page", &content);
        (StatusCode::NOT_FOUND, [(CONTENT_TYPE, HTML)], page.into_string()).into_response()
    })
}

fn results(query: &str) -> Markup {
    let found = PAGES.site.search(query);
    html! {
        h1 { "Search" }
        @match (query.trim().is_empty(), found.is_empty()) {
            (true, _) => p { "Type one or more words, such as " code { "webhook signature" } "." },
            (false, true) => p { "No section has all of these words: " strong { (query) } "." },
            (false, false) => p { "Sections with " strong { (query) } ":" },
        }
        @for (section, excerpt) in found {
            h2 { a href=(section.link) { (section.title) } }
            p { (section.page) ": … " (excerpt) " …" }
        }
    }
}

fn with_policies(response: Response) -> Response {
    let policies =
        [(CONTENT_SECURITY_POLICY, PAGE_SECURITY_POLICY.as_str()), (REFERRER_POLICY, "no-referrer")];
    (policies, response).into_response()
}

pub(crate) async fn markdown(request: HeaderMap) -> Response {
    PAGES.markdown.respond(&request)
}

pub(crate) async fn index(request: HeaderMap) -> Response {
    PAGES.index.respond(&request)
}

/// `GET /v1/openapi.json`.
pub(crate) async fn description(context: RequestContext, request: HeaderMap) -> Result<Response> {
    context.query.require_empty()?;
    Ok(DESCRIPTION.respond(&request))
}

#[cfg(test)]
mod tests;
