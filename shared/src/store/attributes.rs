//! The names of the attributes that a row's type reads.

use serde::de::{Deserialize, Deserializer, Error, Visitor, value};
use serde::forward_to_deserialize_any;

/// Returns the names of the attributes that `R` reads from a row. `None`: `R` is not a struct with named fields,
/// or one of its fields has the attribute `serde(flatten)`.
pub(super) fn names_of<'de, R: Deserialize<'de>>() -> Option<&'static [&'static str]> {
    let mut names = None;
    drop(R::deserialize(FieldNames(&mut names)));
    names
}

/// A deserializer without a value. It stores the names of the fields as soon as a struct is requested, and then
/// fails.
struct FieldNames<'a>(&'a mut Option<&'static [&'static str]>);

impl<'de> Deserializer<'de> for FieldNames<'_> {
    type Error = value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, value::Error> {
        Err(value::Error::custom("no value is read"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, value::Error> {
        *self.0 = Some(fields);
        self.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}
