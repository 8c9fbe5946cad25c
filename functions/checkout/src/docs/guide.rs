//! The chapters of the guide.
//!
//! The sources are plain Markdown with links that work in the repository. A list whose items are links to
//! samples becomes the samples themselves.

use include_dir::{Dir, include_dir};

use super::block::{Block, slug};
use super::reference::REFERENCE;

/// A chapter: a file of `docs/guide`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chapter {
    /// The name of the file without its extension.
    pub(super) name: &'static str,
    source: &'static str,
}

macro_rules! chapters {
    ($($name:literal),+ $(,)?) => {
        [$(Chapter { name: $name, source: include_str!(concat!("../../../../docs/guide/", $name, ".md")) }),+]
    };
}

/// All chapters, in the order in which a reader needs them.
pub(super) const CHAPTERS: [Chapter; 16] = chapters![
    "quickstart",
    "authentication",
    "requests",
    "idempotency",
    "errors",
    "charges",
    "webhooks",
    "refunds",
    "wallets",
    "med",
    "dashboard",
    "team",
    "sandbox",
    "shop",
    "going-live",
    "changelog",
];

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

    fn blocks(self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut text = String::new();
        let mut samples: Vec<Block> = Vec::new();
        let mut is_code = false;
        for line in self.source.lines() {
            let sample = (!is_code).then(|| self.sample(line, samples.is_empty(), blocks.len())).flatten();
            if sample.is_none() {
                blocks.append(&mut samples);
            }
            is_code ^= line.starts_with("```");
            match (sample, heading(line).filter(|_| !is_code)) {
                (Some(sample), _) => {
                    flush(&mut text, &mut blocks);
                    samples.push(sample);
                }
                (None, Some((level, heading))) => {
                    flush(&mut text, &mut blocks);
                    let id = if level == 2 { self.name.to_owned() } else { self.id_of(heading) };
                    blocks.push(Block::Heading { level, id, text: heading.to_owned() });
                }
                (None, None) => {
                    text.push_str(&if is_code { line.to_owned() } else { self.with_links(line) });
                    text.push('\n');
                }
            }
        }
        blocks.append(&mut samples);
        flush(&mut text, &mut blocks);
        blocks
    }

    fn sample(self, line: &str, is_first: bool, position: usize) -> Option<Block> {
        let (label, path) = line.strip_prefix("- [")?.strip_suffix(')')?.split_once(SAMPLE_LINK)?;
        let program = SAMPLES.get_file(path)?.contents_utf8()?;
        let language = match path.rsplit_once('.')?.1 {
            "sh" => "sh",
            "mjs" => "js",
            "py" => "python",
            "php" => "php",
            _ => "java",
        };
        let (_, file) = path.rsplit_once('/')?;
        Some(Block::Fold {
            summary: format!("{label}: `{file}`"),
            group: Some(format!("{}-samples-{position}", self.name)),
            is_open: is_first,
            blocks: vec![Block::Code { language, text: program.to_owned() }],
        })
    }

    fn id_of(self, heading: &str) -> String {
        format!("{}-{}", self.name, slug(heading))
    }

    fn with_links(self, line: &str) -> String {
        let mut line = line.replace("](#", &format!("](#{}-", self.name));
        for Chapter { name, .. } in CHAPTERS {
            line = line.replace(&format!("]({name}.md)"), &format!("](#{name})"));
            line = line.replace(&format!("]({name}.md#"), &format!("](#{name}-"));
        }
        line.replace(DESCRIPTION_LINK, &format!("](#{REFERENCE})"))
    }
}

pub(super) fn blocks() -> Vec<Block> {
    CHAPTERS.into_iter().flat_map(Chapter::blocks).collect()
}

fn heading(line: &str) -> Option<(u8, &str)> {
    let marks = [(4, "### "), (3, "## "), (2, "# ")];
    marks.into_iter().find_map(|(level, mark)| Some((level, line.strip_prefix(mark)?)))
}

fn flush(text: &mut String, blocks: &mut Vec<Block>) {
    if !text.trim().is_empty() {
        blocks.push(Block::Text(format!("{}\n", text.trim_matches('\n'))));
    }
    text.clear();
}
