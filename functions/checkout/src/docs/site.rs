//! The documentation as web pages: no script, and no request but that of the page itself.
//!
//! A chapter of the guide and a group of the reference have a page each.

use std::collections::{BTreeMap, HashMap};

use maud::{DOCTYPE, Markup, PreEscaped, html};
use pulldown_cmark::{CodeBlockKind, CowStr, Event, Options, Parser, Tag, TagEnd};

use super::description::Description;
use super::guide::{CHAPTERS, PORTUGUESE, PORTUGUESE_PREFIX};
use super::reference::{REFERENCE, operation_id, tag_id};
use super::section::Section;
use super::{File, HTML};

pub(super) const STYLE: &str = include_str!("page.css");

/// A reader looks at the first results only.
const MAX_RESULTS: usize = 30;

/// The characters of a section that a result shows.
const EXCERPT: usize = 200;

/// The columns from which a table may be wider than a phone.
const MANY_COLUMNS: usize = 4;

/// A chapter of the guide or a group of the reference: the sections from its heading to the next one.
struct Page<'a> {
    is_reference: bool,
    first: &'a Section,
    sections: &'a [Section],
}

fn pages(sections: &[Section]) -> Vec<Page<'_>> {
    let reference = sections.iter().position(|section| section.id == REFERENCE).unwrap_or(sections.len());
    let (guide, reference) = sections.split_at(reference);
    let guide = guide.chunk_by(|_, next| next.level > 2).map(|sections| (false, sections));
    let reference = reference.chunk_by(|_, next| next.level > 3).map(|sections| (true, sections));
    let pages = guide.chain(reference);
    pages
        .filter_map(|(is_reference, sections)| {
            Some(Page { is_reference, first: sections.first()?, sections })
        })
        .collect()
}

/// The pages, and what the search finds in them.
pub(super) struct Site {
    title: String,
    /// The list of contents.
    contents: String,
    pages: HashMap<String, File>,
    found: Vec<Found>,
}

/// A section as the search finds it.
pub(super) struct Found {
    /// The path of the page, with the heading's id.
    pub(super) link: String,
    pub(super) page: String,
    pub(super) title: String,
    text: String,
    /// Title and text in lower case.
    words: [String; 2],
}

impl Site {
    pub(super) fn new(description: Description<'_>, sections: &[Section]) -> Self {
        let pages = pages(sections);
        let headings: Headings<'_> = pages
            .iter()
            .flat_map(|page| {
                page.sections.iter().map(|section| (section.id.as_str(), page.first.id.as_str()))
            })
            .collect();
        let mut site = Self {
            title: description.info("title").to_owned(),
            contents: with_pages(contents(description), &headings),
            pages: HashMap::new(),
            found: Vec::new(),
        };
        site.insert("", "Documentation", first_page(description).into_string());
        for page in &pages {
            let mut content = String::new();
            for section in page.sections {
                let body = markdown(&section.body, page.is_reference);
                site.found.push(Found::new(page.first, section, &body));
                content.push_str(&heading(section, page.first.level).into_string());
                content.push_str(&body.into_string());
            }
            site.insert(&page.first.id, &page.first.title, with_pages(PreEscaped(content), &headings));
        }
        site
    }

    fn insert(&mut self, name: &str, title: &str, content: String) {
        let page = self.page(name, title, &PreEscaped(content)).into_string();
        self.pages.insert(name.to_owned(), File::new(HTML, page));
    }

    pub(super) fn get(&self, name: &str) -> Option<&File> {
        self.pages.get(name)
    }

    #[cfg(test)]
    pub(super) fn pages(&self) -> impl Iterator<Item = (&str, &File)> {
        self.pages.iter().map(|(name, page)| (name.as_str(), page))
    }

    /// The list of contents marks the page.
    pub(super) fn page(&self, name: &str, title: &str, content: &Markup) -> Markup {
        let here = format!("href=\"/docs/{name}\"");
        let contents = self.contents.replacen(&here, &format!("{here} aria-current=\"page\""), 1);
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (title) " · " (self.title) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    a.skip href="#content" { "Skip to the content" }
                    header {
                        p.title { a href="/docs" { (self.title) } }
                        p.jump { a href="#contents" { "Contents" } }
                    }
                    div.columns {
                        main #content lang=[name.starts_with(PORTUGUESE_PREFIX).then_some("pt-BR")] { article { (content) } }
                        nav #contents aria-label="Contents" { (PreEscaped(contents)) }
                    }
                }
            }
        }
    }

    /// Returns the sections that have all words. Those with the words in the title are first.
    pub(super) fn search(&self, query: &str) -> Vec<(&Found, &str)> {
        let query = query.to_lowercase();
        let words: Vec<&str> = query.split_whitespace().collect();
        let mut found: Vec<(usize, &Found)> = Vec::new();
        for section in &self.found {
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

impl Found {
    fn new(page: &Section, section: &Section, body: &Markup) -> Self {
        let (title, text) = (text_of(&inline(&section.title)), text_of(body));
        let words = [title.to_lowercase(), text.to_lowercase()];
        Self {
            link: format!("/docs/{}#{}", page.id, section.id),
            page: page.title.clone(),
            title,
            text,
            words,
        }
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

fn first_page(description: Description<'_>) -> Markup {
    html! {
        h1 { (description.info("title")) }
        (markdown(description.info("description"), false))
        p {
            "All pages as one " a href="/docs.md" { "Markdown text" } ", as an "
            a href="/v1/openapi.json" { "OpenAPI 3.1 description" } ", and as an "
            a href="/llms.txt" { "index for language models" } "."
        }
    }
}

/// The ids of headings, with the names of their pages.
type Headings<'a> = BTreeMap<&'a str, &'a str>;

/// Prefixes each link to a heading, `#id`, with the page that has the heading.
fn with_pages(PreEscaped(html): Markup, headings: &Headings<'_>) -> String {
    let mut parts = html.split("href=\"#");
    let mut linked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let id = part.split_once('"').map_or(part, |(id, _)| id);
        let page = match headings.get(id) {
            // A page starts with its own heading.
            Some(page) if *page == id => {
                format!("href=\"/docs/{page}{}", part.strip_prefix(id).unwrap_or(part))
            }
            Some(page) => format!("href=\"/docs/{page}#{part}"),
            None => format!("href=\"#{part}"),
        };
        linked.push_str(&page);
    }
    linked
}

/// Returns the text of HTML, without tags, and with single spaces.
fn text_of(PreEscaped(html): &Markup) -> String {
    let mut text = String::with_capacity(html.len());
    for part in html.split('<') {
        text.push(' ');
        text.push_str(part.split_once('>').map_or(part, |(_, after)| after));
    }
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn contents(description: Description<'_>) -> Markup {
    html! {
        form action="/docs/search" role="search" {
            label for="q" { "Search" }
            div { input #q name="q" type="search" maxlength="100"; button { "Search" } }
        }
        h2 { "Guide" }
        ul.chapters {
            @for chapter in CHAPTERS {
                li { a href={ "#" (chapter.name) } { (chapter.title()) } }
            }
        }
        h2 lang="pt-BR" { "Guia em português" }
        ul.chapters lang="pt-BR" {
            @for chapter in PORTUGUESE {
                li { a href={ "#" (chapter.name) } { (chapter.title()) } }
            }
        }
        h2 { a href={ "#" (REFERENCE) } { "Reference" } }
        @for (tag, _, operations) in description.tags() {
            details {
                summary { (tag) }
                ul {
                    li { a href={ "#" (tag_id(tag)) } { "About " (tag) } }
                    @for operation in &operations {
                        li { a href={ "#" (operation_id(operation)) } { (operation.summary()) } }
                    }
                }
            }
        }
        ul.chapters {
            li { a href="#events" { "Events" } }
            li { a href="#schemas" { "Schemas" } }
        }
    }
}

/// The heading of the page has the level `top` in the whole text, and is the page's first one.
fn heading(Section { level, id, title, .. }: &Section, top: u8) -> Markup {
    let label = format!("Link to {}", title.replace('`', ""));
    let content = html! { (inline(title)) " " a.anchor href={ "#" (id) } aria-label=(label) { "#" } };
    match level.saturating_sub(top) {
        0 => html! { h1 id=(id) { (content) } },
        1 => html! { h2 id=(id) { (content) } },
        _ => html! { h3 id=(id) { (content) } },
    }
}

/// A page of the reference has tables of fields.
fn markdown(text: &str, is_reference: bool) -> Markup {
    let events = Parser::new_ext(text, Options::ENABLE_TABLES).flat_map(|event| match event {
        Event::Html(html) if html.starts_with("<details") || html.starts_with("</details") => {
            vec![Event::Html(html)]
        }
        // The anchors of rows in the guide's tables, to which other pages and error bodies link.
        Event::InlineHtml(html) if !is_reference && (html.starts_with("<a id=") || &*html == "</a>") => {
            vec![Event::InlineHtml(html)]
        }
        Event::Html(html) | Event::InlineHtml(html) => vec![Event::Text(html)],
        Event::Start(Tag::Table(alignments)) => {
            let start = table_start(alignments.len(), is_reference);
            vec![Event::Html(CowStr::Borrowed(start)), Event::Start(Tag::Table(alignments))]
        }
        Event::End(TagEnd::Table) => vec![Event::End(TagEnd::Table), Event::Html(CowStr::Borrowed("</div>"))],
        // The page colours no code, so the language is not needed.
        Event::Start(Tag::CodeBlock(_)) => vec![Event::Start(Tag::CodeBlock(CodeBlockKind::Indented))],
        other => vec![other],
    });
    let mut rendered = String::new();
    pulldown_cmark::html::push_html(&mut rendered, events);
    PreEscaped(rendered)
}

fn table_start(columns: usize, is_reference: bool) -> &'static str {
    if is_reference {
        r#"<div class="table fields">"#
    } else if columns >= MANY_COLUMNS {
        r#"<div class="table wide" tabindex="0">"#
    } else {
        r#"<div class="table">"#
    }
}

/// Renders Markdown without a paragraph around it.
fn inline(text: &str) -> Markup {
    let PreEscaped(rendered) = markdown(text, false);
    let inner = rendered.trim().strip_prefix("<p>").and_then(|rest| rest.strip_suffix("</p>"));
    PreEscaped(inner.unwrap_or(&rendered).to_owned())
}
