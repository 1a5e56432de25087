//! Symbolic execution of one iteration of a bounded loop: the values, and the registers of the next
//! iteration.

use antares_ir::{BinaryOp, Block, Op, Terminator, UnaryOp, Value, VersionedLoop, Width};
use antares_program::BlockId;

use crate::modular::{Integers, ModularSum, Unknown};

type SymbolicRegisters = [ModularSum; 32];

/// An arbitrary iteration: values in terms of the registers at its start.
pub(super) struct Iteration<'f> {
    blocks: &'f [Block],
    header: BlockId,
    /// By block and operation.
    values: Vec<Vec<ModularSum>>,
    /// The integers that each [`Unknown::Made`] stands for.
    made: Vec<Option<Integers>>,
    /// Sums of registers whose integers are known in every iteration.
    known: Vec<(ModularSum, Integers)>,
    /// The change of each register from one iteration to the next, if constant.
    steps: [Option<i64>; 32],
}

impl<'f> Iteration<'f> {
    /// Executes an iteration of the loop of `witness`, with `known` at its start. None unless every edge goes
    /// to a later block, back to the header, or out.
    pub(super) fn of(
        blocks: &'f [Block],
        witness: &VersionedLoop,
        known: Vec<(ModularSum, Integers)>,
    ) -> Option<Self> {
        let first = witness.header.0 as usize;
        let blocks =
            blocks.get(first..first + witness.blocks as usize).filter(|blocks| !blocks.is_empty())?;
        let registers: SymbolicRegisters = std::array::from_fn(|register| match u8::try_from(register) {
            Ok(register) if register > 0 => ModularSum::unknown(Unknown::Register(register)),
            _ => ModularSum::constant(0),
        });
        let mut iteration = Self {
            blocks,
            header: witness.header,
            values: Vec::with_capacity(blocks.len()),
            made: Vec::new(),
            known,
            steps: [None; 32],
        };
        let mut entered: Vec<Option<SymbolicRegisters>> = vec![None; blocks.len()];
        entered[0] = Some(registers.clone());
        let mut again: Option<SymbolicRegisters> = None;
        for (position, block) in blocks.iter().enumerate() {
            let registers = entered[position].take()?;
            let registers = iteration.run(block, registers);
            for next in iteration.successors(position)? {
                let to = if next == 0 { &mut again } else { &mut entered[next] };
                let met = match to.take() {
                    None => registers.clone(),
                    Some(other) => iteration.meet(other, &registers),
                };
                *to = Some(met);
            }
        }
        let again = again?;
        iteration.steps =
            std::array::from_fn(|register| again[register].minus(&registers[register]).number());
        Some(iteration)
    }

    /// The successors of a block inside the iteration: 0 for the header, or a later block. None if there is
    /// another successor.
    fn successors(&self, position: usize) -> Option<Vec<usize>> {
        let (Terminator::Jump(_) | Terminator::Branch { .. }) = self.blocks[position].terminator else {
            return None;
        };
        let next = self.blocks[position].terminator.successors();
        let inside: Vec<usize> = next.filter_map(|block| self.position(block)).collect();
        inside.iter().all(|next| *next == 0 || *next > position).then_some(inside)
    }

    pub(super) fn position(&self, block: BlockId) -> Option<usize> {
        let position = block.0.checked_sub(self.header.0)? as usize;
        (position < self.blocks.len()).then_some(position)
    }

    /// Whether every path from the header to the next iteration passes the block at `position`.
    pub(super) fn always_passes(&self, position: usize) -> bool {
        let mut is_reached = vec![false; self.blocks.len()];
        is_reached[0] = position != 0;
        for from in 0..self.blocks.len() {
            let Some(next) = self.successors(from).filter(|_| is_reached[from]) else { continue };
            for next in next.into_iter().filter(|next| *next != position) {
                if next == 0 {
                    return false;
                }
                is_reached[next] = true;
            }
        }
        true
    }

    fn meet(&mut self, mut a: SymbolicRegisters, b: &SymbolicRegisters) -> SymbolicRegisters {
        for (a, b) in a.iter_mut().zip(b) {
            if a != b {
                *a = self.unknown(None);
            }
        }
        a
    }

    fn unknown(&mut self, integers: Option<Integers>) -> ModularSum {
        self.made.push(integers);
        u32::try_from(self.made.len() - 1)
            .map_or_else(|_| ModularSum::default(), |made| ModularSum::unknown(Unknown::Made(made)))
    }

    /// Executes a block and returns the registers at its end.
    fn run(&mut self, block: &Block, registers: SymbolicRegisters) -> SymbolicRegisters {
        let mut values: Vec<ModularSum> = Vec::with_capacity(block.ops.len());
        for op in &block.ops {
            let value = self.operation(block, op, &values, &registers).filter(ModularSum::is_short);
            values.push(value.unwrap_or_else(|| self.unknown(None)));
        }
        let mut after = registers;
        for (register, value) in &block.writes {
            after[register.index()] = values[value.0 as usize].clone();
        }
        self.values.push(values);
        after
    }

    fn operation(
        &mut self,
        block: &Block,
        op: &Op,
        values: &[ModularSum],
        registers: &SymbolicRegisters,
    ) -> Option<ModularSum> {
        let get = |value: Value| &values[value.0 as usize];
        match *op {
            Op::Const(number) => Some(ModularSum::constant(number)),
            Op::Read(register) => Some(registers[register.index()].clone()),
            Op::Binary(op, x, y) => match (op, get(x), get(y).number()) {
                (BinaryOp::Add, x, _) => Some(x.plus(get(y))),
                (BinaryOp::Sub, x, _) => Some(x.minus(get(y))),
                (BinaryOp::Shl, x, Some(by @ 0..63)) => Some(x.times(1 << by)),
                (BinaryOp::And, x, Some(mask)) => self.masked(x, mask),
                (BinaryOp::Lshr, _, Some(by @ 1..64)) => self.shifted_right(block, values, x, by),
                _ => None,
            },
            Op::Unary(UnaryOp::SextW, x) => self.extended(get(x), -(1 << 31), 1 << 31),
            Op::Unary(UnaryOp::ZextW, x) => self.extended(get(x), 0, 1 << 32),
            Op::Unary(UnaryOp::ZextH, x) => self.extended(get(x), 0, 1 << 16),
            Op::Load { width: Width::Byte, is_signed: false, .. } => self.below(1 << 8),
            Op::Load { width: Width::Half, is_signed: false, .. } => self.below(1 << 16),
            _ => None,
        }
    }

    /// A new unknown from 0 to below `end`.
    fn below(&mut self, end: i128) -> Option<ModularSum> {
        Some(self.unknown(Some(Integers::new(0, end - 1))))
    }

    /// `x & mask`: a new unknown below a non-negative mask, or `x` without its low bits.
    fn masked(&mut self, x: &ModularSum, mask: i64) -> Option<ModularSum> {
        let lost = i128::from(!mask);
        if mask >= 0 {
            return self.below(i128::from(mask) + 1);
        }
        let rest = if (lost + 1).count_ones() == 1 { self.below(lost + 1) } else { None };
        rest.map(|rest| x.minus(&rest))
    }

    /// `x >> by`. If `x` is a word shifted left by 32, the result is the word shifted by the difference.
    fn shifted_right(
        &mut self,
        block: &Block,
        values: &[ModularSum],
        x: Value,
        by: i64,
    ) -> Option<ModularSum> {
        if let Op::Binary(BinaryOp::Shl, word, up) = block.ops[x.0 as usize]
            && values[up.0 as usize].number() == Some(32)
            && by <= 32
            && let word = &values[word.0 as usize]
            && self.integers(word).is_some_and(|integers| integers.is_inside(0, 1 << 32))
        {
            return Some(word.times(1 << (32 - by)));
        }
        self.below(1 << (64 - by))
    }

    /// `x` with its upper bits replaced: `x` itself if it is in `[low, end)`, else a new unknown in that
    /// range.
    fn extended(&mut self, x: &ModularSum, low: i128, end: i128) -> Option<ModularSum> {
        match self.integers(x) {
            Some(integers) if integers.is_inside(low, end) => Some(x.clone()),
            _ => Some(self.unknown(Some(Integers::new(low, end - 1)))),
        }
    }

    /// The integers that a sum stands for in every iteration.
    fn integers(&self, sum: &ModularSum) -> Option<Integers> {
        let known = self.known.iter();
        let near = |(known, of): &(ModularSum, Integers)| Some(self.rest(&sum.minus(known))?.plus(*of));
        self.rest(sum).or_else(|| known.clone().find_map(near))
    }

    /// The integers that a sum without registers stands for.
    pub(super) fn rest(&self, sum: &ModularSum) -> Option<Integers> {
        sum.integers(|unknown| match unknown {
            Unknown::Made(made) => self.made[made as usize],
            _ => None,
        })
    }

    pub(super) fn value(&self, position: usize, value: Value) -> &ModularSum {
        &self.values[position][value.0 as usize]
    }

    pub(super) fn blocks(&self) -> impl Iterator<Item = (usize, &'f Block)> {
        self.blocks.iter().enumerate()
    }

    /// The change of a sum of registers from one iteration to the next, if constant.
    pub(super) fn step(&self, sum: &ModularSum) -> Option<i64> {
        sum.terms().try_fold(0_i64, |step, (unknown, factor)| match unknown {
            Unknown::Register(register) => {
                let by = self.steps[usize::from(register)]?.checked_mul(factor)?;
                step.checked_add(by)
            }
            _ => Some(step),
        })
    }
}
