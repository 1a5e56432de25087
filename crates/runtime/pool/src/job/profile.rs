//! A profiled run or verification: its job and its report.

use serde::{Deserialize, Serialize};

use super::{
    RunReport,
    run::RunJob,
    verify::{VerifyJob, VerifyReport},
};

/// Maximum bytes of a profile.
pub const PROFILE_BYTES_MAX: usize = 32 << 20;

/// A run or verification to profile. It is always interpreted, without libraries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProfileJob {
    /// Runs the script that accompanies the job.
    Run(RunJob),
    /// Verifies the transaction that accompanies the job.
    Verify(VerifyJob),
}

/// The result of the profiled run or verification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProfiledReport {
    /// To [`ProfileJob::Run`].
    Run(RunReport),
    /// To [`ProfileJob::Verify`].
    Verify(VerifyReport),
}

/// The answer to a [`ProfileJob`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileReport {
    /// The report, as without a profile.
    pub report: ProfiledReport,
    /// An encoded profile, at most [`PROFILE_BYTES_MAX`]. Its sum is the cycles of the report.
    pub profile: Vec<u8>,
    /// Difference between the recorded cycles and those of the report. Missing cycles count as other in the
    /// profile. Always 0, unless Antares has a bug.
    pub mismatch_cycles: u64,
}

/// Maximum bytes of evidence.
pub const EVIDENCE_BYTES_MAX: usize = 16 << 20;

/// Runs a failed run or script group again in the interpreter, to find out why it failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiagnosisJob {
    /// The run, or the transaction with the failed group.
    pub job: ProfileJob,
    /// Cycles from which on instructions are traced.
    pub follow_from: u64,
    /// Maximum retained system calls.
    pub system_calls_max: u32,
    /// Maximum retained instructions.
    pub steps_max: u32,
    /// Bytes of the diagnosis that the worker makes of the evidence, in JSON; 0 if whoever asks makes it.
    pub reported_bytes_max: u32,
}

/// The answer to a [`DiagnosisJob`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiagnosisReport {
    /// The report, as without a diagnosis, and the profile, which is empty if the worker makes the diagnosis.
    pub report: ProfileReport,
    /// Encoded evidence, at most [`EVIDENCE_BYTES_MAX`]; empty if no script ran, or the worker makes the
    /// diagnosis.
    pub evidence: Vec<u8>,
    /// The diagnosis in JSON, if the worker was to make it; empty if no script was run, or it does not fit.
    pub reported: String,
}
