//! ckb-vm's cycles from an address to the next control transfer, by its own fusing decoder and cost table.

use antares_program::{Decoder, Op};

/// Code up to and including the next control transfer.
pub(crate) struct Straight {
    pub(crate) end: u64,
    /// `None` if an invalid instruction precedes the control transfer.
    pub(crate) cycles: Option<u64>,
}

impl Straight {
    /// The code at `pc`.
    pub(crate) fn at(decoder: &mut Decoder<'_>, pc: u64) -> Self {
        let (mut end, mut cycles) = (pc, 0);
        while let Some(instruction) = decoder.decode(end) {
            end = end.wrapping_add(u64::from(instruction.length));
            cycles += u64::from(instruction.cycles);
            if ends_straight_code(instruction.op) {
                return Self { end, cycles: Some(cycles) };
            }
        }
        Self { end, cycles: None }
    }
}

/// Whether the successor of `op` may be at another address, or never fuses with it.
pub(crate) fn ends_straight_code(op: Op) -> bool {
    use Op::{Beq, Bge, Bgeu, Blt, Bltu, Bne, Ebreak, Ecall, FarJumpAbs, FarJumpRel, Jal, Jalr};
    matches!(op, Beq | Bne | Blt | Bge | Bltu | Bgeu | Jal | Jalr | FarJumpRel | FarJumpAbs | Ecall | Ebreak)
}
