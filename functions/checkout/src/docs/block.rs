//! The parts of the documentation, independent of the format.

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Block {
    Heading {
        /// 2 for a chapter, 3 for a section, and so on. Level 1 is the title of the page.
        level: u8,
        /// The id within the page, without `#`.
        id: String,
        text: String,
    },
    /// Markdown without headings.
    Text(String),
    Fields {
        head: [&'static str; 3],
        rows: Vec<[String; 3]>,
    },
    Route {
        method: String,
        /// Such as `/v1/charges/{id}`.
        path: String,
    },
    Code {
        language: &'static str,
        text: String,
    },
    /// Blocks that a page may hide until the reader opens them.
    Fold {
        summary: String,
        group: Option<String>,
        is_open: bool,
        blocks: Vec<Block>,
    },
}

/// Returns the id of a heading, as GitHub derives it: lower case, without punctuation, hyphens for spaces.
pub(super) fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}
