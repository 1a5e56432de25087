//! Expresses values as sums of the registers at the start of an iteration, and their change from iteration to
//! iteration.

use antares_ir::{BinaryOp, Block, Cfg, DominatorTree, LinearSum, Op, UnaryOp, Value, Width};
use antares_program::{BlockId, Reg};

/// Maximum registers in one sum.
const TERMS_MAX: usize = 4;

/// Maximum of factors and of a value's slack.
const FACTOR_MAX: i64 = 1 << 20;

/// Maximum depth of operations to follow.
const DEPTH_MAX: u32 = 12;

/// Maximum offset to follow through extensions of a counter.
pub(super) const STEP_MAX: i64 = 4096;

/// `factor * register + ... + offset - rest` modulo 2^64, with the registers at the start of an iteration and
/// `rest` in `0..=slack`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Affine {
    /// Registers in order, factors other than 0.
    pub(super) terms: Vec<(Reg, i64)>,
    pub(super) offset: i64,
    pub(super) slack: i64,
}

impl Affine {
    pub(super) fn constant(number: i64) -> Self {
        Self { offset: number, ..Self::default() }
    }

    fn register(register: Reg) -> Self {
        Self { terms: vec![(register, 1)], ..Self::default() }
    }

    /// Some value of `0..=end`.
    fn below(end: i64) -> Option<Self> {
        (0..=FACTOR_MAX).contains(&end).then(|| Self { offset: end, slack: end, ..Self::default() })
    }

    fn plus(&self, other: &Self) -> Option<Self> {
        let mut sum = self.clone();
        for &(register, factor) in &other.terms {
            match sum.terms.binary_search_by_key(&register.0, |(register, _)| register.0) {
                Ok(index) => sum.terms[index].1 += factor,
                Err(index) => sum.terms.insert(index, (register, factor)),
            }
        }
        sum.terms.retain(|(_, factor)| *factor != 0);
        sum.offset = sum.offset.wrapping_add(other.offset);
        sum.slack += other.slack;
        sum.bounded()
    }

    fn times(&self, number: i64) -> Option<Self> {
        if number.abs() > FACTOR_MAX || (number < 0 && self.slack > 0) {
            return None;
        }
        let mut product = self.clone();
        for (_, factor) in &mut product.terms {
            *factor *= number;
        }
        product.terms.retain(|(_, factor)| *factor != 0);
        product.offset = product.offset.wrapping_mul(number);
        product.slack *= number;
        product.bounded()
    }

    fn bounded(self) -> Option<Self> {
        let is_small = self.slack <= FACTOR_MAX && self.terms.len() <= TERMS_MAX;
        (is_small && self.terms.iter().all(|(_, factor)| factor.abs() <= FACTOR_MAX)).then_some(self)
    }

    /// The sum without its slack.
    pub(super) fn linear(&self) -> LinearSum {
        LinearSum { terms: self.terms.clone(), offset: self.offset }
    }

    /// The register, if the sum is one register plus an offset.
    pub(super) fn alone(&self) -> Option<Reg> {
        match self.terms[..] {
            [(register, 1)] if self.slack == 0 => Some(register),
            _ => None,
        }
    }
}

/// The start of a value and its change per iteration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AddRecurrence {
    pub(super) start: Affine,
    pub(super) step: i64,
}

pub(super) struct LoopIteration<'a> {
    blocks: &'a [Block],
    first: BlockId,
    /// By block: whether every iteration passes it.
    dominates_latch: Vec<bool>,
    /// By register: its writes, in order.
    writes: Vec<Vec<(usize, Value)>>,
    /// The only assumption: the facts about this counter.
    pub(super) counter: Option<Counter>,
}

/// A register that stays between -2^13 and 2^31 in all iterations, so that its low word determines it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counter {
    pub(super) register: Reg,
    /// With offsets from here on, the register is not negative.
    pub(super) positive_from: i64,
}

impl<'a> LoopIteration<'a> {
    /// `blocks` are in the order of an iteration. The first is the header, with the number `first`.
    pub(super) fn new(blocks: &'a [Block], first: BlockId) -> Self {
        let mut writes = vec![Vec::new(); 32];
        for (node, block) in blocks.iter().enumerate() {
            for &(register, value) in &block.writes {
                writes[register.index()].push((node, value));
            }
        }
        let mut iteration = Self { blocks, first, dominates_latch: Vec::new(), writes, counter: None };
        let following =
            |block: &Block| block.terminator.successors().filter_map(|id| iteration.node(id)).collect();
        let cfg = Cfg::new(blocks.iter().map(following).collect());
        let (dominators, latches) = (DominatorTree::of(&cfg), cfg.predecessors(0));
        let dominates_latch = |node| latches.iter().all(|latch| dominators.dominates(node, *latch));
        iteration.dominates_latch = (0..blocks.len()).map(dominates_latch).collect();
        iteration
    }

    /// Registers whose steps are exact only on the low word.
    pub(super) fn word_counters(&self) -> impl Iterator<Item = Reg> {
        let registers = (1..32).map(Reg);
        registers.filter(|register| matches!(self.step(*register), Some((step, true)) if step != 0))
    }

    /// The blocks that every iteration passes.
    pub(super) fn dominating_latches(&self) -> impl Iterator<Item = (usize, &'a Block)> {
        self.blocks.iter().enumerate().filter(|(node, _)| self.dominates_latch[*node])
    }

    /// The position of a block in the iteration.
    pub(super) fn node(&self, id: BlockId) -> Option<usize> {
        let node = id.0.checked_sub(self.first.0)? as usize;
        (node < self.blocks.len()).then_some(node)
    }

    pub(super) fn op(&self, node: usize, value: Value) -> Op {
        self.blocks[node].ops[value.0 as usize]
    }

    /// `value` of a block in terms of the registers at the start of an iteration.
    pub(super) fn affine(&self, node: usize, value: Value) -> Option<Affine> {
        self.follow(node, value, DEPTH_MAX)
    }

    fn follow(&self, node: usize, value: Value, depth: u32) -> Option<Affine> {
        let depth = depth.checked_sub(1)?;
        let number = |value: Value| self.blocks[node].number(value);
        match self.op(node, value) {
            Op::Const(number) => Some(Affine::constant(number)),
            Op::Read(register) => self.read(node, register, depth),
            Op::Binary(BinaryOp::Add, x, y) => {
                self.follow(node, x, depth)?.plus(&self.follow(node, y, depth)?)
            }
            Op::Binary(BinaryOp::Sub, x, y) => {
                self.follow(node, x, depth)?.plus(&self.follow(node, y, depth)?.times(-1)?)
            }
            Op::Binary(BinaryOp::Shl, x, y) => {
                let distance = number(y).filter(|distance| (0..=20).contains(distance))?;
                self.follow(node, x, depth)?.times(1 << distance)
            }
            Op::Binary(BinaryOp::And, x, y) => match number(y)? {
                mask if mask >= 0 => Affine::below(mask),
                // The mask clears the low bits.
                mask if mask.wrapping_neg().count_ones() == 1 && mask >= -FACTOR_MAX => {
                    let lost = Affine { slack: !mask, ..Affine::default() };
                    self.follow(node, x, depth)?.plus(&lost)
                }
                _ => None,
            },
            Op::Binary(BinaryOp::Lshr, x, y) => self.shifted_right(node, (x, number(y)?), depth),
            Op::Unary(UnaryOp::SextW, x) => self.extended(node, x, true, depth),
            Op::Unary(UnaryOp::ZextW, x) => self.extended(node, x, false, depth),
            Op::Unary(UnaryOp::ZextH, _) => Affine::below(0xffff),
            Op::Load { width: Width::Byte, is_signed: false, .. } => Affine::below(0xff),
            Op::Load { width: Width::Half, is_signed: false, .. } => Affine::below(0xffff),
            _ => None,
        }
    }

    /// A register at block entry.
    fn read(&self, node: usize, register: Reg, depth: u32) -> Option<Affine> {
        match self.writes[register.index()].iter().rev().find(|(writer, _)| *writer < node) {
            None => Some(Affine::register(register)),
            // The writer precedes this block in the order, and every path through this block back to the
            // header passes it.
            Some(&(writer, value)) if self.dominates_latch[writer] => self.follow(writer, value, depth),
            Some(_) => None,
        }
    }

    /// The counter plus an offset, for which the extension of the low word changes nothing.
    fn extended(&self, node: usize, value: Value, is_signed: bool, depth: u32) -> Option<Affine> {
        let counter = self.counter?;
        let inner = self.follow(node, value, depth)?;
        let low = if is_signed { -STEP_MAX } else { counter.positive_from };
        let is_same = inner.alone() == Some(counter.register) && (low..=STEP_MAX).contains(&inner.offset);
        is_same.then_some(inner)
    }

    fn shifted_right(&self, node: usize, (x, distance): (Value, i64), depth: u32) -> Option<Affine> {
        // A word shifted left and back right is the zero-extended word, shifted by the difference.
        if let Op::Binary(BinaryOp::Shl, inner, up) = self.op(node, x)
            && self.op(node, up) == Op::Const(32)
            && (12..=32).contains(&distance)
        {
            return self.extended(node, inner, false, depth)?.times(1 << (32 - distance));
        }
        (44..64).contains(&distance).then(|| Affine::below((1 << (64 - distance)) - 1)).flatten()
    }

    /// The step of a register in each iteration, and whether only its low word is exact. None if the step is
    /// not constant.
    pub(super) fn step(&self, register: Reg) -> Option<(i64, bool)> {
        let Some(&(node, value)) = self.writes[register.index()].last() else { return Some((0, false)) };
        if !self.dominates_latch[node] {
            return None;
        }
        let (value, is_word) = match self.op(node, value) {
            Op::Unary(UnaryOp::SextW, inner) => (inner, true),
            _ => (value, false),
        };
        let end = self.affine(node, value)?;
        (end.alone() == Some(register)).then_some((end.offset, is_word))
    }

    /// The change of a sum in each iteration.
    pub(super) fn step_of(&self, sum: &Affine) -> Option<i64> {
        sum.terms.iter().try_fold(0_i64, |total, &(register, factor)| {
            let (step, is_word) = self.step(register)?;
            let is_exact = !is_word || self.counter.is_some_and(|counter| counter.register == register);
            (is_exact && step.abs() <= STEP_MAX).then_some(total + step * factor)
        })
    }

    /// The values of `value` over all iterations, if known.
    pub(super) fn recurrence(&self, node: usize, value: Value) -> Option<AddRecurrence> {
        let start = self.affine(node, value)?;
        let step = self.step_of(&start).filter(|step| step.abs() <= FACTOR_MAX)?;
        Some(AddRecurrence { start, step })
    }
}
