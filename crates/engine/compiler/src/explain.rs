//! Shows the effect of the optimizer's passes on a script.

use std::fmt::Write as _;

use antares_abi::Stage;
use antares_ir::{Block, Module, Op};
use antares_opt::{Context, Level};
use antares_program::Program;

use crate::{CompileError, Request, TARGET};

/// The IR after some passes of the full tier, or a table of statistics after each pass.
pub(crate) fn passes(program: &Program, request: &Request) -> Result<String, CompileError> {
    let mut module = antares_lift::lift(program, request.limits.operations_max)?;
    let context = Context { program, target: TARGET };
    let passes = antares_opt::passes(Level::Full);
    if let Stage::IrAfter { passes: count } = request.stage {
        passes.take(count as usize).for_each(|pass| pass.run(&mut module, context));
        return Ok(module.to_string());
    }
    let mut text = format!(
        "{:<26}{:>10}{:>8}{:>12}{:>8}{:>8}\n",
        "pass", "functions", "blocks", "operations", "checks", "polls"
    );
    line(&mut text, "(lifted)", &module);
    for pass in passes {
        pass.run(&mut module, context);
        line(&mut text, pass.name, &module);
    }
    Ok(text)
}

fn line(text: &mut String, pass: &str, module: &Module) {
    let blocks = || module.functions.iter().flat_map(|function| &function.blocks);
    let operations = || blocks().flat_map(|block| &block.ops);
    let checks = operations().filter(|op| matches!(op, Op::Check { .. })).count();
    let polls = blocks().filter(|block: &&Block| block.is_metered).count();
    let (functions, blocks, operations) = (module.functions.len(), blocks().count(), operations().count());
    let _ = writeln!(text, "{pass:<26}{functions:>10}{blocks:>8}{operations:>12}{checks:>8}{polls:>8}");
}
