use std::collections::{BTreeMap, BTreeSet, HashSet};

use shared::http::{Detail, Problem};
use strum::EnumCount as _;

use super::description::Description;
use super::guide::{CHAPTERS, PORTUGUESE, SAMPLES};
use super::*;

/// Returns the content of the page of each name.
fn contents() -> BTreeMap<&'static str, &'static str> {
    let article = |page: &'static File| {
        let (_, article) = page.content.split_once("<article>").unwrap();
        article.split_once("</article>").unwrap().0
    };
    PAGES.site.pages().map(|(name, page)| (name, article(page))).collect()
}

/// Returns the values of an attribute, such as `id`.
fn attributes<'a>(html: &'a str, name: &str) -> Vec<&'a str> {
    html.split(&format!(" {name}=\"")).skip(1).map(|rest| rest.split('"').next().unwrap()).collect()
}

#[test]
fn every_link_has_a_target_on_the_page_that_it_names() {
    let contents = contents();
    // The Markdown text has them all.
    let ids: Vec<&str> = contents.values().flat_map(|content| attributes(content, "id")).collect();
    let unique: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(ids.len(), unique.len(), "an id occurs twice");
    for (_, page) in PAGES.site.pages() {
        for link in attributes(&page.content, "href") {
            if let Some(id) = link.strip_prefix('#') {
                assert!(["content", "contents"].contains(&id), "{link}");
            } else if let Some((page, id)) =
                link.strip_prefix("/docs/").map(|link| link.split_once('#').unwrap_or((link, link)))
            {
                let content = contents.get(page).unwrap_or_else(|| panic!("{link}"));
                assert!(attributes(content, "id").contains(&id), "{link}");
            } else {
                assert!(link.starts_with('/') || link.starts_with("https://"), "{link}");
            }
        }
    }
}

#[test]
fn a_chapter_and_a_group_of_the_reference_have_a_page_each() {
    let contents = contents();
    let chapters = CHAPTERS.iter().chain(&PORTUGUESE).map(|chapter| chapter.name.to_owned());
    let document: Value = serde_json::from_str(DOCUMENT).unwrap();
    let tags = Description::new(&document).tags().into_iter().map(|(tag, ..)| reference::tag_id(tag));
    let others = ["", "reference", "events", "schemas"].map(str::to_owned);
    let expected: BTreeSet<String> = chapters.chain(tags).chain(others).collect();
    assert_eq!(contents.keys().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>(), expected);
    for (name, content) in contents {
        assert_eq!(content.matches("<h1").count(), 1, "{name}");
    }
}

#[test]
fn a_page_makes_no_request_and_has_no_script() {
    for (name, page) in PAGES.site.pages() {
        for forbidden in ["<script", "<img", "<link", "<iframe", " src=", " style=", "@import", "url("] {
            assert!(!page.content.contains(forbidden), "{name}: {forbidden}");
        }
    }
}

#[test]
fn every_sample_is_in_the_guide() {
    let sections: Vec<Section> = guide::sections().collect();
    for sample in SAMPLES.dirs().flat_map(include_dir::Dir::files) {
        let program = sample.contents_utf8().unwrap();
        assert!(sections.iter().any(|section| section.body.contains(program)), "{sample:?}");
    }
}

#[test]
fn every_chapter_of_the_directory_is_in_the_guide() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide");
    let names = |directory: &str, prefix: &str| -> Vec<String> {
        let files = std::fs::read_dir(directory).unwrap().map(|file| file.unwrap().file_name());
        let files = files.map(|name| name.into_string().unwrap());
        files.filter_map(|name| Some(format!("{prefix}{}", name.strip_suffix(".md")?))).collect()
    };
    let mut files = names(directory, "");
    files.extend(names(&format!("{directory}/pt"), "pt-"));
    let files: BTreeSet<String> = files.into_iter().collect();
    let chapters = CHAPTERS.iter().chain(&PORTUGUESE).map(|chapter| chapter.name.to_owned());
    assert_eq!(files, chapters.collect());
}

/// What a translation leaves as it is: the blocks of code, the codes in the text, and the levels of the headings.
fn untranslated(source: &str) -> (Vec<String>, BTreeSet<String>, Vec<usize>) {
    let (mut blocks, mut text, mut levels) = (Vec::new(), String::new(), Vec::new());
    for (index, part) in source.split("```").enumerate() {
        if index % 2 == 1 {
            blocks.push(part.to_owned());
            continue;
        }
        text.push_str(part);
        let headings = part.lines().filter(|line| line.starts_with('#'));
        levels.extend(headings.map(|line| line.chars().take_while(|letter| *letter == '#').count()));
    }
    let codes = text.split('`').skip(1).step_by(2);
    let codes = codes.map(|code| code.split_whitespace().collect::<Vec<_>>().join(" "));
    (blocks, codes.collect(), levels)
}

#[test]
fn a_chapter_in_portuguese_has_the_commands_codes_and_sections_of_the_english_one() {
    for chapter in PORTUGUESE {
        let english = CHAPTERS.iter().find(|english| chapter.name == format!("pt-{}", english.name)).unwrap();
        assert_eq!(untranslated(chapter.source), untranslated(english.source), "{}", chapter.name);
    }
}

#[test]
fn a_description_is_escaped_as_text_and_in_a_cell_of_markdown() {
    let mut section = Section::new(2, "a".to_owned(), "A");
    section.paragraph("No such object <here>.");
    section.table(["a", "b", "c"], &[["a | b".to_owned(), String::new(), String::new()]]);
    let (description, sections) = (Description::new(&Value::Null), [section]);
    let site = Site::new(description, &sections);
    assert!(site.get("a").unwrap().content.contains("No such object &lt;here&gt;."));
    assert!(section::page(description, &sections).contains(r"| a \| b |"));
}

/// One problem of each variant.
fn problems() -> Vec<Problem> {
    let text = || "A sentence.".to_owned();
    let details = || vec![Detail::new("amount", "is required")];
    vec![
        Problem::Invalid(details()),
        Problem::InvalidAmount(details()),
        Problem::Unreadable(text()),
        Problem::Unauthorized,
        Problem::NotLoggedIn,
        Problem::WrongCredentials,
        Problem::SecondFactorRequired,
        Problem::SecondFactorDemanded,
        Problem::LogInAgain { back: text(), by_code: false },
        Problem::UnknownSender,
        Problem::ApiKeyRoleRequired,
        Problem::AccountSuspended,
        Problem::CustomerVelocityExceeded,
        Problem::AccountVelocityExceeded,
        Problem::LiveKeyNotAllowed,
        Problem::CdnBypassed,
        Problem::CrossSiteRequest,
        Problem::RoleRequired { role: "ADMIN" },
        Problem::RecoveryInProgress,
        Problem::EndpointInactive,
        Problem::ModeChanged,
        Problem::NotFound { what: "charge" },
        Problem::NoSuchRoute { method: text(), path: text() },
        Problem::IdempotencyKeyReused,
        Problem::EvidenceNotUploaded,
        Problem::EvidenceSizeMismatch { declared: 1, stored: 2 },
        Problem::Unprocessable(text()),
        Problem::UnprocessableField { param: "amount", message: text() },
        Problem::PaymentNotCancellable { status: "PAID" },
        Problem::PaymentInProgress,
        Problem::VoucherAwaitsConfirmation { until: domain::time::Timestamp::MIN },
        Problem::PaymentNotRefundable { status: "PENDING" },
        Problem::ReturnWindowOver(text()),
        Problem::ChargeDisputed { is_over: false },
        Problem::RefundExceedsRemaining { remaining: 1 },
        Problem::InsufficientBalance { needed: 2, available: 1, pending: 0 },
        Problem::RefundNotSupported(text()),
        Problem::RateLimited { retry_after_seconds: 1 },
        Problem::TooManyTests { limit: 1, retry_after_seconds: 1 },
        Problem::TooManyReports { limit: 1, period: "at once", retry_after_seconds: 1 },
        Problem::TooManyLogins { limit: 1, retry_after_seconds: 1 },
        Problem::LiveChargesStopped,
        Problem::Unavailable(text()),
        Problem::Limited(std::time::Duration::ZERO),
        Problem::Busy,
        Problem::Internal(text()),
    ]
}

#[test]
fn the_guide_lists_every_error_code_with_its_status() {
    let problems = problems();
    let variants: HashSet<_> = problems.iter().map(std::mem::discriminant).collect();
    assert_eq!(
        variants.len(),
        Problem::COUNT,
        "add the new variant to `problems`, and its code to the guide"
    );
    let sent: BTreeSet<(String, String)> = problems
        .iter()
        .map(|problem| (problem.status().as_str().to_owned(), problem.code().to_owned()))
        .collect();
    let page = include_str!("../../../../docs/guide/errors.md");
    let (_, table) = page.split_once("## All codes").unwrap();
    let (table, _) = table.split_once("\n## ").unwrap();
    let rows: Vec<Vec<&str>> = table
        .lines()
        .filter(|line| line.starts_with("| ") && line.contains('`'))
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect();
    assert!(rows.iter().all(|row| row.len() == 4 && row.iter().all(|cell| !cell.is_empty())), "{rows:?}");
    let listed: BTreeSet<(String, String)> =
        rows.iter().map(|row| (row[0].to_owned(), row[1].rsplit('`').nth(1).unwrap().to_owned())).collect();
    assert_eq!((listed.len(), &listed), (rows.len(), &sent));
    // `doc_url` of an error body leads to the row.
    let contents = contents();
    let anchors = attributes(contents["errors"], "id");
    let missing: Vec<_> = sent.iter().filter(|(_, code)| !anchors.contains(&code.as_str())).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
