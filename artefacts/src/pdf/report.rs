//! A report of any number of pages.

use super::page::{Page, Style, finish};
use super::{HEADING, LEFT, NOTICE, RIGHT, SMALL, STRONG, TITLE, VALUE};

/// A part of a report, from top to bottom.
#[derive(Debug, Clone)]
pub enum Part {
    Heading(&'static str),
    Value(&'static str, String),
    /// With its line breaks.
    Text(String),
    /// The day of the rows that follow.
    Day(String),
    /// A time, a text that is cut at the end of its line, and two amounts.
    Row([String; 4]),
}

// In millimetres from the top of the page. Below the last line is the number of the page.
/// Where the first amounts of rows end.
const SUMS: f32 = 163.0;
const FIRST_LINE: f32 = 20.0;
const LAST_LINE: f32 = 276.0;

struct Flow {
    full: Vec<Page>,
    page: Page,
    y: f32,
}

impl Flow {
    /// Begins a page if there is less space than this.
    fn reserve(&mut self, height_mm: f32) {
        if self.y + height_mm > LAST_LINE {
            self.full.push(std::mem::replace(&mut self.page, Page::new()));
            self.y = FIRST_LINE;
        }
    }

    fn write(&mut self, x: f32, style: Style, width_mm: u16, text: &str) {
        for line in text.lines().flat_map(|line| style.lines(width_mm, line)) {
            self.reserve(0.0);
            self.y = self.page.line((x, self.y), style, &line);
        }
    }
}

/// `notice` is at the top, for example that the document is a test.
pub fn report_pdf(title: &str, notice: Option<&str>, parts: &[Part]) -> Vec<u8> {
    let mut flow = Flow { full: Vec::new(), page: Page::new(), y: FIRST_LINE };
    flow.write(LEFT, NOTICE, 180, notice.unwrap_or_default());
    flow.y += 3.0;
    flow.write(LEFT, TITLE, 180, title);
    for part in parts {
        match part {
            Part::Heading(text) => {
                flow.y += 4.0;
                // A heading is not the last line of a page.
                flow.reserve(12.0);
                flow.write(LEFT, HEADING, 180, text);
            }
            Part::Value(name, value) => {
                flow.reserve(0.0);
                flow.page.text((LEFT, flow.y), SMALL.gray(0.4), 48, 1, name);
                flow.write(LEFT + 50.0, VALUE, 130, value);
                flow.y += 1.0;
            }
            Part::Text(text) => flow.write(LEFT, VALUE, 180, text),
            Part::Day(day) => {
                flow.y += 2.0;
                // A day is not the last line of a page.
                flow.reserve(8.0);
                flow.write(LEFT, STRONG, 180, day);
            }
            Part::Row([time, text, sum, balance]) => {
                flow.reserve(0.0);
                flow.page.text((LEFT, flow.y), SMALL.gray(0.4), 12, 1, time);
                flow.page.text_right((SUMS, flow.y), SMALL, 30, sum);
                flow.page.text_right((RIGHT, flow.y), SMALL, 30, balance);
                flow.y = flow.page.text((LEFT + 12.0, flow.y), SMALL, 102, 1, text).max(flow.y + 3.0);
            }
        }
    }
    let mut pages = flow.full;
    pages.push(flow.page);
    let count = pages.len();
    for (number, page) in (1_usize..).zip(&mut pages) {
        page.text_right((RIGHT, 288.0), SMALL, 40, &format!("{number}/{count}"));
    }
    finish(pages, title)
}
