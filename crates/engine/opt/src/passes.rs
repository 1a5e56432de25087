//! The table of passes, their order, and the reasons for it.
//!
//! A pass is a function over the module. It may rely on the passes that it `requires`, and its row is below
//! those of its `after` passes, which may not run (tests check both). After each pass the verifier accepts
//! the module. To add a pass, add a file whose head explains why the pass is sound, a row here at the
//! position that its reasons give, and filetests of the pass alone (`tests/filetests/passes`).

use antares_ir::Module;

use crate::{
    Context, charges, combine_loads, covered_checks, frames, hoist_checks, jump_tables, loops, polls,
    promote_calls, resumable, signatures, specialize, syscalls, unreachable,
};

/// How much to optimize.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The passes that every generator needs, and no others: each block has its own checks and charges.
    Plain,
    /// The passes that pay off in the baseline's code.
    Baseline,
    /// The passes that pay off in LLVM's code.
    Full,
}

/// A step from lifted to optimized IR.
#[derive(Debug)]
pub struct Pass {
    /// Its name, on the command line and in tests.
    pub name: &'static str,
    /// A one-line description of its effect.
    pub about: &'static str,
    /// Passes that must have run before.
    pub requires: &'static [&'static str],
    /// Passes that must not run later; this pass does not need them.
    pub after: &'static [&'static str],
    /// The levels that include it.
    pub levels: &'static [Level],
    run: fn(&mut Module, Context),
}

const EVERY: &[Level] = &[Level::Plain, Level::Baseline, Level::Full];
const OPTIMISED: &[Level] = &[Level::Baseline, Level::Full];
const FULL: &[Level] = &[Level::Full];

/// All passes, in order.
pub const PASSES: &[Pass] = &[
    // Later passes would count the reads and writes of unreachable code.
    Pass {
        name: "cut-unreachable",
        about: "cuts what follows calls that never return, and functions that end in a longjmp",
        requires: &[],
        after: &[],
        levels: OPTIMISED,
        run: |module, _| unreachable::cut(module),
    },
    // Uses constants, so unreachable code should be gone.
    Pass {
        name: "syscalls",
        about: "finds which syscalls may stop the VM or make code appear",
        requires: &[],
        after: &[],
        levels: EVERY,
        run: |module, _| syscalls::find(module),
    },
    Pass {
        name: "frames",
        about: "finds where sp stands, checks frames at entries, says which jumps may be tail calls",
        requires: &[],
        after: &[],
        levels: EVERY,
        run: |module, _| frames::find(module),
    },
    // Runs after `frames`: earlier, it would hide which loads lie in frames.
    Pass {
        name: "drop-covered-checks",
        about: "leaves out checks of loads that a check of stores in the same block covers",
        requires: &["frames"],
        after: &[],
        levels: OPTIMISED,
        run: |module, _| covered_checks::drop(module),
    },
    Pass {
        name: "combine-loads",
        about: "makes one load of bytes that lie side by side",
        requires: &[],
        after: &[],
        levels: OPTIMISED,
        run: |module, _| combine_loads::combine(module),
    },
    // Runs before passes that add blocks, since it processes all edges.
    Pass {
        name: "hoist-checks",
        about: "moves checks to where all paths need them, once",
        requires: &["frames"],
        after: &[],
        levels: OPTIMISED,
        run: |module, context| hoist_checks::hoist(module, context.target),
    },
    // By then it is known which functions restore sp.
    Pass {
        name: "promote-calls",
        about: "compares addresses of calls with the functions that are found by theirs, if they are few",
        requires: &["frames"],
        after: &[],
        levels: OPTIMISED,
        run: |module, context| promote_calls::promote_few(module, context.program),
    },
    // Full tier only: in the baseline, registers are in the state for every callee, so comparisons save
    // nothing.
    Pass {
        name: "promote-listed-calls",
        about: "compares addresses of calls with the functions in tables of the caller, if others are many",
        requires: &["frames"],
        after: &[],
        levels: FULL,
        run: |module, context| promote_calls::promote_listed(module, context.program),
    },
    // Runs after `hoist-checks`, which leaves only iteration-dependent checks in a loop, and before polls and
    // charges, which versioned loops do not have.
    Pass {
        name: "version-loops",
        about: "gives counted loops a second body without checks and polls, behind a guard",
        requires: &["hoist-checks"],
        after: &[],
        levels: &[Level::Baseline],
        run: |module, _| loops::version(module, false),
    },
    // The baseline's frame table names no inlined functions, so calls in loops remain calls there.
    Pass {
        name: "version-loops-with-calls",
        about: "the same, and inlines small functions into the second body",
        requires: &["hoist-checks"],
        after: &[],
        levels: FULL,
        run: |module, _| loops::version(module, true),
    },
    // Promoted calls count as direct calls.
    Pass {
        name: "resumable",
        about: "finds the functions that the host may enter in the middle of a run",
        requires: &["syscalls"],
        after: &[],
        levels: EVERY,
        run: |module, _| resumable::mark(module),
    },
    Pass {
        name: "place-polls",
        about: "decides which blocks poll the cycle limit",
        requires: &[],
        after: &["version-loops", "version-loops-with-calls"],
        levels: EVERY,
        run: |module, _| polls::place(module),
    },
    // A charge costs nothing where the limit is polled.
    Pass {
        name: "move-charges",
        about: "charges once what all paths through some blocks have in common",
        requires: &["place-polls"],
        after: &[],
        levels: OPTIMISED,
        run: |module, context| charges::place(module, context.target),
    },
    Pass {
        name: "signatures",
        about: "gives functions params and results by liveness over the whole program",
        requires: &["frames", "resumable"],
        after: &["promote-calls", "promote-listed-calls"],
        levels: EVERY,
        run: |module, _| signatures::sign(module),
    },
    // A copy has its original's signature without the constants. It pays off only with versioned loops.
    Pass {
        name: "specialize",
        about: "copies small functions with versioned loops for calls that pass constants",
        requires: &["signatures", "version-loops-with-calls"],
        after: &[],
        levels: FULL,
        run: |module, _| specialize::specialize(module),
    },
    // Runs after passes that copy blocks, since tables are long.
    Pass {
        name: "jump-tables",
        about: "finds the tables, in pages that never change, that jumps go through",
        requires: &["signatures"],
        after: &[],
        levels: OPTIMISED,
        run: |module, context| jump_tables::name(module, context),
    },
];

impl Pass {
    /// The pass with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        PASSES.iter().find(|pass| pass.name == name)
    }

    /// Whether it is among the passes of `level`.
    #[must_use]
    pub fn is_of(&self, level: Level) -> bool {
        self.levels.contains(&level)
    }

    /// Runs only this pass.
    ///
    /// # Panics
    /// Panics in debug builds if the verifier refuses the result.
    pub fn run(&self, module: &mut Module, context: Context) {
        (self.run)(module, context);
        if cfg!(debug_assertions) {
            let refused = antares_proof::refused_between_passes(module);
            assert!(refused.is_empty(), "after {}: {refused:?}", self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_stand_behind_those_that_they_name() {
        for (index, pass) in PASSES.iter().enumerate() {
            assert_eq!(PASSES.iter().filter(|other| other.name == pass.name).count(), 1, "{}", pass.name);
            for named in pass.requires.iter().chain(pass.after) {
                let is_before = PASSES[..index].iter().any(|other| other.name == *named);
                assert!(is_before, "{} is behind {named}", pass.name);
            }
        }
    }

    #[test]
    fn levels_have_what_their_passes_require() {
        for level in [Level::Plain, Level::Baseline, Level::Full] {
            for pass in PASSES.iter().filter(|pass| pass.is_of(level)) {
                let missing = |name: &&&str| !Pass::named(name).unwrap().is_of(level);
                assert_eq!(pass.requires.iter().find(missing), None, "{} at {level:?}", pass.name);
            }
        }
    }
}
