//! The first run of a script with a long compile: the interpreter starts, the compile follows, and the first
//! to finish wins. Later runs wait for native code.

use std::{
    sync::mpsc,
    time::{Duration, Instant},
};

use antares_abi::CompileOptions;
use antares_pool::{
    COMPILE_HEAD_START, Cancel, Pool, Sealed, Until, Verdict as PoolVerdict,
    job::{RunJob, RunReport},
};

use crate::{
    failure::Failure,
    local::native::{Code, Native, join},
    local::workers::{failed, ours, start},
};

/// The winner.
pub(crate) enum First {
    /// The interpreter finished. The compile was cancelled or failed.
    Interpreter(PoolVerdict<RunReport>, Option<Failure>),
    /// Native code was ready. The run was cancelled; its worker's pool is free.
    Compiler(Pool, Native),
}

/// Runs `job` in the interpreter within `time` while native code is compiled.
pub(crate) fn run(
    code: &Code,
    (elf, options): (&Sealed, CompileOptions),
    job: &RunJob,
    time: Duration,
) -> Result<First, Failure> {
    let (run, compile) = (Cancel::new(), Cancel::new());
    let (ended, is_ended) = mpsc::channel::<()>();
    let interpret = || {
        // Dropped on every exit.
        let _ended = ended;
        let pool = start("antares-run-worker")?;
        let verdict = pool.run(job, elf, None, Until::new(Instant::now() + time, &run));
        if matches!(verdict, Ok(PoolVerdict::Done(_))) {
            compile.cancel();
        }
        Ok((pool, verdict))
    };
    let find = || {
        // Nothing is ever sent. A run that ends within the head start needs no compile.
        let _ = is_ended.recv_timeout(COMPILE_HEAD_START);
        let found = if compile.is_cancelled() {
            Err(ours("the compile was taken back"))
        } else {
            code.find_until(elf, options, &compile)
        };
        if found.is_ok() {
            run.cancel();
        }
        (found, compile.is_cancelled())
    };
    let (interpreted, (found, is_taken_back)) = join(interpret, find);
    let (pool, verdict) = interpreted?;
    Ok(match (verdict, found) {
        (Ok(verdict @ PoolVerdict::Done(_)), Ok(_)) => First::Interpreter(verdict, None),
        // Native code may finish in time where the interpreter does not.
        (_, Ok(native)) => First::Compiler(pool, native),
        (verdict, Err(failure)) => {
            First::Interpreter(verdict.map_err(failed)?, (!is_taken_back).then_some(failure))
        }
    })
}
