//! Program to IR: what each block does, its cycles, its address checks.
//!
//! Nothing is optimised here: every block checks what it accesses, each base once, and charges its own
//! cycles. What runs need beside (where `sp` stands, signatures, polls of the cycle limit) is found out by
//! passes over the IR.
#![forbid(unsafe_code)]

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
        // The syscalls of other programs tell.
        is_open: program.is_loaded_code,
        keeps_stores: program.stores_anywhere(),
        indirect_params: RegSet::EMPTY,
        indirect_changes: RegSet::EMPTY,
        functions: function::lift_functions(program, operations_max)?,
    })
}
