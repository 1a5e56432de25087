//! The messages of each kind of job, and the size limits of its answers.

use antares_abi::HINTS_MAX;
use serde::Serialize;

use super::{
    BatchJob, BatchReport, CompileJob, CompileReport, DiagnosisJob, DiagnosisReport, EVIDENCE_BYTES_MAX,
    HOT_BYTES_MAX, HOT_PROGRAMS_MAX, PROFILE_BYTES_MAX, ProfileJob, ProfileReport, RunJob, RunReport,
    RunWorkerJob, RunWorkerReport, SAMPLES_BYTES_MAX, VerifyJob, VerifyReport,
};
use crate::{REPORT_BYTES_MAX, call::Job, started::Answers};

/// Bytes of a report except debug output: lengths of 65,536 lines, error texts, numbers.
const REPORT_OVERHEAD_BYTES: usize = 512 << 10;

/// Bytes of the reports of a transaction's groups except debug output: at most 49,152 groups, and each cell's
/// index in its groups.
const GROUPS_BYTES_MAX: u64 = 8 << 20;

/// Bytes of the programs that a verification reports as hot, with hints: a number takes at most five.
const HOT_BYTES: u64 = (HOT_PROGRAMS_MAX * (HOT_BYTES_MAX + 5 * HINTS_MAX + 64)) as u64;

/// Bytes of a batch's report of one run except debug output: an error's detail is the longest part.
const RUN_BYTES_MAX: usize = 8 << 10;

/// A borrowed job for a run worker.
type LeasedJob<'a> = RunWorkerJob<&'a RunJob, &'a VerifyJob, &'a BatchJob, &'a ProfileJob, &'a DiagnosisJob>;

impl Job for RunJob {
    type Reply = RunWorkerReport;
    type Report = RunReport;

    fn message(&self) -> impl Serialize {
        LeasedJob::Run(self)
    }

    fn debug_bytes_max(&self) -> u64 {
        self.debug_bytes_max
    }

    fn reply_bytes_max(&self) -> usize {
        report_bytes_max(self.debug_bytes_max.saturating_add(samples_bytes(self.sample_cycles, 1)))
    }

    fn report(&self, reply: RunWorkerReport) -> Option<RunReport> {
        reply.into_run()
    }
}

impl Job for VerifyJob {
    type Reply = RunWorkerReport;
    type Report = VerifyReport;

    fn message(&self) -> impl Serialize {
        LeasedJob::Verify(self)
    }

    fn debug_bytes_max(&self) -> u64 {
        self.debug_bytes_max
    }

    fn reply_bytes_max(&self) -> usize {
        let beside = GROUPS_BYTES_MAX + HOT_BYTES + samples_bytes(self.sample_cycles, 1);
        report_bytes_max(self.debug_bytes_max.saturating_add(beside))
    }

    fn report(&self, reply: RunWorkerReport) -> Option<VerifyReport> {
        VerifyReport::of(reply)
    }
}

impl Job for ProfileJob {
    type Reply = RunWorkerReport;
    type Report = ProfileReport;

    fn message(&self) -> impl Serialize {
        LeasedJob::Profile(self)
    }

    fn debug_bytes_max(&self) -> u64 {
        match self {
            Self::Run(job) => job.debug_bytes_max,
            Self::Verify(job) => job.debug_bytes_max,
        }
    }

    fn reply_bytes_max(&self) -> usize {
        let beside = match self {
            Self::Run(_) => 0,
            Self::Verify(_) => GROUPS_BYTES_MAX + HOT_BYTES,
        };
        report_bytes_max(self.debug_bytes_max().saturating_add(beside + PROFILE_BYTES_MAX as u64))
    }

    fn report(&self, reply: RunWorkerReport) -> Option<ProfileReport> {
        match reply {
            RunWorkerReport::Profile(report) => Some(report),
            _ => None,
        }
    }
}

impl Job for DiagnosisJob {
    type Reply = RunWorkerReport;
    type Report = DiagnosisReport;

    fn message(&self) -> impl Serialize {
        LeasedJob::Diagnose(self)
    }

    fn debug_bytes_max(&self) -> u64 {
        self.job.debug_bytes_max()
    }

    fn reply_bytes_max(&self) -> usize {
        let reported = usize::try_from(self.reported_bytes_max).unwrap_or(usize::MAX);
        self.job.reply_bytes_max().saturating_add(EVIDENCE_BYTES_MAX.max(reported)).min(REPORT_BYTES_MAX)
    }

    fn report(&self, reply: RunWorkerReport) -> Option<DiagnosisReport> {
        match reply {
            RunWorkerReport::Diagnose(report) => Some(report),
            _ => None,
        }
    }
}

impl Job for BatchJob {
    type Reply = RunWorkerReport;
    type Report = BatchReport;

    fn message(&self) -> impl Serialize {
        LeasedJob::Batch(self)
    }

    fn debug_bytes_max(&self) -> u64 {
        self.debug_bytes_max
    }

    fn reply_bytes_max(&self) -> usize {
        let runs = RUN_BYTES_MAX.saturating_mul(self.inputs.len());
        let debug = report_bytes_max(self.debug_bytes_max.saturating_add(self.output_bytes_max));
        // A worker stops sending samples at the limit.
        let samples = usize::try_from(samples_bytes(self.sample_cycles, 2)).unwrap_or(0);
        debug.saturating_add(runs).saturating_add(samples)
    }

    fn report(&self, reply: RunWorkerReport) -> Option<BatchReport> {
        match reply {
            RunWorkerReport::Batch(report) => Some(report),
            _ => None,
        }
    }
}

impl Job for CompileJob {
    type Reply = CompileReport;
    type Report = CompileReport;
    const COMPILES: bool = true;

    fn message(&self) -> impl Serialize {
        self
    }

    fn debug_bytes_max(&self) -> u64 {
        0
    }

    fn reply_bytes_max(&self) -> usize {
        REPORT_OVERHEAD_BYTES
    }

    fn report(&self, reply: CompileReport) -> Option<CompileReport> {
        Some(reply)
    }
}

/// Maximum bytes of the sampled profiles of `runs`.
fn samples_bytes(sample_cycles: u64, runs: u64) -> u64 {
    if sample_cycles == 0 { 0 } else { runs.saturating_mul(SAMPLES_BYTES_MAX as u64) }
}

fn report_bytes_max(debug_bytes_max: u64) -> usize {
    let debug = usize::try_from(debug_bytes_max).unwrap_or(usize::MAX);
    debug.saturating_add(REPORT_OVERHEAD_BYTES).min(REPORT_BYTES_MAX)
}
