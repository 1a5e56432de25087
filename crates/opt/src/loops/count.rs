//! How often a loop runs: its counter, what that runs to, and how.
//!
//! The bound holds because of what the block in front asks for: the lower of counter and end is below 2^30 and they are
//! less than 2^24 apart, so no counter wraps on 64 or 32 bits before the loop ends.

use antares_ir::{BinaryOp, Block, Op, Terminator, UnaryOp, Value};
use antares_program::BlockId;

use crate::loops::{
    affine::{Affine, Counter, Pass, STEP_MAX},
    front::Front,
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
pub(super) struct Count {
    /// The block that compares them.
    pub(super) node: usize,
    /// As it is compared in the first pass.
    pub(super) counter: Affine,
    pub(super) end: Affine,
    pub(super) step: i64,
    goes_on: While,
    is_unsigned: bool,
}

impl Count {
    /// The first test that bounds the passes, among those that each of them runs through. What it assumes of the counter
    /// stays with `pass`.
    pub(super) fn of(pass: &mut Pass) -> Option<Self> {
        let words: Vec<_> = pass.word_counters().collect();
        let candidates = words.into_iter().map(|register| Counter { register, positive_from: i64::MAX });
        for candidate in std::iter::once(None).chain(candidates.map(Some)) {
            pass.counted_by(candidate);
            let count = pass.certain().find_map(|(node, block)| Self::at(pass, node, block));
            let is_right = |count: &Self| {
                candidate.is_none_or(|candidate| count.counter.alone() == Some(candidate.register))
            };
            if let Some(count) = count.filter(is_right) {
                // From where it is compared first, a counter that goes up is not below zero.
                let positive_from = if count.step > 0 { count.counter.offset } else { i64::MAX };
                let register = count.counter.alone();
                pass.counted_by(register.map(|register| Counter { register, positive_from }));
                return Some(count);
            }
        }
        None
    }

    /// The test at the end of a block, if it is one.
    fn at(pass: &Pass, node: usize, block: &Block) -> Option<Self> {
        let Terminator::Branch { condition, taken, otherwise } = block.terminator else { return None };
        let stays = |id: BlockId| pass.node(id).is_some();
        if stays(taken) == stays(otherwise) {
            return None;
        }
        let Op::Binary(op, x, y) = pass.op(node, condition) else { return None };
        let op = if stays(taken) { op } else { negated(op)? };
        let (x, y) = (compared(pass, node, x)?, compared(pass, node, y)?);
        let (x_step, y_step) = (step_of(pass, &x)?, step_of(pass, &y)?);
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

    /// Asks for what bounds the passes; gives the number of the last pass, counted from 0, or more: at most `last_max`. None if
    /// that is too low. `starts_low` says that others ask whether the counter starts below [`START_MAX`].
    pub(super) fn last_pass(&self, front: &mut Front, last_max: i64, starts_low: bool) -> Option<Value> {
        let (counter, end) = (front.sum(&self.counter), front.sum(&self.end));
        let size = self.step.abs();
        let (low, high) = if self.step > 0 { (counter, end) } else { (end, counter) };
        if !starts_low || self.step < 0 {
            front.ask_below(low, START_MAX);
        }
        let is_power = size.cast_unsigned().is_power_of_two();
        let shift = size.ilog2();
        let (add, more) = match self.goes_on {
            While::Differs => (0, 0),
            While::Before if is_power => (size - 1, 0),
            _ => (0, 1),
        };
        let distance_max = last_max.checked_sub(more).filter(|last| *last >= 0)?.min(DISTANCE_MAX) << shift;
        let distance = front.binary(BinaryOp::Sub, high, low);
        front.ask_below(distance, DISTANCE_MAX.min(distance_max + 1));
        if self.step < 0 && self.is_unsigned {
            // Below the end the counter must not wrap.
            let size = front.push(Op::Const(size));
            let is_far_from_zero = front.binary(BinaryOp::GeUnsigned, low, size);
            front.ask(is_far_from_zero);
        }
        if self.goes_on == While::Differs && size > 1 {
            let rest = front.binary_const(BinaryOp::And, distance, size - 1);
            let zero = front.push(Op::Const(0));
            let meets = front.binary(BinaryOp::Eq, rest, zero);
            front.ask(meets);
        }
        let distance = front.binary_const(BinaryOp::Add, distance, add);
        let shifted = front.binary_const(BinaryOp::Lshr, distance, i64::from(shift));
        Some(front.binary_const(BinaryOp::Add, shifted, more))
    }
}

/// What a test compares, without an extension of its low word: the front asks for so small a number that it changes nothing.
fn compared(pass: &Pass, node: usize, value: Value) -> Option<Affine> {
    let value = match pass.op(node, value) {
        Op::Unary(UnaryOp::SextW, inner) => inner,
        _ => value,
    };
    pass.affine(node, value).filter(|sum| sum.slack == 0)
}

/// How far a sum moves in each pass, and whether on a low word alone.
fn step_of(pass: &Pass, sum: &Affine) -> Option<(i64, bool)> {
    match sum.alone() {
        Some(register) => pass.step(register),
        None => Some((pass.step_of(sum)?, false)),
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
