//! What became of a job: what its worker's answer or end means, and whether the worker may do another one.

use crate::job::{DEBUG_LINES_MAX, Lines};

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

impl<T> Verdict<T> {
    /// The verdict with another answer.
    pub fn map<U>(self, answer: impl FnOnce(T) -> U) -> Verdict<U> {
        match self {
            Self::Done(report) => Verdict::Done(answer(report)),
            Self::DeadlineExceeded => Verdict::DeadlineExceeded,
            Self::SandboxViolation { detail } => Verdict::SandboxViolation { detail },
            Self::WorkerLost { detail } => Verdict::WorkerLost { detail },
        }
    }

    /// What `next` makes of the answer, if there is one.
    ///
    /// # Errors
    /// Those of `next`.
    pub fn and_then<U, E>(self, next: impl FnOnce(T) -> Result<Verdict<U>, E>) -> Result<Verdict<U>, E> {
        match self {
            Self::Done(report) => next(report),
            Self::DeadlineExceeded => Ok(Verdict::DeadlineExceeded),
            Self::SandboxViolation { detail } => Ok(Verdict::SandboxViolation { detail }),
            Self::WorkerLost { detail } => Ok(Verdict::WorkerLost { detail }),
        }
    }
}

/// What a report says about the worker that made it.
pub(crate) trait Judged {
    /// Whether everything went as it should, so that the worker may do another job.
    fn is_clean(&self) -> bool;

    /// The debug output in it.
    fn debug(&self) -> impl Iterator<Item = &Lines>;

    /// Whether it has more debug output than `bytes_max`. A worker stops before that, as long as it is its
    /// own master.
    fn talks_too_much(&self, bytes_max: u64) -> bool {
        let bytes = self.debug().map(Lines::bytes).fold(0, u64::saturating_add);
        bytes > bytes_max || self.debug().map(Lines::count).sum::<usize>() > DEBUG_LINES_MAX
    }
}

/// What is said of a worker whose answer [`Judged::talks_too_much`].
pub(crate) const TALKS_TOO_MUCH: &str = "it answered with more debug output than it may";
