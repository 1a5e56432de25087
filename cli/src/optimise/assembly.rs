//! Assembly, between compiler and assembler.

use std::path::Path;

use antares_rewrite::{ASSEMBLY_BYTES_MAX, Rewrite, Statement, plan_assembly};
use anyhow::anyhow;

use crate::{
    args::OptimiseArgs,
    failure::Failure,
    input,
    optimise::{Proofs, SOLVERS, bar, report, write_questions},
    output,
};

/// Rewrites the assembly at `path`.
pub(super) fn optimise(path: &Path, args: &OptimiseArgs, proofs: &Proofs) -> Result<(), Failure> {
    let bytes = input::read(path, ASSEMBLY_BYTES_MAX as u64)?;
    let text = String::from_utf8(bytes)
        .map_err(|_| Failure::Usage(anyhow!("{} is no assembly: it is not text", path.display())))?;
    let bar = bar();
    let mut plan = plan_assembly(&text, args.machine.options(), |done, all| {
        bar.set_message(format!("windows looked at: {done} of {all}"));
        proofs.has_time_to_search()
    })
    .map_err(|error| Failure::Usage(anyhow!("{}: {error}", path.display())))?;
    let count = plan.rewrites.len();
    let ask = |statement: &Statement| proofs.ask(statement);
    plan.prove(SOLVERS, ask, |done| bar.set_message(format!("rewrites proved: {done} of {count}")));
    bar.finish_and_clear();
    write_questions(&plan.rewrites, args.smt_out.as_deref())?;
    let cheaper = plan.proved_text();
    if input::is_stdio(&args.output) {
        output::print(cheaper.as_bytes())?;
    } else {
        output::write(&args.output, cheaper.as_bytes())?;
    }
    let Some(report) = &args.report else {
        tell(&plan.rewrites);
        return Ok(());
    };
    let planned = report::Planned { rewrites: &plan.rewrites, left: &plan.left, windows: plan.windows };
    report::Report::new(&report::Made {
        planned,
        before: &[],
        after: &[],
        elf: text.as_bytes(),
        cheaper: cheaper.as_bytes(),
        solver: proofs.solver.name(),
    })
    .write(report)
}

/// A line for whoever watches a build.
fn tell(rewrites: &[Rewrite]) {
    let is_proved = |rewrite: &&Rewrite| rewrite.is_proved == Some(true);
    let proved = rewrites.iter().filter(is_proved).count();
    let saved: u64 = rewrites.iter().filter(is_proved).map(Rewrite::saved).sum();
    let text = "windows rewritten and proved, each once through";
    eprintln!("antares: {proved} of {} {text}: {saved} cycles fewer", rewrites.len());
}
