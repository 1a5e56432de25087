//! `antares optimise`: rewrites a script to cost fewer cycles, and runs the inputs again with it.

use std::{
    collections::BTreeMap,
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use antares_abi::{CompileOptions, Isa, Sha256Digest};
use antares_cli::{
    args::{OptimiseArgs, TargetArgs},
    commands::profile::{self, Profiled},
    failure::Failure,
    input, output,
};
use antares_optimise::Settings;
use antares_profile::Frame;
use anyhow::anyhow;
use indicatif::ProgressBar;

mod replay;
mod report;

/// Rewrites a script.
pub(crate) fn optimise(args: &OptimiseArgs) -> Result<ExitCode, Failure> {
    let until = Instant::now() + Duration::from_secs(args.budget_s);
    let elf = input::read_script(&args.elf)?;
    let inputs = inputs(&args.elf, args);
    let before = inputs.iter().map(profile::target).collect::<Result<Vec<Profiled>, Failure>>()?;
    let (runs, machine) = heat(&before, &elf, args.machine.options())?;
    let settings = Settings { machine, runs, takes_all: args.all };
    let bar = ProgressBar::new_spinner();
    let made = antares_optimise::optimise(&elf, &settings, |done, all| {
        bar.set_message(format!("pieces of code tried: {done} of {all}"));
        Instant::now() < until
    })
    .map_err(|error| Failure::Usage(error.into()))?;
    bar.finish_and_clear();
    let after =
        if args.profile.is_some() { Vec::new() } else { replay::again(&inputs, &before, &elf, &made.elf)? };
    output::write(&args.output, &made.elf)?;
    let report = report::Report::new(&made, &elf, &before, &after);
    match args.report.as_deref() {
        Some(path) => report.write(path)?,
        None => output::print(output::printable(&report.markdown()).as_bytes())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The runs that identify hot code.
fn inputs(script: &Path, args: &OptimiseArgs) -> Vec<TargetArgs> {
    let of = |elf: Option<&Path>, tx: Option<&Path>| TargetArgs {
        elf: elf.map(Path::to_owned),
        tx: tx.map(Path::to_owned),
        machine: args.machine,
        args: args.args.clone(),
        ..TargetArgs::default()
    };
    if let Some(profile) = &args.profile {
        return vec![of(Some(profile), None)];
    }
    if args.args.is_empty() {
        return args.tx.iter().map(|tx| of(None, Some(tx))).collect();
    }
    vec![of(Some(script), None)]
}

/// Execution counts of instructions of `elf`, by address.
type Runs = BTreeMap<u64, u64>;

/// Execution counts of `profiles`, and their machine.
fn heat(
    profiles: &[Profiled],
    elf: &[u8],
    options: CompileOptions,
) -> Result<(Option<Runs>, CompileOptions), Failure> {
    if profiles.is_empty() {
        return Ok((None, options));
    }
    let digest = Sha256Digest::of(elf);
    let (mut runs, mut machine) = (Runs::new(), None);
    for profiled in profiles {
        let programs = profiled.profile.programs();
        for node in profiled.profile.nodes() {
            let Frame::Code { program, pc } = node.frame else { continue };
            let Some(known) = programs.get(program.0 as usize).filter(|known| known.elf == Some(digest))
            else {
                continue;
            };
            let own = CompileOptions { vm_version: known.vm_version, isa: Isa(known.isa) };
            if *machine.get_or_insert(own) != own {
                return Err(Failure::Usage(anyhow!(
                    "the inputs run the script in two VM versions: name one"
                )));
            }
            *runs.entry(pc).or_default() += node.value.instructions;
        }
    }
    let machine = machine.ok_or_else(|| Failure::Usage(anyhow!("none of the inputs runs this script")))?;
    Ok((Some(runs), machine))
}
