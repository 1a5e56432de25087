//! Tables of code: a computed jump adds a number of steps to a code address and reaches one of several
//! pieces. The pieces are jumps, equal-sized code that ends in a jump, or an unrolled loop with entries in
//! the middle. Like jump tables, these are hints.

use std::ops::Range;

use crate::{Decoder, Image, Instruction, Op, Reg, line::Sum};

const PIECES_MAX: usize = 256;

const BYTES_MAX: u64 = 4096;

/// Consecutive pieces of code.
#[derive(Debug, Default)]
pub(crate) struct CodeTable {
    /// Where pieces begin.
    pub(crate) pieces: Vec<u64>,
    /// Where instructions begin, fused or not.
    pub(crate) instructions: Vec<u64>,
}

impl CodeTable {
    /// The possible targets of a jump to `sum`. Upwards from the base, all pieces but the last must end the
    /// way the first does: in a jump or not. For a sum below its base, all pieces from `floor` on are
    /// targets.
    pub(crate) fn of(image: &Image, decoder: &mut Decoder, sum: Sum, floor: u64) -> Self {
        let step = if sum.factor.is_multiple_of(2) { sum.factor } else { 2 };
        let base = sum.base & !1;
        if sum.is_below {
            let starts = starts(image, decoder, floor.max(base.saturating_sub(BYTES_MAX))..base);
            let is_piece = |pc: &u64| (base - pc).is_multiple_of(step);
            let mut pieces: Vec<u64> = starts.iter().copied().filter(is_piece).collect();
            pieces.push(base);
            let more = pieces.len().saturating_sub(PIECES_MAX);
            return Self { pieces: pieces.split_off(more), instructions: starts };
        }
        let mut table = Self::default();
        let (mut ends, mut all_end) = (false, None);
        for pc in starts(image, decoder, base..base.saturating_add(BYTES_MAX)) {
            if (pc - base).is_multiple_of(step) {
                let is_first = table.pieces.is_empty();
                if table.pieces.len() == PIECES_MAX || !is_first && *all_end.get_or_insert(ends) != ends {
                    break;
                }
                table.pieces.push(pc);
                ends = false;
            }
            table.instructions.push(pc);
            ends |= decoder.decode(pc).is_some_and(|instruction| is_end(&instruction));
        }
        table
    }
}

/// Whether execution never continues after `instruction`.
fn is_end(instruction: &Instruction) -> bool {
    matches!(instruction.op, Op::Jal | Op::Jalr) && instruction.rd == Reg::ZERO
}

/// Where instructions begin in `range`, starting at its first address and stopping at the first invalid one.
/// Includes instructions inside fusions, since a jump may go there.
pub(crate) fn starts(image: &Image, decoder: &mut Decoder, range: Range<u64>) -> Vec<u64> {
    let mut starts = Vec::new();
    let mut pc = range.start;
    while pc < range.end && decoder.decode(pc).is_some() {
        starts.push(pc);
        let is_short = image.bytes::<1>(pc).is_none_or(|[byte]| byte & 3 != 3);
        pc += if is_short { 2 } else { 4 };
    }
    starts
}
