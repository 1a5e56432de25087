//! How often a loop runs: its counter, what that runs to, and how.
//!
//! The bound holds because of what the guard asks for: the lower of counter and end is below 2^30 and they
//! are less than 2^24 apart, so no counter wraps on 64 or 32 bits before the loop ends.

use antares_ir::{BinaryOp, Block, Op, Terminator, UnaryOp, Value};
use antares_program::BlockId;

use super::{
    affine::{Affine, Counter, LoopIteration, STEP_MAX},
    guard::GuardBuilder,
};

/// The lower of counter and end is below this.
const START_MAX: i64 = 1 << 30;

/// Counter and end are less than this apart.
const DISTANCE_MAX: i64 = 1 << 24;

/// When the loop goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum While {
    /// Counter and end differ.
    Differs,
    /// The counter has not reached the end.
    Before,
    /// The counter is not beyond the end.
    NotBeyond,
}

/// The counter of a loop, what it runs to, and how.
pub(super) struct TripCount {
    /// The block that compares them.
    pub(super) node: usize,
    /// As it is compared in the first iteration.
    pub(super) counter: Affine,
    pub(super) end: Affine,
    pub(super) step: i64,
    goes_on: While,
    is_unsigned: bool,
}

impl TripCount {
    /// The first test that bounds the trip count, among those that each iteration runs through. What it
    /// assumes of the counter stays with `iteration`.
    pub(super) fn of(iteration: &mut LoopIteration) -> Option<Self> {
        let words: Vec<_> = iteration.word_counters().collect();
        let candidates = words.into_iter().map(|register| Counter { register, positive_from: i64::MAX });
        for candidate in std::iter::once(None).chain(candidates.map(Some)) {
            iteration.counted_by(candidate);
            let count =
                iteration.dominating_latches().find_map(|(node, block)| Self::at(iteration, node, block));
            let is_right = |count: &Self| {
                candidate.is_none_or(|candidate| count.counter.alone() == Some(candidate.register))
            };
            if let Some(count) = count.filter(is_right) {
                // From where it is compared first, a counter that goes up is not below zero.
                let positive_from = if count.step > 0 { count.counter.offset } else { i64::MAX };
                let register = count.counter.alone();
                iteration.counted_by(register.map(|register| Counter { register, positive_from }));
                return Some(count);
            }
        }
        None
    }

    /// The test at the end of a block, if it is one.
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
        // As if the counter were on the left.
        let (counter, end, step, is_left) = match (x_step, y_step) {
            (_, (0, _)) => (x, y, x_step.0, true),
            ((0, _), _) => (y, x, y_step.0, false),
            _ => return None,
        };
        let is_unsigned = matches!(op, BinaryOp::LtUnsigned | BinaryOp::GeUnsigned);
        let is_up = step > 0;
        // `counter < end` ends going up, `counter > end` going down.
        let goes_on = match op {
            BinaryOp::Ne => While::Differs,
            BinaryOp::Lt | BinaryOp::LtUnsigned if is_left == is_up => While::Before,
            BinaryOp::Ge | BinaryOp::GeUnsigned if is_left != is_up => While::NotBeyond,
            _ => return None,
        };
        let is_power = step.unsigned_abs().is_power_of_two();
        let is_sound = step != 0 && step.abs() <= STEP_MAX && (goes_on != While::Differs || is_power);
        let is_near = counter.offset.abs() <= STEP_MAX || counter.alone().is_none();
        is_sound.then_some(())?;
        is_near.then_some(Self { node, counter, end, step, goes_on, is_unsigned })
    }

    /// Asks for what bounds the trip count; gives the number of the last iteration, counted from 0, or more:
    /// at most `last_max`. None if that is too low. `starts_low` says that others ask whether the counter
    /// starts below [`START_MAX`].
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
            // Below the end the counter must not wrap.
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

/// What a test compares, without an extension of its low word: the guard asks for so small a number that it
/// changes nothing.
fn compared(iteration: &LoopIteration, node: usize, value: Value) -> Option<Affine> {
    let value = match iteration.op(node, value) {
        Op::Unary(UnaryOp::SextW, inner) => inner,
        _ => value,
    };
    iteration.affine(node, value).filter(|sum| sum.slack == 0)
}

/// How far a sum moves in each iteration, and whether on a low word alone.
fn step_of(iteration: &LoopIteration, sum: &Affine) -> Option<(i64, bool)> {
    match sum.alone() {
        Some(register) => iteration.step(register),
        None => Some((iteration.step_of(sum)?, false)),
    }
}

/// The comparison that holds when `op` does not.
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
