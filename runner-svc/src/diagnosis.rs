//! What is told of why a script failed, and how much of it there may be.

pub(crate) mod diagnose;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use strum::{IntoStaticStr, VariantNames};

/// What a second run told of why the first failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Diagnosed {
    Told { summary: String, json: String },
    Missing(Missing),
}

/// Why there is no diagnosis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub(crate) enum Missing {
    /// The first run was ended from outside.
    Unfinished,
    /// No instruction was run.
    NothingRan,
    /// Others of the same batch have theirs.
    TooMany,
    Quota,
    WorkersBusy,
    Deadline,
    WorkerLost,
    /// It does not fit, however it is shortened.
    TooLong,
    /// The second run ended otherwise: native code was wrong, and is not run any more.
    Different,
}

/// How many runs of a call may still be told why they failed.
#[derive(Clone, Debug)]
pub(crate) struct Budget(Arc<AtomicUsize>);

impl Budget {
    pub(crate) fn new(diagnoses: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(diagnoses)))
    }

    /// Whether there is one more, which is taken.
    pub(crate) fn take(&self) -> bool {
        self.0.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok()
    }
}
