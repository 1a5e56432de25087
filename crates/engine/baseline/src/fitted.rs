//! Conversion of numbers to the widths of encodings.

/// Converts `number` to the width of an encoding or table. Layouts and limits guarantee that it fits.
pub(crate) fn fitted<To: TryFrom<From>, From: Copy + std::fmt::Display>(number: From) -> To {
    To::try_from(number).unwrap_or_else(|_| panic!("{number} does not fit"))
}
