//! The parts of the documentation, independent of the format.

/// A part of the documentation.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Block {
    /// A heading that links can name.
    Heading {
        /// 2 for a chapter, 3 for a section, and so on. Level 1 is the title of the page.
        level: u8,
        /// The id within the page, without `#`.
        id: String,
        /// The text, as inline Markdown.
        text: String,
    },
    /// Markdown without headings. Its links name other pages, or headings by their ids.
    Text(String),
    /// The fields of an object, or the parameters or responses of a route. On a phone, the cells of a row are
    /// below each other.
    Fields {
        /// The titles of the columns.
        head: [&'static str; 3],
        /// The cells, such as name, type and description, each as inline Markdown.
        rows: Vec<[String; 3]>,
    },
    /// A method and path.
    Route {
        /// Such as `POST`.
        method: String,
        /// Such as `/v1/charges/{id}`.
        path: String,
    },
    /// A program or an example.
    Code {
        /// The language as a fenced code block names it.
        language: &'static str,
        /// The text, which ends with a line break.
        text: String,
    },
    /// Blocks that a page may hide until the reader opens them.
    Fold {
        /// What is inside, as inline Markdown.
        summary: String,
        /// Folds with the same name: a page opens one of them at a time.
        group: Option<String>,
        /// Whether the page shows the content at first.
        is_open: bool,
        /// The content.
        blocks: Vec<Block>,
    },
}

/// Returns the id of a heading, as GitHub derives it: lower case, without punctuation, hyphens for spaces.
pub(super) fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}
