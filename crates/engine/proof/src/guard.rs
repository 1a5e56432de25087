//! Facts that hold on a guard's branch to the bounded version, from its comparisons.

use antares_ir::{BinaryOp, Block, Op, Terminator, Value, VersionedLoop};
use antares_program::Reg;

use crate::modular::{Integers, ModularSum, Unknown};

/// A guard's comparisons, in terms of the registers at the guard.
#[derive(Default)]
pub(super) struct Guard {
    /// Pairs of sums: the first is at most the second, as unsigned numbers.
    pub(super) at_most: Vec<(ModularSum, ModularSum)>,
    /// Sums and masks of their bits that are 0.
    zero_bits: Vec<(ModularSum, i64)>,
    /// The integers that sums stand for, from comparisons with numbers.
    known: Vec<(ModularSum, Integers)>,
    /// The minimum of the cycles left.
    pub(super) cycles_min: Option<i64>,
    /// Whether no registers pass all comparisons.
    pub(super) is_impossible: bool,
    /// How the guard computes the number of the last iteration.
    pub(super) last: Quotient,
    /// Bounds of that number.
    pub(super) last_integers: Option<Integers>,
}

/// `(dividend >> shift) + more`.
#[derive(Default)]
pub(super) struct Quotient {
    pub(super) dividend: ModularSum,
    pub(super) shift: u32,
    pub(super) more: i64,
}

impl Guard {
    /// The comparisons of `block` on its taken branch. None if it ends in no branch, or `witness.last` is not
    /// a value of the block.
    pub(super) fn of(block: &Block, witness: &VersionedLoop) -> Option<Self> {
        let Terminator::Branch { condition, .. } = block.terminator else { return None };
        let values = Values::of(block, witness.last)?;
        let last = values.quotient();
        let mut guard = Self { last, ..Self::default() };
        let mut open = vec![condition];
        while let Some(value) = open.pop() {
            // If `x & y` is not 0, neither `x` nor `y` is 0.
            match values.ops[value.0 as usize] {
                Op::Binary(BinaryOp::And, x, y) => open.extend([x, y]),
                Op::Binary(op, x, y) => guard.compared(&values, op, x, y),
                _ => {}
            }
        }
        guard.learn(false);
        guard.last_integers = guard.last_number();
        guard.learn(true);
        guard.raise();
        guard.is_impossible = guard.contradicts();
        Some(guard)
    }

    fn compared(&mut self, values: &Values, op: BinaryOp, x: Value, y: Value) {
        let (left, right) = (values.get(x), values.get(y));
        match op {
            BinaryOp::LtUnsigned => match right.number() {
                // Below `end`, other than 0, means at most `end - 1`.
                Some(end) if end != 0 => self.at_most.push((left, ModularSum::constant(end.wrapping_sub(1)))),
                _ => self.at_most.push((left, right)),
            },
            BinaryOp::GeUnsigned => self.at_most.push((right, left)),
            BinaryOp::Ge if values.ops[x.0 as usize] == Op::CyclesLeft => {
                self.cycles_min = self.cycles_min.max(right.number());
            }
            BinaryOp::Eq if right.number() == Some(0) => {
                if let Op::Binary(BinaryOp::And, sum, mask) = values.ops[x.0 as usize]
                    && let Some(mask) = values.get(mask).number()
                {
                    self.zero_bits.push((values.get(sum), mask));
                }
            }
            _ => {}
        }
    }

    /// Records constant upper bounds, or `with_last` those that depend on the last iteration's number.
    fn learn(&mut self, with_last: bool) {
        for (low, high) in &self.at_most {
            let Some((factor, _)) = high.of_last().filter(|(factor, _)| (*factor != 0) == with_last) else {
                continue;
            };
            let bound = match factor {
                0 => high.number().map(|number| Integers::one(number.cast_unsigned().into())),
                _ => self.integers(high),
            };
            if let Some(bound) = bound.filter(|bound| bound.are_unsigned()) {
                self.known.push((low.clone(), Integers::new(0, bound.high)));
            }
        }
    }

    /// Records constant lower bounds.
    fn raise(&mut self) {
        for (low, high) in &self.at_most {
            let Some(number) = low.number() else { continue };
            for (sum, integers) in &mut self.known {
                if sum == high && integers.are_unsigned() {
                    integers.low = integers.low.max(number.cast_unsigned().into());
                }
            }
        }
    }

    /// Whether the comparisons contradict each other: a larger constant is at most a smaller one, or a sum's
    /// bounds are empty.
    fn contradicts(&self) -> bool {
        let is_wrong = |(low, high): &(ModularSum, ModularSum)| match (low.number(), high.number()) {
            (Some(low), Some(high)) => low.cast_unsigned() > high.cast_unsigned(),
            _ => false,
        };
        self.at_most.iter().any(is_wrong) || self.known.iter().any(|(_, of)| of.low > of.high)
    }

    fn last_number(&self) -> Option<Integers> {
        let Quotient { dividend, shift, more } = &self.last;
        let dividend = self.integers(dividend).filter(|integers| integers.are_unsigned())?;
        let of = |number: i128| (number >> shift) + i128::from(*more);
        Some(Integers::new(of(dividend.low), of(dividend.high))).filter(|last| last.is_inside(0, 1 << 63))
    }

    /// The integers that `sum` stands for, by up to two comparisons.
    pub(super) fn integers(&self, sum: &ModularSum) -> Option<Integers> {
        if let Some(integers) = self.single_iteration(sum) {
            return Some(integers);
        }
        let by_one = |rest: &ModularSum| {
            let known = self.known.iter();
            known
                .filter_map(|(known, of)| Some(self.single_iteration(&rest.minus(known))?.plus(*of)))
                .reduce(both)
        };
        let by_two = || self.known.iter().find_map(|(known, of)| Some(by_one(&sum.minus(known))?.plus(*of)));
        by_one(sum).or_else(by_two)
    }

    /// The integers of a sum of only the last iteration's number and a constant.
    fn single_iteration(&self, sum: &ModularSum) -> Option<Integers> {
        sum.integers(|unknown| self.last_integers.filter(|_| unknown == Unknown::Last))
    }

    /// Whether `sum` is a multiple of `size`, a power of two.
    pub(super) fn is_multiple(&self, sum: &ModularSum, size: u64) -> bool {
        let holds = |(known, mask): &(ModularSum, i64)| {
            // A number and its negative have the same trailing zeros.
            let is_same = known == sum || *known == sum.times(-1);
            is_same && size.is_power_of_two() && mask.cast_unsigned() & (size - 1) == size - 1
        };
        size == 1 || self.zero_bits.iter().any(holds)
    }
}

/// The intersection of two facts about one number, or the first if they reach too far.
fn both(a: Integers, b: Integers) -> Integers {
    let are_near = [a, b].iter().all(|integers| integers.is_inside(-(1 << 62), 1 << 62));
    if are_near { Integers::new(a.low.max(b.low), a.high.min(b.high)) } else { a }
}

/// The values of a guard.
struct Values<'b> {
    ops: &'b [Op],
    /// Other values treat the last iteration's number as an unknown of its own.
    values: Vec<ModularSum>,
    last: Value,
    /// The sum that defines the last iteration's number.
    own: ModularSum,
}

impl<'b> Values<'b> {
    fn of(block: &'b Block, last: Value) -> Option<Self> {
        let ops = &block.ops[..];
        let mut values: Vec<ModularSum> = Vec::with_capacity(ops.len());
        let mut own = None;
        for (number, op) in (0..).zip(ops) {
            let get = |value: Value| values.get(value.0 as usize);
            let sum = match *op {
                Op::Const(number) => Some(ModularSum::constant(number)),
                Op::Read(Reg::ZERO) => Some(ModularSum::constant(0)),
                Op::Read(register) => Some(ModularSum::unknown(Unknown::Register(register.0))),
                Op::Binary(BinaryOp::Add, x, y) => Some(get(x)?.plus(get(y)?)),
                Op::Binary(BinaryOp::Sub, x, y) => Some(get(x)?.minus(get(y)?)),
                Op::Binary(BinaryOp::Mul, x, y) => {
                    let (x, y) = (get(x)?, get(y)?);
                    y.number().map(|factor| x.times(factor))
                }
                _ => None,
            };
            let sum = sum.filter(ModularSum::is_short);
            let sum = sum.unwrap_or_else(|| ModularSum::unknown(Unknown::Made(number)));
            if Value(number) == last {
                own = Some(sum);
                values.push(ModularSum::unknown(Unknown::Last));
            } else {
                values.push(sum);
            }
        }
        Some(Self { ops, values, last, own: own? })
    }

    /// The sum that a comparison of `value` compares.
    fn get(&self, value: Value) -> ModularSum {
        if value == self.last { self.own.clone() } else { self.values[value.0 as usize].clone() }
    }

    fn number(&self, value: Value) -> Option<i64> {
        self.values[value.0 as usize].number()
    }

    fn quotient(&self) -> Quotient {
        let op = |value: Value| self.ops[value.0 as usize];
        let (more, quotient) = match op(self.last) {
            Op::Binary(BinaryOp::Add, x, y) => self.number(y).map_or((0, self.last), |more| (more, x)),
            _ => (0, self.last),
        };
        let shift =
            |value: Value| self.number(value).and_then(|by| u32::try_from(by).ok()).filter(|by| *by < 64);
        match op(quotient) {
            Op::Binary(BinaryOp::Lshr, x, y) => {
                shift(y).map(|shift| Quotient { dividend: self.get(x), shift, more })
            }
            _ => None,
        }
        .unwrap_or_else(|| Quotient { dividend: self.get(quotient), shift: 0, more })
    }
}
