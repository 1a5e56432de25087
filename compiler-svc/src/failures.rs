//! Remembers failed compiles: they are not retried until something relevant changes, or until a time that
//! grows with each failure.

use std::time::Duration;

use antares_abi::Sha256Digest;
use antares_config::millis;

use crate::{
    artifact::CompileError,
    blocking::blocking,
    compiler::Shared,
    limits::{REFUSED_TTL, TIMEOUT_TTL},
    order::Order,
    work::compile_limits,
};

/// Reason for a compile that exceeded its time limit.
const TIMEOUT: &str = "timeout";

/// Reason for a compile whose worker was lost repeatedly.
pub(crate) const LOST: &str = "worker_lost";

/// Reason for a compile that violated the sandbox policy.
const VIOLATION: &str = "violation";

/// Reason for a compile in which the compiler failed.
const FAILED: &str = "failed";

/// Factor by which each further failure prolongs the time without retries.
const WAIT_GROWTH: u64 = 8;

/// Longest time without retries after a failure, milliseconds.
const WAIT_MS_MAX: u64 = 86_400_000;

/// How much longer than that the number of failures is remembered, milliseconds.
const TIMES_KNOWN_MS: u64 = 3_600_000;

impl Shared {
    /// Why the compile of `order` is not retried now, if so; counts that.
    pub(crate) async fn withheld(&self, order: &Order) -> Result<Option<CompileError>, CompileError> {
        let failed = self.remembered(order).await?;
        if failed.is_some() {
            self.metrics.withheld.inc();
        }
        Ok(failed)
    }

    pub(crate) async fn remembered(&self, order: &Order) -> Result<Option<CompileError>, CompileError> {
        let (cache, key) = (self.cache.clone(), self.failure_key(order));
        let failure = blocking(move || cache.get_failure(key.0)).await?;
        Ok(failure.map(|failure| match failure.reason.as_str() {
            TIMEOUT => CompileError::Timeout(millis(self.limits.wall_time_max)),
            VIOLATION => CompileError::Violation(failure.detail),
            FAILED => CompileError::Failed(failure.detail),
            _ => CompileError::Refused { reason: failure.reason, detail: failure.detail },
        }))
    }

    /// Remembers a failed compile: a refusal, which would recur, for a fixed time, others for longer each
    /// time. Skips failures unrelated to the script, and the first lost worker.
    pub(crate) async fn remember(&self, order: &Order, error: &CompileError) {
        let (reason, detail, first) = match error {
            CompileError::Refused { reason, detail } => {
                return self.put_failure(self.failure_key(order), (reason, detail), REFUSED_TTL).await;
            }
            CompileError::Timeout { .. } => (TIMEOUT, "", TIMEOUT_TTL),
            CompileError::WorkerLost(detail) => (LOST, detail.as_str(), TIMEOUT_TTL),
            // The same compiler would fail the same way.
            CompileError::Violation(detail) => (VIOLATION, detail.as_str(), REFUSED_TTL),
            CompileError::Failed(detail) => (FAILED, detail.as_str(), REFUSED_TTL),
            _ => return,
        };
        let before = self.times_failed(order).await;
        // One loss may be the machine's fault; a script that loses a worker each time is given up.
        let spared = u32::from(reason == LOST);
        let wait_ms = before.checked_sub(spared).map_or(0, |before| wait_ms(millis(first), before));
        let times = before.saturating_add(1).to_string();
        let known = Duration::from_millis(wait_ms.saturating_mul(2).saturating_add(TIMES_KNOWN_MS));
        self.put_failure(self.times_key(order), ("times", &times), known).await;
        if wait_ms > 0 {
            let wait = Duration::from_millis(wait_ms);
            self.put_failure(self.failure_key(order), (reason, detail), wait).await;
        }
    }

    async fn put_failure(&self, key: Sha256Digest, (reason, detail): (&str, &str), wait: Duration) {
        let (cache, reason, detail) = (self.cache.clone(), reason.to_owned(), detail.to_owned());
        // If this fails, the next compile fails again, or the next failure counts as the first.
        let _ = blocking(move || cache.put_failure(key.0, &reason, &detail, wait)).await;
    }

    /// Number of recent failures.
    async fn times_failed(&self, order: &Order) -> u32 {
        let (cache, key) = (self.cache.clone(), self.times_key(order));
        let Ok(Some(times)) = blocking(move || cache.get_failure(key.0)).await else { return 0 };
        times.detail.parse().unwrap_or(0)
    }

    fn times_key(&self, order: &Order) -> Sha256Digest {
        Sha256Digest::of(&[self.failure_key(order).0.as_slice(), b"times"].concat())
    }

    /// Key of a failure, from everything that decides it: script, hints, engine and processor, as in the
    /// artifact key, and the limits. If any of them changes, the script may pass.
    fn failure_key(&self, order: &Order) -> Sha256Digest {
        let limits = compile_limits(&self.limits);
        let mut bytes = order.storage_key().0.to_vec();
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

/// Time without retries after `before` earlier failures, if it was `first_ms` after the first, milliseconds.
fn wait_ms(first_ms: u64, before: u32) -> u64 {
    let grown = first_ms.saturating_mul(WAIT_GROWTH.saturating_pow(before));
    grown.min(WAIT_MS_MAX.max(first_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_is_remembered_for_longer() {
        let waits: Vec<u64> = (0..6).map(|before| wait_ms(30_000, before)).collect();
        assert_eq!(waits, [30_000, 240_000, 1_920_000, 15_360_000, WAIT_MS_MAX, WAIT_MS_MAX]);
        assert_eq!(wait_ms(2 * WAIT_MS_MAX, 3), 2 * WAIT_MS_MAX);
        assert_eq!(wait_ms(u64::MAX, u32::MAX), u64::MAX);
    }
}
