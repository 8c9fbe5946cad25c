//! The parts of which the pages consist. None has an inline style or handler, which the content security policy
//! forbids.

use domain::charge::Charge;
use domain::money::{Currency, MinorUnits, Money};
use domain::pt_br;
use domain::time::Timestamp;
use maud::{Markup, html};
use shared::product::Product;
use strum::AsRefStr;

use crate::words as w;
use crate::{Icon, Language, Word};

/// Formats a sum in all languages alike: `R$ 1.234,56`.
pub fn money(minor: i64, currency: Currency) -> String {
    pt_br::format_money(Money { minor: MinorUnits::new(minor), currency })
}

/// The payer's document, masked.
pub fn masked_payer(charge: &Charge) -> Option<String> {
    let tax_id = charge.payer_tax_id().map(|tax_id| tax_id.masked());
    tax_id.or_else(|| charge.payer().map(|_| "***".to_owned()))
}

/// A time in Brasília, with the zone on hover.
pub fn time(at: Timestamp) -> Markup {
    html! { time datetime=(at.to_iso()) title="Brasília (UTC-3)" { (pt_br::format_short_minute(at)) } }
}

/// What a state means for the reader. A tag also has a word, because a colour alone says nothing to some.
#[derive(AsRefStr, Clone, Copy, Debug, Eq, PartialEq)]
#[strum(serialize_all = "snake_case")]
pub enum Tone {
    Good,
    Warn,
    Bad,
    Info,
    Calm,
}

pub fn tag(tone: Tone, text: &str) -> Markup {
    html! { span.tag.(tone.as_ref()) { (text) } }
}

/// A notice, with the icon of its tone.
pub fn alert(tone: Tone, content: &Markup) -> Markup {
    notice(tone, None, content)
}

/// A notice that a screen reader says at once: what became of the last action.
pub fn announced(tone: Tone, content: &Markup) -> Markup {
    notice(tone, Some(if tone == Tone::Good { "status" } else { "alert" }), content)
}

fn notice(tone: Tone, role: Option<&str>, content: &Markup) -> Markup {
    let icon = match tone {
        Tone::Good => Icon::CircleCheck,
        Tone::Bad => Icon::CircleAlert,
        Tone::Warn | Tone::Info | Tone::Calm => Icon::TriangleAlert,
    };
    html! { div.alert.(tone.as_ref()) role=[role] { (icon) (content) } }
}

/// The mark and the name of the product.
pub fn product(language: Language) -> Markup {
    let product = Product::shown();
    html! {
        svg.mark viewBox="0 0 24 24" aria-hidden="true" { path fill-rule="evenodd" d=(product.mark()) {} }
        span { (product.name(language)) }
    }
}

/// The place of a column on a narrow screen, where each row of a table becomes a card.
#[derive(AsRefStr, Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cell {
    /// What the row is about: at the top left.
    #[strum(serialize = "m")]
    Main,
    /// At the top right.
    #[strum(serialize = "n")]
    Amount,
    /// At the bottom left.
    #[strum(serialize = "t")]
    Time,
    /// At the bottom right.
    #[strum(serialize = "s")]
    State,
    /// On a line of its own, with the column's name.
    #[strum(serialize = "o")]
    Other,
}

pub fn table(caption: &str, columns: &[(Cell, &str)], rows: Vec<Vec<Markup>>) -> Markup {
    html! {
        div.scroll {
            table.rows {
                caption { (caption) }
                thead { tr { @for (cell, name) in columns { th.(cell.as_ref()) scope="col" { (name) } } } }
                tbody {
                    @for row in rows {
                        tr {
                            @for ((cell, name), content) in columns.iter().zip(row) {
                                td.(cell.as_ref()) data-label=(name) { (content) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Links to the parts of a list: the path, which may have other parameters, and the parameter; the value that is shown,
/// and the values with their words. An empty value is the whole list.
pub fn chips<'a>(
    label: &str,
    (path, parameter): (&str, &str),
    chosen: &str,
    choices: impl Iterator<Item = (&'a str, &'a str)>,
) -> Markup {
    let join = if path.contains('?') { '&' } else { '?' };
    html! {
        nav.chips aria-label=(label) {
            ul {
                @for (value, word) in choices {
                    @let query = if value.is_empty() { String::new() } else { format!("{join}{parameter}={value}") };
                    li { a href={ (path) (query) } aria-current=[(chosen == value).then_some("true")] { (word) } }
                }
            }
        }
    }
}

/// Names and values. A value without text is left out.
pub fn facts(facts: Vec<(&str, Markup)>) -> Markup {
    html! {
        dl {
            @for (name, value) in facts {
                @if !value.0.is_empty() { dt { (name) } dd { (value) } }
            }
        }
    }
}

/// In place of a list without rows: a picture, why it is empty, and what to do next.
pub fn empty(icon: Icon, text: &str, action: Option<(&str, &str)>) -> Markup {
    html! {
        div.card.empty {
            (icon)
            p { (text) }
            @if let Some((href, label)) = action { p { a.btn.quiet href=(href) { (label) } } }
        }
    }
}

/// Hidden until the script runs, because the button does nothing without it.
pub fn copy_button(language: Language, label: Word, text: &str) -> Markup {
    html! {
        button.quiet type="button" hidden data-copy=(text) data-done=(language.say(w::COPIED)) {
            (Icon::Copy) span { (language.say(label)) }
        }
    }
}

/// A QR code as the side and the path of its modules, in a picture of this width. It is black on white in the dark, too.
pub fn qr_picture((side, path): (usize, &str), width: u32, label: &str) -> Markup {
    html! {
        svg width=(width) height=(width) viewBox={ "0 0 " (side) " " (side) } role="img" aria-label=(label) {
            rect width=(side) height=(side) fill="#fff" {}
            path d=(path) fill="#000" {}
        }
    }
}

pub fn code_block(language: Language, text: &str) -> Markup {
    html! {
        pre tabindex="0" { code { (text) } }
        p { (copy_button(language, w::COPY, text)) }
    }
}

/// A choice of one value, each with its word.
pub fn choice<T: AsRef<str>>(
    label: &str,
    (id, name): (&str, &str),
    chosen: &str,
    values: impl IntoIterator<Item = (&'static str, T)>,
) -> Markup {
    html! {
        div.f {
            label for=(id) { (label) }
            select id=(id) name=(name) {
                @for (value, word) in values { option value=(value) selected[value == chosen] { (word.as_ref()) } }
            }
        }
    }
}

pub fn hidden(name: &str, value: &str) -> Markup {
    html! { input type="hidden" name=(name) value=(value); }
}

/// Stacked bars over an axis, each of which leads to what it counts and shows its value, and the same as a table.
pub struct Chart<'a> {
    pub title: &'a str,
    /// The name of the table's first column.
    pub of: &'a str,
    /// The names of the parts of a bar.
    pub parts: Vec<&'a str>,
    /// The name of the table's last column, which is no part.
    pub beside: &'a str,
    pub bars: Vec<Bar>,
    pub shown: &'a dyn Fn(i64) -> String,
}

#[derive(Debug)]
pub struct Bar {
    pub label: String,
    pub href: String,
    /// As many as the chart has parts.
    pub parts: Vec<i64>,
    pub beside: i64,
}

impl Bar {
    fn sum(&self) -> i64 {
        self.parts.iter().copied().fold(0, i64::saturating_add)
    }

    /// The top and the height of each part, where the axis has 100. A part above zero can be seen.
    fn places(&self, end: i64) -> impl Iterator<Item = (i64, i64)> {
        self.parts.iter().scan(100_i64, move |top, part| {
            let scaled = i128::from(*part).saturating_mul(100).checked_div(i128::from(end));
            let scaled = scaled.and_then(|height| i64::try_from(height).ok()).unwrap_or_default();
            let height = scaled.max(i64::from(*part > 0));
            *top = top.saturating_sub(height);
            Some((*top, height))
        })
    }
}

/// The end of an axis: the first of 1, 2, 5, 10, 20 … that is not below the value, in hundreds of minor units.
fn axis_end(value: i64) -> i64 {
    let (mut end, mut factors) = (100_i64, [2, 5, 10].into_iter().cycle());
    let mut decade = 100_i64;
    while end < value && decade < i64::MAX / 100 {
        let factor = factors.next().unwrap_or(10);
        end = decade.saturating_mul(factor);
        if factor == 10 {
            decade = end;
        }
    }
    end
}

impl Chart<'_> {
    pub fn render(&self, language: Language) -> Markup {
        let end = axis_end(self.bars.iter().map(Bar::sum).max().unwrap_or_default());
        let total = self.bars.iter().map(Bar::sum).fold(0, i64::saturating_add);
        let totals = self.parts.iter().enumerate().map(|(index, name)| {
            let of_part = self.bars.iter().filter_map(|bar| bar.parts.get(index));
            (index, name, of_part.copied().fold(0, i64::saturating_add))
        });
        let shown = |minor: i64| (self.shown)(minor);
        html! {
            h2 { (self.title) }
            p.big { (shown(total)) }
            ul.legend {
                @for (index, name, sum) in totals {
                    li { svg aria-hidden="true" { rect.{ "p" (index) } width="100%" height="100%" {} } (name) ": " (shown(sum)) }
                }
            }
            div.plot {
                div.axis.sm.soft aria-hidden="true" { span { (shown(end)) } span { (shown(end / 2)) } span { (shown(0)) } }
                ol.bars {
                    @for bar in &self.bars {
                        li { @if bar.sum() > 0 { a href=(bar.href) {
                            svg viewBox="0 0 10 100" preserveAspectRatio="none" aria-hidden="true" {
                                @for (index, (top, height)) in bar.places(end).enumerate().filter(|(_, (_, height))| *height > 0) {
                                    rect.{ "p" (index) } y=(top) width="10" height=(height) {}
                                }
                            }
                            span.sm { (bar.label) ": " (shown(bar.sum())) }
                        } } }
                    }
                }
            }
            @if let [first, .., last] = self.bars.as_slice() {
                div.head.sm.soft { span { (first.label) } span { (last.label) } }
            }
            details {
                summary { (language.say(w::AS_TABLE)) }
                div.scroll tabindex="0" {
                    table {
                        thead { tr {
                            th scope="col" { (self.of) }
                            @for name in &self.parts { th.n scope="col" { (name) } }
                            th.n scope="col" { (self.title) }
                            th.n scope="col" { (self.beside) }
                        } }
                        tbody { @for bar in self.bars.iter().rev() { tr {
                            th scope="row" { (bar.label) }
                            @for part in &bar.parts { td.n { (shown(*part)) } }
                            td.n { (shown(bar.sum())) }
                            td.n { (shown(bar.beside)) }
                        } } }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_escaped_and_bars_are_scaled() {
        let rows = vec![vec![html! { ("<b>") }, html! { ("1") }]];
        let rendered = table("<i>", &[(Cell::Main, "a\"b"), (Cell::Amount, "n")], rows).into_string();
        assert!(rendered.contains("&lt;b&gt;") && rendered.contains("&lt;i&gt;"), "{rendered}");
        assert!(rendered.contains("data-label=\"a&quot;b\""), "{rendered}");
    }

    #[test]
    fn a_bar_has_its_parts_its_value_and_a_row_of_the_table() {
        let bar = |label: &str, parts: [i64; 2]| Bar {
            label: label.to_owned(),
            href: format!("/day/{label}"),
            parts: parts.into(),
            beside: 7,
        };
        let chart = Chart {
            title: "Sales",
            of: "Day",
            parts: vec!["Pix", "Card"],
            beside: "Received",
            bars: vec![bar("1", [100, 100]), bar("2", [0, 0]), bar("3", [1, 0])],
            shown: &|minor| format!("<{minor}>"),
        };
        let shown = chart.render(Language::English).into_string();
        for part in [
            "&lt;201&gt;",
            "Pix: &lt;101&gt;",
            "<rect class=\"p0\" y=\"50\" width=\"10\" height=\"50\">",
            "<rect class=\"p1\" y=\"0\" width=\"10\" height=\"50\">",
            "<rect class=\"p0\" y=\"99\" width=\"10\" height=\"1\">",
            "<a href=\"/day/1\">",
            "1: &lt;200&gt;",
            "<td class=\"n\">&lt;7&gt;</td>",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert!(!shown.contains("style=") && !shown.contains("/day/2"), "{shown}");
        for (value, end) in [(0, 100), (100, 100), (101, 200), (90_000, 100_000), (12_345_678, 20_000_000)] {
            assert_eq!(axis_end(value), end);
        }
        assert!(axis_end(i64::MAX) > 0);
    }
}
