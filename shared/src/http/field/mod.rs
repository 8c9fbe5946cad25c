//! Describes the fields of requests as data: name, values, bounds, vocabulary and text. The validation
//! (`super::intake`) and the description of the API read the same [`Field`], so they can't differ.
//!
//! Each route has a list of its fields beside its parser ([`Definitions`]). The parser reads only fields of
//! that list: a field of a body that is not in the list counts as absent, and a query parameter that is not in
//! the list is refused.

mod kinds;

pub use kinds::{
    AtMost, Boolean, CHARGE_ID, CPF_OR_CNPJ, CURRENCY_CODE, Count, Dictionary, DistinctWords, EMAIL,
    EMAIL_CHARS, Failures, HeaderText, Integer, JsonKind, Kind, MinorAmount, Nested, Only, Parsed, QueryKind,
    Refined, Text, TimeBound, Url, Word, Words, bank_id, instant,
};

use serde_json::Value;

/// A field of a body, a query parameter or a header. `K` is its kind, which reads the value.
#[derive(Clone, Copy, Debug)]
pub struct Field<K> {
    /// The name on the wire.
    pub name: &'static str,
    pub kind: K,
    /// What a request without the field means.
    pub presence: Presence,
    /// One or two sentences for the API reference: the meaning, the unit, and rules that depend on other
    /// fields.
    pub text: &'static str,
    /// A valid value, as JSON.
    pub example: &'static str,
}

/// What a request without a field means.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Presence {
    /// The request is refused.
    Required,
    /// The field has no value.
    Optional,
    /// The request is about the whole, such as a refund of all that is left. So `null` is refused.
    Whole,
    /// The field has this value, given as JSON.
    DefaultsTo(&'static str),
}

/// A field of any kind, in the list of a route.
pub trait Defined: Sync {
    /// Returns the name on the wire.
    fn name(&self) -> &'static str;

    /// Returns the field as plain data, for the description of the API.
    fn definition(&self) -> Definition;
}

/// The fields of a body, of a query string or of the headers of a route, in the order of the reference.
pub type Definitions = &'static [&'static dyn Defined];

/// The fields of a JSON body, and what becomes of others.
#[derive(Clone, Copy)]
pub struct BodyFields {
    /// The fields that the route knows.
    pub known: Definitions,
    /// Whether every other field is refused. Otherwise only one is that differs from a known one only in case, `_` or
    /// `-`, because its sender meant the known one.
    pub is_strict: bool,
}

impl BodyFields {
    /// The body may have other fields.
    pub const fn open(known: Definitions) -> Self {
        Self { known, is_strict: false }
    }

    /// The body may have no other field, because without the one that was meant the request would do more, such as
    /// refund the whole.
    pub const fn strict(known: Definitions) -> Self {
        Self { known, is_strict: true }
    }
}

/// A field as plain data.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// The name on the wire.
    pub name: &'static str,
    /// Whether a request without the field is refused.
    pub required: bool,
    /// Whether `null` is treated as absent.
    pub nullable: bool,
    /// One or two sentences for the API reference.
    pub text: &'static str,
    pub values: Values,
    pub default: Option<Value>,
    pub example: Value,
}

/// The values that a field accepts. They may include some that the parser refuses, but all accepted ones.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    Text {
        /// The smallest length in characters.
        min: usize,
        /// The largest length in characters.
        max: usize,
        /// A regular expression (ECMA-262) that every accepted value matches.
        pattern: Option<&'static str>,
        /// A format of JSON Schema that every accepted value has.
        format: Option<&'static str>,
    },
    Integer {
        min: i64,
        /// The largest value. `None`: larger values are capped, as the field's text says.
        max: Option<i64>,
    },
    Boolean,
    /// One of these strings.
    Words(Vec<&'static str>),
    List {
        of: Box<Values>,
        /// The smallest number of elements.
        min: usize,
        /// The largest number of elements. `usize::MAX`: only the size of the body bounds it.
        max: usize,
    },
    /// An object with these fields.
    Object(Vec<Definition>),
    /// An object with any fields.
    Dictionary {
        max_keys: usize,
    },
}

impl<K: Kind + Sync> Defined for Field<K> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn definition(&self) -> Definition {
        let json = |text: &str| serde_json::from_str(text).unwrap_or_default();
        Definition {
            name: self.name,
            required: self.presence == Presence::Required,
            nullable: !matches!(self.presence, Presence::Required | Presence::Whole),
            text: self.text,
            values: self.kind.values(),
            default: match self.presence {
                Presence::DefaultsTo(text) => Some(json(text)),
                Presence::Required | Presence::Optional | Presence::Whole => None,
            },
            example: json(self.example),
        }
    }
}

pub fn definitions(list: Definitions) -> Vec<Definition> {
    list.iter().map(|field| field.definition()).collect()
}

/// Defines fields as a table. Each entry has the constant's name and kind, then the name on the wire, the kind's
/// bounds, the presence, an example, and the text for the API reference. The example and the default are JSON.
#[macro_export]
macro_rules! fields {
    ($($(#[$doc:meta])* $vis:vis $FIELD:ident: $Kind:ty = $name:expr, $kind:expr, $presence:ident $(($default:tt))?,
        $example:tt, $text:expr;)+) => {$(
        $(#[$doc])*
        $vis const $FIELD: $crate::http::field::Field<$Kind> = $crate::http::field::Field {
            name: $name,
            kind: $kind,
            presence: $crate::http::field::Presence::$presence $((stringify!($default)))?,
            text: $text,
            example: stringify!($example),
        };
    )+};
}

crate::fields! {
    /// The header `Idempotency-Key` of the routes of charges and reports. In the bodies of payments and refunds, `idempotencyKey` has
    /// the same purpose.
    pub IDEMPOTENCY_KEY: HeaderText = "Idempotency-Key",
        HeaderText { min: 8, max: 128 }, Required, "order-1001-attempt-1",
        "A key that is unique to this request. A request with the same key and the same body returns what the first one created, and creates nothing.";
    /// `limit` of a list.
    pub LIMIT: Count = "limit", Count { min: 1, max: 100, hint: "" }, DefaultsTo(25), 25,
        "The largest number of objects on a page.";
    /// `created_after` of a list with inclusive bounds.
    pub CREATED_AFTER: TimeBound = "created_after", TimeBound::NOT_BEFORE, Optional, "2026-11-01",
        "Only objects created at this time or later. A date without a time means the first millisecond of that day in São Paulo.";
    /// `created_before` of a list with inclusive bounds.
    pub CREATED_BEFORE: TimeBound = "created_before", TimeBound::NOT_AFTER, Optional, "2026-11-30",
        "Only objects created at this time or earlier. A date without a time means the last millisecond of that day in São Paulo.";
}
