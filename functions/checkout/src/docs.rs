//! The documentation for merchants: the guide and reference as pages with a search and as Markdown, `llms.txt`, and
//! the description of the API. The crate `openapi` generates the files; they are a part of the program.
//!
//! Each answer has a strong `ETag`, the hash of its content. A client that has the content receives 304.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, REFERRER_POLICY};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use shared::http::{RequestContext, Result, csp_source, etag_of, is_known};

/// A new release can change the files, so caches keep them for five minutes. After that, an unchanged file
/// costs a 304.
const MAX_AGE: &str = "public, max-age=300";

const HTML: &str = "text/html; charset=utf-8";

/// A reader looks at the first results only.
const MAX_RESULTS: usize = 30;

/// The characters of a section that a result shows.
const EXCERPT: usize = 200;

static SITE: LazyLock<Site> = LazyLock::new(|| Site::new(include_str!("../../../docs/site/index.html")));

static MARKDOWN: LazyLock<File> =
    LazyLock::new(|| File::new("text/markdown; charset=utf-8", include_str!("../../../docs/site/docs.md")));

static INDEX: LazyLock<File> =
    LazyLock::new(|| File::new("text/plain; charset=utf-8", include_str!("../../../docs/site/llms.txt")));

static DESCRIPTION: LazyLock<File> =
    LazyLock::new(|| File::new("application/json", include_str!("../../../docs/openapi.json")));

static PAGE_SECURITY_POLICY: LazyLock<String> = LazyLock::new(|| {
    let style = between(SITE.head, "<style>", "</style>");
    format!(
        "default-src 'none'; style-src '{}'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
        csp_source(style),
    )
});

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

/// The articles of the generated file, each as a page of its own.
struct Site {
    head: &'static str,
    foot: &'static str,
    pages: HashMap<&'static str, File>,
    sections: Vec<Section>,
}

/// A heading with the text up to the next one.
struct Section {
    /// The path of the page, with the heading's id.
    link: String,
    page: &'static str,
    title: String,
    text: String,
    /// Title and text in lower case.
    words: [String; 2],
}

impl Site {
    fn new(site: &'static str) -> Self {
        let (head, rest) = site.split_once("<article").unwrap_or((site, ""));
        let (articles, foot) = rest.rsplit_once("</article>").unwrap_or((rest, ""));
        let mut new = Self { head, foot, pages: HashMap::new(), sections: Vec::new() };
        for article in articles.split("<article") {
            let name = between(article, "data-page=\"", "\"");
            let title = between(article, "data-title=\"", "\"");
            let (_, content) = article.split_once('>').unwrap_or_default();
            let content = content.trim_end().strip_suffix("</article>").unwrap_or(content);
            new.pages.insert(name, File::new(HTML, new.page(name, title, content)));
            new.sections
                .extend(content.split("<h").skip(1).filter_map(|part| Section::new(name, title, part)));
        }
        new
    }

    /// Puts the content of a page between head and foot. The list of contents marks the page.
    fn page(&self, name: &str, title: &str, content: &str) -> String {
        let here = format!("href=\"/docs/{name}\"");
        let head = self.head.replacen("<title>", &format!("<title>{title} · "), 1);
        let foot = self.foot.replacen(&here, &format!("{here} aria-current=\"page\""), 1);
        format!("{head}<article>{content}</article>{foot}")
    }

    /// Returns the sections that have all words. Those with the words in the title are first.
    fn search(&self, query: &str) -> Vec<(&Section, &str)> {
        let query = query.to_lowercase();
        let words: Vec<&str> = query.split_whitespace().collect();
        let mut found: Vec<(usize, &Section)> = Vec::new();
        for section in &self.sections {
            let [title, text] = &section.words;
            let in_title = words.iter().filter(|word| title.contains(**word)).count();
            if !words.is_empty() && words.iter().all(|word| title.contains(word) || text.contains(word)) {
                found.push((in_title, section));
            }
        }
        found.sort_by_key(|(in_title, _)| std::cmp::Reverse(*in_title));
        let first = words.first().copied().unwrap_or_default();
        found.into_iter().take(MAX_RESULTS).map(|(_, section)| (section, section.excerpt(first))).collect()
    }
}

impl Section {
    /// `part` starts behind the `<h` of a heading.
    fn new(name: &str, page: &'static str, part: &str) -> Option<Self> {
        let (_, rest) = part.split_once(" id=\"")?;
        let (id, rest) = rest.split_once('"')?;
        let (heading, rest) = rest.split_once('>')?.1.split_once("<a class=\"anchor\"")?;
        let (_, rest) = rest.split_once("</h")?;
        let (title, text) = (text_of(heading), text_of(rest.split_once('>')?.1));
        let words = [title.to_lowercase(), text.to_lowercase()];
        Some(Self { link: format!("/docs/{name}#{id}"), page, title, text, words })
    }

    /// Returns the part of the text that starts a little before a word.
    fn excerpt(&self, word: &str) -> &str {
        let [_, words] = &self.words;
        // In lower case, a text can have another length, so the position is only about that of the word.
        let at = words.find(word).unwrap_or_default().saturating_sub(EXCERPT / 4).min(self.text.len());
        let start = self.text.floor_char_boundary(at);
        let start = self.text.get(..start).and_then(|before| before.rfind(' ')).unwrap_or_default();
        let rest = self.text.get(start..).unwrap_or_default();
        rest.get(..rest.floor_char_boundary(EXCERPT)).unwrap_or(rest).trim()
    }
}

type Name = Result<Path<String>, PathRejection>;

pub(crate) async fn first_page(request: HeaderMap) -> Response {
    respond(page_of(""), &request)
}

/// `GET /docs/{page}`. The page `search` finds sections by words, in the parameter `q`.
pub(crate) async fn page(context: RequestContext, name: Name, request: HeaderMap) -> Response {
    let name = name.map_or_else(|_| String::new(), |Path(name)| name);
    if name == "search" {
        let query = context.query.text("q").unwrap_or_default();
        let page = SITE.page("search", "Search", &results(query).into_string());
        return with_policies(([(CONTENT_TYPE, HTML)], page).into_response());
    }
    respond(page_of(&name).filter(|_| !name.is_empty()), &request)
}

fn page_of(name: &str) -> Option<&'static File> {
    SITE.pages.get(name)
}

fn respond(page: Option<&'static File>, request: &HeaderMap) -> Response {
    with_policies(if let Some(page) = page {
        page.respond(request)
    } else {
        let content = html! {
            h1 { "There is no such page" }
            p { "Choose a page of the contents, or search for a word." }
        };
        let page = SITE.page("", "No such page", &content.into_string());
        (StatusCode::NOT_FOUND, [(CONTENT_TYPE, HTML)], page).into_response()
    })
}

fn results(query: &str) -> Markup {
    let found = SITE.search(query);
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
    MARKDOWN.respond(&request)
}

pub(crate) async fn index(request: HeaderMap) -> Response {
    INDEX.respond(&request)
}

/// `GET /v1/openapi.json`.
pub(crate) async fn description(context: RequestContext, request: HeaderMap) -> Result<Response> {
    context.query.require_empty()?;
    Ok(DESCRIPTION.respond(&request))
}

/// Returns the text between two marks; empty if one is missing.
fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let rest = text.split_once(start).map(|(_, rest)| rest);
    rest.and_then(|rest| rest.split_once(end)).map_or("", |(inner, _)| inner)
}

/// Returns the text of generated HTML, without tags, and with single spaces.
fn text_of(html: &str) -> String {
    let mut text = String::with_capacity(html.len());
    for part in html.split('<') {
        text.push(' ');
        text.push_str(part.split_once('>').map_or(part, |(_, after)| after));
    }
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
