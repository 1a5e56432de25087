//! Values as the sum of another value and a constant: `root + offset`, modulo 2^64.

use crate::{BinaryOp, Op, Value};

/// A value as the sum of a root, which is no sum with a constant, and an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Linear {
    /// The value that it is a fixed distance from, possibly itself.
    pub root: Value,
    /// The distance.
    pub offset: i64,
}

impl Linear {
    /// Follows `value` of `ops` through sums, as long as the distance stays within `offset_max` in both
    /// directions.
    #[must_use]
    pub fn of(ops: &[Op], value: Value, offset_max: i64) -> Self {
        let (mut root, mut offset) = (value, 0_i64);
        while let Op::Binary(BinaryOp::Add, x, y) = ops[root.0 as usize] {
            let Op::Const(number) = ops[y.0 as usize] else { break };
            let sum = offset.checked_add(number);
            let Some(sum) = sum.filter(|sum| sum.unsigned_abs() <= offset_max.unsigned_abs()) else { break };
            (root, offset) = (x, sum);
        }
        Self { root, offset }
    }
}

#[cfg(test)]
mod tests {
    use antares_program::Reg;

    use super::*;

    #[test]
    fn sums_with_constants_are_followed_as_far_as_they_reach() {
        let add = |a, b| Op::Binary(BinaryOp::Add, Value(a), Value(b));
        let ops = [Op::Read(Reg::SP), Op::Const(-16), add(0, 1), add(2, 1), add(3, 0)];
        let of = |value, max| Linear::of(&ops, Value(value), max);
        assert_eq!(of(3, 32), Linear { root: Value(0), offset: -32 });
        assert_eq!(of(3, 31), Linear { root: Value(2), offset: -16 });
        assert_eq!(of(4, 32), Linear { root: Value(4), offset: 0 });
    }
}
