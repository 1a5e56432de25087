//! Load combining: merges the small loads that compilers emit when they may not assume alignment.
//!
//! `b[0] | b[1] << 8 | b[2] << 16 | b[3] << 24` becomes one load, since accesses may be at any address. LLVM
//! finds such sums too, but not if two of them share a byte.

use antares_ir::{BinaryOp, Module, Op, Value, Width};

const BYTES_MAX: i64 = Width::Double.bytes();

/// `bytes` bytes from `base + offset` on, zero extended and shifted left by `above` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PartialLoad {
    base: Value,
    offset: i64,
    bytes: i64,
    above: i64,
    /// Index of the first of the combined loads.
    first: usize,
}

impl PartialLoad {
    fn moved_up(self, bits: i64) -> Option<Self> {
        let above = self.above + bits / 8;
        let fits = (0..64).contains(&bits) && bits % 8 == 0 && above + self.bytes <= BYTES_MAX;
        fits.then_some(Self { above, ..self })
    }

    /// The combination, if `high` continues where `self` ends, both in memory and in the value.
    fn with(self, high: Self) -> Option<Self> {
        let follows = self.base == high.base
            && self.offset.checked_add(self.bytes) == Some(high.offset)
            && self.above + self.bytes == high.above;
        let (bytes, first) = (self.bytes + high.bytes, self.first.min(high.first));
        follows.then_some(Self { bytes, first, ..self })
    }

    /// The equivalent load.
    fn load(self) -> Option<Op> {
        let width = match self.bytes {
            2 => Width::Half,
            4 => Width::Word,
            8 => Width::Double,
            _ => return None,
        };
        let Self { base, offset, .. } = self;
        (self.above == 0).then_some(Op::Load { width, is_signed: false, base, offset })
    }
}

/// Combines loads in all blocks.
pub(crate) fn combine(module: &mut Module) {
    let blocks = module.functions.iter_mut().flat_map(|function| &mut function.blocks);
    blocks.for_each(|block| fold(&mut block.ops));
}

/// Combines loads of adjacent bytes. The checks of the bytes cover the combined load. A store between the
/// first load and the last operation prevents the combination.
fn fold(ops: &mut [Op]) {
    let mut parts: Vec<Option<PartialLoad>> = vec![None; ops.len()];
    let mut after_store = 0;
    for index in 0..ops.len() {
        let number = |value: Value| ops[value.0 as usize].number();
        let part = |value: Value| parts[value.0 as usize];
        let found = match ops[index] {
            Op::Store { .. } => {
                after_store = index + 1;
                None
            }
            Op::Load { width, is_signed: false, base, offset } => {
                Some(PartialLoad { base, offset, bytes: width.bytes(), above: 0, first: index })
            }
            Op::Binary(BinaryOp::Shl, a, b) => {
                number(b).and_then(|bits| part(a).and_then(|part| part.moved_up(bits)))
            }
            // Additions of 0 copy a register.
            Op::Binary(BinaryOp::Add, a, b) if number(a) == Some(0) => part(b),
            Op::Binary(BinaryOp::Add, a, b) if number(b) == Some(0) => part(a),
            Op::Binary(BinaryOp::Or, a, b) => part(a).zip(part(b)).and_then(|(a, b)| a.with(b).or(b.with(a))),
            _ => None,
        };
        parts[index] = found.filter(|part| part.first >= after_store);
        if let (Op::Binary(BinaryOp::Or, ..), Some(load)) =
            (ops[index], parts[index].and_then(PartialLoad::load))
        {
            ops[index] = load;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: Value = Value(0);

    fn byte(offset: i64) -> Op {
        load(Width::Byte, offset)
    }

    fn load(width: Width, offset: i64) -> Op {
        Op::Load { width, is_signed: false, base: BASE, offset }
    }

    fn or(a: u32, b: u32) -> Op {
        Op::Binary(BinaryOp::Or, Value(a), Value(b))
    }

    fn shl(a: u32, b: u32) -> Op {
        Op::Binary(BinaryOp::Shl, Value(a), Value(b))
    }

    /// Folds a register, the constants 8, 16 and 0 as values 1, 2 and 3, then `ops`. Returns `ops`.
    fn folded(ops: &[Op]) -> Vec<Op> {
        let mut all = vec![Op::Read(antares_program::Reg::SP), Op::Const(8), Op::Const(16), Op::Const(0)];
        all.extend(ops);
        fold(&mut all);
        all.split_off(4)
    }

    #[test]
    fn bytes_side_by_side_are_a_load() {
        let ops = [byte(5), byte(6), shl(5, 1), or(4, 6)];
        assert_eq!(folded(&ops)[3], load(Width::Half, 5));
        let swapped = [byte(5), byte(6), shl(5, 1), or(6, 4)];
        assert_eq!(folded(&swapped)[3], load(Width::Half, 5));
    }

    #[test]
    fn halves_and_copies_are_put_together() {
        let copy = Op::Binary(BinaryOp::Add, Value(3), Value(6));
        let ops = [load(Width::Half, 8), load(Width::Half, 10), shl(5, 2), copy, or(4, 7)];
        assert_eq!(folded(&ops)[4], load(Width::Word, 8));
        let three = [
            byte(1),
            load(Width::Half, 2),
            shl(5, 1),
            or(4, 6),
            byte(4),
            Op::Const(24),
            shl(8, 9),
            or(7, 10),
        ];
        let folded = folded(&three);
        assert_eq!((folded[3], folded[7]), (three[3], load(Width::Word, 1)));
    }

    #[test]
    fn what_is_not_a_word_of_memory_stays() {
        let store = Op::Store { width: Width::Byte, base: BASE, offset: 0, value: Value(4) };
        let other = Op::Load { width: Width::Byte, is_signed: false, base: Value(2), offset: 6 };
        let signed = Op::Load { width: Width::Byte, is_signed: true, base: BASE, offset: 6 };
        for ops in [
            // The other order, a gap, a gap in the value, another base, a sign.
            vec![byte(6), byte(5), shl(5, 1), or(4, 6)],
            vec![byte(5), byte(7), shl(5, 1), or(4, 6)],
            vec![byte(5), byte(6), shl(5, 2), or(4, 6)],
            vec![byte(5), other, shl(5, 1), or(4, 6)],
            vec![byte(5), signed, shl(5, 1), or(4, 6)],
            // Not at the bottom, cut off at the top, a store in between.
            vec![byte(5), byte(6), shl(4, 1), shl(5, 2), or(6, 7)],
            vec![load(Width::Word, 0), load(Width::Double, 4), Op::Const(32), shl(5, 6), or(4, 7)],
            vec![byte(5), store, byte(6), shl(6, 1), or(4, 7)],
            vec![byte(5), byte(6), shl(5, 1), store, or(4, 6)],
        ] {
            assert_eq!(folded(&ops), ops);
        }
        let before = [store, byte(5), byte(6), shl(6, 1), or(5, 7)];
        assert_eq!(folded(&before)[4], load(Width::Half, 5));
    }
}
