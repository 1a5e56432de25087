//! Programs that were met without native code.

use antares_abi::Seen;
use bytes::Bytes;

use crate::limits::UNKNOWN_PROGRAMS_MAX;

/// A program that was met without native code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// Its ELF, or the file of code that was loaded at run time
    /// ([`LoadedCode`](antares_abi::LoadedCode)).
    pub elf: Bytes,
    /// Cycles that it took, at the most.
    pub cycles: u64,
    /// Where it was seen to go, if somebody looked.
    pub seen: Seen,
}

/// Adds `one` to `unknown`.
pub(crate) fn count_unknown(unknown: &mut Vec<Unknown>, one: Unknown) {
    if let Some(same) = unknown.iter_mut().find(|other| other.elf == one.elf) {
        same.cycles = same.cycles.saturating_add(one.cycles);
        same.seen.join(one.seen);
    } else if unknown.len() < UNKNOWN_PROGRAMS_MAX {
        unknown.push(one);
    }
}
