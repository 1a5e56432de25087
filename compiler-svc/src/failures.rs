//! Compiles that failed, remembered: they are not tried again before something that decides them has changed,
//! or a time is over that grows with each failure.

use std::time::Duration;

use antares_abi::Sha256Digest;
use antares_config::millis;

use crate::{
    artifact::CompileError,
    blocking::{Panicked, blocking},
    compiler::Shared,
    limits::{REFUSED_TTL, TIMEOUT_TTL},
    order::Order,
    work::compile_limits,
};

/// Reason of a compile that took too long.
const TIMEOUT: &str = "timeout";

/// Reason of a compile whose worker was lost, again and again.
pub(crate) const LOST: &str = "worker_lost";

/// Reason of a compile that violated the sandbox policy.
const VIOLATION: &str = "violation";

/// Reason of a compile in which the compiler failed.
const FAILED: &str = "failed";

/// A compile that failed again is not tried for so many times as long as before.
const WAIT_GROWTH: u64 = 8;

/// Longest time for which a compile that failed is not tried, milliseconds.
const WAIT_MS_MAX: u64 = 86_400_000;

/// How often a compile has failed is known for so much longer than it is not tried, milliseconds.
const TIMES_KNOWN_MS: u64 = 3_600_000;

impl Shared {
    /// Why the compile of `order` is not tried now, if it is not; that is counted.
    pub(crate) async fn withheld(&self, order: &Order) -> Result<Option<CompileError>, CompileError> {
        let failed = self.remembered(order).await?;
        if failed.is_some() {
            self.metrics.record_withheld();
        }
        Ok(failed)
    }

    pub(crate) async fn remembered(&self, order: &Order) -> Result<Option<CompileError>, CompileError> {
        let (cache, key) = (self.cache.clone(), self.failure_key(order));
        let failure = blocking(move || cache.get_failure(key.0)).await;
        let failure = failure.map_err(|Panicked| CompileError::Internal)?;
        let error = failure.map(|failure| match failure.reason.as_str() {
            TIMEOUT => CompileError::Timeout(millis(self.limits.wall_time_max)),
            VIOLATION => CompileError::Violation(failure.detail),
            FAILED => CompileError::Failed(failure.detail),
            _ => CompileError::Refused { reason: failure.reason, detail: failure.detail },
        });
        Ok(error)
    }

    /// Remembers that a compile failed: a refusal, which a repetition would only repeat, for a fixed time,
    /// all else for longer each time. What has nothing to do with the script is not remembered, nor is the
    /// first worker that it loses.
    pub(crate) async fn remember(&self, order: &Order, error: &CompileError) {
        let (reason, detail, first) = match error {
            CompileError::Refused { reason, detail } => {
                return self.put_failure(order, (reason, detail), REFUSED_TTL).await;
            }
            CompileError::Timeout { .. } => (TIMEOUT, "", TIMEOUT_TTL),
            CompileError::WorkerLost(detail) => (LOST, detail.as_str(), TIMEOUT_TTL),
            // The same compiler makes the same of the same script.
            CompileError::Violation(detail) => (VIOLATION, detail.as_str(), REFUSED_TTL),
            CompileError::Failed(detail) => (FAILED, detail.as_str(), REFUSED_TTL),
            _ => return,
        };
        let before = self.times_failed(order).await;
        // One loss may be the machine's fault; a script that costs a worker each time is let go.
        let spared = u32::from(reason == LOST);
        let wait_ms = before.checked_sub(spared).map_or(0, |before| wait_ms(millis(first), before));
        self.put_times_failed(order, before.saturating_add(1), wait_ms).await;
        if wait_ms > 0 {
            self.put_failure(order, (reason, detail), Duration::from_millis(wait_ms)).await;
        }
    }

    async fn put_failure(&self, order: &Order, (reason, detail): (&str, &str), wait: Duration) {
        let (reason, detail) = (reason.to_owned(), detail.to_owned());
        let (cache, key) = (self.cache.clone(), self.failure_key(order));
        // If it is not remembered, the next compile fails again.
        let _ = blocking(move || cache.put_failure(key.0, &reason, &detail, wait)).await;
    }

    /// How often the compile has failed of late.
    async fn times_failed(&self, order: &Order) -> u32 {
        let (cache, key) = (self.cache.clone(), self.times_key(order));
        let Ok(Some(times)) = blocking(move || cache.get_failure(key.0)).await else { return 0 };
        times.detail.parse().unwrap_or(0)
    }

    async fn put_times_failed(&self, order: &Order, times: u32, wait_ms: u64) {
        let (cache, key) = (self.cache.clone(), self.times_key(order));
        let known = Duration::from_millis(wait_ms.saturating_mul(2).saturating_add(TIMES_KNOWN_MS));
        // If it is not kept, the next failure counts as the first.
        let _ = blocking(move || cache.put_failure(key.0, "times", &times.to_string(), known)).await;
    }

    fn times_key(&self, order: &Order) -> Sha256Digest {
        Sha256Digest::of(&[self.failure_key(order).0.as_slice(), b"times"].concat())
    }

    /// Failures are remembered under what decides them: script, hints, engine and processor, as the artifact
    /// key has them, and the limits. With a change of any of them the same script may pass.
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

/// For how long a compile is not tried that has failed so often before, if it was for `first_ms` after the
/// first time, milliseconds.
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
