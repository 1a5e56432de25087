//! Optimizes counted code, which counts its branches.

use antares_ir::Module;
use antares_opt::{Context, Level, passes};

/// The second bodies of loops process many iterations at once, and would count none of them.
const SKIPPED_PASS: &str = "version-loops";

/// Runs the passes of `level` except those that hide branches.
pub fn optimize_counted(module: &mut Module, context: Context, level: Level) {
    let kept = passes(level).filter(|pass| pass.name != SKIPPED_PASS);
    kept.for_each(|pass| pass.run(module, context));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pass_that_is_left_out_is_there() {
        assert!(passes(Level::Baseline).any(|pass| pass.name == SKIPPED_PASS));
        assert!(passes(Level::Baseline).all(|pass| !pass.requires.contains(&SKIPPED_PASS)));
    }
}
