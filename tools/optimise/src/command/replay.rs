//! Runs the inputs again with the rewritten script: everything except cycles must be equal.

use std::{fs, path::PathBuf};

use antares_cli::{
    args::TargetArgs,
    commands::profile::{self, Instead, Profiled},
    failure::Failure,
    local::workers::ours,
};
use anyhow::Context as _;

/// Runs `inputs` with `cheaper` instead of `elf`; fails if one ends differently from `before`.
pub(crate) fn again(
    inputs: &[TargetArgs],
    before: &[Profiled],
    elf: &[u8],
    cheaper: &[u8],
) -> Result<Vec<Profiled>, Failure> {
    let folder = tempfile::tempdir().context("no temporary folder").map_err(Failure::Usage)?;
    let path = folder.path().join("cheaper");
    fs::write(&path, cheaper).context("cannot write a temporary file").map_err(Failure::Usage)?;
    let mut after = Vec::new();
    for (input, before) in inputs.iter().zip(before) {
        let now = match &input.tx {
            Some(tx) => profile::transaction_with(tx, Instead { of: elf, elf: cheaper }, &same(input, None))?,
            None => profile::target(&same(input, Some(path.clone())))?,
        };
        let [was, is] = [before, &now].map(|run| (end(&run.outcome), run.ending.as_str()));
        if was != is {
            let [was, is] = [was, is].map(|(outcome, ending)| format!("{outcome}; {ending}"));
            return Err(ours(format!(
                "nothing is written: the script ended with \"{is}\" instead of \"{was}\""
            )));
        }
        after.push(now);
    }
    Ok(after)
}

fn same(input: &TargetArgs, elf: Option<PathBuf>) -> TargetArgs {
    TargetArgs { elf, machine: input.machine, args: input.args.clone(), ..TargetArgs::default() }
}

/// The outcome of a run without its cycles.
fn end(outcome: &str) -> &str {
    outcome.split_once(" cycles; ").map_or(outcome, |(_, end)| end)
}
