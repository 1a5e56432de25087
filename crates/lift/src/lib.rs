//! Program to IR: what each block does, its cycles and its address checks; text form and verifier.
//!
//! The pipeline: lift each block on its own, cut what follows calls that never return, find where `sp` stands, place the
//! checks, name what calls by address may mean, double counted loops, find where the script may go on without native code,
//! decide where the cycle limit is looked at and where cycles are charged, give each function its signature from the
//! liveness of registers across the whole program, and copy small functions for calls with numbers.
#![forbid(unsafe_code)]

mod bits;
mod block;
mod charges;
mod function;
mod fused;
mod gather;
mod hoist;
mod instruction;
mod leave;
mod liveness;
mod loops;
mod memory;
mod meter;
mod ranges;
mod returns;
mod specialize;
mod stack;
mod tables;
mod targets;
mod verify;

use antares_abi::CodeTier;
use antares_ir as ir;
use antares_program::Program;

pub use verify::{VerifyError, verify};

/// Where functions are passed and pass back more registers than this on average, most go through the state.
const PASSED_MAX: usize = 20;

/// Why a program was not lifted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LiftError {
    /// More operations than allowed.
    #[error("more than {max} IR operations")]
    Operations {
        /// Limit.
        max: u64,
    },
}

/// Lifts a program for the generator of `tier`. The baseline names no function inside of another, so calls in loops stay calls.
///
/// # Errors
/// [`LiftError::Operations`] if it takes more than `operations_max` operations.
pub fn lift(program: &Program, operations_max: u64, tier: CodeTier) -> Result<ir::Module, LiftError> {
    let module = lift_with(program, operations_max, tier, Checks::Moved)?;
    if verify::is_proved(&module) {
        return Ok(module);
    }
    debug_assert!(false, "a check was moved away from where it is needed: {:?}", verify(&module));
    lift_with(program, operations_max, tier, Checks::InTheirBlocks)
}

/// Where address checks are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Checks {
    /// As early as all paths need them, once.
    Moved,
    /// In each block for itself.
    InTheirBlocks,
}

fn lift_with(
    program: &Program,
    operations_max: u64,
    tier: CodeTier,
    checks: Checks,
) -> Result<ir::Module, LiftError> {
    let vm_version = program.options.vm_version;
    let mut drafts = function::lift_blocks(program, operations_max)?;
    returns::cut(&mut drafts);
    let habits = leave::habits(&drafts, vm_version);
    leave::widen_syscalls(&mut drafts, habits);
    let stack = stack::analyze(&drafts);
    let bounds = |access: ir::Access| access.bounds(vm_version, program.writable);
    let implied = ranges::Implied::between(bounds(ir::Access::Read), bounds(ir::Access::Write));
    let movable = (checks == Checks::Moved).then_some(implied);
    let functions = drafts
        .into_iter()
        .zip(&stack)
        .map(|(draft, stack)| draft.finish(stack, vm_version, movable))
        .collect();
    let mut module = ir::Module {
        options: program.options,
        code_start: program.code_start,
        code_end: program.code_end,
        writable: program.writable,
        is_open: habits.are_open(vm_version),
        keeps_stores: habits.loads_code,
        convention: ir::Convention::All,
        indirect_params: antares_program::RegSet::EMPTY,
        indirect_changes: antares_program::RegSet::EMPTY,
        functions,
    };
    targets::name(&mut module, program, tier);
    loops::double(&mut module, tier == CodeTier::Full);
    leave::mark_resumable(&mut module);
    meter::place(&mut module);
    charges::place(&mut module);
    liveness::sign(&mut module);
    if tier == CodeTier::Full {
        specialize::specialize(&mut module);
    }
    tables::name(&mut module, program);
    module.convention = convention(&module.functions);
    Ok(module)
}

/// The one for these functions.
fn convention(functions: &[ir::Function]) -> ir::Convention {
    let passed = functions.iter().map(|function| function.params.len() + function.results.len());
    if passed.sum::<usize>() > PASSED_MAX * functions.len() {
        ir::Convention::Arguments
    } else {
        ir::Convention::All
    }
}
