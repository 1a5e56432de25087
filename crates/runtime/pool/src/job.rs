//! The frames between a supervisor and its workers: jobs and reports.
//!
//! Encoded with postcard after a `u32` little-endian length. Bulk data (ELF, library) is never inside of them,
//! but in sealed memfds.

mod batch;
mod lease;
mod profile;
mod run;
mod verify;

pub use antares_abi::{CompileLimits, Stage, Tier};
use antares_abi::{CompileOptions, Hints, Sha256Digest};
pub use antares_hosted::job::{
    CellName, DEBUG_LINES_MAX, GroupError, GroupKind, GroupReport, HostedJob, HostedNews, Lines, Omitted,
    Rules, RunOutcome, RunReport, SCRIPT_ERRORS, Samples, VM_ERRORS, VerifyOutcome,
};
use serde::{Deserialize, Serialize};

pub use batch::{BatchJob, BatchReport};
pub use profile::{
    DiagnosisJob, DiagnosisReport, EVIDENCE_BYTES_MAX, PROFILE_BYTES_MAX, ProfileJob, ProfileReport,
    ProfiledReport,
};
pub use run::RunJob;
pub use verify::{
    DOCUMENT_BYTES_MAX, HOT_BYTES_MAX, HOT_PROGRAMS_MAX, HotProgram, KnownGroup, LibraryOf, SharedCell,
    TransactionForm, VerifyFiles, VerifyJob, VerifyReport,
};

/// Maximum bytes of a sampled profile; larger ones are omitted.
pub const SAMPLES_BYTES_MAX: usize = 256 << 10;

/// Maximum stacks of a sampled profile; the cost of further ones counts as other.
pub const SAMPLES_NODES_MAX: usize = 4096;

/// A run worker's job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunWorkerJob<R = RunJob, V = VerifyJob, B = BatchJob, P = ProfileJob, D = DiagnosisJob> {
    /// Runs the script that accompanies the job.
    Run(R),
    /// Verifies the transaction that accompanies the job.
    Verify(V),
    /// Runs the script that accompanies the job with each of many inputs.
    Batch(B),
    /// Runs the script or verifies the transaction that accompanies the job, and profiles its cycles.
    Profile(P),
    /// Like [`RunWorkerJob::Profile`], and retains evidence of the end.
    Diagnose(D),
}

/// A run worker's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunWorkerReport {
    /// To [`RunWorkerJob::Run`], and to each input of a [`RunWorkerJob::Batch`].
    Run(RunReport),
    /// To [`RunWorkerJob::Verify`].
    Verify(VerifyReport),
    /// To [`RunWorkerJob::Batch`], after the reports of its runs.
    Batch(BatchReport),
    /// To [`RunWorkerJob::Profile`].
    Profile(ProfileReport),
    /// To [`RunWorkerJob::Diagnose`].
    Diagnose(DiagnosisReport),
}

/// Minimum bytes of debug output for which a run worker allocates memory, so that the next job may have more
/// than the first.
pub const DEBUG_BYTES_LEAST: u64 = 1 << 20;

impl RunWorkerReport {
    /// The report of a run.
    pub(crate) fn into_run(self) -> Option<RunReport> {
        match self {
            Self::Run(report) => Some(report),
            _ => None,
        }
    }

    /// Whether it has more debug output than `bytes_max`. An honest worker stops before that.
    pub(crate) fn talks_too_much(&self, bytes_max: u64) -> bool {
        let bytes = self.debug().map(Lines::bytes).fold(0, u64::saturating_add);
        bytes > bytes_max || self.debug().map(Lines::count).sum::<usize>() > DEBUG_LINES_MAX
    }

    /// Its debug output.
    fn debug(&self) -> impl Iterator<Item = &Lines> {
        let (run, verified) = match self {
            Self::Run(run) => (Some(run), None),
            Self::Verify(report) => (None, Some(report)),
            Self::Profile(ProfileReport { report, .. })
            | Self::Diagnose(DiagnosisReport { report: ProfileReport { report, .. }, .. }) => match report {
                ProfiledReport::Run(run) => (Some(run), None),
                ProfiledReport::Verify(report) => (None, Some(report)),
            },
            Self::Batch(_) => (None, None),
        };
        let groups = verified.map_or(&[][..], VerifyReport::groups);
        run.map(|run| &run.debug).into_iter().chain(groups.iter().map(|group| &group.debug))
    }
}

/// A compile worker's task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CompileTask {
    /// Compiles the ELF up to this stage.
    Compile(Stage),
    /// Links the parts given instead of an ELF, each after its length as a `u64`, to a shared object.
    Link,
    /// Checks the machine code of the library given instead of an ELF, without output. Rejects code that the
    /// project's generators do not produce ([`CompileReport::Refused`] with the reason `code`).
    Check,
}

impl From<Stage> for CompileTask {
    fn from(stage: Stage) -> Self {
        Self::Compile(stage)
    }
}

impl CompileTask {
    /// Whether it produces a shared object.
    #[must_use]
    pub fn is_library(self) -> bool {
        match self {
            Self::Compile(stage) => stage.is_library(),
            Self::Link => true,
            Self::Check => false,
        }
    }
}

/// One compile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompileJob {
    /// VM version and ISA.
    pub options: CompileOptions,
    /// The task.
    pub task: CompileTask,
    /// Observed jump targets of the script.
    pub hints: Hints,
    /// Limits.
    pub limits: CompileLimits,
}

/// A compile worker's answer. The output memfd contains the bytes of a successful compile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CompileReport {
    /// Done.
    Done(CompileSummary),
    /// The input cannot be compiled: it is malformed or exceeds a limit. The same input has the same answer.
    Refused {
        /// Closed set: `elf`, `limit_code_bytes`, `limit_functions`, `limit_blocks`, `limit_operations`,
        /// `options`, and `code` for [`CompileTask::Check`].
        reason: String,
        /// Description and location.
        detail: String,
    },
    /// The compiler failed.
    Failed {
        /// Description and location.
        detail: String,
    },
}

/// Figures of a successful compile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompileSummary {
    /// Digest of the output bytes.
    pub sha256: Sha256Digest,
    /// Bytes of output.
    pub output_bytes: u64,
    /// Bytes of compiled guest code.
    pub guest_code_bytes: u64,
    /// Functions compiled.
    pub functions: u64,
    /// Blocks compiled.
    pub blocks: u64,
    /// Functions whose optimized form the verifier rejected. If there are any, the script was compiled without
    /// optimisation of its address checks and charges.
    pub unproved_functions: u64,
    /// Blocks that retain LLVM's order of instructions, because the new order was rejected.
    pub refused_orders: u64,
    /// Wall time, milliseconds.
    pub compile_ms: u64,
}
