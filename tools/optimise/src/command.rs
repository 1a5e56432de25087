//! `antares optimise`: a script that costs fewer cycles. A solver proves each change, and the inputs run again.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use antares_abi::{CompileOptions, Isa, Sha256Digest};
use antares_cli::{
    args::{CredentialArgs, OptimiseArgs, TargetArgs},
    failure::Failure,
    input, output,
    profile::{self, Profiled},
    workers::ours,
};
use antares_optimise::{Rewrite, RewriteError, Settings, Solver, SolverAnswer, Statement, plan};
use antares_profile::Frame;
use anyhow::{Context as _, anyhow};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

mod replay;
mod report;

/// Solvers at work at once.
const SOLVERS: usize = 2;

/// Rewrites a script.
pub(crate) fn optimise(args: &OptimiseArgs) -> Result<ExitCode, Failure> {
    let proofs = Proofs::new(args)?;
    let elf = input::read_script(&args.elf)?;
    let inputs = inputs(&args.elf, args);
    let before = inputs.iter().map(profile::target).collect::<Result<Vec<Profiled>, Failure>>()?;
    let (runs, options) = heat(&before, &elf, args.machine.options())?;
    let settings =
        Settings { runs, takes_all: args.all, may_read_itself: args.reads_itself, may_grow: args.grow };
    let bar = bar();
    let mut plan = plan(&elf, options, &settings, |done, all| {
        bar.set_message(format!("windows looked at: {done} of {all}"));
        proofs.has_time_to_search()
    })
    .map_err(refused)?;
    let count = plan.rewrites.len();
    let ask = |statement: &Statement| proofs.ask(statement);
    plan.prove(SOLVERS, ask, |done| bar.set_message(format!("rewrites proved: {done} of {count}")));
    bar.finish_and_clear();
    write_questions(&plan.rewrites, args.smt_out.as_deref())?;
    let cheaper = plan.proved_elf();
    let after =
        if args.profile.is_some() { Vec::new() } else { replay::again(&inputs, &before, &elf, &cheaper)? };
    output::write(&args.output, &cheaper)?;
    let report = report::Report::new(&report::Made {
        planned: report::Planned { rewrites: &plan.rewrites, left: &plan.left, windows: plan.windows },
        before: &before,
        after: &after,
        elf: &elf,
        cheaper: &cheaper,
        solver: proofs.solver.name(),
    });
    match args.report.as_deref() {
        Some(path) => report.write(path)?,
        None => output::print(output::printable(&report.markdown()).as_bytes())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Who proves, and until when.
struct Proofs {
    solver: Solver,
    second: Option<Solver>,
    searches_until: Instant,
}

impl Proofs {
    fn new(args: &OptimiseArgs) -> Result<Self, Failure> {
        // Half of the time is for proofs: without one, what was found is worth nothing.
        let (start, budget) = (Instant::now(), Duration::from_secs(args.budget_s));
        let solver = find_solver(args.solver.as_deref())?;
        let second = args.second_solver.as_deref().map(|name| find_solver(Some(name))).transpose()?;
        let solver = if args.no_cache { solver } else { cached(solver) }.until(start + budget);
        Ok(Self { solver, second, searches_until: start + budget / 2 })
    }

    fn has_time_to_search(&self) -> bool {
        Instant::now() < self.searches_until
    }

    fn ask(&self, statement: &Statement) -> SolverAnswer {
        match (self.solver.prove(statement), &self.second) {
            (SolverAnswer::Proved { took, is_cached, proof }, Some(second)) => match second.check(&proof) {
                Ok(()) => SolverAnswer::Proved { took, is_cached, proof },
                Err(said) => SolverAnswer::Refused { said: format!("{}: {said}", second.name()) },
            },
            (answer, _) => answer,
        }
    }
}

fn find_solver(name: Option<&str>) -> Result<Solver, Failure> {
    Solver::find(name).ok_or_else(|| {
        let name = name.unwrap_or("z3, cvc5 or bitwuzla");
        Failure::Usage(anyhow!(
            "no solver {name} on the PATH: install one, on Debian with `apt-get install z3`"
        ))
    })
}

/// The solver with proofs of earlier runs, if this user has a place for them.
fn cached(solver: Solver) -> Solver {
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let folder =
        env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute()).or_else(home);
    match folder {
        Some(folder) => solver.with_cache(&folder.join("antares").join("proofs")),
        None => solver,
    }
}

fn refused(error: RewriteError) -> Failure {
    match error {
        RewriteError::ReadsItself { .. } => {
            Failure::Usage(anyhow!("{error}; --reads-itself rewrites it all the same"))
        }
        other => Failure::Usage(other.into()),
    }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
        bar.set_style(style);
    }
    bar
}

/// What is run to see what is hot.
fn inputs(script: &Path, args: &OptimiseArgs) -> Vec<TargetArgs> {
    let of = |elf: Option<&Path>, tx: Option<&Path>| TargetArgs {
        elf: elf.map(Path::to_owned),
        tx: tx.map(Path::to_owned),
        server: None,
        credentials: CredentialArgs::default(),
        window_ms: None,
        vm_version: args.machine.vm_version,
        isa: args.machine.isa,
        max_cycles: None,
        deadline_ms: None,
        args: args.args.clone(),
    };
    if let Some(profile) = &args.profile {
        return vec![of(Some(profile), None)];
    }
    if args.args.is_empty() {
        return args.tx.iter().map(|tx| of(None, Some(tx))).collect();
    }
    vec![of(Some(script), None)]
}

/// How many times instructions of `elf` were executed, by address.
type Runs = BTreeMap<u64, u64>;

/// How often what ran in `profiles`, and for which machine.
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
                let text = "the inputs run the script in two VM versions: take those of one at a time";
                return Err(Failure::Usage(anyhow!(text)));
            }
            *runs.entry(pc).or_default() += node.value.instructions;
        }
    }
    let machine = machine.ok_or_else(|| Failure::Usage(anyhow!("none of the inputs runs this script")))?;
    Ok((Some(runs), machine))
}

fn write_questions(rewrites: &[Rewrite], folder: Option<&Path>) -> Result<(), Failure> {
    let Some(folder) = folder else { return Ok(()) };
    fs::create_dir_all(folder)
        .with_context(|| format!("cannot make {}", folder.display()))
        .map_err(Failure::Usage)?;
    for rewrite in rewrites {
        let whole = rewrite.statement.as_ref().map(Statement::whole);
        for (text, name) in [(whole, "whole"), (rewrite.proof.as_deref(), "proof")] {
            let Some(text) = text else { continue };
            output::write(&folder.join(format!("{:#x}-{name}.smt2", rewrite.pc)), text.as_bytes())?;
        }
    }
    Ok(())
}

/// A failure of the rewritten script, which is a mistake of ours.
fn differs(detail: &str) -> Failure {
    ours(format!("the rewritten script behaves differently, nothing is written: {detail}"))
}
