//! The documentation as one static web page: no script, and no request but that of the page itself.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use pulldown_cmark::{CodeBlockKind, CowStr, Event, Options, Parser, Tag, TagEnd};

use super::block::Block;
use super::description::Description;
use super::guide::CHAPTERS;
use super::reference::{REFERENCE, operation_id, tag_id};

const STYLE: &str = include_str!("page.css");

/// The columns from which a table may be wider than a phone.
const MANY_COLUMNS: usize = 4;

pub(super) fn page(description: Description<'_>, blocks: &[Block]) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (description.title()) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                a.skip href="#content" { "Skip to the content" }
                header {
                    p.title { a href="#top" { (description.title()) } }
                    p.jump { a href="#contents" { "Contents" } }
                }
                div.columns {
                    nav #contents aria-label="Contents" { (contents(description)) }
                    main #content {
                        h1 #top { (description.title()) }
                        (markdown(description.text()))
                        p {
                            "This page as " a href="/docs.md" { "Markdown" } ", as an "
                            a href="/v1/openapi.json" { "OpenAPI 3.1 description" } ", and as an "
                            a href="/llms.txt" { "index for language models" } "."
                        }
                        (blocks_markup(blocks))
                    }
                }
            }
        }
    };
    format!("{}\n", page.into_string())
}

fn contents(description: Description<'_>) -> Markup {
    html! {
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

fn blocks_markup(blocks: &[Block]) -> Markup {
    html! { @for block in blocks { (block_markup(block)) } }
}

fn block_markup(block: &Block) -> Markup {
    match block {
        Block::Heading { level, id, text } => {
            let content = html! { (inline(text)) " " a.anchor href={ "#" (id) } aria-label={ "Link to " (text.replace('`', "")) } { "#" } };
            match level {
                2 => html! { h2 id=(id) { (content) } },
                3 => html! { h3 id=(id) { (content) } },
                _ => html! { h4 id=(id) { (content) } },
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
                (blocks_markup(blocks))
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
