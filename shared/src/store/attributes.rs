//! The names of the attributes that a row's type reads.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::forward_to_deserialize_any;

/// Returns the names of the attributes that `R` reads from a row. `None`: `R` is not a struct with named fields,
/// or one of its fields has the attribute `serde(flatten)`.
pub(super) fn names_of<'de, R: Deserialize<'de>>() -> Option<&'static [&'static str]> {
    R::deserialize(FieldNames).err().and_then(|Found(names)| names)
}

/// A deserializer without a value. It ends as soon as a struct is requested, and returns the names of the
/// struct's fields as its error.
struct FieldNames;

#[derive(Debug)]
struct Found(Option<&'static [&'static str]>);

impl fmt::Display for Found {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("no value is read")
    }
}

impl std::error::Error for Found {}

impl Error for Found {
    fn custom<T: fmt::Display>(_message: T) -> Self {
        Self(None)
    }
}

impl<'de> Deserializer<'de> for FieldNames {
    type Error = Found;

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Found> {
        Err(Found(None))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        _visitor: V,
    ) -> Result<V::Value, Found> {
        Err(Found(Some(fields)))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only the names of the fields are read")]
    struct Named {
        #[serde(rename = "other")]
        first: String,
        #[serde(default)]
        second: Option<u64>,
    }

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only the names of the fields are read")]
    struct Flattened {
        #[serde(flatten)]
        rest: HashMap<String, String>,
    }

    #[test]
    fn names_are_those_of_the_stored_attributes() {
        assert_eq!(names_of::<Named>(), Some(["other", "second"].as_slice()));
        assert_eq!(names_of::<Flattened>(), None);
    }
}
