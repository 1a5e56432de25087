//! Which registers may be read before they are written, inside of one function. Wherever control leaves it,
//! or calls, all of them.

use std::collections::{BTreeMap, HashMap};

use antares_program::{Instruction, RegSet};

use crate::checker::code::{Exit, Function, Piece};

/// Registers in use, by the instruction before which they are.
pub(crate) struct Liveness(HashMap<u64, RegSet>);

impl Liveness {
    /// What is in use before the instruction at `pc`.
    pub(crate) fn before(&self, pc: u64) -> RegSet {
        self.0.get(&pc).copied().unwrap_or(RegSet::ALL)
    }

    pub(crate) fn of(function: &Function) -> Self {
        let mut before: BTreeMap<u64, RegSet> =
            function.pieces.keys().map(|pc| (*pc, RegSet::EMPTY)).collect();
        let mut is_changed = true;
        while is_changed {
            is_changed = false;
            for (pc, piece) in function.pieces.iter().rev() {
                let live =
                    piece.row.iter().rev().fold(live_after(piece, &before), |live, (_, i)| step(live, i));
                is_changed |= before.insert(*pc, live) != Some(live);
            }
        }
        let mut all = HashMap::new();
        for piece in function.pieces.values() {
            let mut live = live_after(piece, &before);
            all.insert(piece.end, live);
            for (pc, instruction) in piece.row.iter().rev() {
                live = step(live, instruction);
                all.insert(*pc, live);
            }
        }
        // A piece that begins where another one ends may also be come to from elsewhere.
        all.extend(before);
        Self(all)
    }
}

fn live_after(piece: &Piece, before: &BTreeMap<u64, RegSet>) -> RegSet {
    if matches!(piece.exit, Exit::Away { .. }) {
        return RegSet::ALL;
    }
    let at = |next: u64| before.get(&next).copied().unwrap_or(RegSet::ALL);
    piece.next().fold(RegSet::EMPTY, |live, next| live.or(at(next)))
}

fn step(live: RegSet, instruction: &Instruction) -> RegSet {
    live.without(instruction.rd).with(instruction.rs1).with(instruction.rs2)
}
