//! Parses arguments that are values of the domain's enums, in lower case with hyphens.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use domain::vocabulary::Vocabulary;

pub(crate) fn enum_parser<T: Vocabulary + Send + Sync + 'static>() -> impl TypedValueParser<Value = T> {
    parser(|_| None)
}

pub(crate) fn enum_parser_with_help<T: Vocabulary + Send + Sync + 'static>(
    description: impl Fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    parser(move |variant| Some(description(variant)))
}

fn parser<T: Vocabulary + Send + Sync + 'static>(
    description: impl Fn(T) -> Option<&'static str>,
) -> impl TypedValueParser<Value = T> {
    let value = |variant: T| {
        let value = PossibleValue::new(argument(variant));
        description(variant).map_or(value.clone(), |description| value.help(description))
    };
    let values: Vec<PossibleValue> = T::all().map(value).collect();
    PossibleValuesParser::new(values)
        .try_map(|text| T::all().find(|variant| argument(*variant) == text).ok_or("unknown value"))
}

/// Returns the spelling of a value as an argument: `CLOSED_WITHOUT_REFUND` becomes `closed-without-refund`.
fn argument(variant: impl Into<&'static str>) -> String {
    variant.into().to_ascii_lowercase().replace('_', "-")
}
