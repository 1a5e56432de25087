//! Builds the guard in the preheader of a versioned loop, which decides whether the bounded body may run.

use antares_ir::{Access, BinaryOp, Block, LinearSum, LoopSpan, Op, Terminator, Value, span};
use antares_program::{BlockId, GuestAddr, Reg};

use crate::loops::affine::{AddRecurrence, Affine, STEP_MAX};

/// Maximum bytes of a merged span.
const SPAN_BYTES_MAX: i64 = 1 << 20;

/// Maximum ranges in a guard: accesses in other ranges keep their checks.
const SPANS_MAX: usize = 12;

/// A guard under construction.
#[derive(Default)]
pub(super) struct GuardBuilder {
    pub(super) ops: Vec<Op>,
    /// The conjunction of all conditions so far.
    all: Option<Value>,
}

impl GuardBuilder {
    pub(super) fn push(&mut self, op: Op) -> Value {
        let is_pure = matches!(op, Op::Const(_) | Op::Read(_));
        if let Some(known) = self.ops.iter().position(|known| is_pure && *known == op) {
            return Value::at(known);
        }
        self.ops.push(op);
        Value::at(self.ops.len() - 1)
    }

    pub(super) fn binary(&mut self, op: BinaryOp, x: Value, y: Value) -> Value {
        self.push(Op::Binary(op, x, y))
    }

    pub(super) fn binary_const(&mut self, op: BinaryOp, x: Value, number: i64) -> Value {
        let is_neutral = match op {
            BinaryOp::Add | BinaryOp::Lshr => number == 0,
            BinaryOp::Mul => number == 1,
            _ => false,
        };
        if is_neutral {
            return x;
        }
        let y = self.push(Op::Const(number));
        self.binary(op, x, y)
    }

    /// The value of a sum before the first iteration, without its slack.
    pub(super) fn sum(&mut self, sum: &Affine) -> Value {
        let mut total = None;
        for &(register, factor) in &sum.terms {
            let value = self.push(Op::Read(register));
            let product = self.binary_const(BinaryOp::Mul, value, factor);
            total = Some(match total {
                Some(total) => self.binary(BinaryOp::Add, total, product),
                None => product,
            });
        }
        match total {
            Some(total) => self.binary_const(BinaryOp::Add, total, sum.offset),
            None => self.push(Op::Const(sum.offset)),
        }
    }

    pub(super) fn require(&mut self, holds: Value) {
        self.all = Some(match self.all {
            Some(all) => self.binary(BinaryOp::And, all, holds),
            None => holds,
        });
    }

    pub(super) fn require_below(&mut self, x: Value, end: i64) {
        let is_below = self.binary_const(BinaryOp::LtUnsigned, x, end);
        self.require(is_below);
    }

    /// Requires that at most `overdraft` cycles beyond the limit are used.
    pub(super) fn require_cycles(&mut self, overdraft: i64) {
        let left = self.push(Op::CyclesLeft);
        let end = self.push(Op::Const(-overdraft));
        let are_left = self.binary(BinaryOp::Ge, left, end);
        self.require(are_left);
    }

    /// Requires that `from + low` plus `extent` is at most `slack`, given that `extent` is.
    fn require_within(&mut self, from: Value, low: i64, extent: Option<Value>, slack: i64) {
        let mut slack = self.push(Op::Const(slack));
        if let Some(extent) = extent {
            slack = self.binary(BinaryOp::Sub, slack, extent);
        }
        let distance = self.binary_const(BinaryOp::Add, from, low);
        let is_inside = self.binary(BinaryOp::GeUnsigned, slack, distance);
        self.require(is_inside);
    }

    /// Returns the block, which goes to `bounded` if all conditions hold, else to `plain`.
    pub(super) fn finish(mut self, pc: GuestAddr, bounded: BlockId, plain: BlockId) -> Block {
        let condition = match self.all {
            Some(all) => all,
            None => self.push(Op::Const(1)),
        };
        let terminator = Terminator::Branch { condition, taken: bounded, otherwise: plain };
        Block::between(pc, self.ops, terminator)
    }
}

/// The addresses of a loop's accesses relative to one sum, over all iterations.
struct Span {
    access: Access,
    terms: Vec<(Reg, i64)>,
    step: i64,
    low: i64,
    high: i64,
    /// The range `[start, end)` of valid addresses.
    bounds: (u64, u64),
}

impl Span {
    /// The number of valid start addresses in the bounds, minus one.
    fn slack(&self) -> Option<i64> {
        i64::try_from(span(self.bounds, self.low, self.high)?.1).ok()
    }

    /// Whether the condition for this span implies that for `other`.
    fn covers(&self, other: &Self) -> bool {
        let is_stricter = other.bounds.0 <= self.bounds.0 && self.bounds.1 <= other.bounds.1;
        let is_wider = self.low <= other.low && other.high <= self.high;
        self.terms == other.terms && self.step == other.step && is_stricter && is_wider
    }
}

/// The ranges that a bounded body needs.
#[derive(Default)]
pub(super) struct Spans {
    spans: Vec<Span>,
}

impl Spans {
    /// Adds the accesses of `[reach + low, reach + high)`. Returns false if no condition can cover them.
    pub(super) fn add(
        &mut self,
        access: Access,
        recurrence: AddRecurrence,
        (low, high): (i64, i64),
        bounds: (u64, u64),
    ) -> bool {
        let AddRecurrence { start: Affine { terms, offset, slack }, step } = recurrence;
        let low = low.checked_add(offset).and_then(|low| low.checked_sub(slack));
        let (Some(low), Some(high)) = (low, high.checked_add(offset)) else { return false };
        let span = Span { access, terms, step, low, high, bounds };
        if span.slack().is_none() {
            return false;
        }
        let joined = |known: &Span| {
            let joined = Span {
                low: known.low.min(low),
                high: known.high.max(high),
                terms: known.terms.clone(),
                ..*known
            };
            let is_same = (known.access, &known.terms, known.step) == (access, &span.terms, step);
            let bytes = joined.high.checked_sub(joined.low);
            let fits = is_same && bytes.is_some_and(|bytes| bytes <= SPAN_BYTES_MAX);
            (fits && joined.slack().is_some()).then_some(joined)
        };
        for known in &mut self.spans {
            if let Some(joined) = joined(known) {
                *known = joined;
                return true;
            }
        }
        let has_room = self.spans.len() < SPANS_MAX;
        if has_room {
            self.spans.push(span);
        }
        has_room
    }

    /// The last iteration for which the ranges may still fit.
    pub(super) fn last_max(&self) -> i64 {
        let last = |span: &Span| span.slack()?.checked_div(span.step.abs());
        self.spans.iter().filter_map(last).min().unwrap_or(i64::MAX)
    }

    /// Whether one of the ranges shows that a sum is not negative before the first iteration, nor far beyond
    /// the end of memory.
    pub(super) fn show_low(&self, sum: &Affine) -> bool {
        let above = |span: &Span| sum.offset.checked_sub(span.low);
        let is_near = |span: &Span| above(span).is_some_and(|above| (0..=STEP_MAX).contains(&above));
        let shows = |span: &Span| span.step >= 0 && span.terms == sum.terms && is_near(span);
        sum.slack == 0 && self.spans.iter().any(shows)
    }

    /// Adds conditions for all ranges over iterations 0 to `last`, which is at most [`Spans::last_max`].
    /// Returns these ranges.
    pub(super) fn require(self, guard: &mut GuardBuilder, last: Value) -> Vec<LoopSpan> {
        let mut asked = Vec::with_capacity(self.spans.len());
        for (index, span) in self.spans.iter().enumerate() {
            let is_covered =
                |(other, by): (usize, &Span)| other != index && by.access == Access::Write && by.covers(span);
            if span.access == Access::Read && self.spans.iter().enumerate().any(is_covered) {
                continue;
            }
            let Some(slack) = span.slack() else { continue };
            let extent = guard.binary_const(BinaryOp::Mul, last, span.step.abs());
            let mut from = guard.sum(&Affine { terms: span.terms.clone(), ..Affine::default() });
            if span.step < 0 {
                from = guard.binary(BinaryOp::Sub, from, extent);
            }
            let low = span.low.wrapping_sub_unsigned(span.bounds.0);
            guard.require_within(from, low, (span.step != 0).then_some(extent), slack);
            let start = LinearSum { terms: span.terms.clone(), offset: span.low };
            let bytes = span.high.wrapping_sub(span.low);
            asked.push(LoopSpan { access: span.access, start, step: span.step, bytes });
        }
        asked
    }
}
