//! The section `trace` as it is written.

use serde::{Deserialize, Serialize};

/// Section `[trace]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawTrace {
    /// OTLP over gRPC, such as `http://localhost:4317`; empty switches traces off.
    pub endpoint: String,
    /// Share of calls that are traced where the caller has not decided, 0.0 to 1.0.
    pub sample_ratio: f64,
    /// Spans that wait for the collector; more are dropped.
    pub queue_max: u64,
    /// How long one export may take, milliseconds.
    pub timeout_ms: u64,
}

impl Default for RawTrace {
    fn default() -> Self {
        Self { endpoint: String::new(), sample_ratio: 1.0, queue_max: 2048, timeout_ms: 2_000 }
    }
}
