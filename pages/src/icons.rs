//! The icons of Lucide that the pages use. `icons.svg` has the shape of each one once, in a page that uses any.

use maud::{Markup, PreEscaped, Render, html};
use strum::{AsRefStr, VariantArray};

/// No screen reader reads an icon: the text beside it says the same.
#[derive(AsRefStr, Clone, Copy, Debug, Eq, PartialEq, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Icon {
    House,
    CreditCard,
    Link,
    Wallet,
    FileText,
    ShieldAlert,
    Webhook,
    Code,
    Users,
    SlidersHorizontal,
    CircleQuestionMark,
    Search,
    Copy,
    #[strum(serialize = "undo-2")]
    Undo,
    Ellipsis,
    TriangleAlert,
    CircleAlert,
    CircleCheck,
    Plus,
    Inbox,
}

impl Render for Icon {
    fn render(&self) -> Markup {
        html! { svg.i aria-hidden="true" { use href={ "#i-" (self.as_ref()) } {} } }
    }
}

/// The shapes of all icons, if the page has one. A part of the page that is refreshed may have others.
pub(crate) fn shapes(page: &Markup) -> Markup {
    html! { @if page.0.contains("\"#i-") { (PreEscaped(include_str!("icons.svg"))) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_icon_has_a_shape_and_every_shape_an_icon() {
        let page = html! { @for icon in Icon::VARIANTS { (icon) } };
        let shapes = shapes(&page).into_string();
        for icon in Icon::VARIANTS {
            assert!(shapes.contains(&format!("<symbol id=\"i-{}\" viewBox", icon.as_ref())), "{icon:?}");
        }
        assert_eq!(shapes.matches("<symbol").count(), Icon::VARIANTS.len());
        assert_eq!(super::shapes(&html! { p { "#i-" } }).into_string(), "");
    }
}
