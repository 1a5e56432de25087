//! The structural verifier: the rules of a module's form. What it claims about addresses and cycles is for
//! the semantic one, in `proof`.

use antares_program::{BlockId, FunctionId, Reg, RegSet};

use crate::{Block, Function, Module, Value};

/// A rule that a module breaks, and where. This is our mistake, never the input's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{function} {block}: {rule}")]
pub struct VerifyError {
    /// Function.
    pub function: FunctionId,
    /// Block.
    pub block: BlockId,
    /// What is not as it must be.
    pub rule: FormRule,
}

/// The rules of a module's form, as far as they are broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FormRule {
    /// An operand is no value that was given before; the index of the operation, or their number for writes
    /// and the terminator.
    #[error("operation {0} uses {1} before it is given")]
    Operand(usize, Value),
    /// A block that does not exist.
    #[error("there is no {0}")]
    Target(BlockId),
    /// A function that does not exist.
    #[error("there is no {0}")]
    Callee(FunctionId),
    /// `x0` is written, or a register twice.
    #[error("{0} may not be written here")]
    Write(Reg),
    /// The entry block reads a register that is not passed in.
    #[error("{0} is read and not passed in")]
    Param(Reg),
    /// A function without blocks, or not at the index of its id.
    #[error("the function is out of place or empty")]
    Shape,
}

/// Checks `module`, which is ready for a generator.
///
/// # Errors
/// The first rule broken.
pub fn verify(module: &Module) -> Result<(), VerifyError> {
    verify_unsigned(module)?;
    for function in &module.functions {
        if let Some(register) = function.blocks[0].reads().find(|register| !function.params.has(*register)) {
            let rule = FormRule::Param(register);
            return Err(VerifyError { function: function.id, block: BlockId(0), rule });
        }
    }
    Ok(())
}

/// Checks all of `module` but what functions are passed, before that is found out.
///
/// # Errors
/// The first rule broken.
pub fn verify_unsigned(module: &Module) -> Result<(), VerifyError> {
    for (index, function) in module.functions.iter().enumerate() {
        let broken = |block, rule| VerifyError { function: function.id, block, rule };
        if function.id.0 as usize != index || function.blocks.is_empty() {
            return Err(broken(BlockId(0), FormRule::Shape));
        }
        for (number, block) in (0..).map(BlockId).zip(&function.blocks) {
            let checked =
                operands(block).and_then(|()| writes(block)).and_then(|()| targets(module, function, block));
            checked.map_err(|rule| broken(number, rule))?;
        }
    }
    Ok(())
}

fn operands(block: &Block) -> Result<(), FormRule> {
    let check = |operation: usize, value: Value| {
        let is_given = (value.0 as usize) < operation && block.op(value).has_value();
        if is_given { Ok(()) } else { Err(FormRule::Operand(operation, value)) }
    };
    for (operation, op) in block.ops.iter().enumerate() {
        op.operands().into_iter().try_for_each(|value| check(operation, value))?;
    }
    let end = block.ops.len();
    block.writes.iter().try_for_each(|(_, value)| check(end, *value))?;
    block.terminator.values().try_for_each(|value| check(end, value))
}

fn writes(block: &Block) -> Result<(), FormRule> {
    let mut seen = RegSet::EMPTY;
    for &(register, _) in &block.writes {
        if register == Reg::ZERO || seen.has(register) {
            return Err(FormRule::Write(register));
        }
        seen = seen.with(register);
    }
    Ok(())
}

fn targets(module: &Module, function: &Function, block: &Block) -> Result<(), FormRule> {
    let is_missing = |target: &BlockId| target.0 as usize >= function.blocks.len();
    if let Some(target) = block.terminator.successors().find(is_missing) {
        return Err(FormRule::Target(target));
    }
    let callee = block.terminator.callee().filter(|callee| callee.0 as usize >= module.functions.len());
    callee.map_or(Ok(()), |callee| Err(FormRule::Callee(callee)))
}
