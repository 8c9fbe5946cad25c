//! The tree of a page's elements.

use std::collections::BTreeMap;
use std::sync::Arc;

use html5gum::emitters::default::DefaultEmitter;
use html5gum::{HtmlString, Token, Tokenizer};

const VOID: [&str; 7] = ["br", "hr", "img", "input", "link", "meta", "wbr"];
/// Elements whose text belongs to the words around them.
const INLINE: [&str; 8] = ["a", "b", "code", "em", "i", "span", "strong", "time"];

#[derive(Default)]
pub(crate) struct Element {
    pub(crate) tag: String,
    attributes: BTreeMap<String, String>,
    children: Vec<Child>,
}

enum Child {
    Element(Arc<Element>),
    Text(String),
}

fn utf8(bytes: &HtmlString) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Element {
    pub(crate) fn parse(source: &str) -> Self {
        let mut emitter = DefaultEmitter::default();
        emitter.naively_switch_states(true);
        let mut open = vec![Self::default()];
        for Ok(token) in Tokenizer::new_with_emitter(source, emitter) {
            let child = match token {
                Token::StartTag(tag) => {
                    let attributes = tag.attributes.iter().map(|(name, value)| (utf8(name), utf8(value)));
                    let attributes = attributes.collect();
                    open.push(Self { tag: utf8(&tag.name), attributes, children: Vec::new() });
                    let is_closed = tag.self_closing || VOID.contains(&&*utf8(&tag.name));
                    is_closed.then(|| open.pop()).flatten().map(|element| Child::Element(Arc::new(element)))
                }
                Token::EndTag(tag) => {
                    let closed = open.pop().filter(|element| element.tag == utf8(&tag.name));
                    let closed = closed.unwrap_or_else(|| panic!("tags are not balanced: {source}"));
                    Some(Child::Element(Arc::new(closed)))
                }
                Token::String(text) => Some(Child::Text(utf8(&text))),
                Token::Comment(_) | Token::Doctype(_) | Token::Error(_) => None,
            };
            if let Some(parent) = open.last_mut() {
                parent.children.extend(child);
            }
        }
        let [root] =
            <[Self; 1]>::try_from(open).unwrap_or_else(|_| panic!("tags are not balanced: {source}"));
        root
    }

    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.get(name).map(String::as_str)
    }

    /// The children that are not hidden.
    pub(crate) fn elements(&self) -> impl Iterator<Item = &Arc<Self>> {
        self.children.iter().filter_map(|child| match child {
            Child::Element(element) => Some(element).filter(|element| !element.is_hidden()),
            Child::Text(_) => None,
        })
    }

    fn is_hidden(&self) -> bool {
        let is_hidden = self.attribute("hidden").or(self.attribute("aria-hidden").filter(|is| *is == "true"));
        is_hidden.is_some() || matches!(self.tag.as_str(), "noscript" | "script" | "style" | "template")
    }

    /// All elements in this one that are not hidden, in the order of the page.
    pub(crate) fn descendants(&self) -> Vec<&Arc<Self>> {
        self.elements().flat_map(|element| std::iter::once(element).chain(element.descendants())).collect()
    }

    /// The text as it was written, without that of elements with one of the tags.
    pub(crate) fn written(&self, without: &[&str]) -> String {
        let parts = self.children.iter().map(|child| match child {
            Child::Text(text) => text.clone(),
            Child::Element(element) if element.is_hidden() || without.contains(&&*element.tag) => {
                String::new()
            }
            Child::Element(element) if INLINE.contains(&&*element.tag) => element.written(without),
            Child::Element(element) => format!(" {} ", element.written(without)),
        });
        parts.collect()
    }

    /// The same with single spaces.
    pub(crate) fn text(&self, without: &[&str]) -> String {
        self.written(without).split_whitespace().collect::<Vec<_>>().join(" ")
    }
}
