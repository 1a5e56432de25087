//! Proves bounded loops: each ends in time, and accesses addresses only inside the bounds. The proof relies
//! only on the guard's comparisons.
//!
//! Iterations are counted from 0. The proof is by induction over their number. At the start of iteration `k`,
//! each register with a step holds its value at the guard plus `k` times its step. The operands of the exit's
//! comparison are in the ranges that the guard's comparisons imply. Symbolic execution of one iteration shows
//! the same for the next one, if there is one. Every path to the next iteration passes the exit, which ends
//! the loop in iteration `last` at the latest.
//!
//! The time for a loop is proportional to its operations and the edges into it; for a function, to those of
//! all its loops.

use antares_ir::{
    Access, BinaryOp, Cfg, Function, LinearSum, LoopSpan, Op, Terminator, Value, VersionedLoop,
};
use antares_program::{BlockId, Reg};

use crate::{
    guard::Guard,
    iteration::Iteration,
    modular::{Integers, ModularSum, Unknown},
};

/// Maximum cycles that a bounded loop may use, and that may be overdrawn at its start.
const CYCLES_MAX: i128 = 1 << 22;

/// Why the proof of a bounded loop fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoopError {
    /// The control flow into, inside or out of the loop is invalid.
    #[error("control flows otherwise")]
    Flow,
    /// The loop may run more iterations than its witness says.
    #[error("the trip count is not shown")]
    TripCount,
    /// The loop may use too many cycles without a cycle-limit check.
    #[error("the cycles are not shown to be few")]
    Cycles,
    /// A range of addresses may leave the bounds.
    #[error("span {0} is not shown")]
    Span(usize),
}

/// A proved bounded loop, for queries about its accesses.
pub(super) struct Bounded<'f> {
    /// None if no registers pass its guard.
    iteration: Option<Iteration<'f>>,
    spans: Vec<(&'f LoopSpan, ModularSum)>,
    bounds: [(u64, u64); 2],
}

impl<'f> Bounded<'f> {
    /// Proves the claims of `witness`.
    pub(super) fn prove(
        function: &'f Function,
        cfg: &Cfg,
        witness: &'f VersionedLoop,
        bounds: impl Fn(Access) -> (u64, u64),
    ) -> Result<Self, LoopError> {
        enter(function, cfg, witness).ok_or(LoopError::Flow)?;
        let guard =
            Guard::of(&function.blocks[witness.guard.0 as usize], witness).ok_or(LoopError::TripCount)?;
        let both_bounds = [bounds(Access::Read), bounds(Access::Write)];
        if guard.is_impossible {
            return Ok(Self { iteration: None, spans: Vec::new(), bounds: both_bounds });
        }
        let trip = Trip::of(&guard, witness).ok_or(LoopError::TripCount)?;
        let known = vec![(trip.counter.clone(), trip.counters), (trip.end.clone(), trip.ends)];
        let iteration = Iteration::of(&function.blocks, witness, known).ok_or(LoopError::Flow)?;
        trip.ends_in_time(&guard, &iteration, witness).ok_or(LoopError::TripCount)?;
        let last = guard.last_integers.ok_or(LoopError::TripCount)?;
        let cycles: i128 = iteration.blocks().map(|(_, block)| i128::from(block.cycles)).sum();
        let is_short = (last.high + 1) * cycles <= CYCLES_MAX;
        if !is_short || guard.cycles_min.is_none_or(|min| i128::from(min) < -CYCLES_MAX) {
            return Err(LoopError::Cycles);
        }
        let mut spans = Vec::with_capacity(witness.spans.len());
        for (number, span) in witness.spans.iter().enumerate() {
            let start = linear(&span.start);
            if !is_inside(span, &start, &guard, last.high, bounds(span.access)) {
                return Err(LoopError::Span(number));
            }
            spans.push((span, start));
        }
        Ok(Self { iteration: Some(iteration), spans, bounds: both_bounds })
    }

    /// Whether every iteration that reaches `block` may access `[base + low, base + high)`.
    pub(super) fn may(&self, access: Access, block: BlockId, base: Value, (low, high): (i64, i64)) -> bool {
        let Some(iteration) = &self.iteration else { return true };
        let Some(position) = iteration.position(block) else { return false };
        let base = iteration.value(position, base);
        let step = iteration.step(base);
        // Writable addresses are readable if the read bounds contain the write bounds.
        let [read, write] = self.bounds;
        let is_readable = read.0 <= write.0 && write.1 <= read.1;
        self.spans.iter().any(|(span, start)| {
            let serves = span.access == access || (span.access == Access::Write && is_readable);
            let rest = iteration.rest(&base.minus(start));
            serves
                && step == Some(span.step)
                && rest.is_some_and(|rest| {
                    0 <= rest.low + i128::from(low) && rest.high + i128::from(high) <= i128::from(span.bytes)
                })
        })
    }
}

/// Whether the guard's branch is the bounded loop's only entry, and all blocks are marked as bounded.
fn enter(function: &Function, cfg: &Cfg, witness: &VersionedLoop) -> Option<()> {
    let guard = function.blocks.get(witness.guard.0 as usize)?;
    let Terminator::Branch { taken, otherwise, .. } = guard.terminator else { return None };
    let is_guarded = taken == witness.header
        && !witness.has(otherwise)
        && !witness.has(witness.guard)
        && !witness.has(BlockId(0))
        && guard.writes.is_empty();
    let first = witness.header.0 as usize;
    let mut blocks = function.blocks.iter().enumerate().skip(first).take(witness.blocks as usize);
    let is_entered_there = blocks.all(|(position, block)| {
        let mut before = cfg.predecessors(position).iter().map(|before| BlockId::at(*before));
        block.is_bounded && before.all(|before| witness.has(before) || before == witness.guard)
    });
    (is_guarded && is_entered_there).then_some(())
}

fn linear(sum: &LinearSum) -> ModularSum {
    sum.terms.iter().fold(ModularSum::constant(sum.offset), |sum, &(register, factor)| match register {
        Reg::ZERO => sum,
        Reg(number) => sum.plus(&ModularSum::unknown(Unknown::Register(number)).times(factor)),
    })
}

/// The condition on which the loop continues.
#[derive(Clone, Copy, PartialEq, Eq)]
enum GoesOn {
    /// Counter and end differ.
    Differs,
    /// The counter has not reached the end.
    Before,
    /// The counter is not beyond the end.
    NotBeyond,
}

/// The ranges of counter and end in all iterations, given the guard's comparisons.
struct Trip {
    counter: ModularSum,
    end: ModularSum,
    step: i64,
    /// The distance from the lower of counter and end to the other one.
    distance: ModularSum,
    distances: Integers,
    /// The counter at comparisons, including the one that ends the loop.
    counters: Integers,
    ends: Integers,
}

impl Trip {
    fn of(guard: &Guard, witness: &VersionedLoop) -> Option<Self> {
        let (counter, end, step) = (linear(&witness.counter), linear(&witness.end), witness.step);
        let (low, distance) =
            if step > 0 { (&counter, end.minus(&counter)) } else { (&end, counter.minus(&end)) };
        let lows = guard.integers(low)?;
        let distances = guard.integers(&distance).filter(|distances| distances.low >= 0)?;
        let both = Integers::new(lows.low, lows.high + distances.high);
        let size = i128::from(step).abs();
        // The first counter at or beyond the end is less than two steps away from it.
        let counters = if step > 0 {
            Integers::new(both.low, both.high + size)
        } else {
            Integers::new(both.low - size, both.high)
        };
        (step != 0).then_some(Self { counter, end, step, distance, distances, counters, ends: both })
    }

    /// Whether the exit's branch ends the loop by iteration `last`.
    fn ends_in_time(&self, guard: &Guard, iteration: &Iteration, witness: &VersionedLoop) -> Option<()> {
        let position = iteration.position(witness.exit)?;
        let (goes_on, is_unsigned) = self.test(iteration, position)?;
        let steps = (iteration.step(&self.counter)?, iteration.step(&self.end)?);
        let fits =
            |integers: Integers| if is_unsigned { integers.are_unsigned() } else { integers.are_signed() };
        // If the counter must meet the end exactly, no comparison orders them and the counter stops there.
        let is_ordered = goes_on == GoesOn::Differs || (fits(self.counters) && fits(self.ends));
        let is_sound = iteration.always_passes(position) && steps == (self.step, 0) && is_ordered;
        (is_sound && self.is_bounded(guard, goes_on)?).then_some(())
    }

    /// Whether iteration `last` is not before the first one that ends the loop: `distance / size` rounded up,
    /// or if the loop continues at the end itself, the next integer above `distance / size`.
    fn is_bounded(&self, guard: &Guard, goes_on: GoesOn) -> Option<bool> {
        let last = &guard.last;
        let size = i128::from(self.step).abs();
        // `last` is `((distance + more_distance) >> shift) + more`, which is at least the quotient by `size`.
        let more_distance = i128::from(last.dividend.minus(&self.distance).number()?);
        let (part, more) = (1_i128 << last.shift, i128::from(last.more));
        let is_small = self.distances.high + more_distance < 1 << 63;
        if part > size || more_distance < 0 || more < 0 || !is_small {
            return None;
        }
        // `last * size >= last * part >= distance + more_distance + 1 - part + more * part`.
        let least = more_distance + 1 - part + more * part;
        Some(match goes_on {
            GoesOn::Differs => {
                let is_met = guard.is_multiple(&self.distance, u64::try_from(size).ok()?);
                is_met && (part == size || least >= 0)
            }
            GoesOn::Before => least >= 0,
            GoesOn::NotBeyond => least >= 1,
        })
    }

    /// The condition on which a block's branch continues the loop, and whether it is unsigned.
    fn test(&self, iteration: &Iteration, position: usize) -> Option<(GoesOn, bool)> {
        let (_, block) = iteration.blocks().nth(position)?;
        let Terminator::Branch { condition, taken, otherwise } = block.terminator else { return None };
        let [if_taken, if_not] = [taken, otherwise].map(|next| iteration.position(next).is_some());
        let Op::Binary(op, x, y) = block.ops[condition.0 as usize] else { return None };
        let [x, y] = [x, y].map(|value| iteration.value(position, value));
        // Normalizes the counter to the left side.
        let is_left = *x == self.counter && *y == self.end;
        if if_taken == if_not || !(is_left || (*y == self.counter && *x == self.end)) {
            return None;
        }
        let is_up = self.step > 0;
        let is_unsigned = matches!(op, BinaryOp::LtUnsigned | BinaryOp::GeUnsigned);
        // Whether the loop continues while left < right; otherwise it continues while left >= right.
        let is_below = match (op, if_taken) {
            (BinaryOp::Ne, true) | (BinaryOp::Eq, false) => return Some((GoesOn::Differs, false)),
            (BinaryOp::Lt | BinaryOp::LtUnsigned, goes_on) => goes_on,
            (BinaryOp::Ge | BinaryOp::GeUnsigned, goes_on) => !goes_on,
            _ => return None,
        };
        // `counter < end` ends upward loops, `end < counter` downward ones.
        match (is_below, is_left == is_up) {
            (true, true) => Some((GoesOn::Before, is_unsigned)),
            (false, false) => Some((GoesOn::NotBeyond, is_unsigned)),
            _ => None,
        }
    }
}

/// Whether `span` is inside the bounds in iterations 0 to `last`, for every `last` up to `last_max`.
///
/// Let `v = start - bounds.0`, modulo 2^64. The guard compares some `b <= u` as unsigned numbers, where `v -
/// b` and `u` are sums of `last` and constants. Then `v + k * step` stands for `b + (v - b) + k * step`,
/// which is minimal for `b = 0`, maximal for `b = u`, and extreme at `k = 0` or `k = last`. Both are linear
/// in `last`, so checking the ends of its range suffices.
fn is_inside(
    span: &LoopSpan,
    start: &ModularSum,
    guard: &Guard,
    last_max: i128,
    (first, end): (u64, u64),
) -> bool {
    let room = i128::from(end) - i128::from(first) - i128::from(span.bytes);
    let first = start.minus(&ModularSum::constant(first.cast_signed()));
    let is_shown = |(low, high): &(ModularSum, ModularSum)| -> Option<bool> {
        let (by_last, by) = first.minus(low).of_last()?;
        let (high_by_last, high) = high.of_last()?;
        let step = i128::from(span.step);
        let holds = |last: i128| {
            let greatest = high_by_last * last + high;
            let (lowest_step, highest_step) = ((step * last).min(0), (step * last).max(0));
            let base = by_last * last + by;
            // A negative bound would wrap and prove nothing.
            Integers::one(greatest).are_unsigned()
                && base + lowest_step >= 0
                && greatest + base + highest_step <= room
        };
        Some(holds(0) && holds(last_max))
    };
    span.bytes > 0 && guard.at_most.iter().any(|compared| is_shown(compared) == Some(true))
}
