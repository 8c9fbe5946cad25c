//! Words of the domain's vocabularies as arguments: in lower case, with hyphens.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use domain::vocabulary::Vocabulary;

/// Reads a word of a vocabulary; the help lists them all.
pub(crate) fn word<T: Vocabulary + Send + Sync + 'static>() -> impl TypedValueParser<Value = T> {
    parser(|_| None)
}

/// The same, with what each word means in the help.
pub(crate) fn explained<T: Vocabulary + Send + Sync + 'static>(
    meaning: impl Fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    parser(move |variant| Some(meaning(variant)))
}

fn parser<T: Vocabulary + Send + Sync + 'static>(
    meaning: impl Fn(T) -> Option<&'static str>,
) -> impl TypedValueParser<Value = T> {
    let value = |variant: T| {
        let value = PossibleValue::new(spelled(variant));
        meaning(variant).map_or(value.clone(), |meaning| value.help(meaning))
    };
    let words: Vec<PossibleValue> = T::all().map(value).collect();
    PossibleValuesParser::new(words)
        .try_map(|text| T::all().find(|variant| spelled(*variant) == text).ok_or("no such word"))
}

fn spelled(variant: impl Into<&'static str>) -> String {
    variant.into().to_ascii_lowercase().replace('_', "-")
}
