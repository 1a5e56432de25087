//! What instructions do, on numbers: a guess at which values of two windows are the same.
//!
//! Nothing here is trusted. What looks the same is put to the solver as a claim.

use antares_program::Op;

use crate::encode::Line;

/// Numbers that stand for one value.
pub(crate) const COUNT: usize = 64;

/// Tries in which a value has to have another one than it mostly has, to be told from others. Carries are
/// mostly 0.
const OTHER_MIN: usize = 6;

/// A value in each of the tries.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Samples(pub(crate) Vec<u64>);

impl Samples {
    /// Numbers by chance for the start of a window, other ones for each `seed`: any, small, near all ones,
    /// words.
    pub(crate) fn of(seed: usize) -> Self {
        let of = |at: usize| {
            let mixed = ((seed * COUNT + at) as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            let mixed = mixed ^ mixed >> 31;
            match mixed % 8 {
                0 => mixed >> 60,
                1 => !(mixed >> 60),
                2 => (mixed.cast_signed() >> 32).cast_unsigned(),
                _ => mixed,
            }
        };
        Self((0..COUNT).map(of).collect())
    }

    /// The same for values that have to do with each other: what one lacks to another, all ones, none. Sums
    /// of these carry where sums of any numbers hardly ever do.
    pub(crate) fn related(seed: usize, round: usize) -> Self {
        let common = Self::of(1000 * round).0;
        let own = Self::of(seed + 10_000 * round).0;
        let of = |(common, own): (&u64, u64)| match own % 11 {
            0 | 1 => !common,
            2 | 3 => *common,
            4 => common.wrapping_neg(),
            5 => common.wrapping_add(1),
            6 => u64::MAX,
            7 => 0,
            8 => u64::MAX - (own >> 61),
            9 => own >> 60,
            _ => own,
        };
        Self(common.iter().zip(own).map(of).collect())
    }

    pub(crate) fn zero() -> Self {
        Self(vec![0; COUNT])
    }

    /// Whether another value hardly has the same by chance.
    pub(crate) fn is_telling(&self) -> bool {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let most = sorted.chunk_by(|a, b| a == b).map(<[u64]>::len).max().unwrap_or(0);
        COUNT - most >= OTHER_MIN
    }

    /// The result of `line` in each try; none where there is none.
    pub(crate) fn result(line: &Line, a: &Self, b: &Self) -> Option<Self> {
        a.0.iter().zip(&b.0).map(|(a, b)| number(line, *a, *b)).collect::<Option<Vec<u64>>>().map(Self)
    }

    /// Whether `line` gives just this.
    pub(crate) fn is_of(&self, line: &Line, a: &Self, b: &Self) -> bool {
        let mut tries = self.0.iter().zip(a.0.iter().zip(&b.0));
        tries.all(|(result, (a, b))| number(line, *a, *b) == Some(*result))
    }

    /// What a load at these addresses and `offset` gives behind `version` stores: any bytes, the same for the
    /// same place.
    pub(crate) fn loaded(&self, op: Op, offset: i64, version: usize) -> Self {
        let byte = |address: u64| {
            let mixed = (address ^ (version as u64) << 48).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) >> 56
        };
        let of = |base: &u64| {
            let first = base.wrapping_add(offset.cast_unsigned());
            let bytes = (0..8).rev().fold(0, |bytes, at| bytes << 8 | byte(first.wrapping_add(at)));
            let signed =
                |bits: u32| (bytes << (64 - bits)).cast_signed().wrapping_shr(64 - bits).cast_unsigned();
            match op {
                Op::Lb => signed(8),
                Op::Lh => signed(16),
                Op::Lw => signed(32),
                Op::Lbu => bytes & 0xff,
                Op::Lhu => bytes & 0xffff,
                Op::Lwu => bytes & 0xffff_ffff,
                _ => bytes,
            }
        };
        Self(self.0.iter().map(of).collect())
    }
}

/// The low half, as a word has it in a register.
fn word(value: u64) -> u64 {
    (value << 32).cast_signed().wrapping_shr(32).cast_unsigned()
}

fn upper(value: u64) -> u64 {
    value & 0xffff_ffff
}

fn high(product: i128) -> u64 {
    (product.cast_unsigned() >> 64) as u64
}

#[allow(clippy::too_many_lines, clippy::cast_possible_truncation, reason = "a table")]
fn number(line: &Line, a: u64, b: u64) -> Option<u64> {
    let imm = line.imm.cast_unsigned();
    let shift = imm as u32;
    let by = b as u32;
    let (signed, other) = (a.cast_signed(), b.cast_signed());
    Some(match line.op {
        Op::Add => a.wrapping_add(b),
        Op::Sub => a.wrapping_sub(b),
        Op::And => a & b,
        Op::Or => a | b,
        Op::Xor => a ^ b,
        Op::Andn => a & !b,
        Op::Orn => a | !b,
        Op::Xnor => !(a ^ b),
        Op::Sll => a.wrapping_shl(by),
        Op::Srl => a.wrapping_shr(by),
        Op::Sra => signed.wrapping_shr(by).cast_unsigned(),
        Op::Slt => u64::from(signed < other),
        Op::Sltu => u64::from(a < b),
        Op::Addw => word(a.wrapping_add(b)),
        Op::Subw => word(a.wrapping_sub(b)),
        Op::Sllw => word(u64::from((a as u32).wrapping_shl(by))),
        Op::Srlw => word(u64::from((a as u32).wrapping_shr(by))),
        Op::Sraw => word(u64::from((a as i32).wrapping_shr(by).cast_unsigned())),
        Op::Mul => a.wrapping_mul(b),
        Op::Mulw => word(a.wrapping_mul(b)),
        Op::Mulh => high(i128::from(signed) * i128::from(other)),
        Op::Mulhu => ((u128::from(a) * u128::from(b)) >> 64) as u64,
        Op::Mulhsu => high(i128::from(signed).wrapping_mul(i128::from(b))),
        // Any function of both does: questions know nothing of quotients.
        Op::Div | Op::Divu | Op::Rem | Op::Remu | Op::Divw | Op::Divuw | Op::Remw | Op::Remuw => {
            (a ^ b.rotate_left(17)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(line.op as u32)
        }
        Op::Clz => u64::from(a.leading_zeros()),
        Op::Ctz => u64::from(a.trailing_zeros()),
        Op::Cpop => u64::from(a.count_ones()),
        Op::Rev8 => a.swap_bytes(),
        Op::Sh1add => (a << 1).wrapping_add(b),
        Op::Sh2add => (a << 2).wrapping_add(b),
        Op::Sh3add => (a << 3).wrapping_add(b),
        Op::Adduw => upper(a).wrapping_add(b),
        Op::Sh1adduw => (upper(a) << 1).wrapping_add(b),
        Op::Sh2adduw => (upper(a) << 2).wrapping_add(b),
        Op::Sh3adduw => (upper(a) << 3).wrapping_add(b),
        Op::Min => signed.min(other).cast_unsigned(),
        Op::Max => signed.max(other).cast_unsigned(),
        Op::Minu => a.min(b),
        Op::Maxu => a.max(b),
        Op::Rol => a.rotate_left(by & 63),
        Op::Ror => a.rotate_right(by & 63),
        Op::Rolw => word(u64::from((a as u32).rotate_left(by & 31))),
        Op::Rorw => word(u64::from((a as u32).rotate_right(by & 31))),
        Op::Bext => a.wrapping_shr(by) & 1,
        Op::Zexth => a & 0xffff,
        Op::Sextb => i64::from(a as i8).cast_unsigned(),
        Op::Sexth => i64::from(a as i16).cast_unsigned(),
        Op::Addi => a.wrapping_add(imm),
        Op::Addiw => word(a.wrapping_add(imm)),
        Op::Andi => a & imm,
        Op::Ori => a | imm,
        Op::Xori => a ^ imm,
        Op::Slti => u64::from(signed < line.imm),
        Op::Sltiu => u64::from(a < imm),
        Op::Slli => a.wrapping_shl(shift),
        Op::Srli => a.wrapping_shr(shift),
        Op::Srai => signed.wrapping_shr(shift).cast_unsigned(),
        Op::Slliw => word(a.wrapping_shl(shift)),
        Op::Srliw => word(upper(a).wrapping_shr(shift)),
        Op::Sraiw => word(a).cast_signed().wrapping_shr(shift).cast_unsigned(),
        Op::Rori => a.rotate_right(shift & 63),
        Op::Roriw => word(u64::from((a as u32).rotate_right(shift & 31))),
        Op::Slliuw => upper(a).wrapping_shl(shift),
        Op::Bexti => a.wrapping_shr(shift) & 1,
        Op::Lui => imm,
        _ => return None,
    })
}
