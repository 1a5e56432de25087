//! Lifts a program to IR: the operations, cycles and address checks of each block.
//!
//! This crate does not optimize. Every block charges its own cycles and checks its accesses, each base once.
//! Passes over the IR compute the rest: where `sp` is after calls, signatures, and polls of the cycle limit.

mod bits;
mod block;
mod function;
mod fused;
mod instruction;
mod memory;
mod shared_jumps;

use antares_ir::Module;
use antares_program::{Program, RegSet};

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

/// Lifts a program.
///
/// # Errors
/// [`LiftError::Operations`] if it takes more than `operations_max` operations, not counting checks.
pub fn lift(program: &Program, operations_max: u64) -> Result<Module, LiftError> {
    Ok(Module {
        options: program.options,
        code_start: program.code_start,
        code_end: program.code_end,
        writable: program.writable,
        // The syscalls of other programs decide this later.
        is_open: program.is_loaded_code,
        keeps_stores: program.stores_anywhere(),
        indirect_params: RegSet::EMPTY,
        indirect_changes: RegSet::EMPTY,
        functions: function::lift_functions(program, operations_max)?,
    })
}
