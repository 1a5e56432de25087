//! Results of jobs: an answer, or how the worker ended.

/// How a job ended, as far as the supervisor can tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict<T> {
    /// The worker answered.
    Done(T),
    /// The wall-clock deadline passed, or the processor time was exhausted; the worker was killed.
    DeadlineExceeded,
    /// The worker made a system call that its role does not permit; the kernel killed it.
    SandboxViolation {
        /// Description.
        detail: String,
    },
    /// The worker died, or reports that it could not do the job.
    WorkerLost {
        /// Description.
        detail: String,
    },
    /// The worker's report is impossible or missing; the worker was killed. Its script may have taken control,
    /// so nothing in the report is used.
    FalseReport {
        /// Description of the violation.
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
            Self::FalseReport { detail } => Verdict::FalseReport { detail },
        }
    }

    /// The part of the answer that belongs to the job.
    pub(crate) fn part<U>(self, part: impl FnOnce(T) -> Option<U>) -> Verdict<U> {
        let other_kind = || Verdict::FalseReport { detail: "an answer to another kind of job".to_owned() };
        let found = self.and_then(|report| part(report).map(Verdict::Done).ok_or(()));
        found.unwrap_or_else(|()| other_kind())
    }

    /// Maps the answer by `next`, if there is one.
    ///
    /// # Errors
    /// Those of `next`.
    pub fn and_then<U, E>(self, next: impl FnOnce(T) -> Result<Verdict<U>, E>) -> Result<Verdict<U>, E> {
        match self {
            Self::Done(report) => next(report),
            Self::DeadlineExceeded => Ok(Verdict::DeadlineExceeded),
            Self::SandboxViolation { detail } => Ok(Verdict::SandboxViolation { detail }),
            Self::WorkerLost { detail } => Ok(Verdict::WorkerLost { detail }),
            Self::FalseReport { detail } => Ok(Verdict::FalseReport { detail }),
        }
    }
}
