//! Source locations, and readable names.

use crate::limits::NAME_BYTES_MAX;

/// A source location.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Line {
    /// The file, as the compiler names it.
    pub file: String,
    /// Line, from 1; 0 if unknown.
    pub line: u32,
    /// Column, from 1; 0 if unknown.
    pub column: u32,
}

/// A function at an address, and the source location of the address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// Name of the function.
    pub function: String,
    /// Source location of the address, if known.
    pub line: Option<Line>,
    /// Whether it was inlined into the next one.
    pub is_inlined: bool,
}

/// A demangled name, within the length limit.
pub(crate) fn readable(name: &str) -> String {
    let mut text = match rustc_demangle::try_demangle(name) {
        // Without the hash: a function has the same name in two builds.
        Ok(name) => format!("{name:#}"),
        Err(_) => name.to_owned(),
    };
    if text.len() > NAME_BYTES_MAX {
        text.truncate(text.floor_char_boundary(NAME_BYTES_MAX));
    }
    text
}
