//! Live registers within one function. All registers are live wherever control leaves it or calls.

use std::collections::BTreeMap;

use antares_program::RegSet;

use crate::checker::code::{Exit, Function, Piece};

/// Live registers before each piece, by address.
pub(crate) struct Liveness(BTreeMap<u64, RegSet>);

impl Liveness {
    pub(crate) fn of(function: &Function) -> Self {
        let mut found = Self(function.pieces.keys().map(|pc| (*pc, RegSet::EMPTY)).collect());
        let mut is_changed = true;
        while is_changed {
            is_changed = false;
            for (pc, piece) in function.pieces.iter().rev() {
                let live = found.before(piece, 0);
                is_changed |= found.0.insert(*pc, live) != Some(live);
            }
        }
        found
    }

    /// Live registers before instruction number `at` of `piece`, or after its last one.
    pub(crate) fn before(&self, piece: &Piece, at: usize) -> RegSet {
        let of = |next: u64| self.0.get(&next).copied().unwrap_or(RegSet::ALL);
        let behind = match piece.exit {
            Exit::Away { .. } => RegSet::ALL,
            _ => piece.next().fold(RegSet::EMPTY, |live, next| live.or(of(next))),
        };
        let rest = piece.row.iter().skip(at).rev();
        rest.fold(behind, |live, (_, i)| live.without(i.rd).with(i.rs1).with(i.rs2))
    }
}
