//! Pages as a screen reader presents them: tests find what a page shows by role and accessible name, and send its forms
//! by the labels of fields and the names of buttons. A page whose tags are not balanced fails the test.
#![allow(clippy::panic, clippy::missing_panics_doc, reason = "a test fails by a panic")]

mod html;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use crate::html::Element;

/// What an element is for a screen reader.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Role {
    Alert,
    Button,
    Code,
    /// A text field, a box to check, a choice or the field of a file.
    Field,
    Form,
    Heading,
    Image,
    Item,
    Link,
    Navigation,
    Row,
    /// What opens a fold.
    Summary,
    Table,
}

impl Role {
    fn of(element: &Element) -> Option<Self> {
        Some(match (element.attribute("role"), element.tag.as_str()) {
            (Some("alert"), _) => Self::Alert,
            (Some("img"), _) | (None, "img") => Self::Image,
            (_, "a") if element.attribute("href").is_some() => Self::Link,
            (_, "button") => Self::Button,
            (_, "code") => Self::Code,
            (_, "form") => Self::Form,
            (_, "h1" | "h2" | "h3" | "h4") => Self::Heading,
            (_, "input") if element.attribute("type") != Some("hidden") => Self::Field,
            (_, "select" | "textarea") => Self::Field,
            (_, "li") => Self::Item,
            (_, "nav") => Self::Navigation,
            (_, "summary") => Self::Summary,
            (_, "table") => Self::Table,
            (_, "tr") => Self::Row,
            _ => return None,
        })
    }
}

/// A page, or a part of it.
#[derive(Clone)]
pub struct Page {
    whole: Arc<Element>,
    part: Arc<Element>,
    source: Arc<str>,
}

/// What a browser sends when a button is pressed. The action may be relative to the page's URL.
#[derive(Clone, Debug)]
pub struct Sent {
    pub action: String,
    pub fields: Vec<(String, String)>,
}

impl Sent {
    pub fn pairs(&self) -> Vec<(&str, &str)> {
        self.fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }
}

impl fmt::Debug for Page {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text())
    }
}

impl fmt::Display for Page {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text())
    }
}

/// The one of these parts that there must be.
fn only(found: Vec<Page>, sought: &str, page: &Page) -> Page {
    let [found] =
        <[Page; 1]>::try_from(found).unwrap_or_else(|found| panic!("{} are {sought}: {page}", found.len()));
    found
}

impl Page {
    pub fn read(source: &str) -> Self {
        let whole = Arc::new(Element::parse(source));
        Self { part: Arc::clone(&whole), whole, source: source.into() }
    }

    /// The HTML of the whole page, for what must not be anywhere in it.
    pub fn source(&self) -> &str {
        &self.source
    }

    fn part(&self, part: &Arc<Element>) -> Self {
        Self { part: Arc::clone(part), ..self.clone() }
    }

    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.part.attribute(name)
    }

    /// The text that is shown, with single spaces.
    pub fn text(&self) -> String {
        self.part.text(&[])
    }

    pub fn text_without_code(&self) -> String {
        self.part.text(&["code", "pre"])
    }

    pub fn contains(&self, text: &str) -> bool {
        self.text().contains(text)
    }

    /// How often a text is shown.
    pub fn count(&self, text: &str) -> usize {
        self.text().matches(text).count()
    }

    /// The parts that have a role, in the order of the page.
    pub fn all(&self, role: Role) -> Vec<Self> {
        let found = self.part.descendants().into_iter().filter(|element| Role::of(element) == Some(role));
        found.map(|element| self.part(element)).collect()
    }

    pub fn names(&self, role: Role) -> Vec<String> {
        self.all(role).iter().map(Self::name).collect()
    }

    pub fn named(&self, role: Role, name: &str) -> Vec<Self> {
        self.all(role).into_iter().filter(|part| part.name() == name).collect()
    }

    pub fn has(&self, role: Role, name: &str) -> bool {
        !self.named(role, name).is_empty()
    }

    /// The one part that has a role and a name.
    #[must_use]
    pub fn get(&self, role: Role, name: &str) -> Self {
        only(self.named(role, name), &format!("the {role:?} {name:?} of {:?}", self.names(role)), self)
    }

    /// The accessible name: that of the author, that of the label or the caption, or else the text.
    pub fn name(&self) -> String {
        if let Some(name) = self.attribute("aria-label").or(self.attribute("alt")) {
            return name.to_owned();
        }
        let part = &self.part;
        let is_label = |label: &&Arc<Element>| {
            let is_named = label.attribute("for").is_some_and(|id| part.attribute("id") == Some(id));
            label.tag == "label" && (is_named || label.descendants().iter().any(|one| Arc::ptr_eq(one, part)))
        };
        let named_by = match Role::of(part) {
            Some(Role::Field) => self.whole.descendants().into_iter().find(is_label),
            Some(Role::Table) => part.elements().find(|element| element.tag == "caption"),
            _ => Some(part),
        };
        named_by.map(|element| element.text(&["select", "textarea"])).unwrap_or_default()
    }

    /// The rule beside a field.
    pub fn description(&self) -> Option<String> {
        let id = self.attribute("aria-describedby")?;
        let mut parts = self.whole.descendants().into_iter();
        parts.find(|element| element.attribute("id") == Some(id)).map(|element| element.text(&[]))
    }

    pub fn is_invalid(&self) -> bool {
        self.attribute("aria-invalid") == Some("true")
    }

    pub fn is_disabled(&self) -> bool {
        self.attribute("disabled").is_some()
    }

    /// Where a link leads.
    pub fn target(&self) -> &str {
        self.attribute("href").unwrap_or_default()
    }

    /// The links that lead to a path that begins so.
    pub fn links_to(&self, start: &str) -> Vec<String> {
        let links = self.all(Role::Link).into_iter().map(|link| link.target().to_owned());
        links.filter(|target| target.starts_with(start)).collect()
    }

    /// What the browser's tab says.
    pub fn title(&self) -> String {
        let title = self.whole.descendants().into_iter().find(|element| element.tag == "title");
        title.map(|title| title.text(&[])).unwrap_or_default()
    }

    pub fn language(&self) -> &str {
        self.whole.elements().find_map(|html| html.attribute("lang")).unwrap_or_default()
    }

    /// The one row of a table that shows a text.
    #[must_use]
    pub fn row(&self, text: &str) -> Self {
        let rows = self.all(Role::Row).into_iter().filter(|row| row.contains(text));
        only(rows.collect(), &format!("the row that shows {text:?}"), self)
    }

    /// The cells of a table's column.
    pub fn column(&self, header: &str) -> Vec<Self> {
        let rows = self.all(Role::Row);
        let cells = |row: &Self| row.part.elements().map(|cell| self.part(cell)).collect::<Vec<_>>();
        let place = rows.first().and_then(|head| cells(head).iter().position(|cell| cell.text() == header));
        let place = place.unwrap_or_else(|| panic!("no column {header:?}: {self}"));
        rows.iter().skip(1).filter_map(|row| cells(row).into_iter().nth(place)).collect()
    }

    /// The values that a list of names and values has for a name.
    pub fn values(&self, name: &str) -> Vec<String> {
        let mut is_of_name = false;
        let values = self.part.descendants().into_iter().filter(|part| {
            is_of_name = if part.tag == "dt" { part.text(&[]) == name } else { is_of_name };
            part.tag == "dd" && is_of_name
        });
        values.map(|value| value.text(&[])).collect()
    }

    /// What a field has, a button sends or a sample of code says.
    pub fn value(&self) -> String {
        let part = &self.part;
        match part.tag.as_str() {
            "code" => part.written(&[]),
            "textarea" => part.written(&[]).trim_start_matches('\n').to_owned(),
            "select" => {
                let options: Vec<_> = part.elements().collect();
                let chosen = options.iter().find(|option| option.attribute("selected").is_some());
                let chosen = chosen.or(options.first()).and_then(|option| option.attribute("value"));
                chosen.unwrap_or_default().to_owned()
            }
            _ => self.attribute("value").unwrap_or_default().to_owned(),
        }
    }

    /// The one form that has a button of this name, inside it or by its id.
    #[must_use]
    pub fn form(&self, button: &str) -> Self {
        let ids = self.named(Role::Button, button);
        let ids: Vec<&str> = ids.iter().filter_map(|button| button.attribute("form")).collect();
        let is_named = |form: &Self| form.attribute("id").is_some_and(|id| ids.contains(&id));
        let forms = self.all(Role::Form).into_iter();
        let forms = forms.filter(|form| is_named(form) || form.has(Role::Button, button));
        only(forms.collect(), &format!("the form of {button:?} of {:?}", self.names(Role::Button)), self)
    }

    /// Fills in fields by their labels and presses a button. A choice is made by the word that it shows; a box is
    /// checked by "on", and unchecked by "".
    pub fn press(&self, button: &str, typed: &[(&str, &str)]) -> Sent {
        let form = if Role::of(&self.part) == Some(Role::Form) { self.clone() } else { self.form(button) };
        let inside = form.named(Role::Button, button);
        let pressed = if inside.is_empty() { self } else { &form }.get(Role::Button, button);
        assert!(!pressed.is_disabled(), "{button:?} can't be pressed: {self}");
        let filled: Vec<_> =
            typed.iter().map(|(label, text)| (form.get(Role::Field, label).part, *text)).collect();
        let mut fields = Vec::new();
        for element in form.part.descendants() {
            let Some(name) = element.attribute("name") else { continue };
            let field = self.part(element);
            let text = filled.iter().find(|(filled, _)| Arc::ptr_eq(filled, element)).map(|(_, text)| *text);
            let is_box = matches!(element.attribute("type"), Some("checkbox" | "radio"));
            let is_sent = match element.tag.as_str() {
                "button" => Arc::ptr_eq(element, &pressed.part),
                "input" if is_box => {
                    text.map_or(field.attribute("checked").is_some(), |text| !text.is_empty())
                }
                tag => matches!(tag, "input" | "select" | "textarea"),
            };
            let value = match text.filter(|_| !is_box) {
                Some(word) if element.tag == "select" => {
                    let option = element.elements().find(|option| option.text(&[]) == word);
                    let option = option.unwrap_or_else(|| panic!("no choice {word:?}: {form}"));
                    option.attribute("value").unwrap_or_default().to_owned()
                }
                Some(text) => text.to_owned(),
                None => field.value(),
            };
            fields.extend(is_sent.then(|| (name.to_owned(), value)));
        }
        let action = pressed.attribute("formaction").or(form.attribute("action"));
        Sent { action: action.unwrap_or_default().to_owned(), fields }
    }
}
