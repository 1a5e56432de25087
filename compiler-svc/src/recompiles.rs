//! Occasional recompiles by another worker, with a comparison of the libraries. Builds are reproducible, so a
//! difference reveals a lying worker, a nondeterministic compiler or failing memory.

use std::{num::NonZeroU64, sync::Arc};

use antares_abi::Sha256Digest;
use antares_cache::Space;
use antares_serve::{Account, Metrics};
use prometheus::IntCounterVec;
use strum::{IntoStaticStr, VariantNames};
use tokio::sync::Semaphore;

use crate::{
    artifact::{Artifact, CompileError},
    blocking::blocking,
    compiler::Shared,
    order::Order,
};

/// Result of a second compile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub(crate) enum Found {
    Equal,
    Different,
    /// Another one was running, or it did not finish.
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

/// Selects compiles to repeat, and counts the results.
pub(crate) struct Recompiles {
    /// Repeats one in this many, if any.
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

impl Shared {
    /// Repeats the compile of `order` in the background, if it was just compiled and is drawn.
    pub(crate) fn compile_again(self: &Arc<Self>, order: &Order, artifact: &Artifact) {
        if artifact.made.is_none() || !self.again.is_drawn() {
            return;
        }
        let Ok(turn) = self.again.turn.clone().try_acquire_owned() else {
            return self.again.record(Found::PassedOver);
        };
        let (shared, first) = (self.clone(), artifact.library.digest());
        // It is charged to no quota.
        let order = Order { account: Account::nobody(), ..order.clone() };
        tokio::spawn(async move {
            let second = shared.second(&order).await;
            let found = Found::of(first, &second);
            if let (Found::Different, Ok(second)) = (found, second) {
                shared.retire(&order, [first, second]).await;
            }
            shared.again.record(found);
            drop(turn);
        });
    }

    async fn second(&self, order: &Order) -> Result<Sha256Digest, CompileError> {
        let elf = self.elf_of(order).await?;
        self.work(order, elf).await.map(|worked| worked.summary.sha256)
    }

    /// Retires an artifact that differed the second time: either of the two may be wrong.
    async fn retire(&self, order: &Order, digests: [Sha256Digest; 2]) {
        let [first, second] = digests;
        tracing::error!(script = %order.script, key = %order.key, %first, %second, "compiled twice, and differently");
        let key = order.storage_key();
        self.tiers.forget(Space::Artifact, key.0);
        let (cache, trust) = (self.cache.clone(), self.signing.trust.clone());
        // If it stays there, its digest is refused, provided that the key list is writable.
        let _ = blocking(move || {
            for digest in digests {
                if let Err(error) = trust.revoke(&digest.to_string()) {
                    tracing::error!(%digest, %error, "cannot be revoked");
                }
            }
            cache.remove(Space::Artifact, key.0)
        })
        .await;
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
