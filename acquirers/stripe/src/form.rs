use std::fmt::Display;

use url::form_urlencoded;

use crate::objects::Metadata;
use crate::requests::Body;

/// Parameters in Stripe's form, with nested names in brackets, such as `metadata[charge]`. The same request always has
/// the same bytes, because Stripe refuses an idempotency key with other parameters.
#[derive(Default)]
pub(crate) struct Form(Vec<(String, String)>);

impl Form {
    pub(crate) fn set(mut self, name: &str, value: impl Display) -> Self {
        self.0.push((name.to_owned(), value.to_string()));
        self
    }

    pub(crate) fn set_some(self, name: &str, value: Option<impl Display>) -> Self {
        value.into_iter().fold(self, |form, value| form.set(name, value))
    }

    pub(crate) fn list<T: Display>(self, name: &str, values: impl IntoIterator<Item = T>) -> Self {
        values.into_iter().enumerate().fold(self, |form, (i, value)| form.set(&format!("{name}[{i}]"), value))
    }

    pub(crate) fn metadata(self, name: &str, metadata: &Metadata) -> Self {
        metadata.iter().fold(self, |form, (key, value)| form.set(&format!("{name}[{key}]"), value))
    }

    pub(crate) fn body(&self) -> Body {
        ("application/x-www-form-urlencoded".to_owned(), self.encode().into())
    }

    pub(crate) fn encode(&self) -> String {
        form_urlencoded::Serializer::new(String::new()).extend_pairs(&self.0).finish()
    }
}
