//! The chapters of the guide.
//!
//! The sources are plain Markdown with links that work in the repository. A list whose items are links to
//! samples becomes the samples themselves.

use include_dir::{Dir, include_dir};

use super::reference::REFERENCE;
use super::section::{Section, slug};

/// A chapter: a file of `docs/guide`, or of its directory `pt`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chapter {
    /// The name of the file without its extension. A chapter in Portuguese has the prefix [`PORTUGUESE_PREFIX`].
    pub(super) name: &'static str,
    pub(super) source: &'static str,
}

macro_rules! chapters {
    ($prefix:literal, $directory:literal, $($name:literal),+ $(,)?) => {
        [$(Chapter {
            name: concat!($prefix, $name),
            source: include_str!(concat!("../../../../docs/guide/", $directory, $name, ".md")),
        }),+]
    };
}

/// All chapters, in the order in which a reader needs them.
pub(super) const CHAPTERS: [Chapter; 19] = chapters![
    "",
    "",
    "quickstart",
    "authentication",
    "requests",
    "idempotency",
    "errors",
    "failed-requests",
    "charges",
    "payment-links",
    "webhooks",
    "refunds",
    "wallets",
    "reports",
    "med",
    "dashboard",
    "team",
    "sandbox",
    "shop",
    "going-live",
    "changelog",
];

pub(super) const PORTUGUESE_PREFIX: &str = "pt-";

/// The first chapters in Portuguese. A test compares their codes and commands with those of the English ones.
pub(super) const PORTUGUESE: [Chapter; 4] =
    chapters!["pt-", "pt/", "quickstart", "charges", "refunds", "med"];

pub(super) static SAMPLES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../docs/samples");

const SAMPLE_LINK: &str = "](../samples/";

/// The description of the API, from which the reference is made.
const DESCRIPTION_LINK: &str = "](../openapi.json)";

impl Chapter {
    pub(super) fn title(self) -> &'static str {
        self.source.lines().next().and_then(|line| line.strip_prefix("# ")).unwrap_or(self.name)
    }

    pub(super) fn first_sentence(self) -> String {
        let paragraph = self.source.split("\n\n").nth(1).unwrap_or_default().replace('\n', " ");
        let sentence = paragraph.split_once(". ").map_or(paragraph.as_str(), |(first, _)| first);
        format!("{}.", sentence.trim_end_matches(['.', ':']))
    }

    fn sections(self) -> Vec<Section> {
        let mut sections: Vec<Section> = Vec::new();
        let (mut is_code, mut samples, mut is_sample) = (false, 0_usize, false);
        for line in self.source.lines() {
            is_code ^= line.starts_with("```");
            if let Some((level, title)) = heading(line).filter(|_| !is_code) {
                let id = if level == 2 { self.name.to_owned() } else { self.id_of(title) };
                sections.push(Section::new(level, id, title));
                continue;
            }
            let Some(section) = sections.last_mut() else { continue };
            let sample = sample(line).filter(|_| !is_code);
            if let Some((label, path, program)) = sample {
                // The first of the samples that follow each other is open.
                let open = if is_sample { "" } else { " open" };
                samples = samples.saturating_add(usize::from(!is_sample));
                let attributes = format!(" name=\"{}-samples-{samples}\"{open}", self.name);
                let (_, file) = path.rsplit_once('/').unwrap_or_default();
                let summary = format!("{label}: <code>{file}</code>");
                section.fold(&attributes, &summary, language_of(file), program);
            } else {
                section.body.push_str(&if is_code { line.to_owned() } else { self.with_links(line) });
                section.body.push('\n');
            }
            is_sample = sample.is_some();
        }
        sections
    }

    fn id_of(self, heading: &str) -> String {
        format!("{}-{}", self.name, slug(heading))
    }

    fn with_links(self, line: &str) -> String {
        let mut line = line.replace("](#", &format!("](#{}-", self.name));
        for chapter in all() {
            let (name, file) = (chapter.name, self.path_to(chapter));
            line = line.replace(&format!("]({file})"), &format!("](#{name})"));
            line = line.replace(&format!("]({file}#"), &format!("](#{name}-"));
        }
        line.replace(DESCRIPTION_LINK, &format!("](#{REFERENCE})"))
    }

    /// The path of a chapter's file from this one's.
    fn path_to(self, chapter: Self) -> String {
        let portuguese = |chapter: Self| chapter.name.strip_prefix(PORTUGUESE_PREFIX);
        match (portuguese(self), portuguese(chapter)) {
            (Some(_), Some(name)) => format!("{name}.md"),
            (Some(_), None) => format!("../{}.md", chapter.name),
            (None, Some(name)) => format!("pt/{name}.md"),
            (None, None) => format!("{}.md", chapter.name),
        }
    }
}

fn all() -> impl Iterator<Item = Chapter> {
    CHAPTERS.into_iter().chain(PORTUGUESE)
}

pub(super) fn sections() -> impl Iterator<Item = Section> {
    all().flat_map(Chapter::sections)
}

fn heading(line: &str) -> Option<(u8, &str)> {
    let marks = [(4, "### "), (3, "## "), (2, "# ")];
    marks.into_iter().find_map(|(level, mark)| Some((level, line.strip_prefix(mark)?)))
}

/// Returns the label, path and content of the sample to which an item of a list links.
fn sample(line: &str) -> Option<(&str, &str, &'static str)> {
    let (label, path) = line.strip_prefix("- [")?.strip_suffix(')')?.split_once(SAMPLE_LINK)?;
    Some((label, path, SAMPLES.get_file(path)?.contents_utf8()?))
}

fn language_of(file: &str) -> &'static str {
    match file.rsplit_once('.').unwrap_or_default().1 {
        "sh" => "sh",
        "mjs" => "js",
        "py" => "python",
        "php" => "php",
        _ => "java",
    }
}
