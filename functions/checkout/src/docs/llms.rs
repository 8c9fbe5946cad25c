//! `llms.txt`: an index of the documentation for language models (<https://llmstxt.org>).

use std::fmt::Write as _;

use super::description::Description;
use super::guide::{CHAPTERS, PORTUGUESE};
use super::reference::tag_id;

pub(super) fn index(description: Description<'_>) -> String {
    let mut index = format!(
        "# {}\n\n> {}\n\n\
         All links are relative to the host of the API. The Markdown page contains the whole guide and the \
         reference of all routes.\n\n\
         ## Documentation\n\n\
         - [Guide and reference](/docs.md): everything as one Markdown page\n\
         - [OpenAPI 3.1 description](/v1/openapi.json): all routes, schemas and events\n\n\
         ## Guide\n\n",
        description.info("title"),
        description.info("summary"),
    );
    for chapter in CHAPTERS.into_iter().chain(PORTUGUESE) {
        let (name, title) = (chapter.name, chapter.title());
        let _ = writeln!(index, "- [{title}](/docs.md#{name}): {}", chapter.first_sentence());
    }
    index.push_str("\n## Reference\n\n");
    for (tag, _, operations) in description.tags() {
        let routes: Vec<String> =
            operations.iter().map(|operation| format!("`{} {}`", operation.method, operation.path)).collect();
        let _ = writeln!(index, "- [{tag}](/docs.md#{}): {}", tag_id(tag), routes.join(", "));
    }
    index.push_str("\n## Optional\n\n- [The same as a web page](/docs): for people\n");
    index
}
