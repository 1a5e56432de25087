//! What ckb-vm charges from a place to the next change of control, by its own decoder, which fuses, and its
//! own table.

use std::collections::HashMap;

use antares_program::{Decoder, Op};

/// Cycles by place.
pub(crate) struct Cycles<'a> {
    decoder: Decoder<'a>,
    known: HashMap<u64, Option<u64>>,
}

impl<'a> Cycles<'a> {
    pub(crate) fn new(decoder: Decoder<'a>) -> Self {
        Self { decoder, known: HashMap::new() }
    }

    /// Cycles of what is executed from `pc` on, up to the first instruction that may go elsewhere. None if
    /// something before that is no instruction.
    pub(crate) fn from(&mut self, pc: u64) -> Option<u64> {
        let mut path = Vec::new();
        let mut at = pc;
        let mut sum = loop {
            if let Some(known) = self.known.get(&at) {
                break *known;
            }
            let Some(instruction) = self.decoder.decode(at) else { break None };
            path.push((at, u64::from(instruction.cycles)));
            if ends_straight_code(instruction.op) {
                break Some(0);
            }
            at = at.wrapping_add(u64::from(instruction.length));
        };
        for (at, cycles) in path.into_iter().rev() {
            sum = sum.map(|sum| sum + cycles);
            self.known.insert(at, sum);
        }
        sum
    }

    /// Where straight code from `pc` on ends.
    pub(crate) fn end(&mut self, pc: u64) -> u64 {
        let mut at = pc;
        while let Some(instruction) = self.decoder.decode(at) {
            at = at.wrapping_add(u64::from(instruction.length));
            if ends_straight_code(instruction.op) {
                break;
            }
        }
        at
    }
}

/// Whether what is executed after `op` need not stand behind it, or is never fused with it.
pub(crate) fn ends_straight_code(op: Op) -> bool {
    use Op::{Beq, Bge, Bgeu, Blt, Bltu, Bne, Ebreak, Ecall, FarJumpAbs, FarJumpRel, Jal, Jalr};
    matches!(op, Beq | Bne | Blt | Bge | Bltu | Bgeu | Jal | Jalr | FarJumpRel | FarJumpAbs | Ecall | Ebreak)
}
