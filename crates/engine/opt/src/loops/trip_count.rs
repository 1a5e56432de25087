//! The trip count of a loop: its counter, the counter's end and the comparison.
//!
//! The guard's conditions make the bound valid: the lower of counter and end is below 2^30, and their
//! distance is less than 2^24. So no counter wraps on 64 or 32 bits before the loop ends.

use antares_ir::{BinaryOp, Block, Op, Terminator, UnaryOp, Value};
use antares_program::BlockId;

use super::{
    affine::{Affine, Counter, LoopIteration, STEP_MAX},
    guard::GuardBuilder,
};

/// Exclusive limit of the lower of counter and end.
const START_MAX: i64 = 1 << 30;

/// Exclusive limit of the distance between counter and end.
const DISTANCE_MAX: i64 = 1 << 24;

/// The condition on which the loop continues.
#[derive(Clone, Copy, PartialEq, Eq)]
enum While {
    /// Counter and end differ.
    Differs,
    /// The counter has not reached the end.
    Before,
    /// The counter is not beyond the end.
    NotBeyond,
}

/// The counter of a loop, its end and the comparison.
pub(super) struct TripCount {
    /// The block that compares them.
    pub(super) node: usize,
    /// The counter at the first comparison.
    pub(super) counter: Affine,
    pub(super) end: Affine,
    pub(super) step: i64,
    goes_on: While,
    is_unsigned: bool,
}

impl TripCount {
    /// The first test that bounds the trip count, among those that each iteration passes. Records its
    /// assumption about the counter in `iteration`.
    pub(super) fn of(iteration: &mut LoopIteration) -> Option<Self> {
        let words: Vec<_> = iteration.word_counters().collect();
        let candidates = words.into_iter().map(|register| Counter { register, positive_from: i64::MAX });
        for candidate in std::iter::once(None).chain(candidates.map(Some)) {
            iteration.counter = candidate;
            let count =
                iteration.dominating_latches().find_map(|(node, block)| Self::at(iteration, node, block));
            let is_right = |count: &Self| {
                candidate.is_none_or(|candidate| count.counter.alone() == Some(candidate.register))
            };
            if let Some(count) = count.filter(is_right) {
                // From its first comparison on, an upward counter is not negative.
                let positive_from = if count.step > 0 { count.counter.offset } else { i64::MAX };
                let register = count.counter.alone();
                iteration.counter = register.map(|register| Counter { register, positive_from });
                return Some(count);
            }
        }
        None
    }

    /// The loop test at the end of a block, if any.
    fn at(iteration: &LoopIteration, node: usize, block: &Block) -> Option<Self> {
        let Terminator::Branch { condition, taken, otherwise } = block.terminator else { return None };
        let stays = |id: BlockId| iteration.node(id).is_some();
        if stays(taken) == stays(otherwise) {
            return None;
        }
        let Op::Binary(op, x, y) = iteration.op(node, condition) else { return None };
        let op = if stays(taken) { op } else { negated(op)? };
        let (x, y) = (compared(iteration, node, x)?, compared(iteration, node, y)?);
        let (x_step, y_step) = (step_of(iteration, &x)?, step_of(iteration, &y)?);
        // Normalizes the counter to the left side.
        let (counter, end, step, is_left) = match (x_step, y_step) {
            (_, (0, _)) => (x, y, x_step.0, true),
            ((0, _), _) => (y, x, y_step.0, false),
            _ => return None,
        };
        let is_unsigned = matches!(op, BinaryOp::LtUnsigned | BinaryOp::GeUnsigned);
        let is_up = step > 0;
        // `counter < end` ends upward loops, `counter > end` downward ones.
        let goes_on = match op {
            BinaryOp::Ne => While::Differs,
            BinaryOp::Lt | BinaryOp::LtUnsigned if is_left == is_up => While::Before,
            BinaryOp::Ge | BinaryOp::GeUnsigned if is_left != is_up => While::NotBeyond,
            _ => return None,
        };
        let is_power = step.unsigned_abs().is_power_of_two();
        let is_sound = step != 0 && step.abs() <= STEP_MAX && (goes_on != While::Differs || is_power);
        let is_near = counter.offset.abs() <= STEP_MAX || counter.alone().is_none();
        (is_sound && is_near).then_some(Self { node, counter, end, step, goes_on, is_unsigned })
    }

    /// Adds the conditions that bound the trip count to the guard. Returns an upper bound of the last
    /// iteration's number, counted from 0 and at most `last_max`. None if `last_max` is too low. `starts_low`
    /// says that other conditions keep the counter's start below [`START_MAX`].
    pub(super) fn last_iteration(
        &self,
        guard: &mut GuardBuilder,
        last_max: i64,
        starts_low: bool,
    ) -> Option<Value> {
        let (counter, end) = (guard.sum(&self.counter), guard.sum(&self.end));
        let size = self.step.abs();
        let (low, high) = if self.step > 0 { (counter, end) } else { (end, counter) };
        if !starts_low || self.step < 0 {
            guard.require_below(low, START_MAX);
        }
        let is_power = size.cast_unsigned().is_power_of_two();
        let shift = size.ilog2();
        let (add, more) = match self.goes_on {
            While::Differs => (0, 0),
            While::Before if is_power => (size - 1, 0),
            _ => (0, 1),
        };
        let distance_max = last_max.checked_sub(more).filter(|last| *last >= 0)?.min(DISTANCE_MAX) << shift;
        let distance = guard.binary(BinaryOp::Sub, high, low);
        guard.require_below(distance, DISTANCE_MAX.min(distance_max + 1));
        if self.step < 0 && self.is_unsigned {
            // The counter must not wrap below the end.
            let size = guard.push(Op::Const(size));
            let is_far_from_zero = guard.binary(BinaryOp::GeUnsigned, low, size);
            guard.require(is_far_from_zero);
        }
        if self.goes_on == While::Differs && size > 1 {
            let rest = guard.binary_const(BinaryOp::And, distance, size - 1);
            let zero = guard.push(Op::Const(0));
            let meets = guard.binary(BinaryOp::Eq, rest, zero);
            guard.require(meets);
        }
        let distance = guard.binary_const(BinaryOp::Add, distance, add);
        let shifted = guard.binary_const(BinaryOp::Lshr, distance, i64::from(shift));
        Some(guard.binary_const(BinaryOp::Add, shifted, more))
    }
}

/// The compared value, without an extension of its low word: the guard requires numbers so small that the
/// extension changes nothing.
fn compared(iteration: &LoopIteration, node: usize, value: Value) -> Option<Affine> {
    let value = match iteration.op(node, value) {
        Op::Unary(UnaryOp::SextW, inner) => inner,
        _ => value,
    };
    iteration.affine(node, value).filter(|sum| sum.slack == 0)
}

/// The change of a sum in each iteration, and whether only its low word is exact.
fn step_of(iteration: &LoopIteration, sum: &Affine) -> Option<(i64, bool)> {
    match sum.alone() {
        Some(register) => iteration.step(register),
        None => Some((iteration.step_of(sum)?, false)),
    }
}

/// The negation of the comparison `op`.
fn negated(op: BinaryOp) -> Option<BinaryOp> {
    Some(match op {
        BinaryOp::Eq => BinaryOp::Ne,
        BinaryOp::Lt => BinaryOp::Ge,
        BinaryOp::Ge => BinaryOp::Lt,
        BinaryOp::LtUnsigned => BinaryOp::GeUnsigned,
        BinaryOp::GeUnsigned => BinaryOp::LtUnsigned,
        _ => return None,
    })
}
