//! The parts of which the pages consist. None has an inline style or handler, which the content security policy
//! forbids.

use domain::account::Role;
use domain::charge::Charge;
use domain::masking::{masked_name, without_documents};
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

/// The customer's name, without documents: whole, or for a member masked.
pub fn customer(charge: &Charge, role: Role) -> Option<String> {
    let name = charge.customer.name.as_deref()?;
    if role.sees_names() {
        Some(without_documents(name)).filter(|name| !name.trim().is_empty())
    } else {
        masked_name(name)
    }
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

pub fn next_page(language: Language, label: Word, href: Option<String>) -> Markup {
    html! { @if let Some(href) = href { p { a href=(href) rel="next" { (language.say(label)) " →" } } } }
}

/// Hidden until the script runs, because the button does nothing without it.
pub fn copy_button(language: Language, label: Word, text: &str) -> Markup {
    html! {
        button.quiet type="button" hidden data-copy=(text) data-done=(language.say(w::COPIED)) {
            (Icon::Copy) span { (language.say(label)) }
        }
    }
}

pub fn code_block(language: Language, text: &str) -> Markup {
    html! {
        pre tabindex="0" { code { (text) } }
        p { (copy_button(language, w::COPY, text)) }
    }
}

pub fn hidden(name: &str, value: &str) -> Markup {
    html! { input type="hidden" name=(name) value=(value); }
}

/// A bar for each value, and the same values as a table.
#[derive(Debug)]
pub struct Chart<'a> {
    pub title: &'a str,
    /// The names of the two columns of the table.
    pub columns: (&'a str, &'a str),
    /// Label, value, and the value as text.
    pub bars: Vec<(String, i64, String)>,
}

const CHART_HEIGHT: i64 = 100;
const BAR_STEP: i64 = 20;
const BAR_WIDTH: i64 = 16;

impl Chart<'_> {
    pub fn render(&self, language: Language) -> Markup {
        let most = self.bars.iter().map(|(_, value, _)| *value).max().unwrap_or_default().max(1);
        let bars = (0_i64..).zip(&self.bars).map(|(index, (label, value, text))| {
            let scaled = i128::from(*value).saturating_mul(i128::from(CHART_HEIGHT));
            let scaled = scaled.checked_div(i128::from(most)).and_then(|height| i64::try_from(height).ok());
            // A value above zero has a bar that can be seen.
            let height = scaled.unwrap_or_default().max(i64::from(*value > 0));
            (index.saturating_mul(BAR_STEP), CHART_HEIGHT.saturating_sub(height), height, label, text)
        });
        let width = i64::try_from(self.bars.len()).unwrap_or_default().saturating_mul(BAR_STEP);
        html! {
            h2 { (self.title) }
            svg.chart viewBox={ "0 0 " (width) " " (CHART_HEIGHT) } preserveAspectRatio="none" role="img" aria-label=(self.title) {
                line x1="0" y1="99.5" x2=(width) y2="99.5" {}
                @for (x, y, height, label, text) in bars {
                    rect x=(x) y=(y) width=(BAR_WIDTH) height=(height) { title { (label) ": " (text) } }
                }
            }
            @if let [(first, ..), .., (last, ..)] = self.bars.as_slice() {
                div.head.sm.soft { span { (first) } span { (last) } }
            }
            details {
                summary { (language.say(w::AS_TABLE)) }
                table {
                    thead { tr { th scope="col" { (self.columns.0) } th.n scope="col" { (self.columns.1) } } }
                    tbody { @for (label, _, text) in &self.bars { tr { td { (label) } td.n { (text) } } } }
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
        let bars = [("1", 200), ("2", 100), ("3", 1), ("4", 0)];
        let bars = bars.map(|(label, value)| (label.to_owned(), value, value.to_string())).into();
        let chart = Chart { title: "t", columns: ("a", "b"), bars }.render(Language::English).into_string();
        for height in [100, 50, 1, 0] {
            assert!(chart.contains(&format!("height=\"{height}\"")), "{height}: {chart}");
        }
        assert!(!chart.contains("style="));
    }
}
