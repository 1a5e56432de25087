//! Runs scripts in sandboxed processes.

use std::{
    fmt,
    path::Path,
    time::{Duration, Instant},
};

use antares_pool::{
    Pool, PoolConfig, Sealed, Verdict,
    job::{RunJob, Tier},
};

use crate::{Error, Outcome, Run, Script, error::chain};

/// Sandboxed processes for untrusted scripts: they can only compute, even if the native code is wrong.
/// Threads may share a sandbox. Dropping it ends its processes.
pub struct Sandbox {
    pool: Pool,
}

impl Sandbox {
    /// Starts the program at `worker`, which must be the `antares-run-worker` of this version, for at most
    /// `runs_max` concurrent runs.
    ///
    /// # Errors
    /// [`Error::Sandbox`]: the program does not exist, or the system lacks a part of the sandbox. Linux with
    /// seccomp, Landlock and namespaces is required.
    pub fn start(worker: &Path, runs_max: usize) -> Result<Self, Error> {
        let pool = Pool::start(PoolConfig::new(worker.to_owned(), runs_max));
        Ok(Self { pool: pool.map_err(|error| Error::Sandbox(chain(&error)))? })
    }

    /// As [`Script::run`], in a process that ends with the run or is reused only for this script. The process
    /// is killed after the time limit `within`, in addition to the cycle limit. Arguments and debug lines are
    /// copied; the script is copied for its first run.
    ///
    /// # Errors
    /// [`Error::Sandbox`]: the run has your own system calls, which exist only in your process; it exceeded
    /// its time limit; no process was available; or its process violated the sandbox and was killed.
    pub fn run(&self, script: &Script, run: &Run, within: Duration) -> Result<Outcome, Error> {
        let refused = |why: &str| Error::Sandbox(why.to_owned());
        if run.syscalls.is_some() {
            return Err(refused("system calls of your own are run in your process alone"));
        }
        let until = Instant::now() + within;
        let (elf, library) = (sealed(script)?, script.library.as_deref());
        let job = RunJob {
            options: script.options,
            tier: if run.interprets { Tier::Interpreter } else { Tier::Auto },
            args: run.args.iter().map(|arg| arg.to_vec()).collect(),
            cycles_max: run.cycles_max,
            debug_bytes_max: run.debug_bytes_max,
            sample_cycles: 0,
            sample_salt: 0,
        };
        let library = library.filter(|_| !run.interprets);
        let verdict =
            self.pool.run(&job, elf, library, until).map_err(|error| Error::Sandbox(chain(&error)))?;
        match verdict {
            Verdict::Done(report) => Ok(report.into()),
            Verdict::DeadlineExceeded => Err(refused("the run was not over in time")),
            Verdict::SandboxViolation { detail } | Verdict::FalseReport { detail } => {
                Err(Error::Sandbox(format!("the process broke a rule, and was killed: {detail}")))
            }
            Verdict::WorkerLost { detail } => Err(Error::Sandbox(format!("the process was lost: {detail}"))),
        }
    }
}

impl fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sandbox").finish_non_exhaustive()
    }
}

/// The script's ELF in a sealed, immutable file.
fn sealed(script: &Script) -> Result<&Sealed, Error> {
    if let Some(elf) = script.sealed.get() {
        return Ok(elf);
    }
    let elf = Sealed::new("script", &script.elf).map_err(|error| Error::Sandbox(chain(&error)))?;
    Ok(script.sealed.get_or_init(|| elf))
}
