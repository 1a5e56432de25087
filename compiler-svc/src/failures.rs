//! Compiles that failed, remembered: what a repetition would only repeat.

use std::time::Duration;

use antares_abi::Sha256Digest;
use antares_serve::chain;

use crate::{
    blocking::{Panicked, blocking},
    compiler::{CompileError, Shared, compile_limits, internal},
    order::Order,
};

/// Reason of a compile that took too long.
const TIMEOUT: &str = "timeout";

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

    /// Remembers what a repetition would only repeat: refusals for long, timeouts for a short time. What was our fault
    /// is never remembered.
    pub(crate) async fn remember(&self, order: &Order, error: &CompileError) {
        let (reason, detail, ttl_ms) = match error {
            CompileError::Refused { reason, detail } => {
                (reason.clone(), detail.clone(), self.limits.refused_ttl_ms)
            }
            CompileError::Timeout { .. } => (TIMEOUT.to_owned(), String::new(), self.limits.timeout_ttl_ms),
            _ => return,
        };
        let (cache, key) = (self.cache.clone(), self.failure_key(order));
        let put = blocking(move || cache.put_failure(key.0, &reason, &detail, Duration::from_millis(ttl_ms)));
        if let Ok(Err(error)) = put.await {
            tracing::warn!(error = chain(&error), "a failure is not remembered");
        }
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
