//! The explanation of a script's failure, and its limits.

pub(crate) mod diagnose;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use strum::{IntoStaticStr, VariantNames};

/// What a second run reported about why the first failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Diagnosed {
    Told { summary: String, json: String },
    Missing(Missing),
}

/// Why there is no diagnosis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub(crate) enum Missing {
    /// The first run was stopped from outside.
    Unfinished,
    /// No instruction ran.
    NothingRan,
    /// Other runs of the same batch used up the diagnoses.
    TooMany,
    Quota,
    WorkersBusy,
    Deadline,
    WorkerLost,
    /// It does not fit, even shortened.
    TooLong,
    /// The second run ended differently: native code was wrong, and no longer runs.
    Different,
}

/// The number of diagnoses that a call may still make.
#[derive(Clone, Debug)]
pub(crate) struct Budget(Arc<AtomicUsize>);

impl Budget {
    pub(crate) fn new(diagnoses: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(diagnoses)))
    }

    /// Takes one diagnosis from the budget, if any remains.
    pub(crate) fn take(&self) -> bool {
        self.0.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok()
    }
}
