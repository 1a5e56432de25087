//! IR to better IR: passes, in the order of a table. What they claim is proved by `antares-proof`.
//!
//! `optimize` runs the passes that a tier wants over a module from the lifter. What has to be done before any
//! generator takes a module (see [`Level::Plain`]) is a pass too. The table, the order and its reasons:
//! `passes.rs`.
#![forbid(unsafe_code)]

mod analyses;
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

pub use analyses::Analyses;
pub use passes::{Level, PASSES, Pass};

/// What passes have to know of the generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// With more indirect jumps than this, those of a function to the same places share a switch.
    pub own_switches_max: usize,
    /// Functions with more blocks are not optimized by the generator either.
    pub blocks_max: usize,
}

/// What passes know beside the module.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// What the module was lifted from.
    pub program: &'a Program,
    /// The generator.
    pub target: Target,
}

/// The passes of `level`, in their order.
pub fn passes(level: Level) -> impl Iterator<Item = &'static Pass> {
    PASSES.iter().filter(move |pass| pass.is_of(level))
}

/// Runs the passes of `level` over a module from the lifter.
///
/// # Panics
/// In debug builds, if a pass leaves what the verifier refuses.
pub fn optimize(module: &mut Module, context: Context, level: Level) {
    let mut analyses = Analyses::default();
    passes(level).for_each(|pass| pass.run(module, context, &mut analyses));
}
