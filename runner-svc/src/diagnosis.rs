//! What is told of why a script failed, and how much of it there may be.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use antares_serve::Metrics;
use prometheus::IntCounterVec;
use tokio::sync::Semaphore;

use crate::limits::DIAGNOSES_AT_ONCE_MAX;

/// What a second run told of why the first failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Diagnosed {
    Told { summary: String, json: String },
    Missing(Missing),
}

/// Why there is no diagnosis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

impl Missing {
    const ALL: [Self; 9] = [
        Self::Unfinished,
        Self::NothingRan,
        Self::TooMany,
        Self::Quota,
        Self::WorkersBusy,
        Self::Deadline,
        Self::WorkerLost,
        Self::TooLong,
        Self::Different,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Unfinished => "unfinished",
            Self::NothingRan => "nothing_ran",
            Self::TooMany => "too_many",
            Self::Quota => "quota",
            Self::WorkersBusy => "workers_busy",
            Self::Deadline => "deadline",
            Self::WorkerLost => "worker_lost",
            Self::TooLong => "too_long",
            Self::Different => "different",
        }
    }
}

/// How many diagnoses are made at once, and what came of them.
pub(crate) struct Diagnoses {
    pub(crate) places: Semaphore,
    results: IntCounterVec,
}

impl Diagnoses {
    pub(crate) fn new(workers_max: usize, metrics: &Metrics) -> Self {
        let help = "Failed runs whose callers asked why, by what came of it.";
        let results = metrics.counters("antares_diagnoses_total", help, &["result"]);
        for result in std::iter::once("told").chain(Missing::ALL.map(Missing::name)) {
            results.with_label_values(&[result]);
        }
        // Half of the workers at most: others have runs that have not failed.
        let places = (workers_max / 2).clamp(1, DIAGNOSES_AT_ONCE_MAX);
        Self { places: Semaphore::new(places), results }
    }

    pub(crate) fn note(&self, diagnosed: Result<(), Missing>) {
        let result = diagnosed.map_or_else(Missing::name, |()| "told");
        self.results.with_label_values(&[result]).inc();
    }
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
