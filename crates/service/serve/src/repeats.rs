//! Occasional repetition of work by another worker, which reveals wrong results.

use std::{num::NonZeroU64, sync::Arc};

use prometheus::IntCounterVec;
use strum::{IntoStaticStr, VariantNames};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::metrics::Metrics;

/// Result of repeated work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Found {
    Equal,
    Different,
    /// No capacity or no time for it, or it did not finish.
    PassedOver,
}

/// Selects work to repeat, and counts the results.
#[derive(Debug)]
pub struct Repeats {
    one_in: Option<NonZeroU64>,
    places: Arc<Semaphore>,
    results: IntCounterVec,
}

impl Repeats {
    /// Repeats one in `one_in`, if any, and at most `at_once` together; beyond that they are skipped. The
    /// counter has this name and help.
    pub fn new(
        one_in: Option<NonZeroU64>,
        at_once: usize,
        metrics: &Metrics,
        (name, help): (&str, &str),
    ) -> Self {
        let results = metrics.counters_of(name, help, "result", Found::VARIANTS);
        Self { one_in, places: Arc::new(Semaphore::new(at_once)), results }
    }

    /// Whether one of `number` is repeated.
    pub fn is_drawn(&self, number: usize) -> bool {
        self.one_in.is_some_and(|one_in| rand::random::<u64>() % one_in < number as u64)
    }

    /// A place for a repetition. Without one, it is passed over.
    pub fn place(&self) -> Option<OwnedSemaphorePermit> {
        let place = self.places.clone().try_acquire_owned().ok();
        if place.is_none() {
            self.record(Found::PassedOver);
        }
        place
    }

    pub fn record(&self, found: Found) {
        self.results.with_label_values(&[found.into_str()]).inc();
    }
}
