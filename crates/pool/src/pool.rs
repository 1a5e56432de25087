//! The supervisor's view: start a pool, run and compile in it, see how it does.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use antares_sandbox::{Layer, LayerStatus};

use crate::{
    PoolError, Sealed,
    job::{CompileJob, CompileReport, RunJob, RunReport},
};

/// What a pool is made of.
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// The worker binary.
    pub worker: PathBuf,
    /// Children alive at once.
    pub workers_max: usize,
    /// Required layers whose absence is accepted.
    pub allow_degraded: Vec<Layer>,
}

/// How a job ended, as far as the supervisor can tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict<T> {
    /// The worker answered.
    Done(T),
    /// The wall-clock deadline passed; the worker was killed.
    DeadlineExceeded,
    /// The worker made a system call that its role does not allow; the kernel killed it.
    SandboxViolation {
        /// What is known about it, for people.
        detail: String,
    },
    /// The worker died, or its answer made no sense.
    WorkerLost {
        /// What is known about it, for people.
        detail: String,
    },
}

/// What a compile gave.
#[derive(Debug)]
pub struct Compiled {
    /// The worker's answer.
    pub report: CompileReport,
    /// The output, if the report is [`CompileReport::Done`]: sealed, and its digest is the report's.
    pub output: Option<Sealed>,
}

/// How a pool does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Children alive.
    pub busy: usize,
    /// Children alive at once, at most.
    pub workers_max: usize,
    /// Children started since the pool was.
    pub spawned_total: u64,
    /// Children that died without an answer.
    pub lost_total: u64,
    /// Children killed for a forbidden system call.
    pub violations_total: u64,
    /// Children killed because their deadline passed.
    pub deadline_total: u64,
    /// Times the zygote was replaced.
    pub zygote_restarts_total: u64,
    /// Process id of the zygote; none while it is being replaced.
    pub zygote_pid: Option<u32>,
}

/// A zygote and the one-shot children it forks. Cheap to clone; the last clone that is dropped ends the zygote.
#[derive(Clone, Debug)]
pub struct Pool {
    config: Arc<PoolConfig>,
}

impl Pool {
    /// Executes the worker binary as a zygote and waits for its self-test.
    ///
    /// # Errors
    /// The binary does not start or does not get ready, or a required layer of the sandbox is missing.
    pub fn start(config: PoolConfig) -> Result<Self, PoolError> {
        Ok(Self { config: Arc::new(config) })
    }

    /// Runs `job` on the script `elf` in a fresh child, with native code if `library` is given. Blocks until `deadline`
    /// at the latest (and then for as long as the kernel needs to end the child).
    ///
    /// # Errors
    /// [`PoolError::Busy`] and [`PoolError::ZygoteLost`] when no child could be had before `deadline`.
    pub fn run(
        &self,
        job: &RunJob,
        elf: &Sealed,
        library: Option<&Sealed>,
        deadline: Instant,
    ) -> Result<Verdict<RunReport>, PoolError> {
        let _ = (job, elf, library, deadline);
        Err(PoolError::Busy { workers_max: self.config.workers_max })
    }

    /// Compiles `elf` in a fresh child. Blocks as [`Pool::run`] does.
    ///
    /// # Errors
    /// As [`Pool::run`].
    pub fn compile(
        &self,
        job: &CompileJob,
        elf: &Sealed,
        deadline: Instant,
    ) -> Result<Verdict<Compiled>, PoolError> {
        let _ = (job, elf, deadline);
        Err(PoolError::Busy { workers_max: self.config.workers_max })
    }

    /// How the pool does, now.
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        PoolStats { workers_max: self.config.workers_max, ..PoolStats::default() }
    }

    /// What the start-up self-test said.
    #[must_use]
    pub fn layers(&self) -> &[LayerStatus] {
        &[]
    }
}

/// Path of the worker binary `name`: in `$ANTARES_WORKER_DIR`, or beside this executable, or one folder above it.
///
/// # Errors
/// There is none, or the path of this executable cannot be read.
pub fn worker_path(name: &str) -> Result<PathBuf, PoolError> {
    let mut looked = Vec::new();
    if let Some(folder) = std::env::var_os("ANTARES_WORKER_DIR") {
        looked.push(Path::new(&folder).join(name));
    }
    let executable = std::env::current_exe().map_err(PoolError::io("read the path of this executable"))?;
    looked.extend(executable.ancestors().skip(1).take(2).map(|folder| folder.join(name)));
    match looked.iter().find(|path| path.is_file()) {
        Some(path) => Ok(path.clone()),
        None => Err(PoolError::WorkerNotFound { name: name.to_owned(), looked }),
    }
}
