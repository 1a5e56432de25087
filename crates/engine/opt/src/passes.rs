//! The table of passes: their order, and why it is so.
//!
//! A pass is a function over the module. It may count on the passes that it `requires`, and stands below
//! those that it runs `after`, where they run (tests look at both). After each of them the verifier accepts
//! the module. To add one: a
//! file with the pass, whose head says why it is sound; a line here, at the place that its reasons give;
//! filetests of the pass alone (`tests/filetests/passes`).

use antares_ir::Module;

use crate::{
    Analyses, Context, charges, combine_loads, covered_checks, frames, hoist_checks, jump_tables, loops,
    polls, promote_calls, resumable, signatures, specialize, syscalls, unreachable,
};

/// How much is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// What every module needs before code is generated from it, and nothing else: each block has its own
    /// checks and charges.
    Plain,
    /// What pays in the baseline's code.
    Baseline,
    /// What pays in LLVM's.
    Full,
}

/// A step on the way from lifted to optimised IR.
#[derive(Debug)]
pub struct Pass {
    /// Its name, on the command line and in tests.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// Passes that must have run before.
    pub requires: &'static [&'static str],
    /// Passes that must not run behind it; it does without them.
    pub after: &'static [&'static str],
    /// The levels that it is of.
    pub levels: &'static [Level],
    /// Whether blocks, and the edges between them, stay as they are.
    keeps_flow: bool,
    run: fn(&mut Module, Context, &mut Analyses),
}

const EVERY: &[Level] = &[Level::Plain, Level::Baseline, Level::Full];
const OPTIMISED: &[Level] = &[Level::Baseline, Level::Full];
const FULL: &[Level] = &[Level::Full];

/// All passes, in their order.
pub const PASSES: &[Pass] = &[
    // What is cut off here would be read and written for by everything else.
    Pass {
        name: "cut-unreachable",
        about: "cuts what follows calls that never return, and functions that end in a longjmp",
        requires: &[],
        after: &[],
        levels: OPTIMISED,
        keeps_flow: false,
        run: |module, _, _| unreachable::cut(module),
    },
    // Goes by constants: those of code that was cut off do not count.
    Pass {
        name: "syscalls",
        about: "finds which syscalls may stop the VM or make code appear",
        requires: &[],
        after: &[],
        levels: EVERY,
        keeps_flow: true,
        run: |module, _, _| syscalls::find(module),
    },
    Pass {
        name: "frames",
        about: "finds where sp stands, checks frames at entries, says which jumps may be tail calls",
        requires: &[],
        after: &[],
        levels: EVERY,
        keeps_flow: true,
        run: |module, _, analyses| frames::find(module, analyses),
    },
    // Before frames, it would hide which loads lie in them.
    Pass {
        name: "drop-covered-checks",
        about: "leaves out checks of loads that a check of stores in the same block covers",
        requires: &["frames"],
        after: &[],
        levels: OPTIMISED,
        keeps_flow: true,
        run: |module, _, _| covered_checks::drop(module),
    },
    Pass {
        name: "combine-loads",
        about: "makes one load of bytes that lie side by side",
        requires: &[],
        after: &[],
        levels: OPTIMISED,
        keeps_flow: true,
        run: |module, _, _| combine_loads::combine(module),
    },
    // Before what adds blocks: it goes over all edges.
    Pass {
        name: "hoist-checks",
        about: "moves checks to where all paths need them, once",
        requires: &["frames"],
        after: &[],
        levels: OPTIMISED,
        keeps_flow: false,
        run: |module, context, _| hoist_checks::hoist(module, context.target),
    },
    // Who gives sp back is known by then.
    Pass {
        name: "promote-calls",
        about: "compares addresses of calls with the functions that are found by theirs, if they are few",
        requires: &["frames"],
        after: &[],
        levels: OPTIMISED,
        keeps_flow: false,
        run: |module, context, _| promote_calls::promote_few(module, context.program),
    },
    // The baseline's registers are in the state whoever is called: an order of comparisons would save it
    // nothing.
    Pass {
        name: "promote-listed-calls",
        about: "compares addresses of calls with the functions in tables of the caller, if others are many",
        requires: &["frames"],
        after: &[],
        levels: FULL,
        keeps_flow: false,
        run: |module, context, _| promote_calls::promote_listed(module, context.program),
    },
    // Behind `hoist-checks`, which leaves in a loop only what differs from iteration to iteration; before
    // polls and charges, since versioned loops have neither.
    Pass {
        name: "version-loops",
        about: "gives counted loops a second body without checks and polls, behind a guard",
        requires: &["hoist-checks"],
        after: &[],
        levels: &[Level::Baseline],
        keeps_flow: false,
        run: |module, _, _| loops::version(module, false),
    },
    // The baseline names no function inside of another, so calls in loops stay calls there.
    Pass {
        name: "version-loops-with-calls",
        about: "the same, and inlines small functions into the second body",
        requires: &["hoist-checks"],
        after: &[],
        levels: FULL,
        keeps_flow: false,
        run: |module, _, _| loops::version(module, true),
    },
    // Promoted calls count as calls of what they name.
    Pass {
        name: "resumable",
        about: "finds the functions that the host may enter in the middle of a run",
        requires: &["syscalls"],
        after: &[],
        levels: EVERY,
        keeps_flow: true,
        run: |module, _, _| resumable::mark(module),
    },
    Pass {
        name: "place-polls",
        about: "decides which blocks poll the cycle limit",
        requires: &[],
        after: &["version-loops", "version-loops-with-calls"],
        levels: EVERY,
        keeps_flow: true,
        run: |module, _, analyses| polls::place(module, analyses),
    },
    // A charge costs nothing where the limit is polled.
    Pass {
        name: "move-charges",
        about: "charges once what all paths through some blocks have in common",
        requires: &["place-polls"],
        after: &[],
        levels: OPTIMISED,
        keeps_flow: true,
        run: |module, context, analyses| charges::place(module, context.target, analyses),
    },
    Pass {
        name: "signatures",
        about: "gives functions params and results by liveness over the whole program",
        requires: &["frames", "resumable"],
        after: &["promote-calls", "promote-listed-calls"],
        levels: EVERY,
        keeps_flow: true,
        run: |module, _, analyses| signatures::sign(module, analyses),
    },
    // A copy has its original's signature without the constants. Every copy has the versioned loops that make
    // it worth it.
    Pass {
        name: "specialize",
        about: "copies small functions with versioned loops for calls that pass constants",
        requires: &["signatures", "version-loops-with-calls"],
        after: &[],
        levels: FULL,
        keeps_flow: false,
        run: |module, _, _| specialize::specialize(module),
    },
    // Behind all that copies blocks: a table is long.
    Pass {
        name: "jump-tables",
        about: "finds the tables, in pages that never change, that jumps go through",
        requires: &["signatures"],
        after: &[],
        levels: OPTIMISED,
        keeps_flow: true,
        run: |module, context, _| jump_tables::name(module, context),
    },
];

impl Pass {
    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        PASSES.iter().find(|pass| pass.name == name)
    }

    /// Whether it is among the passes of `level`.
    #[must_use]
    pub fn is_of(&self, level: Level) -> bool {
        self.levels.contains(&level)
    }

    /// Runs it alone.
    ///
    /// # Panics
    /// In debug builds, if it leaves what the verifier refuses, or does not keep what it says it keeps.
    pub fn run(&self, module: &mut Module, context: Context, analyses: &mut Analyses) {
        (self.run)(module, context, analyses);
        if !self.keeps_flow {
            analyses.forget_flow();
        }
        if cfg!(debug_assertions) {
            let refused = antares_proof::refused_between_passes(module);
            assert!(refused.is_empty(), "after {}: {refused:?}", self.name);
            assert!(analyses.are_of(module), "{} changes what it says it keeps", self.name);
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
