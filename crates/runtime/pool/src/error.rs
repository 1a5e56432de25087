//! Errors between a service and its workers, apart from the worker's answers.

use std::{io, path::PathBuf};

use antares_sandbox::LayerStatus;
use rustix::io::Errno;

/// Why a job has no answer. The end of a job that ran is a [`crate::Verdict`].
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// All workers were busy until the deadline.
    #[error("all {workers_max} workers were busy until the deadline")]
    Busy {
        /// Maximum concurrent workers.
        workers_max: usize,
    },
    /// There is no zygote.
    #[error("the worker zygote is down and did not come back in time")]
    ZygoteLost,
    /// The worker binary cannot be executed.
    #[error("cannot execute worker {path}")]
    Start {
        /// The binary.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The worker binary did not report ready.
    #[error("worker {path} did not get ready: {detail}")]
    NotReady {
        /// The binary.
        path: PathBuf,
        /// The actual result.
        detail: String,
    },
    /// Required layers of the sandbox are missing on this machine.
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
        /// The searched paths.
        looked: Vec<PathBuf>,
    },
    /// The configured number of workers is invalid.
    #[error("workers_max is {found}, it must be from 1 to {most}")]
    WorkersMax {
        /// Configured number.
        found: usize,
        /// Maximum number.
        most: usize,
    },
    /// A job exceeds the frame limit.
    #[error("a job of {bytes} bytes is over the limit of {bytes_max} bytes")]
    JobTooLarge {
        /// Bytes of the job.
        bytes: usize,
        /// Maximum bytes.
        bytes_max: usize,
    },
    /// Too many files for a job.
    #[error("more than {most} libraries in a job")]
    TooManyFiles {
        /// Maximum files.
        most: usize,
    },
    /// The zygote could not fork: too many processes, or too little memory.
    #[error("no worker can be made: {detail}")]
    NotForked {
        /// The kernel's error.
        detail: String,
    },
    /// The caller cancelled the job.
    #[error("the job was taken back")]
    Cancelled,
    /// A call to the kernel failed.
    #[error("cannot {step}")]
    Io {
        /// The failed operation.
        step: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

/// Whether the error is a lack of descriptors, processes or memory, of this process or of the machine: a retry
/// may succeed.
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
    /// Whether a retry of a job that did not reach a worker may succeed.
    #[must_use]
    pub fn is_for_now(&self) -> bool {
        match self {
            Self::Busy { .. } | Self::ZygoteLost | Self::NotForked { .. } => true,
            Self::Io { source, .. } => is_exhausted(source),
            _ => false,
        }
    }

    /// For `map_err`: a kernel error in the operation `step`.
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
