//! Places in source files, and names as people read them.

use crate::limits::NAME_BYTES_MAX;

/// A place in a source file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Line {
    /// The file, as the compiler names it.
    pub file: String,
    /// Line, from 1; 0 where it is not known.
    pub line: u32,
    /// Column, from 1; 0 where it is not known.
    pub column: u32,
}

/// A function at an address, and where in it that is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// Name of the function.
    pub function: String,
    /// Where the address is in the source, if that is known.
    pub line: Option<Line>,
    /// Whether it was inlined into the next one.
    pub is_inlined: bool,
}

/// A name as people read it: without mangling, and not longer than allowed.
pub(crate) fn readable(name: &str) -> String {
    let mut text = match rustc_demangle::try_demangle(name) {
        // Without the hash behind it: the same function of two builds is the same.
        Ok(name) => format!("{name:#}"),
        Err(_) => name.to_owned(),
    };
    if text.len() > NAME_BYTES_MAX {
        text.truncate(text.floor_char_boundary(NAME_BYTES_MAX));
    }
    text
}
