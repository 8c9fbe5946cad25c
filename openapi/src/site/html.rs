//! The documentation as web pages: no script, and no request but that of the page itself.
//!
//! All pages are in one file, as articles between the head and the foot that they share. The function that serves
//! them splits it, and searches their sections.

use std::collections::BTreeMap;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use pulldown_cmark::{CodeBlockKind, CowStr, Event, Options, Parser, Tag, TagEnd};

use super::block::Block;
use super::description::Description;
use super::guide::CHAPTERS;
use super::reference::{REFERENCE, operation_id, tag_id};

const STYLE: &str = include_str!("page.css");

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

pub(super) fn site(description: Description<'_>, blocks: &[Block]) -> String {
    let pages = pages(blocks);
    let site = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (description.info("title")) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                a.skip href="#content" { "Skip to the content" }
                header {
                    p.title { a href="/docs" { (description.info("title")) } }
                    p.jump { a href="#contents" { "Contents" } }
                }
                div.columns {
                    main #content {
                        article data-page="" data-title="Documentation" {
                            h1 { (description.info("title")) }
                            (markdown(description.info("description")))
                            p {
                                "All pages as one " a href="/docs.md" { "Markdown text" } ", as an "
                                a href="/v1/openapi.json" { "OpenAPI 3.1 description" } ", and as an "
                                a href="/llms.txt" { "index for language models" } "."
                            }
                        }
                        @for page in &pages {
                            article data-page=(page.name) data-title=(page.title) {
                                @for block in page.blocks { (block_markup(block, page.level)) }
                            }
                        }
                    }
                    nav #contents aria-label="Contents" { (contents(description)) }
                }
            }
        }
    };
    format!("{}\n", with_pages(&site.into_string(), &pages))
}

/// Prefixes each link to a heading, `#id`, with the page that has the heading.
fn with_pages(site: &str, pages: &[Page<'_>]) -> String {
    let headings = pages.iter().flat_map(|page| {
        page.blocks.iter().filter_map(move |block| match block {
            Block::Heading { id, .. } => Some((id.as_str(), page.name)),
            _ => None,
        })
    });
    let headings: BTreeMap<&str, &str> = headings.collect();
    let mut parts = site.split("href=\"#");
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
