//! The documentation as web pages: no script, and no request but that of the page itself.
//!
//! A chapter of the guide and a group of the reference have a page each.

use std::collections::{BTreeMap, HashMap};

use maud::{DOCTYPE, Markup, PreEscaped, html};
use pulldown_cmark::{CodeBlockKind, CowStr, Event, Options, Parser, Tag, TagEnd};

use super::block::Block;
use super::description::Description;
use super::guide::CHAPTERS;
use super::reference::{REFERENCE, operation_id, tag_id};
use super::{File, HTML};

pub(super) const STYLE: &str = include_str!("page.css");

/// A reader looks at the first results only.
const MAX_RESULTS: usize = 30;

/// The characters of a section that a result shows.
const EXCERPT: usize = 200;

/// The columns from which a table may be wider than a phone.
const MANY_COLUMNS: usize = 4;

/// A chapter of the guide or a group of the reference: the blocks from its heading to the next one.
struct Page<'a> {
    level: u8,
    name: &'a str,
    title: &'a str,
    blocks: &'a [Block],
}

fn pages(blocks: &[Block]) -> Vec<Page<'_>> {
    let mut pages: Vec<Page<'_>> = Vec::new();
    let mut rest = blocks;
    while let [Block::Heading { level, id, text }, after @ ..] = rest {
        let in_reference = id == REFERENCE || pages.iter().any(|page| page.name == REFERENCE);
        let deepest = if in_reference { 3 } else { 2 };
        let length = after
            .iter()
            .take_while(|block| !matches!(block, Block::Heading { level, .. } if *level <= deepest));
        let (page, next) = rest.split_at(length.count().saturating_add(1));
        pages.push(Page { level: *level, name: id, title: text, blocks: page });
        rest = next;
    }
    pages
}

/// The pages, and what the search finds in them.
pub(super) struct Site {
    title: String,
    /// The list of contents.
    contents: String,
    pages: HashMap<String, File>,
    sections: Vec<Section>,
}

/// A heading with the text up to the next one.
pub(super) struct Section {
    /// The path of the page, with the heading's id.
    pub(super) link: String,
    pub(super) page: String,
    pub(super) title: String,
    text: String,
    /// Title and text in lower case.
    words: [String; 2],
}

impl Site {
    pub(super) fn new(description: Description<'_>, blocks: &[Block]) -> Self {
        let pages = pages(blocks);
        let headings: Headings<'_> = pages.iter().flat_map(Page::headings).collect();
        let mut site = Self {
            title: description.info("title").to_owned(),
            contents: with_pages(contents(description), &headings),
            pages: HashMap::new(),
            sections: Vec::new(),
        };
        site.insert("", "Documentation", first_page(description).into_string());
        for page in &pages {
            let markup = html! { @for block in page.blocks { (block_markup(block, page.level)) } };
            site.insert(page.name, page.title, with_pages(markup, &headings));
            site.sections.extend(page.sections());
        }
        site
    }

    fn insert(&mut self, name: &str, title: &str, content: String) {
        let page = self.page(name, title, PreEscaped(content)).into_string();
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
    pub(super) fn page(&self, name: &str, title: &str, content: Markup) -> Markup {
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
                        main #content { article { (content) } }
                        nav #contents aria-label="Contents" { (PreEscaped(contents)) }
                    }
                }
            }
        }
    }

    /// Returns the sections that have all words. Those with the words in the title are first.
    pub(super) fn search(&self, query: &str) -> Vec<(&Section, &str)> {
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

impl Page<'_> {
    /// Returns the id of each heading, with the page's name.
    fn headings(&self) -> impl Iterator<Item = (&str, &str)> {
        self.blocks.iter().filter_map(|block| match block {
            Block::Heading { id, .. } => Some((id.as_str(), self.name)),
            _ => None,
        })
    }

    fn sections(&self) -> impl Iterator<Item = Section> {
        let is_heading = |block: &Block| matches!(block, Block::Heading { .. });
        self.blocks.chunk_by(move |_, next| !is_heading(next)).filter_map(|blocks| {
            let [Block::Heading { id, text, .. }, rest @ ..] = blocks else { return None };
            let title = text_of(inline(text));
            let text = text_of(html! { @for block in rest { (block_markup(block, self.level)) } });
            let words = [title.to_lowercase(), text.to_lowercase()];
            Some(Section {
                link: format!("/docs/{}#{id}", self.name),
                page: self.title.to_owned(),
                title,
                text,
                words,
            })
        })
    }
}

fn first_page(description: Description<'_>) -> Markup {
    html! {
        h1 { (description.info("title")) }
        (markdown(description.info("description")))
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
fn text_of(PreEscaped(html): Markup) -> String {
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
fn block_markup(block: &Block, top: u8) -> Markup {
    match block {
        Block::Heading { level, id, text } => {
            let content = html! { (inline(text)) " " a.anchor href={ "#" (id) } aria-label={ "Link to " (text.replace('`', "")) } { "#" } };
            match level.saturating_sub(top) {
                0 => html! { h1 id=(id) { (content) } },
                1 => html! { h2 id=(id) { (content) } },
                _ => html! { h3 id=(id) { (content) } },
            }
        }
        Block::Text(text) => markdown(text),
        Block::Fields { head, rows } => html! {
            div.table.fields {
                table {
                    thead { tr { @for title in head { th { (title) } } } }
                    tbody {
                        @for row in rows {
                            tr { @for text in row { td { (inline(text)) } } }
                        }
                    }
                }
            }
        },
        Block::Route { method, path } => html! { p.route { code { b { (method) } " " (path) } } },
        Block::Code { language: _, text } => html! { pre { code { (text) } } },
        Block::Fold { summary, group, is_open, blocks } => html! {
            details.fold name=[group.as_deref()] open[*is_open] {
                summary { (inline(summary)) }
                @for block in blocks { (block_markup(block, top)) }
            }
        },
    }
}

fn markdown(text: &str) -> Markup {
    let mut columns = 0;
    let events = Parser::new_ext(text, Options::ENABLE_TABLES).flat_map(|event| match event {
        Event::Html(html) | Event::InlineHtml(html) => vec![Event::Text(html)],
        Event::Start(Tag::Table(alignments)) => {
            columns = alignments.len();
            vec![Event::Html(CowStr::Borrowed(table_start(columns))), Event::Start(Tag::Table(alignments))]
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

fn table_start(columns: usize) -> &'static str {
    if columns >= MANY_COLUMNS {
        r#"<div class="table wide" tabindex="0">"#
    } else {
        r#"<div class="table">"#
    }
}

/// Renders Markdown without a paragraph around it.
fn inline(text: &str) -> Markup {
    let PreEscaped(rendered) = markdown(text);
    let inner = rendered.trim().strip_prefix("<p>").and_then(|rest| rest.strip_suffix("</p>"));
    PreEscaped(inner.unwrap_or(&rendered).to_owned())
}
