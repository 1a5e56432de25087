//! Which compiles are made a second time, and what came of it.

use std::{num::NonZeroU64, sync::Arc};

use antares_abi::Sha256Digest;
use antares_serve::Metrics;
use prometheus::IntCounterVec;
use strum::{IntoStaticStr, VariantNames};
use tokio::sync::Semaphore;

use crate::artifact::CompileError;

/// How a second compile ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub(crate) enum Found {
    Equal,
    Different,
    /// Another one had the turn, or it did not come to its end.
    PassedOver,
}

impl Found {
    pub(crate) fn of(first: Sha256Digest, second: &Result<Sha256Digest, CompileError>) -> Self {
        match second {
            Ok(second) if *second == first => Self::Equal,
            Ok(_) => Self::Different,
            Err(_) => Self::PassedOver,
        }
    }
}

/// Which compiles are made again, and what came of it.
pub(crate) struct Recompiles {
    /// One in so many, if any are.
    one_in: Option<NonZeroU64>,
    /// One at a time.
    pub(crate) turn: Arc<Semaphore>,
    results: IntCounterVec,
}

impl Recompiles {
    pub(crate) fn new(one_in: Option<NonZeroU64>, metrics: &Metrics) -> Self {
        let results = metrics.counters_of(
            "antares_recompiles_total",
            "Compiles that were made again, by whether the library was the same.",
            "result",
            Found::VARIANTS,
        );
        Self { one_in, turn: Arc::new(Semaphore::new(1)), results }
    }

    pub(crate) fn is_drawn(&self) -> bool {
        self.one_in.is_some_and(|one_in| rand::random::<u64>().is_multiple_of(one_in.get()))
    }

    pub(crate) fn record(&self, found: Found) {
        self.results.with_label_values(&[found.into_str()]).inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_compiles_are_compared_by_their_bytes() {
        let [one, other] = [b"one".as_slice(), b"other"].map(Sha256Digest::of);
        assert_eq!(Found::of(one, &Ok(one)), Found::Equal);
        assert_eq!(Found::of(one, &Ok(other)), Found::Different);
        assert_eq!(Found::of(one, &Err(CompileError::Internal)), Found::PassedOver);
    }
}
