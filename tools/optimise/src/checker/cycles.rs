//! ckb-vm's cycles from an address to the next control transfer, by its own fusing decoder and cost table.

use std::collections::HashMap;

use antares_program::{Decoder, Op};

/// Cycles by address.
pub(crate) struct Cycles<'a> {
    decoder: Decoder<'a>,
    known: HashMap<u64, Option<u64>>,
}

impl<'a> Cycles<'a> {
    pub(crate) fn new(decoder: Decoder<'a>) -> Self {
        Self { decoder, known: HashMap::new() }
    }

    /// Cycles from `pc` through the first control transfer. `None` if an invalid instruction precedes it.
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

    /// End of the straight-line code at `pc`.
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

/// Whether the successor of `op` may be at another address, or never fuses with it.
pub(crate) fn ends_straight_code(op: Op) -> bool {
    use Op::{Beq, Bge, Bgeu, Blt, Bltu, Bne, Ebreak, Ecall, FarJumpAbs, FarJumpRel, Jal, Jalr};
    matches!(op, Beq | Bne | Blt | Bge | Bltu | Bgeu | Jal | Jalr | FarJumpRel | FarJumpAbs | Ecall | Ebreak)
}
