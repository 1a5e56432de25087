//! The structural verifier: the rules of a module's form. What it claims about addresses and cycles is for [`crate::proof`].

use antares_ir::{Block, Function, Module, Op, Terminator, Value};
use antares_program::{BlockId, FunctionId, Reg, RegSet};

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
pub(crate) fn verify(module: &Module) -> Result<(), VerifyError> {
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
            place.writes()?;
            place.targets()?;
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
