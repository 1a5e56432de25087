//! Values that are chosen by name.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// A name, its value and what is said of it.
pub(crate) type Choice<T> = (&'static str, T, &'static str);

/// Parses one of the names in `known`.
pub(crate) fn one_of<T: Copy + Send + Sync + 'static, const N: usize>(
    known: [Choice<T>; N],
) -> impl TypedValueParser<Value = T> {
    let names = known.map(|(name, _, help)| PossibleValue::new(name).help(help));
    PossibleValuesParser::new(names).try_map(move |name| {
        let found = known.into_iter().find(|(known, ..)| *known == name);
        found.map(|(_, value, _)| value).ok_or("no such name")
    })
}
