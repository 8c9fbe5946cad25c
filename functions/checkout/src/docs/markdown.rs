//! The documentation as one Markdown text.

use std::fmt::Write as _;

use super::block::Block;
use super::description::Description;

/// Returns the whole documentation as Markdown. Each heading has an anchor, because links name ids that a
/// renderer would not derive from the heading alone.
pub(super) fn page(description: Description<'_>, blocks: &[Block]) -> String {
    let mut page = format!("# {}\n\n{}\n", description.info("title"), description.info("description").trim());
    write(blocks, &mut page);
    page
}

/// Returns a text as a cell of a table: on one line, and without the character that ends a cell.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

fn write(blocks: &[Block], page: &mut String) {
    for block in blocks {
        let text = match block {
            Block::Heading { level, id, text } => {
                format!("<a id=\"{id}\"></a>\n\n{} {text}\n", "#".repeat(usize::from(*level)))
            }
            Block::Text(text) => text.clone(),
            Block::Fields { head, rows } => {
                let mut table = format!("| {} |\n| --- | --- | --- |\n", head.join(" | "));
                for row in rows {
                    let [name, kind, about] = row.each_ref().map(|text| cell(text));
                    let _ = writeln!(table, "| {name} | {kind} | {about} |");
                }
                table
            }
            Block::Route { method, path } => format!("`{method} {path}`\n"),
            Block::Code { language, text } => format!("```{language}\n{text}```\n"),
            Block::Fold { summary, blocks, .. } => {
                let _ = writeln!(page, "\n{summary}");
                write(blocks, page);
                continue;
            }
        };
        page.push('\n');
        page.push_str(&text);
    }
}
