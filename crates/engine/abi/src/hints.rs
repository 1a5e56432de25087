//! Observed jump and call targets of a script that recovery does not find: entries for its next compile.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{GUEST_MEMORY_BYTES, Sha256Digest};

/// Maximum addresses in the hints of one script.
pub const HINTS_MAX: usize = 4096;

/// Marks the address of a call target.
const CALLED: u32 = 1;

/// A hint that a computed jump went past its table, without naming the jump. No code is called at address 0.
const TABLES_LIE: (u64, bool) = (0, true);

/// Targets of indirect jumps and calls of a script, observed at run time: ascending, even, unique, inside
/// guest memory.
///
/// Guests control them, so they may be wrong: code from wrong hints is slower but gives the same results. A
/// call target begins a function; a jump target may be inside one.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "Vec<u32>", into = "Vec<u32>")]
pub struct Hints(Vec<u32>);

impl Hints {
    /// Creates hints from targets: address, and whether it was called. Retains the first [`HINTS_MAX`];
    /// ignores invalid code addresses.
    pub fn new(targets: impl IntoIterator<Item = (u64, bool)>) -> Self {
        let number = |(address, is_called): (u64, bool)| {
            let is_address = address < GUEST_MEMORY_BYTES && address.is_multiple_of(2);
            let number = u32::try_from(address).ok().filter(|_| is_address)?;
            Some(number | if is_called { CALLED } else { 0 })
        };
        let mut numbers: Vec<u32> = targets.into_iter().filter_map(number).collect();
        // Of two hints on one address, a call carries more information.
        numbers.sort_unstable_by_key(|number| (number & !CALLED, number & CALLED == 0));
        numbers.dedup_by_key(|number| *number & !CALLED);
        numbers.truncate(HINTS_MAX);
        Self(numbers)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// These hints, and that a computed jump went past its table.
    #[must_use]
    pub fn with_lying_tables(&self) -> Self {
        Self::new(std::iter::once(TABLES_LIE).chain(self.targets()))
    }

    /// Whether a computed jump may go past its table.
    #[must_use]
    pub fn distrust_tables(&self) -> bool {
        self.0.first() == Some(&CALLED)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Addresses, and whether each was called.
    pub fn targets(&self) -> impl Iterator<Item = (u64, bool)> {
        self.0.iter().map(|number| (u64::from(number & !CALLED), number & CALLED != 0))
    }

    /// Combines these hints with the observations of a run of code compiled from them. Existing hints remain.
    /// The target for which native code bailed out becomes an entry.
    #[must_use]
    pub fn learn(&self, seen: &Seen) -> Self {
        let is_missed = |address: u64| seen.left == Some(address);
        let seen = &seen.hints;
        let known = self.targets().map(|(address, is_called)| (address, is_called || is_missed(address)));
        let room = HINTS_MAX - self.len();
        let has =
            |address| self.0.binary_search_by_key(&address, |number| u64::from(number & !CALLED)).is_ok();
        let again = seen.targets().filter(|(address, is_called)| *is_called && has(*address));
        let missed = seen.targets().filter(|(address, _)| is_missed(*address) && !has(*address));
        let missed = missed.map(|(address, _)| (address, true));
        let new = seen.targets().filter(|(address, _)| !is_missed(*address) && !has(*address));
        Self::new(known.chain(again).chain(missed.chain(new).take(room)))
    }

    /// The hints as bytes, four for each.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    /// Reads the result of [`Hints::to_bytes`]; ignores invalid entries of other bytes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        bytes.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect::<Vec<_>>().into()
    }

    /// The digest of the hints; `None` without hints.
    #[must_use]
    pub fn digest(&self) -> Option<Sha256Digest> {
        (!self.is_empty()).then(|| Sha256Digest(Sha256::digest(self.to_bytes()).into()))
    }
}

/// The observations of a run that bailed out at an unknown target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// The target, if known and if native code would have called or tail-called it.
    pub left: Option<u64>,
    /// All targets that the run met and native code did not know.
    pub hints: Hints,
}

impl Seen {
    /// Adds the observations of another run of the same code.
    pub fn join(&mut self, other: Self) {
        self.left = self.left.or(other.left);
        self.hints = self.hints.learn(&Self { left: None, hints: other.hints });
    }
}

impl From<Vec<u32>> for Hints {
    fn from(numbers: Vec<u32>) -> Self {
        Self::new(numbers.into_iter().map(|number| (u64::from(number & !CALLED), number & CALLED != 0)))
    }
}

impl From<Hints> for Vec<u32> {
    fn from(hints: Hints) -> Self {
        hints.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_ordered_bounded_and_addresses() {
        let hints = Hints::new([(8, false), (4, true), (8, true), (3, true), (GUEST_MEMORY_BYTES, false)]);
        assert_eq!(hints.targets().collect::<Vec<_>>(), [(4, true), (8, true)]);
        assert_eq!(Hints::new((0..10_000).map(|n| (2 * n, false))).len(), HINTS_MAX);
        assert_eq!(Hints::from_bytes(&hints.to_bytes()), hints);
        assert_eq!(Hints::from(vec![9, 9, 5, u32::MAX, 8]), hints);
        assert!(Hints::default().digest().is_none() && hints.digest().is_some());
    }

    #[test]
    fn what_was_left_for_is_an_entry() {
        let known = Hints::new([(4, false), (8, false)]);
        let hints = Hints::new([(4, false), (8, false), (12, true)]);
        let learnt = known.learn(&Seen { left: Some(8), hints: hints.clone() });
        assert_eq!(learnt.targets().collect::<Vec<_>>(), [(4, false), (8, true), (12, true)]);
        assert_eq!(learnt.learn(&Seen { left: None, hints }), learnt);
    }

    #[test]
    fn what_is_full_takes_no_more_and_keeps_what_it_has() {
        let full = Hints::new((0..HINTS_MAX as u64).map(|n| (4 * n + 400, false)));
        let hints = Hints::new([(2, false), (6, true), (400, true)]);
        let learnt = full.learn(&Seen { left: Some(2), hints });
        assert_eq!(learnt.len(), HINTS_MAX);
        assert_eq!(learnt.targets().next(), Some((400, true)));
    }
}
