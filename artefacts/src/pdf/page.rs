//! Draws A4 pages. Positions are in millimetres from their top left corner.
//!
//! Lengths are floats, because PDF uses floats. Amounts of money are never floats: they arrive as formatted
//! text.

use pdf_writer::{Content, Name, Pdf, Rect, Ref, Str, TextStr};

use super::text::{Font, encode, width, wrap};

/// The width of A4, in millimetres.
pub(super) const PAGE_WIDTH_MM: f32 = 210.0;
const PAGE_HEIGHT_MM: f32 = 297.0;

const LEADING: f32 = 1.25;

const CATALOG: Ref = Ref::new(1);
const PAGES: Ref = Ref::new(2);
const REGULAR: Ref = Ref::new(3);
const BOLD: Ref = Ref::new(4);
const INFO: Ref = Ref::new(5);
/// Of the first page and its content; those of the others follow.
const FIRST: Ref = Ref::new(6);

#[derive(Debug, Clone, Copy)]
pub(super) struct Style {
    pub(super) font: Font,
    pub(super) size_pt: u16,
    /// 0 is black, 1 is white.
    pub(super) gray: f32,
}

impl Style {
    pub(super) const fn new(font: Font, size_pt: u16) -> Self {
        Self { font, size_pt, gray: 0.0 }
    }

    pub(super) const fn gray(self, gray: f32) -> Self {
        Self { gray, ..self }
    }

    /// The lines of a text of any length.
    pub(super) fn lines(self, width_mm: u16, text: &str) -> Vec<Vec<u8>> {
        wrap(self.font, &encode(text), self.thousandths(width_mm), usize::MAX)
    }

    fn leading_mm(self) -> f32 {
        f32::from(self.size_pt) * LEADING / points(1.0)
    }

    fn thousandths(self, width_mm: u16) -> u32 {
        // 720_000 / 254 is 1000 * 72 / 25.4: an inch has 72 points and 25.4 mm.
        let numerator = u32::from(width_mm).saturating_mul(720_000);
        numerator.checked_div(u32::from(self.size_pt).saturating_mul(254)).unwrap_or_default()
    }
}

pub(super) struct Page {
    content: Content,
}

impl Page {
    pub(super) fn new() -> Self {
        Self { content: Content::new() }
    }

    /// Draws a text in at most `max_lines` lines of at most `width_mm`.
    pub(super) fn text(
        &mut self,
        at: (f32, f32),
        style: Style,
        width_mm: u16,
        max_lines: usize,
        text: &str,
    ) -> f32 {
        let (x, mut y) = at;
        for line in wrap(style.font, &encode(text), style.thousandths(width_mm), max_lines) {
            self.draw_line_of_text((x, y), style, &line);
            y += style.leading_mm();
        }
        y
    }

    /// Draws one right-aligned line of at most `width_mm`.
    pub(super) fn text_right(&mut self, at: (f32, f32), style: Style, width_mm: u16, text: &str) {
        let (x, y) = at;
        for line in wrap(style.font, &encode(text), style.thousandths(width_mm), 1) {
            let thousandths = u16::try_from(width(style.font, &line)).unwrap_or(u16::MAX);
            let length_mm = f32::from(thousandths) / 1_000.0 * f32::from(style.size_pt) / points(1.0);
            self.draw_line_of_text((x - length_mm, y), style, &line);
        }
    }

    pub(super) fn rule(&mut self, from: (f32, f32), to: (f32, f32), width_pt: f32, dashed: bool) {
        self.content.save_state();
        self.content.set_line_width(width_pt);
        if dashed {
            self.content.set_dash_pattern([3.0, 3.0], 0.0);
        }
        self.content.move_to(points(from.0), from_top(from.1));
        self.content.line_to(points(to.0), from_top(to.1));
        self.content.stroke();
        self.content.restore_state();
    }

    pub(super) fn fill(&mut self, at: (f32, f32), size: (f32, f32), gray: f32) {
        self.content.set_fill_gray(gray);
        self.content.rect(points(at.0), from_top(at.1 + size.1), points(size.0), points(size.1));
        self.content.fill_nonzero();
    }

    /// `widths` are in modules, the unit of width of a barcode, and `modules` is their sum.
    pub(super) fn bars(&mut self, at: (f32, f32), size: (f32, f32), widths: &[u8], modules: u16) {
        let module = points(size.0) / f32::from(modules.max(1));
        self.content.save_state();
        self.content.set_fill_gray(0.0);
        // In these coordinates a module is 1 wide. All widths are then whole numbers, so no rounding makes
        // equal bars differ.
        let scale = [module, 0.0, 0.0, points(size.1), points(at.0), from_top(at.1 + size.1)];
        self.content.transform(scale);
        let mut x = 0_u16;
        for (index, width) in widths.iter().enumerate() {
            let is_bar = index % 2 == 0;
            if is_bar {
                self.content.rect(f32::from(x), 0.0, f32::from(*width), 1.0);
            }
            x = x.saturating_add((*width).into());
        }
        self.content.fill_nonzero();
        self.content.restore_state();
    }

    /// Draws an encoded line. Returns the position of the next one.
    pub(super) fn line(&mut self, at: (f32, f32), style: Style, line: &[u8]) -> f32 {
        self.draw_line_of_text(at, style, line);
        at.1 + style.leading_mm()
    }

    pub(super) fn finish(self, title: &str) -> Vec<u8> {
        finish(vec![self], title)
    }

    fn draw_line_of_text(&mut self, at: (f32, f32), style: Style, line: &[u8]) {
        self.content.set_fill_gray(style.gray);
        self.content.begin_text();
        self.content.set_font(font_resource(style.font), style.size_pt.into());
        self.content.next_line(points(at.0), from_top(at.1));
        self.content.show(Str(line));
        self.content.end_text();
    }
}

/// Viewers show `title` instead of the file's name in the title bar of their window.
pub(super) fn finish(pages: Vec<Page>, title: &str) -> Vec<u8> {
    let mut pdf = Pdf::new();
    let mut catalog = pdf.catalog(CATALOG);
    catalog.pages(PAGES);
    catalog.lang(TextStr("pt-BR"));
    catalog.viewer_preferences().display_doc_title(true);
    drop(catalog);
    pdf.document_info(INFO).title(TextStr(title));
    let mut next = FIRST;
    let pages: Vec<(Ref, Ref, Page)> =
        pages.into_iter().map(|page| (next.bump(), next.bump(), page)).collect();
    let count = i32::try_from(pages.len()).unwrap_or(i32::MAX);
    pdf.pages(PAGES).kids(pages.iter().map(|(id, ..)| *id)).count(count);

    for (id, content, drawn) in pages {
        let mut page = pdf.page(id);
        page.parent(PAGES).contents(content);
        page.media_box(Rect::new(0.0, 0.0, points(PAGE_WIDTH_MM), points(PAGE_HEIGHT_MM)));
        page.resources()
            .fonts()
            .pair(font_resource(Font::Regular), REGULAR)
            .pair(font_resource(Font::Bold), BOLD);
        drop(page);
        pdf.stream(content, &drawn.content.finish());
    }
    for (id, font) in [(REGULAR, b"Helvetica".as_slice()), (BOLD, b"Helvetica-Bold")] {
        pdf.type1_font(id).base_font(Name(font)).encoding_predefined(Name(b"WinAnsiEncoding"));
    }
    pdf.finish()
}

const fn font_resource(font: Font) -> Name<'static> {
    match font {
        Font::Regular => Name(b"R"),
        Font::Bold => Name(b"B"),
    }
}

const fn points(mm: f32) -> f32 {
    mm * 72.0 / 25.4
}

const fn from_top(y_mm: f32) -> f32 {
    points(PAGE_HEIGHT_MM - y_mm)
}
