//! Programs that ran without native code.

use antares_abi::Seen;
use bytes::Bytes;

use crate::limits::UNKNOWN_PROGRAMS_MAX;

/// A program that ran without native code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// Its ELF, or the file of code that was loaded at run time
    /// ([`LoadedCode`](antares_abi::LoadedCode)).
    pub elf: Bytes,
    /// Maximum cycles that it took.
    pub cycles: u64,
    /// Jump targets that were observed, if its code was traced.
    pub seen: Seen,
}

/// Adds `one` to `unknown`, merged with an entry of the same ELF; drops it if there are
/// [`UNKNOWN_PROGRAMS_MAX`] others.
pub fn count_unknown(unknown: &mut Vec<Unknown>, one: Unknown) {
    if let Some(same) = unknown.iter_mut().find(|other| other.elf == one.elf) {
        same.cycles = same.cycles.saturating_add(one.cycles);
        same.seen.join(one.seen);
    } else if unknown.len() < UNKNOWN_PROGRAMS_MAX {
        unknown.push(one);
    }
}
