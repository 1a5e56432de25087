//! The sampled profile of a run or a verification.

use serde::{Deserialize, Serialize};

/// Bytes of a sampled profile, at most; a larger one is left out.
pub const SAMPLES_BYTES_MAX: usize = 256 << 10;

/// Stacks of a sampled profile, at most; what is in others counts as other.
pub const SAMPLES_NODES_MAX: usize = 4096;

/// A sampled profile of a run or a verification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Samples {
    /// An encoded profile, at most [`SAMPLES_BYTES_MAX`]. Its sum is the cycles of the report.
    pub profile: Vec<u8>,
    /// What the last samples stand for beyond the cycles of the run, as an encoded profile: to be counted
    /// there, in place of cycles of other runs that are unseen.
    pub claims: Vec<u8>,
    /// Cycles that count as other and that samples might have hit.
    pub unseen_cycles: u64,
    /// As [`ProfileReport::mismatch_cycles`](super::ProfileReport::mismatch_cycles).
    pub mismatch_cycles: u64,
}
