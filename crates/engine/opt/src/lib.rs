//! Optimizes IR by passes, in the order of a table. `antares-proof` proves what they claim.
//!
//! `optimize` runs the passes of a tier over a module from the lifter. The steps that every generator needs
//! (see [`Level::Plain`]) are passes too. `passes.rs` has the table, the order and its reasons.

mod charges;
mod combine_loads;
mod covered_checks;
mod frames;
mod hoist_checks;
mod jump_tables;
mod loops;
mod passes;
mod polls;
mod promote_calls;
mod ranges;
mod resumable;
mod signatures;
mod specialize;
mod syscalls;
mod unreachable;

use antares_ir::Module;
use antares_program::Program;

pub use passes::{Level, PASSES, Pass};

/// Facts about the generator for passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Maximum indirect jumps of a function with a switch each; more jumps to the same targets share one.
    pub own_switches_max: usize,
    /// Maximum blocks of functions to optimize; the generator does not optimize larger ones either.
    pub blocks_max: usize,
}

/// Facts for passes in addition to the module.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The program from which the module was lifted.
    pub program: &'a Program,
    /// The generator.
    pub target: Target,
}

/// The passes of `level`, in order.
pub fn passes(level: Level) -> impl Iterator<Item = &'static Pass> {
    PASSES.iter().filter(move |pass| pass.is_of(level))
}

/// Runs the passes of `level` over a module from the lifter.
///
/// # Panics
/// Panics in debug builds if the verifier refuses the result of a pass.
pub fn optimize(module: &mut Module, context: Context, level: Level) {
    passes(level).for_each(|pass| pass.run(module, context));
}
