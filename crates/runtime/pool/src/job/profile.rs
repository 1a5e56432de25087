//! A run or a verification that is profiled: what is asked of a run worker, and what it answers.

use serde::{Deserialize, Serialize};

use super::{
    RunReport,
    run::RunJob,
    verify::{VerifyJob, VerifyReport},
};

/// Bytes of a profile, at most.
pub const PROFILE_BYTES_MAX: usize = 32 << 20;

/// What to profile. It is interpreted, whatever tier the job names; libraries are not used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProfileJob {
    /// One execution of the script that is beside the job.
    Run(RunJob),
    /// One verification of the transaction that is beside the job.
    Verify(VerifyJob),
}

/// How what was profiled ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProfiledReport {
    /// To [`ProfileJob::Run`].
    Run(RunReport),
    /// To [`ProfileJob::Verify`].
    Verify(VerifyReport),
}

/// What a run worker answers to a [`ProfileJob`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileReport {
    /// The report, as without a profile.
    pub report: ProfiledReport,
    /// An encoded profile, at most [`PROFILE_BYTES_MAX`]. Its sum is the cycles of the report.
    pub profile: Vec<u8>,
    /// Cycles by which what was recorded missed those of the report, either way; they stand in the profile as
    /// other, as far as they were missing. Always 0, unless Antares has a mistake.
    pub mismatch_cycles: u64,
}

/// Bytes of evidence, at most.
pub const EVIDENCE_BYTES_MAX: usize = 16 << 20;

/// A run that failed, or a script group that did, once more: in the interpreter, to find out why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiagnosisJob {
    /// What to run. Of a transaction, the group that failed.
    pub job: ProfileJob,
    /// Cycles of the run or the group from which on instructions are followed one by one.
    pub follow_from: u64,
    /// System calls that are kept.
    pub system_calls_max: u32,
    /// Instructions that are kept.
    pub steps_max: u32,
    /// Bytes of the diagnosis that the worker makes of the evidence, in JSON; 0 if whoever asks makes it.
    pub reported_bytes_max: u32,
}

/// What a run worker answers to a [`DiagnosisJob`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiagnosisReport {
    /// The report, as without a diagnosis, and the profile; that is empty if the worker makes the diagnosis.
    pub report: ProfileReport,
    /// Encoded evidence, at most [`EVIDENCE_BYTES_MAX`]; empty if no script was run, or the worker makes the
    /// diagnosis.
    pub evidence: Vec<u8>,
    /// The diagnosis in JSON, if the worker was to make it; empty if no script was run, or it does not fit.
    pub reported: String,
}
