//! Workers of this machine: their start, and compiles in them.

use std::time::{Duration, Instant};

use antares_abi::{COMPILE_WALL_TIMES, CompileOptions, Hints};
use antares_pool::{
    Cancel, Layer, Pool, PoolConfig, PoolError, Sealed, Until, Verdict as PoolVerdict,
    job::{CompileJob, CompileReport, CompileSummary, Stage},
    layer_names, worker_path,
};
use anyhow::{Context as _, anyhow};

use crate::{
    failure::Failure,
    limits::{CompileLimits, WORKER_START_MAX},
    output::progress,
};

/// Layers of the sandbox that may be missing, separated by commas.
const ACCEPTED_KEY: &str = "ANTARES_ALLOW_DEGRADED";

/// Result of a compile.
#[derive(Debug)]
pub struct Compiled {
    /// Text, object or shared object, depending on the stage.
    pub output: Sealed,
    /// Statistics of the compile.
    pub summary: CompileSummary,
}

/// Compiles up to `stage` in a jailed worker.
pub fn compile(elf: &Sealed, source: (CompileOptions, &Hints), stage: Stage) -> Result<Compiled, Failure> {
    compile_in(&start("antares-compile-worker")?, elf, source, stage, &Cancel::new())
}

/// The same in a worker of `pool`; `cancel` stops it. A shared object has passed the checks required for
/// executable mapping.
pub fn compile_in(
    pool: &Pool,
    elf: &Sealed,
    (options, hints): (CompileOptions, &Hints),
    stage: Stage,
    cancel: &Cancel,
) -> Result<Compiled, Failure> {
    let limits = CompileLimits::default();
    let deadline =
        Instant::now() + Duration::from_millis(limits.wall_ms_max * COMPILE_WALL_TIMES) + WORKER_START_MAX;
    let until = Until::new(deadline, cancel);
    let job = CompileJob { options, task: stage.into(), hints: hints.clone(), limits };
    let verdict = progress::while_working("compiling", || pool.compile(&job, elf, until)).map_err(failed)?;
    let late = format!("the compile took over {} ms", limits.wall_ms_max);
    let compiled = done(verdict, "compile", "compile", late)?;
    match (compiled.report, compiled.output) {
        (CompileReport::Done(summary), Some(output)) => Ok(Compiled { output, summary }),
        (CompileReport::Done(_), None) => Err(ours("the compile worker gave no output")),
        (CompileReport::Refused { reason, detail }, _) => Err(Failure::Refused { reason, detail }),
        (CompileReport::Failed { detail }, _) => Err(ours(format!("the compile failed: {detail}"))),
    }
}

/// The answer of a worker; else a failure that names the work and the worker.
pub(crate) fn done<T>(verdict: PoolVerdict<T>, work: &str, worker: &str, late: String) -> Result<T, Failure> {
    match verdict {
        PoolVerdict::Done(answer) => Ok(answer),
        PoolVerdict::DeadlineExceeded => Err(ours(late)),
        PoolVerdict::SandboxViolation { detail } => {
            Err(ours(format!("the {work} violated the sandbox policy: {detail}")))
        }
        PoolVerdict::WorkerLost { detail } | PoolVerdict::FalseReport { detail } => {
            Err(ours(format!("the {worker} worker was lost: {detail}")))
        }
    }
}

pub fn seal(elf: &[u8]) -> Result<Sealed, Failure> {
    Sealed::new("script", elf).context("cannot keep the script in memory").map_err(Failure::Service)
}

pub fn start(worker: &str) -> Result<Pool, Failure> {
    let allow_degraded = accepted()?;
    let config = |worker| PoolConfig { allow_degraded, ..PoolConfig::new(worker, 1) };
    worker_path(worker).and_then(|worker| Pool::start(config(worker))).map_err(|error| match error {
        PoolError::LayersMissing { missing } => {
            let names = layer_names(missing.iter().map(|status| &status.layer));
            degraded(&PoolError::LayersMissing { missing }.to_string(), &names)
        }
        error @ PoolError::NotReady { .. } => {
            let why =
                "the kernel, or the filter of a container, refuses a part of the sandbox (docs/sandbox.md)";
            Failure::Service(anyhow::Error::from(error).context(why))
        }
        error => failed(error),
    })
}

/// The failure for missing layers `names`, with the next step.
pub fn degraded(text: &str, names: &str) -> Failure {
    Failure::Service(anyhow!("{text}: {ACCEPTED_KEY}={names} runs scripts without"))
}

/// The layers of the sandbox that may be missing.
///
/// # Errors
/// The environment names an unknown layer.
pub fn accepted() -> Result<Vec<Layer>, Failure> {
    let names = std::env::var(ACCEPTED_KEY).unwrap_or_default();
    let layer = |name: &str| {
        let found = Layer::ALL.into_iter().find(|layer| layer.name() == name);
        found.ok_or_else(|| {
            Failure::Usage(anyhow!("{ACCEPTED_KEY}: there is no layer {name:?} (see antares doctor)"))
        })
    };
    names.split(',').map(str::trim).filter(|name| !name.is_empty()).map(layer).collect()
}

pub fn failed(error: PoolError) -> Failure {
    Failure::Service(error.into())
}

pub fn ours(text: impl Into<String>) -> Failure {
    Failure::Service(anyhow!(text.into()))
}
