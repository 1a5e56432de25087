//! The structural verifier: the rules of a module's form. The semantic verifier, in `proof`, checks claims
//! about addresses and cycles.

use antares_program::{BlockId, FunctionId, Reg, RegSet};

use crate::{Block, Function, Module, Value};

/// A rule that a module breaks, and where. The cause is a bug in the compiler, never the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{function} {block}: {rule}")]
pub struct VerifyError {
    /// Function.
    pub function: FunctionId,
    /// Block.
    pub block: BlockId,
    /// The broken rule.
    pub rule: FormRule,
}

/// The rules of a module's form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FormRule {
    /// An operand is not the value of an earlier operation. Holds the operation's index; for writes and the
    /// terminator, the number of operations.
    #[error("operation {0} uses {1} before it is given")]
    Operand(usize, Value),
    /// A target block does not exist.
    #[error("there is no {0}")]
    Target(BlockId),
    /// A called function does not exist.
    #[error("there is no {0}")]
    Callee(FunctionId),
    /// The block writes `x0`, or a register twice.
    #[error("{0} may not be written here")]
    Write(Reg),
    /// The entry block reads a register that is not a parameter.
    #[error("{0} is read and not passed in")]
    Param(Reg),
    /// A function has no blocks, or is not at the index of its id.
    #[error("the function is out of place or empty")]
    Shape,
}

/// Checks a `module` that is ready for a generator.
///
/// # Errors
/// Returns the first broken rule.
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

/// Checks all of `module` except parameters, before passes compute them.
///
/// # Errors
/// Returns the first broken rule.
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
