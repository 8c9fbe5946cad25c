//! The documentation as one Markdown text, in sections.

use std::fmt::Write as _;

use super::description::Description;

/// A heading, with the Markdown up to the next one. HTML in it is text, but for `<details>`.
#[derive(Clone, Debug, Default)]
pub(super) struct Section {
    /// 2 for a chapter, 3 for a section, and so on. Level 1 is the title of the page.
    pub(super) level: u8,
    /// The id within the whole documentation, without `#`.
    pub(super) id: String,
    pub(super) title: String,
    pub(super) body: String,
}

impl Section {
    pub(super) fn new(level: u8, id: String, title: &str) -> Self {
        Self { level, id, title: title.to_owned(), body: String::new() }
    }

    pub(super) fn paragraph(&mut self, text: &str) {
        let _ = write!(self.body, "\n{text}\n");
    }

    pub(super) fn table(&mut self, head: [&str; 3], rows: &[[String; 3]]) {
        let _ = write!(self.body, "\n| {} |\n| --- | --- | --- |\n", head.join(" | "));
        for row in rows {
            // A cell is on one line, and has no character that ends it.
            let words = row.each_ref().map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
            let _ = writeln!(self.body, "| {} |", words.map(|text| text.replace('|', "\\|")).join(" | "));
        }
    }

    /// Code that a page hides until the reader opens it. `attributes`: those of the element `details`.
    pub(super) fn fold(&mut self, attributes: &str, summary: &str, language: &str, code: &str) {
        let _ = write!(
            self.body,
            "\n<details class=\"fold\"{attributes}><summary>{summary}</summary>\n\n```{language}\n{code}```\n\n</details>\n"
        );
    }
}

/// Returns the whole documentation. Each heading has an anchor, because links name ids that a renderer would not
/// derive from the heading alone.
pub(super) fn page(description: Description<'_>, sections: &[Section]) -> String {
    let mut page = format!("# {}\n\n{}\n", description.info("title"), description.info("description").trim());
    for Section { level, id, title, body } in sections {
        let marks = "#".repeat(usize::from(*level));
        let _ = write!(page, "\n<a id=\"{id}\"></a>\n\n{marks} {title}\n\n{}\n", body.trim_matches('\n'));
    }
    page
}

/// Returns the id of a heading, as GitHub derives it: lower case, without punctuation, hyphens for spaces.
pub(super) fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}
