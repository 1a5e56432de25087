//! The verifier: rules that every module keeps, looked at before code is generated from it.

use std::collections::HashMap;

use antares_ir::{Access, Block, Cfg, Function, Module, Op, Terminator, Value};
use antares_program::{BlockId, FunctionId, Reg, RegSet};

use crate::{
    charges,
    ranges::{self, Both, Facts, Implied, Range, Summary},
};

/// How often what holds at a block may be looked at: more than where checks are placed.
const VISITS_MAX: u32 = 8192;

/// A rule that a module breaks, and where. This is our mistake, never the input's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// An operand is no value that was given before.
    #[error("{function} {block}: operation {operation} uses {value:?} before it is given")]
    Operand {
        /// Function.
        function: FunctionId,
        /// Block.
        block: BlockId,
        /// Index of the operation, or the number of operations for writes and the terminator.
        operation: usize,
        /// The operand.
        value: Value,
    },
    /// A block that does not exist.
    #[error("{function} {block}: there is no {target}")]
    Target {
        /// Function.
        function: FunctionId,
        /// Block.
        block: BlockId,
        /// What it goes to.
        target: BlockId,
    },
    /// A function that does not exist.
    #[error("{function} {block}: there is no {callee}")]
    Callee {
        /// Function.
        function: FunctionId,
        /// Block.
        block: BlockId,
        /// What it calls.
        callee: FunctionId,
    },
    /// `x0` is written, or a register twice.
    #[error("{function} {block}: {register} may not be written here")]
    Write {
        /// Function.
        function: FunctionId,
        /// Block.
        block: BlockId,
        /// The register.
        register: Reg,
    },
    /// The entry block reads a register that is not passed in.
    #[error("{function}: {register} is read and not passed in")]
    Param {
        /// Function.
        function: FunctionId,
        /// The register.
        register: Reg,
    },
    /// A memory access without a check before it.
    #[error("{function} {block}: operation {operation} has no address check before it")]
    Unchecked {
        /// Function.
        function: FunctionId,
        /// Block.
        block: BlockId,
        /// Index of the operation.
        operation: usize,
    },
    /// An address check is left out, and not all that comes before has seen to it.
    #[error("{function} {block}: operation {operation} is not proved")]
    Unproved {
        /// Function.
        function: FunctionId,
        /// Block.
        block: BlockId,
        /// Index of the operation.
        operation: usize,
    },
    /// What was charged is not what was used, whichever way led here.
    #[error("{function} {block}: cycles do not come out even")]
    Charged {
        /// Function.
        function: FunctionId,
        /// Block.
        block: BlockId,
    },
    /// A function without blocks, or not at the index of its id.
    #[error("{function} is out of place or empty")]
    Shape {
        /// Function.
        function: FunctionId,
    },
}

/// Checks `module`.
///
/// # Errors
/// The first rule broken.
pub fn verify(module: &Module) -> Result<(), VerifyError> {
    verify_unsigned(module)?;
    for function in &module.functions {
        let reads = function.blocks[0].ops.iter().filter_map(|op| match op {
            Op::Read(register) => Some(*register),
            _ => None,
        });
        for register in reads {
            if !function.params.has(register) {
                return Err(VerifyError::Param { function: function.id, register });
            }
        }
    }
    Ok(())
}

/// Checks all of `module` but what functions are passed, before that is found out.
pub(crate) fn verify_unsigned(module: &Module) -> Result<(), VerifyError> {
    for (index, function) in module.functions.iter().enumerate() {
        if function.id.0 as usize != index || function.blocks.is_empty() {
            return Err(VerifyError::Shape { function: function.id });
        }
        for (number, block) in (0..).zip(&function.blocks) {
            let place = Place { module, function, id: BlockId(number), block };
            place.operands()?;
            place.accesses()?;
            place.writes()?;
            place.targets()?;
        }
        if let Some(block) = charges::mistake(function) {
            let block = BlockId(u32::try_from(block).unwrap_or(u32::MAX));
            return Err(VerifyError::Charged { function: function.id, block });
        }
        proofs(module, function)?;
    }
    Ok(())
}

/// Every check that is left out holds because of checks that come before on all paths. Those of counted loops stand on
/// what the block in front asks, and are not looked at.
fn proofs(module: &Module, function: &Function) -> Result<(), VerifyError> {
    let is_proved = |op: &Op| matches!(op, Op::Proved { .. });
    if !function.blocks.iter().any(|block| !block.is_bounded && block.ops.iter().any(is_proved)) {
        return Ok(());
    }
    let implied = Implied::of(module);
    let summary =
        |block: &Block| Summary::new(&block.ops, block.ops.iter(), &block.writes, &block.terminator);
    let summaries: Vec<Summary> = function.blocks.iter().map(summary).collect();
    let cfg = Cfg::of(&function.blocks);
    let own: Vec<Facts> = summaries.iter().map(|summary| summary.own).collect();
    let entry = ranges::at_entry(function.frame_low, implied);
    let before = ranges::solve(&summaries, &cfg, &own, &entry, (implied, VISITS_MAX));
    for ((number, block), before) in (0..).zip(&function.blocks).zip(&before) {
        let Some(before) = before.as_ref().filter(|_| !block.is_bounded) else { continue };
        for (operation, op) in block.ops.iter().enumerate() {
            let Op::Proved { access, base, low, high } = *op else { continue };
            let Op::Read(register) = block.ops[base.0 as usize] else {
                return Err(VerifyError::Unproved {
                    function: function.id,
                    block: BlockId(number),
                    operation,
                });
            };
            let known = implied.all(before[register.index()]).get(access);
            if Range::new(low, high).is_empty() || !known.covers(Range::new(low, high)) {
                return Err(VerifyError::Unproved {
                    function: function.id,
                    block: BlockId(number),
                    operation,
                });
            }
        }
    }
    Ok(())
}

struct Place<'a> {
    module: &'a Module,
    function: &'a Function,
    id: BlockId,
    block: &'a Block,
}

impl Place<'_> {
    fn operands(&self) -> Result<(), VerifyError> {
        let ops = &self.block.ops;
        let check = |operation: usize, value: Value| {
            let given = (value.0 as usize) < operation && ops[value.0 as usize].has_value();
            let (function, block) = (self.function.id, self.id);
            if given { Ok(()) } else { Err(VerifyError::Operand { function, block, operation, value }) }
        };
        for (operation, op) in ops.iter().enumerate() {
            let mut operands = Vec::new();
            let _same = op.map(|value| {
                operands.push(value);
                value
            });
            operands.into_iter().try_for_each(|value| check(operation, value))?;
        }
        self.block.writes.iter().try_for_each(|(_, value)| check(ops.len(), *value))?;
        self.block.terminator.values().into_iter().try_for_each(|value| check(ops.len(), value))
    }

    /// Every access has a check of the same base before it that covers it, or lies in the checked stack frame.
    fn accesses(&self) -> Result<(), VerifyError> {
        let ops = &self.block.ops;
        let mut checks: HashMap<Value, Vec<(Access, i64, i64)>> = HashMap::new();
        for (operation, op) in ops.iter().enumerate() {
            if let Op::Check { access, base, low, high } | Op::Proved { access, base, low, high } = *op {
                let known = checks.entry(base).or_default();
                known.push((access, low, high));
                let follows = Implied::of(self.module).all(Both::of(access, Range::new(low, high)));
                known.extend(follows.iter().map(|(access, range)| (access, range.low(), range.high())));
            }
            let (base, offset, width, needs_write) = match *op {
                Op::Load { base, offset, width, .. } => (base, offset, width, false),
                Op::Store { base, offset, width, .. } => (base, offset, width, true),
                _ => continue,
            };
            let is_covered = checks.get(&base).into_iter().flatten().any(|&(access, low, high)| {
                low <= offset
                    && offset.wrapping_add(width.bytes()) <= high
                    && (access == Access::Write || !needs_write)
            });
            let is_frame = self.function.frame_low.is_some() && ops[base.0 as usize] == Op::Read(Reg::SP);
            if !is_covered && !is_frame {
                return Err(VerifyError::Unchecked { function: self.function.id, block: self.id, operation });
            }
        }
        Ok(())
    }

    fn writes(&self) -> Result<(), VerifyError> {
        let mut seen = RegSet::EMPTY;
        for &(register, _) in &self.block.writes {
            if register == Reg::ZERO || seen.has(register) {
                return Err(VerifyError::Write { function: self.function.id, block: self.id, register });
            }
            seen = seen.with(register);
        }
        Ok(())
    }

    fn targets(&self) -> Result<(), VerifyError> {
        let (function, block) = (self.function.id, self.id);
        for target in self.block.terminator.successors() {
            if target.0 as usize >= self.function.blocks.len() {
                return Err(VerifyError::Target { function, block, target });
            }
        }
        if let Terminator::Call { callee, .. } | Terminator::TailCall { callee, .. } = self.block.terminator
            && callee.0 as usize >= self.module.functions.len()
        {
            return Err(VerifyError::Callee { function, block, callee });
        }
        Ok(())
    }
}
