//! Numbers in the widths that encodings have for them.

/// `number` in the width that an encoding or a table has for it, where layouts and limits keep it.
pub(crate) fn fitted<To: TryFrom<From>, From: Copy + std::fmt::Display>(number: From) -> To {
    To::try_from(number).unwrap_or_else(|_| panic!("{number} does not fit"))
}
