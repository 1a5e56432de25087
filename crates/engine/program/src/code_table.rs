//! Tables of code: a jump to an address that code says and a number of steps goes to one of pieces of code in
//! a row, be they jumps, pieces of equal size that each end in one, or a loop that is unrolled and entered in
//! its middle. Hints, as jump tables are.

use std::ops::Range;

use crate::{Decoder, Image, Instruction, Op, Reg, line::Sum};

/// Pieces of one table at the most.
const PIECES_MAX: usize = 256;

/// Bytes of one table at the most.
const BYTES_MAX: u64 = 4096;

/// Pieces of code in a row.
#[derive(Debug, Default)]
pub(crate) struct CodeTable {
    /// Where pieces begin.
    pub(crate) pieces: Vec<u64>,
    /// Where instructions do, fused or not.
    pub(crate) instructions: Vec<u64>,
}

impl CodeTable {
    /// What a jump to `sum` may mean. From its base on upwards pieces follow until one ends otherwise than
    /// the first does: either all end in a jump, or the last one alone. Of one that is entered below its base
    /// all pieces from `floor` on are taken.
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

/// Whether nothing goes on behind an instruction.
fn is_end(instruction: &Instruction) -> bool {
    matches!(instruction.op, Op::Jal | Op::Jalr) && instruction.rd == Reg::ZERO
}

/// Where instructions begin in `range`, if one does at its start: each that is fused with others too, since a
/// jump may go there. None behind what is no instruction.
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
