//! Compiles that failed, remembered: what a repetition would only repeat.

use std::time::Duration;

use antares_abi::Sha256Digest;
use antares_serve::chain;

use crate::{
    blocking::{Panicked, blocking},
    compiler::{CompileError, Shared, internal},
    order::Order,
    work::compile_limits,
};

/// Reason of a compile that took too long.
const TIMEOUT: &str = "timeout";

/// Reason of a compile whose worker was lost, again and again.
pub(crate) const LOST: &str = "worker_lost";

/// A lost worker is noted for so long at least, milliseconds: full compiles behind a baseline come again after ten minutes.
const LOSS_NOTED_MS_MIN: u64 = 3_600_000;

impl Shared {
    pub(crate) async fn remembered(&self, order: &Order) -> Result<Option<CompileError>, CompileError> {
        let (cache, key) = (self.cache.clone(), self.failure_key(order));
        let failure = match blocking(move || cache.get_failure(key.0)).await {
            Ok(Ok(failure)) => failure,
            Ok(Err(error)) => return Err(internal("read the cache", &error)),
            Err(Panicked) => return Err(CompileError::Internal),
        };
        Ok(failure.map(|failure| match failure.reason.as_str() {
            TIMEOUT => CompileError::Timeout { wall_ms_max: self.limits.wall_ms_max },
            _ => CompileError::Refused { reason: failure.reason, detail: failure.detail },
        }))
    }

    /// Remembers what a repetition would only repeat: refusals for long, timeouts and workers lost twice for a short time. What was
    /// our fault is never remembered.
    pub(crate) async fn remember(&self, order: &Order, error: &CompileError) {
        let (reason, detail, ttl_ms) = match error {
            CompileError::Refused { reason, detail } => {
                (reason.clone(), detail.clone(), self.limits.refused_ttl_ms)
            }
            CompileError::Timeout { .. } => (TIMEOUT.to_owned(), String::new(), self.limits.timeout_ttl_ms),
            // One loss may be the machine's fault; a script that costs a worker each time is let go, for a while.
            CompileError::WorkerLost { detail } => {
                if !self.is_lost_again(order).await {
                    return;
                }
                (LOST.to_owned(), detail.clone(), self.limits.timeout_ttl_ms)
            }
            _ => return,
        };
        let (cache, key) = (self.cache.clone(), self.failure_key(order));
        let put = blocking(move || cache.put_failure(key.0, &reason, &detail, Duration::from_millis(ttl_ms)));
        if let Ok(Err(error)) = put.await {
            tracing::warn!(error = chain(&error), "a failure is not remembered");
        }
    }

    /// Whether the compile lost a worker lately; notes that it did.
    async fn is_lost_again(&self, order: &Order) -> bool {
        let mut key = self.failure_key(order).0.to_vec();
        key.extend(LOST.as_bytes());
        let (cache, key) = (self.cache.clone(), Sha256Digest::of(&key));
        let ttl = Duration::from_millis(self.limits.timeout_ttl_ms.max(LOSS_NOTED_MS_MIN));
        let noted = blocking(move || {
            let before = cache.get_failure(key.0)?;
            cache.put_failure(key.0, LOST, "", ttl)?;
            Ok::<_, antares_cache::CacheError>(before.is_some())
        });
        matches!(noted.await, Ok(Ok(true)))
    }

    /// Failures are remembered under artifact key and limits: with higher limits the same script may pass.
    fn failure_key(&self, order: &Order) -> Sha256Digest {
        let limits = compile_limits(&self.limits);
        let mut bytes = order.kept_key().0.to_vec();
        for number in [
            limits.code_bytes_max,
            limits.functions_max,
            limits.blocks_max,
            limits.operations_max,
            limits.memory_bytes_max,
            limits.wall_ms_max,
        ] {
            bytes.extend(number.to_le_bytes());
        }
        Sha256Digest::of(&bytes)
    }
}
