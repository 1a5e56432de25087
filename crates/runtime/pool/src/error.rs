//! What can go wrong between a service and its workers, beside what the worker answers.

use std::{io, path::PathBuf};

use antares_sandbox::LayerStatus;
use rustix::io::Errno;

/// Why a job did not get as far as an answer. How a job *ends* is a [`crate::Verdict`].
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// All workers were busy until the deadline.
    #[error("all {workers_max} workers were busy until the deadline")]
    Busy {
        /// Workers alive at once.
        workers_max: usize,
    },
    /// The zygote was down and did not come back before the deadline.
    #[error("the worker zygote is down and did not come back before the deadline")]
    ZygoteLost,
    /// The worker binary cannot be executed.
    #[error("cannot execute worker {path}")]
    Start {
        /// The binary.
        path: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
    /// The worker binary did not report ready.
    #[error("worker {path} did not get ready: {detail}")]
    NotReady {
        /// The binary.
        path: PathBuf,
        /// What it did instead.
        detail: String,
    },
    /// Required layers of the sandbox do not stand on this machine.
    #[error("sandbox layers are missing: {}", list(missing))]
    LayersMissing {
        /// The missing layers.
        missing: Vec<LayerStatus>,
    },
    /// There is no such worker binary.
    #[error("worker binary {name} not found, looked for {}", paths(looked))]
    WorkerNotFound {
        /// Name of the binary.
        name: String,
        /// The paths tried.
        looked: Vec<PathBuf>,
    },
    /// The configured number of workers makes no sense.
    #[error("workers_max is {found}, it must be from 1 to {most}")]
    WorkersMax {
        /// What is configured.
        found: usize,
        /// Most that can be.
        most: usize,
    },
    /// A job is larger than a frame may be.
    #[error("a job of {bytes} bytes is over the limit of {bytes_max} bytes")]
    JobTooLarge {
        /// Bytes of the job.
        bytes: usize,
        /// Bytes allowed.
        bytes_max: usize,
    },
    /// More files beside a job than there are descriptors for.
    #[error("more than {most} libraries in a job")]
    TooManyFiles {
        /// Files allowed.
        most: usize,
    },
    /// The kernel let the zygote make no process for it: too many, or too little memory.
    #[error("no worker can be made: {detail}")]
    NotForked {
        /// What the kernel says.
        detail: String,
    },
    /// The caller took the job back.
    #[error("the job was taken back")]
    Cancelled,
    /// A call to the kernel failed.
    #[error("cannot {step}")]
    Io {
        /// What was being done.
        step: &'static str,
        /// What the kernel says.
        source: io::Error,
    },
}

/// Whether the kernel refused for want of descriptors, processes or memory, of this process or of the
/// machine: it may go well later.
#[must_use]
pub fn is_exhausted(error: &io::Error) -> bool {
    let errors = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::AGAIN];
    Errno::from_io_error(error).is_some_and(|errno| errors.contains(&errno))
}

/// The error and its causes on one line.
#[must_use]
pub fn describe(error: &dyn std::error::Error) -> String {
    std::iter::successors(error.source(), |error| error.source())
        .fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

impl PoolError {
    /// Whether a job may go well later that did not get as far as a worker.
    #[must_use]
    pub fn is_for_now(&self) -> bool {
        match self {
            Self::Busy { .. } | Self::ZygoteLost | Self::NotForked { .. } => true,
            Self::Io { source, .. } => is_exhausted(source),
            _ => false,
        }
    }

    /// For `map_err`: a kernel error while doing `step`.
    pub(crate) fn io<E: Into<io::Error>>(step: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Io { step, source: source.into() }
    }
}

fn list(missing: &[LayerStatus]) -> String {
    missing.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn paths(looked: &[PathBuf]) -> String {
    looked.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}
